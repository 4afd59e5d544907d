//! What relays say to each other.

use binomesh_overlay::{Epoch, Rank};
use serde::{Deserialize, Serialize};

use super::{Errand, Exception, Packet, Refusal, Span};

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
