//! Exhaustive checks of the machines of overlay, relay and collectives in small worlds.
//!
//! ```text
//!   Protocol (ring | fingers)   what a process is, what it does, what is right
//!   channels                    messages under way, by slots or bounded queues
//!   model                       stateright's Model over both, and two properties
//! ```
//!
//! The properties of ring and fingers are *closure*, no step leads out of a legitimate
//! configuration; and *recovery*, from every reachable state a bounded number of fair rounds leads
//! into one. Recovery is run, not inferred, as stateright's `eventually` takes a cycle for an
//! ending.
//!
//! Ring and fingers have no time here. Any message in a slot, or first in its queue, may arrive
//! next, and any process may apply its spontaneous rules, which covers every back-off.

pub mod channels;
pub mod clique;
pub mod collectives;
pub mod finger;
pub mod graph;
pub mod model;
pub mod relays;
pub mod ring;
mod script;
pub mod search;

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU8;

use binomesh_overlay::backoff::{Backoff, BackoffLimits};
use binomesh_overlay::{Effect, Outbox, Planted};
use channels::{Letter, Slotted};

/// A process of a small world. Numbers start at 1, so that an absent process costs no memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(NonZeroU8);

impl Peer {
    /// The process at `index`, counted from 0.
    pub fn at(index: usize) -> Self {
        let number = u8::try_from(index + 1).ok().and_then(NonZeroU8::new);
        Self(number.unwrap_or(NonZeroU8::MAX))
    }

    /// The index of the process, counted from 0.
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.index())
    }
}

/// A protocol to check: the machine of every process and the right results.
pub trait Protocol: Clone + Send + Sync + 'static {
    /// The state of one process.
    type Node: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static;
    /// The messages between processes.
    type Message: Slotted + Copy + Ord + Hash + fmt::Debug + Send + Sync + 'static;

    /// The number of processes that are judged; strangers follow them.
    fn members(&self) -> usize;

    /// The number of strangers: they take part, but are not judged and have no state.
    fn strangers(&self) -> usize;

    /// The bug to run with, if any.
    fn planted(&self) -> Planted;

    /// State number `choice`, counted from 0, among those in which process `index` may start;
    /// `None` behind the last one.
    fn start(&self, index: usize, choice: usize) -> Option<Self::Node>;

    /// The clean state of a process, in which it knows nothing.
    fn clean(&self, index: usize) -> Self::Node;

    /// The garbage messages that may be under way to `to` at the start.
    fn garbage(&self, to: Peer) -> Vec<Letter<Self::Message>>;

    /// The tables of a process, for people.
    fn describe(&self, node: &Self::Node) -> String;

    /// Apply the spontaneous rules of `me`.
    fn apply_spontaneous(
        &self,
        me: Peer,
        node: &mut Self::Node,
        out: &mut Outbox<Peer, Self::Message>,
    );

    /// Apply the rule of a received message.
    fn on_message(
        &self,
        me: Peer,
        node: &mut Self::Node,
        from: Peer,
        message: Self::Message,
        out: &mut Outbox<Peer, Self::Message>,
    );

    /// Whether the tables of all members are right.
    fn is_right(&self, nodes: &[Self::Node]) -> bool;

    /// Whether a legitimate configuration may hold this letter.
    fn is_legitimate(&self, letter: &Letter<Self::Message>) -> bool;
}

/// A machine with its back-off. Its waits may have any length here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Timed<T> {
    /// The machine that is checked.
    pub machine: T,
    backoff: Backoff,
}

const NOW: BackoffLimits = BackoffLimits {
    minimum: 1,
    maximum: 1,
};

impl<T> Timed<T> {
    /// A machine that has not fired yet.
    pub const fn new(machine: T) -> Self {
        let backoff = Backoff::corrupted(0, 1, 1);
        Self { machine, backoff }
    }

    /// Let the back-off's time come. Returns whether the machine may fire.
    pub fn fire(&mut self, planted: Planted) -> bool {
        self.backoff.fire(NOW, planted)
    }
}

/// The letters that `from` has just written.
pub(crate) fn letters<M>(
    from: Peer,
    out: &mut Outbox<Peer, M>,
) -> impl Iterator<Item = Letter<M>> + '_ {
    out.drain().filter_map(move |effect| match effect {
        Effect::Send { to, message } => Some(Letter { to, from, message }),
        _ => None,
    })
}
