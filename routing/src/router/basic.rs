//! Routers `basic` and `basic-least`: [SFT06] Algorithm 1, in its two readings.
//!
//! "Compute cost" walks by a rule from the neighbour to the destination and counts the steps.
//! `basic` takes the step that the rule takes, "a direction toward the destination". `basic-least`
//! takes "a neighbour which has the lowest cost". The two differ: the rule goes along the ring on
//! the shallower of both levels. On the last level this ring is O(N) long. The ring of the parents
//! is a k-th of that, so going up first is shorter, which only `basic-least` sees.

use binomesh_overlay::Rank;

use super::{Router, Step};
use crate::sibling_tree::{Place, SiblingTree};

/// Algorithm 1 as it is written: the next hop of its rule, or the neighbour of least cost if that
/// hop is not usable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Basic;

/// The neighbour from which the rule of Algorithm 1 takes the fewest hops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct BasicLeast;

impl Router for Basic {
    fn name(&self) -> &'static str {
        "basic"
    }

    fn about(&self) -> &'static str {
        "Over the sibling tree, by the rule of the paper as it is written."
    }

    fn cost(&self, shape: &SiblingTree, from: Rank, to: Rank) -> u32 {
        cost(shape, from, to)
    }

    fn prefer(&self, step: &Step<'_>) -> Option<Rank> {
        let next = rule(step.shape, step.here, step.to);
        let next = next.filter(|next| step.is_usable(*next));
        next.or_else(|| step.cheapest(|rank| cost(step.shape, rank, step.to)))
    }
}

impl Router for BasicLeast {
    fn name(&self) -> &'static str {
        "basic-least"
    }

    fn about(&self) -> &'static str {
        "Over the sibling tree, to the neighbour that is nearest by the rule of the paper."
    }

    fn cost(&self, shape: &SiblingTree, from: Rank, to: Rank) -> u32 {
        cost(shape, from, to)
    }
}

/// One turn of the loop in [SFT06] Algorithm 1, "Compute cost", lines 3–13.
///
/// The paper does not define `hopLeft` and `hopRight`. Here they are the distances along this level
/// to the destination, or to its ancestor if the destination is further down.
fn rule(shape: &SiblingTree, here: Rank, to: Rank) -> Option<Rank> {
    let (mine, theirs) = (shape.place(here), shape.place(to));
    if mine.level > theirs.level {
        return shape.parent(here);
    }
    let goal = shape.above(theirs.offset, theirs.level - mine.level);
    if goal == mine.offset {
        return shape.ancestor(to, mine.level + 1);
    }
    // "Choose left or right", line 1.
    let right = ahead(shape, mine, goal);
    let left = shape.size_of(mine.level).saturating_sub(right);
    match left <= right && shape.right(here) != Some(to) {
        true => shape.left(here),
        false => shape.right(here),
    }
}

/// The distance to the right along the ring.
fn ahead(shape: &SiblingTree, from: Place, goal: u32) -> u32 {
    match goal.checked_sub(from.offset) {
        Some(distance) => distance,
        None => shape.size_of(from.level).saturating_sub(from.offset - goal),
    }
}

/// How many turns the loop of Algorithm 1 takes, computed without a loop: up while below the
/// destination, along the ring, down.
fn cost(shape: &SiblingTree, from: Rank, to: Rank) -> u32 {
    let (from, to) = (shape.place(from), shape.place(to));
    let level = from.level.min(to.level);
    let straight = u32::from(from.level.abs_diff(to.level));
    let above = |place: Place| shape.above(place.offset, place.level - level);
    straight + shape.across(level, above(from), above(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sibling_tree::Fanout;
    use binomesh_overlay::Population;

    #[test]
    fn of_two_ways_round_the_shorter_is_taken_and_of_equals_the_left() {
        // Level 2 of the binary tree is the ring 3 - 4 - 5 - 6.
        let shape = SiblingTree::new(Population::new(15).unwrap(), Fanout::TWO);
        let table = [
            (3, 4, 4, "right neighbour"),
            (3, 6, 6, "left neighbour"),
            (3, 5, 6, "as far both ways: left"),
            (4, 6, 3, "as far both ways: left"),
            (3, 9, 4, "towards an ancestor to the right"),
            (3, 13, 6, "towards an ancestor to the left"),
            (1, 2, 2, "a ring of two: the one neighbour"),
            (3, 1, 1, "deeper than the destination: up"),
            (1, 10, 4, "above the destination: the child on the way"),
        ];
        for (here, to, next, case) in table {
            let found = rule(&shape, Rank(here), Rank(to));
            assert_eq!(found, Some(Rank(next)), "{case}");
        }
    }

    #[test]
    fn the_cost_is_the_number_of_hops_of_a_walk() {
        for k in 2..=8 {
            for n in (1..=40).chain([64, 85, 130]) {
                let shape = SiblingTree::new(Population::new(n).unwrap(), Fanout::new(k).unwrap());
                for from in (0..n).map(Rank) {
                    for to in (0..n).map(Rank) {
                        let (mut at, mut turns) = (from, 0);
                        while at != to {
                            at = rule(&shape, at, to).unwrap();
                            turns += 1;
                            assert!(turns <= n, "{from:?} to {to:?} in {shape:?}");
                        }
                        assert_eq!(
                            cost(&shape, from, to),
                            turns,
                            "{from:?} to {to:?} in {shape:?}"
                        );
                    }
                }
            }
        }
    }
}
