//! `peers --processes`: each node in a process of its own, as users run them.
//!
//! ```text
//!   this process ─requests─▶ node 0, 1, 2 …    each a process with one thread for its node
//!                ◀─answers──                   lines of JSON over stdin and stdout
//! ```
//!
//! All processes read the same monotonic clock, so receivers note when messages came and report the
//! times afterwards. While node 0 sends, no process gets a request.

mod child;
mod log;
mod member;
pub(super) mod node;
mod protocol;

use std::time::Duration;

use binomesh::verify::verify;
use tokio::time::sleep;

use super::credentials::CredentialsFolder;
use super::figures::{Figure, Figures, IDLE, System};
use super::measure::Workload;
use super::{Peers, order};
use crate::command::Failure;
use crate::record::{self, quantile};
use child::Child;
use protocol::{Request, Response};

/// How many messages are sent before measuring, so that windows grow and caches warm.
const WARM_UP: u64 = 20;
/// The time that the pauses between single messages add up to, unless their number would be outside
/// [`SINGLES`].
const SINGLES_TAKE: Duration = Duration::from_secs(5);
/// The fewest and the most single messages. Guesses, like all numbers here.
const SINGLES: (u64, u64) = (30, 300);
/// The pause before all nodes are asked for their tables again.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// The time after a load in which all messages under way come to rest.
const SETTLE: Duration = Duration::from_secs(2);

const SYSTEMS: [System; 3] = [System::Star, System::Tree, System::Ours];

/// Measure all systems in turn, as often as requested.
pub(super) async fn measure(peers: &Peers) -> Result<Figures, Failure> {
    let home = CredentialsFolder::new(peers.nodes, peers.profile, peers.signatures)?;
    let mut figures = Figures::default();
    for turn in 0..peers.repeat {
        for system in order(&SYSTEMS, turn) {
            let mut round = Round {
                peers,
                home: &home,
                system,
                turn,
                figures: &mut figures,
                children: Vec::new(),
            };
            round.run().await?;
        }
        let (turn, of) = (turn + 1, peers.repeat);
        record::milestone(format_args!("round {turn} of {of} is done"));
    }
    record::progress_done();
    Ok(figures)
}

/// One turn of a system, which is formed and measured with all workloads. The processes of the
/// nodes end with the turn in any case.
struct Round<'a> {
    peers: &'a Peers,
    home: &'a CredentialsFolder,
    system: System,
    turn: u32,
    figures: &'a mut Figures,
    children: Vec<Child>,
}

/// The resources that the processes of all nodes have used.
#[derive(Default)]
struct Usage {
    processor_ns: u64,
    wakeups: u64,
}

impl Round<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        self.say("forming");
        self.form().await?;
        for workload in &self.peers.workload {
            self.say(workload.name());
            let pause = pause(self.peers.nodes, workload);
            self.singles(workload, pause, WARM_UP).await?;
            let count = singles_within(pause);
            let singles = self.singles(workload, pause, count).await?;
            self.note_singles(workload, singles, count);
            self.back_to_back(workload).await?;
        }
        if self.peers.idle_seconds > 0 {
            self.say("idle");
            self.idle().await?;
        }
        self.all(&Request::End).await?;
        for child in self.children.drain(..) {
            child.ended().await?;
        }
        Ok(())
    }

    fn say(&self, what: &str) {
        let (name, nodes) = (self.system.name(), self.peers.nodes);
        let (turn, of) = (self.turn + 1, self.peers.repeat);
        record::progress(format_args!(
            "{name}, {nodes} processes, round {turn} of {of}: {what}"
        ));
    }

    /// The node above a node.
    fn parent(&self, node: u32) -> Option<u32> {
        let before = node.checked_sub(1)?;
        Some(match self.system {
            System::Star => 0,
            System::Tree | System::Ours => before / 2,
        })
    }

    async fn form(&mut self) -> Result<(), Failure> {
        let nodes = self.peers.nodes;
        let mut addresses = Vec::new();
        for node in 0..nodes {
            let mut child = Child::start(self.peers, self.home, self.system, node)?;
            let parent = self.parent(node).map(|parent| addresses[parent as usize]);
            let below = (node + 1..nodes).filter(|below| self.parent(*below) == Some(node));
            let children = below.count() as u32;
            match child.ask(&Request::Start { parent, children }).await? {
                Response::Started { address } => addresses.push(address),
                other => return Err(child.surprised(&other)),
            }
            self.children.push(child);
        }
        self.all(&Request::Join).await?;
        let limit = Duration::from_secs(self.peers.timeout_seconds);
        let verified = tokio::time::timeout(limit, self.verified()).await;
        verified.unwrap_or_else(|_| {
            let (nodes, seconds) = (nodes, limit.as_secs());
            Err(Failure::Run(format!(
                "{nodes} processes did not form the exact binomial graph within {seconds} s; give \
                 a larger --timeout-seconds, or try --profile quiet"
            )))
        })
    }

    /// Wait until the tables of all nodes are exact. Bare nodes have none.
    async fn verified(&mut self) -> Result<(), Failure> {
        while self.system == System::Ours && !self.is_verified().await? {
            sleep(ASK_AGAIN).await;
        }
        Ok(())
    }

    async fn is_verified(&mut self) -> Result<bool, Failure> {
        let answers = self.all(&Request::Report).await?;
        let reports: Vec<_> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                Response::Report { report } => Some(*report),
                _ => None,
            })
            .collect();
        Ok(verify(&reports, self.peers.nodes).is_ok())
    }

    /// Send all nodes the same request, and wait for all answers.
    async fn all(&mut self, request: &Request) -> Result<Vec<Response>, Failure> {
        for child in &mut self.children {
            child.tell(request).await?;
        }
        let mut answers = Vec::new();
        for child in &mut self.children {
            answers.push(child.answer().await?);
        }
        Ok(answers)
    }

    async fn usage(&mut self) -> Result<Usage, Failure> {
        let mut sum = Usage::default();
        for answer in self.all(&Request::Usage).await? {
            if let Response::Usage {
                processor_ns,
                wakeups,
            } = answer
            {
                sum.processor_ns += processor_ns;
                sum.wakeups += wakeups;
            }
        }
        Ok(sum)
    }

    /// Let all nodes count from zero and node 0 send as `request` says. Wait until all receivers
    /// have all messages. `keeps`: whether receivers keep the time of each message, or of the last.
    async fn send(&mut self, request: &Request, keeps: bool) -> Result<Sent, Failure> {
        self.all(&Request::Count { keeps }).await?;
        let root = self
            .children
            .first_mut()
            .ok_or_else(|| Failure::run("the system has no node 0"))?;
        let answer = root.ask(request).await?;
        let Response::Sent { times_ns, messages } = answer else {
            return Err(root.surprised(&answer));
        };
        let mut arrivals = Vec::new();
        let request = Request::Await { messages };
        for child in self.children.iter_mut().skip(1) {
            child.tell(&request).await?;
        }
        for child in self.children.iter_mut().skip(1) {
            match child.answer().await? {
                Response::Arrived { times_ns } => arrivals.push(times_ns),
                other => return Err(child.surprised(&other)),
            }
        }
        Ok(Sent {
            times_ns,
            messages,
            arrivals,
        })
    }

    async fn singles(
        &mut self,
        workload: &Workload,
        pause: Duration,
        count: u64,
    ) -> Result<(Sent, u64), Failure> {
        let before = self.usage().await?;
        let request = Request::SendSpaced {
            bytes: workload.payload().len(),
            count,
            pause_us: pause.as_micros() as u64,
        };
        let sent = self.send(&request, true).await?;
        let after = self.usage().await?;
        Ok((sent, after.processor_ns - before.processor_ns))
    }

    fn note_singles(&mut self, workload: &Workload, singles: (Sent, u64), count: u64) {
        let (sent, processor_ns) = singles;
        let latencies = sent.latencies_ns();
        let at = |share| quantile(&latencies, share).unwrap_or(0) as f64 / 1e6;
        let deliveries = (count * u64::from(self.peers.nodes - 1)) as f64;
        for (figure, value) in [
            (Figure::LatencyP50Ms, at(0.5)),
            (Figure::LatencyP99Ms, at(0.99)),
            (
                Figure::CpuUsPerSingleDelivery,
                processor_ns as f64 / 1e3 / deliveries,
            ),
        ] {
            self.note(workload.name(), figure, value);
        }
    }

    async fn back_to_back(&mut self, workload: &Workload) -> Result<(), Failure> {
        let bytes = workload.payload().len();
        let before = self.usage().await?;
        let request = Request::SendFor {
            bytes,
            millis: (self.peers.seconds * 1e3) as u64,
        };
        let sent = self.send(&request, false).await?;
        let after = self.usage().await?;
        let last = sent.arrivals.iter().flatten().chain(&sent.times_ns).max();
        let took = last
            .zip(sent.times_ns.first())
            .map(|(last, first)| last - first);
        let took = took.unwrap_or(0).max(1) as f64 / 1e9;
        let deliveries = (sent.messages * u64::from(self.peers.nodes - 1)) as f64;
        let processor_us = (after.processor_ns - before.processor_ns) as f64 / 1e3;
        let throughput = deliveries * bytes as f64 / took / 1e6;
        self.note(workload.name(), Figure::ThroughputMbPerS, throughput);
        let per_delivery = processor_us / deliveries;
        self.note(workload.name(), Figure::CpuUsPerDelivery, per_delivery);
        Ok(())
    }

    async fn idle(&mut self) -> Result<(), Failure> {
        sleep(SETTLE).await;
        let seconds = self.peers.idle_seconds;
        let before = self.usage().await?;
        sleep(Duration::from_secs(seconds)).await;
        let after = self.usage().await?;
        let per_node = seconds as f64 * f64::from(self.peers.nodes);
        let wakeups = after.wakeups.saturating_sub(before.wakeups) as f64 / per_node;
        let core = (after.processor_ns - before.processor_ns) as f64 / 1e9 / per_node;
        self.note(IDLE, Figure::IdleWakeupsPerSecondPerNode, wakeups);
        self.note(IDLE, Figure::IdleCorePercentPerNode, core * 100.0);
        Ok(())
    }

    fn note(&mut self, workload: &str, figure: Figure, value: f64) {
        self.figures.add(self.system, workload, figure, value);
    }
}

/// Messages of node 0 that all other nodes have received.
struct Sent {
    /// When each message was sent. For messages back to back: when the first was sent, and when the
    /// last receipt came or, without receipts, when the last message was queued.
    times_ns: Vec<u64>,
    messages: u64,
    /// For each receiver, when each message came; for messages back to back only the last.
    arrivals: Vec<Vec<u64>>,
}

impl Sent {
    /// For each message, how long its last receiver waited; sorted.
    fn latencies_ns(&self) -> Vec<u64> {
        let last = |number: usize| {
            let times = self.arrivals.iter().filter_map(|times| times.get(number));
            times.max().copied()
        };
        let sent = self.times_ns.iter().enumerate();
        let mut latencies: Vec<u64> = sent
            .filter_map(|(number, sent)| Some(last(number)?.saturating_sub(*sent)))
            .collect();
        latencies.sort_unstable();
        latencies
    }
}

/// The time from the sending of a single message to that of the next, unless the receipt comes
/// later: about three times as long as one message keeps two cores busy.
fn pause(nodes: u32, workload: &Workload) -> Duration {
    let bytes = workload.payload().len() as u64;
    Duration::from_nanos(u64::from(nodes) * (200_000 + 4 * bytes))
}

/// How many single messages are sent with this pause after each.
fn singles_within(pause: Duration) -> u64 {
    let count = (SINGLES_TAKE.as_nanos() / pause.as_nanos()) as u64;
    count.clamp(SINGLES.0, SINGLES.1)
}

/// The longest time for which a node sends by one request, if receipts do not take longer than the
/// pauses.
fn longest_request(peers: &Peers) -> Duration {
    let singles = peers.workload.iter().map(|workload| {
        let pause = pause(peers.nodes, workload);
        pause.mul_f64(singles_within(pause) as f64)
    });
    let back_to_back = Duration::from_secs_f64(peers.seconds);
    singles.fold(back_to_back, Duration::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_arrived_when_the_last_receiver_has_it() {
        let sent = Sent {
            times_ns: vec![100, 200, 300],
            messages: 3,
            arrivals: vec![vec![150, 290, 310], vec![170, 220, 305]],
        };
        assert_eq!(sent.latencies_ns(), [10, 70, 90]);
    }
}
