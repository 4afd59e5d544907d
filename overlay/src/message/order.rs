//! The order of siblings.

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};

/// How many components an order may have. Every death above a node can add one;
/// at the bound the node is put behind its siblings instead, which costs ranks
/// their stability and nothing else.
const MAX_COMPONENTS: usize = 32;

/// Sorts behind every slot that a parent hands out.
const BEHIND: u32 = u32::MAX;

/// Sorts before every slot that a parent hands out.
const FIRST: u32 = 0;

/// Where a child stands among its siblings: a path of slots, compared component
/// by component like the numbering of chapters. The orphan in slot 2 of a dead
/// parent that had slot 3 becomes `3.2` under the grandparent: between 3 and 4,
/// and behind 3 should that node return, so preorder survives both.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Order(ArrayVec<u32, MAX_COMPONENTS>);

impl Order {
    /// The order of a plain slot.
    pub fn slot(slot: u32) -> Self {
        Self(ArrayVec::from_iter([slot]))
    }

    /// The place that a node was deployed to, counted from 0.
    pub fn deployed(slot: u32) -> Self {
        Self::slot(slot.saturating_add(FIRST + 1))
    }

    /// The place of the rank that is `distance` above the parent's, before all
    /// that a parent hands out: next to the parent in preorder but for those
    /// whose ranks lie between.
    pub fn next_to(distance: u32) -> Self {
        Self::slot(FIRST).joined(&Self::slot(distance))
    }

    /// Whether no place is claimed.
    pub fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    /// The place of what stood at `inner` below this one, now that this one is
    /// gone; unset when it would be too long.
    #[must_use]
    pub fn joined(&self, inner: &Self) -> Self {
        let mut joined = self.clone();
        match joined.0.try_extend_from_slice(&inner.0) {
            Ok(()) => joined,
            Err(_) => Self::default(),
        }
    }

    /// The place behind all children of an heir, in the old order of the heir's
    /// former siblings.
    #[must_use]
    pub fn behind(&self) -> Self {
        Self::slot(BEHIND).joined(self)
    }

    /// The slot that a newcomer without a claim gets among `siblings`: behind
    /// all of them. So a root that returns stands last in its heir's preorder,
    /// which is just before the heir in the ring, where it stood before.
    #[must_use]
    pub fn after<'a>(siblings: impl Iterator<Item = &'a Self>) -> Self {
        let next = |slot: Option<&u32>| slot.map_or(0, |slot| slot.saturating_add(1));
        match siblings.max().map(|order| order.0.as_slice()) {
            None => Self::slot(FIRST + 1),
            Some([BEHIND, inner @ ..]) => Self::slot(next(inner.first())).behind(),
            Some(last) => Self::slot(next(last.first()).min(BEHIND - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orphans_stand_where_their_parent_stood() {
        let [two, three, four] = [2, 3, 4].map(Order::slot);
        let orphans = [0, 1, 2].map(|slot| three.joined(&Order::slot(slot)));
        assert!(two < three && three < orphans[0]);
        assert!(orphans.is_sorted() && orphans[2] < four);
    }

    #[test]
    fn siblings_of_an_heir_come_behind_its_children() {
        let behind = [1, 2].map(|slot| Order::slot(slot).behind());
        assert!(Order::slot(40).joined(&Order::slot(9)) < behind[0]);
        assert!(behind.is_sorted());
    }

    #[test]
    fn those_whose_ranks_are_next_to_the_parents_come_first() {
        let [one, two] = [1, 2].map(Order::next_to);
        assert!(one < two && two < Order::deployed(0));
    }

    #[test]
    fn a_newcomer_stands_behind_all_siblings() {
        let siblings = [
            vec![],
            vec![Order::next_to(1)],
            vec![Order::slot(0), Order::slot(4).joined(&Order::slot(2))],
            vec![
                Order::slot(7),
                Order::slot(3).behind(),
                Order::slot(9).behind(),
            ],
            vec![Order::slot(u32::MAX - 1)],
        ];
        for siblings in siblings {
            let newcomer = Order::after(siblings.iter());
            assert!(
                siblings.iter().all(|order| *order <= newcomer),
                "{siblings:?}"
            );
            assert!(!newcomer.is_unset() && newcomer > Order::next_to(1));
        }
    }

    #[test]
    fn an_order_that_grows_too_long_is_given_up() {
        let mut order = Order::slot(1);
        for _ in 1..MAX_COMPONENTS {
            order = order.joined(&Order::slot(1));
            assert!(!order.is_unset());
        }
        assert!(order.joined(&Order::slot(1)).is_unset());
    }
}
