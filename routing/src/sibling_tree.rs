//! The k-ary sibling tree of [SFT06] §3 as arithmetic. Only the beginning of each level is stored.
//!
//! ```text
//!   level 0          0              k = 2, N = 10
//!   level 1      ┌ 1 ─── 2 ┐        children of i: k·i + 1 ..= k·i + k, below N
//!   level 2    ┌ 3 ─ 4 ─ 5 ─ 6 ┐    each level is a ring of the size it has:
//!   level 3    ┌ 7 ─ 8 ─ 9 ┐        3 here, not 8
//! ```
//!
//! Counted from the left of its level, the parent of x stands at x / k, so each step up drops a
//! base-k digit. Most functions take O(log N) time or less; `at_preorder` and `path_down` take
//! O(log² N). None takes memory that grows with N.
//!
//! Arguments are ranks of this population. For other ranks the results have no meaning, but no
//! function panics.
//!
//! Departure: [SFT06] §3 says that the tree survives k failures. It does not: a last level of at
//! most k nodes hangs on one parent. Hence the links of the binomial graph as the last resort, see
//! [`crate::router`].

mod distance;
mod neighbours;
mod preorder;

use binomesh_overlay::{Population, Rank};

pub(crate) use distance::Goal;
pub use neighbours::Links;

/// How many children a full node has: 2 ..= [`Fanout::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fanout(u32);

impl Fanout {
    /// The largest fanout. With it every tree is a star, as with any larger one.
    pub const MAX: u32 = Population::MAX;
    /// The fanout of a binary tree.
    pub const TWO: Self = Self(2);

    /// A fanout of `k` children; `None` if `k` is out of range.
    pub const fn new(k: u32) -> Option<Self> {
        if k >= 2 && k <= Self::MAX {
            Some(Self(k))
        } else {
            None
        }
    }

    /// The fanout as a number of children.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The most levels that any tree has: a binary one of [`Population::MAX`].
pub const MAX_DEPTH: usize = binomesh_overlay::placement::MAX_LEVELS + 1;

/// The place of a rank: its level and its offset from the left end of the level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The level; the root is at level 0.
    pub level: u8,
    /// The offset: 0 .. the size of the level.
    pub offset: u32,
}

/// The sibling tree of one population.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SiblingTree {
    population: Population,
    fanout: Fanout,
    /// The deepest level of the tree.
    last: u8,
    /// The first rank of each level, and N behind the last level.
    first: [u32; MAX_DEPTH + 1],
    /// k^i, or `u32::MAX` where that is more than any offset.
    power: [u32; MAX_DEPTH + 1],
    /// log2 k if that is a whole number, else 0.
    shift: u32,
}

impl SiblingTree {
    /// The sibling tree of a population with this fanout.
    pub const fn new(population: Population, fanout: Fanout) -> Self {
        let n = population.get();
        let mut first = [n; MAX_DEPTH + 1];
        let mut power = [u32::MAX; MAX_DEPTH + 1];
        (first[0], power[0]) = (0, 1);
        let (mut level, mut size, mut next) = (0, 1u64, 1u64);
        while next < n as u64 {
            level += 1;
            first[level] = next as u32;
            size *= fanout.0 as u64;
            power[level] = if size < u32::MAX as u64 {
                size as u32
            } else {
                u32::MAX
            };
            next += size;
        }
        Self {
            population,
            fanout,
            last: level as u8,
            first,
            power,
            shift: match fanout.0.is_power_of_two() {
                true => fanout.0.trailing_zeros(),
                false => 0,
            },
        }
    }

    /// The population of the tree.
    pub const fn population(&self) -> Population {
        self.population
    }

    /// How many children a full node has.
    pub const fn fanout(&self) -> Fanout {
        self.fanout
    }

    /// The deepest level of the tree.
    pub const fn last_level(&self) -> u8 {
        self.last
    }

    /// The first rank of a level, and N if there is no such level.
    pub fn first_of(&self, level: u8) -> Rank {
        let first = self.first.get(usize::from(level));
        Rank(first.copied().unwrap_or(self.population.get()))
    }

    /// How many ranks a level has.
    pub fn size_of(&self, level: u8) -> u32 {
        self.first_of(level.saturating_add(1)).0 - self.first_of(level).0
    }

    /// The level that a rank is on.
    pub fn level(&self, rank: Rank) -> u8 {
        // Most ranks are in the last levels, so the search begins there.
        let mut level = self.last;
        while level > 0 && self.first[usize::from(level)] > rank.0 {
            level -= 1;
        }
        level
    }

    /// The place of a rank.
    pub fn place(&self, rank: Rank) -> Place {
        let level = self.level(rank);
        Place {
            level,
            offset: rank.0 - self.first[usize::from(level)],
        }
    }

    /// The rank at a place.
    pub fn rank(&self, place: Place) -> Rank {
        Rank(self.first_of(place.level).0.saturating_add(place.offset))
    }

    /// The parent of a rank; the root has none.
    pub fn parent(&self, rank: Rank) -> Option<Rank> {
        Some(Rank(rank.0.checked_sub(1)? / self.fanout.0))
    }

    /// The children of rank i from left to right: clamp(N − k·i − 1, 0, k) of them.
    pub fn children(
        &self,
        rank: Rank,
    ) -> impl DoubleEndedIterator<Item = Rank> + ExactSizeIterator + Clone + use<> {
        let (k, n) = (u64::from(self.fanout.0), u64::from(self.population.get()));
        let first = k * u64::from(rank.0) + 1;
        let (first, end) = (first.min(n), (first + k).min(n));
        (first as u32..end as u32).map(Rank)
    }

    /// The neighbour to the left on the ring of a rank's level; none if the rank is alone there.
    pub fn left(&self, rank: Rank) -> Option<Rank> {
        let place = self.place(rank);
        let size = self.size_of(place.level);
        let offset = place
            .offset
            .checked_sub(1)
            .unwrap_or(size.saturating_sub(1));
        (size > 1).then(|| self.rank(Place { offset, ..place }))
    }

    /// The neighbour to the right on the ring of a rank's level; none if the rank is alone there.
    /// On a ring of two it is the left neighbour too.
    pub fn right(&self, rank: Rank) -> Option<Rank> {
        let place = self.place(rank);
        let size = self.size_of(place.level);
        let offset = place.offset.saturating_add(1);
        let offset = if offset < size { offset } else { 0 };
        (size > 1).then(|| self.rank(Place { offset, ..place }))
    }

    /// The ancestor of a rank at a level. At the rank's own level it is the rank itself; further
    /// down there is none.
    pub fn ancestor(&self, rank: Rank, level: u8) -> Option<Rank> {
        let place = self.place(rank);
        let up = place.level.checked_sub(level)?;
        let offset = self.above(place.offset, up);
        Some(self.rank(Place { level, offset }))
    }

    /// Whether `rank` is in the subtree of `of`, to which `of` itself belongs.
    pub fn is_in_subtree(&self, rank: Rank, of: Rank) -> bool {
        self.ancestor(rank, self.level(of)) == Some(of)
    }

    /// The ranks on the way from `rank` down to `descendant`, which is the last of them. Empty if
    /// `descendant` is not below `rank`.
    pub fn path_down(&self, rank: Rank, descendant: Rank) -> impl Iterator<Item = Rank> + '_ {
        let from = self.level(rank);
        let is_below = self.is_in_subtree(descendant, rank);
        let levels = from + 1..=self.level(descendant);
        let levels = levels.take_while(move |_| is_below);
        levels.filter_map(move |level| self.ancestor(descendant, level))
    }

    /// k^`exponent`, capped above every offset.
    pub(crate) fn power(&self, exponent: u8) -> u32 {
        let power = self.power.get(usize::from(exponent));
        power.copied().unwrap_or(u32::MAX)
    }

    /// The offset of the ancestor this many levels up. Most of the time is spent here, so powers of
    /// two are shifted.
    pub(crate) fn above(&self, offset: u32, up: u8) -> u32 {
        match self.shift {
            0 => offset / self.power(up),
            shift => offset.checked_shr(shift * u32::from(up)).unwrap_or(0),
        }
    }

    /// Whether the last level has gaps. Then its ring is shorter than the levels above suggest.
    pub(crate) fn is_ragged(&self) -> bool {
        self.size_of(self.last) < self.power(self.last)
    }
}

#[cfg(test)]
mod tests;
