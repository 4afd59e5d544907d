//! The shipped router `binomial` against breadth-first search.

use binomesh_overlay::{Population, Rank};
use binomesh_routing::router::{Binomial, Router};
use binomesh_routing::shape::{Fanout, Shape};

use super::distance::breadth_first;
use super::{Name, Topology};

/// Hops from rank 0 to all others; the graph looks the same from everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// How many destinations there are.
    pub destinations: u32,
    /// To how many the router promises another number than the search finds.
    pub differing: u32,
    /// The sum of what the router promises.
    pub routed: u64,
    /// The sum of what the search finds.
    pub shortest: u64,
}

impl Comparison {
    /// Of the binomial graph of `population`.
    pub fn of(population: Population) -> Self {
        let topology = Topology::new(Name::Bmg, population, Fanout::TWO);
        let shape = Shape::new(population, Fanout::TWO);
        let mut found = Self {
            destinations: population.get() - 1,
            differing: 0,
            routed: 0,
            shortest: 0,
        };
        for (rank, depth) in (0..).map(Rank).zip(breadth_first(&topology, 0)) {
            let cost = Binomial.cost(&shape, Rank(0), rank);
            found.differing += u32::from(depth != Some(cost));
            found.routed += u64::from(cost);
            found.shortest += u64::from(depth.unwrap_or(u32::MAX));
        }
        found
    }
}
