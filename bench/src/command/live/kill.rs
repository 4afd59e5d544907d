//! `live kill`: kill -9 of several nodes at once. It measures the time until the others avoid the
//! dead nodes, until the ring is closed round them, and until the exact graph stands.

use std::str::FromStr;
use std::time::Duration;

use binomesh::Profile;
use binomesh::cluster::{Cluster, Member};
use clap::Args;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::observation::{all_avoid, is_graph, is_relinked};
use super::setup::{Context, Setup, now, quantile};
use super::watch::Watch;
use crate::command::{Failure, Finding};
use crate::record;

/// Kill random nodes at once, and measure the time until the cluster has healed.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live kill --nodes 32 --kill 1,4,30% --repeat 10
  binomesh-bench live kill --profile fast --kill 30% --json

Every run is a new cluster. Three times are measured from the moment before the first
signal, by the answers of the live nodes: until no entry leads to a dead node
(avoided_seconds), until the successors and predecessors are one ring of exactly the live
nodes (relinked_seconds), and until the tables are the exact graph of the live nodes
(graph_seconds). If one of these states is lost again, its time goes on. A time is too long
by at most --poll-milliseconds and an answer. The exit status is 1 if a maximum is above its
limit. The default limits are 2, 4 and 4 s at the profile default, and 0.5, 1.5 and 4 s at
fast; quiet has none, and the graph has one only with --grace-seconds 0.")]
pub struct Kill {
    /// The number of nodes.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub nodes: u32,
    /// The number of nodes to kill, or their share such as 30%. Several numbers are measured in
    /// turn.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    pub kill: Vec<Share>,
    /// The number of runs for each number of killed nodes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// The time between two questions to a node.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub poll_milliseconds: u64,
    /// The limit of avoided_seconds.
    #[arg(long)]
    pub avoid_seconds: Option<f64>,
    /// The limit of relinked_seconds.
    #[arg(long)]
    pub relink_seconds: Option<f64>,
    /// The limit of graph_seconds.
    #[arg(long)]
    pub graph_seconds: Option<f64>,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// A part of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// A number of nodes.
    Count(u32),
    /// A percentage of all nodes, rounded up.
    Percent(u32),
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
        let share = match text.strip_suffix('%') {
            Some(text) => number(text)
                .filter(|percent| *percent < 100)
                .map(Self::Percent),
            None => number(text).map(Self::Count),
        };
        share.ok_or_else(|| "expected a number of nodes, or a share such as 30%".to_owned())
    }
}

impl Share {
    /// How many of `nodes` these are. At least one node is left.
    pub fn of(self, nodes: u32) -> u32 {
        let count = match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (nodes * percent).div_ceil(100),
        };
        count.min(nodes.saturating_sub(1))
    }
}

/// The times from the kill until a condition held, and continued to hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Times {
    /// Each live node takes each dead one for down, or does not have it in its tables.
    pub avoided_seconds: Option<f64>,
    /// The ring passes exactly the live nodes.
    pub relinked_seconds: Option<f64>,
    /// The tables are the exact graph of the live nodes.
    pub graph_seconds: Option<f64>,
}

/// The row of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// The kind of the row: always `run`.
    pub row: &'static str,
    /// The run that the row is about.
    #[serde(flatten)]
    pub context: Context,
    /// The number of killed nodes.
    pub killed: u32,
    /// The number of the run.
    pub run: u32,
    /// The names of the killed nodes.
    pub killed_names: Vec<String>,
    /// Whether the root was among the killed nodes.
    pub killed_root: bool,
    /// The times; `null` for a condition that did not hold in time.
    #[serde(flatten)]
    pub times: Times,
}

/// The row for all runs with one number of deaths.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The kind of the row: always `summary`.
    pub row: &'static str,
    /// The run that the row is about.
    #[serde(flatten)]
    pub context: Context,
    /// The number of killed nodes.
    pub killed: u32,
    /// The number of runs.
    pub runs: u32,
    /// The median time until dead nodes were avoided.
    pub avoided_seconds_p50: Option<f64>,
    /// The longest time until dead nodes were avoided; `null` if a run did not get there.
    pub avoided_seconds_max: Option<f64>,
    /// The limit of the longest time until dead nodes were avoided.
    pub avoided_seconds_limit: Option<f64>,
    /// The median time until the ring was closed.
    pub relinked_seconds_p50: Option<f64>,
    /// The longest time until the ring was closed.
    pub relinked_seconds_max: Option<f64>,
    /// The limit of the longest time until the ring was closed.
    pub relinked_seconds_limit: Option<f64>,
    /// The median time until the graph was exact.
    pub graph_seconds_p50: Option<f64>,
    /// The longest time until the graph was exact.
    pub graph_seconds_max: Option<f64>,
    /// The limit of the longest time until the graph was exact.
    pub graph_seconds_limit: Option<f64>,
    /// The time between two questions to a node.
    pub poll_milliseconds: u64,
    /// Whether every condition held in every run, within the limits.
    pub ok: bool,
}

impl Kill {
    /// Run the command and print its rows.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Finding, Failure> {
        let mut all_ok = true;
        for share in &self.kill {
            let killed = share.of(self.nodes);
            let mut runs = Vec::new();
            for run in 0..self.repeat {
                record::progress(format_args!(
                    "kill {killed} of {}: run {} of {}",
                    self.nodes,
                    run + 1,
                    self.repeat
                ));
                let body = async |cluster: &Cluster| self.once(cluster, killed, run).await;
                let places = Vec::new();
                let found = self
                    .setup
                    .with_cluster(self.nodes, places, stop, body)
                    .await?;
                record::progress_done();
                self.setup.print(&found)?;
                runs.push(found.times);
            }
            let summary = self.summary(killed, &runs);
            self.setup.print(&summary)?;
            all_ok &= summary.ok;
        }
        Ok(Finding::good_if(all_ok))
    }

    async fn once(&self, cluster: &Cluster, killed: u32, run: u32) -> Result<Run, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.setup.seed.wrapping_add(run.into()));
        let all: Vec<Member> = cluster.members().cloned().collect();
        let names: Vec<String> = all
            .choose_multiple(&mut rng, killed as usize)
            .map(|member| member.name.clone())
            .collect();
        let live: Vec<Member> = (all.iter().filter(|one| !names.contains(&one.name)))
            .cloned()
            .collect();
        let period = Duration::from_millis(self.poll_milliseconds);
        let mut watch = Watch::open(&live, period, self.setup.timeout()).await;
        let root = watch
            .latest()
            .values()
            .all(|one| one.report.parent.is_some());
        let begun = now();
        cluster.kill_all(&names).await.map_err(Failure::run)?;

        let grace = Duration::from_secs(self.setup.grace());
        let until = begun + self.setup.timeout() + grace;
        let mut times = Times::default();
        while let Some(seen) = watch.next(until).await {
            let after = seen.at.saturating_duration_since(begun).as_secs_f64();
            let observations = watch.latest();
            let relinked = is_relinked(observations);
            let graph = relinked && is_graph(observations);
            note(
                &mut times.avoided_seconds,
                all_avoid(observations, &names),
                after,
            );
            note(&mut times.relinked_seconds, relinked, after);
            note(&mut times.graph_seconds, graph, after);
            if graph && times.avoided_seconds.is_some() {
                break;
            }
        }
        Ok(Run {
            row: "run",
            context: self.setup.context("kill", self.nodes),
            killed,
            run,
            killed_names: names,
            killed_root: root,
            times,
        })
    }

    fn limits(&self) -> [Option<f64>; 3] {
        let stated = match self.setup.profile {
            Profile::Default => [Some(2.0), Some(4.0), Some(4.0)],
            Profile::Fast => [Some(0.5), Some(1.5), Some(4.0)],
            Profile::Quiet => [None; 3],
        };
        let [avoid, relink, graph] = stated;
        let graph = graph.filter(|_| self.setup.grace() == 0);
        [
            self.avoid_seconds.or(avoid),
            self.relink_seconds.or(relink),
            self.graph_seconds.or(graph),
        ]
    }

    fn summary(&self, killed: u32, runs: &[Times]) -> Summary {
        let limits = self.limits();
        let figures = [
            runs.iter().map(|one| one.avoided_seconds).collect(),
            runs.iter().map(|one| one.relinked_seconds).collect(),
            runs.iter().map(|one| one.graph_seconds).collect(),
        ];
        let [avoided, relinked, graph] = figures.map(|values: Vec<Option<f64>>| {
            // A run in which the condition never held counts as slower than all others.
            let endless = |value: &Option<f64>| value.unwrap_or(f64::INFINITY);
            let values: Vec<f64> = values.iter().map(endless).collect();
            [0.5, 1.0].map(|share| quantile(&values, share).filter(|value| value.is_finite()))
        });
        let within = |[_, max]: [Option<f64>; 2], limit: Option<f64>| {
            max.is_some_and(|max| limit.is_none_or(|limit| max <= limit))
        };
        let [avoid_limit, relink_limit, graph_limit] = limits;
        Summary {
            row: "summary",
            context: self.setup.context("kill", self.nodes),
            killed,
            runs: self.repeat,
            avoided_seconds_p50: avoided[0],
            avoided_seconds_max: avoided[1],
            avoided_seconds_limit: avoid_limit,
            relinked_seconds_p50: relinked[0],
            relinked_seconds_max: relinked[1],
            relinked_seconds_limit: relink_limit,
            graph_seconds_p50: graph[0],
            graph_seconds_max: graph[1],
            graph_seconds_limit: graph_limit,
            poll_milliseconds: self.poll_milliseconds,
            ok: within(avoided, avoid_limit)
                && within(relinked, relink_limit)
                && within(graph, graph_limit),
        }
    }
}

/// Note the first time since which a condition has held without a break.
fn note(since: &mut Option<f64>, holds: bool, after: f64) {
    *since = since.or(Some(after)).filter(|_| holds);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        kill: Kill,
    }

    fn kill(line: &str) -> Kill {
        let words = ["kill"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().kill
    }

    #[test]
    fn shares_are_counts_or_percent_and_leave_one() {
        for (text, nodes, expected) in [("1", 32, 1), ("30%", 32, 10), ("99%", 3, 2), ("9", 4, 3)] {
            assert_eq!(text.parse::<Share>().unwrap().of(nodes), expected, "{text}");
        }
        for text in ["0", "100%", "x", "-1", "0%", ""] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_condition_that_ends_is_timed_from_its_next_begin() {
        let mut since = None;
        for (after, holds, expected) in [
            (1.0, false, None),
            (2.0, true, Some(2.0)),
            (3.0, true, Some(2.0)),
            (4.0, false, None),
            (5.0, true, Some(5.0)),
        ] {
            note(&mut since, holds, after);
            assert_eq!(since, expected, "at {after}");
        }
    }

    #[test]
    fn a_run_that_never_gets_there_or_is_too_slow_fails() {
        let times = |avoided: f64, graph: Option<f64>| Times {
            avoided_seconds: Some(avoided),
            relinked_seconds: Some(1.0),
            graph_seconds: graph,
        };
        let good = kill("--repeat 2").summary(1, &[times(1.0, Some(2.0)), times(2.0, Some(3.0))]);
        assert!(good.ok);
        assert_eq!(
            (good.avoided_seconds_p50, good.graph_seconds_max),
            (Some(1.0), Some(3.0))
        );
        let late = kill("").summary(1, &[times(2.1, Some(2.0))]);
        assert!(!late.ok);
        assert!(
            kill("--avoid-seconds 3")
                .summary(1, &[times(2.1, Some(2.0))])
                .ok
        );
        let never = kill("--profile quiet").summary(1, &[times(1.0, None), times(1.0, Some(1.0))]);
        assert!(!never.ok && never.graph_seconds_max.is_none());
        assert_eq!(never.graph_seconds_p50, Some(1.0));
    }
}
