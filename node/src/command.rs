//! What the handles of a node ask of its loop, and how the loop may answer no.

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

/// How many commands wait for the loop before the next is refused with
/// [`SendError::Busy`]. A guess: far above what one loop turn leaves waiting.
pub(crate) const QUEUE: usize = 1024;

/// One request to the loop. A dropped reply end means that nobody waits any
/// more; the work goes on.
#[derive(Debug)]
pub(crate) enum Command {
    /// Say how things stand.
    Report {
        /// Gets the report.
        reply: oneshot::Sender<NodeReport>,
    },
    /// Say what a scrape shows beside the counters.
    Scrape {
        /// Gets it.
        reply: oneshot::Sender<Scrape>,
    },
    /// Say where metrics are to be read.
    Targets {
        /// Gets the targets.
        reply: oneshot::Sender<Vec<TargetGroup>>,
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
    /// Answer a message that asked for it.
    Reply {
        /// Which message.
        to: PacketId<PeerId>,
        /// The answer, within [`Reply::MAX_BYTES`](crate::report::Reply::MAX_BYTES).
        answer: Bytes,
        /// Told when it is on its way.
        reply: oneshot::Sender<Result<(), SendError>>,
    },
    /// Deliver matching messages from now on. The reply comes when no later
    /// message can be missed; it is dropped if there are too many subscribers.
    Subscribe {
        /// The node's end of the queue.
        subscriber: Subscriber,
        /// Told when the subscription holds, and where it counts.
        reply: oneshot::Sender<OrderMetrics>,
    },
    /// A collective operation.
    Call(Box<Request>),
    /// Say which collective operations are known.
    Collectives {
        /// Gets them.
        reply: oneshot::Sender<Vec<CollectiveView>>,
    },
    /// Go on with other credentials of the same identity.
    Renew {
        /// The checked credentials.
        credentials: Credentials,
        /// Told when they hold, or why nothing changed.
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

/// Credentials were not renewed. The node goes on with those it has.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// They are of another node, or TLS does not accept them.
    #[error(transparent)]
    Refused(#[from] BindError),
    /// Nothing can be signed with them.
    #[error(transparent)]
    Signing(#[from] NotaryError),
    /// There was a revocation list of this authority, and now there is none: those that it
    /// revokes would be let in again.
    #[error(
        "there was a revocation list of the authority `{0}`, and now there is none: put it back, or start the node again to go on without"
    )]
    NoList(String),
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
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
    /// When the receipt is due.
    pub(crate) due: Due,
    /// What is asked of each receiver.
    pub(crate) confirmation: Confirmation,
    /// Whether it is numbered for receivers that sort.
    pub(crate) is_ordered: bool,
    /// Who is not waited for.
    pub(crate) excused: Arc<[String]>,
    /// Of the strategy `circulant`: how many messages follow.
    pub(crate) left: u32,
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

/// When a receipt is due, and for whom the message waits until then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Due {
    /// When every member has confirmed, refused, left, or has been called down for
    /// some seconds.
    #[default]
    Settled,
    /// The same, and after this time at the latest: whoever has not confirmed by then is
    /// `unconfirmed`.
    Within(Duration),
    /// As `Within`, but members that are called down are given up after one second instead of
    /// five. For messages that hold up others. Over the admin API it is `Within`.
    Soon(Duration),
    /// After this time at the latest, and until then the node keeps the message for
    /// members that are down or have left, and for hosts of the inventory that are no
    /// members: who comes back gets it, once, and those that were sent before its return
    /// in the order in which they were sent. It is kept in memory: it ends with this node's process.
    Until(Duration),
}

impl Due {
    /// After how long the receipt comes at the latest.
    pub const fn time(self) -> Option<Duration> {
        match self {
            Self::Settled => None,
            Self::Within(time) | Self::Soon(time) | Self::Until(time) => Some(time),
        }
    }

    /// Whether the message is kept for those who are away.
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
    /// What is asked of each receiver. More than that its node has the message needs a
    /// `due` with a time, for which the answers are awaited.
    pub confirmation: Confirmation,
    /// Of what is for all members: in which order it goes to them.
    pub strategy: Strategy,
    /// Whether it is numbered among what this node publishes so on the topic and to the
    /// same destinations: subscribers that ask for it get these in that order, and are
    /// told what is missing.
    pub is_ordered: bool,
}

/// Why a message was not sent. Nothing has left the node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no placement yet, nor was there one in the time that was given.
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
    /// As many messages are kept for absent members as a node keeps.
    #[error("too many messages of this node are kept for members that are away")]
    KeptFull,
    /// Answers are awaited, and there is no time until when.
    #[error("answers are asked for without a time until when")]
    NoTime,
    /// Such topics are the nodes' own.
    #[error("the topic {0} is reserved: it begins with `$`")]
    ReservedTopic(Topic),
    /// Nobody knows everybody's rank in a cluster of this size.
    #[error("the cluster is too large to send to single members")]
    RosterTooLarge,
    /// It was to be signed, and the node's key has failed. Nothing was sent.
    #[error("the node's key does not sign")]
    NotSigned,
    /// The node has stopped, or stopped before it knew the outcome.
    #[error("the node has stopped")]
    Stopped,
}

impl SendError {
    /// What the caller can do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NotReady => "give a time, wait for `ready`, or look at `status` for the reason",
            Self::NoDestination => "name at least one member",
            Self::UnknownPeers(_) => "`topology` lists the members",
            Self::TooLarge { .. } => {
                "`push` it, send it in smaller pieces, or raise `max_payload_bytes`"
            }
            Self::Busy => "await the receipts of earlier messages first",
            Self::KeptFull => "wait until some are over, or send without `until`",
            Self::NoTime => "give a time within which the receipt is due",
            Self::ReservedTopic(_) => "choose another topic",
            Self::RosterTooLarge => "broadcast, and let the receivers choose by topic",
            Self::NotSigned => "renew the node's certificate and key",
            Self::Stopped => "start the node again",
        }
    }
}
