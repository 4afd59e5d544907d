//! The violations that a chaos run can find.

use std::fmt;
use std::time::Duration;

use binomesh::world::{Defect, Id};
use binomesh_routing::PacketId;
use binomesh_routing::packet::{Reason, State};
use thiserror::Error;

use super::checker::collectives::Breach;

/// A message's name as `origin.boot.sequence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name(pub PacketId<Id>);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PacketId {
            origin,
            boot,
            sequence,
        } = self.0;
        write!(f, "message {origin}.{boot}.{sequence}")
    }
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum Violation {
    #[error("{message}: {by} in its life {boot} delivered it {count} times")]
    DeliveredTwice {
        message: Name,
        by: Id,
        boot: u64,
        count: u32,
    },
    #[error("{message}: delivered, but nobody published it")]
    NeverPublished { message: Name },
    #[error("{message}: {by} delivered other bytes than were published")]
    WrongBytes { message: Name, by: Id },
    #[error("{message}: {by} delivered it and was not meant")]
    NotMeant { message: Name, by: Id },
    #[error("{message}: the receipt came from {by}")]
    ForeignReceipt { message: Name, by: Id },
    #[error("{message}: a second receipt")]
    SecondReceipt { message: Name },
    #[error("{message}: no receipt, though its origin lived on")]
    NoReceipt { message: Name },
    #[error("{message}: no receipt, though its origin called itself drained")]
    DrainedEarly { message: Name },
    #[error("{message}: rank {rank} ({peer:?}) is falsely called delivered")]
    FalselyDelivered {
        message: Name,
        rank: u32,
        peer: Option<Id>,
    },
    #[error("{message}: rank {rank} is called refused and has delivered")]
    FalselyRefused { message: Name, rank: u32 },
    #[error("{message}: rank {rank} has two lines")]
    NamedTwice { message: Name, rank: u32 },
    #[error("{message}: rank {rank} is called {peer}, who never stood there")]
    WrongName { message: Name, rank: u32, peer: Id },
    #[error("{message}: {peer:?} has a line and was neither a member nor awaited")]
    NotExpected { message: Name, peer: Option<Id> },
    #[error("{message}: {named} lines for {expected} expected members")]
    WrongLines {
        message: Name,
        expected: usize,
        named: usize,
    },
    #[error("{message}: {peer} stayed up and a member, and is {} ({})", state.name(), reason.name())]
    Forsaken {
        message: Name,
        peer: Id,
        state: State,
        reason: Reason,
    },
    #[error("{message}: {peer} was there and a member, and has no line")]
    LeftOut { message: Name, peer: Id },
    #[error("{message}: {peer} had said goodbye to the origin, and has a line")]
    LineAfterGoodbye { message: Name, peer: Id },
    #[error("at {at:?} {by} was told that {peer} has left in its life {boot}, which never said so")]
    FalseGoodbye {
        at: Duration,
        by: Id,
        peer: Id,
        boot: u64,
    },
    #[error("at {at:?} {a} and {b} both hold rank {rank} of one epoch")]
    DoubleRank {
        at: Duration,
        rank: u32,
        a: Id,
        b: Id,
    },
    #[error("at {at:?} {orphan} took {child} for a child though it had lost its own parent")]
    OrphanWithChild { at: Duration, orphan: Id, child: Id },
    #[error("{id} keeps something of its messages, though all have their receipts")]
    Retained { id: Id },
    #[error("at {at:?} {id} holds {length} {name}, the bound is {bound}")]
    Unbounded {
        at: Duration,
        id: Id,
        name: &'static str,
        length: usize,
        bound: usize,
    },
    #[error("the {members} of a part did not heal within {after:?}: {defect}")]
    PartNotHealed {
        after: Duration,
        members: usize,
        defect: Defect,
    },
    #[error("{key}: {breach}")]
    Collective { key: String, breach: Breach },
    #[error("a panic: {text}")]
    Panicked { text: String },
    #[error("a storm of messages at {at:?}")]
    Storm { at: Duration },
    #[error("not healed {after:?} after the last fault: {defect}")]
    NotHealed { after: Duration, defect: Defect },
    #[error("healed, but not quiet: {events} events in the last {length:?}; the first: {first}")]
    NotQuiet {
        events: usize,
        length: Duration,
        first: String,
    },
}

impl Violation {
    /// The name of the promise, whoever broke it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::DeliveredTwice { .. } => "delivered-twice",
            Self::NeverPublished { .. } => "never-published",
            Self::WrongBytes { .. } => "wrong-bytes",
            Self::NotMeant { .. } => "not-meant",
            Self::ForeignReceipt { .. } => "foreign-receipt",
            Self::SecondReceipt { .. } => "second-receipt",
            Self::NoReceipt { .. } => "no-receipt",
            Self::DrainedEarly { .. } => "drained-early",
            Self::FalselyDelivered { .. } => "falsely-delivered",
            Self::FalselyRefused { .. } => "falsely-refused",
            Self::NamedTwice { .. } => "named-twice",
            Self::WrongName { .. } => "wrong-name",
            Self::NotExpected { .. } => "not-expected",
            Self::WrongLines { .. } => "wrong-lines",
            Self::Forsaken { .. } => "forsaken",
            Self::LeftOut { .. } => "left-out",
            Self::LineAfterGoodbye { .. } => "line-after-goodbye",
            Self::FalseGoodbye { .. } => "false-goodbye",
            Self::DoubleRank { .. } => "double-rank",
            Self::OrphanWithChild { .. } => "orphan-with-child",
            Self::Retained { .. } => "retained",
            Self::Unbounded { .. } => "unbounded",
            Self::PartNotHealed { .. } => "part-not-healed",
            Self::Collective { breach, .. } => breach.kind(),
            Self::Panicked { .. } => "panicked",
            Self::Storm { .. } => "storm",
            Self::NotHealed { .. } => "not-healed",
            Self::NotQuiet { .. } => "not-quiet",
        }
    }
}
