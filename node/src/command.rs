//! The commands that handles of a node send to its loop, and the errors that the loop answers.

pub(crate) mod collective;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_overlay::quic::{BindError, NotaryError};
use binomesh_routing::PacketId;
use binomesh_routing::packet::Confirmation;
use bytes::Bytes;
use tokio::sync::oneshot;

use self::collective::{CollectiveView, Request};
use crate::credentials::Credentials;
use crate::report::{NodeReport, Receipt};
use crate::scrape::Scrape;
use crate::settings::Strategy;
use crate::subscription::{OrderMetrics, Subscriber};
use crate::targets::TargetGroup;
use crate::topic::Topic;

/// The most commands that wait for the loop; a message beyond is refused with [`SendError::Busy`].
/// A guess, far above what waits after one turn of the loop: with less, bursts are refused; with
/// more, a stalled loop holds more payloads.
pub(crate) const QUEUE: usize = 4096;

/// One request to the loop. A dropped reply end means that the caller waits no more. The loop does
/// the work all the same, but it cancels a call of a collective operation.
#[derive(Debug)]
pub(crate) enum Command {
    /// Report the state of the node.
    Report {
        /// Receives the report.
        reply: oneshot::Sender<NodeReport>,
    },
    /// Report the values that a scrape shows beside the counters.
    Scrape {
        /// Receives the values.
        reply: oneshot::Sender<Scrape>,
    },
    /// Report where the metrics of the cluster's nodes can be scraped.
    Targets {
        /// Receives the targets.
        reply: oneshot::Sender<Vec<TargetGroup>>,
    },
    /// Send a message to some members.
    Send {
        /// The receivers; never empty.
        to: Vec<Destination>,
        /// The message, and how it is sent.
        outgoing: Outgoing,
    },
    /// Send a message to all members.
    Publish(Outgoing),
    /// Answer a message that asks for an answer.
    Reply {
        /// The message that is answered.
        to: PacketId<PeerId>,
        /// The answer, within [`Reply::MAX_BYTES`](crate::report::Reply::MAX_BYTES).
        answer: Bytes,
        /// Told when the answer is on its way, or why it is not sent.
        reply: oneshot::Sender<Result<(), SendError>>,
    },
    /// Deliver matching messages from now on. The reply comes when no later
    /// message can be missed; it is dropped if there are too many subscribers.
    Subscribe {
        /// The node's end of the queue.
        subscriber: Subscriber,
        /// Told when the subscription has begun; receives the counters of ordered messages.
        reply: oneshot::Sender<OrderMetrics>,
    },
    /// Call a collective operation.
    Call(Box<Request>),
    /// List the collective operations that the node knows.
    Collectives {
        /// Receives the list.
        reply: oneshot::Sender<Vec<CollectiveView>>,
    },
    /// Replace the node's credentials by others of the same identity.
    Renew {
        /// The checked credentials.
        credentials: Credentials,
        /// Told when the new credentials are in force, or why nothing changed.
        reply: oneshot::Sender<Result<(), RenewError>>,
    },
    /// Finish what is open for at most `drain`, say goodbye, and end the loop.
    Leave {
        /// How long open messages may take.
        drain: Duration,
        /// Told when the node has left.
        reply: oneshot::Sender<()>,
    },
}

/// Why credentials were not renewed. The node goes on with its present ones.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// The credentials belong to another node, or TLS does not accept them.
    #[error(transparent)]
    Refused(#[from] BindError),
    /// The key of these credentials cannot sign.
    #[error(transparent)]
    Signing(#[from] NotaryError),
    /// The node had a revocation list of this authority, and the new credentials have none: the
    /// members that the list revokes would be let in again.
    #[error(
        "the revocation list of the authority `{0}` is missing from the new credentials; put the list back, or start the node again to run without a list"
    )]
    NoList(String),
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

/// A message on its way out, and the caller that waits for its receipt.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The message's topic.
    pub(crate) topic: Topic,
    /// The message's payload.
    pub(crate) payload: Bytes,
    /// For a message to all members: the order in which it reaches them.
    pub(crate) strategy: Strategy,
    /// When the receipt is due.
    pub(crate) due: Due,
    /// What each receiver has to confirm.
    pub(crate) confirmation: Confirmation,
    /// Whether the message gets a number, by which subscribers can restore the order.
    pub(crate) is_ordered: bool,
    /// Names of members that the receipt neither waits for nor names.
    pub(crate) excused: Arc<[String]>,
    /// With the strategy `circulant`: the number of messages that follow this one.
    pub(crate) left: u32,
    /// Receives the receipt, or the reason why nothing was sent.
    pub(crate) reply: oneshot::Sender<Result<Receipt, SendError>>,
}

/// A receiver of a message.
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

/// When a receipt is due, and for whom the message waits until then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Due {
    /// When every member has confirmed, refused or left, or has been called down for some seconds.
    #[default]
    Settled,
    /// As `Settled`, but after this time at the latest. A member that has not confirmed by then is
    /// reported as `unconfirmed`.
    Within(Duration),
    /// As `Within`, but a member that is called down is given up after one second instead of five.
    /// For messages that other work waits for. The admin API treats it as `Within`.
    Soon(Duration),
    /// After this time at the latest. Until then the node keeps the message for members that are
    /// down or have left, and for hosts of the inventory that are no members. A member that comes
    /// back gets each kept message once; messages that were sent before its return come in the
    /// order in which they were sent. They are kept in memory only, so they are lost when this
    /// node's process ends.
    Until(Duration),
}

impl Due {
    /// The longest time until the receipt comes, if there is a limit.
    pub const fn time(self) -> Option<Duration> {
        match self {
            Self::Settled => None,
            Self::Within(time) | Self::Soon(time) | Self::Until(time) => Some(time),
        }
    }

    /// Whether the message is kept for members that are away.
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Until(_))
    }
}

/// How a message is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// The topic; `default` if not given.
    pub topic: Topic,
    /// When the receipt is due.
    pub due: Due,
    /// What each receiver has to confirm. Any demand beyond the node having the message needs a
    /// `due` with a time, which limits the wait for the answers.
    pub confirmation: Confirmation,
    /// For a message to all members: the order in which it reaches them.
    pub strategy: Strategy,
    /// Whether the message gets a number among this node's ordered messages on the topic to the
    /// same destinations. Subscribers that ask for order get these messages in that order, and are
    /// told which ones are missing.
    pub is_ordered: bool,
}

/// Why a message was not sent. No part of it has left the node, except perhaps with
/// [`SendError::Stopped`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The node has no place in the overlay yet, or does not know all members that the message
    /// needs, and this did not change within the time given.
    #[error("the node has no place in the overlay yet")]
    NotReady,
    /// The list of receivers is empty.
    #[error("no destination was given")]
    NoDestination,
    /// These receivers are no members, have left, or are this node itself.
    #[error("not a member of the current epoch: {}", .0.join(", "))]
    UnknownPeers(Vec<String>),
    /// The payload is longer than the node accepts.
    #[error("the payload has {size_bytes} bytes; the limit is {max_bytes}")]
    TooLarge {
        /// The length of the payload.
        size_bytes: usize,
        /// The longest length that the node accepts.
        max_bytes: usize,
    },
    /// Too many messages of this node are open or wait, or have too many bytes.
    #[error("too many messages of this node still wait for their receipts")]
    Busy,
    /// The node keeps as many messages for absent members as it can.
    #[error("too many messages of this node are kept for members that are away")]
    KeptFull,
    /// The message asks for answers, but gives no time until which to wait for them.
    #[error("the message asks for answers, but gives no time limit")]
    NoTime,
    /// Topics like this one are reserved for the nodes themselves.
    #[error("the topic {0} is reserved: it begins with `$`")]
    ReservedTopic(Topic),
    /// The cluster is too large for a roster, so no node knows the rank of each member.
    #[error("the cluster has too many members for messages to single members")]
    RosterTooLarge,
    /// The node has to sign its messages, and its key has failed.
    #[error("the key of the node cannot sign messages")]
    NotSigned,
    /// The node has stopped or leaves. If it stopped after it had taken the message, the outcome of
    /// the message is unknown.
    #[error("the node has stopped")]
    Stopped,
}

impl SendError {
    /// What the caller can do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NotReady => {
                "wait until the node is ready, give a time limit for the receipt, \
                               or see the reason in `binomesh status`"
            }
            Self::NoDestination => "name at least one member",
            Self::UnknownPeers(_) => "see the names of the members in `binomesh topology`",
            Self::TooLarge { .. } => {
                "push the data as a file, send it in smaller messages, or raise \
                 `max_payload_bytes`"
            }
            Self::Busy => "wait for the receipts of earlier messages",
            Self::KeptFull => {
                "wait until the time of some kept messages has ended, or send \
                               without `until`"
            }
            Self::NoTime => "give the time within which the receipt is due",
            Self::ReservedTopic(_) => "choose another topic",
            Self::RosterTooLarge => {
                "broadcast the message on a topic to which only the receivers \
                                     subscribe"
            }
            Self::NotSigned => "renew the node's certificate and key",
            Self::Stopped => "start the node again",
        }
    }
}
