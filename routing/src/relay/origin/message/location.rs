//! The present places of the members that a message is for.

use binomesh_overlay::{Epoch, Id, Rank};

use super::OpenMessage;
use crate::relay::epochs::{EpochView, Epochs};

/// The present place of an outstanding member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::origin) enum MemberLocation {
    /// The member stands at this distance in the newest epoch.
    At(u32),
    /// The peer is no member of the newest epoch.
    Absent,
    /// The member cannot be found: the tables that would tell its place are gone, or wrong.
    NotFound,
    /// The rank of the member is not known yet.
    Unknown,
    /// The name of the member is not known yet. It may never be: once the next node to ask has
    /// died, no other tells the rest of an old epoch's roster.
    Nameless,
}

impl<I: Id> OpenMessage<I> {
    /// The peer that stands at a distance, or is meant there, if known.
    pub(in crate::relay::origin) fn peer_at(&self, at: u32, epochs: &Epochs<I>) -> Option<I> {
        if let Some(beyond) = at.checked_sub(self.accepted.population.get()) {
            return self.awaited.get(beyond as usize).copied();
        }
        if let Some(meant) = self.names.get(&at) {
            return Some(*meant);
        }
        if self.misnamed.contains(&at) {
            return None;
        }
        let rank = self.accepted.rank.ahead(at, self.accepted.population);
        let kept = epochs.find(self.accepted.epoch);
        kept.and_then(|view| view.name_at(rank)).or_else(|| {
            let members = self.members.as_ref()?;
            members.get(rank.0 as usize).copied().flatten()
        })
    }

    /// The place, in the newest epoch, of the member at a distance in the epoch of acceptance. A
    /// member that is meant by name may stand elsewhere than the roster had it at first.
    pub(in crate::relay::origin) fn locate(
        &self,
        at: u32,
        newest: &EpochView<I>,
        epochs: &Epochs<I>,
    ) -> MemberLocation {
        if newest.placement() == self.accepted && !self.is_awaited(at) {
            return MemberLocation::At(self.corrected(at, newest).unwrap_or(at));
        }
        let accepted = epochs.find(self.accepted.epoch);
        let may_learn =
            |view: &EpochView<I>| view.roster().is_tracked() && !view.roster().is_complete();
        match self.peer_at(at, epochs) {
            Some(peer) => match newest.rank_of(peer) {
                // This node stands at that rank, so the name is wrong.
                Some(rank) if rank == newest.placement().rank => MemberLocation::NotFound,
                Some(rank) => MemberLocation::At(newest.distance_to(rank)),
                None if newest.roster().is_complete() => MemberLocation::Absent,
                None if may_learn(newest) => MemberLocation::Unknown,
                None => MemberLocation::NotFound,
            },
            None if accepted.is_some_and(may_learn) => MemberLocation::Nameless,
            None => MemberLocation::NotFound,
        }
    }

    /// Within the epoch of acceptance: the distance at which the member that is meant by name at
    /// `at` stands by the present tables. `None` if no member is meant by name there, if a finger
    /// of this node has the member at `at`, or if the member's rank is unknown or this node's own.
    fn corrected(&self, at: u32, newest: &EpochView<I>) -> Option<u32> {
        let meant = *self.names.get(&at)?;
        let mine = newest.placement();
        if newest.finger_at(mine.rank.ahead(at, mine.population)) == Some(meant) {
            return None;
        }
        let rank = newest.rank_of(meant).filter(|rank| *rank != mine.rank);
        rank.map(|rank| newest.distance_to(rank))
    }

    /// The rank, in the epoch of acceptance, of the member that the last re-issue meant at a
    /// distance. `None` if that member is meant by its name alone, or if no member was meant there.
    pub(in crate::relay::origin) fn stood_at(&self, issued: u32) -> Option<Rank> {
        let at = *self.issued.get(&issued)?;
        let is_by_rank = self.names.is_empty() && !self.is_awaited(at);
        is_by_rank.then(|| self.accepted.rank.ahead(at, self.accepted.population))
    }

    /// The peer that the last round named at a distance says that it never held the rank for which
    /// the message was meant.
    pub(in crate::relay::origin) fn misname(&mut self, epoch: Epoch<I>, issued: u32) {
        let is_current = self.issued_in == Some(epoch) && self.stood_at(issued).is_some();
        if let Some(at) = self.issued.get(&issued).filter(|_| is_current) {
            self.misnamed.insert(*at);
        }
    }
}
