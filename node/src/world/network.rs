//! The network of a world: how messages travel, and the faults that hinder them.
//!
//! Each fault carries its end, so a script is a list of single facts. Only faults without an end of
//! their own have to be undone, by [`Network::mend`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Id;

/// An end that does not come before [`Network::mend`].
pub(super) const FOREVER: Duration = Duration::MAX;

/// The distribution of the times that messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Latency {
    /// All times between the two are equally likely.
    Uniform {
        /// The shortest travel time of a message.
        min_us: u64,
        /// The longest travel time of a message.
        max_us: u64,
    },
    /// A bounded Pareto distribution of shape 1: at least half of all messages take less than twice
    /// the shortest time; at most one in a hundred takes more than a hundred times the shortest.
    LongTail {
        /// The shortest travel time of a message.
        min_us: u64,
        /// The longest travel time of a message.
        max_us: u64,
    },
}

impl Latency {
    /// The latency that `chance` draws.
    pub(super) fn draw(self, chance: u64) -> Duration {
        let part = |of: u64| ((u128::from(of) * u128::from(chance)) >> 64) as u64;
        match self {
            Self::Uniform { min_us, max_us } => {
                let width = max_us.saturating_sub(min_us) * 1000;
                Duration::from_nanos(min_us * 1000 + part(width))
            }
            Self::LongTail { min_us, max_us } => {
                let (low, high) = (min_us.max(1), max_us.max(min_us.max(1)));
                let product = u128::from(low) * u128::from(high) * 1000;
                let nanos = product / u128::from(high - part(high - low));
                Duration::from_nanos(nanos as u64)
            }
        }
    }
}

/// The conditions for messages between two peers whose link is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// The distribution of the travel times of messages.
    pub latency: Latency,
    /// How many messages of a million are lost. A lost message does not come again, which is
    /// harsher than QUIC while a link lives.
    pub loss_per_million: u32,
    /// How many messages of a million arrive twice.
    pub duplicated_per_million: u32,
    /// How many messages of a million may overtake others of their class. Classes are separate
    /// streams and never wait for each other.
    pub reordered_per_million: u32,
}

/// The network of a world.
pub struct Network {
    /// The distribution of the travel times of messages.
    pub latency: Latency,
    /// How many of a million messages are lost.
    pub loss_per_million: u32,
    /// How many messages of a million arrive twice.
    pub duplicated_per_million: u32,
    /// How many messages of a million may overtake others of their class.
    pub reordered_per_million: u32,
    /// How long a link outlives its silent peer.
    pub idle_timeout: Duration,
    spell: Option<(Conditions, Duration)>,
    cuts: BTreeMap<(Id, Id), Duration>,
    partition: Option<(BTreeMap<Id, usize>, Duration)>,
    slow: BTreeMap<(Id, Id), (Duration, Duration)>,
    connections: BTreeMap<(Id, Id), Connection>,
    number: u64,
}

/// A peer and the boot that it claims.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) id: Id,
    pub(super) boot: u64,
}

/// The one link between two peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Connection {
    /// No other connection of the world has this number.
    pub(super) number: u64,
    /// When its greeting is over.
    pub(super) up: Duration,
    /// The claimed boots of the end with the smaller id and of the other.
    boots: [u64; 2],
    /// Since when no message has come through from the end with the smaller id, and from the other.
    silent: [Option<Duration>; 2],
}

impl Connection {
    /// The boot that `id` claims on its link to `other`.
    pub(super) fn boot_of(&self, id: Id, other: Id) -> u64 {
        self.boots[usize::from(id > other)]
    }
}

impl Network {
    /// A local network: 50 µs to 500 µs one way, nothing lost.
    pub fn local() -> Self {
        Self::new(Duration::from_micros(50), Duration::from_micros(500), 0)
    }

    /// A network with latencies between these two, all equally likely, and this loss.
    pub fn new(latency_min: Duration, latency_max: Duration, loss_per_million: u32) -> Self {
        let micros = |length: Duration| u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Self::with(Conditions {
            latency: Latency::Uniform {
                min_us: micros(latency_min),
                max_us: micros(latency_max),
            },
            loss_per_million,
            duplicated_per_million: 0,
            reordered_per_million: 0,
        })
    }

    /// A network with these conditions.
    pub const fn with(conditions: Conditions) -> Self {
        Self {
            latency: conditions.latency,
            loss_per_million: conditions.loss_per_million,
            duplicated_per_million: conditions.duplicated_per_million,
            reordered_per_million: conditions.reordered_per_million,
            idle_timeout: Duration::from_secs(10),
            spell: None,
            cuts: BTreeMap::new(),
            partition: None,
            slow: BTreeMap::new(),
            connections: BTreeMap::new(),
            number: 0,
        }
    }

    /// Lose all messages from `from` to `to`, until mended.
    pub fn cut(&mut self, from: Id, to: Id) {
        self.cut_until(from, to, FOREVER);
    }

    /// Lose all messages from `from` to `to` before `until`.
    pub fn cut_until(&mut self, from: Id, to: Id, until: Duration) {
        let end = self.cuts.entry((from, to)).or_default();
        *end = until.max(*end);
    }

    /// Lose all messages between different groups before `until`. The peers in no group form a
    /// group together. A newer partition replaces an older one.
    pub fn partition_until(&mut self, groups: &[Vec<Id>], until: Duration) {
        let numbered = groups.iter().zip(1..);
        let members =
            numbered.flat_map(|(group, number)| group.iter().map(move |id| (*id, number)));
        self.partition = Some((members.collect(), until));
    }

    /// Delay messages between `a` and `b` by `extra` before `until`.
    pub fn slow_until(&mut self, a: Id, b: Id, extra: Duration, until: Duration) {
        self.slow.insert((a.min(b), a.max(b)), (extra, until));
    }

    /// Change the conditions from now until `until`. Newer conditions replace these.
    pub const fn spell_until(&mut self, conditions: Conditions, until: Duration) {
        self.spell = Some((conditions, until));
    }

    /// Mend cuts and partitions, and end slow links and changed conditions.
    pub fn mend(&mut self) {
        self.cuts.clear();
        self.partition = None;
        self.slow.clear();
        self.spell = None;
    }

    /// Whether messages from `from` to `to` are lost now.
    pub fn is_cut(&self, now: Duration, from: Id, to: Id) -> bool {
        let cut = || self.cuts.get(&(from, to)).is_some_and(|until| *until > now);
        let is_parted = || {
            let current = self.partition.as_ref().filter(|(_, until)| *until > now);
            let group = |of: &BTreeMap<Id, usize>, id| of.get(&id).copied().unwrap_or(0);
            current.is_some_and(|(of, _)| group(of, from) != group(of, to))
        };
        (!self.cuts.is_empty() && cut()) || is_parted()
    }

    /// The conditions at this time.
    pub(super) fn conditions(&self, now: Duration) -> Conditions {
        let spell = self.spell.filter(|(_, until)| *until > now);
        spell.map_or(
            Conditions {
                latency: self.latency,
                loss_per_million: self.loss_per_million,
                duplicated_per_million: self.duplicated_per_million,
                reordered_per_million: self.reordered_per_million,
            },
            |(conditions, _)| conditions,
        )
    }

    /// The delay that a slow link adds to the latency.
    pub(super) fn extra(&self, now: Duration, a: Id, b: Id) -> Duration {
        if self.slow.is_empty() {
            return Duration::ZERO;
        }
        let slow = self.slow.get(&(a.min(b), a.max(b)));
        let current = slow.filter(|(_, until)| *until > now);
        current.map_or(Duration::ZERO, |(extra, _)| *extra)
    }

    /// The link between two peers.
    pub(super) fn connection(&self, a: Id, b: Id) -> Option<Connection> {
        self.connections.get(&(a.min(b), a.max(b))).copied()
    }

    /// Note a new link between two peers with the boots that they claim.
    pub(super) fn connect(&mut self, one: Life, other: Life, up: Duration) -> Connection {
        let (a, b) = (one.id, other.id);
        self.number += 1;
        let number = self.number;
        let boots = if a < b {
            [one.boot, other.boot]
        } else {
            [other.boot, one.boot]
        };
        let connection = Connection {
            number,
            up,
            boots,
            silent: [None; 2],
        };
        self.connections.insert((a.min(b), a.max(b)), connection);
        connection
    }

    /// Break the link with this number, if it still exists.
    pub(super) fn disconnect(&mut self, a: Id, b: Id, number: u64) -> bool {
        let pair = (a.min(b), a.max(b));
        let is_same = (self.connections.get(&pair)).is_some_and(|link| link.number == number);
        is_same && self.connections.remove(&pair).is_some()
    }

    /// Note that a message from `from` came through, or since when none does. Returns true when the
    /// silence begins.
    pub(super) fn note(&mut self, from: Id, to: Id, silent_at: Option<Duration>) -> bool {
        let Some(link) = self.connections.get_mut(&(from.min(to), from.max(to))) else {
            return false;
        };
        let silent = &mut link.silent[usize::from(from > to)];
        let begins = silent.is_none() && silent_at.is_some();
        *silent = silent_at.map(|at| silent.unwrap_or(at));
        begins
    }

    /// Whether, on the link with this number, no message from `from` has come through since
    /// `since`.
    pub(super) fn is_silent(&self, from: Id, to: Id, number: u64, since: Duration) -> bool {
        let link = self.connection(from, to);
        let link = link.filter(|link| link.number == number);
        link.is_some_and(|link| link.silent[usize::from(from > to)] == Some(since))
    }

    /// The links of a peer, each with the peer at its other end.
    pub(super) fn links_of(&self, id: Id) -> Vec<(Id, Connection)> {
        let all = self.connections.iter();
        all.filter_map(|(&(a, b), connection)| match id {
            _ if a == id => Some((b, *connection)),
            _ if b == id => Some((a, *connection)),
            _ => None,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_stay_within_their_bounds() {
        let uniform = Latency::Uniform {
            min_us: 50,
            max_us: 500,
        };
        let tail = Latency::LongTail {
            min_us: 100,
            max_us: 50_000,
        };
        let us = Duration::from_micros;
        assert_eq!(uniform.draw(0), us(50));
        assert!(uniform.draw(u64::MAX) <= us(500) && uniform.draw(u64::MAX) > us(499));
        assert_eq!(tail.draw(0), us(100));
        assert!(tail.draw(u64::MAX / 2) < us(201));
        assert!(tail.draw(u64::MAX / 100 * 99) > us(8_000));
        assert!(tail.draw(u64::MAX) <= us(50_000));
    }

    #[test]
    fn cuts_and_partitions_end() {
        let mut network = Network::local();
        let second = Duration::from_secs(1);
        network.cut_until(1, 2, second);
        network.partition_until(&[vec![3], vec![4, 5]], second * 2);
        let is_cut = |network: &Network, at, a, b| network.is_cut(at, a, b);
        assert!(is_cut(&network, Duration::ZERO, 1, 2));
        assert!(!is_cut(&network, Duration::ZERO, 2, 1), "one way only");
        assert!(!is_cut(&network, second, 1, 2));
        assert!(is_cut(&network, second, 3, 4) && is_cut(&network, second, 4, 1));
        assert!(!is_cut(&network, second, 4, 5) && !is_cut(&network, second, 1, 2));
        assert!(!is_cut(&network, second * 2, 3, 4));
        network.cut(1, 2);
        network.cut_until(1, 2, second);
        assert!(is_cut(&network, second * 9, 1, 2), "the longer cut stays");
        network.mend();
        assert!(!is_cut(&network, second, 1, 2) && !is_cut(&network, second, 3, 4));
    }
}
