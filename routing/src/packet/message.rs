//! The messages that relays send to each other.

use binomesh_overlay::{Epoch, Id, Rank};
use serde::{Deserialize, Serialize};

use super::{CustodyRefusal, Errand, Exception, Packet, Part, Span};
use crate::strategy::Strategy;

/// The class of a message: which stream of a link carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// All messages without payloads: acknowledgements, questions, hellos and rosters. They are
    /// small and never wait behind payloads.
    Control,
    /// Packets with payloads of users.
    Packet,
}

/// One message between two relays.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// A copy of a published message, with a part that the receiver shall answer for.
    Packet(Box<Packet<I>>),
    /// I have the packet and answer for this part. Custody is sent again when members of the part
    /// are late, so that one late member does not leave the others in doubt.
    Custody {
        /// The errand that the sender has taken.
        errand: Errand<I>,
        /// The positions that may not have delivered yet; all others of the part have. At most
        /// [`Message::MAX_PENDING`] spans.
        pending: Vec<Span>,
    },
    /// Every member of this part has delivered, except for `exceptions`.
    Done {
        /// The errand that is done.
        errand: Errand<I>,
        /// Members that refused or may not have delivered; at most [`Message::MAX_EXCEPTIONS`].
        exceptions: Vec<Exception<I>>,
        /// How many re-delegations the errand needed.
        redelegated: u32,
        /// Members from which a part was taken because they were down or late, had left, or refused
        /// it. At most [`Message::MAX_REPLACED`]; more are not named.
        replaced: Vec<I>,
    },
    /// I do not answer for this part.
    Refused {
        /// The errand that is refused.
        errand: Errand<I>,
        /// The reason of the refusal.
        reason: CustodyRefusal,
    },
    /// A question about the state of this errand. The answer is custody, done or a refusal. The
    /// answer replaces an acknowledgement that was lost. The question also offers a payload, before
    /// the payload is sent again or to another member.
    Inquire {
        /// The errand in question.
        errand: Errand<I>,
        /// The peer that is meant at the start of a range; `None` if the range is for whichever
        /// peer stands there, or the part is routed.
        name: Option<I>,
    },
    /// I am your child, or your neighbour in a ring, in the sibling tree of this epoch ([SFT06]
    /// §3.1, `hello`). I hold this link until a later epoch has a tree in which I am neither.
    Hello {
        /// The epoch of the tree.
        epoch: Epoch<I>,
        /// The sender's rank in that epoch.
        rank: Rank,
        /// The fanout of the tree.
        fanout: u32,
    },
    /// Which peers hold `count` ranks from `start` on?
    RosterAsk {
        /// The epoch that the ranks belong to.
        epoch: Epoch<I>,
        /// The first rank that is asked for.
        start: Rank,
        /// How many ranks; at most [`Message::MAX_ROSTER`] are answered.
        count: u32,
    },
    /// The answer: the peers at the ranks from `start` on.
    RosterTell {
        /// The epoch that the ranks belong to.
        epoch: Epoch<I>,
        /// The first rank of the answer.
        start: Rank,
        /// The holders of the first rank and the next ones; at most [`Message::MAX_ROSTER`].
        peers: Vec<I>,
    },
}

impl<I> Message<I> {
    /// The most exceptions that a done names one by one.
    pub const MAX_EXCEPTIONS: usize = 256;
    /// The most members that a done names as replaced.
    pub const MAX_REPLACED: usize = 64;
    /// The most spans that custody names as pending.
    pub const MAX_PENDING: usize = 64;
    /// The most peers in one roster answer.
    pub const MAX_ROSTER: usize = 256;

    /// The peers that this message introduces. The receiver may want to reach them, so the
    /// transport sends their addresses along.
    pub fn introduces(&self) -> Vec<I>
    where
        I: Copy,
    {
        match self {
            Self::RosterTell { peers, .. } => peers.clone(),
            _ => Vec::new(),
        }
    }

    /// The class of this message.
    pub const fn class(&self) -> Class {
        match self {
            Self::Packet(_) => Class::Packet,
            _ => Class::Control,
        }
    }

    /// Whether this message is only sent as an answer.
    pub const fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::Custody { .. }
                | Self::Done { .. }
                | Self::Refused { .. }
                | Self::RosterTell { .. }
        )
    }

    /// The name used in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Packet(_) => "packet",
            Self::Custody { .. } => "custody",
            Self::Done { .. } => "done",
            Self::Refused { .. } => "refused",
            Self::Inquire { .. } => "inquire",
            Self::Hello { .. } => "hello",
            Self::RosterAsk { .. } => "roster-ask",
            Self::RosterTell { .. } => "roster-tell",
        }
    }
}

impl<I: Id> Message<I> {
    /// Check that all lists and numbers are within their bounds; the error is the first that is
    /// not. The codec calls this once for each message from a peer.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let holds = |field: &'static str, is_good: bool| match is_good {
            true => Ok(()),
            false => Err(field),
        };
        match self {
            Self::Packet(packet) => packet.check(),
            Self::Custody { errand, pending } => {
                let is_empty = |span: &Span| span.is_empty();
                let is_good = pending.len() <= Self::MAX_PENDING && !pending.iter().any(is_empty);
                holds("pending", is_good)?;
                errand.check()
            }
            Self::Inquire { errand, name } => {
                let is_routed = matches!(errand.part, Part::Routed { .. });
                holds("name", !is_routed || name.is_none())?;
                errand.check()
            }
            Self::Refused { errand, .. } => errand.check(),
            Self::Done {
                errand,
                exceptions,
                replaced,
                ..
            } => {
                let is_empty = |exception: &Exception<I>| exception.span.is_empty();
                let is_short = exceptions.len() <= Self::MAX_EXCEPTIONS;
                holds("exceptions", is_short && !exceptions.iter().any(is_empty))?;
                holds("replaced", replaced.len() <= Self::MAX_REPLACED)?;
                errand.check()
            }
            Self::Hello { fanout, .. } => {
                let tree = Strategy::SiblingTree { fanout: *fanout };
                holds("fanout", tree.is_possible())
            }
            Self::RosterAsk { .. } => Ok(()),
            Self::RosterTell { peers, .. } => holds("peers", peers.len() <= Self::MAX_ROSTER),
        }
    }
}
