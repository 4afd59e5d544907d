//! The rules that a schedule can break.

use super::super::fault::FaultError;
use super::super::plan::Message;
use super::super::problem::ProblemError;

/// A rule that a schedule breaks. `number` counts the moves of the file from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The schedule is for another graph, or faults were taken out of the given graph already.
    #[error("the schedule is for the graph {schedule}, not for {given}")]
    OtherGraph {
        /// The graph that the schedule names.
        schedule: String,
        /// The graph that was given.
        given: String,
    },
    /// A fault of the header does not exist, or there are too many faults.
    #[error("faults: {0}")]
    Fault(#[from] FaultError),
    /// The header makes no sense.
    #[error("{0}")]
    Header(#[from] ProblemError),
    /// A move is in no step of the schedule.
    #[error("move {number} is in step {step}; the steps are 1 to {steps}")]
    NoStep {
        /// The number of the move.
        number: usize,
        /// The step of the move.
        step: u32,
        /// How many steps there are.
        steps: u32,
    },
    /// A node of a path does not exist or is faulty.
    #[error("move {number}: {node:?} is no healthy node of the graph")]
    NoNode {
        /// The number of the move.
        number: usize,
        /// The name that was given.
        node: String,
    },
    /// A path does not begin at the sender and end at the receiver.
    #[error("move {number}: the path does not lead from {from} to {to}")]
    Ends {
        /// The number of the move.
        number: usize,
        /// The name of the sender.
        from: String,
        /// The name of the receiver.
        to: String,
    },
    /// Two nodes of a path are not joined.
    #[error("move {number}: no healthy channel leads from {from} to {to}")]
    NoChannel {
        /// The number of the move.
        number: usize,
        /// The node where a channel should begin.
        from: String,
        /// The node where a channel should end.
        to: String,
    },
    /// A path comes to a node twice.
    #[error("move {number}: the path visits {node} twice")]
    Loop {
        /// The number of the move.
        number: usize,
        /// The node that comes twice.
        node: String,
    },
    /// A path is too long.
    #[error("move {number}: the path has {channels} channels; at most {most} are allowed")]
    TooLong {
        /// The number of the move.
        number: usize,
        /// The number of channels of the path.
        channels: usize,
        /// The most channels that are allowed.
        most: usize,
    },
    /// A message that the collective does not have.
    #[error("move {number}: this collective has no {message}")]
    NoMessage {
        /// The number of the move.
        number: usize,
        /// The message of the move.
        message: Message,
    },
    /// A message goes back to its origin or, in the wormhole model, to a node that is no receiver.
    #[error("move {number}: {to} is no receiver of this message")]
    NotFor {
        /// The number of the move.
        number: usize,
        /// The name of the receiver.
        to: String,
    },
    /// Two messages are on one channel at once.
    #[error("moves {first} and {second} both use the channel from {from} to {to} in step {step}")]
    Conflict {
        /// The number of one move.
        first: usize,
        /// The number of the other move.
        second: usize,
        /// The step of both moves.
        step: u32,
        /// The node where the channel begins.
        from: String,
        /// The node where the channel ends.
        to: String,
    },
    /// A node with one port sends or receives twice at once.
    #[error(
        "moves {first} and {second}: {node} {does} twice in step {step}, but has only one port"
    )]
    Port {
        /// The number of one move.
        first: usize,
        /// The number of the other move.
        second: usize,
        /// The node with one port.
        node: String,
        /// The word for the direction: `sends` or `receives`.
        does: &'static str,
        /// The step of both moves.
        step: u32,
    },
    /// A node sends what it does not hold yet.
    #[error("move {number}: {from} does not hold the message before step {step}")]
    NotHeld {
        /// The number of the move.
        number: usize,
        /// The name of the sender.
        from: String,
        /// The step of the move.
        step: u32,
    },
    /// A node gets a message for the second time.
    #[error(
        "move {number}: {to} already has this message, or another move brings it in the same step"
    )]
    Twice {
        /// The number of the move.
        number: usize,
        /// The name of the receiver.
        to: String,
    },
    /// A receiver lacks a message at the end.
    #[error("{to} never gets {message}")]
    Missing {
        /// The name of the receiver.
        to: String,
        /// The message that the receiver lacks.
        message: Message,
    },
    /// A step without a move.
    #[error("step {0} has no move")]
    EmptyStep(u32),
}
