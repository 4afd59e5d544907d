//! Buffers in which frames are assembled. Long buffers are kept for a while, and one is used again
//! once no frame in it is in use.
//!
//! A frame is in use from its arrival until its last copy is passed on. New memory for each frame
//! would be cold, or come from the operating system, page by page.
//!
//! A holder of a frame keeps the whole buffer but counts only the frame. So a buffer above
//! [`SHORT`] has one frame, and is at most twice as long as that frame's length, rounded up to a
//! multiple of [`BLOCK`].

use std::sync::{Mutex, PoisonError};

use bytes::BytesMut;

/// The size of a buffer that short frames share, and the least size that is requested. Such buffers
/// are not kept, as the allocator is good at this size.
pub(super) const SHORT: usize = 4 << 10;
/// The unit of longer buffers: their sizes are multiples of it.
const BLOCK: usize = 4 << 10;
/// How many buffers are kept. When there are more, the one kept longest is let go, and is freed
/// with the last of its frames. A guess: with fewer than the frames that a busy node has in use,
/// memory is requested anew.
const KEPT: usize = 32;
/// How many bytes the kept buffers may have; beyond that, too, those kept longest are let go. A
/// guess: a few frames of the usual greatest length.
const KEPT_BYTES: usize = 16 << 20;

/// The buffers of one transport whose frames may still be in use.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The buffers that were kept last are at the end. Each has its size beside it, since a handle
    /// does not show the size while frames share the buffer.
    kept: Mutex<Vec<(usize, BytesMut)>>,
}

/// A buffer and its size.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    size: usize,
    pub(super) bytes: BytesMut,
}

impl Buffers {
    /// Make room in `buffer` for a frame of `length` bytes in all. If it is too short or much too
    /// long, another buffer with the same content takes its place.
    pub(super) fn make_room(&self, buffer: &mut Buffer, length: usize) {
        if buffer.bytes.capacity() >= length && is_apt(buffer.size, length) {
            return;
        }
        let mut roomy = self.take(length);
        roomy.bytes.extend_from_slice(&buffer.bytes);
        self.keep(std::mem::replace(buffer, roomy));
    }

    /// Let all kept buffers go: each is freed once no frame uses it.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn take(&self, length: usize) -> Buffer {
        let size = size_for(length);
        if size > SHORT {
            let mut kept = self.lock();
            let free = kept.iter_mut().rposition(|(size, bytes)| {
                *size >= length && is_apt(*size, length) && bytes.try_reclaim(length)
            });
            if let Some(place) = free {
                let (size, bytes) = kept.remove(place);
                return Buffer { size, bytes };
            }
        }
        Buffer::of(size)
    }

    /// Take back a buffer that is read into no more, to use it again once no frame in it is in use.
    /// A short buffer is let go, and so is one that is longer than all that may be kept.
    pub(super) fn keep(&self, Buffer { size, mut bytes }: Buffer) {
        bytes.clear();
        if size <= SHORT || size > KEPT_BYTES {
            return;
        }
        let mut kept = self.lock();
        kept.push((size, bytes));
        let mut total: usize = kept.iter().map(|(size, _)| size).sum();
        while kept.len() > KEPT || total > KEPT_BYTES {
            total -= kept.remove(0).0;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(usize, BytesMut)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The length of a new buffer for a frame of this length.
fn size_for(length: usize) -> usize {
    match length <= SHORT / 2 {
        true => SHORT,
        false => length.next_multiple_of(BLOCK),
    }
}

/// Whether a buffer of this size is not too long for a frame of this length.
fn is_apt(size: usize, length: usize) -> bool {
    size <= 2 * size_for(length)
}

impl Buffer {
    /// A buffer for short frames, with these bytes in it.
    pub(super) fn short(bytes: &[u8]) -> Self {
        let mut short = Self::of(SHORT);
        short.bytes.extend_from_slice(bytes);
        short
    }

    fn of(size: usize) -> Self {
        let bytes = BytesMut::with_capacity(size);
        Self { size, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of `length` bytes, assembled in `buffer`.
    fn frame(buffers: &Buffers, buffer: &mut Buffer, length: usize) -> bytes::Bytes {
        buffers.make_room(buffer, length);
        buffer.bytes.resize(length, 7);
        buffer.bytes.split_to(length).freeze()
    }

    #[test]
    fn a_buffer_is_used_again_once_its_frames_are_gone() {
        let (buffers, mut buffer) = (Buffers::default(), Buffer::default());
        let first = frame(&buffers, &mut buffer, 9 * BLOCK);
        let place = first.as_ptr();
        let second = frame(&buffers, &mut buffer, 9 * BLOCK);
        assert_ne!(second.as_ptr(), place, "the first is still held");
        drop(first);
        let third = frame(&buffers, &mut buffer, 9 * BLOCK);
        assert_eq!(third.as_ptr(), place);
        assert_eq!(buffers.lock().len(), 1, "that of the second");
        assert!(second.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn short_frames_share_a_buffer_and_a_begun_frame_moves_to_a_longer_one() {
        let (buffers, mut buffer) = (Buffers::default(), Buffer::default());
        let first = frame(&buffers, &mut buffer, 100);
        let second = frame(&buffers, &mut buffer, 100);
        assert_eq!(second.as_ptr(), first.as_ptr().wrapping_add(100));
        buffer.bytes.extend_from_slice(b"begun");
        buffers.make_room(&mut buffer, 9 * BLOCK);
        assert_eq!(buffer.bytes.as_ref(), b"begun");
        assert!(buffer.bytes.capacity() >= 9 * BLOCK);
        assert!(buffers.lock().is_empty(), "short ones are not kept");
    }

    /// A long buffer is not used on for much shorter frames. If it were, the holder of one frame of
    /// 5 KiB that came after one of 16 MiB would keep 16 MiB in memory.
    #[test]
    fn no_frame_holds_much_more_than_its_length() {
        let buffers = Buffers::default();
        for long in [16 << 20, 1 << 20, 64 << 10] {
            for length in [SHORT / 2 + 1, 5 << 10, 40 << 10, 300 << 10] {
                buffers.keep(Buffer::of(long));
                let mut buffer = Buffer::of(long);
                buffers.make_room(&mut buffer, length);
                let bound = (2 * length).next_multiple_of(2 * BLOCK);
                assert!(buffer.size <= bound, "{length} of {long}");
                assert!(buffer.bytes.capacity() >= length);
            }
        }
    }

    #[test]
    fn no_more_is_kept_than_the_bounds() {
        let buffers = Buffers::default();
        for _ in 0..3 * KEPT {
            buffers.keep(Buffer::of(2 * BLOCK));
        }
        assert_eq!(buffers.lock().len(), KEPT);
        for _ in 0..9 {
            buffers.keep(Buffer::of(KEPT_BYTES / 2));
        }
        let sizes: Vec<usize> = buffers.lock().iter().map(|(size, _)| *size).collect();
        assert_eq!(sizes, [KEPT_BYTES / 2; 2]);
        buffers.keep(Buffer::of(2 * KEPT_BYTES));
        assert_eq!(buffers.lock().len(), 2, "longer than all that is kept");
        buffers.clear();
        assert!(buffers.lock().is_empty());
    }
}
