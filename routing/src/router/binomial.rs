//! Router `binomial`: over the fingers alone, shortest paths.
//!
//! The binomial graph is a Cayley graph of the integers modulo N with the
//! generators ±2^i, 2^i < N. So the distance between two ranks is the least
//! number of signed powers of two that add up to their difference d modulo N:
//! the least weight of d + jN over j. Each hop takes the usable neighbour with
//! the least remaining weight; without dead neighbours that is a shortest path.

use binomesh_overlay::{Population, Rank};

use super::{Router, Step};
use crate::sibling_tree::{Links, SiblingTree};

/// The router that takes the neighbour with the least remaining weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Binomial;

impl Router for Binomial {
    fn name(&self) -> &'static str {
        "binomial"
    }

    fn about(&self) -> &'static str {
        "Over the fingers of the binomial graph."
    }

    fn links(&self) -> Links {
        Links::BinomialGraph
    }

    fn cost(&self, shape: &SiblingTree, from: Rank, to: Rank) -> u32 {
        hops(from.distance_to(to, shape.population()), shape.population())
    }

    fn prefer(&self, step: &Step<'_>) -> Option<Rank> {
        // Each power in the lightest sum leaves one hop less. While one of these neighbours is
        // usable, the others need not be weighed.
        let population = step.shape.population();
        let best = lightest(step.here.distance_to(step.to, population), population);
        let lightest = best.powers().map(|(power, is_ahead)| match is_ahead {
            true => step.here.ahead(power, population),
            false => step.here.behind(power, population),
        });
        let mut lightest = lightest.filter(|rank| step.is_usable(*rank));
        let next = lightest.next();
        next.or_else(|| step.cheapest(|rank| self.cost(step.shape, rank, step.to)))
    }
}

/// How many hops lie between two ranks that are `distance` apart.
pub fn hops(distance: u32, population: Population) -> u32 {
    lightest(distance, population).weight()
}

/// The lightest sum that leads this far.
///
/// Sums that go round the ring several times may win: with N = 269, three steps of 256 are two
/// turns and 230.
fn lightest(distance: u32, population: Population) -> Sum {
    let n = i64::from(population.get());
    let d = i64::from(distance) % n;
    let exponent = highest(population);
    let mut best = Sum::of(d, population);
    let mut turns = n;
    // The nearer of the next two candidates is `turns - d` away, and a sum of w powers leads at
    // most w times the highest power far.
    while (turns - d - 1) >> exponent < i64::from(best.weight()) - 1 {
        for value in [d - turns, d + turns] {
            let sum = Sum::of(value, population);
            if sum.weight() < best.weight() {
                best = sum;
            }
        }
        turns += n;
    }
    best
}

/// The exponent of the highest power.
fn highest(population: Population) -> usize {
    population.levels().saturating_sub(1)
}

/// A number as a sum of as few signed powers 2^i, i < levels, as possible.
///
/// Below the highest power, this is the form in which no two neighbouring digits are set
/// (Reitwiesner's). Its digits are where x and 3x differ, so no loop is needed. The highest power
/// may be used several times.
#[derive(Debug, Clone, Copy)]
struct Sum {
    is_ahead: bool,
    /// How often the highest power is used.
    top: u32,
    tops: u32,
    /// The digits 1 and -1 of the rest.
    plus: u32,
    minus: u32,
}

impl Sum {
    fn of(value: i64, population: Population) -> Self {
        let exponent = highest(population);
        let size = value.unsigned_abs();
        let rest = size & ((1 << exponent) - 1);
        let thrice = 3 * rest;
        Self {
            is_ahead: value >= 0,
            top: 1 << exponent,
            tops: (size >> exponent) as u32,
            plus: ((thrice & !rest) >> 1) as u32,
            minus: ((rest & !thrice) >> 1) as u32,
        }
    }

    const fn weight(self) -> u32 {
        self.tops + (self.plus | self.minus).count_ones()
    }

    /// The powers, the highest first, each with whether it counts clockwise.
    fn powers(self) -> impl Iterator<Item = (u32, bool)> {
        let top = (self.tops > 0).then_some((self.top, self.is_ahead));
        let mut rest = self.plus | self.minus;
        let digits = std::iter::from_fn(move || {
            let power = 1 << rest.checked_ilog2()?;
            rest ^= power;
            Some((power, (self.plus & power != 0) == self.is_ahead))
        });
        top.into_iter().chain(digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::RankSet;
    use crate::sibling_tree::Fanout;
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
        for n in (1..=600).chain([1000, 1023, 1024, 1025, 4097, 6000, 69_155]) {
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
            let shape = SiblingTree::new(population, Fanout::TWO);
            let none = RankSet::default();
            for target in (0..n).map(Rank) {
                let (mut at, mut walked) = (Rank(0), 0);
                while at != target {
                    let step = Step {
                        shape: &shape,
                        here: at,
                        to: target,
                        links: Binomial.links(),
                        visited: &none,
                        closed: &none,
                        sender: None,
                        dead: &none,
                    };
                    at = Binomial.prefer(&step).unwrap();
                    walked += 1;
                }
                assert_eq!(walked, hops(target.0, population), "N={n} to {target:?}");
            }
        }
    }
}
