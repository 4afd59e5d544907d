//! `live pause`: a process that stands still for half the detection timeout, and
//! one that does so for five times as long.

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
use super::setup::{Context, Setup, now};
use super::sight::is_graph;
use super::watch::Watch;
use crate::command::{Failure, Finding};
use crate::record;

/// Stop a process shortly, then for long, and let it go on.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live pause --nodes 16
  binomesh-bench live pause --profile fast --repeat 5 --json

SIGSTOP of a random node for half the detection timeout: nothing may happen, no
epoch and no verdict, at any node. Then of a random node for five times as long:
the others see one leave and one return, count nobody else less, call nobody else
down, and the exact graph of all stands again. The timeout is the profile's beat
times the beats until a verdict, unless given. Exit status 1 otherwise.")]
pub struct Pause {
    /// How many nodes.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(3..=1024))]
    pub nodes: u32,
    /// How often both are done, each time to new random nodes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// The detection timeout.
    #[arg(long)]
    pub detection_seconds: Option<f64>,
    /// How often each node is asked.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub poll_milliseconds: u64,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// How long a node is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Half the detection timeout.
    Half,
    /// Five times the detection timeout.
    FiveTimes,
}

/// One pause.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Of what.
    #[serde(flatten)]
    pub context: Context,
    /// How long it was.
    pub length: Length,
    /// In seconds.
    pub paused_seconds: f64,
    /// The timeout that this is measured by.
    pub detection_seconds: f64,
    /// Who.
    pub paused_name: String,
    /// Whether that was the root.
    pub paused_root: bool,
    /// What the others saw; after a short pause, what all saw.
    #[serde(flatten)]
    pub tallied: Tallied,
    /// From the end of the pause until the graph of all stood again.
    pub graph_seconds: Option<f64>,
    /// Whether it went as promised.
    pub ok: bool,
}

impl Pause {
    /// Run it and print its rows.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Finding, Failure> {
        let places = Vec::new();
        let body = async |cluster: &Cluster| self.all(cluster).await;
        self.setup
            .with_cluster(self.nodes, places, stop, body)
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
        let mut watch = Watch::open(members, period, self.setup.timeout()).await;
        let root = |sight: &super::sight::Sight| sight.report.parent.is_none();
        let paused_root = watch.latest().get(victim).is_some_and(root);
        let excused = (length == Length::FiveTimes).then_some(victim);
        let mut ledger = Ledger::new(self.nodes, excused, watch.latest());

        cluster.pause(victim).await.map_err(Failure::run)?;
        note_until(&mut watch, &mut ledger, now() + pause).await;
        cluster.resume(victim).await.map_err(Failure::run)?;
        let resumed = now();
        let graph_at = self.until_graph(&mut watch, &mut ledger, resumed).await;
        // What the pause has set going must have ended in twice the timeout.
        note_until(&mut watch, &mut ledger, now() + detection * 2).await;
        let stands = is_graph(watch.latest());

        let tallied = ledger.tallied();
        let ok = stands
            && match length {
                Length::Half => tallied.is_nothing(),
                Length::FiveTimes => {
                    (tallied.leaves_max, tallied.returns_max) == (1, 1)
                        && tallied.epochs_of_one_node_max <= 2
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
            graph_seconds: graph_at
                .filter(|_| stands)
                .map(|at| at.saturating_duration_since(resumed).as_secs_f64()),
            ok,
        })
    }

    /// Wait for the graph of all, with the paused node's own word for it: what
    /// it said last, it said before the pause.
    async fn until_graph(
        &self,
        watch: &mut Watch,
        ledger: &mut Ledger,
        resumed: Instant,
    ) -> Option<Instant> {
        // A node that was not missed says nothing new: it is given a moment.
        note_until(watch, ledger, resumed + self.detection()).await;
        let until = resumed + self.setup.timeout();
        let mut at = resumed;
        while !is_graph(watch.latest()) {
            let seen = watch.next(until).await?;
            ledger.note(&seen, watch.latest());
            at = seen.at;
        }
        Some(at)
    }

    fn detection(&self) -> Duration {
        let given = self.detection_seconds.map(Duration::from_secs_f64);
        given.unwrap_or_else(|| self.setup.detection())
    }
}

async fn note_until(watch: &mut Watch, ledger: &mut Ledger, until: Instant) {
    while let Some(seen) = watch.next(until).await {
        ledger.note(&seen, watch.latest());
    }
}
