//! The process of one node: it reads requests from stdin, and writes responses to stdout.
//!
//! Its node has a runtime with one thread, as a daemon has by default. Orders come in on another
//! thread, which publishes like a user's program, and sleeps while there is no request.

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use binomesh::Profile;
use bytes::Bytes;
use clap::Args;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::sleep_until;

use super::super::credentials::CredentialsFolder;
use super::super::figures::System;
use super::log::Log;
use super::member::Member;
use super::protocol::{Request, Response};
use crate::command::{Failure, Finding};
use crate::record::{self, CpuWatch, uptime_ns};

/// Be one node of `peers --processes`.
#[derive(Debug, Clone, Args)]
pub struct PeersNode {
    /// The system to which the node belongs.
    #[arg(long)]
    pub system: System,
    /// The number of the node, from 0.
    #[arg(long)]
    pub node: u32,
    /// The number of nodes of the system.
    #[arg(long)]
    pub nodes: u32,
    /// How eagerly nodes of ours watch each other.
    #[arg(long)]
    pub profile: Profile,
    /// Let the nodes of Binomesh sign their messages.
    #[arg(long)]
    pub signatures: bool,
    /// How much of ours is without a receipt at most.
    #[arg(long)]
    pub window_mib: u32,
    /// Where the certificates of all are.
    #[arg(long)]
    pub folder: PathBuf,
}

impl PeersNode {
    /// Serve requests until the request to end, or the end of stdin.
    pub fn run(&self) -> Result<Finding, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::run)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = std::thread::spawn(move || {
            let _ = runtime.block_on(stopped);
        });
        let followed = self.follow(&handle);
        drop(stop);
        running
            .join()
            .map_err(|_| Failure::run("the thread of the node has panicked"))?;
        followed.map(|()| Finding::Good)
    }

    fn follow(&self, handle: &Handle) -> Result<(), Failure> {
        let home = CredentialsFolder::at(
            self.folder.clone(),
            self.nodes,
            self.profile,
            self.signatures,
        );
        let mut following = Following {
            node: self.node,
            window_bytes: (self.window_mib as usize) << 20,
            system: self.system,
            home,
            cpu: CpuWatch::of_process(),
            log: Arc::default(),
            member: None,
        };
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(Failure::run)?;
            let request: Request = serde_json::from_str(&line).map_err(Failure::run)?;
            let answer = handle.block_on(following.follow(&request));
            let answer = answer.unwrap_or_else(|failure| Response::Failed {
                reason: failure.to_string(),
            });
            record::print_json(&answer)?;
            if matches!(request, Request::End) {
                break;
            }
        }
        Ok(())
    }
}

/// A node that serves requests, with its counts.
struct Following {
    node: u32,
    window_bytes: usize,
    system: System,
    home: CredentialsFolder,
    cpu: CpuWatch,
    log: Arc<Log>,
    member: Option<Member>,
}

impl Following {
    async fn follow(&mut self, request: &Request) -> Result<Response, Failure> {
        match request {
            Request::Start { parent, children } => {
                let member = match self.system {
                    System::Ours => {
                        Member::ours(&self.home, self.node, *parent, self.window_bytes)?
                    }
                    System::Star | System::Tree => {
                        Member::bare(&self.home, self.node, *parent, *children)?
                    }
                };
                let address = member.address()?;
                self.member = Some(member);
                return Ok(Response::Started { address });
            }
            Request::Count { keeps } => self.log.clear(*keeps),
            Request::Await { messages } => {
                let times_ns = self.log.wait(*messages).await;
                return Ok(Response::Arrived { times_ns });
            }
            Request::Usage => {
                return Ok(Response::Usage {
                    processor_ns: self.cpu.elapsed().as_nanos() as u64,
                    wakeups: record::wakeups().map_err(Failure::run)?,
                });
            }
            _ => return self.have_member(request).await,
        }
        Ok(Response::Done)
    }

    async fn have_member(&mut self, request: &Request) -> Result<Response, Failure> {
        let member = self.member.as_mut();
        let member = member.ok_or_else(|| {
            Failure::run(
                "the order came before the node was \
                                                        started",
            )
        })?;
        match request {
            Request::Join => member.join(&self.log).await?,
            Request::Report => {
                let report = Box::new(member.report().await?);
                return Ok(Response::Report { report });
            }
            Request::SendSpaced {
                bytes,
                count,
                pause_us,
            } => {
                let pause = Duration::from_micros(*pause_us);
                return send_spaced(member, payload(*bytes), *count, pause).await;
            }
            Request::SendFor { bytes, millis } => {
                return send_for(member, payload(*bytes), Duration::from_millis(*millis)).await;
            }
            _ => member.stop().await,
        }
        Ok(Response::Done)
    }
}

fn payload(bytes: usize) -> Bytes {
    Bytes::from(vec![0x5a; bytes])
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark sends by wall time; no machine reads this clock"
)]
async fn send_spaced(
    member: &mut Member,
    payload: Bytes,
    count: u64,
    pause: Duration,
) -> Result<Response, Failure> {
    let mut times_ns = Vec::new();
    let mut next = tokio::time::Instant::now();
    for _ in 0..count {
        sleep_until(next).await;
        times_ns.push(uptime_ns());
        member.send(payload.clone()).await?;
        member.settle().await?;
        next = (next + pause).max(tokio::time::Instant::now());
    }
    let messages = count;
    Ok(Response::Sent { times_ns, messages })
}

async fn send_for(
    member: &mut Member,
    payload: Bytes,
    length: Duration,
) -> Result<Response, Failure> {
    let begun = uptime_ns();
    let end = begun + length.as_nanos() as u64;
    let mut messages = 0;
    while messages == 0 || uptime_ns() < end {
        member.send(payload.clone()).await?;
        messages += 1;
    }
    member.settle().await?;
    let times_ns = vec![begun, uptime_ns()];
    Ok(Response::Sent { times_ns, messages })
}
