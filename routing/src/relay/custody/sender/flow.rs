//! The copies on their way to each peer, and those that wait until some are answered.
//!
//! A copy is on its way until its delegate answers it, or its answer is not wanted any more. Beyond
//! a peer's window further first copies wait here, in order. So a slow or dead peer holds back its
//! own copies alone, and its queue is bounded. A copy that has to be sent again goes even beyond
//! the window, so that a lost frame blocks no queue for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use binomesh_overlay::Id;

use super::super::duty::Duty;
use super::Config;

/// How many copies wait for one peer at most; a further copy is sent at once. A guess: more than a
/// full window of an origin's packets.
const MAX_WAITING: usize = 4096;

/// The copy of a delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::relay::custody) struct Copied {
    pub(in crate::relay::custody) duty: u64,
    pub(in crate::relay::custody) delegation: u64,
    /// The bytes of its payload.
    pub(in crate::relay::custody) bytes: usize,
}

impl Copied {
    pub(super) fn of<I: Id>(duty: &Duty<I>, delegation: u64) -> Self {
        Self {
            duty: duty.number,
            delegation,
            bytes: duty.payloads.len(),
        }
    }
}

/// The way to one peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Edge {
    /// Bytes of the delegations whose copies are on their way.
    on_its_way: BTreeMap<u64, u64>,
    /// The sum of these bytes.
    bytes: u64,
    waiting: VecDeque<Copied>,
    /// How many of its copies were answered or given up.
    answers: u64,
}

impl Edge {
    /// Whether a copy of this size fits into the window. If no copy is on its way, one always fits.
    fn has_room(&self, bytes: usize, config: &Config) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes as u64) <= config.peer_window
    }

    fn send(&mut self, delegation: u64, bytes: usize) {
        let before = self.on_its_way.insert(delegation, bytes as u64);
        self.bytes += bytes as u64;
        self.bytes -= before.unwrap_or(0);
    }
}

/// The ways to all peers with a copy on its way or waiting; at most `config.max_peers`. Further
/// peers have no window. This is the account only: [`super::Sender`] sends the copies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flow<I> {
    edges: BTreeMap<I, Edge>,
    /// Peers with a waiting copy that have answered another one.
    freed: BTreeSet<I>,
}

impl<I: Id> Flow<I> {
    pub(super) const fn new() -> Self {
        Self {
            edges: BTreeMap::new(),
            freed: BTreeSet::new(),
        }
    }

    /// How long a copy of this size takes to its peer, with the copies in front of it. The copy
    /// itself is on its way already.
    pub(super) fn transfer(&self, peer: I, bytes: usize, config: &Config) -> Duration {
        let own = bytes as u64;
        let all = self.edges.get(&peer).map_or(own, |edge| edge.bytes);
        let in_front = time(all.saturating_sub(own), config).min(Config::CUSTODY_CAP);
        time(own, config).saturating_add(in_front)
    }

    /// Count a first copy to `peer` as on its way if there is room, or let it wait. Returns whether
    /// the copy is to be sent now.
    pub(super) fn admit(&mut self, peer: I, copy: Copied, config: &Config) -> bool {
        let Some(edge) = self.edge(peer, config) else {
            return true;
        };
        let Copied {
            delegation, bytes, ..
        } = copy;
        let is_next = edge.waiting.is_empty() && edge.has_room(bytes, config);
        let goes = is_next || edge.waiting.len() >= MAX_WAITING;
        if goes {
            edge.send(delegation, bytes);
        } else {
            edge.waiting.push_back(copy);
        }
        goes
    }

    /// Count a copy to `peer` as on its way, whether or not there is room.
    pub(super) fn force(&mut self, peer: I, copy: Copied, config: &Config) {
        if let Some(edge) = self.edge(peer, config) {
            edge.send(copy.delegation, copy.bytes);
        }
    }

    /// A peer to which further copies may go.
    pub(super) fn pop_freed(&mut self) -> Option<I> {
        self.freed.pop_first()
    }

    /// The first waiting copy for a peer, and whether there is room for it.
    pub(super) fn front(&self, peer: I, config: &Config) -> Option<(Copied, bool)> {
        let edge = self.edges.get(&peer)?;
        let copy = *edge.waiting.front()?;
        Some((copy, edge.has_room(copy.bytes, config)))
    }

    /// Remove the first waiting copy for a peer.
    pub(super) fn pop_front(&mut self, peer: I) {
        self.change(peer, |edge| _ = edge.waiting.pop_front());
    }

    /// The copy of this delegation has been answered, or its answer is not wanted any more.
    pub(super) fn on_answer(&mut self, peer: I, delegation: u64) {
        let mut waits = false;
        self.change(peer, |edge| {
            if let Some(bytes) = edge.on_its_way.remove(&delegation) {
                edge.bytes -= bytes;
                edge.answers += 1;
                waits = !edge.waiting.is_empty();
            }
        });
        if waits {
            self.freed.insert(peer);
        }
    }

    /// How many bytes are on their way to a peer.
    pub(super) fn bytes(&self, peer: I) -> u64 {
        self.edges.get(&peer).map_or(0, |edge| edge.bytes)
    }

    /// How many copies to this peer were answered or given up since it last had none on its way and
    /// none waiting.
    pub(super) fn answers(&self, peer: I) -> u64 {
        self.edges.get(&peer).map_or(0, |edge| edge.answers)
    }

    fn edge(&mut self, peer: I, config: &Config) -> Option<&mut Edge> {
        let is_counted = config.custody_bytes_per_second > 0
            && (self.edges.len() < config.max_peers || self.edges.contains_key(&peer));
        is_counted.then(|| self.edges.entry(peer).or_default())
    }

    fn change(&mut self, peer: I, change: impl FnOnce(&mut Edge)) {
        if let Some(edge) = self.edges.get_mut(&peer) {
            change(edge);
            if edge.on_its_way.is_empty() && edge.waiting.is_empty() {
                self.edges.remove(&peer);
            }
        }
    }
}

/// The transfer time of this many bytes at `custody_bytes_per_second`.
fn time(bytes: u64, config: &Config) -> Duration {
    let micros = bytes.saturating_mul(1_000_000);
    let rate = u64::from(config.custody_bytes_per_second);
    micros
        .checked_div(rate)
        .map_or(Duration::ZERO, Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            custody_bytes_per_second: 1000,
            peer_window: 1000,
            ..Config::default()
        }
    }

    fn copy(delegation: u64, bytes: usize) -> Copied {
        Copied {
            duty: 1,
            delegation,
            bytes,
        }
    }

    #[test]
    fn the_wait_grows_with_the_copies_on_their_way() {
        let (config, second) = (config(), Duration::from_secs(1));
        let mut flow = Flow::new();
        let goes: Vec<bool> = (0..3)
            .map(|n| flow.admit(1u32, copy(n, 500), &config))
            .collect();
        assert_eq!(goes, [true, true, false]);
        assert_eq!(flow.transfer(1, 500, &config), second);
        assert_eq!(flow.transfer(2, 500, &config), second / 2, "another peer");
        flow.force(1, copy(1, 500), &config);
        assert_eq!(flow.transfer(1, 500, &config), second, "the same again");
        flow.on_answer(1, 1);
        flow.on_answer(1, 1);
        assert_eq!(flow.transfer(1, 500, &config), second / 2);
        // The wait for a peer that answers nothing has a bound.
        (10..110).for_each(|number| flow.force(1, copy(number, 500), &config));
        let longest = second / 2 + Config::CUSTODY_CAP;
        assert_eq!(flow.transfer(1, 500, &config), longest);
    }

    #[test]
    fn the_copies_that_wait_for_a_peer_are_bounded() {
        let config = config();
        let mut flow = Flow::new();
        flow.force(1u32, copy(0, 1000), &config);
        for number in 0..MAX_WAITING as u64 {
            assert!(!flow.admit(1, copy(number + 1, 500), &config));
        }
        assert!(flow.admit(1, copy(9999, 500), &config));
    }

    #[test]
    fn peers_beyond_the_bound_have_no_window() {
        let config = Config {
            max_peers: 1,
            ..config()
        };
        let mut flow = Flow::new();
        assert!(flow.admit(1u32, copy(1, 1000), &config));
        assert!(!flow.admit(1, copy(2, 1000), &config));
        assert!((3..6).all(|number| flow.admit(2, copy(number, 1000), &config)));
        assert_eq!(flow.edges.len(), 1);
    }

    #[test]
    fn beyond_the_window_copies_wait_in_order_and_one_always_fits() {
        let config = config();
        let mut flow = Flow::new();
        assert!(flow.admit(1u32, copy(1, 5000), &config));
        for number in 2..5 {
            assert!(!flow.admit(1, copy(number, 600), &config));
        }
        assert_eq!(flow.front(1, &config), Some((copy(2, 600), false)));
        assert!(flow.admit(2, copy(9, 600), &config), "another peer");
        flow.on_answer(1, 9);
        assert_eq!(flow.pop_freed(), None, "nothing of its own was answered");
        flow.on_answer(1, 1);
        assert_eq!(flow.pop_freed(), Some(1));
        assert_eq!((flow.pop_freed(), flow.answers(1)), (None, 1));
        assert_eq!(flow.front(1, &config), Some((copy(2, 600), true)));
        flow.pop_front(1);
        flow.force(1, copy(2, 600), &config);
        assert_eq!(flow.front(1, &config), Some((copy(3, 600), false)));
        flow.pop_front(1);
        flow.pop_front(1);
        flow.on_answer(1, 2);
        assert_eq!(flow.edges.keys().collect::<Vec<_>>(), [&2]);
    }
}
