//! What became of a message.

use binomesh_overlay::{Epoch, Population, Rank};

use crate::packet::{PacketId, Reason, State};

/// Ranks `first ..= last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankRun {
    /// The first rank.
    pub first: Rank,
    /// The last rank.
    pub last: Rank,
}

/// A member that is not known to have delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unreached<I> {
    /// Its rank in the epoch of acceptance; `None` if it was no member of it and was
    /// awaited.
    pub rank: Option<Rank>,
    /// Who that is, if known.
    pub peer: Option<I>,
    /// What is known.
    pub state: State,
    /// Why.
    pub reason: Reason,
}

/// What became of a message, against the members of the epoch in which it was
/// accepted. Every expected member is either reached or unreached; the origin and
/// members that had said goodbye to it are not expected.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt<I> {
    /// Which message; the first, if several went in one packet.
    pub id: PacketId<I>,
    /// Of how many messages, from that sequence on.
    pub count: u64,
    /// The epoch of acceptance.
    pub epoch: Epoch<I>,
    /// The origin's rank in it.
    pub origin_rank: Rank,
    /// The members of that epoch.
    pub population: Population,
    /// How many members should get it, and how many others are awaited.
    pub expected_count: u32,
    /// How many confirmed.
    pub reached_count: u32,
    /// Which members confirmed, in the order of ranks.
    pub reached: Vec<RankRun>,
    /// Who they are, in the order of ranks, as far as known; then who was awaited.
    pub reached_peers: Vec<I>,
    /// Who did not, in the order of ranks; first who was awaited.
    pub unreached: Vec<Unreached<I>>,
    /// How many parts were handed to somebody else on the way.
    pub redelegated: u32,
    /// From whom parts were taken on the way and handed to others, because they were
    /// dead, late or said no; at most [`crate::packet::Message::MAX_REPLACED`].
    pub replaced: Vec<I>,
}

impl<I> Receipt<I> {
    /// Whether every expected member confirmed.
    pub fn is_complete(&self) -> bool {
        self.unreached.is_empty()
    }
}
