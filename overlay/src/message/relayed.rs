//! Messages to a peer that the sender cannot reach, carried by a third node that reaches both.
//!
//! ```text
//!   a ──To{b, word}──▶ helper ──From{a, word}──▶ b        a ╳ b
//! ```
//!
//! Only messages that ring and fingers need are carried. A tree edge needs a link of its own, and
//! rumours travel over other links anyway. Nothing proves that a carried message comes from the
//! named sender, so it is believed only while the receiver has no link to that sender.

use serde::{Deserialize, Serialize};

use super::detector;
use crate::stamp::Mark;
use crate::{fingers, ring};

/// A message of this layer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To the carrier: I cannot reach this peer, pass the message on.
    To {
        /// The peer that the message is for.
        to: I,
        /// The carried message.
        carried: Carried<I>,
    },
    /// From the carrier: a message of a peer that cannot reach you.
    From {
        /// The original sender.
        from: I,
        /// The carried message.
        carried: Carried<I>,
    },
}

/// A message that can be carried.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Carried<I> {
    /// A message of the ring.
    Ring(ring::Message<I>),
    /// A message of the fingers.
    Fingers(fingers::Message<I, Mark<I>>),
    /// A beat, see [`detector::Message::Beat`].
    Beat {
        /// The place of the original sender.
        mark: Option<Mark<I>>,
        /// Whether the receiver should answer with its own place.
        reply: bool,
    },
}

impl<I: Clone> Carried<I> {
    /// The message in its carried form; none if it cannot be carried.
    pub fn of(message: &super::Message<I>) -> Option<Self> {
        match message {
            super::Message::Ring(message) => Some(Self::Ring(message.clone())),
            super::Message::Fingers(message) => Some(Self::Fingers(message.clone())),
            super::Message::Detector(detector::Message::Beat { mark, reply }) => Some(Self::Beat {
                mark: mark.clone(),
                reply: *reply,
            }),
            _ => None,
        }
    }
}

impl<I> From<Carried<I>> for super::Message<I> {
    fn from(carried: Carried<I>) -> Self {
        match carried {
            Carried::Ring(message) => Self::Ring(message),
            Carried::Fingers(message) => Self::Fingers(message),
            Carried::Beat { mark, reply } => {
                Self::Detector(detector::Message::Beat { mark, reply })
            }
        }
    }
}
