//! What the census layer says.

use serde::{Deserialize, Serialize};

use crate::placement::{Epoch, Placement, Population};

pub use super::standing::Standing;

/// A message of the census.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To the parent: how many members my subtree has.
    Size {
        /// Which count this is.
        version: u64,
        /// The members, myself included.
        size: Population,
        /// Which ranks of which epoch they hold; unset if I hold none.
        standing: Option<Standing<I>>,
        /// How many have no rank but had an earlier life: they may yet find the
        /// rank that was theirs, and be counted a second time where they were.
        returning: u32,
        /// How they are tied to the cluster.
        evidence: Evidence,
    },
    /// To a child: its place.
    Place {
        /// Epoch, population and the child's own rank.
        placement: Placement<I>,
        /// The child's version that the epoch was counted with.
        version: u64,
        /// Whether the overlay is the cluster's, as its root says, and no island.
        belongs: bool,
    },
    /// To a child that the sender can give no rank: what is in force. The child
    /// may hold a rank in it already, or held one before it restarted.
    InForce {
        /// The numbering.
        epoch: Epoch<I>,
        /// How many ranks it has.
        population: Population,
        /// As in [`Message::Place`].
        belongs: bool,
    },
}

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
    pub(crate) fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Self::Member, _) | (_, Self::Member) => Self::Member,
            (a, b) => a.min(b),
        }
    }
}
