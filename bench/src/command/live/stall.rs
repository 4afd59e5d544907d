//! `live stall`: one receiver is stopped, or its subscriber reads nothing, while much is broadcast.
//! Memory must stay bounded, the others must lose nothing, and the promises of receipts must hold.

mod promise;
mod row;

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh::cluster::{Cluster, Member};
use binomesh::{Due, Receipt, SendOptions};
use binomesh_routing::PacketId;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::counters::Counters;
use super::receivers::Receivers;
use super::setup::{Setup, now, verified};
use crate::command::{Failure, Finding};
use crate::record::{self, Memory};
pub use promise::Promise;
use promise::Sent;
pub use row::Row;

/// How many messages are kept for the stopped receiver.
const KEPT: u32 = 16;
/// The length of each kept message in bytes.
const KEPT_BYTES: usize = 64 << 10;
/// How long a slow receiver runs between two stops. A stop is three times as long.
const RUNS: Duration = Duration::from_micros(66_667);
/// The most times that the other nodes' metrics are checked for the name of the stalled receiver.
const NAMED_WITHIN: u32 = 50;
/// The time by which a paused node is taken for down, so that no node waits for it any more.
const VERDICT: Duration = Duration::from_secs(10);
/// The time between two checks whether all messages have come.
const LOOK: Duration = Duration::from_millis(100);

/// Stop one receiver, or its subscriber, during many broadcasts.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live stall
  binomesh-bench live stall --how unread --volume-mib 128 --json

--how undisturbed: no node is disturbed. The times of the other runs are multiples of this
time.
--how paused: one node is stopped by SIGSTOP from the first eighth of the broadcasts to the
last. Every other node must get each broadcast once. The stopped node must get, once, each
broadcast whose receipt says that this node has it. The metrics of another node must name
the stopped node as slow. The 16 messages that are kept for the stopped node, as with
--until-seconds, must reach it once and in order.
--how slow: the same node is stopped for three quarters of the time, 200 ms at a stretch.
--how unread: a subscriber of one node reads nothing until the end. All nodes must get all
messages; the subscriber gets the messages in its buffer and the number of the missed ones.
Messages are counted one by one at the receivers. No node may ever take more memory than
--memory-mib. If undisturbed was measured, paused and unread may take at most --times its
time, and 10 s more until the paused node is taken for dead. (Slow may take longer, since
every broadcast goes to the slow node, too, and up to --open of them wait for this node.)
The exit status is 1 otherwise.")]
pub struct Stall {
    /// The number of nodes.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(4..=1024))]
    pub nodes: u32,
    /// The disturbance of the one receiver [default: all, one after another].
    #[arg(long)]
    pub how: Option<How>,
    /// The volume of all broadcasts.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub volume_mib: u32,
    /// The length of each message.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub message_kib: u32,
    /// The number of messages that wait for their receipts at a time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub open: u32,
    /// The most memory that a node may ever take. The default is less than a quarter of the sum of
    /// its bounds, see docs/design.md.
    #[arg(long, default_value_t = 128)]
    pub memory_mib: u64,
    /// The greatest time with a paused node or an idle subscriber, as a multiple of the time of
    /// undisturbed.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub times: u32,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// The disturbance of the one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Nothing is done to the receiver.
    Undisturbed,
    /// The process of the receiver is stopped.
    Paused,
    /// The process of the receiver is stopped again and again.
    Slow,
    /// The subscriber of the receiver reads nothing.
    Unread,
}

impl Stall {
    /// Run the chosen ways to stall, and print their rows.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Finding, Failure> {
        let (mut all_ok, mut undisturbed) = (true, None);
        for how in [How::Undisturbed, How::Paused, How::Slow, How::Unread] {
            if self.how.is_some_and(|only| only != how) {
                continue;
            }
            let body = async |cluster: &Cluster| self.once(cluster, how, undisturbed).await;
            let row = self
                .setup
                .measure(self.nodes, Vec::new(), stop, body)
                .await?;
            all_ok &= row.ok;
            if how == How::Undisturbed {
                undisturbed = Some(row.seconds);
            }
        }
        Ok(Finding::good_if(all_ok))
    }

    async fn once(
        &self,
        cluster: &Cluster,
        how: How,
        undisturbed: Option<f64>,
    ) -> Result<Row, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.setup.seed);
        let mut members: Vec<Member> = cluster.members().cloned().collect();
        members.shuffle(&mut rng);
        let [origin, stalled, others @ ..] = &members[..] else {
            return Err(Failure::Run(
                "a cluster of fewer than two nodes has no receiver to stall; \
                                     give --nodes 4 or more"
                    .to_owned(),
            ));
        };
        let heard = Receivers::open_digests(others, "stall/#").await?;
        let most_before = peaks(&members)?.most;
        let events = stalled.client().subscribe("stall/#").await;
        let mut events = Some(events.map_err(Failure::run)?);
        let mut receivers = Receivers::default();
        if let Some(events) = events.take_if(|_| how != How::Unread) {
            receivers.read(&stalled.name, events);
        }
        let sent = match how {
            How::Slow => {
                let sent = tokio::select! {
                    sent = self.broadcasts(cluster, origin, stalled, how) => sent?,
                    never = slow_down(cluster, &stalled.name) => never?,
                };
                cluster.resume(&stalled.name).await.map_err(Failure::run)?;
                sent
            }
            How::Undisturbed | How::Paused | How::Unread => {
                self.broadcasts(cluster, origin, stalled, how).await?
            }
        };
        if how != How::Unread {
            verified(cluster, self.setup.timeout()).await?;
        }
        if let Some(events) = events {
            receivers.read(&stalled.name, events);
        }
        let promise = self.settle(&receivers, &sent, &stalled.name).await;
        let peaks = peaks(&members)?;
        let due = sent.receipts.len() as u64;
        let lacking = self.lacking(&heard, &sent, others).await;
        // A second copy comes after the first one.
        sleep_until(now() + 10 * LOOK).await;
        let mut row = Row {
            context: self.setup.context("stall", self.nodes),
            how,
            broadcasts: due,
            refused: sent.refused,
            message_bytes: self.message_bytes(),
            seconds: sent.seconds,
            times_undisturbed: undisturbed.map(|seconds| sent.seconds / seconds),
            seconds_limit: undisturbed.and_then(|seconds| self.limit(how, seconds)),
            named_slow: (how == How::Paused).then_some(sent.is_named),
            silence_seconds_max: sent.silence_seconds_max(),
            lacking,
            duplicates: heard.duplicates(),
            overrun: heard.missed(),
            others_unreached: sent.others_unreached(&stalled.name),
            promise,
            memory_origin_mib: peaks.of(origin),
            memory_stalled_mib: peaks.of(stalled),
            memory_max_mib: peaks.most,
            memory_before_max_mib: most_before,
            memory_limit_mib: self.memory_mib,
            ok: false,
        };
        row.ok = row.is_as_promised();
        Ok(row)
    }

    /// Send all broadcasts and wait for their receipts. With [`How::Paused`] the receiver is
    /// stopped meanwhile, and continued.
    async fn broadcasts(
        &self,
        cluster: &Cluster,
        origin: &Member,
        stalled: &Member,
        how: How,
    ) -> Result<Sent, Failure> {
        let total = (self.volume_mib << 10).div_ceil(self.message_kib);
        let payload = Bytes::from(vec![0x5a; self.message_bytes()]);
        let (pause_at, resume_at) = (total / 8, total - total / 8 - 1);
        let (mut asked, mut kept, mut named) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        let (mut sent, begun) = (Sent::default(), now());
        for number in 0..total {
            if how == How::Paused && number == pause_at {
                cluster.pause(&stalled.name).await.map_err(Failure::run)?;
                named.spawn(is_named(
                    cluster.members().cloned().collect(),
                    stalled.clone(),
                ));
                kept.spawn(keep(origin.clone(), stalled.clone(), self.setup.timeout()));
            }
            if how == How::Paused && number == resume_at {
                // The receiver stays stopped until its name appears or the checks for the name are
                // over, even if there are few messages.
                sent.is_named = named
                    .join_next()
                    .await
                    .is_some_and(|is| is.is_ok_and(|is| is));
                cluster.resume(&stalled.name).await.map_err(Failure::run)?;
            }
            if asked.len() >= self.open as usize
                && let Some(answer) = asked.join_next().await
            {
                let (topic, receipt) = answer.map_err(Failure::run)?;
                sent.note(topic, receipt);
            }
            if number.is_multiple_of(64) {
                record::progress(format_args!("{number} of {total} are sent"));
            }
            let (client, payload) = (origin.client(), payload.clone());
            let patience = self.setup.timeout();
            asked.spawn(async move {
                let topic = format!("stall/{number}");
                let answer = client.broadcast(&topic, payload, Some(patience)).await;
                (topic, answer.ok())
            });
        }
        while let Some(answer) = asked.join_next().await {
            let (topic, receipt) = answer.map_err(Failure::run)?;
            sent.note(topic, receipt);
        }
        sent.seconds = begun.elapsed().as_secs_f64();
        sent.kept = kept.join_all().await.concat();
        Ok(sent)
    }

    /// The deliveries at the stalled receiver, as soon as they fulfil the promises, or when the
    /// time is over.
    async fn settle(&self, receivers: &Receivers, sent: &Sent, stalled: &str) -> Promise {
        let mut next = now();
        let end = next + self.setup.timeout();
        loop {
            let promise = sent.promise(receivers, stalled);
            if next >= end || promise.is_kept() {
                return promise;
            }
            next += LOOK;
            sleep_until(next).await;
        }
    }

    /// How many messages the other receivers lack, as soon as none is lacking, or when the time is
    /// over.
    async fn lacking(&self, heard: &Receivers, sent: &Sent, others: &[Member]) -> u64 {
        let mut next = now();
        let end = next + self.setup.timeout();
        loop {
            let pairs = sent.receipts.iter();
            let pairs = pairs.flat_map(|(topic, _)| others.iter().map(move |one| (topic, one)));
            let never =
                |(topic, one): &(&String, &Member)| heard.delivered(topic, &one.name).is_none();
            let lacking = pairs.filter(never).count() as u64;
            if next >= end || lacking == 0 {
                return lacking;
            }
            next += LOOK;
            sleep_until(next).await;
        }
    }

    /// The longest time in seconds, given the time of an undisturbed run.
    fn limit(&self, how: How, undisturbed: f64) -> Option<f64> {
        let limit = f64::from(self.times) * undisturbed;
        match how {
            How::Undisturbed | How::Slow => None,
            How::Paused => Some(limit + VERDICT.as_secs_f64()),
            How::Unread => Some(limit),
        }
    }

    const fn message_bytes(&self) -> usize {
        (self.message_kib as usize) << 10
    }
}

/// Whether the metrics of another node name the stalled node as slow, within some seconds.
async fn is_named(members: Vec<Member>, stalled: Member) -> bool {
    let label = format!("peer=\"{}\"", stalled.name);
    let mut next = now();
    for _ in 0..NAMED_WITHIN {
        let mut asked = JoinSet::new();
        for other in members.iter().filter(|other| other.name != stalled.name) {
            let client = other.client();
            asked.spawn(async move { Counters::scrape(&client).await });
        }
        let all = asked.join_all().await.into_iter().flatten();
        if all
            .map(|all| all.total("binomesh_slow_peer", &label))
            .any(|late| late > 0.0)
        {
            return true;
        }
        next += LOOK;
        sleep_until(next).await;
    }
    false
}

/// Let a node run for a quarter of the time. Returns only if that fails.
async fn slow_down<T>(cluster: &Cluster, name: &str) -> Result<T, Failure> {
    loop {
        cluster.pause(name).await.map_err(Failure::run)?;
        sleep_until(now() + 3 * RUNS).await;
        cluster.resume(name).await.map_err(Failure::run)?;
        // Run for the full time again, however late the stop ended.
        sleep_until(now() + RUNS).await;
    }
}

/// Send messages that are kept for the stalled node until it is back. Returns those that got a
/// receipt, in the order of their sequences.
async fn keep(origin: Member, stalled: Member, patience: Duration) -> Vec<(String, Receipt)> {
    let mut asked = JoinSet::new();
    for number in 0..KEPT {
        let (client, to) = (origin.client(), vec![stalled.name.clone()]);
        asked.spawn(async move {
            let name = format!("stall/kept/{number:02}");
            let topic = name.parse().ok()?;
            let options = SendOptions {
                topic,
                due: Due::Until(patience),
                ..SendOptions::default()
            };
            let answer = client
                .send_with(&to, vec![0x5a; KEPT_BYTES], &options)
                .await;
            Some((name, answer.ok()?))
        });
    }
    // The messages are published at the same time. Their sequences tell the order in which they
    // were accepted.
    let all = asked.join_all().await.into_iter().flatten();
    let mut all: Vec<(u64, (String, Receipt))> = all
        .filter_map(|sent| {
            let id: PacketId<String> = sent.1.id.parse().ok()?;
            Some((id.sequence, sent))
        })
        .collect();
    all.sort_unstable_by_key(|(sequence, _)| *sequence);
    all.into_iter().map(|(_, sent)| sent).collect()
}

/// The most memory that each process has ever taken, in MiB.
struct Peaks {
    by_pid: BTreeMap<u32, f64>,
    most: f64,
}

impl Peaks {
    fn of(&self, member: &Member) -> f64 {
        self.by_pid.get(&member.pid).copied().unwrap_or(0.0)
    }
}

fn peaks(members: &[Member]) -> Result<Peaks, Failure> {
    let mut by_pid = BTreeMap::new();
    for member in members {
        let memory = Memory::of(member.pid).map_err(Failure::run)?;
        by_pid.insert(member.pid, memory.peak_kib as f64 / 1024.0);
    }
    let most = by_pid.values().copied().fold(0.0, f64::max);
    Ok(Peaks { by_pid, most })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        stall: Stall,
    }

    #[test]
    fn the_time_is_limited_where_nodes_need_not_wait_for_the_disturbed_one() {
        let stall = Line::try_parse_from(["stall", "--times", "3"])
            .unwrap()
            .stall;
        let limits = [
            (How::Undisturbed, None),
            (How::Slow, None),
            (How::Paused, Some(25.0)),
            (How::Unread, Some(15.0)),
        ];
        for (how, limit) in limits {
            assert_eq!(stall.limit(how, 5.0), limit, "{how:?}");
        }
        assert!(Line::try_parse_from(["stall", "--times", "0"]).is_err());
    }
}
