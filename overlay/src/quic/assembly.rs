//! Assembly of the frames of one stream. Bytes are read into the buffer in which their frame is
//! delivered. Only the start of a frame may be moved, if it came into a buffer without room for the
//! rest.

use std::sync::Arc;

use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};

use super::buffers::{Buffer, Buffers, SHORT};
use super::frame::{HEADER_LEN, Header, RefusedFrame};

/// The most bytes that one read takes, as the connection is locked meanwhile. A guess: with more
/// the connection waits longer, with less there are more reads.
const AT_ONCE: usize = 64 << 10;

/// The frame of a stream that is being assembled. Between frames a stream holds no more than a
/// short buffer, however long the last frame was: the memory of a long frame is counted while it is
/// assembled, that of a stream between frames is not.
#[derive(Debug)]
pub(super) struct Assembly {
    /// The longest body; longer ones are refused.
    body_max: usize,
    /// The header of the frame, once it is complete.
    header: Option<Header>,
    buffer: Buffer,
    /// The source of new buffers.
    buffers: Arc<Buffers>,
}

/// The next result of the bytes that have come.
#[derive(Debug)]
pub(super) enum Step {
    /// Not enough bytes for a result.
    Part,
    /// A complete header. [`Assembly::space`] makes room for its frame.
    Begun(Header),
    /// A complete frame.
    Whole(Header, Bytes),
}

impl Assembly {
    pub(super) fn new(body_max: usize, buffers: Arc<Buffers>) -> Self {
        Self {
            body_max,
            header: None,
            buffer: Buffer::default(),
            buffers,
        }
    }

    /// Whether no byte of a next frame has come.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.bytes.is_empty()
    }

    /// The space to read into; it is not empty once [`Assembly::step`] returns [`Step::Part`].
    /// Behind a long frame no more than the next header is read, as it has to be moved.
    pub(super) fn space(&mut self) -> Limit<&mut BytesMut> {
        let wanted = self.wanted();
        if self.buffer.bytes.capacity() < wanted {
            self.buffers.make_room(&mut self.buffer, wanted);
        }
        let ahead = if wanted > SHORT { HEADER_LEN } else { SHORT };
        let most = (wanted + ahead).saturating_sub(self.buffer.bytes.len());
        (&mut self.buffer.bytes).limit(most.min(AT_ONCE))
    }

    /// The next result of the bytes that have come.
    pub(super) fn step(&mut self) -> Result<Step, RefusedFrame> {
        let Some(header) = self.header else {
            self.header = Header::parse(&self.buffer.bytes, self.body_max)?;
            return Ok(self.header.map_or(Step::Part, Step::Begun));
        };
        let wanted = header.frame_len();
        if self.buffer.bytes.len() < wanted {
            return Ok(Step::Part);
        }
        self.header = None;
        let frame = self.buffer.bytes.split_to(wanted).freeze();
        if wanted > SHORT {
            self.let_go();
        }
        Ok(Step::Whole(header, frame))
    }

    /// Keep the bytes that came behind a long frame, but not the frame's buffer.
    fn let_go(&mut self) {
        let rest = match self.is_empty() {
            true => Buffer::default(),
            false => Buffer::short(&self.buffer.bytes),
        };
        self.buffers.keep(std::mem::replace(&mut self.buffer, rest));
    }

    /// How many bytes the next result needs.
    fn wanted(&self) -> usize {
        self.header.as_ref().map_or(HEADER_LEN, Header::frame_len)
    }
}

impl Drop for Assembly {
    fn drop(&mut self) {
        self.buffers.keep(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::quic::frame::put_header;

    /// An assembly with buffers of its own.
    fn assembly(body_max: usize) -> Assembly {
        Assembly::new(body_max, Arc::default())
    }

    fn stream(lengths: &[usize]) -> Vec<u8> {
        let mut stream = BytesMut::new();
        for (number, length) in lengths.iter().enumerate() {
            put_header(&mut stream, &[], *length);
            stream.put_bytes(number as u8, *length);
        }
        stream.to_vec()
    }

    /// Read `most` bytes of the stream at most, once. Returns the bodies that are complete then.
    async fn read(assembly: &mut Assembly, stream: &mut &[u8], most: usize) -> Vec<Bytes> {
        let mut space = assembly.space();
        let part = stream.take(most as u64).read_buf(&mut space).await;
        assert_ne!(part.expect("memory"), 0, "room, while there is something");
        let mut bodies = Vec::new();
        loop {
            match assembly.step().expect("good frames") {
                Step::Part => return bodies,
                Step::Begun(_) => {}
                Step::Whole(_, frame) => bodies.push(frame.slice(HEADER_LEN..)),
            }
        }
    }

    #[tokio::test]
    async fn frames_are_whole_however_their_stream_is_cut() {
        let lengths = [0, 3, 5000, 300_000, 1, 1, 70_000, 4096, 20, 9000, 0];
        let all = stream(&lengths);
        for most in [1, 7, 100, 1400, 4096, 100_000, all.len()] {
            let (mut assembly, mut rest) = (assembly(300_000), &all[..]);
            let mut bodies = Vec::new();
            while !rest.is_empty() {
                bodies.extend(read(&mut assembly, &mut rest, most).await);
            }
            assert!(assembly.is_empty());
            for (number, (body, length)) in bodies.iter().zip(lengths).enumerate() {
                assert_eq!(body.len(), length, "{most}");
                assert!(body.iter().all(|byte| *byte == number as u8), "{most}");
            }
            assert_eq!(bodies.len(), lengths.len(), "{most}");
        }
    }

    /// Otherwise a quiet stream, or a receiver that keeps a short frame which came behind a long
    /// one, would keep the long one's memory uncounted.
    #[tokio::test]
    async fn nothing_but_a_long_frame_holds_its_buffer() {
        let none: &[usize] = &[];
        for long in [SHORT, 5000, 200_000] {
            for behind in [none, &[0], &[0, 0, 100], &[50_000]] {
                let all = stream(&[&[long], behind].concat());
                // All bytes behind the long frame, or no more than the next header.
                for end in [all.len(), HEADER_LEN + long + HEADER_LEN] {
                    let (mut assembly, mut rest) = (assembly(200_000), &all[..]);
                    rest = &rest[..end.min(all.len())];
                    let mut bodies = Vec::new();
                    while !rest.is_empty() {
                        bodies.extend(read(&mut assembly, &mut rest, all.len()).await);
                    }
                    assembly.buffers.clear();
                    assert!(bodies[0].is_unique(), "{long}, {behind:?}, {end}");
                }
            }
        }
    }

    #[tokio::test]
    async fn little_is_read_behind_a_long_frame() {
        let all = stream(&[100_000, 100_000, 100_000]);
        let (mut assembly, mut rest) = (assembly(100_000), &all[..]);
        let mut whole = 0;
        while whole < 2 {
            let left = rest.len();
            let bodies = read(&mut assembly, &mut rest, all.len()).await;
            assert!(left - rest.len() <= AT_ONCE);
            whole += bodies.len();
            assert!(bodies.is_empty() || assembly.buffer.bytes.len() <= HEADER_LEN);
        }
    }

    #[test]
    fn another_version_is_refused_by_its_first_byte() {
        let mut assembly = assembly(1);
        assembly.space().put_u8(9);
        assert_eq!(assembly.step().unwrap_err(), RefusedFrame::Version);
    }
}
