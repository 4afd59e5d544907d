//! `live uplink`: a file for all hosts, where each host's uplink is the limit.

mod bare;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use binomesh::Strategy;
use binomesh::cluster::{Cluster, Member, Place};
use binomesh::push::{PushFailure, PushOptions, PushReport};
use bytes::Bytes;
use clap::Args;
use rand::seq::IteratorRandom;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::bare::End;
use super::counters::processor_time;
use super::setup::{Context, Setup, now};
use crate::command::peers::credentials::CredentialsFolder;
use crate::command::{Failure, Finding};
use crate::hosts::namespace;
use crate::hosts::network::{Family, Hosts, Rate};
use crate::record;

/// The least plausible ratio of a push's time to the time of the file on one uplink. A token bucket
/// lets its first fill through at once; a push that is still faster was not limited.
const LEAST: f64 = 0.9;

/// Send a file to all hosts over slow uplinks.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live uplink
  binomesh-bench live uplink --strategy sibling-tree --repeat 3 --json
  binomesh-bench live uplink --megabits 50 --file-mib 32 --bare --times-bare 1.1 --repeat 5 \
    --kill 3 --seconds-more 2

Every node is in a network namespace with an uplink of --megabits (a token bucket), on one
bridge. A random node pushes a file of --file-mib to all others. The time is measured from
the first byte until all nodes have confirmed that they have stored the file. It is compared
with the time of the file alone on one uplink; a node that sends the file to four children
needs four times as long. With --bare the time is also compared with the time over one QUIC
link with the settings of Binomesh, from one of the hosts to another, just before. With
--kill further rounds follow, in which one host, neither the origin nor the root, loses its
network and its process when half of the file is sent. The exit status is 1 if a living node
lacks the file, or if --times-bare or --seconds-more did not hold. The status is also 1 if a round
without a death took more than --times the time of one uplink, or less than nine tenths of
this time, in which case the uplinks were no limit. Needs root, or user namespaces.")]
pub struct Uplink {
    /// The number of hosts.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=254))]
    pub nodes: u32,
    /// The rate of an uplink, in megabits per second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub megabits: u32,
    /// The length of the file.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub file_mib: u32,
    /// The order in which the file goes to the nodes.
    #[arg(long, default_value_t = Strategy::Auto)]
    pub strategy: Strategy,
    /// The greatest time of the push, as a multiple of the time of the file on one uplink.
    #[arg(long, default_value_t = 1.5)]
    pub times: f64,
    /// The number of pushes, each from another node.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Send the file over one bare QUIC link before each push.
    #[arg(long)]
    pub bare: bool,
    /// The greatest time of the median push, as a multiple of the time on the bare link.
    #[arg(long, requires = "bare")]
    pub times_bare: Option<f64>,
    /// The number of further rounds, in each of which a host is lost.
    #[arg(long, default_value_t = 0)]
    pub kill: u32,
    /// The greatest number of seconds that a round with a lost host may take more than the median
    /// push.
    #[arg(long, requires = "kill")]
    pub seconds_more: Option<f64>,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// The row of one push.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The kind of the row: always `push`.
    pub row: &'static str,
    /// The run that the row is about.
    #[serde(flatten)]
    pub context: Context,
    /// The rate of an uplink, in megabits a second.
    pub megabits: u32,
    /// How long the file was.
    pub file_bytes: u64,
    /// The strategy of the push.
    pub strategy: String,
    /// The name of the host that was killed.
    pub killed: Option<String>,
    /// How many nodes stored the file.
    pub stored: u32,
    /// The nodes that did not store the file, and the reasons.
    pub failed: Vec<PushFailure>,
    /// The seconds until all nodes had answered.
    pub seconds: f64,
    /// The processor time of all nodes but the killed one during the push.
    pub processor_seconds: f64,
    /// The seconds that the file alone takes on one uplink.
    pub one_uplink_seconds: f64,
    /// The ratio of the push's time to the time of the file on one uplink.
    pub times: f64,
    /// The limit of `times`.
    pub times_limit: f64,
    /// The seconds that the file took over one bare QUIC link just before.
    pub bare_seconds: Option<f64>,
    /// The ratio of the push's time to the time on the bare link.
    pub times_bare: Option<f64>,
    /// Whether every promise held.
    pub ok: bool,
}

/// Medians of the pushes without a death, and the cost of a death.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The kind of the row: always `summary`.
    pub row: &'static str,
    /// The run that the row is about.
    #[serde(flatten)]
    pub context: Context,
    /// The rate of an uplink, in megabits a second.
    pub megabits: u32,
    /// The strategy of the push.
    pub strategy: String,
    /// How many pushes had no death.
    pub pushes: usize,
    /// The median time of a push without a death.
    pub seconds_p50: Option<f64>,
    /// The median ratio to the time on one uplink.
    pub times_p50: Option<f64>,
    /// The median ratio to the bare link.
    pub times_bare_p50: Option<f64>,
    /// How much longer than the median the slowest push with a death took.
    pub seconds_more_max: Option<f64>,
    /// Whether the limits --times-bare and --seconds-more held.
    pub ok: bool,
}

impl Uplink {
    /// Continue in a network namespace for this run alone; returns only there.
    pub fn enter_namespace(&self) -> Result<(), Failure> {
        Ok(namespace::enter()?)
    }

    /// Push as often as requested, and print the rows.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Finding, Failure> {
        record::progress(format_args!("{} hosts are made", self.nodes));
        let hosts = Hosts::make(self.nodes, Family::V4).await?;
        let rate = Rate::megabits(self.megabits);
        for host in 0..self.nodes {
            hosts.set_rate(host, Some(rate)).await?;
        }
        let body = async |cluster: &Cluster| self.all(cluster, &hosts).await;
        self.setup
            .with_cluster(self.nodes, hosts.places(), stop, body)
            .await
    }

    async fn all(&self, cluster: &Cluster, hosts: &Hosts) -> Result<Finding, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.setup.seed);
        let mut rows: Vec<Row> = Vec::new();
        for number in 0..self.repeat + self.kill {
            let bare = match self.bare {
                true => Some(self.over_one_link(hosts).await?),
                false => None,
            };
            let victim = cluster.live().skip(1).choose(&mut rng).cloned();
            let victim = victim.filter(|_| number >= self.repeat);
            let mut row = self.once(cluster, hosts, number, victim, &mut rng).await?;
            row.bare_seconds = bare.map(|bare| bare.as_secs_f64());
            row.times_bare = row.bare_seconds.map(|bare| row.seconds / bare);
            record::progress_done();
            self.setup.print(&row)?;
            rows.push(row);
        }
        let summary = self.summary(&rows);
        self.setup.print(&summary)?;
        Ok(Finding::good_if(
            summary.ok && rows.iter().all(|row| row.ok),
        ))
    }

    /// Send the file from the first host to the second, over a QUIC link of its own.
    async fn over_one_link(&self, hosts: &Hosts) -> Result<Duration, Failure> {
        record::progress(format_args!("one bare link"));
        let places: Vec<Place> = hosts.places();
        let bytes = Bytes::from(vec![0; (self.file_mib as usize) << 20]);
        let transfer = move || {
            let home = CredentialsFolder::new(2, binomesh::Profile::Default, false)?;
            let [from, to, ..] = &places[..] else {
                return Err(Failure::run(
                    "the bare link needs two hosts; give --nodes 2 or more",
                ));
            };
            let end = |place, number| -> Result<End<'_>, Failure> {
                let identity = home.identity(number)?;
                Ok(End { place, identity })
            };
            bare::transfer(end(from, 0)?, end(to, 1)?, bytes)
        };
        tokio::task::spawn_blocking(transfer)
            .await
            .map_err(Failure::run)?
    }

    async fn once(
        &self,
        cluster: &Cluster,
        hosts: &Hosts,
        number: u32,
        victim: Option<Member>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Row, Failure> {
        let is_victim =
            |member: &&Member| victim.as_ref().is_some_and(|one| one.name == member.name);
        let origin = cluster
            .live()
            .filter(|member| !is_victim(member))
            .choose(rng);
        let origin =
            origin.ok_or_else(|| Failure::Run("no living node can push the file".to_owned()))?;
        let mut file = vec![0; (self.file_mib as usize) << 20];
        rng.fill_bytes(&mut file);
        let mut options = PushOptions::new(format!("file-{number}"), file.len() as u64);
        options.strategy = self.strategy;
        record::progress(format_args!("{} pushes to all", origin.name));
        let others: Vec<Member> = cluster
            .live()
            .filter(|member| !is_victim(member))
            .cloned()
            .collect();
        let before = processor_times(&others)?;
        let (half, is_half) = (file.len() as u64 / 2, Notify::new());
        let begun = now();
        let client = origin.client();
        let pushed = client.push(&file[..], &options, |bytes| {
            if bytes >= half {
                is_half.notify_one();
            }
        });
        let death = async {
            if let Some(victim) = &victim {
                is_half.notified().await;
                self.end(cluster, hosts, victim).await?;
            }
            Ok::<(), Failure>(())
        };
        let limit = self.setup.timeout();
        let both = async { tokio::join!(pushed, death) };
        let both = tokio::time::timeout(limit, both).await;
        let (report, death) = both.map_err(|_| late(limit))?;
        death?;
        let taken = begun.elapsed();
        let used = processor_times(&others)?.saturating_sub(before);
        let report = report.map_err(Failure::run)?;
        Ok(self.row(&report, taken, used, victim, &others))
    }

    /// Cut a host off, and kill its process.
    async fn end(&self, cluster: &Cluster, hosts: &Hosts, victim: &Member) -> Result<(), Failure> {
        let number = cluster
            .members()
            .position(|member| member.name == victim.name);
        let host = number.and_then(|number| u32::try_from(number).ok());
        let host = host.ok_or_else(|| Failure::run("the node to kill has no host"))?;
        hosts.set_cut(host, true).await?;
        cluster.kill(&victim.name).await.map_err(Failure::run)
    }

    fn row(
        &self,
        report: &PushReport,
        taken: Duration,
        used: Duration,
        victim: Option<Member>,
        living: &[Member],
    ) -> Row {
        let bits = report.size_bytes as f64 * 8.0;
        let one = bits / (f64::from(self.megabits) * 1e6);
        let times = taken.as_secs_f64() / one;
        let killed = victim.map(|victim| victim.name);
        // A node that died in an earlier round may still count as a member.
        let has_failed = |name: &String| report.failed.iter().any(|one| one.name == *name);
        let are_well = !living.iter().any(|one| has_failed(&one.name));
        let has_time = killed.is_some() || times <= self.times;
        Row {
            row: "push",
            context: self.setup.context("uplink", self.nodes),
            megabits: self.megabits,
            file_bytes: report.size_bytes,
            strategy: self.strategy.to_string(),
            stored: report.stored_count,
            failed: report.failed.clone(),
            seconds: taken.as_secs_f64(),
            processor_seconds: used.as_secs_f64(),
            one_uplink_seconds: one,
            times,
            times_limit: self.times,
            bare_seconds: None,
            times_bare: None,
            ok: are_well
                && killed.iter().all(has_failed)
                && report.stored_count as usize + 1 == living.len()
                && has_time
                && times >= LEAST,
            killed,
        }
    }

    fn summary(&self, rows: &[Row]) -> Summary {
        let (died, well): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| row.killed.is_some());
        let median = |of: &dyn Fn(&Row) -> Option<f64>| {
            let mut all: Vec<f64> = well.iter().filter_map(|row| of(row)).collect();
            all.sort_by(f64::total_cmp);
            record::quantile(&all, 0.5)
        };
        let seconds_p50 = median(&|row| Some(row.seconds));
        let times_bare_p50 = median(&|row| row.times_bare);
        let slowest = died.iter().map(|row| row.seconds).max_by(f64::total_cmp);
        let more = slowest
            .zip(seconds_p50)
            .map(|(slowest, usual)| slowest - usual);
        let holds = |limit: Option<f64>, seen: Option<f64>| {
            limit.is_none_or(|limit| seen.is_some_and(|seen| seen <= limit))
        };
        Summary {
            row: "summary",
            context: self.setup.context("uplink", self.nodes),
            megabits: self.megabits,
            strategy: self.strategy.to_string(),
            pushes: well.len(),
            seconds_p50,
            times_p50: median(&|row| Some(row.times)),
            times_bare_p50,
            seconds_more_max: more,
            ok: holds(self.times_bare, times_bare_p50) && holds(self.seconds_more, more),
        }
    }
}

fn processor_times(members: &[Member]) -> Result<Duration, Failure> {
    members
        .iter()
        .map(|member| processor_time(member.pid))
        .sum()
}

/// The unspecified address of the same family.
const fn any_like(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

fn late(limit: Duration) -> Failure {
    Failure::Run(format!(
        "the push took longer than {} s (--timeout-seconds)",
        limit.as_secs()
    ))
}
