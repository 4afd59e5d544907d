//! What nodes of a fully connected system say to each other.

use serde::{Deserialize, Serialize};

use crate::fingers;

/// A message of one attempt; messages of other attempts are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Message<I> {
    /// The attempt that it belongs to.
    pub attempt: u32,
    /// What it says.
    pub body: Body<I>,
}

impl<I: Copy> Message<I> {
    /// Of no attempt: the sender has its place.
    pub const CLOSED: Self = Self {
        attempt: 0,
        body: Body::Closed,
    };

    /// Of no attempt: the sender looks for its place, and its list has this digest.
    pub const fn listed(digest: u64) -> Self {
        Self {
            attempt: 0,
            body: Body::Listed { digest },
        }
    }

    /// The peer that it introduces: the receiver may want to speak to them.
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

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Body<I> {
    /// To whoever is met: I look for my place, and my list of peers has this digest.
    Listed {
        /// Of the list in its order, the sender's own entry among the others.
        digest: u64,
    },
    /// Corrected, a question: take my successor and give me yours.
    Exchange {
        /// The successor of the asker.
        successor: I,
    },
    /// The answer: the exchange is done.
    Exchanged {
        /// The former successor of the answerer.
        successor: I,
        /// The smallest identifier of the answerer's cycle.
        root: I,
    },
    /// The answer, also to [`Body::Listed`]: nobody joins this ring through me any more. Find
    /// your place in the overlay through me.
    Closed,
    /// Corrected, to the node that one asked: so many nodes have joined through me, myself
    /// counted.
    Joined {
        /// How many.
        nodes: u32,
    },
    /// Corrected, to the nodes that asked one: the ring has so many members and is final.
    Complete {
        /// How many.
        members: u32,
    },
    /// A question of list ranking: whom do you know ahead of you? The receiver is `distance`
    /// places after the asker.
    Ahead {
        /// The places between them; 1 says that the asker is the predecessor.
        distance: u32,
        /// The members of the ring, as the asker knows.
        members: u32,
    },
    /// The answer.
    AheadIs {
        /// A member after the answerer.
        peer: I,
        /// The places between them; 0 if the answerer is the root.
        distance: u32,
    },
    /// The answer: by my list another node is before me, or another number of nodes is there.
    Differs,
    /// Sorted, to ring neighbours and fingers: I have given up the order of the list.
    Unsorted,
    /// [BMG09] Algorithm 2.
    Finger(fingers::Message<I, ()>),
    /// As written, step 1: is your place "neighbour CW" free?
    Request,
    /// As written, step 2: the "neighbour CCW" of the answerer. The request was granted if it
    /// is the asker.
    Current(I),
    /// As written, step 3: my current neighbours, to the one counterclockwise.
    CurrentClockwise(I),
    /// As written, step 3: the same, to the one clockwise.
    CurrentCounterclockwise(I),
}

impl<I> From<fingers::Message<I, ()>> for Body<I> {
    fn from(message: fingers::Message<I, ()>) -> Self {
        Self::Finger(message)
    }
}

impl<I> Body<I> {
    /// Whether it is of the procedure as written.
    pub const fn is_written(&self) -> bool {
        matches!(
            self,
            Self::Request
                | Self::Current(_)
                | Self::CurrentClockwise(_)
                | Self::CurrentCounterclockwise(_)
        )
    }

    /// The attempt that it always belongs to: exchanges are of the second.
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

    /// The slot it takes between two nodes, a kind and a level: a newer message of the same
    /// slot replaces an older one.
    pub const fn slot(&self) -> (u8, u8) {
        match self {
            Self::Exchange { .. } => (0, 0),
            // Each answers the same question.
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
