//! Seeded noise for jitter, nonces and random choices.
//!
//! A machine's whole state must be `Eq` and `Hash`, so that a checker sees all of it. A generator
//! with one word of state (SplitMix64) is enough for jitter and nonces. It is not for secrets.

use std::time::Duration;

/// A stream of noise, determined by its seed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Noise(u64);

impl Noise {
    /// The stream for this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True once in `n` draws on average.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// A random element of `choices`; none if there are none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        let count = choices.len().max(1) as u64;
        choices.get((self.next() % count) as usize).copied()
    }

    /// A duration between three quarters and five quarters of `base`, so that
    /// nodes that started together do not stay in step.
    pub fn jitter(&mut self, base: Duration) -> Duration {
        let part = (self.next() % 1024) as u32;
        base * 3 / 4 + base / 2 * part / 1024
    }

    /// A duration within a sixteenth of `base`, for periods that other nodes measure time by.
    pub fn slight_jitter(&mut self, base: Duration) -> Duration {
        base * 3 / 4 + self.jitter(base / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_quarter_and_varies() {
        let mut noise = Noise::new(7);
        let base = Duration::from_millis(100);
        let drawn: Vec<_> = (0..1000).map(|_| noise.jitter(base)).collect();
        assert!(
            drawn
                .iter()
                .all(|d| *d >= base * 3 / 4 && *d <= base * 5 / 4)
        );
        assert!(drawn.iter().min() < drawn.iter().max());
    }
}
