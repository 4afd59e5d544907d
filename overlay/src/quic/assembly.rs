//! Frames of one stream as they come together. What comes is read into the buffer in which
//! its frame is delivered; only the start of a frame moves, if it came where there is no room.

use std::sync::Arc;

use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};

use super::buffers::{Buffer, Buffers, SHORT};
use super::frame::{HEADER_LEN, Header, RefusedFrame};

/// How much is read at once, at most: the connection is locked meanwhile. A guess.
const AT_ONCE: usize = 64 << 10;

/// A stream's frame that is under way. Between frames it holds no more than a short buffer,
/// however long the last one was: who keeps long ones is counted, and a stream is not.
#[derive(Debug)]
pub(super) struct Assembly {
    /// Longer bodies are refused.
    body_max: usize,
    /// Once it is whole.
    header: Option<Header>,
    buffer: Buffer,
    /// Where buffers come from.
    buffers: Arc<Buffers>,
}

/// What has come so far.
#[derive(Debug)]
pub(super) enum Step {
    /// Less than a step.
    Part,
    /// A header, now. Room for its frame is made by [`Assembly::space`].
    Begun(Header),
    /// A frame.
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

    /// Nothing has come of a next frame.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.bytes.is_empty()
    }

    /// Where to read into; not empty once there is no step left. Behind a long frame no more
    /// is read than the next header, for that has to move.
    pub(super) fn space(&mut self) -> Limit<&mut BytesMut> {
        let wanted = self.wanted();
        if self.buffer.bytes.capacity() < wanted {
            self.buffers.make_room(&mut self.buffer, wanted);
        }
        let ahead = if wanted > SHORT { HEADER_LEN } else { SHORT };
        let most = (wanted + ahead).saturating_sub(self.buffer.bytes.len());
        (&mut self.buffer.bytes).limit(most.min(AT_ONCE))
    }

    /// The next of what has come.
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

    /// Keep what has come behind a long frame, but not its buffer.
    fn let_go(&mut self) {
        let rest = match self.is_empty() {
            true => Buffer::default(),
            false => Buffer::short(&self.buffer.bytes),
        };
        self.buffers.keep(std::mem::replace(&mut self.buffer, rest));
    }

    /// How many bytes make the next step.
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

    /// Of one test alone.
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

    /// Read so much of it at most, once; returns the bodies that are whole with it.
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

    /// Else a stream that is quiet, or whoever keeps a short frame that came behind a long
    /// one, would keep the long one's memory uncounted.
    #[tokio::test]
    async fn nothing_but_a_long_frame_holds_its_buffer() {
        let none: &[usize] = &[];
        for long in [SHORT, 5000, 200_000] {
            for behind in [none, &[0], &[0, 0, 100], &[50_000]] {
                let all = stream(&[&[long], behind].concat());
                // All of what is behind, or no more than its header.
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
