//! From any deployment tree to an oriented ring: [BMG09] Algorithm 1.
//!
//! ```text
//!        r              rules 1, 2: a parent and its first child      r → a, a → c
//!       / \             rules 3–6:  a leaf and the next free sibling  c ⇢ d ⇢ b ⇢ r
//!      a   b              Info climbs while its sender is a last child,
//!     / \                 Ask_Connect steps to the next sibling,
//!    c   d                B_Connect goes from there to the leaf.
//! ```
//!
//! On a stable tree the ring is the tree's preorder, and its neighbours never change, although
//! rules 1 and 3 are applied again and again.
//!
//! Not here: the tree itself (read through [`Family`]), and when rules 1 and 3 are applied
//! ([`Backoff`](crate::backoff::Backoff)).

use serde::{Deserialize, Serialize};

use crate::change::Changed;
use crate::id::Id;
use crate::outbox::Outbox;
use crate::planted::{Bug, Planted};

/// The part of the tree around one process that the ring reads.
pub trait Family<I> {
    /// This process.
    fn me(&self) -> I;

    /// The parent of this process; a root has none.
    fn parent(&self) -> Option<I>;

    /// The first child of this process; a leaf has none.
    fn first_child(&self) -> Option<I>;

    /// The sibling after `child`: `Some(None)` if `child` is the last one, `None` if `child` is no
    /// child of this process.
    fn next_sibling_of(&self, child: I) -> Option<Option<I>>;
}

/// The messages of [BMG09] Algorithm 1. Each is idempotent, and a newer one replaces an older one
/// of its kind between the same two processes.
///
/// Departure: F_Connect and B_Connect carry no identifier. In the paper it is always the sender's,
/// and the transport knows the sender for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To the first child: I am your predecessor.
    FConnect,
    /// To the parent: this leaf looks for its successor.
    Info(I),
    /// To the child behind the one that sent the Info: this leaf is your predecessor.
    AskConnect(I),
    /// To a leaf: I am your successor.
    BConnect,
}

impl<I> Message<I> {
    /// The slot that the message takes between two processes: a newer message of the same slot
    /// replaces an older one.
    pub const fn slot(&self) -> u8 {
        match self {
            Self::FConnect => 0,
            Self::Info(_) => 1,
            Self::AskConnect(_) => 2,
            Self::BConnect => 3,
        }
    }
}

/// The two neighbours of one process in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ring<I> {
    /// The neighbour counterclockwise.
    pub predecessor: Option<I>,
    /// The neighbour clockwise.
    pub successor: Option<I>,
}

impl<I> Default for Ring<I> {
    fn default() -> Self {
        Self {
            predecessor: None,
            successor: None,
        }
    }
}

impl<I: Id> Ring<I> {
    /// Apply the spontaneous rules, 1 and 3.
    pub fn apply_spontaneous<F, M, T, E>(
        &mut self,
        family: &F,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        F: Family<I>,
        M: From<Message<I>>,
    {
        match (family.first_child(), family.parent()) {
            // [BMG09] Alg. 1, rule 1: I have children.
            (Some(first), _) => {
                out.send(first, Message::FConnect);
                Changed::set(&mut self.successor, Some(first))
            }
            // [BMG09] Alg. 1, rule 3: I have no children.
            (None, Some(parent)) => {
                out.send(parent, Message::Info(family.me()));
                Changed::NO
            }
            // Departure: a lone root sends no Info, as it has no parent, and is in no ring. It
            // clears both neighbours.
            (None, None) => Changed::set(self, Self::default()),
        }
    }

    /// Apply the rule of one received message.
    pub fn on_message<F, M, T, E>(
        &mut self,
        from: I,
        message: Message<I>,
        family: &F,
        planted: Planted,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        F: Family<I>,
        M: From<Message<I>>,
    {
        match message {
            Message::FConnect => self.on_f_connect(from, family),
            Message::Info(leaf) => self.on_info(from, leaf, family, planted, out),
            Message::AskConnect(leaf) => self.on_ask_connect(from, leaf, family, planted, out),
            Message::BConnect => self.on_b_connect(from, family),
        }
    }

    /// Forget a process that is gone.
    pub fn forget(&mut self, peer: I) -> Changed {
        let before = *self;
        self.predecessor = self.predecessor.filter(|&known| known != peer);
        self.successor = self.successor.filter(|&known| known != peer);
        Changed(*self != before)
    }

    /// Whether both neighbours are known.
    pub const fn is_complete(&self) -> bool {
        self.predecessor.is_some() && self.successor.is_some()
    }

    /// [BMG09] Alg. 1, rule 2: F_Connect, only from my parent.
    fn on_f_connect<F: Family<I>>(&mut self, from: I, family: &F) -> Changed {
        if family.parent() != Some(from) {
            return Changed::NO;
        }
        Changed::set(&mut self.predecessor, Some(from))
    }

    /// [BMG09] Alg. 1, rule 4: Info, only from one of my children. The leaf's successor is the next
    /// child; after the last child my parent finds it; at the root it is me.
    ///
    /// Departure: a leaf that cannot be the last one under that child is ignored. So a liar can
    /// name neither its parent nor its siblings.
    fn on_info<F, M, T, E>(
        &mut self,
        from: I,
        leaf: I,
        family: &F,
        planted: Planted,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        F: Family<I>,
        M: From<Message<I>>,
    {
        let next = match family.next_sibling_of(from) {
            Some(next) => next,
            None if planted.has(Bug::Rule4Guard) => None,
            None => return Changed::NO,
        };
        if leaf != from && is_close_family(leaf, family) {
            return Changed::NO;
        }
        match (next, family.parent()) {
            (Some(next), _) => out.send(next, Message::AskConnect(leaf)),
            (None, Some(parent)) => out.send(parent, Message::Info(leaf)),
            (None, None) => return self.couple(leaf, planted, out),
        }
        Changed::NO
    }

    /// [BMG09] Alg. 1, rule 5: Ask_Connect. The last leaf of an earlier sibling is before me.
    ///
    /// Departure: only from my parent, and never about me, my parent or a child of mine. The paper
    /// takes any leaf from any process.
    fn on_ask_connect<F, M, T, E>(
        &mut self,
        from: I,
        leaf: I,
        family: &F,
        planted: Planted,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        F: Family<I>,
        M: From<Message<I>>,
    {
        if family.parent() != Some(from) || is_close_family(leaf, family) {
            return Changed::NO;
        }
        self.couple(leaf, planted, out)
    }

    /// [BMG09] Alg. 1, rule 6: B_Connect, from the successor that my Info found.
    ///
    /// Departure: only a leaf with a parent takes it. The successor of any other process is its
    /// first child (rule 1), and a lone root has none.
    fn on_b_connect<F: Family<I>>(&mut self, from: I, family: &F) -> Changed {
        let is_leaf = family.first_child().is_none() && family.parent().is_some();
        if !is_leaf || from == family.me() {
            return Changed::NO;
        }
        Changed::set(&mut self.successor, Some(from))
    }

    /// Take `leaf` as the predecessor, and tell it so, in rules 4 and 5.
    fn couple<M, T, E>(
        &mut self,
        leaf: I,
        planted: Planted,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        M: From<Message<I>>,
    {
        if !planted.has(Bug::LostBConnect) {
            out.send(leaf, Message::BConnect);
        }
        Changed::set(&mut self.predecessor, Some(leaf))
    }
}

/// Whether `peer` is me, my parent or a child of mine.
fn is_close_family<I: Id, F: Family<I>>(peer: I, family: &F) -> bool {
    peer == family.me() || family.parent() == Some(peer) || family.next_sibling_of(peer).is_some()
}
