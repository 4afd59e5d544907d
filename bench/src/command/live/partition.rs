//! `live partition`: two halves cannot hear each other for a while. Each must work by itself, and
//! afterwards they must become one cluster again.

use std::time::Duration;

use binomesh::cluster::{Cluster, Member};
use clap::Args;
use rand::SeedableRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::observation::{Observations, is_graph};
use super::receivers::Receivers;
use super::setup::{Context, Setup, now};
use super::watch::Watch;
use crate::command::{Failure, Finding};
use crate::hosts::udp_relay::UdpRelay;
use crate::record;

/// The time between two broadcasts of a half.
const BETWEEN: Duration = Duration::from_secs(1);
/// A broadcast is judged if it began at least so long before the end of the cut.
const LAST: Duration = Duration::from_secs(5);

/// Cut the cluster into two halves for some time.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live partition --nodes 16 --seconds 30
  binomesh-bench live partition --nodes 8 --seconds 10 --profile fast --json

Every datagram goes through a relay of this program, which silently drops the datagrams between
the halves. The halves are random. During the cut each half sends one broadcast per second from a
random node. A broadcast that was accepted at least 5 s before the end of the cut must reach all
other nodes of its half by the end, each once, counted at the receivers. A half accepts every
broadcast as soon as it is the exact graph of its own nodes. After the cut all nodes must be one
exact graph within --heal-seconds. The exit status is 1 otherwise.")]
pub struct Partition {
    /// The number of nodes.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(4..=253))]
    pub nodes: u32,
    /// How many seconds the halves are cut.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(6..=86_400))]
    pub seconds: u64,
    /// How many seconds the halves may take to become one cluster again.
    #[arg(long, default_value_t = 10.0)]
    pub heal_seconds: f64,
    /// The time between two questions to a node.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub poll_milliseconds: u64,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// The result of one half.
#[derive(Debug, Clone, Serialize)]
pub struct Half {
    /// The number of nodes of the half.
    pub nodes: usize,
    /// The seconds from the cut until the half was an exact graph by itself, and has stayed one.
    pub graph_seconds: Option<f64>,
    /// The number of broadcasts that were judged.
    pub broadcasts: usize,
    /// How many of the judged broadcasts their nodes did not accept.
    pub refused: usize,
    /// How many of the judged broadcasts that were not accepted were sent after the half was an
    /// exact graph.
    pub refused_as_graph: usize,
    /// How many deliveries of accepted broadcasts were due, to other nodes of this half.
    pub due: usize,
    /// How many of the deliveries that were due did not come before the end of the cut.
    pub undelivered: usize,
    /// The longest time from a broadcast to a delivery that came before the end of the cut.
    pub delivery_seconds_max: Option<f64>,
}

/// The result of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The run that the row is about.
    #[serde(flatten)]
    pub context: Context,
    /// The length of the cut.
    pub cut_seconds: u64,
    /// The half that had the root.
    pub with_root: Half,
    /// The half without the root.
    pub without_root: Half,
    /// The time from the end of the cut until all nodes were one exact graph.
    pub heal_seconds: Option<f64>,
    /// The limit of `heal_seconds`.
    pub heal_seconds_limit: f64,
    /// Repeated deliveries of a message.
    pub duplicates: u64,
    /// Datagrams that the cut swallowed.
    pub datagrams_dropped: u64,
    /// Whether every promise held.
    pub ok: bool,
}

/// A broadcast and its fate at its origin.
struct Sent {
    topic: String,
    origin: String,
    begun: Instant,
    accepted: bool,
}

impl Partition {
    /// Run the command and print its row.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Finding, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.setup.seed);
        let mut sides: Vec<bool> = (0..self.nodes).map(|node| node % 2 == 0).collect();
        sides.shuffle(&mut rng);
        let relay = UdpRelay::start(sides.clone()).await?;
        let body = async |cluster: &Cluster| self.once(cluster, &relay, &sides, rng).await;
        let row = self
            .setup
            .measure(self.nodes, relay.places(), stop, body)
            .await?;
        Ok(Finding::good_if(row.ok))
    }

    async fn once(
        &self,
        cluster: &Cluster,
        relay: &UdpRelay,
        sides: &[bool],
        mut rng: ChaCha8Rng,
    ) -> Result<Row, Failure> {
        let members: Vec<Member> = cluster.members().cloned().collect();
        // The root is node-0.
        let with_root = sides.first().copied().unwrap_or_default();
        let halves = [with_root, !with_root].map(|side| -> Vec<Member> {
            let of_side = members.iter().zip(sides).filter(|(_, one)| **one == side);
            of_side.map(|(member, _)| member.clone()).collect()
        });
        let period = Duration::from_millis(self.poll_milliseconds);
        let receivers = Receivers::open(&members, "cut/#").await?;
        let mut watch = Watch::open(&members, period, self.setup.timeout()).await;

        relay.set_cut(true);
        let begun = now();
        let end = begun + Duration::from_secs(self.seconds);
        let mut sending = |topic, half: &[Member]| {
            let rng = ChaCha8Rng::from_rng(&mut rng);
            tokio::spawn(broadcasts(topic, half.to_vec(), end, rng))
        };
        let [first, second] = &halves;
        let first = sending("cut/with-root", first);
        let second = sending("cut/without-root", second);
        let graphs = graphs_until(&mut watch, &halves, end).await;
        relay.set_cut(false);
        let mended = now();
        record::progress(format_args!("mended"));
        let heal_seconds = self.healed(&mut watch, mended).await;

        let sent = [
            first.await.map_err(Failure::run)?,
            second.await.map_err(Failure::run)?,
        ];
        let judged = |number: usize| {
            let (half, sent, graph) = (halves.get(number)?, sent.get(number)?, graphs.get(number)?);
            Some(judge(half, sent, begun, *graph, mended, &receivers))
        };
        let (Some(with_root), Some(without_root)) = (judged(0), judged(1)) else {
            return Err(Failure::Run(
                "the cluster does not have two halves".to_owned(),
            ));
        };
        let duplicates = receivers.duplicates();
        let ok = with_root.is_served()
            && without_root.is_served()
            && duplicates == 0
            && receivers.missed() == 0
            && heal_seconds.is_some_and(|seconds| seconds <= self.heal_seconds);
        Ok(Row {
            context: self.setup.context("partition", self.nodes),
            cut_seconds: self.seconds,
            with_root,
            without_root,
            heal_seconds,
            heal_seconds_limit: self.heal_seconds,
            duplicates,
            datagrams_dropped: relay.dropped(),
            ok,
        })
    }

    async fn healed(&self, watch: &mut Watch, mended: Instant) -> Option<f64> {
        let until = mended + self.setup.timeout();
        let mut at = mended;
        while !is_graph(watch.latest()) {
            at = watch.next(until).await?.at;
        }
        Some(at.saturating_duration_since(mended).as_secs_f64())
    }
}

impl Half {
    /// Whether the half worked by itself.
    pub fn is_served(&self) -> bool {
        let has_served = self.broadcasts > self.refused && self.graph_seconds.is_some();
        has_served && self.undelivered == 0 && self.refused_as_graph == 0
    }
}

/// Since when each half has been an exact graph by itself.
async fn graphs_until(
    watch: &mut Watch,
    halves: &[Vec<Member>; 2],
    end: Instant,
) -> [Option<Instant>; 2] {
    let mut since = [None; 2];
    while let Some(seen) = watch.next(end).await {
        for (since, half) in since.iter_mut().zip(halves) {
            let observation = |member: &Member| watch.latest().get_key_value(&member.name);
            let own = half.iter().filter_map(observation);
            let own: Observations = own
                .map(|(name, observation)| (name.clone(), observation.clone()))
                .collect();
            *since = since.or(Some(seen.at)).filter(|_| is_graph(&own));
        }
    }
    since
}

/// Broadcast from random nodes of a half, on topics of their own, until `end`.
async fn broadcasts(
    topic: &'static str,
    half: Vec<Member>,
    end: Instant,
    mut rng: ChaCha8Rng,
) -> Vec<Sent> {
    let mut asked = JoinSet::new();
    let mut next = now();
    for number in 0.. {
        next += BETWEEN;
        let Some(origin) = half.choose(&mut rng).filter(|_| next < end) else {
            break;
        };
        sleep_until(next).await;
        let (client, topic) = (origin.client(), format!("{topic}/{number}"));
        let (origin, begun) = (origin.name.clone(), now());
        asked.spawn(async move {
            let rest = end.saturating_duration_since(begun);
            let answer = client.broadcast(&topic, "a word", Some(rest)).await;
            // A receipt that comes late still means that the broadcast was accepted.
            let accepted = answer.map_or_else(|error| error.is_timeout(), |_| true);
            Sent {
                topic,
                origin,
                begun,
                accepted,
            }
        });
    }
    asked.join_all().await
}

fn judge(
    half: &[Member],
    sent: &[Sent],
    begun: Instant,
    graph: Option<Instant>,
    mended: Instant,
    receivers: &Receivers,
) -> Half {
    let judged: Vec<&Sent> = sent
        .iter()
        .filter(|one| one.begun + LAST <= mended)
        .collect();
    let refused = judged.iter().filter(|one| !one.accepted);
    let is_late = |one: &&&Sent| graph.is_some_and(|graph| one.begun > graph);
    let (mut due, mut undelivered, mut slowest) = (0, 0, None);
    for one in judged.iter().filter(|one| one.accepted) {
        for member in half.iter().filter(|member| member.name != one.origin) {
            due += 1;
            let delivered = receivers.delivered(&one.topic, &member.name);
            match delivered.filter(|at| *at <= mended) {
                None => undelivered += 1,
                Some(at) => slowest = slowest.max(Some(at.saturating_duration_since(one.begun))),
            }
        }
    }
    Half {
        nodes: half.len(),
        graph_seconds: graph.map(|at| at.saturating_duration_since(begun).as_secs_f64()),
        broadcasts: judged.len(),
        refused: refused.clone().count(),
        refused_as_graph: refused.filter(is_late).count(),
        due,
        undelivered,
        delivery_seconds_max: slowest.map(|length| length.as_secs_f64()),
    }
}
