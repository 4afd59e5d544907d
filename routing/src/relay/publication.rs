//! A message to be published, and the reasons not to accept it.

use std::time::Duration;

use crate::destination::Destination;
use crate::packet::{Confirmation, Payloads, Topic};
use crate::strategy::Strategy;

/// A message to be sent, or several in one packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Publish<I> {
    /// The topic of the message.
    pub topic: Topic,
    /// The user's bytes: of one message, or of several.
    pub payloads: Payloads,
    /// The members that the message is for.
    pub destination: Destination<I>,
    /// The order in which the first round, which issues the message, goes to all members. Later
    /// rounds, for members that were not reached, and messages to some members go by
    /// [`Strategy::Binomial`].
    pub strategy: Strategy,
    /// The time by which the receipt is wanted, and the members it waits for.
    pub due: Due<I>,
    /// The confirmation that each member is asked for.
    pub confirmation: Confirmation,
    /// Whether receivers may put the message in order. An ordered message has a number among the
    /// ordered messages on its topic to the same destinations.
    pub is_ordered: bool,
}

/// When a message's receipt comes at the latest, and which members it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Due<I> {
    /// Wait for each unreached member until it is no member any more, has said goodbye, or has been
    /// called down for `down_patience`; for `down_pressed` while own messages find no room.
    #[default]
    Settled,
    /// As `Settled`, but the receipt comes after this time at the latest.
    Within(Duration),
    /// As `Within`, but a member that is called down is given up after `down_pressed`. For messages
    /// that hold up others.
    Soon(Duration),
    /// The receipt comes after this time at the latest. Until then the message is kept for members
    /// that are called down or have left, and for the peers in `awaited`, which are away already:
    /// each gets it when it comes back. A returning member gets its kept messages one by one, in
    /// the order of publication. At most `max_kept` packets are kept.
    Kept {
        /// How long the message is kept.
        time: Duration,
        /// Peers to wait for besides the members. A listed peer that is a member counts as a member
        /// only. At most `roster_max`.
        awaited: Vec<I>,
    },
}

impl<I> From<Option<Duration>> for Due<I> {
    fn from(time: Option<Duration>) -> Self {
        time.map_or(Self::Settled, Self::Within)
    }
}

impl<I> Due<I> {
    /// After how long the receipt comes at the latest.
    pub const fn time(&self) -> Option<Duration> {
        match self {
            Self::Settled => None,
            Self::Within(time) | Self::Soon(time) | Self::Kept { time, .. } => Some(*time),
        }
    }
}

/// Why a message was not accepted. Nothing was sent, and no sequence was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PublishError<I> {
    /// This node has no place in an epoch yet.
    #[error("this node has no rank yet")]
    Unplaced,
    /// This node is leaving.
    #[error("this node is leaving")]
    Draining,
    /// `max_open` packets are open, or the message would lie beyond the receivers' windows.
    #[error(
        "{0} packets with messages wait for their receipts, and one more does not fit; wait for a receipt"
    )]
    WindowFull(usize),
    /// The payload is too large.
    #[error("the payload has {bytes} bytes; the limit is {max}")]
    PayloadTooLarge {
        /// The size of the payload.
        bytes: usize,
        /// The greatest number of bytes that is allowed.
        max: usize,
    },
    /// With this message the payloads and signatures of open messages would exceed their bound.
    #[error(
        "messages without a receipt hold {bytes} bytes, and the limit is {max}; wait for a receipt"
    )]
    MemoryFull {
        /// The bytes that open messages hold.
        bytes: usize,
        /// The greatest number of bytes that is allowed.
        max: usize,
    },
    /// The room for kept messages is full, by their number or by their bytes.
    #[error("{0} messages are kept for members that are away, and one more does not fit")]
    KeptFull(usize),
    /// More peers are awaited than a roster holds.
    #[error("the message awaits {0} peers; the limit is {1}")]
    TooManyAwaited(usize, u32),
    /// The strategy has a fanout that no tree has.
    #[error("{0:?} is no valid strategy: the fanout of a tree is 2 to {max}", max = Strategy::MAX_FANOUT)]
    ImpossibleStrategy(Strategy),
    /// The list of destinations is empty.
    #[error("the list of destinations is empty")]
    NoDestination,
    /// A destination is this node itself.
    #[error("a destination is this node itself")]
    OwnId,
    /// A destination is no member of the current epoch.
    #[error("{0:?} is not a member of the current epoch")]
    UnknownPeer(I),
    /// A destination has said goodbye, and the message is not to be kept for its return.
    #[error("{0:?} has left the overlay")]
    HasLeft(I),
    /// A destination's rank is not known yet, or two destinations claim the same rank.
    #[error("the rank of {0:?} is not known yet")]
    RosterIncomplete(I),
    /// The message was to be signed, and the key has failed.
    #[error("the key of this node cannot sign messages")]
    NotSigned,
    /// A destination's rank is not known and never will be: the epoch has more
    /// members than rosters are kept for.
    #[error("the rank of {0:?} is not known, since the {1} members are more than a roster holds")]
    RosterTooLarge(I, u32),
}
