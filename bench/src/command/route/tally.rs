//! Sums over the cases of a study.

use std::time::Duration;

/// The sums. The tallies of chunks may be added in any order.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// The number of packets or broadcasts.
    pub(super) cases: u64,
    /// Hops of every delivery.
    pub(super) hops: Histogram,
    /// Lengths of the shortest paths of all connected pairs, if all unicasts are taken.
    pub(super) shortest: Histogram,
    /// Steps of every broadcast.
    pub(super) steps: Histogram,
    /// How many nodes should be reached, connected or not.
    pub(super) live: u64,
    /// How many of these nodes are connected with the source.
    pub(super) connected: u64,
    /// How many broadcasts reached all live nodes.
    pub(super) complete: u64,
    pub(super) decisions: u64,
    pub(super) deciding: Duration,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.hops.merge(&other.hops);
        self.shortest.merge(&other.shortest);
        self.steps.merge(&other.steps);
        self.live += other.live;
        self.connected += other.connected;
        self.complete += other.complete;
        self.decisions += other.decisions;
        self.deciding += other.deciding;
    }
}

/// How often each number came up.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram(Vec<u64>);

impl Histogram {
    pub(super) fn add(&mut self, value: u32) {
        let at = value as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += 1;
    }

    fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn mean(&self) -> Option<f64> {
        let sum = (0u64..).zip(&self.0).map(|(value, count)| value * count);
        share(sum.sum(), self.count())
    }

    /// The smallest value that is not below this share of all values.
    pub(super) fn quantile(&self, of: f64) -> Option<usize> {
        let wanted = (self.count() as f64 * of).ceil() as u64;
        let mut sum = 0;
        let mut reached = self.0.iter().map(|count| {
            sum += count;
            sum
        });
        reached.position(|sum| sum > 0 && sum >= wanted)
    }

    pub(super) fn most(&self) -> Option<usize> {
        self.0.len().checked_sub(1)
    }
}

/// The part as a share of the whole; none if the whole is 0.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
