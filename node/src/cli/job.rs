//! The command that `run` starts once its node is a member, as `run -- COMMAND`.
//!
//! ```text
//!   run ──▶ node ... member ──▶ exec ──▶ COMMAND        (the same process as exec)
//!    ▲  └── signals ──────────────────────▶ │
//!    └───────────── exit status ────────────┘  then the node leaves
//! ```
//!
//! `exec` asks the kernel to end the command when `run` ends, for any reason.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::Failure;
use super::run::Stop;

/// The time that a command has to end when its node has ended.
const FAREWELL: Duration = Duration::from_secs(10);
/// The status by which shells report a command that cannot be started.
const NOT_STARTED: u8 = 127;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  binomesh exec --parent 4711 -- uname -r")]
pub(super) struct ExecFlags {
    /// The process with which the command is to end.
    #[arg(long)]
    pub(super) parent: u32,
    /// The command.
    #[arg(last = true, required = true)]
    pub(super) command: Vec<OsString>,
}

/// A command, and the values that it gets in its environment.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) command: Vec<OsString>,
    /// The node's place and the number of nodes, if the node has a place.
    pub(super) place: Option<(u32, u32)>,
    pub(super) admin_socket: Option<PathBuf>,
    /// The variable with the secret of the job. The command does not inherit it.
    pub(super) secret: Option<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobEnd(u8);

impl JobEnd {
    /// The end of a command that a signal prevented from starting.
    pub(super) fn before_start(signal: Signal) -> Self {
        Self(128_u8.saturating_add(signal.as_raw() as u8))
    }

    fn of(status: ExitStatus) -> Self {
        let by_signal = || status.signal().map(|signal| 128 + signal);
        let code = status.code().or_else(by_signal).unwrap_or(1);
        Self(u8::try_from(code).unwrap_or(1))
    }

    /// The command's status as the status of this process.
    pub(super) fn outcome(self) -> Result<(), Failure> {
        match self.0 {
            0 => Ok(()),
            status => Err(Failure::new(status, "")),
        }
    }
}

impl Job {
    /// Start the command.
    pub(super) fn start(&self) -> Result<Running, Failure> {
        let itself = std::env::current_exe().map_err(|error| {
            Failure::failed(format!(
                "the path of this program is unknown: \
                                                      {error}"
            ))
        })?;
        let mut command = Command::new(itself);
        let parent = std::process::id().to_string();
        command.args(["exec", "--parent", &parent, "--"]);
        command.args(&self.command);
        // Settings of this node must not reach other nodes that the command may start.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BINOMESH_") {
                command.env_remove(name);
            }
        }
        // The command is not the service that the service manager started.
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        if let Some(name) = &self.secret {
            command.env_remove(name);
        }
        if let Some(socket) = &self.admin_socket {
            let whole = std::path::absolute(socket).unwrap_or_else(|_| socket.clone());
            command.env("BINOMESH_ADMIN", whole);
        }
        if let Some((ordinal, size)) = self.place {
            command.env("BINOMESH_ORDINAL", ordinal.to_string());
            command.env("BINOMESH_SIZE", size.to_string());
        }
        let child = command.kill_on_drop(true).spawn();
        let child = child.map_err(|error| {
            Failure::new(NOT_STARTED, format!("cannot start the command: {error}"))
        })?;
        Ok(Running { child })
    }
}

/// A command that is running.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
}

impl Running {
    /// Wait for the command's end, and pass signals on to it meanwhile.
    pub(super) async fn ended(&mut self, stop: &mut Stop) -> Result<JobEnd, Failure> {
        loop {
            let signal = tokio::select! {
                status = self.child.wait() => {
                    let failed = |error| Failure::failed(format!("cannot wait for the end of the command: {error}"));
                    return status.map(JobEnd::of).map_err(failed);
                }
                signal = stop.passed_on() => signal,
            };
            // A terminal sends these signals to the command as well.
            let is_from_keys = matches!(signal, Signal::INT | Signal::QUIT);
            if !(is_from_keys && std::io::stdin().is_terminal()) {
                self.signal(signal);
            }
        }
    }

    /// End the command, because its node has ended.
    pub(super) async fn end(&mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(FAREWELL, self.child.wait())
            .await
            .is_err()
        {
            tracing::warn!("the command did not end after SIGTERM and is killed");
            let _ = self.child.kill().await;
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw)
            && let Err(error) = kill_process(pid, signal)
        {
            tracing::debug!(%error, ?signal, "signal not passed on");
        }
    }
}

/// Become the command, which the kernel kills when the process `parent` ends.
pub(super) fn exec(flags: &ExecFlags) -> Result<(), Failure> {
    let asked = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    asked.map_err(|error| Failure::failed(format!("cannot watch the parent process: {error}")))?;
    // The parent may have ended before the kernel was asked.
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if parent != i32::try_from(flags.parent).ok() {
        return Err(Failure::failed(
            "the process that started this command has ended",
        ));
    }
    let Some((program, arguments)) = flags.command.split_first() else {
        return Err(Failure::usage("no command is given; write it after --"));
    };
    let error = std::process::Command::new(program).args(arguments).exec();
    let program = program.to_string_lossy();
    Err(Failure::new(
        NOT_STARTED,
        format!("cannot start {program:?}: {error}; correct the command after --"),
    ))
}
