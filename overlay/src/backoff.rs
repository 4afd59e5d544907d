//! How long a process waits before it applies its spontaneous rules again.
//!
//! Purely local: the wait doubles up to a maximum while nothing changes, and falls back to the
//! minimum when the process's own state changes. The rules are repeated for ever, which makes the
//! algorithms self-stabilizing: a process may start in a state that looks finished and is wrong.
//!
//! Departure: [BMG09] §4 lets a process fall quiet for good once its ring
//! neighbours and first fingers are *set*; set is not *right*, and from N = 13
//! on no arbitrary state recovers that way.
//!
//! Waits are counted in ticks, and the host decides how long a tick lasts. A tick should be long
//! compared with the time in which an inbox drains.

use crate::planted::{Bug, Planted};

/// The shortest and the longest wait, in ticks, before the seed shortens each wait by up to half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BackoffLimits {
    /// The wait after a change; taken as 1 if it is 0.
    pub minimum: u32,
    /// The wait up to which waits double while nothing changes; taken as the minimum if it is less.
    pub maximum: u32,
}

impl Default for BackoffLimits {
    /// The default is for the arena, where a tick is a phase; a node computes its limits from its
    /// pace. Arbitrary states with 3 garbage messages per process recover within 20 phases for N =
    /// 32 on trees of logarithmic depth, whatever the maximum. The maximum decides what a quiet
    /// process costs: 64 costs 0.23 messages per phase, 128 costs 0.11.
    fn default() -> Self {
        Self {
            minimum: 1,
            maximum: 128,
        }
    }
}

/// The back-off of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Backoff {
    /// Varies the waits of this process, so that processes do not fire together.
    seed: u16,
    /// Whether a planted bug has stopped the repetition for good.
    is_stopped: bool,
    interval: u32,
    remaining: u32,
}

impl Backoff {
    /// A back-off that is due at the first tick. Processes with different seeds
    /// then drift apart instead of firing all at once.
    pub const fn new(seed: u16) -> Self {
        Self {
            seed,
            is_stopped: false,
            interval: 0,
            remaining: 1,
        }
    }

    /// A back-off in an arbitrary state, as memory corruption may leave it.
    pub const fn corrupted(seed: u16, interval: u32, remaining: u32) -> Self {
        Self {
            seed,
            is_stopped: false,
            interval,
            remaining,
        }
    }

    /// Count one tick. Returns whether the spontaneous rules are due now.
    pub fn tick(&mut self, limits: BackoffLimits, planted: Planted) -> bool {
        // A corrupted timer must not outlast the maximum.
        let longest = limits.maximum.max(limits.minimum).max(1);
        self.remaining = self.remaining.min(longest).saturating_sub(1);
        if self.remaining > 0 {
            return false;
        }
        self.fire(limits, planted)
    }

    /// Fire now, whatever the wait. Returns `false` only if a planted bug forbids it.
    pub fn fire(&mut self, limits: BackoffLimits, planted: Planted) -> bool {
        if self.is_stopped && planted.has(Bug::MissingRefresh) {
            return false;
        }
        self.is_stopped = planted.has(Bug::MissingRefresh);
        let longest = limits.maximum.max(limits.minimum).max(1);
        let doubled = self.interval.saturating_mul(2);
        self.interval = doubled.clamp(limits.minimum.max(1), longest);
        self.remaining = self.jittered();
        true
    }

    /// The process's own state changed: fire again soon.
    pub fn reset(&mut self, limits: BackoffLimits) {
        self.interval = limits.minimum.max(1);
        self.remaining = self.remaining.min(self.jittered());
    }

    /// How many ticks are left until the rules are due.
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The interval, shortened by up to half according to the seed.
    fn jittered(&self) -> u32 {
        self.interval - u32::from(self.seed) % (self.interval / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BackoffLimits = BackoffLimits {
        minimum: 2,
        maximum: 16,
    };

    fn ticks_until_due(backoff: &mut Backoff) -> u32 {
        (1..=1000)
            .find(|_| backoff.tick(LIMITS, Planted::default()))
            .expect("a back-off is never off")
    }

    #[test]
    fn waits_double_up_to_the_maximum_and_never_end() {
        let mut backoff = Backoff::new(0);
        let waits: Vec<_> = (0..8).map(|_| ticks_until_due(&mut backoff)).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 16, 16, 16]);
    }

    #[test]
    fn a_change_brings_the_minimum_back_and_never_delays() {
        let mut backoff = Backoff::new(0);
        for _ in 0..6 {
            ticks_until_due(&mut backoff);
        }
        backoff.reset(LIMITS);
        assert_eq!(backoff.remaining(), 2);
        assert!(!backoff.tick(LIMITS, Planted::default()));
        // A process whose state changes at every tick still fires.
        backoff.reset(LIMITS);
        assert_eq!(ticks_until_due(&mut backoff), 1);
    }

    #[test]
    fn jitter_shortens_a_wait_by_at_most_half() {
        for seed in 0..200 {
            let mut backoff = Backoff::new(seed);
            for expected in [1, 2, 4, 8, 16, 16] {
                let wait = ticks_until_due(&mut backoff);
                assert!(wait <= expected && wait * 2 >= expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_corrupted_timer_fires_within_the_maximum() {
        for interval in [0, 1, 7, u32::MAX] {
            for remaining in [0, 1, 7, u32::MAX] {
                let mut backoff = Backoff::corrupted(3, interval, remaining);
                assert!(ticks_until_due(&mut backoff) <= LIMITS.maximum);
                assert!(ticks_until_due(&mut backoff) <= LIMITS.maximum);
            }
        }
    }

    #[test]
    #[cfg(feature = "planted")]
    fn planted_missing_refresh_fires_once() {
        let planted = Planted::new(Bug::MissingRefresh);
        let mut backoff = Backoff::new(0);
        let fired = (0..1000).filter(|_| backoff.tick(LIMITS, planted)).count();
        assert_eq!(fired, 1);
    }
}
