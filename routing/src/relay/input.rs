//! The inputs of a relay, its timers, and the events that it emits.

use std::time::Duration;

use binomesh_overlay::{Epoch, Outbox, Placement};

use super::{Delivery, Receipt};
use crate::packet::{CustodyRefusal, Errand, Message};

/// The effects that a relay asks its host to perform.
pub type Effects<I> = Outbox<I, Message<I>, Timer, Event<I>>;

/// This node's place and tables in one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View<I> {
    /// Epoch, population and own rank.
    pub placement: Placement<I>,
    /// The peer at this node's rank + 2^i, if known; level 0 is the successor.
    pub clockwise: Vec<Option<I>>,
    /// The peer at this node's rank − 2^i, if known; level 0 is the predecessor.
    pub counterclockwise: Vec<Option<I>>,
}

/// An input to a relay.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// A new placement, or new tables in the newest one.
    View(View<I>),
    /// A message from an authenticated peer.
    Message {
        /// The peer that sent it.
        from: I,
        /// The content of the message.
        message: Message<I>,
    },
    /// A copy that an authenticated peer has sent, and that the origin of its message has not
    /// signed as required. The relay is not given its content.
    Unproven {
        /// The peer that sent it.
        from: I,
        /// The errand of the copy: the part of which message this node was asked to answer for.
        errand: Errand<I>,
        /// The fault: [`CustodyRefusal::Unsigned`] or [`CustodyRefusal::Signature`].
        reason: CustodyRefusal,
    },
    /// An armed timer fired.
    Timer {
        /// The timer that fired.
        timer: Timer,
        /// How long after its time the timer fired. More than
        /// [`Config::pause`](super::Config::pause) shows that this process was paused.
        late: Duration,
    },
    /// A verdict: the overlay says that this peer is down. The host sends [`Input::PeerUp`] when
    /// the verdict expires or is withdrawn. A message from the peer ends the verdict, too.
    PeerDown(I),
    /// This peer has said goodbye, in a signed message. Until a later [`Input::PeerUp`] or
    /// [`Input::PeerDown`], only messages that are accepted with [`Due::Kept`](super::Due::Kept)
    /// are meant for it, and no other message waits for it.
    PeerLeft(I),
    /// The verdict on this peer is withdrawn, because there was contact or it expired. This input
    /// also follows when a link to the peer comes up. The peer may run as a new process by then,
    /// which knows nothing of the parts that the former one answered for.
    PeerUp(I),
    /// The link to this peer is up or writable again. Copies, and offers of a copy, that the peer
    /// has not answered are sent again now, and not at their timers. Questions about parts in its
    /// custody wait for their timers.
    Writable(I),
    /// The smoothed round-trip time of the link to a peer, as measured by the transport. Without
    /// this input the relay learns from late custody alone, beginning at
    /// [`Config::CUSTODY_FLOOR`](super::Config::CUSTODY_FLOOR).
    RoundTrip {
        /// The peer at the other end.
        peer: I,
        /// The round-trip time.
        time: Duration,
    },
}

/// A timer of the relay; arming an equal one replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A part that was handed out is late: *custody*, *done* or the answer to a question is
    /// missing, or the copy is still held.
    Delegation {
        /// The number of the duty that the part belongs to.
        duty: u64,
        /// The number of the delegation, which is this handed-out part of the duty.
        delegation: u64,
    },
    /// The packet with this number was held for its unknown epoch for long enough.
    Held(u64),
    /// The delayed answer *custody* has to be sent now for short messages that are not done yet.
    Custody,
    /// Missing names of the rosters are asked for again.
    Roster,
    /// Own broadcasts have waited for a complete roster for long enough.
    Waiting,
    /// The verdict with this number has stood for `down_pressed`, then for `down_patience`.
    Patience(u64),
    /// The member with this number has been draining for `down_pressed`, then for
    /// `down_patience`.
    Drain(u64),
    /// The own message with this sequence is issued again to its outstanding members.
    Reissue(u64),
    /// The deadline of the own message with this sequence has come.
    Deadline(u64),
}

/// An event that a relay emits for its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<I> {
    /// Messages of one packet for the local subscribers. Each message is delivered once per boot of
    /// its origin.
    Deliver(Box<Delivery<I>>),
    /// The receipt of an own message, or of all in one packet. Each accepted packet has exactly
    /// one.
    Receipt(Box<Receipt<I>>),
    /// The roster of this epoch is complete: the peer at every rank is known.
    RosterComplete(Epoch<I>),
    /// After [`super::Relay::withdraw`]: no duty and no own message is open any more.
    Drained,
}
