//! The rules of collective operations that can be broken.

use std::time::Duration;

use binomesh::world::Id;
use binomesh_routing::collective::{CallError, Class, End};
use thiserror::Error;

/// A promise about collective operations that was broken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum Breach {
    #[error("{by} answered its caller {call}, who had an answer or never was")]
    Unasked { by: Id, call: u64 },
    #[error("{by} called at {at:?} and had no answer at {until:?}")]
    Unanswered {
        by: Id,
        at: Duration,
        until: Duration,
    },
    #[error("{by} was refused: {error}")]
    Refused { by: Id, error: CallError },
    #[error("{by} was told of {member}, which never came")]
    Phantom { by: Id, member: Id },
    #[error("{by} was told of members and places that are not those of the list")]
    Miscounted { by: Id },
    #[error("{by} was told that it ended as {}, which does not fit", end.name())]
    WrongEnd { by: Id, end: End },
    #[error("{a} and {b} were told different outcomes as agreed")]
    Disagreement { a: Id, b: Id },
    #[error("{by} was given values of {of:?} and not of whom it should")]
    WrongSources { by: Id, of: Vec<Id> },
    #[error("{by} was given a value of {of} that it never came with, or another one than others")]
    WrongValue { by: Id, of: Id },
    #[error("{by} was given values that are combined wrongly")]
    WrongSum { by: Id },
    #[error("{by} was told that {member} is {}, and nobody had called it so", class.name())]
    Unfounded { by: Id, member: Id, class: Class },
    #[error("{by} was told that {member} is late, long before time was over")]
    Hasty { by: Id, member: Id },
    #[error("{by} was told that {member} is {}, which was there and came in time", class.name())]
    LeftOut { by: Id, member: Id, class: Class },
    #[error("{by} was not told of an agreed outcome, though a majority was there and undisturbed")]
    NotAgreed { by: Id },
}

impl Breach {
    /// The name of the promise.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Unasked { .. } => "collective-unasked",
            Self::Unanswered { .. } => "collective-unanswered",
            Self::Refused { .. } => "collective-refused",
            Self::Phantom { .. } => "collective-phantom",
            Self::Miscounted { .. } => "collective-miscounted",
            Self::WrongEnd { .. } => "collective-wrong-end",
            Self::Disagreement { .. } => "collective-disagreement",
            Self::WrongSources { .. } => "collective-wrong-sources",
            Self::WrongValue { .. } => "collective-wrong-value",
            Self::WrongSum { .. } => "collective-wrong-sum",
            Self::Unfounded { .. } => "collective-unfounded",
            Self::Hasty { .. } => "collective-hasty",
            Self::LeftOut { .. } => "collective-left-out",
            Self::NotAgreed { .. } => "collective-not-agreed",
        }
    }
}
