//! A push that an application reads while it comes.
//!
//! ```text
//!   pieces ─▶ Incoming ─▶ Feed ═ bytes in order ═▶ PushedStream ─▶ application
//!   origin ◀─ answers ◀── written, when they have been read ◀────────┘
//! ```
//!
//! A receiver that stores a file answers when the bytes are written; here the answer goes when the
//! application has read them. So the origin is at most a window ahead of the slowest reader that it
//! waits for. That bounds the bytes that wait here from honest origins; other bounds hold for
//! liars.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use binomesh_overlay::PeerId;
use binomesh_routing::PacketId;
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use super::piece::PieceAnswer;
use super::{PIECE_BYTES, WINDOW};

/// The most bytes that wait for a reader before its stream is given up: twice what an honest origin
/// has on its way.
const UNREAD_MAX: usize = 2 * WINDOW * PIECE_BYTES;
/// The most pieces that wait for a reader. An honest origin has at most a window of them on its way
/// after the last one that asked for an answer; short pieces take more memory than their bytes.
const PIECES_MAX: usize = 1024;
/// The most answers that wait for the reader. An honest origin asks for one every 2 MiB, and during
/// pauses.
const PENDING_MAX: usize = 64;

/// Answers on their way to the origins.
pub(super) type PieceAnswers = mpsc::UnboundedSender<(PacketId<PeerId>, PieceAnswer)>;

/// The end of a stream at which the receiver of the push puts the bytes in.
#[derive(Debug)]
pub(super) struct Feed {
    shared: Arc<Shared>,
}

/// A push that is read while it comes: an [`AsyncRead`]. It ends properly only when all bytes came
/// and the length and BLAKE3 hash are right; a stream that is cut off or altered ends with an
/// error. Its origin is told *stored* when the application has read it to the end, and *failed*
/// when it drops it before.
#[derive(Debug)]
pub struct PushedStream {
    name: String,
    origin: PeerId,
    origin_name: Arc<str>,
    size_bytes: Option<u64>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    answers: PieceAnswers,
}

#[derive(Debug, Default)]
struct State {
    /// The bytes that wait for the reader: at most [`UNREAD_MAX`], in at most [`PIECES_MAX`]
    /// pieces.
    waiting: VecDeque<Bytes>,
    unread: usize,
    read: u64,
    /// Set when no more bytes come: whether the push was whole, or why not.
    end: Option<Result<(), String>>,
    /// The questions that are answered once so many bytes have been read; at most [`PENDING_MAX`].
    pending: VecDeque<(u64, PacketId<PeerId>)>,
    /// The question that is answered when the reader has come to the end.
    pending_at_end: Option<PacketId<PeerId>>,
    has_read_all: bool,
    is_reader_gone: bool,
    reader: Option<Waker>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, to: PacketId<PeerId>, answer: PieceAnswer) {
        // Without a receiver the answer has no destination.
        let _ = self.answers.send((to, answer));
    }

    /// Send the answers that are due.
    fn settle(&self, state: &mut State) {
        let gone = || PieceAnswer::failed("the reader of the stream has gone");
        while let Some((until, to)) = state.pending.front().copied() {
            match (until <= state.read, state.is_reader_gone) {
                (true, _) => self.answer(to, PieceAnswer::Written),
                (false, true) => self.answer(to, gone()),
                (false, false) => break,
            }
            state.pending.pop_front();
        }
        if state.has_read_all || state.is_reader_gone {
            let answer = match state.has_read_all {
                true => PieceAnswer::Stored,
                false => gone(),
            };
            if let Some(to) = state.pending_at_end.take() {
                self.answer(to, answer);
            }
        }
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// Both ends of a stream of this name and origin, and of this length if it is known.
pub(super) fn stream(
    name: &str,
    size_bytes: Option<u64>,
    origin: PeerId,
    origin_name: Arc<str>,
    answers: PieceAnswers,
) -> (Feed, PushedStream) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        answers,
    });
    let feed = Feed {
        shared: shared.clone(),
    };
    let reader = PushedStream {
        name: name.to_owned(),
        origin,
        origin_name,
        size_bytes,
        shared,
    };
    (feed, reader)
}

impl Feed {
    /// Queue the next bytes in order; fails if the reader is gone or reads too slowly.
    pub(super) fn put(&self, bytes: Bytes) -> Result<(), String> {
        let mut state = self.shared.state();
        if state.is_reader_gone {
            return Err("the reader of the stream has gone".to_owned());
        }
        let is_long = state.unread.saturating_add(bytes.len()) > UNREAD_MAX;
        if is_long || state.waiting.len() >= PIECES_MAX {
            return Err("the stream is read too slowly".to_owned());
        }
        state.unread += bytes.len();
        state.waiting.push_back(bytes);
        state.wake();
        Ok(())
    }

    /// No more bytes come. If the push was not whole, answers that wait for later bytes go now, as
    /// failures.
    pub(super) fn end(&self, outcome: Result<(), String>) {
        let mut state = self.shared.state();
        if state.end.is_some() {
            return;
        }
        if let Err(reason) = &outcome {
            let there = state.read + state.unread as u64;
            let pending = std::mem::take(&mut state.pending);
            let (kept, lost) = pending.into_iter().partition(|(until, _)| *until <= there);
            state.pending = kept;
            let lost: VecDeque<(u64, PacketId<PeerId>)> = lost;
            for (_, to) in lost {
                self.shared.answer(to, PieceAnswer::failed(reason.clone()));
            }
        }
        state.end = Some(outcome);
        state.wake();
    }

    /// Answer `to` when all bytes before `until` have been read.
    pub(super) fn answer_when_read(&self, until: u64, to: PacketId<PeerId>) {
        let mut state = self.shared.state();
        if state.pending.len() >= PENDING_MAX {
            return self
                .shared
                .answer(to, PieceAnswer::failed("the stream is read too slowly"));
        }
        state.pending.push_back((until, to));
        self.shared.settle(&mut state);
    }

    /// Answer `to` when the reader has come to the end.
    pub(super) fn answer_at_end(&self, to: PacketId<PeerId>) {
        let mut state = self.shared.state();
        state.pending_at_end = Some(to);
        self.shared.settle(&mut state);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // Unless an end was reported before, the push is not whole.
        self.end(Err("the push was cut off".to_owned()));
    }
}

impl PushedStream {
    /// The name of the push.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The member that sends the stream.
    pub const fn origin(&self) -> PeerId {
        self.origin
    }

    /// The name of the stream's origin, or the origin's hexadecimal id while no name is known.
    pub fn origin_name(&self) -> &str {
        &self.origin_name
    }

    /// The length in bytes, if the origin knew it at the start.
    pub const fn size_bytes(&self) -> Option<u64> {
        self.size_bytes
    }
}

impl AsyncRead for PushedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let shared = &self.shared;
        let mut state = shared.state();
        let Some(bytes) = state.waiting.front_mut() else {
            return match state.end.clone() {
                None => {
                    state.reader = Some(context.waker().clone());
                    Poll::Pending
                }
                Some(Ok(())) => {
                    state.has_read_all = true;
                    shared.settle(&mut state);
                    Poll::Ready(Ok(()))
                }
                Some(Err(reason)) => {
                    let error = format!("the pushed data is incomplete: {reason}");
                    Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)))
                }
            };
        };
        let length = bytes.len().min(buffer.remaining());
        buffer.put_slice(bytes.get(..length).unwrap_or_default());
        bytes.advance(length);
        let is_empty = bytes.is_empty();
        if is_empty {
            state.waiting.pop_front();
        }
        state.unread -= length;
        state.read += length as u64;
        shared.settle(&mut state);
        Poll::Ready(Ok(()))
    }
}

impl Drop for PushedStream {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_reader_gone = true;
        state.waiting.clear();
        state.unread = 0;
        self.shared.settle(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    fn id(sequence: u64) -> PacketId<PeerId> {
        PacketId {
            origin: PeerId::from_bytes([7; 16]),
            boot: 1,
            sequence,
        }
    }

    type AnswerReceiver = mpsc::UnboundedReceiver<(PacketId<PeerId>, PieceAnswer)>;

    fn begun() -> (Feed, PushedStream, AnswerReceiver) {
        let (answers, receiver) = mpsc::unbounded_channel();
        let origin = (PeerId::from_bytes([7; 16]), "node-0".into());
        let (feed, reader) = stream("x", None, origin.0, origin.1, answers);
        (feed, reader, receiver)
    }

    fn received(answers: &mut AnswerReceiver) -> Vec<(u64, PieceAnswer)> {
        let all = std::iter::from_fn(|| answers.try_recv().ok());
        all.map(|(to, answer)| (to.sequence, answer)).collect()
    }

    #[tokio::test]
    async fn the_origin_is_answered_when_the_reader_has_read() {
        let (feed, mut reader, mut answers) = begun();
        feed.answer_when_read(0, id(0));
        feed.put(Bytes::from_static(b"abcd")).unwrap();
        feed.answer_when_read(4, id(1));
        feed.put(Bytes::from_static(b"ef")).unwrap();
        feed.end(Ok(()));
        feed.answer_at_end(id(2));
        drop(feed);
        assert_eq!(received(&mut answers), [(0, PieceAnswer::Written)]);
        let mut some = [0; 3];
        reader.read_exact(&mut some).await.unwrap();
        assert_eq!(received(&mut answers), []);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"def");
        let all = [(1, PieceAnswer::Written), (2, PieceAnswer::Stored)];
        assert_eq!(received(&mut answers), all);
    }

    #[tokio::test]
    async fn a_stream_that_is_not_whole_ends_with_an_error_behind_its_bytes() {
        for outcome in [Some(Err("other bytes".to_owned())), None] {
            let (feed, mut reader, _answers) = begun();
            feed.put(Bytes::from_static(b"ab")).unwrap();
            let reason = outcome
                .clone()
                .map_or("cut off".to_owned(), |o| o.unwrap_err());
            outcome.into_iter().for_each(|outcome| feed.end(outcome));
            drop(feed);
            let mut came = Vec::new();
            let error = reader.read_to_end(&mut came).await.unwrap_err();
            assert!(error.to_string().contains(&reason), "{error}");
            assert_eq!(came, b"ab");
        }
    }

    #[test]
    fn a_reader_that_goes_before_the_end_has_not_received_the_stream() {
        let (feed, reader, mut answers) = begun();
        feed.put(Bytes::from_static(b"ab")).unwrap();
        feed.answer_when_read(2, id(1));
        feed.end(Ok(()));
        feed.answer_at_end(id(2));
        drop(reader);
        let all = received(&mut answers);
        assert!(matches!(
            all[..],
            [(1, PieceAnswer::Failed(_)), (2, PieceAnswer::Failed(_))]
        ));
        assert!(feed.put(Bytes::new()).unwrap_err().contains("gone"));
    }

    #[test]
    fn answers_owed_for_bytes_that_never_come_give_the_reason() {
        let (feed, reader, mut answers) = begun();
        feed.put(Bytes::from_static(b"abcd")).unwrap();
        feed.answer_when_read(4, id(1));
        feed.answer_when_read(9, id(2));
        feed.end(Err("the disk is full".to_owned()));
        let lost = (2, PieceAnswer::failed("the disk is full"));
        assert_eq!(received(&mut answers), [lost]);
        drop(feed);
        drop(reader);
        assert!(matches!(
            received(&mut answers)[..],
            [(1, PieceAnswer::Failed(_))]
        ));
    }

    #[test]
    fn short_pieces_that_wait_for_a_reader_are_bounded() {
        let (feed, _reader, _answers) = begun();
        for _ in 0..PIECES_MAX {
            feed.put(Bytes::from_static(b"x")).unwrap();
        }
        let refused = feed.put(Bytes::from_static(b"x")).unwrap_err();
        assert!(refused.contains("too slowly"), "{refused}");
    }

    #[test]
    fn pieces_and_answers_that_wait_for_a_reader_are_bounded() {
        let (feed, _reader, mut answers) = begun();
        let piece = Bytes::from(vec![0; PIECE_BYTES]);
        for _ in 0..UNREAD_MAX / PIECE_BYTES {
            feed.put(piece.clone()).unwrap();
        }
        let refused = feed.put(Bytes::from_static(b"x")).unwrap_err();
        assert!(refused.contains("too slowly"), "{refused}");
        for number in 0..=PENDING_MAX as u64 {
            feed.answer_when_read(1, id(number));
        }
        let refused = received(&mut answers);
        assert!(
            matches!(refused[..], [(last, PieceAnswer::Failed(_))] if last == PENDING_MAX as u64)
        );
    }
}
