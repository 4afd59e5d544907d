//! What the tree layer says.

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};

use crate::placement::MAX_LEVELS;

pub use super::order::Order;

/// The most heirs that a root announces.
pub const MAX_HEIRS: usize = 3;

/// The root of a tree and what decides between two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RootKey<I> {
    /// ⌊log2 of the root's own count⌋.
    pub weight: u8,
    /// The configured priority; the smaller wins.
    pub priority: u32,
    /// The root.
    pub id: I,
}

impl<I: Ord + Copy> RootKey<I> {
    /// Whether there can be such a tree at all; a claim until it is checked.
    pub const fn is_possible(&self) -> bool {
        self.weight as usize <= MAX_LEVELS
    }

    /// Whether this tree absorbs the other when they meet: the greater weight,
    /// then the smaller priority, then the smaller id. A lone restarted node
    /// thus never pulls a cluster under itself.
    pub fn beats(&self, other: &Self) -> bool {
        let order = |key: &Self| (std::cmp::Reverse(key.weight), key.priority, key.id);
        order(self) < order(other)
    }
}

/// One ancestor on the path from the root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step<I> {
    /// The ancestor.
    pub id: I,
    /// Where it stands among its own siblings; unset at the root.
    pub order: Order,
}

/// Where a node hangs, as its parent tells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lead<I> {
    /// The ancestors, root first, the sender last.
    pub path: Vec<Step<I>>,
    /// Where the receiver stands among the sender's children.
    pub order: Order,
    /// The tree's root and its standing.
    pub root: RootKey<I>,
    /// Who takes over when the root is gone, in this order.
    pub heirs: ArrayVec<I, MAX_HEIRS>,
    /// Whether the path reaches a root. A node that is not anchored accepts no
    /// children: two orphans would adopt each other for ever.
    pub anchored: bool,
}

/// What a node that wants to be attached is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Claim<I> {
    /// It has no tree.
    Orphan,
    /// It is the root of a tree that yields to the receiver's.
    Root(RootKey<I>),
}

/// Why an attachment is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The receiver hangs below the asker.
    Descendant,
    /// The receiver's tree does not beat the asker's.
    Precedence,
    /// The receiver is as deep as a node may be.
    Depth,
    /// The receiver is leaving.
    Leaving,
    /// The asker is no child of the receiver, which has no way to a root.
    Unanchored,
}

/// A message of the tree layer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To a candidate: let me be your child.
    Attach {
        /// What the asker is.
        claim: Claim<I>,
        /// The place it asks for among the children; may be unset.
        order: Order,
    },
    /// To a child: where you hang; also the acceptance of an Attach.
    Lead(Lead<I>),
    /// To a child, now and then: the digest of its Lead.
    Digest(u64),
    /// To the parent: the digest did not match, send the Lead again.
    AskLead,
    /// To a candidate's asker: I am full, ask this child of mine.
    Redirect(I),
    /// To a candidate's asker: no.
    Refuse(Refusal),
    /// To a former or supposed parent: I am not your child.
    Detach,
    /// To parent and children: I am going.
    Leave,
    /// To a lost contact: this is my tree, which is yours?
    Probe(RootKey<I>),
    /// The answer to a Probe: the same one.
    Together,
    /// To a member of a tree that yields, and up to its root: come to this tree.
    Offer {
        /// The tree to come to.
        root: RootKey<I>,
        /// A member of it that can be reached.
        via: I,
    },
    /// To the parent, now and then: the digest of the Lead that I go by.
    Check(u64),
}
