//! Members that were not reached and the reasons, and why a relay refuses.

use binomesh_overlay::named;
use serde::{Deserialize, Serialize};

use super::Span;

named! {
    /// Whether a member that was not reached has refused, or may still have delivered.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum State {
        /// The member said no and did not deliver.
        Refused = "refused",
        /// Nothing is known; the member may have delivered.
        Unconfirmed = "unconfirmed",
    }
}

named! {
    /// Why a member refused or is unconfirmed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Reason {
        /// A verdict says that the member is down, or the newest epoch is without it.
        Down = "down",
        /// The member has said goodbye.
        Left = "left",
        /// No way to the member was found.
        NoRoute = "no-route",
        /// Sender and receiver have no epoch in common, the epoch is gone, or the member cannot be
        /// found in the epochs that are kept.
        Epoch = "epoch",
        /// The deadline of the message has passed.
        Deadline = "deadline",
        /// The member is leaving and takes no new message in this life.
        Draining = "draining",
        /// The member's payload bound is smaller than the payload.
        TooLarge = "too-large",
        /// The message is closed, or outside the member's duplicate window.
        Window = "window",
        /// The member could not make sense of the packet.
        Malformed = "malformed",
        /// There were more exceptions than a report holds, so that of the member was merged with
        /// others.
        Summarised = "summarised",
        /// The member takes no packet without its origin's signature.
        Unsigned = "unsigned",
        /// The origin's signature, or the certificate with it, is not good at the member.
        Signature = "signature",
        /// The member has no room for the duplicate window of one more origin.
        Full = "full",
    }
}

named! {
    /// The confirmation that the origin wants from each member. The relay carries the question;
    /// each member's node sends the answer, if one is asked for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Confirmation {
        /// The member's node has the message: the receipt says so, and nothing is answered.
        Relayed = "relayed",
        /// The member's node answers whether a subscriber there has been given the message as well.
        Delivered = "delivered",
        /// The application at the member gives an answer of its own.
        Acknowledged = "acknowledged",
    }
}

/// The default is `Relayed`: the node has the message.
impl Default for Confirmation {
    fn default() -> Self {
        Self::ALL[0]
    }
}

/// A text that names no [`Confirmation`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no confirmation; expected {all}", all = Confirmation::names("or"))]
pub struct UnknownConfirmation(String);

impl std::str::FromStr for Confirmation {
    type Err = UnknownConfirmation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text).ok_or_else(|| UnknownConfirmation(text.chars().take(64).collect()))
    }
}

/// Members of a part that are not known to have delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Exception<I> {
    /// The positions that are concerned; a refusal names exactly one.
    pub span: Span,
    /// The peer at that position, if known.
    pub peer: Option<I>,
    /// Whether it refused or is unconfirmed.
    pub state: State,
    /// The reason of that state.
    pub reason: Reason,
}

named! {
    /// Why a relay does not take custody.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum CustodyRefusal {
        /// The refusing node has not heard of that epoch.
        EpochUnknown = "epoch-unknown",
        /// The node keeps that epoch no longer.
        EpochGone = "epoch-gone",
        /// The node does not hold that rank in that epoch.
        NotThatRank = "not-that-rank",
        /// The node answers for too much already; ask again later.
        Busy = "busy",
        /// The node is leaving.
        Draining = "draining",
        /// The payload is above the node's bound.
        TooLarge = "too-large",
        /// The message is closed or its sequence is outside the window.
        Window = "window",
        /// The header contradicts itself or an earlier copy.
        Malformed = "malformed",
        /// The node has no such errand (the answer to [`super::Message::Inquire`]).
        Unknown = "unknown",
        /// The node is not the peer that is meant: it has another id, or it never held the rank at
        /// which the origin counted that peer.
        NotThatPeer = "not-that-peer",
        /// The node takes no packet without its origin's signature.
        Unsigned = "unsigned",
        /// The origin's signature, or the certificate with it, is not good here.
        Signature = "signature",
        /// The node has no room for the duplicate window of one more origin.
        Full = "full",
    }
}
