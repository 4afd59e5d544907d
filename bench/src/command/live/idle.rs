//! `live idle`: the cost of a cluster without work.

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh::Profile;
use binomesh::cluster::{Cluster, Member};
use clap::Args;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::counters::{Counters, Loopback, growth, growth_by_kind, processor_time};
use super::observation::Observations;
use super::saturate::minutes;
use super::setup::{Context, Setup, now, verified};
use super::watch::Watch;
use crate::command::{Failure, Finding};
use crate::hosts::namespace;
use crate::record;

/// Leave the cluster idle, and count bytes, processor time and changes.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live idle --nodes 64 --minutes 5
  binomesh-bench live idle --profile quiet --json

The run has a network namespace of its own, whose loopback interface carries only the
packets of the nodes. A namespace needs the package iproute2, and root or user namespaces.
The counters of the interface count whole IP packets. No node is asked during the count. The
exit status is 1 if a table changed, or if a limit was exceeded. The default limits per node
are 600 bytes per second and 0.001 of a core at the profile default, and 150 bytes and 0.001
at quiet; fast has none.")]
pub struct Idle {
    /// The number of nodes.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub nodes: u32,
    /// How many minutes are counted.
    #[arg(long, default_value_t = 5.0, value_parser = minutes)]
    pub minutes: f64,
    /// How many seconds the cluster is left idle before the count. A back-off with default settings
    /// reaches its longest pause after a minute.
    #[arg(long, default_value_t = 60)]
    pub settle_seconds: u64,
    /// The limit of bytes_per_second_per_node.
    #[arg(long)]
    pub bytes_per_second: Option<f64>,
    /// The limit of core_share_per_node.
    #[arg(long)]
    pub core_share: Option<f64>,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// The cost of the idle cluster.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The run that the row is about.
    #[serde(flatten)]
    pub context: Context,
    /// The minutes for which was counted.
    pub minutes: f64,
    /// The seconds of rest before the count.
    pub settle_seconds: u64,
    /// The bytes that a node sent per second, IP headers included, the mean over all nodes.
    pub bytes_per_second_per_node: f64,
    /// The limit of the bytes that a node sends per second.
    pub bytes_per_second_limit: Option<f64>,
    /// IP packets that a node sent per second, the mean over all nodes.
    pub packets_per_second_per_node: f64,
    /// The mean length of a packet, IP header included.
    pub bytes_per_packet: f64,
    /// Maintenance frames that a node sent per second.
    pub maintenance_frames_per_second_per_node: f64,
    /// The bytes of the bodies of the maintenance frames that a node sent per second.
    pub maintenance_bytes_per_second_per_node: f64,
    /// Messages of the overlay that a node sent per second, by kind.
    pub messages_per_second_per_node: BTreeMap<String, f64>,
    /// The mean number of links of a node.
    pub links_per_node: f64,
    /// Processor time of a node, as a share of one core.
    pub core_share_per_node: f64,
    /// The core share of the busiest node.
    pub core_share_max: f64,
    /// The limit of the mean core share.
    pub core_share_limit: Option<f64>,
    /// How many nodes had another epoch, rank or table at the end.
    pub topology_changes: usize,
    /// How many times nodes saw a link come up or go down.
    pub link_changes: u64,
    /// Whether no node changed its epoch, rank or tables, and all limits held.
    pub ok: bool,
}

/// All counters at one moment.
struct Reading {
    observations: Observations,
    counters: Vec<Counters>,
    processor: Vec<Duration>,
    sent: Loopback,
}

impl Idle {
    /// Continue in a network namespace for this run.
    pub fn enter_namespace(&self) -> Result<(), Failure> {
        Ok(namespace::enter()?)
    }

    /// Measure the cluster and print the row.
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
        record::progress(format_args!("settling for {} s", self.settle_seconds));
        tokio::time::sleep(Duration::from_secs(self.settle_seconds)).await;
        verified(cluster, self.setup.timeout()).await?;

        // To ask for all observations takes a minute, so this is done before and after all that is
        // counted.
        let before = Reading {
            observations: self.observations(&members).await,
            counters: Counters::scrape_all(&members).await?,
            processor: processor_times(&members)?,
            sent: Loopback::read()?,
        };
        let begun = now();
        record::progress(format_args!("counting for {} minutes", self.minutes));
        tokio::time::sleep(Duration::from_secs_f64(self.minutes * 60.0)).await;
        // Read these counters before any question, since answers cost processor time.
        let (sent, processor) = (Loopback::read()?, processor_times(&members)?);
        let elapsed = begun.elapsed();
        let after = Reading {
            counters: Counters::scrape_all(&members).await?,
            observations: self.observations(&members).await,
            processor,
            sent,
        };
        Ok(self.row(&before, &after, elapsed))
    }

    async fn observations(&self, members: &[Member]) -> Observations {
        let watch = Watch::open(members, Duration::from_secs(60), self.setup.timeout()).await;
        watch.latest().clone()
    }

    fn row(&self, before: &Reading, after: &Reading, elapsed: Duration) -> Row {
        let seconds = elapsed.as_secs_f64();
        let per_node = |total: f64| total / seconds / f64::from(self.nodes);
        let grown = |metric: &str, label| growth(&before.counters, &after.counters, metric, label);
        let bytes = after.sent.bytes.saturating_sub(before.sent.bytes) as f64;
        let packets = after.sent.packets.saturating_sub(before.sent.packets) as f64;
        let pairs = before.processor.iter().zip(&after.processor);
        let shares: Vec<f64> = pairs
            .map(|(before, after)| after.saturating_sub(*before).as_secs_f64() / seconds)
            .collect();
        let links: usize = after
            .observations
            .values()
            .map(|one| one.report.links.len())
            .sum();
        let is_same =
            |name: &String| match (before.observations.get(name), after.observations.get(name)) {
                (Some(before), Some(after)) => before.tables() == after.tables(),
                _ => false,
            };
        let names = before.observations.keys().chain(after.observations.keys());
        let names: std::collections::BTreeSet<&String> = names.collect();
        let topology_changes = names.into_iter().filter(|name| !is_same(name)).count();
        let link_changes =
            ["up", "down"].map(|way| grown(&format!("binomesh_transport_links_{way}_total"), ""));
        let maintenance = "class=\"maintenance\"";

        let (byte_limit, core_limit) = self.limits();
        let bytes_per_second_per_node = per_node(bytes);
        let core_share_per_node = shares.iter().sum::<f64>() / f64::from(self.nodes);
        let within = |value: f64, limit: Option<f64>| limit.is_none_or(|limit| value <= limit);
        Row {
            context: self.setup.context("idle", self.nodes),
            minutes: self.minutes,
            settle_seconds: self.settle_seconds,
            bytes_per_second_per_node,
            bytes_per_second_limit: byte_limit,
            packets_per_second_per_node: per_node(packets),
            bytes_per_packet: bytes / packets.max(1.0),
            maintenance_frames_per_second_per_node: per_node(grown(
                "binomesh_transport_frames_sent_total",
                maintenance,
            )),
            maintenance_bytes_per_second_per_node: per_node(grown(
                "binomesh_transport_bytes_sent_total",
                maintenance,
            )),
            messages_per_second_per_node: {
                let metric = "binomesh_overlay_messages_total";
                let grown = growth_by_kind(&before.counters, &after.counters, metric).into_iter();
                grown.map(|(kind, count)| (kind, per_node(count))).collect()
            },
            links_per_node: links as f64 / f64::from(self.nodes),
            core_share_per_node,
            core_share_max: shares.iter().copied().fold(0.0, f64::max),
            core_share_limit: core_limit,
            topology_changes,
            link_changes: link_changes.iter().sum::<f64>() as u64,
            ok: topology_changes == 0
                && within(bytes_per_second_per_node, byte_limit)
                && within(core_share_per_node, core_limit),
        }
    }

    fn limits(&self) -> (Option<f64>, Option<f64>) {
        let (bytes, share) = match self.setup.profile {
            Profile::Default => (Some(600.0), Some(0.001)),
            Profile::Quiet => (Some(150.0), Some(0.001)),
            Profile::Fast => (None, None),
        };
        (self.bytes_per_second.or(bytes), self.core_share.or(share))
    }
}

fn processor_times(members: &[Member]) -> Result<Vec<Duration>, Failure> {
    let times = members.iter().map(|member| processor_time(member.pid));
    times.collect()
}
