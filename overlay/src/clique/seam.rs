//! What goes into the machine of a fully connected system and what comes out.

use super::message::Message;
use super::peers::Peers;

/// How the ring is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Procedure {
    /// By the order of the list; by [`Procedure::Corrected`] if the lists differ.
    Sorted,
    /// By exchanges of successors.
    Corrected,
    /// As [FC] writes it, for the study.
    AsWritten,
}

/// What a node is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input<'a, I> {
    /// These peers were met: begin.
    Start {
        /// How the ring is made.
        procedure: Procedure,
        /// Who was met.
        peers: &'a Peers<I>,
    },
    /// A message came.
    Message {
        /// From this peer.
        from: I,
        /// It says this.
        message: Message<I>,
    },
    /// No message that helps has come for as long as a node waits.
    Silence,
    /// The time for all of it is over.
    GiveUp,
    /// As written: everybody has its neighbours, the second part begins.
    Double,
}

/// The outcome of an input.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome<I> {
    /// Nothing new.
    Nothing,
    /// The node came further; the owner waits anew.
    Progress,
    /// The node has its place.
    Formed(Place<I>),
    /// The attempt is over without a place for this node. The owner joins the overlay through
    /// its contacts, through this one first.
    Failed(Option<I>),
}

/// The place of a node in the ring, and where it starts in the overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place<I> {
    /// The places from the root.
    pub rank: u32,
    /// How many members the ring has.
    pub members: u32,
    /// The member whose rank is this one without its lowest set bit; the root has none.
    pub parent: Option<I>,
    /// The lowest set bit of the rank: the order among the children of the parent.
    pub slot: u8,
}
