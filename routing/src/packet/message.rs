//! What relays say to each other.

use binomesh_overlay::{Epoch, Id, Rank};
use serde::{Deserialize, Serialize};

use super::{Errand, Exception, Packet, Part, Refusal, Span};
use crate::strategy::Strategy;

/// Which stream a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Acknowledgements and roster queries: small, never behind payloads.
    Control,
    /// User packets.
    Packet,
}

/// One message between two relays.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// A copy of a published message, with a part to answer for.
    Packet(Box<Packet<I>>),
    /// I have it and answer for this part. Sent again when something in the part
    /// is late, so that one late member does not leave the others in doubt.
    Custody {
        /// What I answer for.
        errand: Errand<I>,
        /// All of the part but these has delivered; at most
        /// [`Message::MAX_PENDING`] spans.
        pending: Vec<Span>,
    },
    /// Every member of this part has delivered, but for the exceptions.
    Done {
        /// What is done.
        errand: Errand<I>,
        /// Who is not known to have delivered; at most [`Message::MAX_EXCEPTIONS`].
        exceptions: Vec<Exception<I>>,
        /// How many re-delegations it took.
        redelegated: u32,
        /// From whom parts were taken on the way, dead or late; at most
        /// [`Message::MAX_REPLACED`], others are not named.
        replaced: Vec<I>,
    },
    /// I do not answer for this part.
    Refused {
        /// What is refused.
        errand: Errand<I>,
        /// Why.
        reason: Refusal,
    },
    /// How is this errand? Answered by custody, done or a refusal: it repairs a
    /// lost acknowledgement and offers a payload before it is sent again, or to somebody else.
    Inquire {
        /// What is asked about.
        errand: Errand<I>,
        /// Who is meant at the start of a range; `None` if whoever stands there is.
        name: Option<I>,
    },
    /// I am your child, or the one beside you, in the sibling tree of this epoch
    /// ([SFT06] §3.1, `hello`): this link stays while the epoch does.
    Hello {
        /// In which numbering.
        epoch: Epoch<I>,
        /// The sender's rank in it.
        rank: Rank,
        /// Of which tree.
        fanout: u32,
    },
    /// Which peers hold `count` ranks from `start` on?
    RosterAsk {
        /// In which numbering.
        epoch: Epoch<I>,
        /// The first rank.
        start: Rank,
        /// How many; at most [`Message::MAX_ROSTER`] are told.
        count: u32,
    },
    /// The peers of the ranks from `start` on.
    RosterTell {
        /// In which numbering.
        epoch: Epoch<I>,
        /// The first rank.
        start: Rank,
        /// Its holder and the next ones, at most [`Message::MAX_ROSTER`].
        peers: Vec<I>,
    },
}

impl<I> Message<I> {
    /// The most exceptions that a done names one by one.
    pub const MAX_EXCEPTIONS: usize = 256;
    /// The most hops that a done names as replaced.
    pub const MAX_REPLACED: usize = 64;
    /// The most spans that custody names as pending.
    pub const MAX_PENDING: usize = 64;
    /// The most peers in one roster answer.
    pub const MAX_ROSTER: usize = 256;

    /// The peers that this message introduces: the receiver may want to speak to
    /// them, so the transport tells it where they are.
    pub fn introduces(&self) -> Vec<I>
    where
        I: Copy,
    {
        match self {
            Self::RosterTell { peers, .. } => peers.clone(),
            _ => Vec::new(),
        }
    }

    /// Which stream it belongs to.
    pub const fn class(&self) -> Class {
        match self {
            Self::Packet(_) => Class::Packet,
            _ => Class::Control,
        }
    }

    /// Whether it is sent only in answer to something.
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
    /// Whether all lists and numbers are within their bounds; the first that is not. What
    /// is read from a peer is checked once, by the codec.
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
