//! Messages of the tree layer.

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};

use crate::placement::MAX_LEVELS;

pub use super::sibling_order::SiblingOrder;

/// The most heirs that a root announces.
pub const MAX_HEIRS: usize = 3;

/// The root of a tree, and the values that decide which of two trees wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RootKey<I> {
    /// ⌊log2⌋ of the number of members that the root has counted.
    pub weight: u8,
    /// The configured priority; the smaller wins.
    pub priority: u32,
    /// The identifier of the root.
    pub id: I,
}

impl<I: Ord + Copy> RootKey<I> {
    /// Whether such a tree can exist at all: a check for keys that come from other nodes.
    pub const fn is_possible(&self) -> bool {
        self.weight as usize <= MAX_LEVELS
    }

    /// Whether this tree absorbs the other when they meet: the greater weight wins, then the
    /// smaller priority, then the smaller identifier. So a lone restarted node never pulls a
    /// cluster under itself.
    pub fn beats(&self, other: &Self) -> bool {
        let order = |key: &Self| (std::cmp::Reverse(key.weight), key.priority, key.id);
        order(self) < order(other)
    }
}

/// One ancestor on the path from the root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ancestor<I> {
    /// The ancestor.
    pub id: I,
    /// The place of the ancestor among its own siblings; unset for the root.
    pub order: SiblingOrder,
}

/// The place of a node in the tree, as its parent tells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lead<I> {
    /// The ancestors, root first, the sender last.
    pub path: Vec<Ancestor<I>>,
    /// The place of the receiver among the sender's children.
    pub order: SiblingOrder,
    /// The root of the tree, and its key.
    pub root: RootKey<I>,
    /// The nodes that take over when the root is gone, in this order.
    pub heirs: ArrayVec<I, MAX_HEIRS>,
    /// Whether the path reaches a root. A node that is not anchored accepts no children: otherwise
    /// two orphans would adopt each other for ever.
    pub anchored: bool,
}

/// Why a node asks to be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Claim<I> {
    /// The node has no tree, or wants another place in its tree.
    Orphan,
    /// The node is the root of a tree that yields to the receiver's.
    Root(RootKey<I>),
}

/// Why an attachment is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AttachRefusal {
    /// The receiver is a descendant of the asker.
    Descendant,
    /// The receiver's tree does not beat the asker's.
    Precedence,
    /// The receiver is at the greatest depth.
    Depth,
    /// The receiver is leaving.
    Leaving,
    /// The asker is no child of the receiver, and the receiver has no path to a root.
    Unanchored,
}

/// A message of the tree layer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To a candidate: let me be your child.
    Attach {
        /// The reason why the asker asks for a parent.
        claim: Claim<I>,
        /// The place that the asker wants among the children; may be unset.
        order: SiblingOrder,
    },
    /// To a child: its place in the tree; also the acceptance of an Attach.
    Lead(Lead<I>),
    /// To a child, now and then: the digest of its Lead.
    Digest(u64),
    /// To the parent: the digest did not match, send the Lead again.
    AskLead,
    /// To an asker: I am full, ask this child of mine.
    Redirect(I),
    /// To an asker, or to a supposed child: the sender refuses to be its parent, for this reason.
    Refuse(AttachRefusal),
    /// To a former or supposed parent: I am not your child.
    Detach,
    /// To parent and children: I am leaving.
    Leave,
    /// To a peer that may be in another tree: this is my tree, which is yours?
    Probe(RootKey<I>),
    /// The answer to a Probe: I am in the same tree.
    Together,
    /// To a member of a tree that yields, and up to its root: come to this tree.
    Offer {
        /// The tree that the receiver should join.
        root: RootKey<I>,
        /// A member of that tree that can be reached.
        via: I,
    },
    /// To the parent, now and then: the digest of the Lead that the sender goes by.
    Check(u64),
}
