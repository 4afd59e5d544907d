//! One child process of a local cluster.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, watch};

/// The longest first line that is read of a child's output.
const MAX_LINE: u64 = 64 << 10;

/// A child process whose standard input stays open as long as this value lives. A child that
/// watches its input notices the end of this process, even a crash. Dropping the value kills the
/// child.
#[derive(Debug)]
pub(crate) struct Process {
    /// Held to keep this process's end of the pipe open.
    _stdin: Option<ChildStdin>,
    signals: mpsc::Sender<Signal>,
    exited: watch::Receiver<Option<ExitStatus>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGTERM: leave, then end.
    Terminate,
    /// SIGKILL: end at once.
    Kill,
    /// SIGSTOP: do nothing until told to go on.
    Pause,
    /// SIGCONT: go on.
    Resume,
}

impl Process {
    /// Start `command` with its standard error in `log`, and wait for the first line that it
    /// prints; `None` if it ended without one.
    pub(crate) async fn start(
        mut command: Command,
        log: &Path,
    ) -> io::Result<(Self, Option<String>)> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let (signals, asked) = mpsc::channel(4);
        let (sender, exited) = watch::channel(None);
        tokio::spawn(monitor(child, asked, sender));
        let process = Self {
            _stdin: stdin,
            signals,
            exited,
        };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            let mut reader = BufReader::new(tokio::io::AsyncReadExt::take(stdout, MAX_LINE));
            reader.read_line(&mut line).await?;
            // No more lines are expected. The rest is read and dropped, so that the child never
            // blocks on it.
            let mut rest = reader.into_inner().into_inner();
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
            });
        }
        Ok((process, (!line.is_empty()).then_some(line)))
    }

    /// Send a signal, unless the process has ended.
    pub(crate) async fn signal(&self, signal: Signal) {
        let _ = self.signals.send(signal).await;
    }

    /// The exit status, if the process has ended.
    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        *self.exited.borrow()
    }

    /// Wait until the process has ended.
    pub(crate) async fn wait(&self) -> Option<ExitStatus> {
        let mut exited = self.exited.clone();
        let found = exited.wait_for(Option::is_some).await;
        found.ok().and_then(|status| *status)
    }
}

/// The task that owns the child, so that a signal never reaches a pid that now belongs to another
/// process.
async fn monitor(
    mut child: Child,
    mut signals: mpsc::Receiver<Signal>,
    exited: watch::Sender<Option<ExitStatus>>,
) {
    loop {
        let signal = tokio::select! {
            status = child.wait() => {
                exited.send_replace(status.ok());
                return;
            }
            signal = signals.recv() => signal,
        };
        let result = match signal {
            Some(Signal::Kill) => child.start_kill(),
            Some(signal) => send(&child, signal),
            None => {
                // The handle was dropped: kill the child and collect its status.
                let _ = child.kill().await;
                return;
            }
        };
        if let Err(error) = result {
            tracing::debug!(%error, ?signal, "signal not sent");
        }
    }
}

fn send(child: &Child, signal: Signal) -> io::Result<()> {
    use rustix::process::{Pid, Signal as Number, kill_process};
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let Some(pid) = pid.and_then(Pid::from_raw) else {
        return Ok(());
    };
    let number = match signal {
        Signal::Terminate => Number::TERM,
        Signal::Kill => Number::KILL,
        Signal::Pause => Number::STOP,
        Signal::Resume => Number::CONT,
    };
    kill_process(pid, number)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    async fn shell(script: &str) -> (Process, Option<String>) {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, &dir.path().join("log"))
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_child_that_watches_its_input_ends_with_us() {
        let (process, line) = shell("echo ready; cat >/dev/null; exit 7").await;
        assert_eq!(line.as_deref(), Some("ready\n"));
        assert_eq!(process.exit_status(), None);
        let Process {
            _stdin: stdin,
            mut exited,
            signals,
            ..
        } = process;
        drop(stdin);
        let status = *exited.wait_for(Option::is_some).await.unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(7));
        drop(signals);
    }

    #[tokio::test]
    async fn signals_reach_the_child_and_its_end_is_seen() {
        for (signal, number) in [(Signal::Terminate, 15), (Signal::Kill, 9)] {
            let (process, _) = shell("echo ready; exec cat >/dev/null").await;
            process.signal(signal).await;
            let status = process.wait().await.unwrap();
            assert_eq!(status.signal(), Some(number));
        }
    }

    #[tokio::test]
    async fn a_paused_child_can_be_killed_and_goes_on_when_told() {
        let dir = tempfile::tempdir().unwrap();
        let word = dir.path().join("word");
        let script = format!(
            "echo ready; until [ -e {} ]; do sleep 0.02; done; exit 5",
            word.display()
        );
        let (process, _) = shell(&script).await;
        process.signal(Signal::Pause).await;
        std::fs::write(&word, "").unwrap();
        let while_paused = std::time::Duration::from_millis(300);
        let ended = tokio::time::timeout(while_paused, process.wait()).await;
        assert!(ended.is_err(), "it ended while paused");
        process.signal(Signal::Resume).await;
        let status = process.wait().await.unwrap();
        assert_eq!(status.code(), Some(5));

        let (process, _) = shell("echo ready; exec cat >/dev/null").await;
        process.signal(Signal::Pause).await;
        process.signal(Signal::Kill).await;
        assert_eq!(process.wait().await.unwrap().signal(), Some(9));
    }

    #[tokio::test]
    async fn a_child_that_says_nothing_is_noticed() {
        let (process, line) = shell("exit 3").await;
        assert_eq!(line, None);
        assert_eq!(
            process.wait().await.and_then(|status| status.code()),
            Some(3)
        );
    }
}
