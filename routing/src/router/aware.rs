//! Router `aware`: [SFT06] §3.2, the third algorithm. It follows a shortest path in the tree
//! without the ranks that the header says are dead.
//!
//! The paper searches breadth first, which costs O(N) at every hop. The search here is
//! goal-directed and finds paths of the same length.
//!
//! Departure: a packet may go back before all other neighbours have been tried. When a rank is
//! found dead, the way forward may become a dead end, and the shortest path leads back. The transit
//! list alone forbids going back, and then single packets go astray (N = 64, k = 4, one dead: 20
//! hops at most instead of 9).

mod obstacles;
mod search;

use binomesh_overlay::Rank;

use super::{Router, Step};
use crate::sibling_tree::SiblingTree;

pub use search::first_hop;

/// The router that takes the first step of a shortest path round the dead ranks and those on the
/// transit list, or goes back if a shortest path leads there. It takes none if there is no path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Aware;

impl Router for Aware {
    fn name(&self) -> &'static str {
        "aware"
    }

    fn about(&self) -> &'static str {
        "Over the sibling tree, on the shortest way round the known dead nodes."
    }

    fn cost(&self, shape: &SiblingTree, from: Rank, to: Rank) -> u32 {
        shape.distance(from, to)
    }

    fn prefer(&self, step: &Step<'_>) -> Option<Rank> {
        let first_hop = |obstacles| first_hop(step.shape, step.here, step.to, obstacles);
        if step.sender.is_some() {
            // The ranks on the way back are no obstacles, but the packet must go back over them one
            // after the other.
            let (next, _) = first_hop([step.dead, step.closed])?;
            if Some(next) == step.sender || !step.visited.contains(next) {
                return Some(next);
            }
        }
        let (next, _) = first_hop([step.dead, step.visited])?;
        Some(next)
    }
}
