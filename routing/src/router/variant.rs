//! Router `variant`: [SFT06] §3.2, the second algorithm. "Instead of routing from
//! left to right, it could be faster to go up a few levels, then go right and go
//! down to the destination."

use binomesh_overlay::Rank;

use super::{Router, Step};
use crate::sibling_tree::SiblingTree;

/// The router that takes the neighbour with the shortest way up, along the ring and down, over all
/// levels. Among equals children come first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Variant;

impl Router for Variant {
    fn name(&self) -> &'static str {
        "variant"
    }

    fn about(&self) -> &'static str {
        "Over the sibling tree: up, along the ring of a level, and down."
    }

    fn cost(&self, shape: &SiblingTree, from: Rank, to: Rank) -> u32 {
        shape.climbing_distance(from, to)
    }

    fn prefer(&self, step: &Step<'_>) -> Option<Rank> {
        let next = step.shape.climbing_step(step.here, step.to);
        let next = next.filter(|next| step.is_usable(*next));
        next.or_else(|| step.cheapest(|rank| self.cost(step.shape, rank, step.to)))
    }
}
