//! Own messages that are kept for members that are away ([`Due::Kept`]).
//!
//! Like a letter with a neighbour: the street has been served and its sheet is signed
//! off, but this one letter waits until its addressee is back. So nothing that comes
//! later waits for it: the mark passes what is kept, which says so in each copy, and it
//! does not count among the packets that may be open. What is kept for somebody is
//! handed over one by one, in the order in which it was published.

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh_overlay::Id;

use super::epochs::EpochView;
use super::origin::{OpenMessage, Whereabouts};
use super::{Due, Effects, PublishError, Relay, Timer};
use crate::packet::{Reason, State};

impl<I: Id> Relay<I> {
    /// For whom a message is kept, apart from members; `None` if it is not.
    pub(super) fn awaited_by(&self, due: &Due<I>) -> Result<Option<Vec<I>>, PublishError<I>> {
        let Due::Kept { awaited, .. } = due else {
            return Ok(None);
        };
        let max = self.config.roster_max;
        if awaited.len() > max as usize {
            return Err(PublishError::TooManyAwaited(awaited.len(), max));
        }
        let awaited: BTreeSet<I> = awaited.iter().copied().collect();
        let is_other = |peer: &I| *peer != self.me;
        Ok(Some(awaited.into_iter().filter(is_other).collect()))
    }

    /// Whether one more message of so many bytes may be kept.
    pub(super) fn check_kept(&mut self, bytes: usize) -> Result<(), PublishError<I>> {
        let (count, held) = self.open.keeping();
        let is_full = count >= self.config.max_kept
            || held.saturating_add(bytes) > self.config.max_kept_bytes;
        if is_full {
            self.stats.kept_full += 1;
            return Err(PublishError::KeptFull(count));
        }
        Ok(())
    }

    /// A broadcast goes out now: who is awaited is nobody who gets it as a member.
    pub(super) fn await_the_absent(&mut self, sequence: u64) {
        let (Some(newest), Some(message)) = (self.epochs.newest(), self.open.get_mut(sequence))
        else {
            return;
        };
        message.await_others(|peer| newest.rank_of(peer).is_some());
    }

    /// Whether what is left is issued by name. Who was awaited can only be meant by name,
    /// and a packet names all of its members or none.
    pub(super) fn is_by_name(&self, message: &OpenMessage<I>, newest: &EpochView<I>) -> bool {
        if message.is_by_name(&newest.placement()) {
            return true;
        }
        let outstanding = message.outstanding();
        let mut here = outstanding.iter().filter(|at| {
            let is_here = message.whereabouts(*at, newest, &self.epochs);
            matches!(is_here, Whereabouts::At(_))
        });
        let has_awaited = outstanding.iter().any(|at| message.is_awaited(at));
        has_awaited && here.all(|at| message.peer_at(at, &self.epochs).is_some())
    }

    /// A round of a message is over: whoever has it now has its turn with the next one.
    pub(super) fn pass_turn(&mut self, sequence: u64, out: &mut Effects<I>) {
        let next = self.open.note_owed(sequence, &self.epochs);
        self.wake(next, out);
    }

    /// These have their turn.
    pub(super) fn wake(&mut self, next: BTreeSet<u64>, out: &mut Effects<I>) {
        for sequence in next {
            let message = self.open.get(sequence);
            if message.is_some_and(|message| self.is_between_rounds(message)) {
                out.arm(Timer::Reissue(sequence), Duration::ZERO);
            }
        }
    }

    /// Keep a message when every outstanding member is away, or refuses it in its present
    /// life.
    pub(super) fn keep_for_the_lost(&mut self, sequence: u64) {
        let (Some(newest), Some(message)) = (self.epochs.newest(), self.open.get(sequence)) else {
            return;
        };
        let is_away = |at: u32| {
            let peer = message.peer_at(at, &self.epochs);
            let whereabouts = message.whereabouts(at, newest, &self.epochs);
            whereabouts == Whereabouts::Absent
                || peer.is_some_and(|peer| self.is_lost(peer))
                || message.is_declined(at, peer.is_some_and(|peer| self.is_drained(peer)))
        };
        let outstanding = message.outstanding();
        if outstanding.is_empty() || message.is_kept || !outstanding.iter().all(is_away) {
            return;
        }
        self.open.keep(sequence);
        self.stats.kept += 1;
    }

    /// This node leaves: nobody can come back to it. What would be kept from now on ends
    /// as other messages do.
    pub(super) fn conclude_kept(&mut self, out: &mut Effects<I>) {
        self.open.keep_no_more();
        for sequence in self.open.kept() {
            let Some(message) = self.open.get(sequence) else {
                continue;
            };
            let mut away = Vec::new();
            for at in message.outstanding().iter() {
                let peer = message.peer_at(at, &self.epochs);
                let doubt = message.doubt_about(at).map(|doubt| doubt.reason);
                let reason = match peer {
                    Some(peer) if self.verdicts.has(peer) || self.is_lost(peer) => self.loss(peer),
                    _ if message.is_declined(at, true) => doubt.unwrap_or(Reason::Down),
                    peer => peer.map_or(Reason::Down, |peer| self.loss(peer)),
                };
                away.push((at, peer, reason));
            }
            if let Some(message) = self.open.get_mut(sequence) {
                for (at, peer, reason) in away {
                    message.settle(at, peer, State::Unconfirmed, reason);
                }
            }
            self.conclude(sequence, None, out);
        }
    }
}
