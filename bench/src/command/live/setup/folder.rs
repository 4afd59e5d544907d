//! A folder that is removed with this process, however it ends.

use std::io;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::{Child, Command};

/// The program of the child: it waits for the end of this process, and then tries for ten seconds
/// to remove the folder, as nodes may still write there.
const REMOVAL: &str = r#"read -r _
for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$0" && break; sleep 1; done"#;

/// The folder. It is removed when this is dropped; if this process is killed, a child removes it.
#[derive(Debug)]
pub(super) struct Folder {
    // The fields are dropped in this order, so the child finds nothing to remove.
    dir: TempDir,
    _child: Child,
}

impl Folder {
    pub(super) fn make() -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("binomesh-").tempdir()?;
        let child = Command::new("sh")
            .args(["-c", REMOVAL])
            .arg(dir.path())
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            // In a process group of its own, the child gets no Ctrl-C, and lives on to remove the
            // folder.
            .process_group(0)
            .spawn()?;
        Ok(Self { dir, _child: child })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_folder_goes_when_this_process_holds_it_no_longer() {
        let dropped = Folder::make().unwrap();
        let path = dropped.path().to_owned();
        std::fs::write(path.join("file"), "").unwrap();
        drop(dropped);
        assert!(!path.exists());

        // Dropping only the child's input does the same as the end of this process.
        let Folder { dir, mut _child } = Folder::make().unwrap();
        let path = dir.keep();
        std::fs::write(path.join("file"), "").unwrap();
        drop(_child.stdin.take());
        assert!(_child.wait().await.unwrap().success());
        assert!(!path.exists());
    }
}
