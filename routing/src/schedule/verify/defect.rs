//! The rules that a schedule can break.

use super::super::fault::FaultError;
use super::super::plan::Message;
use super::super::problem::ProblemError;

/// A rule that a schedule breaks. `number` counts the moves of the file from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The schedule is for another graph.
    #[error("the schedule is for the graph {schedule}, not for {given}")]
    OtherGraph {
        /// Of the schedule.
        schedule: String,
        /// The graph that was given.
        given: String,
    },
    /// A fault of the header does not exist.
    #[error("faults: {0}")]
    Fault(#[from] FaultError),
    /// The header makes no sense.
    #[error("{0}")]
    Header(#[from] ProblemError),
    /// A move is in no step of the schedule.
    #[error("move {number} is in step {step}; the steps are 1 to {steps}")]
    NoStep {
        /// Which move.
        number: usize,
        /// Its step.
        step: u32,
        /// How many there are.
        steps: u32,
    },
    /// A node of a path does not exist or is faulty.
    #[error("move {number}: {node:?} is no healthy node of the graph")]
    NoNode {
        /// Which move.
        number: usize,
        /// The name.
        node: String,
    },
    /// A path does not begin at the sender and end at the receiver.
    #[error("move {number}: its path does not lead from {from} to {to}")]
    Ends {
        /// Which move.
        number: usize,
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
    /// Two nodes of a path are not joined.
    #[error("move {number}: no healthy channel leads from {from} to {to}")]
    NoChannel {
        /// Which move.
        number: usize,
        /// One node.
        from: String,
        /// The next one.
        to: String,
    },
    /// A path comes to a node twice.
    #[error("move {number}: its path comes to {node} twice")]
    Loop {
        /// Which move.
        number: usize,
        /// The node.
        node: String,
    },
    /// A path is too long.
    #[error("move {number}: its path has {channels} channels; at most {most} are allowed")]
    TooLong {
        /// Which move.
        number: usize,
        /// How long it is.
        channels: usize,
        /// How long it may be.
        most: usize,
    },
    /// A message that the collective does not have.
    #[error("move {number}: there is no {message} in this collective")]
    NoMessage {
        /// Which move.
        number: usize,
        /// What it carries.
        message: Message,
    },
    /// A message goes to a node that does not take part, or is not its destination.
    #[error("move {number}: this message is not for {to}")]
    NotFor {
        /// Which move.
        number: usize,
        /// The receiver.
        to: String,
    },
    /// Two messages are on one channel at once.
    #[error("moves {first} and {second} both use the channel from {from} to {to} in step {step}")]
    Conflict {
        /// One move.
        first: usize,
        /// The other.
        second: usize,
        /// The step.
        step: u32,
        /// Where the channel begins.
        from: String,
        /// Where it ends.
        to: String,
    },
    /// A node with one port sends or receives twice at once.
    #[error("moves {first} and {second}: {node} {does} twice in step {step} and has one port")]
    Port {
        /// One move.
        first: usize,
        /// The other.
        second: usize,
        /// The node.
        node: String,
        /// `sends` or `receives`.
        does: &'static str,
        /// The step.
        step: u32,
    },
    /// A node sends what it does not hold yet.
    #[error("move {number}: {from} does not hold the message before step {step}")]
    NotHeld {
        /// Which move.
        number: usize,
        /// The sender.
        from: String,
        /// The step.
        step: u32,
    },
    /// A node gets a message for the second time.
    #[error("move {number}: {to} has this message already, or gets it in the same step")]
    Twice {
        /// Which move.
        number: usize,
        /// The receiver.
        to: String,
    },
    /// A receiver lacks a message at the end.
    #[error("{to} never gets {message}")]
    Missing {
        /// The receiver.
        to: String,
        /// What it lacks.
        message: Message,
    },
    /// A step without a move.
    #[error("step {0} has no move")]
    EmptyStep(u32),
}
