//! The order of an origin's messages: numbers without holes, and a sorter for receivers.
//!
//! ```text
//!   origin    0 1 2 3 4      one count per topic and destinations
//!   comes     0 2 . 4 3      1 is lost here
//!   sorted    0 [1 is missing] 2 3 4
//! ```
//!
//! The sequence in a [`crate::PacketId`] counts all messages of an origin, on every topic and to
//! all destinations. So a hole in it says nothing to a receiver. Messages that are published in
//! order therefore carry a second count, of their *stream*. A stream is all that one life of an
//! origin publishes in order on one topic to the same destinations. Each receiver of a stream is
//! meant to get all of its messages, so a hole is a loss.
//!
//! Not here: any clock. [`Sorter`] is told the time and says when it wants to be asked again.

mod numbering;
mod sorter;

use serde::{Deserialize, Serialize};

pub(crate) use numbering::Numbering;
pub use sorter::{Arrival, Bounds, Counts, Sorted, Sorter};

/// The place of a message in its origin's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Order {
    /// The number of the stream among those of the origin's life.
    pub stream: u64,
    /// How many messages of the stream came before; for a packet of several messages, before the
    /// first of them.
    pub number: u64,
}

/// The order of a message, as its receiver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordered {
    /// The place of the message.
    pub order: Order,
    /// No message before this one is on its way any more: the origin answers for no earlier message
    /// any more, except for those that it keeps.
    pub is_settled_before: bool,
}
