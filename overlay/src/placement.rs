//! The place of a member: epoch, population and rank, with the arithmetic of the ring.

use serde::{Deserialize, Serialize};

use crate::noise::Noise;

/// The number of members in an epoch: 1 ..= [`Population::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Population(u32);

/// A population of zero or above [`Population::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a population of {0} members is out of range; expected 1 to {max}", max = Population::MAX)]
pub struct InvalidPopulation(pub u32);

impl Population {
    /// The largest population, for which [`MAX_LEVELS`] finger levels suffice.
    pub const MAX: u32 = 1 << MAX_LEVELS;
    /// The population of a lone node.
    pub const ONE: Self = Self(1);

    /// A population of `count` members, if that is possible.
    pub const fn new(count: u32) -> Option<Self> {
        if count >= 1 && count <= Self::MAX {
            Some(Self(count))
        } else {
            None
        }
    }

    /// The number of members.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// How many finger levels there are: ⌈log2 N⌉, the levels i with 2^i < N.
    pub const fn levels(self) -> usize {
        (u32::BITS - (self.0 - 1).leading_zeros()) as usize
    }

    /// Whether level i exists: 2^i < N ([BMG09] §3.4.1).
    pub const fn has_level(self, level: usize) -> bool {
        level < self.levels()
    }
}

impl TryFrom<u32> for Population {
    type Error = InvalidPopulation;

    fn try_from(count: u32) -> Result<Self, Self::Error> {
        Self::new(count).ok_or(InvalidPopulation(count))
    }
}

impl From<Population> for u32 {
    fn from(population: Population) -> Self {
        population.0
    }
}

/// The most finger levels that any epoch has.
pub const MAX_LEVELS: usize = 24;

/// A position in the ring, counted from the root: 0 .. N. A rank that a peer
/// sends is a claim until [`Rank::is_within`] its population.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Rank(pub u32);

impl Rank {
    /// Whether the rank exists in a population.
    pub const fn is_within(self, population: Population) -> bool {
        self.0 < population.0
    }

    /// The rank `distance` places further clockwise (towards successors).
    pub const fn ahead(self, distance: u32, population: Population) -> Self {
        let n = population.0 as u64;
        Self(((self.0 as u64 + distance as u64) % n) as u32)
    }

    /// The rank `distance` places counterclockwise (towards predecessors).
    pub const fn behind(self, distance: u32, population: Population) -> Self {
        let n = population.0 as u64;
        Self(((self.0 as u64 + n - distance as u64 % n) % n) as u32)
    }

    /// Whether this rank lies strictly between two others on the way clockwise from `first` to
    /// `second`. If these are equal, the way is a whole turn.
    pub const fn is_between(self, first: Self, second: Self, population: Population) -> bool {
        let gap = match first.distance_to(second, population) {
            0 => population.0,
            distance => distance,
        };
        let distance = first.distance_to(self, population);
        self.is_within(population) && distance > 0 && distance < gap
    }

    /// How many places clockwise of this rank `other` is: 0 .. N.
    pub const fn distance_to(self, other: Self, population: Population) -> u32 {
        other.behind(self.0, population).0
    }
}

/// The name of one numbering of the members. Compared for equality only: no
/// epoch is newer than another by its number, so no number is unbeatable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch<I> {
    /// The root that named it.
    pub root: I,
    /// The boot of that root.
    pub boot: u64,
    /// The root's own count of epochs.
    pub counter: u64,
    /// Seeded noise, so that a corrupted counter does not repeat a name.
    pub nonce: u64,
}

/// A member's place in one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement<I> {
    /// The epoch of the numbering.
    pub epoch: Epoch<I>,
    /// How many members the epoch has.
    pub population: Population,
    /// The rank of the member.
    pub rank: Rank,
}

impl<I> Epoch<I> {
    /// An arbitrary epoch of this root, as a transient fault may leave it.
    pub(crate) fn scrambled(noise: &mut Noise, root: I) -> Self {
        let (boot, counter, nonce) = (noise.next() % 3, noise.next() % 3, noise.next() % 3);
        Self {
            root,
            boot,
            counter,
            nonce,
        }
    }
}

impl<I> Placement<I> {
    /// An arbitrary placement in an epoch of this root, as a transient fault may leave it.
    pub(crate) fn scrambled(noise: &mut Noise, root: I) -> Self {
        let population = Population::new(1 + noise.next() as u32 % 40).unwrap_or(Population::ONE);
        let rank = Rank(noise.next() as u32 % population.get());
        Self {
            epoch: Epoch::scrambled(noise, root),
            population,
            rank,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_with_power_below_population() {
        for n in 1..=4096 {
            let population = Population::new(n).unwrap();
            let expected = (0..32).filter(|i| 1u64 << i < u64::from(n)).count();
            assert_eq!(population.levels(), expected, "N={n}");
        }
        assert_eq!(Population::new(0), None);
        assert_eq!(Population::new(Population::MAX + 1), None);
    }

    #[test]
    fn ring_arithmetic_wraps_both_ways() {
        for n in 1..=17 {
            let population = Population::new(n).unwrap();
            for rank in (0..n).map(Rank) {
                for distance in 0..3 * n {
                    let there = rank.ahead(distance, population);
                    assert_eq!(there.behind(distance, population), rank);
                    assert_eq!(rank.distance_to(there, population), distance % n);
                }
            }
        }
    }

    #[test]
    fn arithmetic_on_a_claimed_rank_does_not_overflow() {
        let population = Population::new(3).unwrap();
        let claimed = Rank(u32::MAX);
        assert!(!claimed.is_within(population));
        assert!(claimed.ahead(u32::MAX, population).is_within(population));
        assert!(claimed.behind(u32::MAX, population).is_within(population));
    }
}
