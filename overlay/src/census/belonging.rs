//! Whether an overlay is the cluster's or an island.
//!
//! Evidence goes up with the sizes, and the root's word comes down with the ranks, so that all
//! members of an overlay agree. A member that was once told that its overlay belongs to the cluster
//! counts as evidence for the rest of its life. So each part of a partitioned cluster still has
//! evidence, whichever member becomes its root.
//!
//! Not here: how a node finds its own evidence (`overlay::island`).

use crate::message::census::Evidence;

/// The evidence of one node, and the last word of its root about the overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Belonging {
    /// Whether the overlay is the cluster's, by the last word of its root.
    pub(super) is_told: bool,
    /// This node's own evidence.
    pub(super) own: Evidence,
}

impl Belonging {
    /// Take the root's word. Returns whether the word differs from the one before.
    pub(super) fn hear(&mut self, belongs: bool) -> bool {
        let is_news = self.is_told != belongs;
        self.is_told = belongs;
        if belongs {
            self.own = Evidence::Member;
        }
        is_news
    }

    /// Set this node's own evidence, unless that is [`Evidence::Member`] already.
    pub(super) fn find(&mut self, own: Evidence) {
        if self.own != Evidence::Member {
            self.own = own;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_member_is_enough_and_all_must_have_met() {
        use Evidence::{Member, Met, Unmet};
        for (a, b, both) in [
            (Unmet, Unmet, Unmet),
            (Unmet, Met, Unmet),
            (Met, Met, Met),
            (Unmet, Member, Member),
            (Met, Member, Member),
        ] {
            assert_eq!((a.joined(b), b.joined(a)), (both, both), "{a:?} {b:?}");
        }
    }
}
