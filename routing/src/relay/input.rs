//! What a relay is told, and what it asks for and tells.

use std::time::Duration;

use binomesh_overlay::{Epoch, Outbox, Placement};

use super::{Delivery, Receipt};
use crate::packet::{Errand, Message, Refusal};

/// What the relay asks of its host.
pub type Effects<I> = Outbox<I, Message<I>, Timer, Event<I>>;

/// This node's place and tables in one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View<I> {
    /// Epoch, population and own rank.
    pub placement: Placement<I>,
    /// The peer at my rank + 2^i, if known; level 0 is the successor.
    pub clockwise: Vec<Option<I>>,
    /// The peer at my rank − 2^i, if known; level 0 is the predecessor.
    pub counterclockwise: Vec<Option<I>>,
}

/// What a relay is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// A new placement, or new tables in the newest one.
    View(View<I>),
    /// A message from an authenticated peer.
    Message {
        /// Who sent it.
        from: I,
        /// What it says.
        message: Message<I>,
    },
    /// A copy from an authenticated peer that is not signed by its origin as it ought to
    /// be. Of its content the relay hears nothing.
    Unproven {
        /// Who sent it.
        from: I,
        /// What it asked.
        errand: Errand<I>,
        /// What is wrong: [`Refusal::Unsigned`] or [`Refusal::Signature`].
        reason: Refusal,
    },
    /// An armed timer fired.
    Timer {
        /// Which.
        timer: Timer,
        /// How much later than asked: large after this process was paused.
        late: Duration,
    },
    /// A verdict says that this peer is down. Who expires or cancels a verdict
    /// sends [`Input::PeerUp`]; a message from the peer cancels it too.
    PeerDown(I),
    /// This peer has left, as it has signed. What is accepted from now on is not meant for it,
    /// and nobody waits for it, until [`Input::PeerUp`].
    PeerLeft(I),
    /// The verdict is withdrawn: there was contact, or it expired. Also when a
    /// link to the peer is up: it may run as another process by now, which knows
    /// nothing of the parts that its former one answered for.
    PeerUp(I),
    /// The link to this peer is up or writable again: what was sent without an
    /// answer is sent again now instead of at its timer.
    Writable(I),
    /// How long the transport says that a packet to this peer and its acknowledgement
    /// take, smoothed. Who is never told knows less, and waits from a floor up.
    RoundTrip {
        /// To whom.
        peer: I,
        /// The time.
        time: Duration,
    },
}

/// A timer of the relay; arming an equal one replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A part was handed out: custody is late, or done is.
    Delegation {
        /// Within which duty.
        duty: u64,
        /// Which of its delegations.
        delegation: u64,
    },
    /// A packet of an unknown epoch was held long enough.
    Held(u64),
    /// Custody of short messages that are not done yet is due.
    Custody,
    /// The roster asks again.
    Roster,
    /// Own broadcasts have waited for a complete roster long enough.
    Waiting,
    /// The verdict with this number has stood for `down_pressed`, then for `down_patience`.
    Patience(u64),
    /// The member with this number has been draining for `down_pressed`, then for
    /// `down_patience`.
    Drain(u64),
    /// What is left of the own message with this sequence is issued again.
    Reissue(u64),
    /// The own message with this sequence has run out of time.
    Deadline(u64),
}

/// What a relay tells its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<I> {
    /// Messages of one packet for the local subscribers, each once per boot.
    Deliver(Box<Delivery<I>>),
    /// What became of an own message, or of all in one packet, once for each packet
    /// that was accepted.
    Receipt(Box<Receipt<I>>),
    /// Every rank of this epoch has a known peer.
    RosterComplete(Epoch<I>),
    /// After [`super::Relay::withdraw`]: no duty and no own message is open any more.
    Drained,
}
