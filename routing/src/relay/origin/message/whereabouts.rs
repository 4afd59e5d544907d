//! Where the members that a message is for stand now.

use binomesh_overlay::{Epoch, Id, Rank};

use super::OpenMessage;
use crate::relay::epochs::{EpochView, Epochs};

/// Where a member that is left stands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::origin) enum Whereabouts {
    /// At this distance in the newest epoch.
    At(u32),
    /// No member of the newest epoch.
    Absent,
    /// Not to be found: the tables that would tell are gone, or wrong.
    NotFound,
    /// Not known yet.
    Unknown,
    /// Who that member is was not learned yet. It may never be: nobody tells the
    /// rest of an old epoch's roster once the next one to ask has died.
    Nameless,
}

impl<I: Id> OpenMessage<I> {
    /// Who stands at a distance, or is meant there, if known.
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

    /// Where the member at a distance stands in the newest epoch. Who is meant by name may
    /// turn out to stand elsewhere than the roster had it at first.
    pub(in crate::relay::origin) fn whereabouts(
        &self,
        at: u32,
        newest: &EpochView<I>,
        epochs: &Epochs<I>,
    ) -> Whereabouts {
        if newest.placement() == self.accepted && !self.is_awaited(at) {
            return Whereabouts::At(self.corrected(at, newest).unwrap_or(at));
        }
        let accepted = epochs.find(self.accepted.epoch);
        let may_learn =
            |view: &EpochView<I>| view.roster().is_kept() && !view.roster().is_complete();
        match self.peer_at(at, epochs) {
            Some(peer) => match newest.rank_of(peer) {
                // That is me: the name cannot be right.
                Some(rank) if rank == newest.placement().rank => Whereabouts::NotFound,
                Some(rank) => Whereabouts::At(newest.distance_to(rank)),
                None if newest.roster().is_complete() => Whereabouts::Absent,
                None if may_learn(newest) => Whereabouts::Unknown,
                None => Whereabouts::NotFound,
            },
            None if accepted.is_some_and(may_learn) => Whereabouts::Nameless,
            None => Whereabouts::NotFound,
        }
    }

    /// Where the newest roster has the member that is meant by name at a distance, unless the
    /// own table has it there.
    fn corrected(&self, at: u32, newest: &EpochView<I>) -> Option<u32> {
        let meant = *self.names.get(&at)?;
        let mine = newest.placement();
        if newest.finger_at(mine.rank.ahead(at, mine.population)) == Some(meant) {
            return None;
        }
        let rank = newest.rank_of(meant).filter(|rank| *rank != mine.rank);
        rank.map(|rank| newest.distance_to(rank))
    }

    /// Where the member stood that is meant at a distance of the round that was issued
    /// last; `None` if it is meant by its name alone.
    pub(in crate::relay::origin) fn stood_at(&self, issued: u32) -> Option<Rank> {
        let at = *self.issued.get(&issued)?;
        let is_by_rank = self.names.is_empty() && !self.is_awaited(at);
        is_by_rank.then(|| self.accepted.rank.ahead(at, self.accepted.population))
    }

    /// The peer that the last round named at a distance says that it never held the rank
    /// that the message was for.
    pub(in crate::relay::origin) fn misname(&mut self, epoch: Epoch<I>, issued: u32) {
        let is_current = self.issued_in == Some(epoch) && self.stood_at(issued).is_some();
        if let Some(at) = self.issued.get(&issued).filter(|_| is_current) {
            self.misnamed.insert(*at);
        }
    }
}
