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
    #[error("{message}: {by}, in its life {boot}, delivered the message {count} times")]
    DeliveredTwice {
        message: Name,
        by: Id,
        boot: u64,
        count: u32,
    },
    #[error("{message}: the message was delivered, but no node published it")]
    NeverPublished { message: Name },
    #[error("{message}: {by} delivered other bytes than the published ones")]
    WrongBytes { message: Name, by: Id },
    #[error("{message}: {by} delivered the message and was no destination")]
    NotMeant { message: Name, by: Id },
    #[error("{message}: the receipt was given by {by}, which is not the origin")]
    ForeignReceipt { message: Name, by: Id },
    #[error("{message}: the origin gave a second receipt")]
    SecondReceipt { message: Name },
    #[error("{message}: the origin gave no receipt, though it stayed alive")]
    NoReceipt { message: Name },
    #[error("{message}: the origin gave no receipt, though it reported that it is drained")]
    DrainedEarly { message: Name },
    #[error(
        "{message}: the receipt says delivered for rank {rank} ({peer:?}), which did not deliver the message"
    )]
    FalselyDelivered {
        message: Name,
        rank: u32,
        peer: Option<Id>,
    },
    #[error("{message}: the receipt says refused for rank {rank}, which delivered the message")]
    FalselyRefused { message: Name, rank: u32 },
    #[error("{message}: the receipt has two lines for rank {rank}")]
    NamedTwice { message: Name, rank: u32 },
    #[error("{message}: the receipt names {peer} at rank {rank}, a rank that {peer} never had")]
    WrongName { message: Name, rank: u32, peer: Id },
    #[error(
        "{message}: the receipt has a line for {peer:?}, which was neither a member nor awaited"
    )]
    NotExpected { message: Name, peer: Option<Id> },
    #[error("{message}: the receipt has {named} lines for {expected} expected members")]
    WrongLines {
        message: Name,
        expected: usize,
        named: usize,
    },
    #[error("{message}: {peer} stayed up and a member, but the receipt says {} ({})", state.name(), reason.name())]
    Forsaken {
        message: Name,
        peer: Id,
        state: State,
        reason: Reason,
    },
    #[error("{message}: {peer} was up and a member, but the receipt has no line for it")]
    LeftOut { message: Name, peer: Id },
    #[error("{message}: {peer} had said goodbye to the origin, but the receipt has a line for it")]
    LineAfterGoodbye { message: Name, peer: Id },
    #[error(
        "at {at:?} {by} was told that life {boot} of {peer} has left, but this life never said goodbye"
    )]
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
    #[error(
        "at {at:?} {orphan} accepted {child} as a child, though {orphan} had lost its own parent"
    )]
    OrphanWithChild { at: Duration, orphan: Id, child: Id },
    #[error("{id} still holds state of its own messages, though all have their receipts")]
    Retained { id: Id },
    #[error("at {at:?} {id} holds {length} {name}; the bound is {bound}")]
    Unbounded {
        at: Duration,
        id: Id,
        name: &'static str,
        length: usize,
        bound: usize,
    },
    #[error("a part of {members} nodes did not heal within {after:?}: {defect}")]
    PartNotHealed {
        after: Duration,
        members: usize,
        defect: Defect,
    },
    #[error("{key}: {breach}")]
    Collective { key: String, breach: Breach },
    #[error("a handler panicked: {text}")]
    Panicked { text: String },
    #[error("the nodes did not stop exchanging messages at {at:?}")]
    Storm { at: Duration },
    #[error("the overlay had not healed {after:?} after the last fault: {defect}")]
    NotHealed { after: Duration, defect: Defect },
    #[error(
        "the overlay healed but did not become quiet: {events} events in the last {length:?}, the first of them {first}"
    )]
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
