//! `live uplink`: a file to all hosts when what each can send is the limit.

use std::time::Duration;

use binomesh::Strategy;
use binomesh::cluster::Cluster;
use binomesh::push::{PushOptions, PushReport};
use clap::Args;
use rand::seq::IteratorRandom;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::setup::{Context, Setup, now};
use crate::command::{Failure, Finding};
use crate::hosts::namespace;
use crate::hosts::network::{Family, Hosts, Rate};
use crate::record;

/// A token bucket lets its first fill through at once; what is faster was not limited.
const LEAST: f64 = 0.9;

/// Send a file to all hosts over slow uplinks.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live uplink
  binomesh-bench live uplink --strategy sibling-tree --repeat 3 --json

Every node is in a network namespace with an uplink of --megabits (a token bucket), on
one bridge. A random node pushes a file of --file-mib to all others. The time is
from the first byte until all have stored it and said so, and is compared with what
the file alone takes on one uplink: a node that sends it to four children
takes four times that. Exit status 1 if somebody has not got it, if it took more than
--times of that, or less than nine tenths: then the uplinks were no limit. Needs root,
or user namespaces.")]
pub struct Uplink {
    /// How many hosts.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=254))]
    pub nodes: u32,
    /// What an uplink carries, in megabits a second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub megabits: u32,
    /// How long the file is.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub file_mib: u32,
    /// In which order it goes to the nodes.
    #[arg(long, default_value_t = Strategy::Auto)]
    pub strategy: Strategy,
    /// How many times one uplink's time it may take.
    #[arg(long, default_value_t = 1.5)]
    pub times: f64,
    /// How often, each time from another node.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// One push.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Of what.
    #[serde(flatten)]
    pub context: Context,
    /// What an uplink carries.
    pub megabits: u32,
    /// How long the file was.
    pub file_bytes: u64,
    /// In which order it went.
    pub strategy: String,
    /// How many nodes stored it.
    pub stored: u32,
    /// How many did not.
    pub failed: usize,
    /// Until all had answered.
    pub seconds: f64,
    /// What the file alone takes on one uplink.
    pub one_uplink_seconds: f64,
    /// The one in units of the other.
    pub times: f64,
    /// Its limit.
    pub times_limit: f64,
    /// Whether all was as promised.
    pub ok: bool,
}

impl Uplink {
    /// Be in a network namespace of this run alone; returns only there.
    pub fn enter_namespace(&self) -> Result<(), Failure> {
        Ok(namespace::enter()?)
    }

    /// Run it and print its rows.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Finding, Failure> {
        record::progress(format_args!("{} hosts are made", self.nodes));
        let hosts = Hosts::make(self.nodes, Family::V4).await?;
        let rate = Rate::megabits(self.megabits);
        for host in 0..self.nodes {
            hosts.set_rate(host, Some(rate)).await?;
        }
        let body = async |cluster: &Cluster| self.all(cluster).await;
        self.setup
            .with_cluster(self.nodes, hosts.places(), stop, body)
            .await
    }

    async fn all(&self, cluster: &Cluster) -> Result<Finding, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.setup.seed);
        let mut all_ok = true;
        for number in 0..self.repeat {
            let row = self.once(cluster, number, &mut rng).await?;
            record::progress_done();
            self.setup.print(&row)?;
            all_ok &= row.ok;
        }
        Ok(Finding::good_if(all_ok))
    }

    async fn once(
        &self,
        cluster: &Cluster,
        number: u32,
        rng: &mut ChaCha8Rng,
    ) -> Result<Row, Failure> {
        let origin = cluster.members().choose(rng);
        let origin = origin.ok_or_else(|| Failure::Run("there is no node".to_owned()))?;
        let mut file = vec![0; (self.file_mib as usize) << 20];
        rng.fill_bytes(&mut file);
        let file_bytes = file.len() as u64;
        let mut options = PushOptions::new(format!("file-{number}"), file_bytes);
        options.strategy = self.strategy;
        record::progress(format_args!("{} pushes to all", origin.name));
        let begun = now();
        let client = origin.client();
        let pushed = client.push(&file[..], &options, |_| ());
        let limit = self.setup.timeout();
        let report = tokio::time::timeout(limit, pushed).await;
        let report = report.map_err(|_| late(limit))?.map_err(Failure::run)?;
        Ok(self.row(&report, begun.elapsed()))
    }

    fn row(&self, report: &PushReport, taken: Duration) -> Row {
        let bits = report.size_bytes as f64 * 8.0;
        let one = bits / (f64::from(self.megabits) * 1e6);
        let times = taken.as_secs_f64() / one;
        Row {
            context: self.setup.context("uplink", self.nodes),
            megabits: self.megabits,
            file_bytes: report.size_bytes,
            strategy: self.strategy.to_string(),
            stored: report.stored_count,
            failed: report.failed.len(),
            seconds: taken.as_secs_f64(),
            one_uplink_seconds: one,
            times,
            times_limit: self.times,
            ok: report.is_complete()
                && report.stored_count + 1 == self.nodes
                && (LEAST..=self.times).contains(&times),
        }
    }
}

fn late(limit: Duration) -> Failure {
    Failure::Run(format!(
        "the push took longer than {} s (--timeout-seconds)",
        limit.as_secs()
    ))
}
