//! Words for a peer that the speaker cannot reach, carried by a third that
//! reaches both.
//!
//! ```text
//!   a ──To{b, word}──▶ helper ──From{a, word}──▶ b        a ╳ b
//! ```
//!
//! Only what ring and fingers live on is carried: a tree edge must be spoken
//! over, and rumours have their own ways. The carrier vouches for nothing, so
//! what it brings is believed only while there is no link to the speaker.

use serde::{Deserialize, Serialize};

use super::detector;
use crate::stamp::Mark;
use crate::{fingers, ring};

/// A message of this layer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To the carrier: I cannot reach this peer.
    To {
        /// Who is meant.
        to: I,
        /// What it is told.
        carried: Carried<I>,
    },
    /// From the carrier: this peer cannot reach you.
    From {
        /// Who says so.
        from: I,
        /// What it says.
        carried: Carried<I>,
    },
}

/// What can be carried.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Carried<I> {
    /// Of the ring.
    Ring(ring::Message<I>),
    /// Of the fingers.
    Fingers(fingers::Message<I, Mark<I>>),
    /// A beat, see [`detector::Message::Beat`].
    Beat {
        /// Where the speaker stands.
        mark: Option<Mark<I>>,
        /// Whether it wants to know the same of the receiver.
        reply: bool,
    },
}

impl<I: Clone> Carried<I> {
    /// What of a message can be carried, if anything.
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
