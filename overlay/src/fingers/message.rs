//! The messages of [BMG09] Algorithm 2 and of the visits between its rounds, and
//! the variants of its rules.

use serde::{Deserialize, Serialize};

use crate::planted::Planted;

/// One of the two ways around the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// Towards successors.
    Clockwise,
    /// Towards predecessors.
    Counterclockwise,
}

impl Direction {
    /// The opposite direction.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Clockwise => Self::Counterclockwise,
            Self::Counterclockwise => Self::Clockwise,
        }
    }
}

/// The messages between processes of a binomial graph. Each is idempotent. A newer message replaces
/// an older one of its kind, direction and level between the same two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message<I, K> {
    /// [BMG09] UP: `subject` is 2^level places before you.
    Up {
        /// The level of the finger, from 1.
        level: u8,
        /// The process that is introduced.
        subject: I,
        /// The mark of the subject's place.
        mark: K,
    },
    /// [BMG09] DN: `subject` is 2^level places after you.
    Down {
        /// The level of the finger, from 1.
        level: u8,
        /// The process that is introduced.
        subject: I,
        /// The mark of the subject's place.
        mark: K,
    },
    /// A question: you are my finger in `direction`; am I yours in the opposite one?
    Confirm {
        /// The level that the question is about.
        level: u8,
        /// The way from the asker to the receiver.
        direction: Direction,
        /// The mark of the asker's place.
        mark: K,
    },
    /// The answer to [`Message::Confirm`]: you are.
    Confirmed {
        /// The level that the question was about.
        level: u8,
        /// The way from the asker to the answerer.
        direction: Direction,
        /// The mark of the answerer's place.
        mark: K,
    },
    /// The answer to [`Message::Confirm`]: you are not.
    Deny {
        /// The level that the question was about.
        level: u8,
        /// The way from the asker to the answerer.
        direction: Direction,
        /// The mark of the answerer's place.
        mark: K,
    },
    /// A request: I lack my finger at `level`; introduce it to me if you know it.
    Seek {
        /// The level of the finger that the asker lacks, at least 1: level 0 is the ring.
        level: u8,
        /// The way from the asker to the finger that it lacks.
        direction: Direction,
        /// The mark of the asker's place.
        mark: K,
    },
}

impl<I, K> Message<I, K> {
    /// UP if the receiver is clockwise of the subject, DN if it is counterclockwise: `towards` is
    /// the way from the subject to the receiver.
    pub(super) const fn introduction(level: u8, towards: Direction, subject: I, mark: K) -> Self
    where
        I: Copy,
        K: Copy,
    {
        match towards {
            Direction::Clockwise => Self::Up {
                level,
                subject,
                mark,
            },
            Direction::Counterclockwise => Self::Down {
                level,
                subject,
                mark,
            },
        }
    }

    /// The level that the message is about; a claim until it is range-checked.
    pub const fn level(&self) -> u8 {
        match self {
            Self::Up { level, .. }
            | Self::Down { level, .. }
            | Self::Confirm { level, .. }
            | Self::Confirmed { level, .. }
            | Self::Deny { level, .. }
            | Self::Seek { level, .. } => *level,
        }
    }

    /// The mark that the message carries.
    pub const fn mark(&self) -> &K {
        match self {
            Self::Up { mark, .. }
            | Self::Down { mark, .. }
            | Self::Confirm { mark, .. }
            | Self::Confirmed { mark, .. }
            | Self::Deny { mark, .. }
            | Self::Seek { mark, .. } => mark,
        }
    }

    /// The slot that the message takes between two processes, a kind and a level: a newer message
    /// of the same slot replaces an older one.
    pub const fn slot(&self) -> (u8, u8) {
        let (kind, way, level) = match self {
            Self::Up { level, .. } => (0, Direction::Clockwise, *level),
            Self::Down { level, .. } => (1, Direction::Clockwise, *level),
            Self::Confirm {
                level, direction, ..
            } => (2, *direction, *level),
            Self::Confirmed {
                level, direction, ..
            }
            // `Confirmed` and `Deny` answer the same question.
            | Self::Deny {
                level, direction, ..
            } => (4, *direction, *level),
            Self::Seek {
                level, direction, ..
            } => (6, *direction, *level),
        };
        match way {
            Direction::Clockwise => (kind, level),
            Direction::Counterclockwise => (kind + 1, level),
        }
    }
}

/// How an introduction that changes nothing is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Forwarding {
    /// UP begets UP, DN begets DN.
    #[default]
    Linear,
    /// Every message begets both, as printed in [BMG09] Alg. 2: one round of
    /// rule 1 then costs about N messages per process.
    Literal,
}

/// The rules that a process follows: by default ours, without a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rules {
    /// How introductions are passed on.
    pub forwarding: Forwarding,
    /// The bug to run with, if any.
    pub planted: Planted,
}
