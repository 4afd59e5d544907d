//! How much is on its way to each peer, and what waits until some of it is answered.
//!
//! A copy is on its way until its delegate answers it, or nobody wants an answer any more.
//! Beyond a peer's window further first copies wait here, in order: so a slow or dead peer
//! holds back its own copies alone, and what is queued for it is bounded. What was sent, or
//! should have been, and got no answer in time is sent again whatever is on its way, so
//! that a lost frame takes nobody's turn for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use binomesh_overlay::Id;

use super::super::duty::Duty;
use super::Config;

/// How many copies wait for one peer at most; of more none waits. A guess: more than a
/// full window of an origin's packets.
const MAX_WAITING: usize = 4096;

/// The copy of a delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::relay::custody) struct Copied {
    pub(in crate::relay::custody) duty: u64,
    pub(in crate::relay::custody) delegation: u64,
    /// How many bytes of payload it has.
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
    /// All of them together.
    bytes: u64,
    waiting: VecDeque<Copied>,
    /// How many answers there were.
    answers: u64,
}

impl Edge {
    /// One copy always fits.
    fn has_room(&self, bytes: usize, config: &Config) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes as u64) <= config.peer_window
    }

    fn send(&mut self, delegation: u64, bytes: usize) {
        let before = self.on_its_way.insert(delegation, bytes as u64);
        self.bytes += bytes as u64;
        self.bytes -= before.unwrap_or(0);
    }
}

/// All edges with something on its way; at most `config.max_peers`, further ones have
/// no window.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flow<I> {
    edges: BTreeMap<I, Edge>,
    /// Peers for which something waits and something has been answered.
    freed: BTreeSet<I>,
}

impl<I: Id> Flow<I> {
    pub(super) const fn new() -> Self {
        Self {
            edges: BTreeMap::new(),
            freed: BTreeSet::new(),
        }
    }

    /// What a copy of so many bytes takes that is on its way to a peer, with all that
    /// may be in front of it.
    pub(super) fn transfer(&self, peer: I, bytes: usize, config: &Config) -> Duration {
        let own = bytes as u64;
        let all = self.edges.get(&peer).map_or(own, |edge| edge.bytes);
        let in_front = time(all.saturating_sub(own), config).min(config.custody_cap);
        time(own, config).saturating_add(in_front)
    }

    /// Whether a first copy can go to `peer` now, and then it is on its way. If not it
    /// waits.
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

    /// A copy goes to `peer` in any case.
    pub(super) fn force(&mut self, peer: I, copy: Copied, config: &Config) {
        if let Some(edge) = self.edge(peer, config) {
            edge.send(copy.delegation, copy.bytes);
        }
    }

    /// A peer to whom more may go.
    pub(super) fn pop_freed(&mut self) -> Option<I> {
        self.freed.pop_first()
    }

    /// The copy that waits first, and whether there is room for it.
    pub(super) fn front(&self, peer: I, config: &Config) -> Option<(Copied, bool)> {
        let edge = self.edges.get(&peer)?;
        let copy = *edge.waiting.front()?;
        Some((copy, edge.has_room(copy.bytes, config)))
    }

    /// The copy that waits first waits no more.
    pub(super) fn pop_front(&mut self, peer: I) {
        self.change(peer, |edge| _ = edge.waiting.pop_front());
    }

    /// The copy of this delegation has been answered, or no answer is wanted any more.
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

    /// How often this peer has answered while something waited for it.
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

/// What so many bytes take on a link.
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
    fn what_is_on_its_way_takes_its_time() {
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
        // A peer that answers nothing is not waited for much longer than others.
        (10..110).for_each(|number| flow.force(1, copy(number, 500), &config));
        let longest = second / 2 + config.custody_cap;
        assert_eq!(flow.transfer(1, 500, &config), longest);
    }

    #[test]
    fn no_more_than_the_bound_wait_for_a_peer() {
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
