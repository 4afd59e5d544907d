//! Reads files that settings name. A daemon reads them while it runs, so no file may block it: a
//! pipe without a writer would block it for ever.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a file that is read whole. A guess: a revocation list of a hundred thousand
/// certificates has some megabytes. A longer file is an error.
const LENGTH_MAX: u64 = 64 << 20;

/// Open a regular file, or a link to one.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Checked first, since opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        let text = "the path leads to a pipe, a device or a folder, not to a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    File::open(path)
}

/// The contents of a file, unless it is too long.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(LENGTH_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LENGTH_MAX {
        let text = format!("the file is longer than {LENGTH_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_and_folders_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [&pipe, Path::new("/dev/zero"), dir.path()] {
            let error = read(path).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::InvalidInput,
                "{path:?}: {error}"
            );
        }
        let file = dir.path().join("file");
        std::fs::write(&file, "text").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read(&link).unwrap(), b"text");
    }
}
