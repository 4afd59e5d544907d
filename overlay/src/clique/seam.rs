//! The inputs and outcomes of the machine of a fully connected system.

use super::message::Message;
use super::peers::Peers;

/// How the ring is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Procedure {
    /// By the order of the list; if the lists differ, by [`Procedure::Corrected`].
    Sorted,
    /// By exchanges of successors.
    Corrected,
    /// As [FC] writes it, to study its behaviour.
    AsWritten,
}

/// An input of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input<'a, I> {
    /// These peers were met: begin.
    Start {
        /// How the ring is made.
        procedure: Procedure,
        /// The peers that were met.
        peers: &'a Peers<I>,
    },
    /// A message from a peer.
    Message {
        /// The sender of the message.
        from: I,
        /// The message itself.
        message: Message<I>,
    },
    /// For the time that a node waits, no helpful message has come.
    Silence,
    /// The time for the whole procedure is over.
    GiveUp,
    /// Procedure as written: every node has its neighbours, and the doubling begins.
    Double,
}

/// The outcome of an input.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome<I> {
    /// The input changed nothing.
    Nothing,
    /// The node made progress; the owner starts its wait again.
    Progress,
    /// The node has its place.
    Formed(Place<I>),
    /// The procedure is over without a place for this node. The owner joins the overlay through its
    /// contacts, first through the node given here, if any.
    Failed(Option<I>),
}

/// The place of a node in the ring, and where it starts in the overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place<I> {
    /// The number of places from the root.
    pub rank: u32,
    /// The number of members of the ring.
    pub members: u32,
    /// The member whose rank is this one without its lowest set bit; the root has none.
    pub parent: Option<I>,
    /// The position of the lowest set bit of the rank, from 0: the order among the children of the
    /// parent.
    pub slot: u8,
}
