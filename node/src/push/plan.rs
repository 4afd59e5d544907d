//! The plan of a push: the strategy by which it reaches the members, and the length of its pieces.

use binomesh_routing::strategy::Strategy as Known;

use super::{BLOCK_BYTES, BLOCKS, PIECE_BYTES, WINDOW};
use crate::settings::Strategy;

/// The most members for which [`Strategy::Circulant`] sends by its own schedule.
const CIRCULANT_MAX: u32 = Known::CIRCULANT_MAX;

/// How the pieces of a push are sent; chosen once, at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) strategy: Strategy,
    pub(super) piece_bytes: usize,
    /// The most pieces on their way.
    pub(super) window: usize,
    /// The window's lower limit, even if pieces take long: 1 MiB of pieces. With so few on their
    /// way over uplinks of 5 Mbit/s, no piece takes longer than 30 s, the default patience.
    pub(super) window_least: usize,
}

impl Plan {
    /// The plan for a strategy. `auto` becomes the one that brings `size` bytes to
    /// `population` members soonest.
    pub(super) fn of(strategy: Strategy, population: u32, size: Option<u64>) -> Self {
        let strategy = match strategy {
            Strategy::Auto => soonest(population, size),
            chosen => chosen,
        };
        let (piece_bytes, window) = match strategy {
            Strategy::Circulant => (BLOCK_BYTES, BLOCKS),
            _ => (PIECE_BYTES, WINDOW),
        };
        Self {
            strategy,
            piece_bytes,
            window,
            window_least: (1 << 20) / piece_bytes,
        }
    }

    /// The number of pieces that follow the piece that ends at `end`, if the length is known.
    /// Otherwise a number that falls by one with each piece, of which this is the `number`th.
    pub(super) fn left(&self, size: Option<u64>, end: u64, number: u32) -> u32 {
        let Some(size) = size else {
            return u32::MAX - number;
        };
        let left = size.saturating_sub(end).div_ceil(self.piece_bytes as u64);
        u32::try_from(left).unwrap_or(u32::MAX)
    }
}

/// The strategy by which all members have `size` bytes soonest, where uplinks are the limit. An
/// unknown size counts as very large. The last of n members has the last piece this long after the
/// origin began, in units of the time of one piece on one uplink, with levels = ⌈log₂ n⌉:
///
/// ```text
///   circulant   pieces − 1 + levels     up to 1,024 members
///   tree        2 (pieces − 1 + levels)
///   binomial    pieces · levels
/// ```
fn soonest(population: u32, size: Option<u64>) -> Strategy {
    let pieces = |length: usize| size.map_or(u64::MAX, |size| size.div_ceil(length as u64).max(1));
    let levels = u64::from(population.next_power_of_two().ilog2()).max(1);
    let tree = (pieces(PIECE_BYTES).saturating_add(levels - 1)).saturating_mul(2);
    if levels == 1 || pieces(BLOCK_BYTES) == 1 {
        Strategy::Binomial
    } else if population <= CIRCULANT_MAX {
        Strategy::Circulant
    } else if pieces(PIECE_BYTES).saturating_mul(levels) < tree {
        Strategy::Binomial
    } else {
        Strategy::SiblingTree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_above_a_block_are_circulant_and_among_very_many_members_go_down_a_tree() {
        use Strategy::{Binomial, Circulant, SiblingTree};
        for (population, kib, expected) in [
            (1, Some(1), Binomial),
            (2, Some(1 << 20), Binomial),
            (2, None, Binomial),
            (3, Some(0), Binomial),
            (16, Some(64), Binomial),
            (16, Some(65), Circulant),
            (16, None, Circulant),
            (1024, Some(1 << 40), Circulant),
            (1025, Some(65), Binomial),
            (1025, Some(1 << 20), SiblingTree),
            (1025, None, SiblingTree),
        ] {
            let size = kib.map(|kib| kib << 10);
            let plan = Plan::of(Strategy::Auto, population, size);
            assert_eq!(plan.strategy, expected, "{population} members, {kib:?} KiB");
        }
        let chosen = Plan::of(Strategy::Chain, 16, None);
        assert_eq!(chosen.strategy, Strategy::Chain);
    }

    #[test]
    fn the_last_piece_has_none_behind_it_and_each_one_less_than_the_one_before() {
        let plan = Plan::of(Strategy::Circulant, 16, None);
        let block = plan.piece_bytes as u64;
        let size = 3 * block + 1;
        let left = [block, 2 * block, 3 * block, size].map(|end| plan.left(Some(size), end, 0));
        assert_eq!(left, [3, 2, 1, 0]);
        let open = [0, 1, 2].map(|number| plan.left(None, 0, number));
        assert_eq!(open, [u32::MAX, u32::MAX - 1, u32::MAX - 2]);
    }
}
