//! `live pause`: a process is stopped for half of the detection timeout, and then a process,
//! perhaps the same, for five times the timeout.

use std::time::Duration;

use binomesh::cluster::{Cluster, Member};
use clap::Args;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ledger::{Ledger, Tallied};
use super::observation::is_graph;
use super::setup::{Context, Setup, now};
use super::watch::Watch;
use crate::command::{Failure, Finding};
use crate::record;

/// Stop a process for a short time, then for a long one, and let it continue.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live pause --nodes 16
  binomesh-bench live pause --profile fast --repeat 5 --json

SIGSTOP of a random node for half the detection timeout: no node may see a new epoch or a
verdict. Then SIGSTOP of a random node for five times as long: the others see this node
leave and return in at most --epochs epochs, lose no other member, take no other node for
dead, and become the exact graph of all nodes again. Without a grace the rank of the paused
node is given away early, so that the count may lack the nodes below the paused node for a
moment. The default detection timeout is two and a half beats of the profile. The exit
status is 1 otherwise.")]
pub struct Pause {
    /// The number of nodes.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(3..=1024))]
    pub nodes: u32,
    /// The number of times that both are done, each time to random nodes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// The detection timeout.
    #[arg(long)]
    pub detection_seconds: Option<f64>,
    /// The most epochs that a leave and a return may take. Orphans of the paused node that find a
    /// new place may take one more each time.
    #[arg(long, default_value_t = 4)]
    pub epochs: u64,
    /// The time between two questions to a node.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub poll_milliseconds: u64,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// The length of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Half the detection timeout.
    Half,
    /// Five times the detection timeout.
    FiveTimes,
}

/// The row of one pause.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The run that the row is about.
    #[serde(flatten)]
    pub context: Context,
    /// The length of the pause.
    pub length: Length,
    /// The length of the pause in seconds.
    pub paused_seconds: f64,
    /// The detection timeout, by which the length is measured.
    pub detection_seconds: f64,
    /// The name of the paused node.
    pub paused_name: String,
    /// Whether the paused node was the root.
    pub paused_root: bool,
    /// The events at the other nodes; after a short pause, at all nodes.
    #[serde(flatten)]
    pub tallied: Tallied,
    /// The time from the end of the pause until the graph of all nodes stood again.
    pub graph_seconds: Option<f64>,
    /// Whether the pause had only the promised effects.
    pub ok: bool,
}

impl Pause {
    /// Run the command and print its rows.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Finding, Failure> {
        let body = async |cluster: &Cluster| self.all(cluster).await;
        self.setup
            .with_cluster(self.nodes, Vec::new(), stop, body)
            .await
    }

    async fn all(&self, cluster: &Cluster) -> Result<Finding, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.setup.seed);
        let members: Vec<Member> = cluster.members().cloned().collect();
        let mut all_ok = true;
        for _ in 0..self.repeat {
            for length in [Length::Half, Length::FiveTimes] {
                let Some(victim) = members.choose(&mut rng) else {
                    continue;
                };
                let row = self.once(cluster, &members, &victim.name, length).await?;
                record::progress_done();
                self.setup.print(&row)?;
                all_ok &= row.ok;
            }
        }
        Ok(Finding::good_if(all_ok))
    }

    async fn once(
        &self,
        cluster: &Cluster,
        members: &[Member],
        victim: &str,
        length: Length,
    ) -> Result<Row, Failure> {
        let detection = self.detection();
        let pause = match length {
            Length::Half => detection / 2,
            Length::FiveTimes => detection * 5,
        };
        record::progress(format_args!("{victim} is paused for {pause:?}"));
        let period = Duration::from_millis(self.poll_milliseconds);
        let watch = Watch::open(members, period, self.setup.timeout()).await;
        let root =
            |observation: &super::observation::Observation| observation.report.parent.is_none();
        let paused_root = watch.latest().get(victim).is_some_and(root);
        let excused = (length == Length::FiveTimes).then_some(victim);
        let ledger = Ledger::new(self.nodes, excused, watch.latest());

        cluster.pause(victim).await.map_err(Failure::run)?;
        let mut view = View { watch, ledger };
        view.watch_until(now() + pause, None).await;
        cluster.resume(victim).await.map_err(Failure::run)?;
        let resumed = now();
        let graph = is_graph(view.watch.latest()).then_some(resumed);
        // Effects of the pause may come late, so the watch goes on for at least twice the timeout.
        let linger = detection * 2;
        let graph = view.watch_until(resumed + linger, graph).await;
        let until = resumed + self.setup.timeout();
        let graph = match graph {
            Some(graph) => Some(graph),
            None => {
                let graph = view.watch_until_graph(until).await;
                view.watch_until(now() + linger, graph).await
            }
        };

        let tallied = view.ledger.tallied();
        let ok = graph.is_some()
            && match length {
                Length::Half => tallied.is_nothing(),
                Length::FiveTimes => {
                    (tallied.leaves_max, tallied.returns_max) == (1, 1)
                        && tallied.epochs_of_one_node_max <= self.epochs
                        && tallied.population_min + 1 >= self.nodes
                        && tallied.false_verdicts.unwrap_or(0) == 0
                }
            };
        Ok(Row {
            context: self.setup.context("pause", self.nodes),
            length,
            paused_seconds: pause.as_secs_f64(),
            detection_seconds: detection.as_secs_f64(),
            paused_name: victim.to_owned(),
            paused_root,
            tallied,
            graph_seconds: graph.map(|at| (at - resumed).as_secs_f64()),
            ok,
        })
    }

    fn detection(&self) -> Duration {
        let given = self.detection_seconds.map(Duration::from_secs_f64);
        given.unwrap_or_else(|| self.setup.detection())
    }
}

/// The nodes' answers, and the events that follow from them.
struct View {
    watch: Watch,
    ledger: Ledger,
}

impl View {
    /// Watch until a time. Returns since when the graph of all nodes has stood; `since` is the
    /// answer so far.
    async fn watch_until(&mut self, until: Instant, since: Option<Instant>) -> Option<Instant> {
        let mut since = since;
        while let Some(seen) = self.watch.next(until).await {
            self.ledger.note(&seen, self.watch.latest());
            since = since
                .or(Some(seen.at))
                .filter(|_| is_graph(self.watch.latest()));
        }
        since
    }

    /// Watch until the graph of all nodes stands. Returns when that was; `None` if it was not by
    /// `until`.
    async fn watch_until_graph(&mut self, until: Instant) -> Option<Instant> {
        loop {
            let seen = self.watch.next(until).await?;
            self.ledger.note(&seen, self.watch.latest());
            if is_graph(self.watch.latest()) {
                return Some(seen.at);
            }
        }
    }
}
