//! Router `binomial`: over the fingers alone, shortest paths.
//!
//! The binomial graph is a Cayley graph of the integers modulo N with the
//! generators ±2^i, 2^i < N. So the distance between two ranks is the least
//! number of signed powers of two that add up to their difference d modulo N:
//! the least weight of d + jN over j. Each hop takes the usable neighbour with
//! the least remaining weight; without dead neighbours that is a shortest path.

use binomesh_overlay::{Population, Rank};

/// How many hops lie between two ranks that are `distance` apart.
pub fn hops(distance: u32, population: Population) -> u32 {
    let n = i64::from(population.get());
    let d = i64::from(distance) % n;
    // Farther multiples of N never win: the largest generator is at least N/2,
    // and the test against breadth-first search agrees.
    [d, d - n, d + n, d - 2 * n]
        .into_iter()
        .map(|value| weight(value, population.levels()))
        .min()
        .unwrap_or(0)
}

/// The neighbour nearest to `target` by [`hops`], the first among equals.
pub fn choose_hop<P>(
    target: Rank,
    population: Population,
    usable: impl IntoIterator<Item = (Rank, P)>,
) -> Option<(Rank, P)> {
    usable
        .into_iter()
        .min_by_key(|(rank, _)| hops(rank.distance_to(target, population), population))
}

/// The least number of signed powers 2^i, i < `levels`, with this sum.
///
/// From the lowest bit up an odd rest is rounded down or up at the cost of one;
/// at each level only two rests are possible, so both are carried along. The
/// highest power may be used repeatedly.
fn weight(value: i64, levels: usize) -> u32 {
    let Some(top) = levels.checked_sub(1) else {
        return 0;
    };
    // The cheapest way to a rest of `low` and of `low + 1` in units of 2^level.
    let (mut low, mut down, mut up) = (value, 0u32, u32::MAX / 2);
    for _ in 0..top {
        let (to_low, to_high) = if low.rem_euclid(2) == 0 {
            // low is even; low + 1 is odd and may go either way.
            (down.min(up + 1), up + 1)
        } else {
            // low is odd; low + 1 is even.
            (down + 1, (down + 1).min(up))
        };
        (low, down, up) = (low.div_euclid(2), to_low, to_high);
    }
    let rest = |at: i64| u32::try_from(at.unsigned_abs()).unwrap_or(u32::MAX / 2);
    (down.saturating_add(rest(low))).min(up.saturating_add(rest(low + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn breadth_first(population: Population) -> Vec<u32> {
        let n = population.get();
        let mut depth = vec![u32::MAX; n as usize];
        depth[0] = 0;
        let mut open = VecDeque::from([Rank(0)]);
        while let Some(rank) = open.pop_front() {
            for level in 0..population.levels() {
                for next in [
                    rank.ahead(1 << level, population),
                    rank.behind(1 << level, population),
                ] {
                    if depth[next.0 as usize] == u32::MAX {
                        depth[next.0 as usize] = depth[rank.0 as usize] + 1;
                        open.push_back(next);
                    }
                }
            }
        }
        depth
    }

    #[test]
    fn stretch_against_breadth_first_search_is_one() {
        for n in (1..=256).chain([1000, 1023, 1024, 1025, 4097, 6000]) {
            let population = Population::new(n).unwrap();
            for (distance, expected) in (0..n).zip(breadth_first(population)) {
                assert_eq!(hops(distance, population), expected, "N={n} d={distance}");
            }
        }
    }

    #[test]
    fn walking_takes_as_many_hops_as_promised() {
        for n in 1..=128 {
            let population = Population::new(n).unwrap();
            for target in (0..n).map(Rank) {
                let (mut at, mut walked) = (Rank(0), 0);
                while at != target {
                    let usable = (0..population.levels()).flat_map(|level| {
                        [
                            (at.ahead(1 << level, population), ()),
                            (at.behind(1 << level, population), ()),
                        ]
                    });
                    (at, _) = choose_hop(target, population, usable).unwrap();
                    walked += 1;
                }
                assert_eq!(walked, hops(target.0, population), "N={n} to {target:?}");
            }
        }
    }
}
