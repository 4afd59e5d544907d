//! `live idle`: what a cluster costs that has nothing to do.

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh::Profile;
use binomesh::cluster::{Cluster, Member};
use clap::Args;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::counters::{Counters, Loopback, growth, growth_by_kind, processor_time};
use super::saturate::minutes;
use super::setup::{Context, Setup, now, verified};
use super::sight::Sights;
use super::watch::Watch;
use crate::command::{Failure, Finding};
use crate::hosts::namespace;
use crate::record;

/// Let it be; count bytes, processor time and changes.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live idle --nodes 64 --minutes 5
  binomesh-bench live idle --profile quiet --json

The run has a network namespace of its own, so that its loopback interface carries
the nodes' packets alone; making one needs the package iproute2 and root, or a
system that allows user namespaces. Its counters hold whole IP packets. No node is
asked anything meanwhile. Exit status 1 if a table changed, or above the limits: at
the default profile 600 bytes per second and node and 0.001 of a core per node, at
quiet 150 and 0.001, unless given; fast has none.")]
pub struct Idle {
    /// How many nodes.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub nodes: u32,
    /// How long is counted.
    #[arg(long, default_value_t = 5.0, value_parser = minutes)]
    pub minutes: f64,
    /// How long the cluster is let be before that: a default back-off has reached
    /// its longest pause after a minute.
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

/// What it cost.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Of what.
    #[serde(flatten)]
    pub context: Context,
    /// How long was counted.
    pub minutes: f64,
    /// How long it was let be before.
    pub settle_seconds: u64,
    /// Bytes that a node sent, IP headers included.
    pub bytes_per_second_per_node: f64,
    /// Its limit.
    pub bytes_per_second_limit: Option<f64>,
    /// Packets that a node sent.
    pub packets_per_second_per_node: f64,
    /// The mean packet, IP header included.
    pub bytes_per_packet: f64,
    /// Maintenance frames that a node sent.
    pub maintenance_frames_per_second_per_node: f64,
    /// Bytes of their bodies.
    pub maintenance_bytes_per_second_per_node: f64,
    /// Messages of the overlay that a node sent, by kind.
    pub messages_per_second_per_node: BTreeMap<String, f64>,
    /// Links of a node, the mean.
    pub links_per_node: f64,
    /// Processor time of a node, as a share of one core.
    pub core_share_per_node: f64,
    /// That of the busiest node.
    pub core_share_max: f64,
    /// Its limit, for the mean.
    pub core_share_limit: Option<f64>,
    /// Nodes whose epoch, rank or a table was another one at the end.
    pub topology_changes: usize,
    /// Links that came up or went down.
    pub link_changes: u64,
    /// Whether nothing changed, within the limits.
    pub ok: bool,
}

/// All counters at one moment.
struct Reading {
    sights: Sights,
    counters: Vec<Counters>,
    processor: Vec<Duration>,
    sent: Loopback,
}

impl Idle {
    /// Continue in a network namespace of this run.
    pub fn enter_namespace(&self) -> Result<(), Failure> {
        Ok(namespace::enter()?)
    }

    /// Run it and print its row.
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

        // The sights take a minute: before and after all that is counted.
        let before = Reading {
            sights: self.sights(&members).await,
            counters: Counters::scrape_all(&members).await?,
            processor: processor_times(&members)?,
            sent: Loopback::read()?,
        };
        let begun = now();
        record::progress(format_args!("counting for {} minutes", self.minutes));
        tokio::time::sleep(Duration::from_secs_f64(self.minutes * 60.0)).await;
        // Before anything is asked: answers cost processor time.
        let (sent, processor) = (Loopback::read()?, processor_times(&members)?);
        let elapsed = begun.elapsed();
        let after = Reading {
            counters: Counters::scrape_all(&members).await?,
            sights: self.sights(&members).await,
            processor,
            sent,
        };
        Ok(self.row(&before, &after, elapsed))
    }

    async fn sights(&self, members: &[Member]) -> Sights {
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
            .sights
            .values()
            .map(|one| one.report.links.len())
            .sum();
        let is_same = |name: &String| match (before.sights.get(name), after.sights.get(name)) {
            (Some(before), Some(after)) => before.tables() == after.tables(),
            _ => false,
        };
        let names = before.sights.keys().chain(after.sights.keys());
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
