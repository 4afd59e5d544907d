//! The shipped router `binomial` compared with breadth-first search.

use binomesh_overlay::{Population, Rank};
use binomesh_routing::router::{Binomial, Router};
use binomesh_routing::sibling_tree::{Fanout, SiblingTree};

use super::distance::breadth_first;
use super::{Name, Topology};

/// The hops from rank 0 to all other ranks. The graph looks the same from every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// The number of destinations.
    pub destinations: u32,
    /// For how many destinations router and search disagree.
    pub differing: u32,
    /// The sum of the hops that the router promises.
    pub routed: u64,
    /// The sum of the hops that the search finds.
    pub shortest: u64,
}

impl Comparison {
    /// Compare router and search in the binomial graph of `population`.
    pub fn of(population: Population) -> Self {
        let topology = Topology::new(Name::Bmg, population, Fanout::TWO);
        let shape = SiblingTree::new(population, Fanout::TWO);
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
