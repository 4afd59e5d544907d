//! Messages between neighbours in an arbitrary graph.

use serde::{Deserialize, Serialize};

/// How many ancestors a claim introduces: from the root on, and from the sender back. A node that
/// would be too deep asks one of the first for a place, an orphan one of the last.
const INTRODUCED: (usize, usize) = (32, 4);

/// A message of the spanning tree's layer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To every neighbour: the best root that the sender knows, and its path to it.
    Claim(Claim<I>),
    /// To every neighbour, and the answer to a claim: the sender has its place in the tree.
    Placed,
}

/// A root, and the path from it to the node that claims it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Claim<I> {
    /// The degree of the root: the length of its own list of neighbours.
    pub degree: u32,
    /// The root first, the sender last.
    pub path: Vec<I>,
    /// Whether the sender, all nodes below it and all neighbours of these claim this root.
    pub is_complete: bool,
}

impl<I: Copy + Eq> Claim<I> {
    /// The longest path that is believed. Nodes further away begin a tree of their own after some
    /// ticks, and the trees merge. A guess: above the diameter of any graph of hosts; a larger
    /// graph only takes longer.
    pub const MAX_PATH: usize = 1024;

    /// The root of the claim.
    pub fn root(&self) -> Option<I> {
        self.path.first().copied()
    }

    /// The neighbour through which the sender reaches the root; none if the sender is the root.
    pub fn parent(&self) -> Option<I> {
        self.path.iter().rev().nth(1).copied()
    }

    /// Whether this can be a claim of `from`: its path ends there and is not too long.
    pub fn is_of(&self, from: I) -> bool {
        self.path.last() == Some(&from) && self.path.len() <= Self::MAX_PATH
    }
}

impl<I: Copy> Message<I> {
    /// The peers that the message introduces: the receiver may want to send to them.
    pub fn introduces(&self) -> Vec<I> {
        let Self::Claim(claim) = self else {
            return Vec::new();
        };
        let (first, last) = INTRODUCED;
        let rest = claim.path.len().saturating_sub(last).max(first);
        let first = claim.path.iter().take(first);
        let all = first.chain(claim.path.get(rest..).unwrap_or_default());
        all.copied().collect()
    }
}
