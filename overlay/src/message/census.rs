//! Messages of the census layer.

use serde::{Deserialize, Serialize};

use crate::placement::{Epoch, Placement, Population};

pub use super::standing::Standing;

/// A message of the census.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To the parent: the size of the sender's subtree.
    Size {
        /// The version of the sender's count, which a place for the subtree has to echo.
        version: u64,
        /// The number of members, the sender included.
        size: Population,
        /// Which ranks of which epoch the subtree holds; unset if the sender has no rank.
        standing: Option<Standing<I>>,
        /// How many members have no rank but had an earlier life. They may yet find their former
        /// rank, and may still be counted at their old place as well.
        returning: u32,
        /// The evidence that the subtree belongs to the cluster and is no island.
        evidence: Evidence,
    },
    /// To a child: its place.
    Place {
        /// Epoch, population and the child's own rank.
        placement: Placement<I>,
        /// The version of the child's count that the epoch was counted with.
        version: u64,
        /// Whether the overlay is the cluster's, by its root's word, and not an island.
        belongs: bool,
    },
    /// To a child for which the sender has no rank: the numbering in force. The child may hold a
    /// rank in it already, or have held one before it restarted.
    InForce {
        /// The epoch of the numbering.
        epoch: Epoch<I>,
        /// How many ranks the numbering has.
        population: Population,
        /// Whether the overlay is the cluster's, as in [`Message::Place`].
        belongs: bool,
    },
}

/// The evidence that a subtree belongs to the cluster and is no island, the weakest first.
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
    /// A node of the subtree has been a member of the cluster in this life, or counts as one: see
    /// `overlay::island`.
    Member,
}

impl Evidence {
    /// Arbitrary evidence, as a transient fault may leave it.
    pub(crate) const fn scrambled(noise: u64) -> Self {
        match noise % 3 {
            0 => Self::Unmet,
            1 => Self::Met,
            _ => Self::Member,
        }
    }

    /// The evidence of two subtrees together.
    pub(crate) fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Self::Member, _) | (_, Self::Member) => Self::Member,
            (a, b) => a.min(b),
        }
    }
}
