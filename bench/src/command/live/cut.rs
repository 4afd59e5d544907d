//! `live cut`: a share of the nodes falls silent without notice. Every later broadcast must still
//! come to all other nodes.

use std::collections::BTreeSet;
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

use super::kill::Share;
use super::receivers::Receivers;
use super::setup::{Context, Setup, now, quantile};
use crate::command::{Failure, Finding};
use crate::record;

/// How many broadcasts are sent before the cut, to compare with.
const BEFORE: u32 = 20;
/// The deadline of each receipt. After the last receipt, missing deliveries are awaited for this
/// time, too.
const LAST: Duration = Duration::from_secs(10);
/// How long to wait for messages that may come twice.
const TWICE: Duration = Duration::from_secs(1);

/// Silence some nodes, and broadcast at the same moment.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live cut --nodes 64 --cut 10%
  binomesh-bench live cut --nodes 16 --cut 2 --repeat 5 --json

SIGSTOP stops the cut nodes, all at once: no connection is closed, no ICMP is sent, and the
kernel accepts datagrams to them without an answer. The first broadcast goes out at this
moment, when no other node can know of the cut. Further broadcasts follow for --seconds,
each from a random live node. Each broadcast must reach all other live nodes once, counted
at the receivers, and the first one within --first-milliseconds. The exit status is 1
otherwise.")]
pub struct Cut {
    /// The number of nodes.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(3..=1024))]
    pub nodes: u32,
    /// The number of nodes that are cut, or their share such as 10%.
    #[arg(long, default_value = "10%")]
    pub cut: Share,
    /// How many seconds the broadcasts go on.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// The time between two broadcasts.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub every_milliseconds: u64,
    /// The time in which the first broadcast must reach all live nodes.
    #[arg(long, default_value_t = 150.0)]
    pub first_milliseconds: f64,
    /// The number of runs, each with a new cluster and other victims.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// The result of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The run that the row is about.
    #[serde(flatten)]
    pub context: Context,
    /// How many nodes were cut.
    pub cut: u32,
    /// How many broadcasts were sent after the cut.
    pub broadcasts: u32,
    /// How many broadcasts, before the cut and after it, their nodes did not accept.
    pub refused: u32,
    /// How many deliveries were due, to other living nodes.
    pub due: usize,
    /// How many deliveries that were due never came.
    pub undelivered: usize,
    /// Repeated deliveries of a message, at living nodes.
    pub duplicates: u64,
    /// The median time until a broadcast before the cut had come to all nodes.
    pub before_milliseconds_p50: Option<f64>,
    /// The longest time until a broadcast before the cut had come to all nodes.
    pub before_milliseconds_max: Option<f64>,
    /// The time until the first broadcast after the cut had come to all living nodes.
    pub first_milliseconds: Option<f64>,
    /// The limit of `first_milliseconds`: above it, `ok` is false.
    pub first_milliseconds_limit: f64,
    /// The median time of the broadcasts after the cut, without the first one.
    pub later_milliseconds_p50: Option<f64>,
    /// The 99th percentile of the times of the broadcasts after the cut, without the first one.
    pub later_milliseconds_p99: Option<f64>,
    /// The longest time of a broadcast after the cut, without the first one.
    pub later_milliseconds_max: Option<f64>,
    /// Whether every promise held.
    pub ok: bool,
}

/// A broadcast at its origin.
struct Sent {
    topic: String,
    origin: String,
    begun: Instant,
}

impl Cut {
    /// Run the command and print its rows.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Finding, Failure> {
        let count = self.count()?;
        let mut all_ok = true;
        for number in 0..self.repeat {
            let seed = self.setup.seed.wrapping_add(number.into());
            let body = async |cluster: &Cluster| self.once(cluster, count, seed).await;
            let row = self
                .setup
                .measure(self.nodes, Vec::new(), stop, body)
                .await?;
            all_ok &= row.ok;
        }
        Ok(Finding::good_if(all_ok))
    }

    /// The number of nodes to cut. A sender and a receiver must remain.
    fn count(&self) -> Result<u32, Failure> {
        let (count, most) = (self.cut.of(self.nodes), self.nodes - 2);
        match count <= most {
            true => Ok(count),
            false => Err(Failure::Usage(format!(
                "--cut leaves fewer than two of {} nodes; cut at most {most}",
                self.nodes
            ))),
        }
    }

    async fn once(&self, cluster: &Cluster, count: u32, seed: u64) -> Result<Row, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut members: Vec<Member> = cluster.members().cloned().collect();
        members.shuffle(&mut rng);
        let living = members.split_off(count as usize);
        let victims: Vec<String> = members.into_iter().map(|member| member.name).collect();
        let receivers = Receivers::open(&living, "cut/#").await?;

        let period = Duration::from_millis(self.every_milliseconds);
        let calm = broadcasts("cut/before", &living, BEFORE, period, &mut rng).await;
        record::progress(format_args!("{count} of {} are cut", self.nodes));
        for victim in &victims {
            cluster.pause(victim).await.map_err(Failure::run)?;
        }
        let count_after = u32::try_from(self.seconds * 1000 / self.every_milliseconds);
        let count_after = count_after.unwrap_or(u32::MAX).max(2);
        let after = broadcasts("cut/after", &living, count_after, period, &mut rng).await;

        let end = now() + LAST;
        let names: BTreeSet<&str> = living.iter().map(|member| &*member.name).collect();
        let mut last = now();
        while last < end
            && after
                .sent
                .iter()
                .any(|one| one.until(&names, &receivers).is_none())
        {
            last += period;
            sleep_until(last).await;
        }
        // A second copy comes after the first one.
        sleep_until(now() + TWICE).await;
        Ok(self.row(count, &names, &calm, &after, &receivers))
    }

    fn row(
        &self,
        cut: u32,
        living: &BTreeSet<&str>,
        calm: &Broadcasts,
        after: &Broadcasts,
        receivers: &Receivers,
    ) -> Row {
        let milliseconds = |sent: &[Sent]| -> Vec<f64> {
            let taken = sent.iter().filter_map(|one| one.until(living, receivers));
            taken.map(|length| length.as_secs_f64() * 1e3).collect()
        };
        let before = milliseconds(&calm.sent);
        let first = after.sent.first();
        let first = first.and_then(|one| one.until(living, receivers));
        let later = milliseconds(after.sent.get(1..).unwrap_or_default());
        let lost = |one: &Sent| {
            let others = living.iter().filter(|name| **name != one.origin);
            let lacking = others.filter(|name| receivers.delivered(&one.topic, name).is_none());
            lacking.count()
        };
        let undelivered = after.sent.iter().map(lost).sum();
        let duplicates = receivers.duplicates();
        let first = first.map(|length| length.as_secs_f64() * 1e3);
        let refused = after.refused + calm.refused;
        let ok = undelivered == 0
            && duplicates == 0
            && refused == 0
            && receivers.missed() == 0
            && first.is_some_and(|length| length <= self.first_milliseconds);
        Row {
            context: self.setup.context("cut", self.nodes),
            cut,
            broadcasts: after.refused + u32::try_from(after.sent.len()).unwrap_or(u32::MAX),
            refused,
            due: after.sent.len() * living.len().saturating_sub(1),
            undelivered,
            duplicates,
            before_milliseconds_p50: quantile(&before, 0.5),
            before_milliseconds_max: quantile(&before, 1.0),
            first_milliseconds: first,
            first_milliseconds_limit: self.first_milliseconds,
            later_milliseconds_p50: quantile(&later, 0.5),
            later_milliseconds_p99: quantile(&later, 0.99),
            later_milliseconds_max: quantile(&later, 1.0),
            ok,
        }
    }
}

impl Sent {
    /// The time until a broadcast had come to all other living nodes; `None` if it did not.
    fn until(&self, living: &BTreeSet<&str>, receivers: &Receivers) -> Option<Duration> {
        let mut last = self.begun;
        for name in living.iter().filter(|name| **name != self.origin) {
            last = last.max(receivers.delivered(&self.topic, name)?);
        }
        Some(last.saturating_duration_since(self.begun))
    }
}

/// The broadcasts that were accepted, in order, and the number of the others.
struct Broadcasts {
    sent: Vec<Sent>,
    refused: u32,
}

/// Broadcast this often, each time from a random node.
async fn broadcasts(
    topic: &str,
    living: &[Member],
    count: u32,
    period: Duration,
    rng: &mut ChaCha8Rng,
) -> Broadcasts {
    let mut asked = JoinSet::new();
    let mut next = now();
    for number in 0..count {
        let Some(origin) = living.choose(rng) else {
            break;
        };
        let (client, topic) = (origin.client(), format!("{topic}/{number}"));
        let origin = origin.name.clone();
        sleep_until(next).await;
        next += period;
        asked.spawn(async move {
            let begun = now();
            let answer = client.broadcast(&topic, "a word", Some(LAST)).await;
            // A receipt that comes late still means that the broadcast was accepted.
            let is_accepted = answer.map_or_else(|error| error.is_timeout(), |_| true);
            let sent = Sent {
                topic,
                origin,
                begun,
            };
            (number, is_accepted.then_some(sent))
        });
    }
    let mut all = asked.join_all().await;
    all.sort_by_key(|(number, _)| *number);
    let total = all.len();
    let sent: Vec<Sent> = all.into_iter().filter_map(|(_, sent)| sent).collect();
    let refused = u32::try_from(total - sent.len()).unwrap_or(u32::MAX);
    Broadcasts { sent, refused }
}

#[cfg(test)]
mod tests {
    use binomesh::client::SubscriptionEvent;
    use clap::Parser;

    use super::*;
    use crate::command::live::receivers::delivery;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        cut: Cut,
    }

    fn cut(line: &str) -> Cut {
        let words = ["cut"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().cut
    }

    /// A row for two broadcasts of `a` to `b` and `c`, of which `deliveries` came.
    fn row(deliveries: &[(&str, &str)], refused: u32, missed: u64, limit: &str) -> Row {
        let receivers = Receivers::default();
        let begun = now();
        for (topic, node) in deliveries {
            receivers.note(node, delivery(topic));
        }
        receivers.note("b", SubscriptionEvent::Missed(missed));
        let sent = |topics: &[&str]| {
            let one = |topic: &&str| Sent {
                topic: (*topic).to_owned(),
                origin: "a".to_owned(),
                begun,
            };
            topics.iter().map(one).collect()
        };
        let broadcasts = |topics: &[&str]| Broadcasts {
            sent: sent(topics),
            refused,
        };
        let (calm, after) = (broadcasts(&[]), broadcasts(&["0", "1"]));
        let cut = cut(&format!("--nodes 4 --cut 1 --first-milliseconds {limit}"));
        cut.row(1, &["a", "b", "c"].into(), &calm, &after, &receivers)
    }

    #[test]
    fn one_lost_or_doubled_delivery_is_counted_and_fails_the_run() {
        let all = [("0", "b"), ("0", "c"), ("1", "b"), ("1", "c")];
        let good = row(&all, 0, 0, "10000");
        assert!(good.ok, "{good:?}");
        assert_eq!((good.due, good.undelivered, good.duplicates), (4, 0, 0));
        for lost in 0..all.len() {
            let mut rest = all.to_vec();
            rest.remove(lost);
            let row = row(&rest, 0, 0, "10000");
            assert!(!row.ok && row.undelivered == 1, "{lost}: {row:?}");
            assert_eq!(row.first_milliseconds.is_none(), lost < 2);
        }
        let doubled = row(&[&all[..], &all[3..]].concat(), 0, 0, "10000");
        assert!(!doubled.ok && doubled.duplicates == 1, "{doubled:?}");
        assert!(!row(&all, 1, 0, "10000").ok, "refused");
        assert!(!row(&all, 0, 1, "10000").ok, "not counted");
        assert!(!row(&all, 0, 0, "0").ok, "late");
    }

    #[test]
    fn a_cut_that_leaves_fewer_than_two_nodes_is_refused_with_the_most_that_may_be_cut() {
        let count = |line: &str| cut(line).count();
        assert_eq!(count("--nodes 64").unwrap(), 7);
        assert_eq!(count("--nodes 4 --cut 2").unwrap(), 2);
        let error = count("--nodes 4 --cut 3").unwrap_err();
        assert!(matches!(error, Failure::Usage(_)));
        assert!(error.to_string().ends_with("cut at most 2"), "{error}");
    }
}
