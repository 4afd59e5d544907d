//! The order of siblings.

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};

/// How many components an order may have. Every death above a node can add one. At the bound the
/// node is put behind its siblings, which changes ranks and does no other harm.
const MAX_COMPONENTS: usize = 32;

/// A slot that sorts behind every slot that a parent hands out.
const BEHIND: u32 = u32::MAX;

/// A slot that sorts before every slot that a parent hands out.
const FIRST: u32 = 0;

/// The place of a child among its siblings: a path of slots, compared component by component like
/// the numbers of chapters. The orphan in slot 2 of a dead parent in slot 3 becomes `3.2` under the
/// grandparent: between 3 and 4, and behind 3 if the dead node returns. So the orphan and the dead
/// node keep their places in preorder.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SiblingOrder(ArrayVec<u32, MAX_COMPONENTS>);

impl SiblingOrder {
    /// The order that consists of a single slot.
    pub fn slot(slot: u32) -> Self {
        Self(ArrayVec::from_iter([slot]))
    }

    /// The order for a slot of the deployment, counted from 0.
    pub fn deployed(slot: u32) -> Self {
        Self::slot(slot.saturating_add(FIRST + 1))
    }

    /// The place for the rank that is `distance` above the parent's, before all slots that a parent
    /// hands out. In preorder only members with ranks in between stand between the parent and this
    /// place.
    pub fn next_to(distance: u32) -> Self {
        Self::slot(FIRST).joined(&Self::slot(distance))
    }

    /// Whether no place is claimed.
    pub fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    /// The place of a node that stood at `inner` below a parent at this place, once that parent is
    /// gone. The place is unset if it would have too many components.
    #[must_use]
    pub fn joined(&self, inner: &Self) -> Self {
        let mut joined = self.clone();
        match joined.0.try_extend_from_slice(&inner.0) {
            Ok(()) => joined,
            Err(_) => Self::default(),
        }
    }

    /// This place, put behind all children of an heir: there the heir's former siblings keep their
    /// order.
    #[must_use]
    pub fn behind(&self) -> Self {
        Self::slot(BEHIND).joined(self)
    }

    /// The slot of a newcomer without a claim: behind all `siblings`. So a root that returns stands
    /// last in its heir's preorder. In the ring this place is just before the heir, where the root
    /// stood before.
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
        let [two, three, four] = [2, 3, 4].map(SiblingOrder::slot);
        let orphans = [0, 1, 2].map(|slot| three.joined(&SiblingOrder::slot(slot)));
        assert!(two < three && three < orphans[0]);
        assert!(orphans.is_sorted() && orphans[2] < four);
    }

    #[test]
    fn siblings_of_an_heir_come_behind_its_children() {
        let behind = [1, 2].map(|slot| SiblingOrder::slot(slot).behind());
        assert!(SiblingOrder::slot(40).joined(&SiblingOrder::slot(9)) < behind[0]);
        assert!(behind.is_sorted());
    }

    #[test]
    fn children_with_ranks_next_to_the_parents_come_first() {
        let [one, two] = [1, 2].map(SiblingOrder::next_to);
        assert!(one < two && two < SiblingOrder::deployed(0));
    }

    #[test]
    fn a_newcomer_stands_behind_all_siblings() {
        let siblings = [
            vec![],
            vec![SiblingOrder::next_to(1)],
            vec![
                SiblingOrder::slot(0),
                SiblingOrder::slot(4).joined(&SiblingOrder::slot(2)),
            ],
            vec![
                SiblingOrder::slot(7),
                SiblingOrder::slot(3).behind(),
                SiblingOrder::slot(9).behind(),
            ],
            vec![SiblingOrder::slot(u32::MAX - 1)],
        ];
        for siblings in siblings {
            let newcomer = SiblingOrder::after(siblings.iter());
            assert!(
                siblings.iter().all(|order| *order <= newcomer),
                "{siblings:?}"
            );
            assert!(!newcomer.is_unset() && newcomer > SiblingOrder::next_to(1));
        }
    }

    #[test]
    fn an_order_that_grows_too_long_is_given_up() {
        let mut order = SiblingOrder::slot(1);
        for _ in 1..MAX_COMPONENTS {
            order = order.joined(&SiblingOrder::slot(1));
            assert!(!order.is_unset());
        }
        assert!(order.joined(&SiblingOrder::slot(1)).is_unset());
    }
}
