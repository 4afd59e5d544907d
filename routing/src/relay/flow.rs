//! How much is on its way to each peer, and what waits until some of it has arrived.
//!
//! A copy counts as on its way until its delegate answers; an answer says that all that
//! was sent before has arrived too. Beyond a peer's window further copies wait here, in
//! order: so a slow or dead peer holds back its own copies alone, and what is queued for
//! it is bounded. What was sent and got no answer in time is sent again whatever is on
//! its way, so that frames lost with a link take nobody's turn for ever.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use binomesh_overlay::Id;

use super::Config;

/// How many copies wait for one peer at most; of more none waits. A guess: more than a
/// full window of an origin's packets.
const MAX_WAITING: usize = 4096;

/// A copy that waits: duty, delegation, bytes.
type Waiting = (u64, u64, usize);

/// The way to one peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Edge {
    /// Bytes sent so far.
    sent: u64,
    /// How many of these have arrived.
    arrived: u64,
    waiting: VecDeque<Waiting>,
}

impl Edge {
    fn on_its_way(&self) -> u64 {
        self.sent - self.arrived
    }

    /// One copy always fits.
    fn has_room(&self, bytes: usize, config: &Config) -> bool {
        let on_its_way = self.on_its_way();
        on_its_way == 0 || on_its_way.saturating_add(bytes as u64) <= config.peer_window
    }

    fn send(&mut self, bytes: usize) -> u64 {
        self.sent = self.sent.saturating_add(bytes as u64);
        self.sent
    }
}

/// All edges with something on its way; at most `config.max_peers`, further ones have
/// no window.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flow<I> {
    edges: BTreeMap<I, Edge>,
}

impl<I: Id> Flow<I> {
    pub(super) const fn new() -> Self {
        Self {
            edges: BTreeMap::new(),
        }
    }

    /// What a copy of so many bytes takes that was sent last.
    pub(super) fn transfer(&self, peer: I, bytes: usize, config: &Config) -> Duration {
        let rate = u64::from(config.custody_bytes_per_second);
        if rate == 0 {
            return Duration::ZERO;
        }
        let time = |bytes: u64| Duration::from_micros(bytes.saturating_mul(1_000_000) / rate);
        let own = bytes as u64;
        let edge = self.edges.get(&peer);
        let all = edge.map_or(own, Edge::on_its_way);
        let in_front = time(all.saturating_sub(own)).min(config.custody_cap);
        time(own).saturating_add(in_front)
    }

    /// Whether a copy can go to `peer` now: its mark, for the answer. If not it waits,
    /// and [`Self::next`] gives it back.
    pub(super) fn admit(&mut self, peer: I, copy: Waiting, config: &Config) -> Option<u64> {
        let Some(edge) = self.edge(peer, config) else {
            return Some(0);
        };
        let bytes = copy.2;
        let is_next = edge.waiting.is_empty() && edge.has_room(bytes, config);
        if is_next || edge.waiting.len() >= MAX_WAITING {
            return Some(edge.send(bytes));
        }
        edge.waiting.push_back(copy);
        None
    }

    /// A copy goes to `peer` in any case. Returns its mark.
    pub(super) fn force(&mut self, peer: I, bytes: usize, config: &Config) -> u64 {
        self.edge(peer, config).map_or(0, |edge| edge.send(bytes))
    }

    /// The next copy that need not wait any more, and its mark. It may be wanted no
    /// longer, and then should be answered at once.
    pub(super) fn next(&mut self, peer: I, config: &Config) -> Option<(Waiting, u64)> {
        let edge = self.edges.get_mut(&peer)?;
        let copy = *edge.waiting.front()?;
        if !edge.has_room(copy.2, config) {
            return None;
        }
        edge.waiting.pop_front();
        Some((copy, edge.send(copy.2)))
    }

    /// The copy popped last is not sent.
    pub(super) fn take_back(&mut self, peer: I, bytes: usize) {
        self.change(peer, |edge| {
            edge.sent = edge.sent.saturating_sub(bytes as u64).max(edge.arrived);
        });
    }

    /// The copy with this mark has been answered.
    pub(super) fn on_answer(&mut self, peer: I, mark: u64) {
        self.change(peer, |edge| {
            edge.arrived = edge.arrived.max(mark).min(edge.sent);
        });
    }

    /// How many bytes have arrived at this peer; 0 if nothing is on its way.
    pub(super) fn arrived(&self, peer: I) -> u64 {
        self.edges.get(&peer).map_or(0, |edge| edge.arrived)
    }

    /// What was on its way is lost, or there.
    pub(super) fn on_link(&mut self, peer: I) {
        self.change(peer, |edge| edge.arrived = edge.sent);
    }

    /// Nothing goes to this peer any more.
    pub(super) fn forget(&mut self, peer: I) {
        self.edges.remove(&peer);
    }

    fn edge(&mut self, peer: I, config: &Config) -> Option<&mut Edge> {
        let is_counted = config.custody_bytes_per_second > 0
            && (self.edges.len() < config.max_peers || self.edges.contains_key(&peer));
        is_counted.then(|| self.edges.entry(peer).or_default())
    }

    fn change(&mut self, peer: I, change: impl FnOnce(&mut Edge)) {
        if let Some(edge) = self.edges.get_mut(&peer) {
            change(edge);
            if edge.on_its_way() == 0 && edge.waiting.is_empty() {
                self.edges.remove(&peer);
            }
        }
    }
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

    #[test]
    fn what_is_on_its_way_takes_its_time() {
        let (config, second) = (config(), Duration::from_secs(1));
        let mut flow = Flow::new();
        let marks: Vec<_> = (0..3)
            .map(|n| flow.admit(1u32, (n, 0, 500), &config))
            .collect();
        assert_eq!(marks, [Some(500), Some(1000), None]);
        assert_eq!(flow.transfer(1, 500, &config), second);
        assert_eq!(flow.transfer(2, 500, &config), second / 2);
        flow.on_answer(1, 1000);
        flow.on_answer(1, 500);
        assert_eq!(flow.transfer(1, 500, &config), second / 2);
        // A peer that answers nothing is not waited for much longer than others.
        (0..100).for_each(|_| assert!(flow.force(1, 500, &config) > 0));
        let longest = second / 2 + config.custody_cap;
        assert_eq!(flow.transfer(1, 500, &config), longest);
        flow.forget(1);
        assert!(flow.edges.is_empty());
    }

    #[test]
    fn no_more_than_the_bound_wait_for_a_peer() {
        let config = config();
        let mut flow = Flow::new();
        flow.force(1u32, 1000, &config);
        for number in 0..MAX_WAITING as u64 {
            assert_eq!(flow.admit(1, (number, 0, 500), &config), None);
        }
        assert!(flow.admit(1, (0, 0, 500), &config).is_some());
    }

    #[test]
    fn beyond_the_window_copies_wait_in_order_and_one_always_fits() {
        let config = config();
        let mut flow = Flow::new();
        assert_eq!(flow.admit(1u32, (1, 0, 5000), &config), Some(5000));
        for number in 2..5 {
            assert_eq!(flow.admit(1, (number, 0, 600), &config), None);
        }
        assert_eq!(flow.next(1, &config), None);
        assert_eq!(
            flow.admit(2, (9, 0, 600), &config),
            Some(600),
            "another peer"
        );
        flow.on_answer(1, 5000);
        assert_eq!(flow.next(1, &config), Some(((2, 0, 600), 5600)));
        assert_eq!(flow.next(1, &config), None);
        flow.take_back(1, 600);
        assert_eq!(flow.next(1, &config), Some(((3, 0, 600), 5600)));
        flow.on_link(1);
        assert_eq!(flow.next(1, &config), Some(((4, 0, 600), 6200)));
        // An answer to the last says that all before it arrived.
        let last = flow.force(1, 5000, &config);
        flow.on_answer(1, last);
        assert_eq!(flow.edges.keys().collect::<Vec<_>>(), [&2]);
    }
}
