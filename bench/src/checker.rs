//! Exhaustive checks of the own machines of overlay and collectives in small worlds.
//!
//! ```text
//!   Protocol (ring | fingers)   what a process is, what it does, what is right
//!   channels                    what is on its way, by slots or bounded queues
//!   model                       stateright's Model over both, and two properties
//! ```
//!
//! The properties: *closure*, no step leads out of a legitimate configuration;
//! and *recovery*, from every reachable state a bounded number of fair rounds
//! leads into one. Recovery is run, not inferred: stateright's `eventually`
//! takes a cycle for an ending.
//!
//! Not here: time. Any waiting message may arrive next, and any process may
//! apply its spontaneous rules, which covers every back-off.

pub mod channels;
pub mod clique;
pub mod collectives;
pub mod finger;
pub mod graph;
pub mod model;
pub mod relays;
pub mod ring;
pub mod search;

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU8;

use binomesh_overlay::backoff::{Backoff, Limits};
use binomesh_overlay::{Effect, Outbox, Planted};
use channels::{Letter, Slotted};

/// A process of a small world, numbered from 1 so that an absent one costs no
/// memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(NonZeroU8);

impl Peer {
    /// The process at `index`, counted from 0.
    pub fn at(index: usize) -> Self {
        let number = u8::try_from(index + 1).ok().and_then(NonZeroU8::new);
        Self(number.unwrap_or(NonZeroU8::MAX))
    }

    /// Its index, counted from 0.
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.index())
    }
}

/// What is checked: the machine of every process and what is right for it.
pub trait Protocol: Clone + Send + Sync + 'static {
    /// The state of one process.
    type Node: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static;
    /// What processes send.
    type Message: Slotted + Copy + Ord + Hash + fmt::Debug + Send + Sync + 'static;

    /// How many processes are judged; strangers follow.
    fn members(&self) -> usize;

    /// The processes that take part without being judged or having a state.
    fn strangers(&self) -> usize;

    /// The bug to run with, if any.
    fn planted(&self) -> Planted;

    /// The state of process `index` number `choice`, until there are no more.
    fn start(&self, index: usize, choice: usize) -> Option<Self::Node>;

    /// A clean state: nothing known.
    fn clean(&self, index: usize) -> Self::Node;

    /// Every message that could be on its way to `to`.
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

/// A machine with its back-off; how long it waits is anybody's guess here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Timed<T> {
    /// The machine.
    pub machine: T,
    backoff: Backoff,
}

const NOW: Limits = Limits {
    minimum: 1,
    maximum: 1,
};

impl<T> Timed<T> {
    /// A machine that has not fired yet.
    pub const fn new(machine: T) -> Self {
        let backoff = Backoff::corrupted(0, 1, 1);
        Self { machine, backoff }
    }

    /// Its time has come: whether it may fire.
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
