//! How long each peer usually takes to give custody.
//!
//! A smoothed custody time would need a clock, which a machine does not have. A machine sees
//! whether custody came before its timer. That is enough to keep the timer just above the usual
//! time: late custody doubles it, and custody in time lowers it by a sixteenth. The host also tells
//! the transport's round-trip times. No peer is late within two of them, or within a quarter of
//! [`Config::CUSTODY_CAP`] if that is less. So a slow network or a busy host costs no second copy.

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh_overlay::Id;

use super::Config;

/// The wait for custody from each peer; peers at the floor are not stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pace<I> {
    waits: BTreeMap<I, Duration>,
    /// The least wait for each peer whose two round trips take longer than the floor.
    least: BTreeMap<I, Duration>,
}

impl<I: Id> Pace<I> {
    pub(super) const fn new() -> Self {
        Self {
            waits: BTreeMap::new(),
            least: BTreeMap::new(),
        }
    }

    /// The wait for custody from `peer` after `doublings` earlier failures.
    pub(super) fn wait(&self, peer: I, doublings: u32) -> Duration {
        let first = self.waits.get(&peer).copied();
        first
            .unwrap_or(Config::CUSTODY_FLOOR)
            .max(self.least.get(&peer).copied().unwrap_or_default())
            .saturating_mul(1 << doublings.min(16))
            .min(Config::CUSTODY_CAP)
    }

    /// Set the round-trip time to `peer`. Beyond [`Config::max_peers`] peers it is not remembered.
    pub(super) fn on_round_trip(&mut self, peer: I, time: Duration, config: &Config) {
        // Stays below the cap, so that doubling has room.
        let least = time.saturating_mul(2).min(Config::CUSTODY_CAP / 4);
        if least <= Config::CUSTODY_FLOOR {
            self.least.remove(&peer);
        } else if self.least.len() < config.max_peers || self.least.contains_key(&peer) {
            self.least.insert(peer, least);
        }
    }

    /// Custody did not come before the first timer, which was armed for `waited`. If many copies
    /// were sent at once and all are late, one counts, since none was given the longer time.
    pub(super) fn on_late(&mut self, peer: I, waited: Duration, config: &Config) {
        if waited < self.wait(peer, 0) {
            return;
        }
        // Stays below the cap, so that doubling still has room.
        let wait = self.wait(peer, 1).min(Config::CUSTODY_CAP / 4);
        if self.waits.len() < config.max_peers || self.waits.contains_key(&peer) {
            self.waits.insert(peer, wait.max(Config::CUSTODY_FLOOR));
        }
    }

    /// Custody came before the first timer.
    pub(super) fn on_time(&mut self, peer: I) {
        if let Some(wait) = self.waits.get_mut(&peer) {
            *wait -= *wait / 16;
            if *wait <= Config::CUSTODY_FLOOR {
                self.waits.remove(&peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_peer_gets_more_time_and_a_fast_one_less() {
        let config = Config::default();
        let mut pace = Pace::new();
        assert_eq!(pace.wait(1u32, 0), Config::CUSTODY_FLOOR);
        let floor = Config::CUSTODY_FLOOR;
        pace.on_late(1, floor, &config);
        (0..9).for_each(|_| pace.on_late(1, floor, &config));
        assert_eq!(pace.wait(1, 0), 2 * floor);
        pace.on_late(1, 2 * floor, &config);
        assert_eq!(pace.wait(1, 0), 4 * Config::CUSTODY_FLOOR);
        assert_eq!(pace.wait(2, 0), Config::CUSTODY_FLOOR);
        (0..100).for_each(|_| pace.on_late(1, Duration::MAX, &config));
        assert_eq!(pace.wait(1, 0), Config::CUSTODY_CAP / 4);
        (0..1000).for_each(|_| pace.on_time(1));
        assert_eq!(pace.wait(1, 0), Config::CUSTODY_FLOOR);
        assert_eq!(pace.wait(1, 40), Config::CUSTODY_CAP);
    }

    #[test]
    fn no_peer_is_late_within_two_round_trips() {
        let config = Config::default();
        let (mut pace, floor) = (Pace::new(), Config::CUSTODY_FLOOR);
        pace.on_round_trip(1u32, floor, &config);
        assert_eq!(pace.wait(1, 0), 2 * floor);
        assert_eq!(pace.wait(1, 1), 4 * floor);
        pace.on_late(1, 2 * floor, &config);
        assert_eq!(pace.wait(1, 0), 4 * floor, "later than that");
        pace.on_round_trip(1, Duration::MAX, &config);
        assert_eq!(pace.wait(1, 0), Config::CUSTODY_CAP / 4);
        pace.on_round_trip(1, floor / 2, &config);
        assert_eq!(pace.wait(1, 0), 4 * floor);
        let all = 0..u32::try_from(config.max_peers).unwrap();
        all.for_each(|peer| pace.on_round_trip(peer, floor, &config));
        pace.on_round_trip(u32::MAX, floor, &config);
        assert_eq!(pace.wait(u32::MAX, 0), floor, "no room");
    }
}
