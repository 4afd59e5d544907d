//! Routers: they choose the neighbour that is a packet's next step towards a rank.
//!
//! ```text
//!   packet ─▶ Itinerary: destinations, transit list, way back, known dead
//!                │
//!            choose_hop ── which neighbours are valid ──▶ Router::prefer
//!                │                                        (by Router::cost)
//!                └─▶ Forward / Back / Arrived / Lost / Done
//! ```
//!
//! Routers are pure and keep nothing: they see the neighbours that may be used (not known to be
//! dead, not in the transit list) and say which is best. All else is the same for each of them.
//! [`choose_hop`] guides a whole packet, as above, in simulations. The relay takes single hops from
//! `pick`, and goes back by the answers of its parts. A router of one's own is a name and a cost;
//! `examples/custom_router.rs` of the node is one.
//!
//! [SFT06] §3; `binomial` goes over the fingers of [BMG09] instead.

pub mod aware;
pub mod basic;
pub mod binomial;
pub mod variant;

mod hop;
mod itinerary;

use std::fmt;
use std::hash::{Hash, Hasher};

use binomesh_overlay::Rank;

use crate::sibling_tree::{Links, SiblingTree};

pub use aware::Aware;
pub use basic::{Basic, BasicLeast};
pub use binomial::Binomial;
pub(crate) use hop::pick;
pub use hop::{Hop, Reserve, choose_hop};
pub use itinerary::{Itinerary, RankSet};
pub use variant::Variant;

/// A rule that chooses the next hop of a packet among neighbours.
pub trait Router {
    /// The name that users call the router by.
    fn name(&self) -> &'static str;

    /// A sentence about the router for users, beside the name.
    fn about(&self) -> &'static str {
        ""
    }

    /// The links that the router uses.
    fn links(&self) -> Links {
        Links::SiblingTree
    }

    /// How many hops this router needs from `from` to `to`, as far as can be told without knowing
    /// the dead ranks. Unless the router has a [`Router::prefer`] of its own, the usable neighbour
    /// with the least cost is chosen. Of several destinations the one with the least cost comes
    /// first.
    fn cost(&self, shape: &SiblingTree, from: Rank, to: Rank) -> u32;

    /// The neighbour to which the packet goes: a usable one, or [`Step::sender`]. None if the
    /// router sees no way, although there may be usable neighbours.
    fn prefer(&self, step: &Step<'_>) -> Option<Rank> {
        step.cheapest(|rank| self.cost(step.shape, rank, step.to))
    }
}

/// All routers. Command lines, settings and tests take them from here.
pub const ROUTERS: [&(dyn Router + Sync); 5] = [&Basic, &BasicLeast, &Variant, &Aware, &Binomial];

/// The router of a node. Routers keep no state, so two with the same name are equal.
#[derive(Clone, Copy)]
pub struct Chosen(&'static (dyn Router + Sync));

impl Chosen {
    /// The choice of this router.
    pub const fn new(router: &'static (dyn Router + Sync)) -> Self {
        Self(router)
    }

    /// The router with this name among [`ROUTERS`].
    pub fn named(name: &str) -> Option<Self> {
        let mut all = ROUTERS.iter();
        let router = all.find(|router| router.name() == name)?;
        Some(Self(*router))
    }

    /// The router that was chosen.
    pub const fn get(self) -> &'static (dyn Router + Sync) {
        self.0
    }
}

/// The default is `binomial`: shortest paths over links that every node has anyway.
impl Default for Chosen {
    fn default() -> Self {
        Self(&Binomial)
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chosen").field(&self.0.name()).finish()
    }
}

impl PartialEq for Chosen {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for Chosen {}

impl Hash for Chosen {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name().hash(state);
    }
}

/// The question to a router: which neighbour is the next hop?
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The sibling tree of the population.
    pub shape: &'a SiblingTree,
    /// The rank of the node where the packet is.
    pub here: Rank,
    /// The rank that the packet shall reach.
    pub to: Rank,
    /// The links that may be used.
    pub links: Links,
    /// The transit list: the ranks that had the packet on its way to this destination.
    pub visited: &'a RankSet,
    /// The ranks on the transit list from which the packet went back.
    pub closed: &'a RankSet,
    /// The rank that sent the packet here first, if the packet may go back there although other
    /// neighbours are left.
    pub sender: Option<Rank>,
    /// The ranks that are known to be dead.
    pub dead: &'a RankSet,
}

impl Step<'_> {
    /// Whether a packet may go to a rank: "not in the transit list and still alive" ([SFT06] §3.1),
    /// as far as is known.
    pub fn is_usable(&self, rank: Rank) -> bool {
        !self.visited.contains(rank) && !self.dead.contains(rank)
    }

    /// The usable neighbours over these links; in the sibling tree children first, then ring, then
    /// parent.
    pub fn usable(&self) -> impl Iterator<Item = Rank> {
        let neighbours = self.shape.neighbours(self.here, self.links);
        neighbours.filter(|rank| self.is_usable(*rank))
    }

    /// The usable neighbour of least cost, the first among equals.
    pub fn cheapest(&self, cost: impl Fn(Rank) -> u32) -> Option<Rank> {
        let mut best: Option<(u32, Rank)> = None;
        for rank in self.shape.neighbours(self.here, self.links) {
            let cost = cost(rank);
            // Looking into the lists takes longer than computing the cost, so the cost is compared
            // first.
            if best.is_none_or(|(least, _)| cost < least) && self.is_usable(rank) {
                best = Some((cost, rank));
            }
        }
        Some(best?.1)
    }
}

#[cfg(test)]
mod tests;
