//! A demo of what a cluster promises, on real processes: it forms, its tables are the binomial
//! graph, a broadcast reaches every member once, and the cluster heals after the death of a leaf
//! and an inner node, and then after that of the root.
//!
//! Deliveries are counted at the receivers, never taken from a receipt.

mod tally;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::ClientError;
use crate::cluster::{Cluster, ClusterError, Member};
use crate::report::NodeReport;
use crate::verify::{Defect, Verified, verify};
use tally::Tally;

/// The fewest nodes of a demo: three die, two must be left.
pub const FEWEST: u32 = 5;

/// How often the nodes are asked while the demo waits.
const POLL: Duration = Duration::from_millis(50);
/// How long the check of the tables is tried again after all nodes have reported themselves
/// healthy: they do not all answer at the same moment, and meanwhile a table may change.
const AGREE: Duration = Duration::from_secs(5);
/// The time that one node has to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// One line of `up --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Event {
    /// The name of the event.
    pub event: &'static str,
    /// The time since the start of the cluster.
    pub elapsed_seconds: f64,
    /// The time of this step alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_seconds: Option<f64>,
    /// The number of live nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// The node that the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The role of the node that the event is about: of a killed node the former one, else the
    /// present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// The rank of the node that the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The number of nodes that were to receive the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_count: Option<u32>,
    /// The number of nodes that received the message, counted at the receivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached_count: Option<u32>,
    /// The number of deliveries beyond the first of each message at each node, since the start of
    /// the demo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<u32>,
    /// The number of table entries that were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<usize>,
    /// The memory of the live nodes' processes: the sum of their proportional set sizes, which
    /// share out each shared page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// Whether the step ended as promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
}

/// A step that did not end as promised.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The step took too long.
    #[error("{step} did not end in time; still missing: {missing}")]
    TimedOut {
        /// The name of the step.
        step: String,
        /// What the step was waiting for.
        missing: String,
    },
    /// A check failed.
    #[error("{step} failed: {problem}")]
    Failed {
        /// The name of the step.
        step: String,
        /// The problem that the check found.
        problem: String,
    },
    /// A node does not answer, or answers with an error.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A node cannot be managed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// A running demo.
pub struct Demo<'a, F> {
    cluster: &'a Cluster,
    started: Instant,
    deadline: Instant,
    emit: F,
}

impl<'a, F: FnMut(&Event)> Demo<'a, F> {
    /// A demo of a cluster that was started at `started`. It gives up at `deadline`, and hands each
    /// event to `emit`.
    pub const fn new(cluster: &'a Cluster, started: Instant, deadline: Instant, emit: F) -> Self {
        Self {
            cluster,
            started,
            deadline,
            emit,
        }
    }

    /// Wait until all live nodes are healthy in one epoch, which has exactly these members. At the
    /// deadline this fails.
    pub async fn formed(&mut self) -> Result<Vec<NodeReport>, DemoError> {
        let reports = self.settled("forming").await?;
        let nodes = Some(count(&reports));
        let step_seconds = Some(self.started.elapsed().as_secs_f64());
        self.tell(Event {
            event: "formed",
            nodes,
            step_seconds,
            ok: Some(true),
            ..Event::default()
        });
        Ok(reports)
    }

    /// Check that the tables of all live nodes form the binomial graph.
    pub async fn verified(&mut self) -> Result<Verified, DemoError> {
        let begun = now();
        let expected = self.live().len();
        let until = (begun + AGREE).min(self.deadline);
        loop {
            let reports = reports(&self.live()).await;
            let reports: Vec<NodeReport> = reports.into_iter().filter_map(Result::ok).collect();
            let checked = verify(&reports, u32::try_from(expected).unwrap_or(u32::MAX));
            match checked {
                Ok(verified) => {
                    self.tell(Event {
                        event: "verified",
                        step_seconds: Some(begun.elapsed().as_secs_f64()),
                        nodes: Some(verified.nodes),
                        entries: Some(verified.entries),
                        pss_bytes: proportional_set_sizes(&self.live()),
                        ok: Some(true),
                        ..Event::default()
                    });
                    return Ok(verified);
                }
                Err(defects) if now() >= until => {
                    return Err(DemoError::Failed {
                        step: "verifying the binomial graph".to_owned(),
                        problem: listed(&defects),
                    });
                }
                Err(_) => pause().await,
            }
        }
    }

    /// Run all steps in order.
    pub async fn run(&mut self) -> Result<(), DemoError> {
        self.formed().await?;
        self.verified().await?;
        let mut tally = Tally::open(&self.live()).await?;
        self.broadcast(&mut tally, "before").await?;

        let reports = self.settled("looking for victims").await?;
        let [leaf, inner] = victims(&reports);
        let begun = now();
        for (report, role) in [leaf, inner].into_iter().flatten() {
            self.kill(report, role).await?;
        }
        self.healed(begun).await?;
        self.verified().await?;

        let reports = self.settled("looking for the root").await?;
        let root = reports.iter().find(|report| report.parent.is_none());
        let root = root.ok_or_else(|| DemoError::Failed {
            step: "looking for the root".to_owned(),
            problem: "every node has a parent, so no node is the root".to_owned(),
        })?;
        let begun = now();
        self.kill(root, "root").await?;
        self.healed(begun).await?;
        self.verified().await?;
        self.broadcast(&mut tally, "after").await?;
        self.done(&mut tally)
    }

    fn done(&mut self, tally: &mut Tally) -> Result<(), DemoError> {
        tally.take_waiting();
        let duplicates = tally.duplicates();
        let ok = duplicates == 0 && tally.missed == 0;
        self.tell(Event {
            event: "done",
            nodes: u32::try_from(self.live().len()).ok(),
            duplicates: Some(duplicates),
            ok: Some(ok),
            ..Event::default()
        });
        if ok {
            return Ok(());
        }
        Err(DemoError::Failed {
            step: "counting deliveries".to_owned(),
            problem: format!("{duplicates} duplicates, {} missed", tally.missed),
        })
    }

    async fn kill(&mut self, report: &NodeReport, role: &'static str) -> Result<(), DemoError> {
        self.cluster.kill(&report.name).await?;
        self.tell(Event {
            event: "killed",
            nodes: u32::try_from(self.live().len()).ok(),
            name: Some(report.name.clone()),
            role: Some(role),
            rank: report.rank,
            ..Event::default()
        });
        Ok(())
    }

    async fn healed(&mut self, begun: Instant) -> Result<(), DemoError> {
        let reports = self.settled("healing").await?;
        let root = reports.iter().find(|report| report.parent.is_none());
        self.tell(Event {
            event: "healed",
            step_seconds: Some(begun.elapsed().as_secs_f64()),
            nodes: Some(count(&reports)),
            name: root.map(|root| root.name.clone()),
            role: root.map(|_| "root"),
            rank: root.and_then(|root| root.rank),
            ok: Some(true),
            ..Event::default()
        });
        Ok(())
    }

    /// Broadcast once from a node that is not the root, and count the deliveries.
    async fn broadcast(&mut self, tally: &mut Tally, word: &str) -> Result<(), DemoError> {
        let step = format!("the broadcast {word} the deaths");
        let reports = self.settled(&step).await?;
        let origin = reports.iter().rev().find(|report| report.parent.is_some());
        let origin = origin.ok_or_else(|| {
            failed(
                &step,
                "no living node has a parent, so no other \
                                                         node than the root can send",
            )
        })?;
        let others: Vec<String> = reports
            .iter()
            .map(|report| report.name.clone())
            .filter(|name| *name != origin.name)
            .collect();
        let live = self.live();
        let member = live.iter().find(|member| member.name == origin.name);
        let client = member
            .ok_or_else(|| failed(&step, "the origin of the broadcast died"))?
            .client();
        let payload = format!("a word {word}, from {}", origin.name);
        let blake3 = blake3::hash(payload.as_bytes()).to_hex().to_string();
        let begun = now();
        let remaining = self.deadline.saturating_duration_since(begun);
        let receipt = client.broadcast("demo", payload, Some(remaining)).await?;
        let reached = tally
            .reached(&receipt, &blake3, &others, self.deadline)
            .await;
        let seconds = begun.elapsed().as_secs_f64();
        tally.linger().await;
        let duplicates = tally.duplicates();
        let expected = u32::try_from(others.len()).unwrap_or(u32::MAX);
        let missing: Vec<&String> = others
            .iter()
            .filter(|name| !reached.contains(*name))
            .collect();
        let ok = missing.is_empty() && duplicates == 0 && receipt.reached_count == expected;
        self.tell(Event {
            event: "broadcast",
            step_seconds: Some(seconds),
            nodes: Some(count(&reports)),
            name: Some(origin.name.clone()),
            rank: origin.rank,
            expected_count: Some(expected),
            reached_count: u32::try_from(reached.len()).ok(),
            duplicates: Some(duplicates),
            ok: Some(ok),
            ..Event::default()
        });
        if ok {
            return Ok(());
        }
        let problem = format!(
            "the message was not delivered at {missing:?} and was delivered again {duplicates} \
             times; the receipt counts {} of {expected} as reached, and names as unreached {:?}",
            receipt.reached_count, receipt.unreached
        );
        Err(failed(&step, problem))
    }

    /// The reports of all live nodes in the order of ranks, once all are healthy in one epoch that
    /// has as many members as nodes live. At the deadline this fails.
    async fn settled(&mut self, step: &str) -> Result<Vec<NodeReport>, DemoError> {
        loop {
            let live = self.live();
            let reports = reports(&live).await;
            let missing = missing(&live, &reports);
            if missing.is_empty() {
                let mut reports: Vec<NodeReport> = reports.into_iter().flatten().collect();
                reports.sort_by_key(|report| report.rank);
                return Ok(reports);
            }
            if now() >= self.deadline {
                return Err(DemoError::TimedOut {
                    step: step.to_owned(),
                    missing: missing.join("; "),
                });
            }
            pause().await;
        }
    }

    fn live(&self) -> Vec<Member> {
        self.cluster.live().cloned().collect()
    }

    fn tell(&mut self, mut event: Event) {
        event.elapsed_seconds = self.started.elapsed().as_secs_f64();
        (self.emit)(&event);
    }
}

fn failed(step: &str, problem: impl Into<String>) -> DemoError {
    DemoError::Failed {
        step: step.to_owned(),
        problem: problem.into(),
    }
}

fn count(reports: &[NodeReport]) -> u32 {
    u32::try_from(reports.len()).unwrap_or(u32::MAX)
}

/// The first defects in words; one cause usually shows in many tables.
fn listed(defects: &[Defect]) -> String {
    let shown: Vec<String> = defects.iter().take(10).map(ToString::to_string).collect();
    let more = defects.len().saturating_sub(shown.len());
    let rest = if more > 0 {
        format!("; and {more} more")
    } else {
        String::new()
    };
    format!("{}{rest}", shown.join("; "))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a demo measures real processes by the clock"
)]
fn now() -> Instant {
    Instant::now()
}

async fn pause() {
    tokio::time::sleep(POLL).await;
}

/// Ask all members at once; the answers are in the order of `members`.
pub async fn reports(members: &[Member]) -> Vec<Result<NodeReport, String>> {
    let mut asked = JoinSet::new();
    for (number, member) in members.iter().enumerate() {
        let client = member.client();
        asked.spawn(async move {
            let answer = tokio::time::timeout(ANSWER, client.topology()).await;
            let answer = answer.map(|answer| answer.map_err(|error| error.to_string()));
            (
                number,
                answer.unwrap_or_else(|_| Err("the node does not answer".to_owned())),
            )
        });
    }
    let mut answers: Vec<_> = members
        .iter()
        .map(|_| Err("the node was not asked".to_owned()))
        .collect();
    while let Some(joined) = asked.join_next().await {
        if let Ok((number, answer)) = joined
            && let Some(slot) = answers.get_mut(number)
        {
            *slot = answer;
        }
    }
    answers
}

/// The sum of the proportional set sizes of the members' processes; `None` if the kernel does not
/// tell that of each.
fn proportional_set_sizes(members: &[Member]) -> Option<u64> {
    let one = |member: &Member| -> Option<u64> {
        let file = format!("/proc/{}/smaps_rollup", member.pid);
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib * 1024)
    };
    members.iter().map(one).sum()
}

/// Why the members are not one settled overlay yet, in words.
fn missing(members: &[Member], reports: &[Result<NodeReport, String>]) -> Vec<String> {
    let expected = u32::try_from(members.len()).ok();
    let mut epochs: BTreeMap<&str, u32> = BTreeMap::new();
    let mut missing = Vec::new();
    for (member, report) in members.iter().zip(reports) {
        let name = &member.name;
        match report {
            Err(error) => missing.push(format!("{name}: {error}")),
            Ok(report) if !report.healthy => {
                let reason = report.reason.as_deref().unwrap_or("not healthy");
                missing.push(format!("{name}: {reason}"));
            }
            Ok(report) if report.population != expected => {
                let found = report.population.unwrap_or(0);
                missing.push(format!(
                    "{name}: it counts {found} of {} nodes",
                    members.len()
                ));
            }
            Ok(report) => {
                *epochs
                    .entry(report.epoch.as_deref().unwrap_or("none"))
                    .or_default() += 1
            }
        }
    }
    if missing.is_empty() && epochs.len() > 1 {
        missing.push(format!(
            "all nodes in one epoch; the numbers of nodes by epoch are {epochs:?}"
        ));
    }
    missing
}

/// The two nodes to kill: a leaf, and an inner node that is not the root, or another leaf if there
/// is no inner node. The reports are in the order of ranks.
fn victims(reports: &[NodeReport]) -> [Option<(&NodeReport, &'static str)>; 2] {
    let below = |report: &&NodeReport| report.parent.is_some();
    let is_leaf = |report: &&NodeReport| report.children.is_empty();
    let inner = reports.iter().filter(below).find(|report| !is_leaf(report));
    // If possible a leaf of another parent, so that no child of the killed inner node dies with it.
    let mut leaves = reports.iter().filter(below).filter(is_leaf);
    let apart =
        |leaf: &&NodeReport| inner.is_none_or(|inner| leaf.parent.as_ref() != Some(&inner.name));
    let leaf = leaves.clone().find(apart).or_else(|| leaves.next());
    let other = || {
        let mut others = reports.iter().filter(below).filter(is_leaf);
        others.find(|other| leaf.is_none_or(|leaf| leaf.name != other.name))
    };
    let second = match inner {
        Some(inner) => Some((inner, "inner")),
        None => other().map(|other| (other, "leaf")),
    };
    [leaf.map(|leaf| (leaf, "leaf")), second]
}

#[cfg(test)]
mod tests;
