//! The commands. Standard output carries only data; logs go to standard error.
//!
//! Exit status: 0 success, 1 failed check or partial receipt, 2 usage, 3 unreachable, 4 timeout, 5
//! a newer process has the identity of this node. `run -- COMMAND` ends with the command's status.

mod arguments;
mod ask;
mod authority;
mod collective;
mod descriptors;
mod host_list;
mod job;
mod launch;
mod listen;
mod log;
mod output;
mod push;
mod run;
mod service;
mod targets;
mod up;
mod wait;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::builder::Resettable;
use clap::{CommandFactory, FromArgMatches};
use log::start_log;
use output::{Output, note};

use crate::client::ClientError;

/// Parse the arguments of this process and run the command.
pub fn main() -> ExitCode {
    let parsed = without_empty(Arguments::command())
        .try_get_matches()
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            let status = u8::try_from(error.exit_code()).unwrap_or(2);
            // Help is data, so it is an error if it cannot be written, except to a closed pipe.
            return match error.print() {
                Err(error) if status == 0 && error.kind() != ErrorKind::BrokenPipe => {
                    note(format_args!("binomesh: cannot write the help: {error}"));
                    ExitCode::from(1)
                }
                _ => ExitCode::from(status),
            };
        }
    };
    let outcome = descriptors::raise().and_then(|()| dispatch(arguments.command));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                note(format_args!("binomesh: {}", failure.message));
            }
            ExitCode::from(failure.status)
        }
    }
}

/// Ignore environment variables that are empty, as other programs do.
fn without_empty(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| match arg.get_env().is_some_and(is_empty) {
            true => arg.env(Resettable::Reset),
            false => arg,
        })
        .mut_subcommands(without_empty)
}

fn dispatch(command: Command) -> Result<(), Failure> {
    // `run` takes its log settings from its file. The log of `exec` would mix with the command's.
    if !matches!(command, Command::Run(_) | Command::Exec(_)) {
        let filter = std::env::var("BINOMESH_LOG").unwrap_or_else(|_| "warn".to_owned());
        start_log(&filter, false)?;
    }
    match command {
        Command::Ca(command) => authority::ca(&command),
        Command::Run(flags) => run::run(&flags),
        Command::Up(flags) => {
            let output = Output::stdout(flags.json);
            // This process only starts the nodes and asks them; the nodes do the work.
            runtime(2)?.block_on(up::up(flags, output))
        }
        Command::Status(flags) => {
            let output = Output::stdout(flags.json);
            small_runtime()?.block_on(ask::status(&flags.target, output))
        }
        Command::Topology(flags) => {
            let output = Output::stdout(flags.json);
            small_runtime()?.block_on(ask::topology(&flags.target, output))
        }
        Command::Targets(flags) => {
            let output = Output::stdout(flags.json);
            small_runtime()?.block_on(targets::targets(&flags, output))
        }
        Command::Send(flags) => small_runtime()?.block_on(ask::send(&flags)),
        Command::Broadcast(flags) => small_runtime()?.block_on(ask::broadcast(&flags)),
        Command::Push(flags) => {
            let runtime = small_runtime()?;
            let pushed = runtime.block_on(push::push(&flags));
            // Do not wait for a read of standard input that is open but no longer needed.
            runtime.shutdown_background();
            pushed
        }
        Command::Subscribe(flags) => small_runtime()?.block_on(listen::subscribe(&flags)),
        Command::Wait(flags) => small_runtime()?.block_on(wait::wait(&flags)),
        Command::Barrier(flags) => small_runtime()?.block_on(collective::barrier(&flags)),
        Command::Agree(flags) => small_runtime()?.block_on(collective::agree(&flags)),
        Command::Gather(flags) => small_runtime()?.block_on(collective::gather(&flags)),
        Command::Reduce(flags) => small_runtime()?.block_on(collective::reduce(&flags)),
        Command::Collectives(flags) => small_runtime()?.block_on(collective::collectives(&flags)),
        Command::Exec(flags) => job::exec(&flags),
        Command::Leave(flags) => small_runtime()?.block_on(ask::leave(&flags)),
    }
}

/// Why a command failed, and its exit status.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    fn new(status: u8, message: impl ToString) -> Self {
        let message = message.to_string();
        Self { status, message }
    }

    /// Any failure without a status of its own, such as a failed check.
    fn failed(message: impl ToString) -> Self {
        Self::new(1, message)
    }

    /// The arguments are not valid.
    fn usage(message: impl ToString) -> Self {
        Self::new(2, message)
    }

    fn unreachable(message: impl ToString) -> Self {
        Self::new(3, message)
    }

    /// Status 5 tells service managers not to start this node again, which would only repeat the
    /// dispute.
    fn superseded(message: impl ToString) -> Self {
        Self::new(5, message)
    }

    fn timeout(message: impl ToString) -> Self {
        Self::new(4, message)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Unreachable { .. } => Self::unreachable(error),
            ClientError::Refused { status: 400, .. } => Self::usage(error),
            _ if error.is_timeout() => Self::timeout(error),
            _ => Self::failed(error),
        }
    }
}

fn runtime(threads: usize) -> Result<tokio::runtime::Runtime, Failure> {
    if threads == 1 {
        return small_runtime();
    }
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build();
    built.map_err(|error| {
        Failure::failed(format!(
            "cannot start the threads of this program: \
                                                   {error}"
        ))
    })
}

fn small_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    built.map_err(|error| {
        Failure::failed(format!(
            "cannot start the threads of this program: \
                                                   {error}"
        ))
    })
}
