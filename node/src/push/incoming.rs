//! A file on its way into a folder: written where its pieces belong, under another name
//! until it is whole.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::NamedTempFile;

/// How files are called that are not whole.
const PARTIAL: &str = ".binomesh-part-";

/// Delete what a process that was killed has left in a folder. One node writes there.
pub(super) fn sweep(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The most stretches that are apart from each other. Honest pieces come nearly in order;
/// a liar's scattered bytes must not take memory.
const STRETCHES_MAX: usize = 1024;

/// Bytes of a file that has begun to come.
#[derive(Debug)]
pub(super) struct Incoming {
    file: Option<NamedTempFile>,
    place: PathBuf,
    replace: bool,
    size: u64,
    /// What is there beyond what is hashed: where it ends, and the bytes if no file has
    /// them.
    ahead: BTreeMap<u64, (u64, Bytes)>,
    hasher: blake3::Hasher,
    hashed: u64,
}

impl Incoming {
    /// Begin a file in a folder, or one that is only hashed. An existing file is an error
    /// unless it is to be replaced.
    pub(super) fn begin(
        folder: Option<&Path>,
        name: &str,
        (size, replace): (u64, bool),
    ) -> Result<Self, String> {
        let place = folder.unwrap_or(Path::new("")).join(name);
        let mut file = None;
        if let Some(folder) = folder {
            if !replace && place.symlink_metadata().is_ok() {
                return Err(exists(&place));
            }
            let made = tempfile::Builder::new()
                .prefix(PARTIAL)
                .suffix(&format!("-{name}"))
                .permissions(Permissions::from_mode(0o644))
                .tempfile_in(folder);
            let failed = |error| format!("cannot write in {}: {error}", folder.display());
            file = Some(made.map_err(failed)?);
        }
        Ok(Self {
            file,
            place,
            replace,
            size,
            ahead: BTreeMap::new(),
            hasher: blake3::Hasher::new(),
            hashed: 0,
        })
    }

    /// Whether a piece speaks of the same file.
    pub(super) fn is(&self, (size, replace): (u64, bool)) -> bool {
        self.size == size && self.replace == replace
    }

    /// Write a piece where it belongs.
    pub(super) fn write(&mut self, at: u64, bytes: &Bytes) -> Result<(), String> {
        let end = at.checked_add(bytes.len() as u64);
        let Some(end) = end.filter(|end| *end <= self.size) else {
            return Err(format!(
                "a piece at {at} goes beyond the {} bytes",
                self.size
            ));
        };
        // Each byte comes once: what is hashed already must not be written over.
        let before = self.ahead.range(..=at).next_back();
        let is_again = at < self.hashed
            || before.is_some_and(|(_, (until, _))| *until > at)
            || self.ahead.range(at..end.max(at + 1)).next().is_some();
        if is_again {
            return Err(format!("a piece at {at} came twice"));
        }
        if self.file.is_some() {
            self.put(at, bytes)
                .map_err(|error| self.unwritten(&error))?;
        }
        if at == self.hashed {
            self.hasher.update(bytes);
            self.hashed = end;
        } else if self.ahead.len() >= STRETCHES_MAX {
            return Err("too many pieces out of order".to_owned());
        } else {
            let kept = self.file.is_none().then(|| bytes.clone());
            self.ahead.insert(at, (end, kept.unwrap_or_default()));
        }
        self.catch_up().map_err(|error| self.unwritten(&error))
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    }

    /// Hash what came ahead of its turn.
    fn catch_up(&mut self) -> io::Result<()> {
        let mut buffer = Vec::new();
        while let Some((end, kept)) = self.ahead.remove(&self.hashed) {
            let Some(file) = &mut self.file else {
                self.hasher.update(&kept);
                self.hashed = end;
                continue;
            };
            buffer.resize(64 << 10, 0);
            file.seek(SeekFrom::Start(self.hashed))?;
            while self.hashed < end {
                let length = (end - self.hashed).min(buffer.len() as u64) as usize;
                let Some(next) = buffer.get_mut(..length) else {
                    break;
                };
                file.read_exact(next)?;
                self.hasher.update(next);
                self.hashed += length as u64;
            }
        }
        Ok(())
    }

    /// Give the file its name if it is whole and has this hash.
    pub(super) fn finish(self, hash: [u8; 32]) -> Result<(), String> {
        if self.hashed < self.size {
            let ahead = self.ahead.iter().map(|(start, (end, _))| end - start);
            let came: u64 = self.hashed + ahead.sum::<u64>();
            return Err(format!("only {came} of {} bytes came", self.size));
        }
        if self.hasher.finalize() != hash {
            return Err("its BLAKE3 hash is not that of what was sent".to_owned());
        }
        let Some(file) = self.file else {
            return Ok(());
        };
        let persisted = if self.replace {
            file.persist(&self.place)
        } else {
            file.persist_noclobber(&self.place)
        };
        match persisted {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(exists(&self.place))
            }
            Err(error) => Err(format!(
                "cannot name {}: {}",
                self.place.display(),
                error.error
            )),
        }
    }

    fn unwritten(&self, error: &io::Error) -> String {
        format!("cannot write {}: {error}", self.place.display())
    }
}

fn exists(place: &Path) -> String {
    format!(
        "{} exists; push with `--replace` or another `--name`",
        place.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(length: usize) -> Bytes {
        (0..length)
            .map(|i| (i % 251) as u8)
            .collect::<Vec<u8>>()
            .into()
    }

    fn begin(folder: &Path, size: u64) -> Incoming {
        Incoming::begin(Some(folder), "x", (size, false)).unwrap()
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
            incoming.finish(hash).unwrap();
            assert_eq!(listed(dir.path()), ["x"]);
            assert_eq!(std::fs::read(dir.path().join("x")).unwrap(), all);
            std::fs::remove_file(dir.path().join("x")).unwrap();
        }
        begin(dir.path(), 0)
            .finish(*blake3::hash(b"").as_bytes())
            .unwrap();
        assert_eq!(listed(dir.path()), ["x"]);
    }

    #[test]
    fn what_goes_nowhere_is_checked_all_the_same() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let mut incoming = Incoming::begin(None, "x", (3, false)).unwrap();
            for at in order {
                incoming.write(at, &Bytes::from(vec![at as u8])).unwrap();
            }
            incoming
                .finish(*blake3::hash(&[0, 1, 2]).as_bytes())
                .unwrap();
        }
    }

    #[test]
    fn what_is_not_whole_or_not_right_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let hash = *blake3::hash(b"abcd").as_bytes();
        let mut partly = begin(dir.path(), 4);
        partly.write(0, &Bytes::from_static(b"a")).unwrap();
        partly.write(3, &Bytes::from_static(b"d")).unwrap();
        assert_eq!(partly.finish(hash).unwrap_err(), "only 2 of 4 bytes came");
        let mut wrong = begin(dir.path(), 4);
        wrong.write(0, &Bytes::from_static(b"abcx")).unwrap();
        assert!(wrong.finish(hash).unwrap_err().contains("BLAKE3"));
        for at in [1, 5, u64::MAX] {
            let beyond = begin(dir.path(), 4).write(at, &bytes(4)).unwrap_err();
            assert!(beyond.contains("beyond"), "{beyond}");
        }
        assert!(listed(dir.path()).is_empty());
    }

    #[test]
    fn what_a_killed_process_left_is_swept_and_nothing_else() {
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
        let refused = Incoming::begin(Some(dir.path()), "x", (1, false)).unwrap_err();
        assert!(refused.contains("exists"), "{refused}");
        let hash = *blake3::hash(b"a").as_bytes();
        assert!(
            late.finish(hash).unwrap_err().contains("exists"),
            "it came meanwhile"
        );
        assert_eq!(std::fs::read(&place).unwrap(), b"old");
        let mut new = Incoming::begin(Some(dir.path()), "x", (1, true)).unwrap();
        new.write(0, &Bytes::from_static(b"a")).unwrap();
        new.finish(hash).unwrap();
        assert_eq!(std::fs::read(&place).unwrap(), b"a");
        assert_eq!(listed(dir.path()), ["x"]);
        let nowhere = dir.path().join("nowhere");
        let refused = Incoming::begin(Some(&nowhere), "x", (1, true)).unwrap_err();
        assert!(refused.contains("nowhere"), "{refused}");
    }

    /// A member could forge a piece of another's push.
    #[test]
    fn what_is_there_is_not_written_over() {
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
