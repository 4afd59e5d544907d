//! A message that is to be sent, and why it may not be accepted.

use std::time::Duration;

use crate::packet::{Confirmation, Payloads, Topic};
use crate::strategy::Strategy;

/// To whom a message goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Destination<I> {
    /// Every member but the origin, in the epoch in which it is issued. That is
    /// the newest one once its roster is complete, so that all members have
    /// names by which later epochs find them; `roster_wait` bounds the wait.
    All,
    /// The same, but for these, who are not waited for and have no line in the receipt.
    /// They stand where they stand in the order: those that are well get the message and
    /// pass it on. At most `roster_max`; further ones are waited for.
    AllBut(Vec<I>),
    /// These members and no others, by name: whoever else stands at the rank of one
    /// does not take the message in its place. Duplicates count once.
    Peers(Vec<I>),
}

impl<I> Destination<I> {
    /// Whether it goes to all members.
    pub const fn is_all(&self) -> bool {
        matches!(self, Self::All | Self::AllBut(_))
    }
}

/// A message to be sent, or several in one packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Publish<I> {
    /// What it is about.
    pub topic: Topic,
    /// The user's bytes.
    pub payloads: Payloads,
    /// To whom.
    pub destination: Destination<I>,
    /// In which order it goes to all members; what is left after that goes round by
    /// [`Strategy::Binomial`], and so does what is for some members.
    pub strategy: Strategy,
    /// When the receipt is wanted.
    pub due: Due<I>,
    /// What is asked of each member.
    pub confirmation: Confirmation,
    /// Whether receivers may sort it: it is numbered among what is published in order on
    /// its topic and to the same destinations.
    pub is_ordered: bool,
}

/// When a message's receipt is wanted at the latest, and for whom it waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Due<I> {
    /// As long as an unreached member stays a member that is not called down for
    /// longer than `down_patience`; than `down_pressed` while own messages find no room.
    #[default]
    Settled,
    /// The same, and after this time at the latest.
    Within(Duration),
    /// As `Within`, but whoever is called down is given up after `down_pressed`. For messages
    /// that hold up others.
    Soon(Duration),
    /// After this time at the latest, and until then it is kept for members that are
    /// called down or have left, and for these peers, which are away already: who
    /// comes back gets it. What was published before its return reaches it one by one, in
    /// that order. At most `max_kept` messages.
    Kept {
        /// How long.
        time: Duration,
        /// For whom as well; members among them are members and nothing else. At
        /// most `roster_max`.
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

/// Why a message was not accepted; nothing was sent and no sequence was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PublishError<I> {
    /// This node has no place in an epoch yet.
    #[error("this node has no rank yet")]
    Unplaced,
    /// This node is leaving.
    #[error("this node is leaving")]
    Draining,
    /// As many packets are open as may be, or as many messages as the receivers'
    /// windows hold.
    #[error("{0} packets with messages are open, and one more does not fit; wait for a receipt")]
    WindowFull(usize),
    /// The payload is too large.
    #[error("the payload has {bytes} bytes; at most {max} are taken")]
    PayloadTooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// The payloads of the open messages fill their memory bound.
    #[error("open messages hold {bytes} bytes, the bound is {max}; wait for a receipt")]
    MemoryFull {
        /// What they hold.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// As many messages are kept for members that are away as may be, by their number or
    /// their bytes.
    #[error("{0} messages are kept for members that are away, and one more does not fit")]
    KeptFull(usize),
    /// More peers are awaited than a roster holds.
    #[error("{0} peers are awaited; at most {1} can be")]
    TooManyAwaited(usize, u32),
    /// The strategy has a fanout that no tree has.
    #[error("{0:?} is not possible: the fanout of a tree is 2 ..= {max}", max = Strategy::MAX_FANOUT)]
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
    #[error("{0:?} has left")]
    HasLeft(I),
    /// A destination's rank is not known, because not all ranks are (yet).
    #[error("the rank of {0:?} is not known yet")]
    RosterIncomplete(I),
    /// It was to be signed, and the key has failed.
    #[error("the key does not sign")]
    NotSigned,
    /// A destination's rank is not known and never will be: the epoch has more
    /// members than rosters are kept for.
    #[error("the rank of {0:?} is not known: {1} members are more than a roster holds")]
    RosterTooLarge(I, u32),
}
