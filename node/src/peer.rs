//! One whole peer, pure: the overlay and the relay that rides on it.
//!
//! Not here: connections, clocks, encodings. The QUIC node (`host`) and the
//! simulated world (`world`) run this same machine.

use std::time::Duration;

use binomesh_overlay::noise::Noise;
use binomesh_overlay::{self as overlay, Effect, Id, Outbox, Overlay};

/// A message between two peers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Message<I> {
    /// Maintenance of the overlay.
    Overlay(overlay::Message<I>),
}

/// A timer of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// One of the overlay's.
    Overlay(overlay::Timer),
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
    /// Leave gracefully.
    Leave,
}

/// What a peer tells its host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<I> {
    /// Something of the overlay.
    Overlay(overlay::Event<I>),
}

/// The outbox of a peer.
pub type Out<I> = Outbox<I, Message<I>, Timer, Event<I>>;

/// One whole peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Peer<I: Id> {
    overlay: Overlay<I>,
    overlay_out: overlay::overlay::Out<I>,
}

impl<I: Id> Peer<I> {
    /// A peer that has not started yet.
    pub fn new(config: overlay::Config<I>) -> Self {
        Self {
            overlay: Overlay::new(config),
            overlay_out: Outbox::new(),
        }
    }

    /// The overlay half.
    pub const fn overlay(&self) -> &Overlay<I> {
        &self.overlay
    }

    /// Leave the overlay half in an arbitrary state, as a transient fault would.
    pub fn scramble(&mut self, noise: &mut Noise, peers: &[I]) {
        self.overlay.scramble(noise, peers);
    }

    /// Handle one input; what the host is to do goes to `out`.
    pub fn handle(&mut self, input: Input<I>, out: &mut Out<I>) {
        match input {
            Input::Start => self.on_overlay(overlay::Input::Start, out),
            Input::Message {
                from,
                message: Message::Overlay(message),
            } => {
                self.on_overlay(overlay::Input::Message { from, message }, out);
            }
            Input::Timer {
                timer: Timer::Overlay(timer),
                late,
            } => {
                self.on_overlay(overlay::Input::Timer { timer, late }, out);
            }
            Input::LinkUp { peer, boot } => {
                self.on_overlay(overlay::Input::LinkUp { peer, boot }, out);
            }
            Input::LinkDown { peer } => self.on_overlay(overlay::Input::LinkDown { peer }, out),
            Input::Leave => self.on_overlay(overlay::Input::Leave, out),
        }
    }

    fn on_overlay(&mut self, input: overlay::Input<I>, out: &mut Out<I>) {
        let mut effects = std::mem::take(&mut self.overlay_out);
        self.overlay.handle(input, &mut effects);
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => out.send(to, Message::Overlay(message)),
                Effect::Arm { timer, after } => out.arm(Timer::Overlay(timer), after),
                Effect::Disarm { timer } => out.disarm(Timer::Overlay(timer)),
                Effect::Connect(peer) => out.connect(peer),
                Effect::Disconnect(peer) => out.disconnect(peer),
                Effect::Event(event) => out.event(Event::Overlay(event)),
            }
        }
        self.overlay_out = effects;
    }
}
