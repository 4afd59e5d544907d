//! Messages between the nodes of a fully connected system.

use serde::{Deserialize, Serialize};

use crate::fingers;

/// A message of one attempt to make the ring. Most messages count only if the receiver is in the
/// same attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Message<I> {
    /// The attempt that the message belongs to: 0 by the order of the list, 1 by exchanges.
    pub attempt: u32,
    /// The content of the message.
    pub body: Body<I>,
}

impl<I: Copy> Message<I> {
    /// A message of no attempt: the sender has its place.
    pub const CLOSED: Self = Self {
        attempt: 0,
        body: Body::Closed,
    };

    /// A message of no attempt: the sender looks for its place, and its list has this digest.
    pub const fn listed(digest: u64) -> Self {
        Self {
            attempt: 0,
            body: Body::Listed { digest },
        }
    }

    /// The peer that the message introduces: the receiver may want to send to it.
    pub fn introduces(&self) -> Option<I> {
        match self.body {
            Body::Exchange { successor } | Body::Exchanged { successor, .. } => Some(successor),
            Body::AheadIs { peer, .. } => Some(peer),
            Body::Finger(
                fingers::Message::Up { subject, .. } | fingers::Message::Down { subject, .. },
            ) => Some(subject),
            _ => None,
        }
    }
}

/// The content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Body<I> {
    /// To every peer to which a link comes up, and to every peer that is met: I look for my place,
    /// and my list of peers has this digest.
    Listed {
        /// The digest of the list in its order, with the sender itself among its entries.
        digest: u64,
    },
    /// Corrected procedure, a question: take my successor and give me yours.
    Exchange {
        /// The successor of the asker.
        successor: I,
    },
    /// The answer to [`Body::Exchange`]: the exchange is done.
    Exchanged {
        /// The former successor of the answerer.
        successor: I,
        /// The smallest identifier of the answerer's cycle.
        root: I,
    },
    /// An answer, also to [`Body::Listed`]: no node joins this ring through me any more. Find your
    /// place in the overlay through me.
    Closed,
    /// Corrected procedure, to the node that the sender asked: this number of nodes has joined
    /// through me.
    Joined {
        /// The number of nodes, including the sender.
        nodes: u32,
    },
    /// Corrected procedure, to the nodes that asked the sender: the ring is final.
    Complete {
        /// The number of members of the ring.
        members: u32,
    },
    /// A question of list ranking: whom do you know ahead of you? The receiver is `distance`
    /// places after the asker.
    Ahead {
        /// How many places ahead of the asker the receiver is; 1 says that the asker is the
        /// predecessor.
        distance: u32,
        /// The number of members of the ring, as the asker knows it.
        members: u32,
    },
    /// The answer to [`Body::Ahead`].
    AheadIs {
        /// A member after the answerer.
        peer: I,
        /// How many places ahead of the answerer that member is; 0 if the answerer is the root, or
        /// has its rank from the order of the list.
        distance: u32,
    },
    /// An answer to [`Body::Ahead`]: by my list another node is before me, or my ring has another
    /// number of members.
    Differs,
    /// Sorted procedure, to ring neighbours and fingers, and to a peer that asks later: I have
    /// given up the order of the list.
    Unsorted,
    /// A message of [BMG09] Algorithm 2.
    Finger(fingers::Message<I, ()>),
    /// Procedure as written, step 1: is your place "neighbour CCW" free?
    Request,
    /// Procedure as written, step 2: the "neighbour CCW" of the answerer. If it is the asker, the
    /// request was granted.
    Current(I),
    /// Procedure as written, step 3, to the neighbour counterclockwise: my neighbour clockwise.
    CurrentClockwise(I),
    /// Procedure as written, step 3, to the neighbour clockwise: my neighbour counterclockwise.
    CurrentCounterclockwise(I),
}

impl<I> From<fingers::Message<I, ()>> for Body<I> {
    fn from(message: fingers::Message<I, ()>) -> Self {
        Self::Finger(message)
    }
}

impl<I> Body<I> {
    /// Whether the message belongs to the procedure as written.
    pub const fn is_written(&self) -> bool {
        matches!(
            self,
            Self::Request
                | Self::Current(_)
                | Self::CurrentClockwise(_)
                | Self::CurrentCounterclockwise(_)
        )
    }

    /// The attempt that the message always belongs to: exchanges belong to attempt 1, and
    /// `Unsorted` to attempt 0. None if the message belongs to the sender's present attempt.
    pub const fn attempt(&self) -> Option<u32> {
        match self {
            Self::Exchange { .. }
            | Self::Exchanged { .. }
            | Self::Closed
            | Self::Joined { .. }
            | Self::Complete { .. } => Some(1),
            Self::Unsorted => Some(0),
            _ => None,
        }
    }

    /// The slot that the message takes between two nodes, a kind and a level: a newer message of
    /// the same slot replaces an older one.
    pub const fn slot(&self) -> (u8, u8) {
        match self {
            Self::Exchange { .. } => (0, 0),
            // Both can answer one `Exchange`.
            Self::Exchanged { .. } | Self::Closed => (1, 0),
            Self::Joined { .. } => (2, 0),
            Self::Complete { .. } => (3, 0),
            Self::Ahead { .. } => (4, 0),
            Self::AheadIs { .. } | Self::Differs => (5, 0),
            Self::Request => (6, 0),
            Self::Current(_) => (7, 0),
            Self::CurrentClockwise(_) => (8, 0),
            Self::CurrentCounterclockwise(_) => (9, 0),
            Self::Listed { .. } => (10, 0),
            Self::Unsorted => (11, 0),
            Self::Finger(message) => {
                let (kind, level) = message.slot();
                (12 + kind, level)
            }
        }
    }
}
