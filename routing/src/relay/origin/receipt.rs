//! The receipt of a message.

use binomesh_overlay::{Epoch, Population, Rank};

use crate::packet::{PacketId, Reason, State};

/// The ranks `first ..= last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankRun {
    /// The first rank of the run.
    pub first: Rank,
    /// The last rank of the run.
    pub last: Rank,
}

/// A member that is not known to have delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unreached<I> {
    /// The member's rank in the epoch of acceptance. `None` for a peer that was awaited and no
    /// member.
    pub rank: Option<Rank>,
    /// The peer at that rank, or the awaited peer; `None` if it is not known.
    pub peer: Option<I>,
    /// The known state of the member.
    pub state: State,
    /// The reason for that state.
    pub reason: Reason,
}

/// The outcome of a message for the peers that are expected to get it. Each of them is either
/// reached or unreached. Expected are the awaited peers and, of the members of the epoch of
/// acceptance, those that the message is for. The origin is not expected, nor are members that a
/// broadcast spares, or members that had left when a broadcast was accepted that was not to be
/// kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt<I> {
    /// The id of the message; of the first one, if several went in one packet.
    pub id: PacketId<I>,
    /// How many messages the receipt covers, from that sequence on.
    pub count: u64,
    /// The epoch of acceptance.
    pub epoch: Epoch<I>,
    /// The origin's rank in that epoch.
    pub origin_rank: Rank,
    /// The number of members of that epoch.
    pub population: Population,
    /// How many peers are expected to get the message: members and awaited peers.
    pub expected_count: u32,
    /// How many of these confirmed.
    pub reached_count: u32,
    /// The ranks of the members that confirmed, in order.
    pub reached: Vec<RankRun>,
    /// The peers that confirmed, as far as known: members in the order of ranks, then awaited
    /// peers.
    pub reached_peers: Vec<I>,
    /// The peers that did not confirm: awaited peers first, then members in the order of ranks.
    pub unreached: Vec<Unreached<I>>,
    /// How many parts were handed to another peer on the way.
    pub redelegated: u32,
    /// The peers from which parts were taken on the way, because they were dead or late, or
    /// refused; at most [`crate::packet::Message::MAX_REPLACED`].
    pub replaced: Vec<I>,
}

impl<I> Receipt<I> {
    /// Whether every expected peer confirmed.
    pub fn is_complete(&self) -> bool {
        self.unreached.is_empty()
    }
}
