//! The network of a world: latency, loss, cuts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::Rng;

use super::Id;

/// How messages travel. Between two peers they keep their order, as in a stream;
/// a lost one is simply gone, which is harsher than QUIC while a link lives.
pub struct Network {
    /// The shortest time a message takes.
    pub latency_min: Duration,
    /// The longest; uniform in between.
    pub latency_max: Duration,
    /// How many of a million messages are lost.
    pub loss_per_million: u32,
    /// How long a link outlives its silent peer.
    pub idle_timeout: Duration,
    links: BTreeSet<(Id, Id)>,
    cuts: BTreeSet<(Id, Id)>,
    last: BTreeMap<(Id, Id), Duration>,
}

impl Network {
    /// A local network: 50 µs to 500 µs one way, nothing lost.
    pub fn local() -> Self {
        Self::new(Duration::from_micros(50), Duration::from_micros(500), 0)
    }

    /// A network with these latencies and this loss.
    pub const fn new(latency_min: Duration, latency_max: Duration, loss_per_million: u32) -> Self {
        Self {
            latency_min,
            latency_max,
            loss_per_million,
            idle_timeout: Duration::from_secs(10),
            links: BTreeSet::new(),
            cuts: BTreeSet::new(),
            last: BTreeMap::new(),
        }
    }

    /// Lose everything that `from` sends to `to`, until mended.
    pub fn cut(&mut self, from: Id, to: Id) {
        self.cuts.insert((from, to));
    }

    /// Mend all cuts.
    pub fn mend(&mut self) {
        self.cuts.clear();
    }

    pub(super) fn latency(&self, rng: &mut impl Rng) -> Duration {
        rng.random_range(self.latency_min..=self.latency_max)
    }

    /// When a message sent now arrives: behind those sent before it.
    pub(super) fn arrival(
        &mut self,
        now: Duration,
        from: Id,
        to: Id,
        rng: &mut impl Rng,
    ) -> Duration {
        let earliest = now + self.latency(rng);
        let last = self.last.entry((from, to)).or_default();
        *last = earliest.max(*last);
        *last
    }

    pub(super) fn loses(&self, from: Id, to: Id, rng: &mut impl Rng) -> bool {
        let is_lost =
            self.loss_per_million > 0 && rng.random_range(0..1_000_000) < self.loss_per_million;
        is_lost || self.cuts.contains(&(from, to))
    }

    /// Note a link; false if it was there or is cut.
    pub(super) fn connect(&mut self, from: Id, to: Id) -> bool {
        let is_cut = self.cuts.contains(&(from, to)) || self.cuts.contains(&(to, from));
        !is_cut && self.links.insert((from.min(to), from.max(to)))
    }

    /// Break all links of a process; returns the other ends.
    pub(super) fn forget(&mut self, id: Id) -> Vec<Id> {
        let ends = |(a, b): &(Id, Id)| match id {
            _ if *a == id => Some(*b),
            _ if *b == id => Some(*a),
            _ => None,
        };
        let others = self.links.iter().filter_map(ends).collect();
        self.links.retain(|link| ends(link).is_none());
        others
    }
}
