//! A Unix socket that only its owner may use. Its file is removed when the process ends in order. A
//! file that a killed process has left is replaced.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The longest path that a socket address holds, less its final zero.
const MAX_PATH: usize = 107;

/// The longest path of a [`SocketFile`], which is first bound at its path and `.d/s`.
const MAX_FILE_PATH: usize = MAX_PATH - ".d/s".len();

/// Why the socket was not made.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process answers at that path.
    #[error("{} is in use by another process; stop that process, or choose another `admin_socket`", .0.display())]
    InUse(PathBuf),
    /// The path leads to a file that is no socket.
    #[error("{} is not a socket; remove the file, or choose another `admin_socket`", .0.display())]
    NotASocket(PathBuf),
    /// The path is longer than 103 bytes.
    #[error("{} is longer than {} bytes, the limit for the path of a socket; choose a shorter path", .0.display(), MAX_FILE_PATH)]
    TooLong(PathBuf),
    /// The operating system refused.
    #[error("cannot make the socket {path}: {source}", path = .path.display())]
    Io {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The file of a bound socket. It is removed when dropped, unless another file has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// The file's device and inode.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    /// Bind `path`. A stale socket, at which no process answers, is replaced.
    pub(crate) async fn bind(path: &Path) -> Result<(Self, UnixListener), SocketError> {
        // The socket is bound in a private folder and then moved, so that other users can connect
        // at no moment.
        let mut folder = path.as_os_str().to_owned();
        folder.push(".d");
        let folder = PathBuf::from(folder);
        let inside = folder.join("s");
        if inside.as_os_str().len() > MAX_PATH {
            return Err(SocketError::TooLong(path.to_owned()));
        }
        check_stale(path).await?;
        let made = || -> io::Result<UnixListener> {
            if let Some(parent) = path.parent() {
                fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(parent)?;
            }
            let _ = fs::remove_file(&inside);
            let _ = fs::remove_dir(&folder);
            fs::DirBuilder::new().mode(0o700).create(&folder)?;
            let listener = UnixListener::bind(&inside)?;
            fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
            fs::rename(&inside, path)?;
            fs::remove_dir(&folder)?;
            Ok(listener)
        };
        let failed = |source| SocketError::Io {
            path: path.to_owned(),
            source,
        };
        let listener = made().map_err(failed)?;
        let path = path.to_owned();
        let identity = identity_of(&path);
        Ok((Self { path, identity }, listener))
    }
}

async fn check_stale(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::NotASocket(path.to_owned()));
        }
        _ => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(source) => Err(SocketError::Io {
            path: path.to_owned(),
            source,
        }),
        Ok(_) => Err(SocketError::InUse(path.to_owned())),
    }
}

fn identity_of(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity_of(&self.path) == self.identity {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let (file, listener) = SocketFile::bind(&path).await.unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = SocketFile::bind(&path).await;
        assert!(matches!(second, Err(SocketError::InUse(_))));
        drop(listener);
        let (again, listener) = SocketFile::bind(&path).await.unwrap();
        drop(file);
        UnixStream::connect(&path).await.unwrap();
        drop((again, listener));
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        let refused = SocketFile::bind(&path).await;
        assert!(matches!(refused, Err(SocketError::NotASocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn the_longest_path_is_the_one_that_the_error_names() {
        let dir = tempfile::tempdir().unwrap();
        let of_length = |length: usize| {
            let name = length - dir.path().as_os_str().len() - 1;
            dir.path().join("s".repeat(name))
        };
        let error = SocketFile::bind(&of_length(104)).await.unwrap_err();
        assert!(
            error.to_string().contains("longer than 103 bytes"),
            "{error}"
        );
        SocketFile::bind(&of_length(103)).await.unwrap();
    }
}
