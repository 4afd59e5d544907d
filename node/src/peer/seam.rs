//! What goes into a peer and what comes out.

use std::time::Duration;

use binomesh_overlay::detector::{self, Goodbye};
use binomesh_overlay::{self as overlay, Id, Outbox};
use binomesh_routing as routing;
use binomesh_routing::collective::{self, CallError, Outcome};
use binomesh_routing::packet::{Errand, Refusal};

/// A message between two peers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Message<I> {
    /// Maintenance of the overlay.
    Overlay(overlay::Message<I>),
    /// User messages and what acknowledges them.
    Relay(routing::Message<I>),
    /// What collectives say to each other from neighbour to neighbour.
    Collective(collective::Frame<I>),
}

/// A timer of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// One of the overlay's.
    Overlay(overlay::Timer),
    /// One of the relay's.
    Relay(routing::Timer),
    /// One of the collectives'.
    Collective(collective::Timer),
}

impl Timer {
    /// Shorter timers have no slack. Guess: between the beats of the profiles `fast`
    /// and `default`.
    const FAST: Duration = Duration::from_millis(250);

    /// Whether silence is looked at when it fires: [`Input::Acknowledged`] comes
    /// before it.
    pub(crate) const fn is_look(self) -> bool {
        matches!(
            self,
            Self::Overlay(overlay::Timer::Beat | overlay::Timer::Watch)
        )
    }

    /// By how much this timer may be late, armed to fire `after` so long, so that an
    /// idle host need not wake for it alone: what is done by the clock again and again
    /// is spread by half as much in any case. Whoever beats fast wants to be in time.
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

    /// The same of a look in the middle of such a beat, when it can wait: until the beat.
    pub(crate) fn slack_of_look(beat: Duration) -> Duration {
        beat / detector::HALVES + Self::Overlay(overlay::Timer::Beat).slack(beat)
    }
}

/// What happens to a peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// The process has started.
    Start,
    /// A message came from an authenticated peer.
    Message {
        /// Who sent it.
        from: I,
        /// What it says.
        message: Message<I>,
    },
    /// A copy of a message came that is not signed by its origin as it ought to be: see
    /// [`routing::Input::Unproven`].
    Unproven {
        /// Who sent it.
        from: I,
        /// What it asked.
        errand: Errand<I>,
        /// What is wrong.
        reason: Refusal,
    },
    /// The transport of a linked peer has acknowledged something since it was
    /// looked at last.
    Acknowledged {
        /// Whose.
        peer: I,
    },
    /// The transport's round-trip time to a linked peer has changed.
    RoundTrip {
        /// To whom.
        peer: I,
        /// The time, smoothed.
        time: Duration,
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
    /// A link broke.
    LinkDown {
        /// To whom.
        peer: I,
    },
    /// A caller of a collective operation.
    Call(Box<collective::Call<I>>),
    /// The caller with this number waits no more.
    CancelCall(u64),
    /// A peer's queue was full and has room again.
    Writable {
        /// Whose.
        peer: I,
    },
    /// Leave gracefully: accept no more messages and tell
    /// [`routing::Event::Drained`] when none is open.
    Drain,
    /// Conclude what is open and say goodbye.
    Leave {
        /// The goodbye of this life, signed; without, others take it for down.
        proof: Option<Vec<u8>>,
    },
}

impl<I: Id> Message<I> {
    /// The goodbye in it, if it brings one: whoever hands it to a peer verifies it first.
    pub const fn goodbye(&self) -> Option<&Goodbye<I>> {
        match self {
            Self::Overlay(overlay::Message::Detector(detector::Message::Goodbye(goodbye))) => {
                Some(goodbye)
            }
            _ => None,
        }
    }

    /// What a goodbye comes to that is not proven: a rumour that a peer is down.
    pub fn unproven(goodbye: &Goodbye<I>) -> Self {
        Self::Overlay(detector::Message::Rumours(vec![goodbye.rumour()]).into())
    }
}

impl<I> Input<I> {
    /// Whether it is for the relay: by it the overlay changes with an event, or in
    /// nothing that cannot wait for the next beat.
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

/// What a peer tells its host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<I> {
    /// Something of the overlay.
    Overlay(overlay::Event<I>),
    /// A delivery, a receipt.
    Relay(routing::Event<I>),
    /// To be recorded before anything that is asked for later, see
    /// [`collective::Effect::Record`].
    Record(collective::Key),
    /// The answer to a caller of a collective operation.
    Answer {
        /// Which caller.
        call: u64,
        /// The outcome, or why there is none.
        outcome: Result<Box<Outcome<I>>, CallError>,
    },
}

/// The outbox of a peer.
pub type Out<I> = Outbox<I, Message<I>, Timer, Event<I>>;
