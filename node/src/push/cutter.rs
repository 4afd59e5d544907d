//! Cuts a source of bytes into pieces.

use std::io;
use std::time::Duration;

use bytes::{BufMut, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use super::now;
use super::piece::{Head, Part};
use super::receive::SILENCE;

/// After a pause of this length in the source, the bytes read so far go as a shorter piece. A
/// guess: soon for a person who watches, and long for a disk.
const PAUSE: Duration = Duration::from_millis(50);
/// While the origin may send, a piece goes about this long after its first byte at the latest, even
/// if the source never pauses. A guess: to a person it is at once, and a quick source has filled
/// the piece before.
const LATEST: Duration = Duration::from_millis(200);
/// After a pause of this length a piece without bytes goes, so that receivers do not give up a push
/// whose source is only slow.
const SIGN_OF_LIFE: Duration = Duration::from_secs(SILENCE.as_secs() / 4);

/// A piece, and the place in the source where it ends.
pub(super) struct Cut {
    pub(super) payload: Bytes,
    pub(super) end: u64,
    /// Whether the piece has no bytes.
    pub(super) is_empty: bool,
}

/// Cuts the bytes of `source`. No byte is lost when the future of [`Cutter::next`] is dropped.
pub(super) struct Cutter<R> {
    source: R,
    /// The head of all pieces, but for their places.
    head: Head,
    piece_bytes: usize,
    /// Where the piece begins that is being read.
    at: u64,
    /// The head of the piece that is being read, and its bytes so far.
    buffer: Vec<u8>,
    head_bytes: usize,
    /// When bytes were last read, or a piece was cut.
    last: Instant,
    /// When the first byte of this piece was read.
    since: Instant,
    pub(super) hasher: blake3::Hasher,
    is_over: bool,
}

impl<R: AsyncRead + Unpin> Cutter<R> {
    pub(super) fn new(source: R, head: Head, piece_bytes: usize) -> Self {
        let mut cutter = Self {
            source,
            head,
            piece_bytes,
            at: 0,
            buffer: Vec::new(),
            head_bytes: 0,
            last: now(),
            since: now(),
            hasher: blake3::Hasher::new(),
            is_over: false,
        };
        cutter.begin();
        cutter
    }

    /// The next piece, or none at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Cut>> {
        loop {
            let length = self.buffer.len() - self.head_bytes;
            let room = self.room();
            if self.is_over || (room == 0 && length == 0) {
                return Ok(None);
            }
            if room == 0 {
                return Ok(Some(self.cut()));
            }
            let until = match length {
                0 => self.last + SIGN_OF_LIFE,
                _ => (self.last + PAUSE).min(self.since + LATEST),
            };
            let mut into = (&mut self.buffer).limit(room);
            let reading = self.source.read_buf(&mut into);
            match tokio::time::timeout_at(until, reading).await {
                Err(_) => return Ok(Some(self.cut())),
                Ok(Ok(0)) => {
                    self.is_over = true;
                    self.check_whole()?;
                    let length = self.buffer.len() - self.head_bytes;
                    return Ok((length > 0).then(|| self.cut()));
                }
                Ok(Ok(_)) => {
                    self.last = now();
                    if length == 0 {
                        self.since = self.last;
                    }
                }
                Ok(Err(error)) => return Err(error),
            }
        }
    }

    /// Restart both timers: for a while the source was not read, so the silence was no pause of the
    /// source.
    pub(super) fn rest(&mut self) {
        self.last = now();
        self.since = self.last;
    }

    /// The number of bytes that were cut so far.
    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    /// The number of bytes that the piece still has room for.
    fn room(&self) -> usize {
        let length = self.buffer.len() - self.head_bytes;
        let room = self.piece_bytes - length;
        let left = self.head.size.map(|size| size - self.at - length as u64);
        left.map_or(room, |left| left.min(room as u64) as usize)
    }

    fn check_whole(&self) -> io::Result<()> {
        let came = self.at + (self.buffer.len() - self.head_bytes) as u64;
        match self.head.size {
            Some(size) if came < size => {
                let short = format!("the file ended after {came} of {size} bytes");
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, short))
            }
            _ => Ok(()),
        }
    }

    fn cut(&mut self) -> Cut {
        let bytes = self.buffer.get(self.head_bytes..).unwrap_or_default();
        self.hasher.update(bytes);
        let is_empty = bytes.is_empty();
        self.at += bytes.len() as u64;
        self.last = now();
        let payload = std::mem::take(&mut self.buffer).into();
        self.begin();
        Cut {
            payload,
            end: self.at,
            is_empty,
        }
    }

    fn begin(&mut self) {
        self.head.part = Part::At(self.at);
        self.buffer = self.head.buffer();
        self.head_bytes = self.buffer.len();
        self.buffer.reserve_exact(self.room());
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn head(size: Option<u64>) -> Head {
        Head {
            push: 1,
            name: "x".to_owned(),
            size,
            replace: false,
            part: Part::At(0),
        }
    }

    fn split(cut: Option<Cut>) -> (Part, Bytes, u64) {
        let cut = cut.expect("a piece");
        let (head, bytes) = Head::split(&cut.payload).expect("a head");
        (head.part, bytes, cut.end)
    }

    #[tokio::test]
    async fn pieces_are_whole_but_for_the_last_and_say_where_they_belong() {
        for size in [None, Some(10)] {
            let mut cutter = Cutter::new(&b"0123456789"[..], head(size), 4);
            for (at, text) in [(0, "0123"), (4, "4567"), (8, "89")] {
                let piece = split(cutter.next().await.unwrap());
                let end = at + text.len() as u64;
                assert_eq!(piece, (Part::At(at), Bytes::from(text), end));
            }
            assert!(cutter.next().await.unwrap().is_none());
            assert_eq!(cutter.hasher.finalize(), blake3::hash(b"0123456789"));
        }
        // A longer source is cut off at the declared length, a shorter one is an error.
        let mut cutter = Cutter::new(&b"0123456789"[..], head(Some(3)), 4);
        assert_eq!(split(cutter.next().await.unwrap()).1, "012");
        assert!(cutter.next().await.unwrap().is_none());
        let mut cutter = Cutter::new(&b"01"[..], head(Some(3)), 4);
        let error = cutter.next().await.err().unwrap().to_string();
        assert_eq!(error, "the file ended after 2 of 3 bytes");
        for size in [None, Some(0)] {
            let mut empty = Cutter::new(&b""[..], head(size), 4);
            assert!(empty.next().await.unwrap().is_none());
        }
    }

    /// Otherwise receivers would give the push up before the first piece is full.
    #[tokio::test(start_paused = true)]
    async fn the_bytes_of_a_source_that_drips_without_a_pause_go_soon_too() {
        let (mut tap, source) = tokio::io::duplex(64);
        let mut cutter = Cutter::new(source, head(None), 1 << 20);
        let dripping = tokio::spawn(async move {
            for _ in 0..100 {
                tap.write_all(b"0").await.unwrap();
                tokio::time::sleep(PAUSE / 2).await;
            }
        });
        let (mut start, mut pieces) = (now(), 0);
        while let Some(cut) = cutter.next().await.unwrap() {
            assert!(now() - start <= LATEST + PAUSE, "{pieces}");
            assert!(!cut.is_empty);
            (start, pieces) = (now(), pieces + 1);
        }
        assert_eq!(cutter.at(), 100);
        assert!(pieces >= 10, "{pieces}");
        dripping.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_bytes_of_a_slow_source_go_soon_and_silence_is_no_end() {
        let (mut tap, source) = tokio::io::duplex(64);
        let mut cutter = Cutter::new(source, head(None), 4);
        tap.write_all(b"01").await.unwrap();
        // A future of `next` that is dropped loses no bytes.
        let early = tokio::time::timeout(PAUSE / 2, cutter.next()).await;
        assert!(early.is_err());
        let start = now();
        let piece = split(cutter.next().await.unwrap());
        assert_eq!(piece, (Part::At(0), Bytes::from("01"), 2));
        assert!(now() - start < PAUSE);
        let piece = split(cutter.next().await.unwrap());
        assert_eq!(piece, (Part::At(2), Bytes::new(), 2), "a sign of life");
        assert!(now() - start >= SIGN_OF_LIFE);
        tap.write_all(b"2").await.unwrap();
        drop(tap);
        let piece = split(cutter.next().await.unwrap());
        assert_eq!(piece, (Part::At(2), Bytes::from("2"), 3));
        assert!(cutter.next().await.unwrap().is_none());
    }
}
