//! New placements and tables.

use binomesh_overlay::{Epoch, Id, Rank};

use super::exceptions::unconfirmed;
use super::{Effects, Event, Relay, Timer, View};
use crate::packet::Reason;
use crate::roster::Roster;

impl<I: Id> Relay<I> {
    pub(super) fn on_view(&mut self, view: View<I>, out: &mut Effects<I>) {
        let epoch = view.placement.epoch;
        if !view.placement.rank.is_within(view.placement.population) {
            return;
        }
        if let Some(leaving) = self.epochs.leaving(&view.placement) {
            self.open.remember_members(leaving);
        }
        self.silent.clear();
        let kept = self.epochs.find(epoch);
        let was_complete = kept.is_some_and(|view| view.roster().is_complete());
        let change = self.epochs.adopt(self.me, view, &self.config);
        self.epochs.ask_roster(&self.config, out);
        if let Some(gone) = change.gone {
            self.close_epoch(gone, out);
        }
        let newest = self.epochs.newest();
        let is_complete = newest.is_some_and(|newest| newest.roster().is_complete());
        let is_completed = is_complete && (change.is_new_epoch || !was_complete);
        if is_completed {
            // In a small population the own tables name everybody.
            out.event(Event::RosterComplete(epoch));
            self.greet_all(out);
            self.bypass_departed(out);
        }
        if change.is_new_epoch {
            self.doubt_verdicts(out);
            self.take_held(epoch, out);
            self.move_waiting(out);
        } else {
            self.release_waiting(out);
        }
        if change.is_new_epoch || is_completed {
            self.hasten_reissues(out);
        }
    }

    /// Packets came before their epoch, which is here now.
    fn take_held(&mut self, epoch: Epoch<I>, out: &mut Effects<I>) {
        for number in self.held.of_epoch(epoch) {
            out.disarm(Timer::Held(number));
            if let Some((from, packet)) = self.held.take(number) {
                self.on_packet(from, packet, out);
            }
        }
    }

    /// Whoever the census counts now may have come back to others than me:
    /// without this a message would wait for ever for contact with a member that
    /// has no reason to talk to this node. A goodbye stands: a new epoch may be older than
    /// it, as to a node that was started again or joins a greater tree, and word of a
    /// return goes to everybody.
    fn doubt_verdicts(&mut self, out: &mut Effects<I>) {
        let departures = &self.departures;
        self.verdicts.doubt_all(|peer| departures.is_gone(peer));
        let newest = self.epochs.newest().map(|view| view.roster());
        if !newest.is_some_and(Roster::is_kept) {
            // Who is no member any more is never known: verdicts must not pile up. Goodbyes
            // expire.
            let gone = self.verdicts.retain(|peer| departures.is_gone(peer));
            gone.into_iter()
                .for_each(|number| out.disarm(Timer::Patience(number)));
            let departed = self.departures.retain(|_| false).into_iter();
            departed.for_each(|number| out.disarm(Timer::Drain(number)));
        }
    }

    pub(super) fn on_roster_tell(
        &mut self,
        from: I,
        epoch: Epoch<I>,
        start: Rank,
        peers: &[I],
        out: &mut Effects<I>,
    ) {
        let told = self
            .epochs
            .on_roster_tell(from, epoch, start, peers, &self.config, out);
        match told {
            Ok(true) => {
                if self.epochs.is_newest(epoch) {
                    self.greet_all(out);
                    self.bypass_departed(out);
                    self.release_waiting(out);
                }
                // Members of an old epoch have names now, too.
                self.hasten_reissues(out);
            }
            Ok(false) => {}
            Err(_) => self.stats.roster_rejected += 1,
        }
    }

    /// An epoch is kept no longer: what is still handed on in it is unconfirmed.
    fn close_epoch(&mut self, epoch: Epoch<I>, out: &mut Effects<I>) {
        for number in self.duties.of_epoch(epoch) {
            self.settle_with(number, out, |relay, duty, out| {
                let numbers: Vec<u64> = duty.delegations.keys().copied().collect();
                for delegation in numbers {
                    let handed = relay.withdraw_delegation(number, duty, delegation, out);
                    let spans = handed.iter().flat_map(|handed| handed.part.spans());
                    for span in spans {
                        relay.except(duty, unconfirmed(*span, None, Reason::Epoch));
                    }
                }
            });
            self.forget(number, out);
        }
    }

    /// The newest roster is complete: delegates of the previous epoch that are
    /// not in it have left, whether or not a verdict said so.
    fn bypass_departed(&mut self, out: &mut Effects<I>) {
        self.stats.losses += 1;
        if let Some(newest) = self.epochs.newest() {
            // An epoch without it may be that of an island, which ends.
            let departures = &self.departures;
            let stays = |peer| newest.roster().rank_of(peer).is_some() || departures.is_gone(peer);
            let gone = self.verdicts.retain(stays);
            gone.into_iter()
                .for_each(|number| out.disarm(Timer::Patience(number)));
            let is_member = |peer| newest.roster().rank_of(peer).is_some();
            let departed = self.departures.retain(is_member).into_iter();
            departed.for_each(|number| out.disarm(Timer::Drain(number)));
        }
        for number in self.duties.open_numbers() {
            let Some(newest) = self.epochs.newest() else {
                return;
            };
            let duty = self.duties.get(number);
            let old = duty.filter(|duty| duty.key.epoch != newest.placement().epoch);
            let departed: Vec<I> = old
                .into_iter()
                .flat_map(|duty| duty.delegations.values())
                .map(|handed| handed.to)
                .filter(|peer| newest.roster().rank_of(*peer).is_none())
                .collect();
            for peer in departed {
                self.bypass(number, peer, self.loss(peer), out);
            }
        }
    }
}
