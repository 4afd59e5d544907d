//! Who was not reached and why, and why a relay refuses.

use serde::{Deserialize, Serialize};

use super::Span;

/// Whether a member that was not reached said no, or may have been reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// It said no and did not deliver.
    Refused,
    /// Nothing is known; it may have delivered.
    Unconfirmed,
}

/// Why a member is refused or unconfirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// A verdict says that it is down, or the newest epoch is without it.
    Down,
    /// It has said goodbye.
    Left,
    /// No way to it was found.
    NoRoute,
    /// Sender and receiver have no epoch in common, or the epoch is gone.
    Epoch,
    /// The deadline passed.
    Deadline,
    /// It is leaving and takes no new message in this life.
    Draining,
    /// Its payload bound is smaller than the payload.
    TooLarge,
    /// The message is closed, or outside its duplicate window.
    Window,
    /// It could not make sense of the packet.
    Malformed,
    /// There were more exceptions than a report holds.
    Summarised,
    /// It takes no packet without its origin's signature.
    Unsigned,
    /// The origin's signature, or the certificate with it, is not good there.
    Signature,
    /// It has no room for the duplicate window of one more origin.
    Full,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Down,
        Self::Left,
        Self::NoRoute,
        Self::Epoch,
        Self::Deadline,
        Self::Draining,
        Self::TooLarge,
        Self::Window,
        Self::Malformed,
        Self::Summarised,
        Self::Unsigned,
        Self::Signature,
        Self::Full,
    ];

    /// The name used in receipts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Left => "left",
            Self::NoRoute => "no-route",
            Self::Epoch => "epoch",
            Self::Deadline => "deadline",
            Self::Draining => "draining",
            Self::TooLarge => "too-large",
            Self::Window => "window",
            Self::Malformed => "malformed",
            Self::Summarised => "summarised",
            Self::Unsigned => "unsigned",
            Self::Signature => "signature",
            Self::Full => "full",
        }
    }
}

impl State {
    /// The name used in receipts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unconfirmed => "unconfirmed",
        }
    }
}

/// What the origin wants to know of each member. The relay carries the question; the
/// answer is for the member's node to send.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub enum Confirmation {
    /// That its node has the message: the receipt says so, and nothing is answered.
    #[default]
    Relayed,
    /// Whether a subscriber there has been given it as well.
    Delivered,
    /// What the application there answers.
    Acknowledged,
}

impl Confirmation {
    /// The name used in receipts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Relayed => "relayed",
            Self::Delivered => "delivered",
            Self::Acknowledged => "acknowledged",
        }
    }
}

/// A text that names no [`Confirmation`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no confirmation; expected relayed, delivered or acknowledged")]
pub struct UnknownConfirmation(String);

impl std::str::FromStr for Confirmation {
    type Err = UnknownConfirmation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Relayed, Self::Delivered, Self::Acknowledged];
        let found = all.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| UnknownConfirmation(text.chars().take(64).collect()))
    }
}

/// Members of a part that are not known to have delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Exception<I> {
    /// Which distances; a refusal names exactly one.
    pub span: Span,
    /// Who that is, if known.
    pub peer: Option<I>,
    /// What is known.
    pub state: State,
    /// Why.
    pub reason: Reason,
}

/// Why a relay does not take custody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// It has not heard of that epoch.
    EpochUnknown,
    /// It keeps that epoch no longer.
    EpochGone,
    /// It does not hold that rank in that epoch.
    NotThatRank,
    /// It answers for too much already; ask again later.
    Busy,
    /// It is leaving.
    Draining,
    /// The payload is above its bound.
    TooLarge,
    /// The message is closed or its sequence is outside the window.
    Window,
    /// The header contradicts itself or an earlier copy.
    Malformed,
    /// It has no such errand (the answer to [`Message::Inquire`]).
    Unknown,
    /// It holds that rank and is another peer than the one that is meant.
    NotThatPeer,
    /// It takes no packet without its origin's signature.
    Unsigned,
    /// The origin's signature, or the certificate with it, is not good here.
    Signature,
    /// It has no room for the duplicate window of one more origin.
    Full,
}

impl Refusal {
    /// Every refusal, in the order of their declaration.
    pub const ALL: [Self; 13] = [
        Self::EpochUnknown,
        Self::EpochGone,
        Self::NotThatRank,
        Self::Busy,
        Self::Draining,
        Self::TooLarge,
        Self::Window,
        Self::Malformed,
        Self::Unknown,
        Self::NotThatPeer,
        Self::Unsigned,
        Self::Signature,
        Self::Full,
    ];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EpochUnknown => "epoch-unknown",
            Self::EpochGone => "epoch-gone",
            Self::NotThatRank => "not-that-rank",
            Self::Busy => "busy",
            Self::Draining => "draining",
            Self::TooLarge => "too-large",
            Self::Window => "window",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::NotThatPeer => "not-that-peer",
            Self::Unsigned => "unsigned",
            Self::Signature => "signature",
            Self::Full => "full",
        }
    }
}
