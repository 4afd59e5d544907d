//! A node's process, from outside: requests go in, responses come out.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::super::Peers;
use super::super::credentials::{CredentialsFolder, name};
use super::super::figures::System;
use super::protocol::{Request, Response};
use crate::command::Failure;

/// The longest time from the answer to the request to stop until the end of the process.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The process of a node. It is killed when this is dropped.
pub(super) struct Child {
    /// The name for errors.
    name: String,
    process: tokio::process::Child,
    requests: ChildStdin,
    responses: Lines<BufReader<ChildStdout>>,
    patience: Duration,
}

impl Child {
    /// Start this program once more, as one node.
    pub(super) fn start(
        peers: &Peers,
        home: &CredentialsFolder,
        system: System,
        node: u32,
    ) -> Result<Self, Failure> {
        let name = format!("{} of {}", name(node), system.name());
        let program = std::env::current_exe().map_err(Failure::run)?;
        let mut command = Command::new(program);
        command
            .args(["peers-node", "--system", system.name()])
            .args(["--node", &node.to_string()])
            .args(["--nodes", &peers.nodes.to_string()])
            .args(["--profile", &peers.profile.to_string()])
            .args(["--window-mib", &peers.window_mib.to_string()])
            .arg("--folder")
            .arg(home.path());
        if peers.signatures {
            command.arg("--signatures");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let spawned = command.kill_on_drop(true).spawn();
        let mut process = spawned.map_err(|error| {
            Failure::Run(format!("cannot start the process of {name}: {error}"))
        })?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (requests, responses) = pipes.ok_or_else(|| {
            Failure::run("the process of a node has no pipes for its orders and answers")
        })?;
        Ok(Self {
            name,
            process,
            requests,
            responses: BufReader::new(responses).lines(),
            patience: Duration::from_secs(peers.timeout_seconds) + super::longest_request(peers),
        })
    }

    /// Send a request, and wait for its answer.
    pub(super) async fn ask(&mut self, request: &Request) -> Result<Response, Failure> {
        self.tell(request).await?;
        self.answer().await
    }

    /// Send a request whose answer is read later.
    pub(super) async fn tell(&mut self, request: &Request) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(request).map_err(Failure::run)?;
        line.push(b'\n');
        if self.requests.write_all(&line).await.is_err() {
            return Err(self.has_ended());
        }
        Ok(())
    }

    /// The answer to the last request.
    pub(super) async fn answer(&mut self) -> Result<Response, Failure> {
        let Ok(line) = timeout(self.patience, self.responses.next_line()).await else {
            let (name, seconds) = (&self.name, self.patience.as_secs());
            return Err(Failure::Run(format!(
                "{name} gave no answer within {seconds} s; give a larger --timeout-seconds"
            )));
        };
        let Ok(Some(line)) = line else {
            return Err(self.has_ended());
        };
        match serde_json::from_str(&line).map_err(Failure::run)? {
            Response::Failed { reason } => Err(Failure::Run(format!("{}: {reason}", self.name))),
            answer => Ok(answer),
        }
    }

    /// Wait for the end of a process that was told to stop.
    pub(super) async fn ended(mut self) -> Result<(), Failure> {
        drop(self.requests);
        match timeout(ENDS_WITHIN, self.process.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(Failure::Run(format!(
                "the process of {} failed: {status}",
                self.name
            ))),
            Ok(Err(error)) => Err(Failure::run(error)),
            Err(_) => Err(Failure::Run(format!(
                "the process of {} did not end in time",
                self.name
            ))),
        }
    }

    /// The error that `answer` does not fit the request.
    pub(super) fn surprised(&self, answer: &Response) -> Failure {
        Failure::Run(format!(
            "{} gave an unexpected answer: {answer:?}",
            self.name
        ))
    }

    fn has_ended(&mut self) -> Failure {
        let status = match self.process.try_wait() {
            Ok(Some(status)) => status.to_string(),
            _ => "the process closed its output".to_owned(),
        };
        Failure::Run(format!("{} ended before it answered: {status}", self.name))
    }
}
