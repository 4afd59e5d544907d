//! Which neighbour is the next step towards a rank.
//!
//! ```text
//!   packet ─▶ Itinerary: destinations, transit list, way back, known dead
//!                │
//!            choose_hop ── which neighbours are valid ──▶ Router::prefer
//!                │                                        (by Router::cost)
//!                └─▶ Forward / Back / Arrived / Lost / Done
//! ```
//!
//! Routers are pure and keep nothing: they see the neighbours that may be used
//! (not known to be dead, not in the transit list) and say which is best. All
//! else is in [`choose_hop`], the same for each of them. A router of one's own is
//! a name and a cost; `examples/custom_router.rs` of the node is one.
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

use crate::shape::{Links, Shape};

pub use aware::Aware;
pub use basic::{Basic, BasicLeast};
pub use binomial::Binomial;
pub(crate) use hop::pick;
pub use hop::{Hop, Reserve, choose_hop};
pub use itinerary::{Itinerary, RankSet};
pub use variant::Variant;

/// A way to choose among neighbours.
pub trait Router {
    /// What users call it.
    fn name(&self) -> &'static str;

    /// What users read of it beside the name, in a sentence.
    fn about(&self) -> &'static str {
        ""
    }

    /// Over which links it goes.
    fn links(&self) -> Links {
        Links::SiblingTree
    }

    /// How many hops it takes from `from` to `to`, as far as one can tell without
    /// knowing who is dead. The least wins; of several destinations, too.
    fn cost(&self, shape: &Shape, from: Rank, to: Rank) -> u32;

    /// The neighbour to go to: one that may be used, or [`Step::sender`]. None if the
    /// router sees no way, although there may be neighbours.
    fn prefer(&self, step: &Step<'_>) -> Option<Rank> {
        step.cheapest(|rank| self.cost(step.shape, rank, step.to))
    }
}

/// All the routers there are. Command lines, settings and tests take them from here.
pub const ROUTERS: [&(dyn Router + Sync); 5] = [&Basic, &BasicLeast, &Variant, &Aware, &Binomial];

/// The router of a node. Two are the same if they have the same name: routers keep
/// nothing.
#[derive(Clone, Copy)]
pub struct Chosen(&'static (dyn Router + Sync));

impl Chosen {
    /// This one.
    pub const fn new(router: &'static (dyn Router + Sync)) -> Self {
        Self(router)
    }

    /// One of [`ROUTERS`] by its name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = ROUTERS.iter();
        let router = all.find(|router| router.name() == name)?;
        Some(Self(*router))
    }

    /// The router.
    pub const fn get(self) -> &'static (dyn Router + Sync) {
        self.0
    }
}

/// `binomial`: the shortest paths over links that every node has anyway.
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

/// What a router is asked: from here, whereto next?
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The tree.
    pub shape: &'a Shape,
    /// Where the packet is.
    pub here: Rank,
    /// Where it shall go.
    pub to: Rank,
    /// Over which links.
    pub links: Links,
    /// The transit list: who had the packet on its way to this destination.
    pub visited: &'a RankSet,
    /// Those on it who were left backwards.
    pub closed: &'a RankSet,
    /// Who sent the packet here for the first time, if it may go back although there
    /// are others to try.
    pub sender: Option<Rank>,
    /// Who is known to be dead.
    pub dead: &'a RankSet,
}

impl Step<'_> {
    /// Whether a packet may go there: "not in the transit list and still alive"
    /// ([SFT06] §3.1), as far as is known.
    pub fn is_usable(&self, rank: Rank) -> bool {
        !self.visited.contains(rank) && !self.dead.contains(rank)
    }

    /// The neighbours that may be used: children, ring, parent.
    pub fn usable(&self) -> impl Iterator<Item = Rank> {
        let neighbours = self.shape.neighbours(self.here, self.links);
        neighbours.filter(|rank| self.is_usable(*rank))
    }

    /// The usable neighbour of least cost, the first among equals.
    pub fn cheapest(&self, cost: impl Fn(Rank) -> u32) -> Option<Rank> {
        let mut best: Option<(u32, Rank)> = None;
        for rank in self.shape.neighbours(self.here, self.links) {
            let cost = cost(rank);
            // To look into the lists takes longer than to count.
            if best.is_none_or(|(least, _)| cost < least) && self.is_usable(rank) {
                best = Some((cost, rank));
            }
        }
        Some(best?.1)
    }
}

#[cfg(test)]
mod tests;
