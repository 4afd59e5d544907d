//! All messages between overlay machines.

pub mod census;
pub mod detector;
pub mod relayed;
pub mod tree;

mod sibling_order;
mod standing;

use serde::{Deserialize, Serialize};

use crate::stamp::Mark;
use crate::{clique, fingers, ring, spanning};

/// A message between two overlays; each belongs to one layer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// Messages about parents, children and merging.
    Tree(tree::Message<I>),
    /// Messages of [BMG09] Algorithm 1.
    Ring(ring::Message<I>),
    /// Messages about sizes and ranks.
    Census(census::Message<I>),
    /// Messages of [BMG09] Algorithm 2.
    Fingers(fingers::Message<I, Mark<I>>),
    /// Signs of life, rumours and goodbyes.
    Detector(detector::Message<I>),
    /// Messages that a third node carries between two peers without a link.
    Relayed(relayed::Message<I>),
    /// Messages of [FC], before there is a tree.
    Clique(clique::Message<I>),
    /// Messages of [FC] in an arbitrary graph, before there is a tree.
    Spanning(spanning::Message<I>),
}

/// The slot of a message in the queue to its receiver. A newer message with an equal slot takes
/// over the place of an older one. That loses nothing: a maintenance message is idempotent and
/// tells a whole state. A bounded queue without slots would starve some messages for ever. A rumour
/// is sent only once, so two batches of rumours are merged: see [`Message::merge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot<I> {
    /// The kind of the message.
    pub kind: u8,
    /// The finger level, also of a finger message in the clique or on its way through a carrier; 0
    /// for other messages.
    pub level: u8,
    /// The peer that the message is about, if messages about different peers must not replace each
    /// other.
    pub subject: Option<I>,
}

impl<I> Message<I> {
    /// The kind of the message, for metrics.
    pub const fn name(&self) -> &'static str {
        use detector::Message as Detector;
        use tree::Message as Tree;
        match self {
            Self::Tree(Tree::Attach { .. }) => "attach",
            Self::Tree(Tree::Lead(_)) => "lead",
            Self::Tree(Tree::Digest(_) | Tree::Check(_)) => "digest",
            Self::Tree(Tree::AskLead) => "ask-lead",
            Self::Tree(Tree::Redirect(_)) => "redirect",
            Self::Tree(Tree::Refuse(_)) => "refuse",
            Self::Tree(Tree::Detach) => "detach",
            Self::Tree(Tree::Leave) => "leave",
            Self::Tree(Tree::Probe(_)) => "probe",
            Self::Tree(Tree::Together) => "together",
            Self::Tree(Tree::Offer { .. }) => "offer",
            Self::Ring(_) => "ring",
            Self::Census(census::Message::Size { .. }) => "size",
            Self::Census(census::Message::Place { .. }) => "place",
            Self::Census(census::Message::InForce { .. }) => "in-force",
            Self::Fingers(fingers::Message::Up { .. }) => "up",
            Self::Fingers(fingers::Message::Down { .. }) => "down",
            Self::Fingers(fingers::Message::Confirm { .. }) => "confirm",
            Self::Fingers(
                fingers::Message::Confirmed { .. }
                | fingers::Message::Deny { .. }
                | fingers::Message::Seek { .. },
            ) => "confirmed",
            Self::Detector(Detector::Beat { .. }) => "beat",
            Self::Detector(Detector::Ping { .. } | Detector::PingFor(_)) => "ping",
            Self::Detector(Detector::Pong { .. } | Detector::Alive(_)) => "pong",
            Self::Detector(Detector::Rumours(_) | Detector::Doubts(_) | Detector::Standing(_)) => {
                "rumours"
            }
            Self::Detector(Detector::Goodbye(_)) => "goodbye",
            Self::Relayed(_) => "relayed",
            Self::Clique(_) => "clique",
            Self::Spanning(_) => "spanning",
        }
    }
}

impl<I> Message<I> {
    /// Whether the message may be lost, because one of the next beats repeats its content.
    pub const fn may_be_lost(&self) -> bool {
        match self {
            Self::Detector(detector::Message::Beat { mark, reply }) => mark.is_none() && !*reply,
            Self::Tree(message) => {
                matches!(message, tree::Message::Digest(_) | tree::Message::Check(_))
            }
            _ => false,
        }
    }
}

impl<I: Copy> Message<I> {
    /// The slot of the message.
    pub fn slot(&self) -> Slot<I> {
        let (kind, level, subject) = match self {
            Self::Tree(message) => {
                let (kind, subject) = tree_slot(message);
                (kind, 0, subject)
            }
            Self::Ring(message) => (20 + message.slot(), 0, None),
            Self::Census(message) => match message {
                census::Message::Size { .. } => (30, 0, None),
                // Both tell a child which numbering is in force.
                census::Message::Place { .. } | census::Message::InForce { .. } => (31, 0, None),
            },
            Self::Fingers(message) => {
                let (kind, level) = message.slot();
                (40 + kind, level, None)
            }
            Self::Detector(message) => match message {
                detector::Message::Beat { reply: false, .. } => (60, 0, None),
                detector::Message::Beat { reply: true, .. } => (61, 0, None),
                detector::Message::Ping { asker } => (62, 0, *asker),
                detector::Message::Pong { asker } => (63, 0, *asker),
                detector::Message::PingFor(subject) => (64, 0, Some(*subject)),
                detector::Message::Alive(subject) => (65, 0, Some(*subject)),
                detector::Message::Rumours(_) => (66, 0, None),
                detector::Message::Doubts(_) => (67, 0, None),
                detector::Message::Goodbye(goodbye) => (68, 0, Some(goodbye.peer)),
                detector::Message::Standing(_) => (69, 0, None),
            },
            Self::Clique(message) => {
                let (kind, level) = message.body.slot();
                (80 + kind, level, None)
            }
            Self::Spanning(spanning::Message::Claim(_)) => (70, 0, None),
            Self::Spanning(spanning::Message::Placed) => (71, 0, None),
            Self::Relayed(message) => {
                let (base, peer, carried) = match message {
                    relayed::Message::To { to, carried } => (100, to, carried),
                    relayed::Message::From { from, carried } => (180, from, carried),
                };
                let inner = Self::from(carried.clone()).slot();
                (base + inner.kind, inner.level, Some(*peer))
            }
        };
        Slot {
            kind,
            level,
            subject,
        }
    }

    /// Whether an older message of the same slot has to be merged with this one, not replaced.
    pub const fn is_merged(&self) -> bool {
        matches!(self, Self::Detector(detector::Message::Rumours(_)))
    }

    /// Merge with `older`, an earlier message of the same slot: two batches of rumours become one;
    /// otherwise the newer message stays. Also returns how many rumours found no room.
    #[must_use]
    pub fn merge(self, older: Self) -> (Self, usize)
    where
        I: PartialEq,
    {
        use detector::Message::Rumours;
        match (older, self) {
            (Self::Detector(Rumours(older)), Self::Detector(Rumours(newer))) => {
                let (both, dropped) = detector::union(older, newer);
                (Rumours(both).into(), dropped)
            }
            (_, newer) => (newer, 0),
        }
    }

    /// The peers that this message introduces. The receiver may want to send to them, so the
    /// transport adds their addresses.
    pub fn introduces(&self) -> Vec<I> {
        match self {
            Self::Tree(message) => match message {
                tree::Message::Lead(lead) => {
                    let path = lead.path.iter().rev().take(4).map(|step| step.id);
                    let root = [lead.root.id];
                    path.chain(root).chain(lead.heirs.iter().copied()).collect()
                }
                tree::Message::Redirect(to) => vec![*to],
                tree::Message::Offer { root, via } => vec![root.id, *via],
                tree::Message::Probe(root) => vec![root.id],
                _ => Vec::new(),
            },
            Self::Ring(ring::Message::Info(leaf) | ring::Message::AskConnect(leaf)) => vec![*leaf],
            Self::Fingers(
                fingers::Message::Up { subject, .. } | fingers::Message::Down { subject, .. },
            ) => vec![*subject],
            Self::Detector(
                detector::Message::PingFor(subject)
                | detector::Message::Ping {
                    asker: Some(subject),
                },
            ) => vec![*subject],
            Self::Relayed(relayed::Message::From { from, carried }) => {
                let carried = Self::from(carried.clone());
                let inner = carried.introduces().into_iter();
                inner.chain([*from]).collect()
            }
            Self::Clique(message) => message.introduces().into_iter().collect(),
            Self::Spanning(message) => message.introduces(),
            _ => Vec::new(),
        }
    }
}

const fn tree_slot<I: Copy>(message: &tree::Message<I>) -> (u8, Option<I>) {
    match message {
        tree::Message::Attach { .. } => (1, None),
        tree::Message::Lead(_) => (2, None),
        tree::Message::Digest(_) => (3, None),
        tree::Message::AskLead => (4, None),
        tree::Message::Redirect(_) => (5, None),
        tree::Message::Refuse(_) => (6, None),
        tree::Message::Detach => (7, None),
        tree::Message::Leave => (8, None),
        tree::Message::Probe(_) => (9, None),
        tree::Message::Together => (10, None),
        tree::Message::Offer { root, .. } => (11, Some(root.id)),
        tree::Message::Check(_) => (12, None),
    }
}

macro_rules! from_layer {
    ($($layer:ident: $message:ty),+ $(,)?) => {
        $(impl<I> From<$message> for Message<I> {
            fn from(message: $message) -> Self {
                Self::$layer(message)
            }
        })+
    };
}

from_layer! {
    Tree: tree::Message<I>,
    Ring: ring::Message<I>,
    Census: census::Message<I>,
    Fingers: fingers::Message<I, Mark<I>>,
    Detector: detector::Message<I>,
    Relayed: relayed::Message<I>,
    Clique: clique::Message<I>,
    Spanning: spanning::Message<I>,
}

#[cfg(test)]
mod tests {
    use super::relayed::{Carried, Message as Relayed};
    use super::*;

    #[test]
    fn carried_words_replace_only_their_like() {
        let words = || {
            let beat = |reply| Carried::Beat { mark: None, reply };
            let ring = [ring::Message::FConnect, ring::Message::BConnect].map(Carried::Ring);
            ring.into_iter().chain([beat(true), beat(false)])
        };
        let of = |peer: u32| {
            let to = words().map(move |carried| Relayed::To { to: peer, carried });
            let from = words().map(move |carried| Relayed::From {
                from: peer,
                carried,
            });
            to.chain(from).map(Message::from)
        };
        let plain = words().map(Message::<u32>::from);
        let all: Vec<_> = of(1).chain(of(2)).chain(plain).collect();
        let slots: std::collections::BTreeSet<_> = all.iter().map(Message::slot).collect();
        assert_eq!(slots.len(), all.len());
    }

    #[test]
    fn batches_of_rumours_in_one_slot_become_one() {
        let rumour = |peer: u32, is_up| detector::Rumour {
            peer,
            boot: 1,
            incarnation: 0,
            mark: None,
            is_up,
        };
        let batch = |rumours: Vec<_>| Message::from(detector::Message::Rumours(rumours));
        let older = batch(vec![rumour(1, false), rumour(2, false)]);
        let newer = batch(vec![rumour(1, true), rumour(2, false), rumour(3, false)]);
        assert_eq!(older.slot(), newer.slot());
        assert!(newer.is_merged());
        let both = [(1, false), (1, true), (2, false), (3, false)];
        let both = both.map(|(peer, is_up)| rumour(peer, is_up)).to_vec();
        assert_eq!(newer.merge(older), (batch(both), 0));
    }

    #[test]
    fn state_is_replaced() {
        let beat = |mark| Message::<u32>::from(detector::Message::Beat { mark, reply: true });
        let place = crate::Placement::scrambled(&mut crate::noise::Noise::new(1), 7);
        let newer = beat(Some(crate::stamp::Stamp::ahead(&place, 0)));
        assert!(!newer.is_merged());
        assert_eq!(newer.clone().merge(beat(None)), (newer, 0));
    }
}
