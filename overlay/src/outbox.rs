//! The effects that a machine asks of its host.

use std::time::Duration;

/// One effect of handling an input. `M` is the message, `T` the timer and `E`
/// the event type of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect<I, M, T, E> {
    /// Deliver `message` to `to`, at most once, perhaps never.
    Send {
        /// The receiver.
        to: I,
        /// The message that the receiver gets.
        message: M,
    },
    /// Fire `timer` once, `after` from now. An armed timer of equal value is replaced, so a machine
    /// never meets a stale one.
    Arm {
        /// The timer, which is also its key.
        timer: T,
        /// The time from now until the timer fires.
        after: Duration,
    },
    /// Forget `timer` if it is armed.
    Disarm {
        /// The timer to forget.
        timer: T,
    },
    /// Tell the owner of the machine that something happened.
    Event(E),
    /// Keep a link to this peer open from now on.
    Connect(I),
    /// The link to this peer is no longer needed by this side.
    Disconnect(I),
    /// This node itself has found the peer silent. The link to it, if there is one, may be dead
    /// though nothing has closed it: make another beside it.
    Doubt(I),
}

/// The effects of one input, in order. No machine reads its outbox to decide something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outbox<I, M, T = (), E = ()> {
    effects: Vec<Effect<I, M, T, E>>,
}

impl<I, M, T, E> Outbox<I, M, T, E> {
    /// An empty outbox.
    pub const fn new() -> Self {
        Self {
            effects: Vec::new(),
        }
    }

    /// Ask for `message` to be sent to `to`.
    pub fn send(&mut self, to: I, message: impl Into<M>) {
        let message = message.into();
        self.effects.push(Effect::Send { to, message });
    }

    /// Ask for `timer` to fire once, `after` from now.
    pub fn arm(&mut self, timer: T, after: Duration) {
        self.effects.push(Effect::Arm { timer, after });
    }

    /// Ask for `timer` to be forgotten.
    pub fn disarm(&mut self, timer: T) {
        self.effects.push(Effect::Disarm { timer });
    }

    /// Tell the owner that something happened.
    pub fn event(&mut self, event: E) {
        self.effects.push(Effect::Event(event));
    }

    /// Ask for a lasting link to `peer`.
    pub fn connect(&mut self, peer: I) {
        self.effects.push(Effect::Connect(peer));
    }

    /// Give up the claim on the link to `peer`.
    pub fn disconnect(&mut self, peer: I) {
        self.effects.push(Effect::Disconnect(peer));
    }

    /// Ask for another link to `peer` beside one that may be dead.
    pub fn doubt(&mut self, peer: I) {
        self.effects.push(Effect::Doubt(peer));
    }

    /// Let `change` redirect each message, as the last step before the host sends it.
    pub fn reroute(&mut self, mut change: impl FnMut(&mut I, &mut M)) {
        for effect in &mut self.effects {
            if let Effect::Send { to, message } = effect {
                change(to, message);
            }
        }
    }

    /// Take the effects, in order. The outbox is empty afterwards and keeps its memory.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect<I, M, T, E>> + '_ {
        self.effects.drain(..)
    }

    /// Whether the outbox has no effects.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }
}

impl<I, M, T, E> IntoIterator for Outbox<I, M, T, E> {
    type Item = Effect<I, M, T, E>;
    type IntoIter = std::vec::IntoIter<Self::Item>;

    /// The effects, in order.
    fn into_iter(self) -> Self::IntoIter {
        self.effects.into_iter()
    }
}

impl<I, M, T, E> Default for Outbox<I, M, T, E> {
    fn default() -> Self {
        Self::new()
    }
}
