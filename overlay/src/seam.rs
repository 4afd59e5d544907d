//! What goes into the overlay machine and what comes out.

use std::fmt;
use std::time::Duration;

use crate::{Message, Outbox, Population};

/// The outbox of an overlay.
pub type Out<I> = Outbox<I, Message<I>, Timer, Event<I>>;

/// What happens to an overlay.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// The process has started; comes first and once.
    Start,
    /// A message came from an authenticated peer.
    Message {
        /// Who sent it, as the transport knows it.
        from: I,
        /// What it says.
        message: Message<I>,
    },
    /// An authenticated peer has said something to another machine.
    Heard {
        /// Who.
        peer: I,
    },
    /// The transport of one of [`Overlay::silent_neighbours`] has acknowledged
    /// something since it was looked at last.
    ///
    /// [`Overlay::silent_neighbours`]: crate::Overlay::silent_neighbours
    Acknowledged {
        /// Whose.
        peer: I,
    },
    /// A timer has fired.
    Timer {
        /// Which.
        timer: Timer,
        /// How much later than asked for.
        late: Duration,
    },
    /// A link is up.
    LinkUp {
        /// To whom.
        peer: I,
        /// The life of that peer's process.
        boot: u64,
    },
    /// The link is down and was not closed by either side on purpose.
    LinkDown {
        /// To whom.
        peer: I,
    },
    /// Leave the overlay gracefully.
    Leave {
        /// This node's goodbye, signed; without, others take it for down.
        proof: Option<Vec<u8>>,
    },
}

/// The timers of an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Ask the next candidate for a place.
    Seek,
    /// Beat, and repeat what may have been lost.
    Beat,
    /// Judge silence.
    Watch,
    /// Apply the spontaneous rules of ring and fingers again.
    Refresh,
    /// Confirm the next finger level.
    Confirm,
    /// Probe the next lost contact.
    Probe,
    /// No change for a while: name an epoch.
    EpochSettled,
    /// Changes have gone on for long enough: name an epoch.
    EpochLatest,
    /// Forget the previous epoch.
    Retire,
    /// Judge those who were accused by others.
    Judge,
    /// Tell others what was found out about peers.
    Share,
    /// Tell the parent what changed while there were too many reports.
    Report,
    /// No further peer was met, or no answer came, for a while.
    GatherQuiet,
    /// Peers have been met for long enough, or latecomers answered.
    GatherLatest,
}

/// What an overlay tells its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<I> {
    /// The placement or a finger of the current epoch changed.
    View,
    /// A peer is down: its silence, or another's word for it.
    Down(I),
    /// A peer has left: its own word, which its host has found proven.
    Left {
        /// Who.
        peer: I,
        /// In which life of its process.
        boot: u64,
    },
    /// A peer that was called down, or has left, is up.
    Up(I),
    /// A peer is no longer called down: nobody has heard of it for so long that what
    /// was said of it has expired. It may be tried again.
    Expired(I),
    /// The neighbours in the ring are others than before.
    Relinked,
    /// This node stands in a new epoch.
    Renumbered {
        /// The population before, if it stood in one.
        from: Option<Population>,
        /// The population now.
        to: Population,
    },
    /// A round of asking for a place ended in vain; the next follows.
    Seeking {
        /// How many rounds have.
        rounds: u32,
    },
}

/// Whether a node sees anything wrong from where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// Nothing is wrong.
    Healthy,
    /// It has no way to a root.
    Unanchored,
    /// No epoch counts it yet.
    Unplaced,
    /// It is the root and is about to name an epoch.
    Counting,
    /// Its parent has not told it its place for a while.
    NoParent,
    /// It lacks a ring neighbour.
    NoRing,
    /// It lacks a finger.
    MissingFingers,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Unanchored => "looking for a parent",
            Self::Unplaced => "not yet counted in an epoch",
            Self::Counting => "the members have changed, a new epoch is due",
            Self::NoParent => "the parent has not been heard of for a while",
            Self::NoRing => "a ring neighbour is not known yet",
            Self::MissingFingers => "a finger is not known yet",
        })
    }
}
