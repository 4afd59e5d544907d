//! Router `variant`: [SFT06] §3.2, the second algorithm. "Instead of routing from
//! left to right, it could be faster to go up a few levels, then go right and go
//! down to the destination."

use binomesh_overlay::Rank;

use super::Router;
use crate::shape::Shape;

/// The neighbour with the least of up, along the ring and down over all levels;
/// children first among equals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Variant;

impl Router for Variant {
    fn name(&self) -> &'static str {
        "variant"
    }

    fn cost(&self, shape: &Shape, from: Rank, to: Rank) -> u32 {
        shape.climbing_distance(from, to)
    }
}
