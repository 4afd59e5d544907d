//! What the handles of a node ask of its loop, and how the loop may answer no.

use std::fmt;
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_overlay::quic::BindError;
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::credentials::Credentials;
use crate::report::{NodeReport, Receipt};
use crate::settings::Strategy;
use crate::subscription::Subscriber;
use crate::topic::Topic;

/// How many commands wait for the loop before the next is refused with
/// [`SendError::Busy`]. A guess: far above what one loop turn leaves waiting.
pub(crate) const QUEUE: usize = 256;

/// One request to the loop. A dropped reply end means that nobody waits any
/// more; the work goes on.
#[derive(Debug)]
pub(crate) enum Command {
    /// Say how things stand.
    Report {
        /// Gets the report.
        reply: oneshot::Sender<NodeReport>,
    },
    /// Send to some members.
    Send {
        /// To whom; never empty.
        to: Vec<Destination>,
        /// What and how.
        outgoing: Outgoing,
    },
    /// Send to all members.
    Publish(Outgoing),
    /// Deliver matching messages from now on. The reply comes when no later
    /// message can be missed; it is dropped if there are too many subscribers.
    Subscribe {
        /// The node's end of the queue.
        subscriber: Subscriber,
        /// Told when the subscription holds.
        reply: oneshot::Sender<()>,
    },
    /// Go on with other credentials of the same identity.
    Renew {
        /// The checked credentials.
        credentials: Credentials,
        /// Told when they hold, or why nothing changed.
        reply: oneshot::Sender<Result<(), BindError>>,
    },
    /// Finish what is open for at most `drain`, say goodbye, and end the loop.
    Leave {
        /// How long open messages may take.
        drain: Duration,
        /// Told when the node has left.
        reply: oneshot::Sender<()>,
    },
}

/// A message on its way out, and who waits for its receipt.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The topic.
    pub(crate) topic: Topic,
    /// The payload.
    pub(crate) payload: Bytes,
    /// Of what is for all members: in which order it goes to them.
    pub(crate) strategy: Strategy,
    /// When the receipt is due at the latest; whoever has not confirmed by then
    /// is `unconfirmed` in it.
    pub(crate) timeout: Option<Duration>,
    /// Gets the receipt, or why nothing was sent.
    pub(crate) reply: oneshot::Sender<Result<Receipt, SendError>>,
}

/// Whom a message is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Destination {
    /// The member of this name.
    Name(String),
    /// The member with this identity.
    Id(PeerId),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Id(id) => write!(f, "{id}"),
        }
    }
}

impl From<&str> for Destination {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<String> for Destination {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl From<PeerId> for Destination {
    fn from(id: PeerId) -> Self {
        Self::Id(id)
    }
}

/// How a message is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// The topic; `default` if not given.
    pub topic: Topic,
    /// When the receipt is due at the latest. Without it a broadcast ends when
    /// every member has confirmed, refused, or left.
    pub timeout: Option<Duration>,
    /// Of what is for all members: in which order it goes to them.
    pub strategy: Strategy,
}

/// Why a message was not sent. Nothing has left the node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no placement yet.
    #[error("the node has no place in the overlay yet")]
    NotReady,
    /// Nobody to send to.
    #[error("no destination was given")]
    NoDestination,
    /// These are no members.
    #[error("not a member of the current epoch: {}", .0.join(", "))]
    UnknownPeers(Vec<String>),
    /// The payload is longer than the node accepts.
    #[error("the payload has {size_bytes} bytes, the most is {max_bytes}")]
    TooLarge {
        /// What was given.
        size_bytes: usize,
        /// What is possible.
        max_bytes: usize,
    },
    /// Too many messages are open.
    #[error("too many messages of this node are still open")]
    Busy,
    /// Nobody knows everybody's rank in a cluster of this size.
    #[error("the cluster is too large to send to single members")]
    RosterTooLarge,
    /// The node has stopped, or stopped before it knew the outcome.
    #[error("the node has stopped")]
    Stopped,
}

impl SendError {
    /// What the caller can do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NotReady => "wait for `ready`, or look at `status` for the reason",
            Self::NoDestination => "name at least one member",
            Self::UnknownPeers(_) => "`topology` lists the members",
            Self::TooLarge { .. } => "send the payload in smaller pieces",
            Self::Busy => "await the receipts of earlier messages first",
            Self::RosterTooLarge => "broadcast, and let the receivers choose by topic",
            Self::Stopped => "start the node again",
        }
    }
}
