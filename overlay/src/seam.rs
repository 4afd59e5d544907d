//! The inputs, timers and events of the overlay machine.

use std::fmt;
use std::time::Duration;

use crate::{Message, Outbox, Population};

/// The outbox of an overlay.
pub type Out<I> = Outbox<I, Message<I>, Timer, Event<I>>;

/// An input of an overlay.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// The process has started; comes first and once.
    Start,
    /// A message came from an authenticated peer.
    Message {
        /// The sender, as the transport knows it.
        from: I,
        /// The message itself.
        message: Message<I>,
    },
    /// An authenticated peer has sent a message to another machine of this process.
    Heard {
        /// The sender of the message.
        peer: I,
    },
    /// Since the last look the transport of one of [`Overlay::silent_neighbours`] has acknowledged
    /// a packet.
    ///
    /// [`Overlay::silent_neighbours`]: crate::Overlay::silent_neighbours
    Acknowledged {
        /// The peer whose transport acknowledged.
        peer: I,
    },
    /// A timer has fired.
    Timer {
        /// The timer that has fired.
        timer: Timer,
        /// How much later than asked for the timer has fired.
        late: Duration,
    },
    /// A link is up.
    LinkUp {
        /// The peer at the other end.
        peer: I,
        /// The life of that peer's process.
        boot: u64,
    },
    /// The link is down. A link that neither side needed, or that the peer has replaced by another
    /// connection, is not reported.
    LinkDown {
        /// The peer at the other end.
        peer: I,
    },
    /// Leave the overlay gracefully.
    Leave {
        /// This node's signed goodbye; without it the others take the node for down.
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
    /// Look for silent peers and judge them.
    Watch,
    /// Apply the spontaneous rules of ring and fingers again.
    Refresh,
    /// Confirm the next finger level.
    Confirm,
    /// Probe the next peers that may be in another tree.
    Probe,
    /// The members have not changed for a while: name an epoch if one is still needed.
    EpochSettled,
    /// The longest wait for further changes of the members is over: name an epoch if one is still
    /// needed.
    EpochLatest,
    /// Forget the fingers of the previous epoch.
    Retire,
    /// Judge the peers that others have accused.
    Judge,
    /// Tell other nodes what was found out about peers.
    Share,
    /// Tell the parent the last change, which was held back because there were too many reports.
    Report,
    /// In a gathering: no further peer was met, or no answer came, for a while. In a survey: a tick
    /// has passed.
    GatherQuiet,
    /// The present stage of a gathering or survey has taken long enough.
    GatherLatest,
}

/// An event of an overlay, for its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<I> {
    /// The placement or a finger of the current epoch changed.
    View,
    /// A peer is down: by its silence, by the word of another node, or because it leaves without a
    /// proof. A neighbour that has restarted is down, too, and `Up` follows at once.
    Down(I),
    /// A peer has left, by its own word, which the host has found proven.
    Left {
        /// The peer that has left.
        peer: I,
        /// The life of its process that has ended.
        boot: u64,
    },
    /// A peer that was taken for down, or has left, is up.
    Up(I),
    /// A peer no longer counts as down, and may be tried again. The rumours about the peer have
    /// expired, since no node has repeated them; or its goodbye has expired, or newer ones have
    /// displaced it.
    Expired(I),
    /// Both ring neighbours are known, and at least one is another than the owner was last told.
    Relinked,
    /// This node has a new place: a rank in a new epoch, or its former rank, which it has found
    /// again.
    Renumbered {
        /// The population before, if the node had a place.
        from: Option<Population>,
        /// The population now.
        to: Population,
    },
    /// A round of asking for a place has ended without success. The next one follows, or the node
    /// becomes a root.
    Seeking {
        /// How many rounds have ended.
        rounds: u32,
    },
}

/// The health of a node, as far as the node itself can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// The node has its place, and its tables are complete.
    Healthy,
    /// The node has no path to a root.
    Unanchored,
    /// The node has no rank in the numbering in force.
    Unplaced,
    /// The node is the root and is about to name an epoch.
    Counting,
    /// For a while the parent has told the node neither its place nor the numbering in force.
    NoParent,
    /// A ring neighbour is unknown.
    NoRing,
    /// A finger is unknown.
    MissingFingers,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Unanchored => "the node is looking for a parent",
            Self::Unplaced => "the node is not yet counted in an epoch",
            Self::Counting => "the members have changed, and a new epoch has not begun yet",
            Self::NoParent => "the parent has not been heard from for a while",
            Self::NoRing => "a ring neighbour is not known yet",
            Self::MissingFingers => "a finger is not known yet",
        })
    }
}
