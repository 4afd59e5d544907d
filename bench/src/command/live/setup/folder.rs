//! A folder that goes with this process, however it ends.

use std::io;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Waits for the end of this process, and has ten seconds for nodes that still write.
const REMOVAL: &str = r#"read -r _
for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$0" && break; sleep 1; done"#;

/// The folder. Dropping this removes it. If this process is killed, a child does.
#[derive(Debug)]
pub(super) struct Folder {
    // Dropped in this order: nothing is left for the child to remove.
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
            // Ctrl-C is for us.
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

        // What the end of this process does to the child.
        let Folder { dir, mut _child } = Folder::make().unwrap();
        let path = dir.keep();
        std::fs::write(path.join("file"), "").unwrap();
        drop(_child.stdin.take());
        assert!(_child.wait().await.unwrap().success());
        assert!(!path.exists());
    }
}
