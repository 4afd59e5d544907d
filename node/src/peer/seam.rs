//! The inputs, messages, timers and events of a peer.

use std::time::Duration;

use binomesh_overlay::detector::{self, Goodbye};
use binomesh_overlay::{self as overlay, Id, Outbox};
use binomesh_routing as routing;
use binomesh_routing::collective::{self, CallError, Outcome};
use binomesh_routing::packet::{CustodyRefusal, Errand};

/// A message between two peers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Message<I> {
    /// Maintenance of the overlay.
    Overlay(overlay::Message<I>),
    /// User messages and what acknowledges them.
    Relay(routing::Message<I>),
    /// Messages of collectives between neighbours.
    Collective(collective::Frame<I>),
}

/// A timer of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A timer of the overlay.
    Overlay(overlay::Timer),
    /// A timer of the relay.
    Relay(routing::Timer),
    /// A timer of the collectives.
    Collective(collective::Timer),
}

impl Timer {
    /// Timers that are shorter than this have no slack. A guess, between the beats of the profiles
    /// `fast` and `default`: slack on fast beats would delay verdicts, no slack on slow ones costs
    /// wake-ups.
    const FAST: Duration = Duration::from_millis(250);

    /// Whether the overlay looks for silent peers when this timer fires: the host gives it
    /// [`Input::Acknowledged`] first.
    pub(crate) const fn is_look(self) -> bool {
        matches!(
            self,
            Self::Overlay(overlay::Timer::Beat | overlay::Timer::Watch)
        )
    }

    /// How much later than `after` this timer may fire, so that an idle host need not wake for it
    /// alone. Periodic timers are randomly early or late by at least half as much in any case. Fast
    /// beats get no slack, since a node with fast beats wants early verdicts.
    pub(crate) fn slack(self, after: Duration) -> Duration {
        match self {
            Self::Overlay(
                overlay::Timer::Beat
                | overlay::Timer::Refresh
                | overlay::Timer::Confirm
                | overlay::Timer::Probe,
            ) if after >= Self::FAST => after / 8,
            _ => Duration::ZERO,
        }
    }

    /// The slack of a look in the middle of a slow beat that can wait: until the next beat.
    pub(crate) fn slack_of_look(beat: Duration) -> Duration {
        beat / detector::HALVES + Self::Overlay(overlay::Timer::Beat).slack(beat)
    }
}

/// An event that a peer handles.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// The process has started.
    Start,
    /// A message came from an authenticated peer.
    Message {
        /// The peer that sent the message.
        from: I,
        /// The message.
        message: Message<I>,
    },
    /// A copy of a message came with an invalid signature of its origin, or without the signature
    /// that the settings require: see [`routing::Input::Unproven`].
    Unproven {
        /// The peer that sent the copy.
        from: I,
        /// The task that came with the copy.
        errand: Errand<I>,
        /// Why the signature is not accepted.
        reason: CustodyRefusal,
    },
    /// The transport of a linked peer has acknowledged a packet since the host last asked.
    Acknowledged {
        /// The linked peer.
        peer: I,
    },
    /// The transport's round-trip time to a linked peer has changed.
    RoundTrip {
        /// The linked peer.
        peer: I,
        /// The smoothed round-trip time.
        time: Duration,
    },
    /// A timer has fired.
    Timer {
        /// The timer that fired.
        timer: Timer,
        /// How much later than asked for it fired.
        late: Duration,
    },
    /// A link is up.
    LinkUp {
        /// The peer at the other end.
        peer: I,
        /// The life of that peer's process.
        boot: u64,
    },
    /// A link broke.
    LinkDown {
        /// The peer at the other end.
        peer: I,
    },
    /// A call of a collective operation.
    Call(Box<collective::Call<I>>),
    /// The caller with this number waits no more.
    CancelCall(u64),
    /// A peer's queue was full and has room again.
    Writable {
        /// The peer whose queue it is.
        peer: I,
    },
    /// Leave gracefully: accept no more messages, and report [`routing::Event::Drained`] when no
    /// message is open.
    Drain,
    /// Conclude the open messages and say goodbye.
    Leave {
        /// The signed goodbye of this life; without it, other members take this node for down.
        proof: Option<Vec<u8>>,
    },
}

impl<I: Id> Message<I> {
    /// The goodbye in this message, if there is one. The host verifies its signature before it
    /// hands the message to a peer.
    pub const fn goodbye(&self) -> Option<&Goodbye<I>> {
        match self {
            Self::Overlay(overlay::Message::Detector(detector::Message::Goodbye(goodbye))) => {
                Some(goodbye)
            }
            _ => None,
        }
    }

    /// The message that stands in for an unproven goodbye: a rumour that the peer is down.
    pub fn unproven(goodbye: &Goodbye<I>) -> Self {
        Self::Overlay(detector::Message::Rumours(vec![goodbye.rumour()]).into())
    }
}

impl<I> Input<I> {
    /// Whether the input is for the relay or the collectives. After such an input the host need not
    /// show the placement anew: a change of the overlay comes with an overlay event, or can wait
    /// for the next beat.
    pub(crate) const fn is_of_relay(&self) -> bool {
        matches!(
            self,
            Self::Writable { .. }
                | Self::RoundTrip { .. }
                | Self::Call(_)
                | Self::CancelCall(_)
                | Self::Unproven { .. }
                | Self::Message {
                    message: Message::Relay(_) | Message::Collective(_),
                    ..
                }
                | Self::Timer {
                    timer: Timer::Relay(_) | Timer::Collective(_),
                    ..
                }
        )
    }
}

/// An event that a peer reports to its host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<I> {
    /// An event of the overlay.
    Overlay(overlay::Event<I>),
    /// An event of the relay: a delivery, a receipt.
    Relay(routing::Event<I>),
    /// The votes of this operation have changed: the host records them before it performs any later
    /// effect, see [`collective::Effect::Record`].
    Record(collective::Key),
    /// The answer to a caller of a collective operation.
    Answer {
        /// The number of the call.
        call: u64,
        /// The outcome, or why there is none.
        outcome: Result<Box<Outcome<I>>, CallError>,
    },
}

/// The outbox of a peer.
pub type Out<I> = Outbox<I, Message<I>, Timer, Event<I>>;
