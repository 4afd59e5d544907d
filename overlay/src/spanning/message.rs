//! What nodes of an arbitrary graph say to their neighbours.

use serde::{Deserialize, Serialize};

/// How many ancestors a claim introduces, from the root on and from the sender back: a node
/// that would be too deep asks one of the former for its place, an orphan one of the latter.
const INTRODUCED: (usize, usize) = (32, 4);

/// A message of the spanning tree's layer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To every neighbour: the best root that I know, and my way to it.
    Claim(Claim<I>),
    /// To every neighbour, and the answer to a claim: I have my place in the tree.
    Placed,
}

/// A root, and the way from it to the one who claims it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Claim<I> {
    /// The degree of the root: the length of its own list of neighbours.
    pub degree: u32,
    /// The root first, the sender last.
    pub path: Vec<I>,
    /// Whether everybody below the sender has this root, and so have all of their neighbours.
    pub is_complete: bool,
}

impl<I: Copy + Eq> Claim<I> {
    /// The longest path that is believed; those who are further away begin a tree of their own
    /// after some ticks, and trees merge. Guess: above the diameter of any graph of hosts.
    pub const MAX_PATH: usize = 1024;

    /// The root that it is about.
    pub fn root(&self) -> Option<I> {
        self.path.first().copied()
    }

    /// The node below which the sender hangs; none if the sender is the root.
    pub fn parent(&self) -> Option<I> {
        self.path.iter().rev().nth(1).copied()
    }

    /// Whether it can be the claim of `from`.
    pub fn is_of(&self, from: I) -> bool {
        self.path.last() == Some(&from) && self.path.len() <= Self::MAX_PATH
    }
}

impl<I: Copy> Message<I> {
    /// The peers that it introduces: the receiver may want to speak to them.
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
