//! A push at a receiver, on its way into a file or to a reader: puts the pieces in order, and
//! checks the whole at the end.
//!
//! A file is written piece by piece at the right places, under another name until it is whole. A
//! reader gets the bytes in order.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::Permissions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::NamedTempFile;

use super::stream::Feed;

/// How the names of unfinished files begin.
const PARTIAL: &str = ".binomesh-part-";

/// Delete the unfinished files that a killed process has left in a folder. Only one node may write
/// there.
pub(super) fn sweep(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The most stretches of bytes that wait since they came ahead of their turn; each piece is one.
/// Honest pieces come nearly in order; the scattered bytes of a liar must not take memory.
const STRETCHES_MAX: usize = 1024;

/// The most bytes in memory that came ahead of their turn, if no file has them: twice the bytes
/// that an honest origin has on their way.
const AHEAD_MAX: usize = 2 * super::WINDOW * super::PIECE_BYTES;

/// The destination of the bytes.
#[derive(Debug)]
pub(super) enum Sink {
    /// A temporary file, which is renamed to `place` at the end.
    File { file: NamedTempFile, place: PathBuf },
    /// An application that reads the bytes.
    Reader(Feed),
    /// Nowhere: the bytes are only hashed.
    Nowhere,
}

/// A push that has begun to come.
#[derive(Debug)]
pub(super) struct Incoming {
    sink: Sink,
    replace: bool,
    size: Option<u64>,
    /// Stretches that came ahead of the hashed bytes: start, end, and the bytes if no file has
    /// them.
    ahead: BTreeMap<u64, (u64, Bytes)>,
    /// The number of bytes of the stretches in `ahead` that are in memory.
    ahead_bytes: usize,
    hasher: blake3::Hasher,
    hashed: u64,
}

impl Sink {
    /// A file of this name in `folder`. Fails if such a file exists and is not to be replaced.
    pub(super) fn file(folder: &Path, name: &str, replace: bool) -> Result<Self, String> {
        let place = folder.join(name);
        if !replace && place.symlink_metadata().is_ok() {
            return Err(exists(&place));
        }
        let made = tempfile::Builder::new()
            .prefix(PARTIAL)
            .suffix(&format!("-{name}"))
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(folder);
        let failed = |error| format!("cannot write in {}: {error}", folder.display());
        let file = made.map_err(failed)?;
        Ok(Self::File { file, place })
    }
}

impl Incoming {
    pub(super) fn begin(sink: Sink, size: Option<u64>, replace: bool) -> Self {
        Self {
            sink,
            replace,
            size,
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
            hasher: blake3::Hasher::new(),
            hashed: 0,
        }
    }

    /// Whether length and `replace` in the head of a later piece are those of the first head.
    pub(super) fn is(&self, size: Option<u64>, replace: bool) -> bool {
        self.size == size && self.replace == replace
    }

    /// The feed of the reader, if there is one.
    pub(super) const fn feed(&self) -> Option<&Feed> {
        match &self.sink {
            Sink::Reader(feed) => Some(feed),
            _ => None,
        }
    }

    /// Whether a piece of `length` bytes is handled quickly: the piece is no longer than usual, no
    /// file has to be written, and no piece waits that came ahead of its turn.
    pub(super) fn is_quick(&self, length: usize) -> bool {
        let has_file = matches!(self.sink, Sink::File { .. });
        !has_file && self.ahead.is_empty() && length <= super::PIECE_BYTES
    }

    /// No more pieces come: tell the reader why, if there is one.
    pub(super) fn give_up(&self, reason: &str) {
        if let Some(feed) = self.feed() {
            feed.end(Err(reason.to_owned()));
        }
    }

    /// Take a piece. A file gets the bytes at their place at once. A reader gets them once all
    /// bytes before them have come, and [`Sink::Nowhere`] only hashes them in that order. A byte
    /// that comes twice is an error.
    pub(super) fn write(&mut self, at: u64, bytes: &Bytes) -> Result<(), String> {
        let end = at.checked_add(bytes.len() as u64);
        let most = self.size.unwrap_or(u64::MAX);
        let Some(end) = end.filter(|end| *end <= most) else {
            return Err(format!(
                "a piece at byte {at} goes beyond the length of {most} bytes"
            ));
        };
        // An empty piece is a sign of life.
        if bytes.is_empty() {
            return Ok(());
        }
        // Each byte may come only once: bytes that are hashed already must not be written over.
        let before = self.ahead.range(..=at).next_back();
        let is_again = at < self.hashed
            || before.is_some_and(|(_, (until, _))| *until > at)
            || self.ahead.range(at..end).next().is_some();
        if is_again {
            return Err(format!("a piece at byte {at} came twice"));
        }
        if let Sink::File { file, place } = &mut self.sink {
            let written = file.seek(SeekFrom::Start(at));
            let written = written.and_then(|_| file.write_all(bytes));
            written.map_err(|error| unwritten(place, &error))?;
        }
        if at == self.hashed {
            self.pass(bytes)?;
        } else {
            self.keep_ahead(at, end, bytes)?;
        }
        self.catch_up()
    }

    fn keep_ahead(&mut self, at: u64, end: u64, bytes: &Bytes) -> Result<(), String> {
        let has_file = matches!(self.sink, Sink::File { .. });
        let kept = if has_file {
            Bytes::new()
        } else {
            bytes.clone()
        };
        let held = self.ahead_bytes.saturating_add(kept.len());
        if self.ahead.len() >= STRETCHES_MAX || held > AHEAD_MAX {
            return Err("too many pieces came out of order".to_owned());
        }
        self.ahead_bytes = held;
        self.ahead.insert(at, (end, kept));
        Ok(())
    }

    /// Hash the next bytes in order, and pass them to the reader.
    fn pass(&mut self, bytes: &Bytes) -> Result<(), String> {
        self.hasher.update(bytes);
        self.hashed += bytes.len() as u64;
        match &self.sink {
            Sink::Reader(feed) => feed.put(bytes.clone()),
            _ => Ok(()),
        }
    }

    /// Take up the stretches that came ahead and now follow the hashed bytes.
    fn catch_up(&mut self) -> Result<(), String> {
        while let Some((end, kept)) = self.ahead.remove(&self.hashed) {
            self.ahead_bytes -= kept.len();
            let Sink::File { file, place } = &mut self.sink else {
                self.pass(&kept)?;
                continue;
            };
            let read = hash_file(file, &mut self.hasher, self.hashed..end);
            read.map_err(|error| unwritten(place, &error))?;
            self.hashed = end;
        }
        Ok(())
    }

    /// Check the length and the hash of the whole; a file then gets its name. Returns the feed if
    /// there is a reader, which may still have to read the rest.
    pub(super) fn finish(mut self, size: u64, hash: [u8; 32]) -> Result<Option<Feed>, String> {
        let whole = self.check(size, hash);
        match std::mem::replace(&mut self.sink, Sink::Nowhere) {
            Sink::Nowhere => whole.map(|()| None),
            Sink::Reader(feed) => {
                feed.end(whole.clone());
                whole.map(|()| Some(feed))
            }
            Sink::File { file, place } => {
                whole?;
                let persisted = if self.replace {
                    file.persist(&place)
                } else {
                    file.persist_noclobber(&place)
                };
                match persisted {
                    Ok(_) => Ok(None),
                    Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                        Err(exists(&place))
                    }
                    Err(error) => Err(format!("cannot name {}: {}", place.display(), error.error)),
                }
            }
        }
    }

    fn check(&self, size: u64, hash: [u8; 32]) -> Result<(), String> {
        if self.hashed < size {
            let ahead = self.ahead.iter().map(|(start, (end, _))| end - start);
            let came: u64 = self.hashed + ahead.sum::<u64>();
            return Err(format!("only {came} of {size} bytes arrived"));
        }
        if self.hashed > size || self.size.is_some_and(|said| said != size) {
            return Err("the pieces of the file contradict each other".to_owned());
        }
        if self.hasher.finalize() != hash {
            return Err(
                "the BLAKE3 hash of the stored file differs from the hash of the sent file"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

fn hash_file(
    file: &mut NamedTempFile,
    hasher: &mut blake3::Hasher,
    stretch: std::ops::Range<u64>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut left = stretch.end - stretch.start;
    file.seek(SeekFrom::Start(stretch.start))?;
    while left > 0 {
        let length = left.min(buffer.len() as u64) as usize;
        let Some(next) = buffer.get_mut(..length) else {
            break;
        };
        file.read_exact(next)?;
        hasher.update(next);
        left -= length as u64;
    }
    Ok(())
}

fn unwritten(place: &Path, error: &impl fmt::Display) -> String {
    format!("cannot write {}: {error}", place.display())
}

fn exists(place: &Path) -> String {
    format!(
        "{} exists; push with `--replace` or another `--name`",
        place.display()
    )
}

#[cfg(test)]
mod tests {
    use tempfile::TempPath;

    use super::*;

    fn bytes(length: usize) -> Bytes {
        (0..length)
            .map(|i| (i % 251) as u8)
            .collect::<Vec<u8>>()
            .into()
    }

    fn begin(folder: &Path, size: u64) -> Incoming {
        let sink = Sink::file(folder, "x", false).unwrap();
        Incoming::begin(sink, Some(size), false)
    }

    fn listed(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn pieces_in_any_order_become_the_file_and_it_has_its_name_only_when_whole() {
        let dir = tempfile::tempdir().unwrap();
        let all = bytes(200_000);
        let hash = *blake3::hash(&all).as_bytes();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let mut incoming = begin(dir.path(), 200_000);
            for place in order {
                let at = place * 50_000;
                assert!(!dir.path().join("x").exists());
                incoming
                    .write(at as u64, &all.slice(at..at + 50_000))
                    .unwrap();
            }
            incoming.finish(200_000, hash).unwrap();
            assert_eq!(listed(dir.path()), ["x"]);
            assert_eq!(std::fs::read(dir.path().join("x")).unwrap(), all);
            std::fs::remove_file(dir.path().join("x")).unwrap();
        }
        begin(dir.path(), 0)
            .finish(0, *blake3::hash(b"").as_bytes())
            .unwrap();
        assert_eq!(listed(dir.path()), ["x"]);
    }

    #[test]
    fn a_push_that_is_stored_nowhere_is_checked_all_the_same() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let mut incoming = Incoming::begin(Sink::Nowhere, None, false);
            for at in order {
                incoming.write(at, &Bytes::from(vec![at as u8])).unwrap();
            }
            incoming
                .finish(3, *blake3::hash(&[0, 1, 2]).as_bytes())
                .unwrap();
        }
    }

    #[test]
    fn a_short_piece_is_quick_without_a_file_and_without_pieces_ahead() {
        let dir = tempfile::tempdir().unwrap();
        let piece = super::super::PIECE_BYTES;
        assert!(!begin(dir.path(), 9).is_quick(1));
        let mut incoming = Incoming::begin(Sink::Nowhere, None, false);
        assert!(incoming.is_quick(piece) && !incoming.is_quick(piece + 1));
        incoming.write(1, &bytes(1)).unwrap();
        assert!(!incoming.is_quick(1));
        incoming.write(0, &bytes(1)).unwrap();
        assert!(incoming.is_quick(1));
    }

    #[test]
    fn an_incomplete_or_wrong_file_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let hash = *blake3::hash(b"abcd").as_bytes();
        let mut partly = begin(dir.path(), 4);
        partly.write(0, &Bytes::from_static(b"a")).unwrap();
        partly.write(3, &Bytes::from_static(b"d")).unwrap();
        assert_eq!(
            partly.finish(4, hash).unwrap_err(),
            "only 2 of 4 bytes arrived"
        );
        let mut wrong = begin(dir.path(), 4);
        wrong.write(0, &Bytes::from_static(b"abcx")).unwrap();
        assert!(wrong.finish(4, hash).unwrap_err().contains("BLAKE3"));
        for at in [1, 5, u64::MAX] {
            let beyond = begin(dir.path(), 4).write(at, &bytes(4)).unwrap_err();
            assert!(beyond.contains("beyond"), "{beyond}");
        }
        assert!(listed(dir.path()).is_empty());
    }

    #[test]
    fn a_full_disk_is_told_with_the_place_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let (part, place) = (dir.path().join(".binomesh-part-x"), dir.path().join("x"));
        std::fs::write(&part, "").unwrap();
        let full = std::fs::File::options().write(true).open("/dev/full");
        let file = NamedTempFile::from_parts(full.unwrap(), TempPath::try_from_path(part).unwrap());
        let sink = Sink::File { file, place };
        let mut incoming = Incoming::begin(sink, Some(4), false);
        let refused = incoming.write(0, &bytes(4)).unwrap_err();
        let is_told = refused.contains("/x") && refused.contains("No space left");
        assert!(is_told, "{refused}");
        drop(incoming);
        assert!(listed(dir.path()).is_empty());
    }

    #[test]
    fn the_sweep_removes_the_remains_of_a_killed_process_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let left = begin(dir.path(), 4);
        std::fs::write(dir.path().join("x"), "kept").unwrap();
        assert_eq!(listed(dir.path()).len(), 2);
        sweep(dir.path()).unwrap();
        assert_eq!(listed(dir.path()), ["x"]);
        drop(left);
        assert!(sweep(&dir.path().join("nowhere")).is_err());
    }

    #[test]
    fn an_existing_file_stays_unless_it_is_to_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("x");
        let mut late = begin(dir.path(), 1);
        late.write(0, &Bytes::from_static(b"a")).unwrap();
        std::fs::write(&place, "old").unwrap();
        let refused = Sink::file(dir.path(), "x", false).unwrap_err();
        assert!(refused.contains("exists"), "{refused}");
        let hash = *blake3::hash(b"a").as_bytes();
        assert!(
            late.finish(1, hash).unwrap_err().contains("exists"),
            "it came meanwhile"
        );
        assert_eq!(std::fs::read(&place).unwrap(), b"old");
        let sink = Sink::file(dir.path(), "x", true).unwrap();
        let mut new = Incoming::begin(sink, Some(1), true);
        new.write(0, &Bytes::from_static(b"a")).unwrap();
        new.finish(1, hash).unwrap();
        assert_eq!(std::fs::read(&place).unwrap(), b"a");
        assert_eq!(listed(dir.path()), ["x"]);
        let nowhere = dir.path().join("nowhere");
        let refused = Sink::file(&nowhere, "x", true).unwrap_err();
        assert!(refused.contains("nowhere"), "{refused}");
    }

    /// Otherwise a member could replace bytes of another member's push.
    #[test]
    fn received_bytes_are_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        for (first, second) in [(0, 0), (0, 2), (8, 8), (8, 6), (8, 10)] {
            let mut incoming = begin(dir.path(), 20);
            incoming.write(first, &bytes(4)).unwrap();
            let refused = incoming.write(second, &Bytes::from_static(b"EVIL"));
            assert!(refused.unwrap_err().contains("twice"), "{first} {second}");
        }
        let mut incoming = begin(dir.path(), 20);
        for at in [8, 0, 12, 4, 16] {
            incoming.write(at, &bytes(4)).unwrap();
        }
    }

    /// A push of unknown length is told its length by the end.
    #[test]
    fn the_end_tells_the_length_and_signs_of_life_are_no_bytes() {
        let hash = *blake3::hash(b"ab").as_bytes();
        for (said, size, is_whole) in [
            (None, 2, true),
            (Some(2), 2, true),
            (None, 1, false),
            (None, 3, false),
            (Some(3), 2, false),
        ] {
            let mut incoming = Incoming::begin(Sink::Nowhere, said, false);
            for (at, bytes) in [(0, ""), (1, "b"), (1, ""), (0, ""), (0, "a"), (2, "")] {
                incoming.write(at, &Bytes::from(bytes)).unwrap();
            }
            assert_eq!(incoming.finish(size, hash).is_ok(), is_whole, "{said:?}");
        }
    }

    #[test]
    fn pieces_kept_in_memory_ahead_of_their_turn_are_bounded() {
        let mut incoming = Incoming::begin(Sink::Nowhere, None, false);
        let piece = bytes(AHEAD_MAX / 4);
        let place = |number: usize| (1 + number * piece.len()) as u64;
        for number in 0..4 {
            incoming.write(place(number), &piece).unwrap();
        }
        let refused = incoming.write(place(4), &piece).unwrap_err();
        assert!(refused.contains("out of order"), "{refused}");
        incoming.write(0, &Bytes::from_static(b"x")).unwrap();
        for number in [4, 6, 7] {
            incoming.write(place(number), &piece).unwrap();
        }
    }

    #[test]
    fn scattered_pieces_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let mut incoming = begin(dir.path(), 1 << 40);
        let one = Bytes::from_static(b"x");
        for place in 1..=STRETCHES_MAX as u64 {
            incoming.write(2 * place, &one).unwrap();
        }
        let refused = incoming.write(1 << 30, &one).unwrap_err();
        assert!(refused.contains("out of order"), "{refused}");
    }
}
