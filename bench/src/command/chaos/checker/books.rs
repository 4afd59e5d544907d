//! What the judge's books say: who lived, had a place or has delivered, and for whom a message is.

use std::time::Duration;

use binomesh::world::Id;
use binomesh_overlay::{Epoch, Placement, Rank};
use binomesh_routing::{PacketId, Receipt};

use super::{Accepted, Audience, Checker, KNOWN_WITHIN};

impl Checker {
    pub(super) fn open_of(&self, id: Id, boot: u64) -> impl Iterator<Item = PacketId<Id>> + '_ {
        let packet = move |sequence| PacketId {
            origin: id,
            boot,
            sequence,
        };
        let own = self.accepted.range(packet(0)..=packet(u64::MAX));
        own.map(|(id, _)| *id)
            .filter(|id| !self.receipts.contains_key(id))
    }

    pub(super) fn is_live(&self, id: Id, boot: u64) -> bool {
        let life = self.lives.get(&(id, boot));
        life.is_some_and(|life| life.until.is_none())
    }

    pub(super) fn is_meant(&self, id: PacketId<Id>, accepted: &Accepted, by: Id) -> bool {
        let is_member = |placement: &Placement<Id>| {
            let ranks = self.holders.get(&placement.epoch);
            ranks.is_some_and(|ranks| ranks.values().any(|ids| ids.contains_key(&by)))
        };
        match &accepted.audience {
            Audience::Peers(peers) => peers.contains(&by),
            Audience::Members => match self.receipts.get(&id) {
                Some((at, receipt)) => self
                    .issued_in(accepted, *at, receipt)
                    .is_some_and(|placement| is_member(&placement)),
                None => self.stood(id, accepted.at, Duration::MAX).any(is_member),
            },
        }
    }

    /// The place of the origin that a receipt names, if it is the place at acceptance or, for a
    /// broadcast, a place where the origin stood between acceptance and receipt. A broadcast is
    /// issued when the roster of an epoch is complete; this may be a later epoch than that of
    /// acceptance.
    pub(super) fn issued_in(
        &self,
        accepted: &Accepted,
        closed: Duration,
        receipt: &Receipt<Id>,
    ) -> Option<Placement<Id>> {
        let is_named = |placement: &Placement<Id>| {
            (placement.epoch, placement.rank) == (receipt.epoch, receipt.origin_rank)
        };
        let first = Some(accepted.placement).filter(is_named);
        let mut later = self.stood(receipt.id, accepted.at, closed);
        first.or_else(|| {
            let is_broadcast = accepted.audience == Audience::Members;
            let found = later.find(|placement| is_named(placement));
            found.filter(|_| is_broadcast).copied()
        })
    }

    /// The places of a message's origin between two times.
    pub(super) fn stood(
        &self,
        message: PacketId<Id>,
        from: Duration,
        until: Duration,
    ) -> impl Iterator<Item = &Placement<Id>> + '_ {
        let stands = self.stands.get(&(message.origin, message.boot));
        let stands = stands.map(Vec::as_slice).unwrap_or_default();
        let current = stands.iter().rposition(|(at, _)| *at <= from).unwrap_or(0);
        let meanwhile = stands.iter().skip(current);
        let meanwhile = meanwhile.take_while(move |(at, _)| *at <= until);
        meanwhile.map(|(_, placement)| placement)
    }

    /// The peers that ever held a rank of an epoch, unless that was found to be untrue before the
    /// message was accepted.
    pub(super) fn at(
        &self,
        epoch: Epoch<Id>,
        rank: Rank,
        accepted: Duration,
    ) -> impl Iterator<Item = Id> {
        let ranks = self.holders.get(&epoch);
        let ids = ranks.and_then(|ranks| ranks.get(&rank));
        let ids = ids.into_iter().flatten();
        let true_then = ids.filter(move |(_, until)| until.is_none_or(|at| at >= accepted));
        true_then.map(|(id, _)| *id)
    }

    pub(super) fn has_delivered(&self, message: PacketId<Id>, id: Id) -> bool {
        let arrivals = self.arrivals.get(&message);
        arrivals.is_some_and(|arrivals| arrivals.keys().any(|(by, _)| *by == id))
    }

    pub(super) fn was_hindered(&self, id: Id, from: Duration, until: Duration) -> bool {
        let mut all = self.hindered.iter();
        all.any(|(who, start, end)| *who == id && *start <= until && *end >= from)
    }

    /// Whether a peer already had a place in the epoch of acceptance in its life of that time, and
    /// all members could know that. Without such a place, the peer has not come back in the eyes of
    /// the members that were there.
    pub(super) fn had_place(&self, id: Id, accepted: &Accepted) -> bool {
        let (at, epoch) = (accepted.at, accepted.placement.epoch);
        let lives = self.lives.range((id, 0)..=(id, u64::MAX));
        let begun = lives.filter(|(_, life)| life.from <= at);
        let life = begun.max_by_key(|(_, life)| life.from);
        // A life that lost its state may have a smaller number than the one before.
        let has_returned = life.is_some_and(|(_, last)| {
            let mut lives = self.lives.range((id, 0)..=(id, u64::MAX));
            lives.any(|(_, other)| other.from < last.from)
        });
        let known_within = if has_returned {
            KNOWN_WITHIN
        } else {
            Duration::ZERO
        };
        let stands = life.and_then(|(life, _)| self.stands.get(life));
        let mut stands = stands.into_iter().flatten();
        stands.any(|(since, placement)| *since + known_within <= at && placement.epoch == epoch)
    }

    pub(super) fn was_up(&self, id: Id, from: Duration, until: Duration) -> bool {
        let mut lives = self.lives.range((id, 0)..=(id, u64::MAX));
        lives.any(|(_, life)| life.from <= from && life.until.is_none_or(|end| end >= until))
    }

    /// Whether a process that a peer started after this time has delivered, and never had a place
    /// in the epoch of the receipt.
    pub(super) fn delivered_anew(&self, id: Id, since: Duration, receipt: &Receipt<Id>) -> bool {
        let arrivals = self.arrivals.get(&receipt.id).into_iter().flatten();
        let mut processes = arrivals.map(|(process, _)| process);
        processes.any(|process| {
            let life = self.lives.get(process);
            let began_since = life.is_some_and(|life| life.from > since);
            let stands = self.stands.get(process);
            let mut stands = stands.into_iter().flatten();
            process.0 == id && began_since && stands.all(|(_, place)| place.epoch != receipt.epoch)
        })
    }

    /// Whether a peer ever had a rank in each epoch in which the origin had a place between two
    /// times.
    pub(super) fn was_member(
        &self,
        id: Id,
        message: PacketId<Id>,
        from: Duration,
        until: Duration,
    ) -> bool {
        let stood = self.stood(message, from, until);
        let mut epochs = stood.map(|placement| self.holders.get(&placement.epoch));
        epochs.all(|ranks| {
            ranks.is_some_and(|ranks| ranks.values().any(|holders| holders.contains_key(&id)))
        })
    }
}
