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

use super::piece::Answer;
use super::{PIECE_BYTES, WINDOW};

/// The most bytes that wait for a reader before its stream is given up: twice what an honest origin
/// has on its way.
const UNREAD_MAX: usize = 2 * WINDOW * PIECE_BYTES;
/// The most pieces that wait. An honest origin has at most a window of them on its way after the
/// last one that asked for an answer; short pieces take more memory than their bytes.
const PIECES_MAX: usize = 1024;
/// The most answers that wait for the reader. An honest origin asks for one every 2 MiB, and during
/// pauses.
const OWED_MAX: usize = 64;

/// Answers on their way to the origins.
pub(super) type Answers = mpsc::UnboundedSender<(PacketId<PeerId>, Answer)>;

/// The receiver's end of a stream.
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
    answers: Answers,
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
    /// The questions that are answered once so many bytes have been read; at most [`OWED_MAX`].
    owed: VecDeque<(u64, PacketId<PeerId>)>,
    /// The question that is answered when the reader has come to the end.
    owed_at_end: Option<PacketId<PeerId>>,
    has_read_all: bool,
    is_reader_gone: bool,
    reader: Option<Waker>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, to: PacketId<PeerId>, answer: Answer) {
        // Without a receiver the answer has no destination.
        let _ = self.answers.send((to, answer));
    }

    /// Send the answers that are due.
    fn settle(&self, state: &mut State) {
        let gone = || Answer::failed("the reader of the stream has gone");
        while let Some((until, to)) = state.owed.front().copied() {
            match (until <= state.read, state.is_reader_gone) {
                (true, _) => self.answer(to, Answer::Written),
                (false, true) => self.answer(to, gone()),
                (false, false) => break,
            }
            state.owed.pop_front();
        }
        if state.has_read_all || state.is_reader_gone {
            let answer = match state.has_read_all {
                true => Answer::Stored,
                false => gone(),
            };
            if let Some(to) = state.owed_at_end.take() {
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
    answers: Answers,
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
            let owed = std::mem::take(&mut state.owed);
            let (kept, lost) = owed.into_iter().partition(|(until, _)| *until <= there);
            state.owed = kept;
            let lost: VecDeque<(u64, PacketId<PeerId>)> = lost;
            for (_, to) in lost {
                self.shared.answer(to, Answer::failed(reason.clone()));
            }
        }
        state.end = Some(outcome);
        state.wake();
    }

    /// Answer `to` when all bytes before `until` have been read.
    pub(super) fn owe(&self, until: u64, to: PacketId<PeerId>) {
        let mut state = self.shared.state();
        if state.owed.len() >= OWED_MAX {
            return self
                .shared
                .answer(to, Answer::failed("the stream is read too slowly"));
        }
        state.owed.push_back((until, to));
        self.shared.settle(&mut state);
    }

    /// Answer `to` when the reader has come to the end.
    pub(super) fn owe_at_end(&self, to: PacketId<PeerId>) {
        let mut state = self.shared.state();
        state.owed_at_end = Some(to);
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

    /// The member that sends it.
    pub const fn origin(&self) -> PeerId {
        self.origin
    }

    /// The name of its origin, or the origin's hexadecimal id while no name is known.
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

    type Said = mpsc::UnboundedReceiver<(PacketId<PeerId>, Answer)>;

    fn begun() -> (Feed, PushedStream, Said) {
        let (answers, said) = mpsc::unbounded_channel();
        let origin = (PeerId::from_bytes([7; 16]), "node-0".into());
        let (feed, reader) = stream("x", None, origin.0, origin.1, answers);
        (feed, reader, said)
    }

    fn said(said: &mut Said) -> Vec<(u64, Answer)> {
        let all = std::iter::from_fn(|| said.try_recv().ok());
        all.map(|(to, answer)| (to.sequence, answer)).collect()
    }

    #[tokio::test]
    async fn the_origin_is_answered_when_the_reader_has_read() {
        let (feed, mut reader, mut answers) = begun();
        feed.owe(0, id(0));
        feed.put(Bytes::from_static(b"abcd")).unwrap();
        feed.owe(4, id(1));
        feed.put(Bytes::from_static(b"ef")).unwrap();
        feed.end(Ok(()));
        feed.owe_at_end(id(2));
        drop(feed);
        assert_eq!(said(&mut answers), [(0, Answer::Written)]);
        let mut some = [0; 3];
        reader.read_exact(&mut some).await.unwrap();
        assert_eq!(said(&mut answers), []);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"def");
        let all = [(1, Answer::Written), (2, Answer::Stored)];
        assert_eq!(said(&mut answers), all);
    }

    #[tokio::test]
    async fn what_is_not_whole_is_an_error_behind_what_came() {
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
    fn whoever_goes_before_the_end_has_not_got_it() {
        let (feed, reader, mut answers) = begun();
        feed.put(Bytes::from_static(b"ab")).unwrap();
        feed.owe(2, id(1));
        feed.end(Ok(()));
        feed.owe_at_end(id(2));
        drop(reader);
        let all = said(&mut answers);
        assert!(matches!(
            all[..],
            [(1, Answer::Failed(_)), (2, Answer::Failed(_))]
        ));
        assert!(feed.put(Bytes::new()).unwrap_err().contains("gone"));
    }

    #[test]
    fn what_is_owed_for_what_never_comes_is_answered_with_the_reason() {
        let (feed, reader, mut answers) = begun();
        feed.put(Bytes::from_static(b"abcd")).unwrap();
        feed.owe(4, id(1));
        feed.owe(9, id(2));
        feed.end(Err("the disk is full".to_owned()));
        let lost = (2, Answer::failed("the disk is full"));
        assert_eq!(said(&mut answers), [lost]);
        drop(feed);
        drop(reader);
        assert!(matches!(said(&mut answers)[..], [(1, Answer::Failed(_))]));
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
    fn what_waits_for_a_reader_is_bounded() {
        let (feed, _reader, mut answers) = begun();
        let piece = Bytes::from(vec![0; PIECE_BYTES]);
        for _ in 0..UNREAD_MAX / PIECE_BYTES {
            feed.put(piece.clone()).unwrap();
        }
        let refused = feed.put(Bytes::from_static(b"x")).unwrap_err();
        assert!(refused.contains("too slowly"), "{refused}");
        for number in 0..=OWED_MAX as u64 {
            feed.owe(1, id(number));
        }
        let refused = said(&mut answers);
        assert!(matches!(refused[..], [(last, Answer::Failed(_))] if last == OWED_MAX as u64));
    }
}
