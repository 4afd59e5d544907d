//! The state that outlives a node's process: its secret and the number of its last life.
//!
//! ```text
//!   lock     locked while a node runs: peers could not tell apart two nodes with one boot
//!   secret   32 bytes
//!   boot     the number of the last life
//! ```

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use binomesh_overlay::lives::{BOOT_MAX, next_boot};

/// The lasting state of a node, read once at its start. While a clone of it
/// lives, the folder is locked against every other node.
#[derive(Clone)]
pub struct NodeState {
    /// The secret from which the keys of stateless resets and connection ids are derived. It
    /// outlives certificates.
    pub secret: [u8; 32],
    /// The number of this life: above those of all earlier lives, and not below the time of the
    /// wall clock at its beginning, in milliseconds.
    pub boot: u64,
    /// Whether the folder knows of an earlier life.
    pub returns: bool,
    boot_path: PathBuf,
    _lock: Arc<File>,
}

/// Why the state could not be read or written. The folder may have been made all the same.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path}: {source}", path = .path.display())]
pub struct StateError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl NodeState {
    /// Read the state in `dir`, make missing parts, and write the new boot to disk before any peer
    /// hears of it.
    pub fn open(dir: &Path) -> Result<Self, StateError> {
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| StateError {
                doing,
                path,
                source,
            }
        };
        private_dir(dir).map_err(failed("create the state folder", dir))?;
        let lock = lock(&dir.join("lock")).map_err(failed("use the state folder", dir))?;
        let (secret_path, boot_path) = (dir.join("secret"), dir.join("boot"));
        let secret = match fs::read(&secret_path) {
            Ok(bytes) => bytes.try_into().map_err(|_| {
                let wrong = "expected exactly 32 bytes; remove the file to get a new secret";
                failed("use the node secret", &secret_path)(io::Error::other(wrong))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let secret = random_bytes().map_err(failed("make", &secret_path))?;
                replace(&secret_path, &secret).map_err(failed("write", &secret_path))?;
                secret
            }
            Err(error) => return Err(failed("read", &secret_path)(error)),
        };
        let last = match fs::read_to_string(&boot_path) {
            Ok(text) => text.trim().parse::<u64>().map_err(|_| {
                let wrong = "expected a number; remove the file, and the node takes a number from \
                             the clock";
                failed("use the number of the last life in", &boot_path)(io::Error::other(wrong))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(failed("read", &boot_path)(error)),
        };
        let boot = last.saturating_add(1).max(wall_clock_ms());
        let mut state = Self {
            secret,
            boot,
            returns: last > 0,
            boot_path,
            _lock: Arc::new(lock),
        };
        state.note(boot)?;
        Ok(state)
    }

    /// Begin another life with a boot above this one and not below `least`. The boot is the clock's
    /// time, or if the clock is behind these bounds, a random number from there to about a million
    /// above. It is written to disk before any peer hears of it.
    pub fn raise(&mut self, least: u64) -> Result<(), StateError> {
        let least = self.boot.saturating_add(1).max(least);
        let noise = random_bytes().map_err(|source| StateError {
            doing: "make a random number for",
            path: self.boot_path.clone(),
            source,
        })?;
        let boot = next_boot(least, wall_clock_ms(), u64::from_le_bytes(noise));
        self.note(boot)?;
        (self.boot, self.returns) = (boot, true);
        Ok(())
    }

    fn note(&mut self, boot: u64) -> Result<(), StateError> {
        let path = &self.boot_path;
        let failed = |source| StateError {
            doing: "write",
            path: path.clone(),
            source,
        };
        if boot > BOOT_MAX {
            let wrong = "no greater number is left; remove the file, and the node takes a number \
                         from the clock, or issue a certificate of another name";
            return Err(failed(io::Error::other(wrong)));
        }
        replace(path, format!("{boot}\n").as_bytes()).map_err(failed)
    }
}

/// Lock a file until it is dropped. The system unlocks it when a process dies, so no stale lock
/// remains.
fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::Error::other(
            "another running node uses this folder; stop that node, or give this node a \
             `state_dir` of its own",
        )),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Make a folder, with its parents, that only its owner may enter. An existing folder stays as it
/// is.
pub(crate) fn private_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

/// Check that the path, if it exists, leads to a plain file. A folder cannot be replaced by a file,
/// and a device must not be.
pub(crate) fn check_replaceable(path: &Path) -> io::Result<()> {
    match fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        false => Ok(()),
        true => {
            let text = "the path exists and is no file; choose another path";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
        }
    }
}

/// Write a file that only its owner may read: the whole file or nothing.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_as(path, bytes, 0o600)
}

/// Write a file of this mode: the whole file or nothing. If several processes write it at the same
/// time, the last one wins. A process that is killed meanwhile may leave `FILE.HEX.new` behind.
pub(crate) fn replace_as(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    check_replaceable(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}.new", u64::from_le_bytes(random_bytes()?)));
    let beside = path.with_file_name(name);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    let replaced = fill(file, bytes, mode).and_then(|()| fs::rename(&beside, path));
    if replaced.is_err() {
        // The first error is the one that is returned.
        let _ = fs::remove_file(&beside);
    }
    replaced
}

/// The mode is set after the file is made, so the umask does not limit it.
fn fill(mut file: File, bytes: &[u8], mode: u32) -> io::Result<()> {
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Bytes from the operating system's generator.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("no randomness from the operating system"))?;
    Ok(bytes)
}

/// The wall clock in milliseconds since 1970; 0 if the clock is before that.
#[expect(
    clippy::disallowed_methods,
    reason = "boots are ordered across lives by the wall clock"
)]
pub(crate) fn wall_clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The seconds since 1970, as certificates count them.
pub(crate) fn wall_clock_seconds() -> i64 {
    i64::try_from(wall_clock_ms() / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_lasts_and_boot_grows_even_if_the_clock_is_behind() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("state");
        let first = NodeState::open(&dir).unwrap();
        assert!(first.boot > 1_600_000_000_000);
        let (secret, ahead) = (first.secret, first.boot + 1_000_000_000);
        drop(first);
        fs::write(dir.join("boot"), format!("{ahead}")).unwrap();
        let second = NodeState::open(&dir).unwrap();
        assert_eq!(second.boot, ahead + 1);
        assert_eq!(second.secret, secret);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&dir.join("secret")), 0o600);
    }

    #[test]
    fn a_raised_boot_is_stored_and_the_greatest_number_is_never_used() {
        let dir = tempfile::tempdir().unwrap();
        let mut state = NodeState::open(dir.path()).unwrap();
        let ahead = state.boot + 1_000_000_000;
        state.raise(ahead).unwrap();
        let above = state.boot - ahead;
        assert!(above < 1 << 20 && state.returns, "{above}");
        let before = state.boot;
        state.raise(5).unwrap();
        assert!(state.boot > before, "it never goes back");
        let noted = || fs::read_to_string(dir.path().join("boot")).unwrap();
        assert_eq!(noted(), format!("{}\n", state.boot));
        state.raise(u64::MAX - 1).unwrap();
        let error = state.raise(0).unwrap_err().to_string();
        assert!(error.contains("remove the file"), "{error}");
        assert_eq!(state.boot, u64::MAX - 1);
        assert_eq!(noted(), format!("{}\n", u64::MAX - 1));
        drop(state);
        assert!(NodeState::open(dir.path()).is_err());
        fs::write(dir.path().join("boot"), u64::MAX.to_string()).unwrap();
        assert!(NodeState::open(dir.path()).is_err());
    }

    #[test]
    fn a_state_folder_is_of_one_node_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let held = NodeState::open(dir.path()).unwrap();
        let noted = fs::read(dir.path().join("boot")).unwrap();
        let clone = held.clone();
        drop(held);
        let error = NodeState::open(dir.path()).err().unwrap().to_string();
        assert!(
            error.contains(dir.path().to_str().unwrap()) && error.contains("stop that node"),
            "{error}"
        );
        assert_eq!(fs::read(dir.path().join("boot")).unwrap(), noted);
        let boot = clone.boot;
        drop(clone);
        assert!(NodeState::open(dir.path()).unwrap().boot > boot);
    }

    #[test]
    fn a_file_that_many_replace_at_once_is_whole_and_has_the_mode_asked_for() {
        const WRITERS: u8 = 4;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("targets.json");
        // A half-written file of another program, under an obvious name.
        let others = dir.path().join("targets.json.new");
        fs::write(&others, "half").unwrap();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..8 {
                        replace_as(path, &[writer; 1 << 16], 0o666).unwrap();
                        let read = fs::read(path).unwrap();
                        assert_eq!(read, [read[0]; 1 << 16]);
                    }
                });
            }
        });
        assert_eq!(fs::read(&others).unwrap(), b"half");
        // The usual umask would not let other users write.
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn damaged_state_is_named_and_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        NodeState::open(dir.path()).unwrap();
        for (file, damage) in [("boot", "soon"), ("secret", "short")] {
            let path = dir.path().join(file);
            let good = fs::read(&path).unwrap();
            fs::write(&path, damage).unwrap();
            let error = NodeState::open(dir.path()).err().unwrap().to_string();
            assert!(error.contains(file) && error.contains("remove"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), damage.as_bytes());
            fs::write(&path, good).unwrap();
        }
    }
}
