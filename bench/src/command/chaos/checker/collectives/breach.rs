//! The rules of collective operations that can be broken.

use std::time::Duration;

use binomesh::world::Id;
use binomesh_routing::collective::{CallError, Class, End};
use thiserror::Error;

/// A promise about collective operations that was broken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum Breach {
    #[error("{by} gave an outcome to call {call}, which had its outcome already or was never made")]
    Unasked { by: Id, call: u64 },
    #[error("{by} called at {at:?} and had no outcome by {until:?}")]
    Unanswered {
        by: Id,
        at: Duration,
        until: Duration,
    },
    #[error("the call of {by} was refused: {error}")]
    Refused { by: Id, error: CallError },
    #[error("the outcome at {by} names {member}, which never called")]
    Phantom { by: Id, member: Id },
    #[error("the outcome at {by} has other members or other places than the list of the call")]
    Miscounted { by: Id },
    #[error("the outcome at {by} is {}, which contradicts the members that it names", end.name())]
    WrongEnd { by: Id, end: End },
    #[error("{a} and {b} have different outcomes, and both are marked as agreed")]
    Disagreement { a: Id, b: Id },
    #[error("{by} was given values of the wrong members: {of:?}")]
    WrongSources { by: Id, of: Vec<Id> },
    #[error(
        "{by} was given a value of {of} that {of} did not send, or that differs from the value at other members"
    )]
    WrongValue { by: Id, of: Id },
    #[error("{by} was given a result that is not the combination of the values")]
    WrongSum { by: Id },
    #[error("the outcome at {by} says that {member} is {}, and no member had a reason to say so", class.name())]
    Unfounded { by: Id, member: Id, class: Class },
    #[error("the outcome at {by} says that {member} is late, long before the deadline")]
    Hasty { by: Id, member: Id },
    #[error("the outcome at {by} says that {member} is {}, but {member} was a member and called in time", class.name())]
    LeftOut { by: Id, member: Id, class: Class },
    #[error("{by} had no agreed outcome, though a majority of the members was up and undisturbed")]
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
