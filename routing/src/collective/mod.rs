//! Collective operations among listed members, with an outcome that is decided: barrier,
//! agree, gather, scatter, reduce and all-to-all.
//!
//! ```text
//!   callers ──arrive──▶ who coordinates ──propose──▶ members ──vote──▶ decided
//!                           (who has come with what,              │
//!                            who is missing and why)              ▼
//!   callers ◀─────────────────── outcome ◀───── values fetched, if they are long
//! ```
//!
//! A majority of all listed members votes for each outcome, so no two members ever report
//! different ones as agreed ([`voting`], [`lives`]). Members are named by identity, not by
//! rank: a new epoch changes nothing here.
//!
//! Not here: how messages travel (the relay carries them by name), clocks, user functions.
//! A store of keys and values for rendezvous would be another machine beside this one, on
//! [`voting`] and [`lives`]: its operations are decided one by one in the same way.

mod arrive;
mod ballots;
mod context;
mod fetch;
mod instance;
pub mod lives;
mod machine;
mod message;
mod names;
mod outcome;
mod proposal;
mod receive;
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
pub use message::{Item, Lives as LivesAmong, Message, Refusal};
use names::Names;
pub use outcome::{CallError, Outcome, Waiting};
pub use proposal::{Class, End, Hash as ValueHash, Proposal, Value};
pub use reduce::{Number, Op, Operator, ReduceError, UnknownOp};
pub use storage::join_parts;
pub use terms::{Digest, InvalidName, InvalidTerms, Key, Name, OnLoss, PIECE_BYTES, Terms, Verb};
use tree::Tree;
pub use tree::{Frame, Letter};

/// The bounds of what a member keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Config {
    /// How many names are kept. Full: operations of further names are refused, here and at
    /// those who wanted this member to coordinate.
    pub max_names: usize,
    /// How many of them one peer may have brought up. Full: as above.
    pub max_names_per_peer: usize,
    /// How many bytes operations hold. Full: operations that no caller waits for are
    /// forgotten, oldest first; if none is left, [`CallError::Busy`].
    pub max_bytes: usize,
    /// Whether short messages go from neighbour to neighbour first, unsigned and in the
    /// names of others, see [`Frame`].
    pub takes_quick_ways: bool,
}

impl Config {
    /// How many operations of a name are kept, from the latest on. Full: the oldest for
    /// which no caller waits here is forgotten, and all before it.
    pub const MAX_GENERATIONS: usize = 16;
    /// How many callers wait here. Full: [`CallError::Busy`].
    pub const MAX_CALLS: usize = 1024;
    /// How many bytes the long values of one operation have, for who holds them. What is
    /// beyond is not fetched, and its member is missing as lost.
    pub const MAX_HELD_BYTES: usize = 256 << 20;
    /// The largest outcome; who calls for a larger one gets [`CallError::TooLarge`].
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

/// A timer of the machine; arming an equal one replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The time of a caller here is over.
    Deadline(u64),
    /// The time of a member that has come is nearly over.
    Close {
        /// Of which operation.
        serial: u64,
        /// The place of the member.
        member: u32,
    },
    /// Missing answers about the operation with this serial are asked for again.
    Retry(u64),
    /// Members that have come to the operation with this serial are told who has.
    Progress(u64),
    /// What waits on its way through this member goes on.
    Flush,
}

impl Timer {
    const FIRST_PROGRESS: Duration = Duration::from_secs(1);
    /// A guess: well below what callers notice, and longer than messages of members that
    /// call together are apart.
    const HOLD: Duration = Duration::from_millis(2);
    const NEXT_PROGRESS: Duration = Duration::from_secs(5);
}

/// A caller of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Call<I> {
    /// By which the outcome is told; unique in this life.
    pub id: u64,
    /// The operation.
    pub terms: Terms<I>,
    /// What this member comes with.
    pub value: Bytes,
    /// When the outcome is wanted at the latest.
    pub time: Duration,
}

/// What the machine is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// A life begins. What an earlier one in the same process knew is known.
    Start,
    /// A caller here.
    Call(Call<I>),
    /// The caller with this number waits no more. Its member has come all the same.
    Cancel(u64),
    /// A message from another member.
    Message {
        /// Who sent it.
        from: I,
        /// What it says.
        message: Message<I>,
    },
    /// A frame from a neighbour in the graph.
    Frame(Frame<I>),
    /// Who is in the epoch. Who is listed and not among these is waited for, and does not
    /// coordinate: it may never have been started.
    Members(Arc<BTreeSet<I>>),
    /// This member's tables are these, and the names of its epoch's members if all are
    /// known.
    View {
        /// The tables.
        view: View<I>,
        /// By rank.
        members: Arc<Vec<Option<I>>>,
    },
    /// An armed timer fired.
    Timer(Timer),
    /// There is a link to this peer from now on.
    LinkUp(I),
    /// There is none any more.
    LinkDown(I),
    /// A member is called down.
    Down(I),
    /// A member has said goodbye.
    Left(I),
    /// A member is there after all, or again.
    Up(I),
}

/// What the machine asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect<I> {
    /// Send `message` to these members, by name.
    Send {
        /// To whom; at least one, never this member itself.
        to: Vec<I>,
        /// What.
        message: Message<I>,
    },
    /// Send `frame` to a neighbour in the graph, if it is linked.
    Frame {
        /// To whom.
        to: I,
        /// What.
        frame: Frame<I>,
    },
    /// Fire `timer` once, `after` from now.
    Arm {
        /// Which.
        timer: Timer,
        /// How long from now.
        after: Duration,
    },
    /// Forget `timer`.
    Disarm(Timer),
    /// Record, before anything that is asked for after it, that this life takes part in the
    /// vote about this operation: a later life needs it as [`Record::Kept`].
    Record(Key),
    /// Tell a caller.
    Answer {
        /// Which caller.
        call: u64,
        /// The outcome, or why there is none.
        outcome: Result<Box<Outcome<I>>, CallError>,
    },
}

/// One member's part in all collective operations: a pure machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collectives<I> {
    me: I,
    boot: u64,
    config: Config,
    lives: Lives<I>,
    gone: Gone<I>,
    names: Names<I>,
    tree: Tree<I>,
    /// Callers that wait, and for what.
    calls: BTreeMap<u64, Key>,
}
