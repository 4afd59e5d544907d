//! The order of an origin's messages: numbers without holes, and who sorts by them.
//!
//! ```text
//!   origin    0 1 2 3 4      one count per topic and destinations
//!   comes     0 2 . 4 3      1 is lost here
//!   sorted    0 [1 is missing] 2 3 4
//! ```
//!
//! The sequence in a [`crate::PacketId`] counts everything that an origin sends, to
//! whomever and about whatever, so a hole in it says nothing to a receiver. Messages that
//! are published in order therefore carry a second count, of their *stream*: what this
//! origin publishes in order, in this life, on one topic and to the same destinations.
//! Whoever is to get one of a stream is to get all of it, so a hole is a loss.
//!
//! Not here: any clock. [`Sorter`] is told the time and says when it wants to be asked
//! again.

mod numbering;
mod sorter;

use serde::{Deserialize, Serialize};

pub(crate) use numbering::Numbering;
pub use sorter::{Arrival, Bounds, Counts, Sorted, Sorter};

/// Where a message stands among those that its origin has published in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Order {
    /// Which of the origin's streams, in its life.
    pub stream: u64,
    /// How many came before it in that stream; in a packet of several, before the first.
    pub number: u64,
}

/// What a receiver is told about the order of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordered {
    /// Where it stands.
    pub order: Order,
    /// Its origin answers for nothing any more that it published before, unless it keeps
    /// it: nothing that would come before this one is on its way.
    pub is_settled_before: bool,
}
