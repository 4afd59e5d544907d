//! The books of goodbyes: the lives that left with one, and when each process was told.
//!
//! A broadcast is not meant for a member if its origin had been told the member's goodbye before,
//! and no other news of the member since. If the origin has changed its epoch since, the member may
//! have a line or not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh::world::{Id, ReportedEvent};
use binomesh_overlay::Rank;
use binomesh_routing::Receipt;

use super::{Accepted, Audience, Checker, KNOWN_WITHIN};
use crate::command::chaos::violation::{Name, Violation};

/// A time in which a process heeds a goodbye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Absence {
    from: Duration,
    until: Option<Duration>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Goodbyes {
    /// The lives that left with a goodbye.
    said: BTreeSet<(Id, u64)>,
    /// The goodbyes that each life of a process heeded.
    told: BTreeMap<(Id, u64, Id), Vec<Absence>>,
}

impl Goodbyes {
    pub(super) fn on_leave(&mut self, id: Id, boot: u64) {
        self.said.insert((id, boot));
    }

    /// A process is told the goodbye of a peer's life. Returns whether this life has said one.
    pub(super) fn on_left(&mut self, told: &ReportedEvent, peer: Id, boot: u64) -> bool {
        let absences = self.told.entry((told.by, told.boot, peer)).or_default();
        let (from, until) = (told.at, None);
        absences.push(Absence { from, until });
        self.said.contains(&(peer, boot))
    }

    pub(super) fn on_other_word(&mut self, told: &ReportedEvent, peer: Id) {
        let absences = self.told.get_mut(&(told.by, told.boot, peer));
        let open = absences.into_iter().flatten();
        for absence in open.filter(|absence| absence.until.is_none()) {
            absence.until = Some(told.at);
        }
    }

    /// The goodbyes of a peer that a life of a process heeded at some time in this interval.
    fn between(
        &self,
        by: Life,
        peer: Id,
        from: Duration,
        until: Duration,
    ) -> impl Iterator<Item = &Absence> {
        let absences = self.told.get(&(by.id, by.boot, peer)).into_iter().flatten();
        absences.filter(move |absence| {
            absence.from <= until && absence.until.is_none_or(|end| end >= from)
        })
    }
}

/// A life of a process.
#[derive(Debug, Clone, Copy)]
struct Life {
    id: Id,
    boot: u64,
}

impl Checker {
    /// Whether a broadcast need not be meant for the member at a rank: the origin heeded a goodbye
    /// of a holder of the rank at some time between acceptance and receipt.
    pub(super) fn had_left(
        &self,
        accepted: &Accepted,
        closed: Duration,
        receipt: &Receipt<Id>,
        rank: Rank,
    ) -> bool {
        let origin = Life {
            id: receipt.id.origin,
            boot: receipt.id.boot,
        };
        let mut holders = self.at(receipt.epoch, rank, accepted.at);
        holders.any(|id| {
            let mut absences = self.goodbyes.between(origin, id, accepted.at, closed);
            absences.next().is_some()
        })
    }

    /// Check the lines of a broadcast: none for a member whose goodbye the origin heeded all the
    /// time, and one for a member that was there all the time, although the origin heeded its
    /// goodbye.
    pub(super) fn judge_goodbyes(
        &self,
        accepted: &Accepted,
        closed: Duration,
        receipt: &Receipt<Id>,
        named: &BTreeSet<Rank>,
        found: &mut Vec<Violation>,
    ) {
        if accepted.audience != Audience::Members {
            return;
        }
        let message = Name(receipt.id);
        let origin = Life {
            id: receipt.id.origin,
            boot: receipt.id.boot,
        };
        let others = (0..receipt.population.get()).map(Rank);
        for rank in others.filter(|rank| *rank != receipt.origin_rank) {
            let holders: Vec<Id> = self.at(receipt.epoch, rank, accepted.at).collect();
            let [peer] = holders[..] else {
                continue;
            };
            let mut absences = self.goodbyes.between(origin, peer, accepted.at, closed);
            let is_throughout = |absence: &Absence| {
                let is_open = absence.until.is_none_or(|end| end > closed);
                let mut stood = self.stood(receipt.id, absence.from, closed);
                absence.from < accepted.at && is_open && {
                    stood.all(|placement| placement.epoch == receipt.epoch)
                }
            };
            let mut lines = receipt.unreached.iter();
            let line = lines.find(|line| line.rank == Some(rank));
            if line.is_some_and(|line| line.peer.is_none()) {
                // An origin can only leave out members that it can name: see docs/relay.md,
                // *Goodbyes*.
            } else if self.liars.contains_key(&peer) && named.contains(&rank) {
                // The member's own lies may have made the origin forget its name. A delegate then
                // names it in the line.
            } else if named.contains(&rank) {
                if absences.any(is_throughout) {
                    found.push(Violation::LineAfterGoodbye { message, peer });
                }
            } else if absences.next().is_some()
                // An origin that was stopped acts on what it had heard before.
                && !self.was_hindered(
                    origin.id,
                    accepted.at.saturating_sub(KNOWN_WITHIN),
                    accepted.at,
                )
                && self.was_up(peer, accepted.at, closed)
                && self.had_place(peer, accepted)
                && self.was_member(peer, receipt.id, accepted.at, closed)
                && !self.was_hindered(peer, accepted.at, closed)
            {
                found.push(Violation::LeftOut { message, peer });
            }
        }
    }
}
