//! Whether an overlay is the cluster's or an island.
//!
//! Evidence goes up with the sizes, the root's word comes down with the ranks, so that
//! an island of several is one as a whole. What a member was told once is evidence for
//! the rest of its life: a part of a partition has members of the cluster in it, whoever
//! its root is.
//!
//! Not here: what a node takes for evidence (`overlay::island`).

use serde::{Deserialize, Serialize};

/// How a subtree is tied to the cluster.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum Evidence {
    /// At least one node of the subtree has no contact in the overlay, or a child has not
    /// reported yet.
    #[default]
    Unmet,
    /// Every node of the subtree has a contact in the overlay.
    Met,
    /// A node of the subtree has been a member of the cluster in this life.
    Member,
}

impl Evidence {
    /// Any at all, as a transient fault may leave it.
    pub(crate) const fn scrambled(noise: u64) -> Self {
        match noise % 3 {
            0 => Self::Unmet,
            1 => Self::Met,
            _ => Self::Member,
        }
    }

    /// The evidence of two parts together.
    pub(super) fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Self::Member, _) | (_, Self::Member) => Self::Member,
            (a, b) => a.min(b),
        }
    }
}

/// The evidence of one node, and the last word of its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Belonging {
    /// Whether the overlay is the cluster's, by the last word of its root.
    pub(super) is_told: bool,
    /// This node's own evidence.
    pub(super) own: Evidence,
}

impl Belonging {
    /// The root's word. Returns whether it is another than before.
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
