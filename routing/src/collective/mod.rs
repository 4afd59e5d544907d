//! Collective operations among listed members, with an outcome that is decided: barrier,
//! agree, gather, scatter, reduce and all-to-all.
//!
//! ```text
//!   callers ──arrive──▶ coordinator ──propose──▶ members ──vote──▶ decided
//!                       (arrived members with values,          │
//!                        missing members with reasons)         ▼
//!   callers ◀─────────────── outcome ◀───── values fetched, if they are long
//! ```
//!
//! A member *has come* once a caller at it has joined the operation. An outcome is *agreed* once a
//! majority of all listed members has voted for it. So no two members report different outcomes of
//! one operation as agreed ([`voting`]); [`lives`] names the two exceptions. Members are named by
//! identity, not by rank, so an operation goes on through new epochs.
//!
//! Most kinds of short messages go over the links of the graph first (`tree`). Not here: how all
//! other messages travel (the relay carries them by name), clocks, user functions. A store of keys
//! and values for rendezvous would be another machine beside this one, on [`voting`] and [`lives`]:
//! its operations would be decided one by one in the same way.

mod arrivals;
mod ballots;
mod context;
mod dispatch;
mod fetch;
mod instance;
pub mod lives;
mod machine;
mod message;
mod names;
mod outcome;
mod proposal;
mod reduce;
mod storage;
mod terms;
mod tree;
pub mod voting;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::relay::View;
use context::Gone;
use lives::Lives;
pub use message::{Item, Lives as LivesAmong, Message, OperationRefusal};
use names::Names;
pub use outcome::{CallError, OperationState, Outcome};
pub use proposal::{Class, End, Hash as ValueHash, Proposal, Value};
pub use reduce::{Number, Op, Operator, ReduceError, UnknownOp};
pub use storage::join_parts;
pub use terms::{Digest, InvalidName, InvalidTerms, Key, Name, OnLoss, PIECE_BYTES, Terms, Verb};
use tree::Tree;
pub use tree::{Frame, Letter};

/// The bounds of what a member keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Config {
    /// How many names are kept. Full: an operation of a further name is refused, for callers here
    /// and for members that take this one for its coordinator.
    pub max_names: usize,
    /// How many of these names one peer may have brought up. Full: operations of its further names
    /// are refused.
    pub max_names_per_peer: usize,
    /// How many bytes all operations hold together. Full: operations without a caller here are
    /// forgotten, the oldest first. Such an operation stays while an earlier generation of its name
    /// has a caller here. If there is still no room, a further caller gets [`CallError::Busy`].
    pub max_bytes: usize,
    /// Whether most kinds of short messages go over the links of the graph first; see [`Frame`]. On
    /// these ways a member passes on the messages of others, unsigned.
    pub takes_quick_ways: bool,
}

impl Config {
    /// How many operations of a name are kept. Full: the operation with the smallest generation is
    /// forgotten, and later calls of that generation or a smaller one get [`CallError::TooOld`]. If
    /// that operation has a caller here, the new one is refused instead.
    pub const MAX_GENERATIONS: usize = 16;
    /// How many callers wait at this node. Full: a further one gets [`CallError::Busy`].
    pub const MAX_CALLS: usize = 1024;
    /// How many bytes the values of one operation may have together, of all members that have come.
    /// A long value beyond is not fetched before the decision. If too few members hold the value,
    /// its member is missing as lost.
    pub const MAX_HELD_BYTES: usize = 256 << 20;
    /// The longest outcome, if all members bring values as long as the caller's. A call for a
    /// longer one gets [`CallError::TooLarge`].
    pub const MAX_OUTCOME_BYTES: usize = 64 << 20;
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_names: 1024,
            max_names_per_peer: 256,
            max_bytes: 512 << 20,
            takes_quick_ways: true,
        }
    }
}

/// A timer of the machine. Arming an equal one replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The deadline of the caller with this number has come.
    Deadline(u64),
    /// The time that the caller of an arrived member gave is nearly over.
    Close {
        /// The serial number of the operation.
        serial: u64,
        /// The place of the member.
        member: u32,
    },
    /// Ask again for answers that are missing about the operation with this serial number.
    Retry(u64),
    /// Tell the members that have come the progress of the operation with this serial number, if
    /// this member coordinates it.
    Progress(u64),
    /// Pass on the letters that wait at this member for other letters of their row (see
    /// [`Letter`]).
    Flush,
}

impl Timer {
    /// How long after the first arrival progress is first told.
    const FIRST_PROGRESS: Duration = Duration::from_secs(1);
    /// How long at most a letter waits for other letters of its row. A guess: well below what
    /// callers notice, and longer than the time between the calls of members that call together. If
    /// it is too short, members pass on more frames; if too long, an operation with a missing
    /// member is slower by it at each step.
    const HOLD: Duration = Duration::from_millis(2);
    /// The time between two reports of progress.
    const NEXT_PROGRESS: Duration = Duration::from_secs(5);
}

/// A caller of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Call<I> {
    /// The number by which the outcome is returned; unique in this process.
    pub id: u64,
    /// The terms of the operation.
    pub terms: Terms<I>,
    /// The value that the caller brings. Of a member with several callers, the first one's value
    /// counts.
    pub value: Bytes,
    /// The time, from the call, after which the caller gets an outcome at the latest.
    pub time: Duration,
}

/// An input of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// A life begins. What an earlier life in the same process knew is still known.
    Start,
    /// A caller at this node joins an operation.
    Call(Call<I>),
    /// The caller with this number stops waiting. The arrival of this member stands.
    Cancel(u64),
    /// A message from another member.
    Message {
        /// The member that sent the message.
        from: I,
        /// The content of the message.
        message: Message<I>,
    },
    /// A frame from a neighbour in the graph.
    Frame(Frame<I>),
    /// The members of the epoch. A listed member outside the epoch is waited for but does not
    /// coordinate: it may never have been started.
    Members(Arc<BTreeSet<I>>),
    /// The new tables of this member, and the members of its epoch if all their names are known.
    View {
        /// The tables of the overlay.
        view: View<I>,
        /// The members of the epoch, by rank.
        members: Arc<Vec<Option<I>>>,
    },
    /// An armed timer fired.
    Timer(Timer),
    /// A link to this peer has come up.
    LinkUp(I),
    /// The link to this peer has ended, for another reason than that it was idle.
    LinkDown(I),
    /// A verdict says that this member is down.
    Down(I),
    /// A member has said goodbye.
    Left(I),
    /// A member that was called down or had left is up: again, or after all.
    Up(I),
}

/// An effect that the machine asks its host for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect<I> {
    /// Send `message` to these members, by name.
    Send {
        /// The receivers: at least one, and never this member itself.
        to: Vec<I>,
        /// The message to send.
        message: Message<I>,
    },
    /// Send `frame` to a neighbour in the graph. The machine names only peers whose link is up or
    /// has ended because it was idle; sending makes such a link again.
    Frame {
        /// The neighbour that the frame goes to.
        to: I,
        /// The frame to send.
        frame: Frame<I>,
    },
    /// Fire `timer` once, `after` from now.
    Arm {
        /// The timer to fire.
        timer: Timer,
        /// The time from now until it fires.
        after: Duration,
    },
    /// Forget `timer`: it does not fire.
    Disarm(Timer),
    /// Record that this life takes part in the vote about this operation, before performing any
    /// later effect. A later life needs the record as
    /// [`Record::Kept`](lives::Record::Kept).
    Record(Key),
    /// Answer a caller at this node.
    Answer {
        /// The number of the caller.
        call: u64,
        /// The outcome, or why there is none.
        outcome: Result<Box<Outcome<I>>, CallError>,
    },
}

/// One member in all its collective operations: a pure machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collectives<I> {
    me: I,
    boot: u64,
    config: Config,
    lives: Lives<I>,
    gone: Gone<I>,
    names: Names<I>,
    tree: Tree<I>,
    /// The callers that wait, each with the key of its operation.
    calls: BTreeMap<u64, Key>,
}
