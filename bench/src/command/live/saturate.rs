//! `live saturate`: no node dies, but every core is busy with other work.

use std::time::Duration;

use binomesh::cluster::{Cluster, Member};
use clap::Args;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::busy::Busy;
use super::counters::{Counters, growth, processor_time};
use super::ledger::{Ledger, Tallied};
use super::observation::is_graph;
use super::setup::{Context, Setup, cores, now};
use super::watch::Watch;
use crate::command::{Failure, Finding};
use crate::record;

/// Keep every core busy and count false verdicts.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live saturate --minutes 10
  binomesh-bench live saturate --nodes 16 --minutes 1 --busy 4 --json

One busy process per core competes with the nodes. No node is killed, so each new epoch, each
lost member and each verdict is false. The exit status is 1 if there was one.")]
pub struct Saturate {
    /// The number of nodes.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub nodes: u32,
    /// How many minutes the nodes are watched.
    #[arg(long, default_value_t = 10.0, value_parser = minutes)]
    pub minutes: f64,
    /// The number of busy processes [default: one per core].
    #[arg(long)]
    pub busy: Option<usize>,
    /// The time between two questions to a node.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub poll_milliseconds: u64,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// A number of minutes that a run can take.
pub fn minutes(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let valid = number.filter(|minutes| *minutes > 0.0 && *minutes <= 10_000.0);
    valid.ok_or_else(|| "expected minutes, above 0 and up to 10000".to_owned())
}

/// The result of the run.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The run that the row is about.
    #[serde(flatten)]
    pub context: Context,
    /// The minutes of watching.
    pub minutes: f64,
    /// The number of busy processes.
    pub busy_processes: usize,
    /// The share of all cores that the busy processes got.
    pub busy_share: f64,
    /// The share of all cores that the nodes got.
    pub nodes_share: f64,
    /// The events at the nodes.
    #[serde(flatten)]
    pub tallied: Tallied,
    /// How many times nodes saw a link go down.
    pub links_down: u64,
    /// Whether there were no events, and the graph was exact at the end.
    pub ok: bool,
}

impl Saturate {
    /// Run the command and print its row.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Finding, Failure> {
        let body = async |cluster: &Cluster| self.once(cluster).await;
        let row = self
            .setup
            .measure(self.nodes, Vec::new(), stop, body)
            .await?;
        Ok(Finding::good_if(row.ok))
    }

    async fn once(&self, cluster: &Cluster) -> Result<Row, Failure> {
        let members: Vec<Member> = cluster.members().cloned().collect();
        let period = Duration::from_millis(self.poll_milliseconds);
        let before = Counters::scrape_all(&members).await?;
        let mut watch = Watch::open(&members, period, self.setup.timeout()).await;
        let mut ledger = Ledger::new(self.nodes, None, watch.latest());
        let nodes: Vec<u32> = members.iter().map(|member| member.pid).collect();

        let busy = Busy::start(self.busy.unwrap_or_else(cores))?;
        let busy_pids: Vec<u32> = busy.pids().collect();
        let used = [used(&busy_pids)?, used(&nodes)?];
        let (begun, length) = (now(), Duration::from_secs_f64(self.minutes * 60.0));
        while now() < begun + length {
            let until = (now() + Duration::from_secs(1)).min(begun + length);
            while let Some(seen) = watch.next(until).await {
                ledger.note(&seen, watch.latest());
            }
            let tallied = ledger.tallied();
            record::progress(format_args!(
                "{:.0} of {:.0} s, {} epochs, {} tables changed",
                begun.elapsed().as_secs_f64(),
                length.as_secs_f64(),
                tallied.epochs_distinct,
                tallied.tables_changed
            ));
        }
        let capacity = begun.elapsed() * u32::try_from(cores()).unwrap_or(u32::MAX);
        let [busy_used, nodes_used] = used;
        let share = |before: Duration, after: Duration| {
            after.saturating_sub(before).div_duration_f64(capacity)
        };
        let busy_share = share(busy_used, self::used(&busy_pids)?);
        let nodes_share = share(nodes_used, self::used(&nodes)?);
        drop(busy);
        let after = Counters::scrape_all(&members).await?;

        let tallied = ledger.tallied();
        let ok = tallied.is_nothing() && is_graph(watch.latest());
        let down = "binomesh_transport_links_down_total";
        Ok(Row {
            context: self.setup.context("saturate", self.nodes),
            minutes: self.minutes,
            busy_processes: busy_pids.len(),
            busy_share,
            nodes_share,
            tallied,
            links_down: growth(&before, &after, down, "") as u64,
            ok,
        })
    }
}

fn used(pids: &[u32]) -> Result<Duration, Failure> {
    pids.iter().map(|pid| processor_time(*pid)).sum()
}
