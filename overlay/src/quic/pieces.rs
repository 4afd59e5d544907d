//! The pieces of a batch of frames, as they are handed to their stream.

use bytes::{Bytes, BytesMut};

use super::book::Contact;
use super::frame::{self, Frame};

/// A head or payload of at most this many bytes is copied next to its neighbours. QUIC keeps each
/// piece that is written until it is acknowledged, so fewer pieces cost less. A guess: with more
/// the copies cost more than the pieces.
const COPIED: usize = 1 << 10;

/// Frames in the form in which they are written: short parts together, long parts by themselves.
pub(super) struct Pieces {
    before: Vec<Bytes>,
    last: BytesMut,
}

impl Pieces {
    pub(super) fn for_batch(batch: &[Frame]) -> Self {
        let short = |part: &Bytes| Some(part.len()).filter(|length| *length <= COPIED);
        let of_frame = |frame: &Frame| {
            let parts = [&frame.head, &frame.payload].into_iter();
            frame::HEADER_LEN + parts.filter_map(short).sum::<usize>()
        };
        Self {
            before: Vec::with_capacity(1 + 2 * batch.len()),
            last: BytesMut::with_capacity(batch.iter().map(of_frame).sum()),
        }
    }

    /// Add the next frame. Returns how many of the contacts fit into its header.
    pub(super) fn add(&mut self, contacts: &[Contact], frame: Frame) -> usize {
        let taken = frame::put_header(&mut self.last, contacts, frame.len());
        self.add_part(frame.head);
        self.add_part(frame.payload);
        taken
    }

    fn add_part(&mut self, part: Bytes) {
        if part.len() <= COPIED {
            return self.last.extend_from_slice(&part);
        }
        if !self.last.is_empty() {
            self.before.push(self.last.split().freeze());
        }
        self.before.push(part);
    }

    pub(super) fn finish(self) -> Vec<Bytes> {
        let mut pieces = self.before;
        if !self.last.is_empty() {
            pieces.push(self.last.freeze());
        }
        pieces
    }
}
