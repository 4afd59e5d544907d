//! New tables and rosters, peers that come and go, and their effects on the components of a relay.

use std::time::Duration;

use binomesh_overlay::{Epoch, Id, Rank};

use super::context::Context;
use super::custody::{Custody, DelegateState};
use super::{Effects, Event, Relay, View};
use crate::packet::Reason;

impl<I: Id> Relay<I> {
    pub(super) fn on_view(&mut self, view: View<I>, out: &mut Effects<I>) {
        let epoch = view.placement.epoch;
        if !view.placement.rank.is_within(view.placement.population) {
            return;
        }
        if let Some(leaving) = self.epochs.leaving(&view.placement) {
            self.parts.origin.remember_members(leaving);
        }
        self.peers.forget_silence();
        let kept = self.epochs.find(epoch);
        let was_complete = kept.is_some_and(|view| view.roster().is_complete());
        let change = self.epochs.adopt(self.me, view, &self.config);
        self.epochs.ask_roster(out);
        if let Some(gone) = change.gone {
            self.close_epoch(gone, out);
        }
        let newest = self.epochs.newest();
        let is_complete = newest.is_some_and(|newest| newest.roster().is_complete());
        let is_completed = is_complete && (change.is_new_epoch || !was_complete);
        if is_completed {
            // In a small population this node's own tables name all members.
            out.event(Event::RosterComplete(epoch));
            self.on_all_known(out);
        }
        if change.is_new_epoch {
            let roster = self.epochs.newest().map(|view| view.roster());
            self.peers.doubt_verdicts(roster, out);
            self.work(out, |parts, cx| {
                parts.receiver.take_held(epoch, &mut parts.custody, cx);
            });
            self.work(out, |parts, cx| {
                parts.origin.move_waiting(&mut parts.custody, cx);
            });
        } else {
            self.release_waiting(out);
        }
        if change.is_new_epoch || is_completed {
            self.hasten_reissues(out);
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
        let told = self.epochs.on_roster_tell(from, epoch, start, peers, out);
        match told {
            Ok(true) => {
                if self.epochs.is_newest(epoch) {
                    self.on_all_known(out);
                    self.release_waiting(out);
                }
                // Members of an old epoch may have names now, too.
                self.hasten_reissues(out);
            }
            Ok(false) => {}
            Err(_) => self.stats.roster_rejected += 1,
        }
    }

    /// The newest roster is complete: greet the neighbours in the sibling tree, and take parts of
    /// older epochs away from peers that are no members any more.
    fn on_all_known(&mut self, out: &mut Effects<I>) {
        self.work(out, |parts, cx| parts.links.greet_all(cx));
        self.bypass_departed(out);
    }

    fn release_waiting(&mut self, out: &mut Effects<I>) {
        self.work(out, |parts, cx| {
            parts.origin.release_waiting(&mut parts.custody, cx);
        });
    }

    /// An epoch is no longer kept: the parts that its duties have handed on become unconfirmed, and
    /// the duties are forgotten.
    fn close_epoch(&mut self, epoch: Epoch<I>, out: &mut Effects<I>) {
        for number in self.parts.custody.of_epoch(epoch) {
            self.work(out, |parts, cx| parts.custody.close(number, cx));
        }
    }

    /// In the duties of older epochs, hand on the parts of delegates that the newest roster does
    /// not list. These peers are no members any more, even if no verdict said so.
    fn bypass_departed(&mut self, out: &mut Effects<I>) {
        self.stats.losses += 1;
        if let Some(newest) = self.epochs.newest() {
            self.peers.retain_members(newest.roster(), out);
        }
        for number in self.parts.custody.open_numbers() {
            let Some(newest) = self.epochs.newest() else {
                return;
            };
            let epoch = newest.placement().epoch;
            let delegates = self.parts.custody.delegates_but_in(number, epoch);
            let has_left = |peer: &I| newest.roster().rank_of(*peer).is_none();
            let departed: Vec<I> = delegates.into_iter().filter(has_left).collect();
            for peer in departed {
                let why = self.peers.loss(peer);
                self.work(out, |parts, cx| parts.custody.bypass(number, peer, why, cx));
            }
        }
    }

    pub(super) fn on_delegation_timer(
        &mut self,
        duty: u64,
        delegation: u64,
        late: Duration,
        out: &mut Effects<I>,
    ) {
        let found = self.work(out, |parts, cx| {
            parts
                .custody
                .on_delegation_timer(duty, delegation, late, cx)
        });
        match found {
            Some(DelegateState::Down(peer)) => self.on_peer_down(peer, out),
            Some(DelegateState::Silent(peer)) => {
                self.each_open_duty(out, |custody, number, cx| {
                    custody.go_round(number, peer, cx);
                });
            }
            None => {}
        }
    }

    pub(super) fn on_peer_down(&mut self, peer: I, out: &mut Effects<I>) {
        self.stats.losses += 1;
        if peer == self.me {
            return;
        }
        self.peers.call_down(peer, &self.config, out);
        self.parts.origin.recall_refused(peer, &self.epochs);
        self.bypass(peer, self.peers.loss(peer), out);
    }

    pub(super) fn on_peer_left(&mut self, peer: I, out: &mut Effects<I>) {
        self.stats.losses += 1;
        if peer == self.me {
            return;
        }
        let next = self.parts.origin.next_sequence();
        self.peers.on_left(peer, next, &self.config, out);
        self.parts.origin.recall_refused(peer, &self.epochs);
        self.bypass(peer, Reason::Left, out);
        self.conclude_the_lost(out);
    }

    /// A peer is up, perhaps as a new process.
    pub(super) fn on_peer_up(&mut self, peer: I, out: &mut Effects<I>) {
        if self.peers.on_return(peer, out) {
            self.hasten_reissues(out);
        }
        self.parts.origin.recall_refused(peer, &self.epochs);
        self.on_contact(peer, out);
        self.on_answer(peer, out);
        self.work(out, |parts, cx| {
            parts.links.greet(peer, cx);
            parts.custody.on_peer_up(peer, cx);
        });
    }

    pub(super) fn on_contact(&mut self, peer: I, out: &mut Effects<I>) {
        if self.peers.on_contact(peer, out) {
            self.on_writable(peer, out);
            self.hasten_reissues(out);
        }
    }

    /// A peer answers, so it receives what this node sends.
    pub(super) fn on_answer(&mut self, peer: I, out: &mut Effects<I>) {
        if self.peers.on_answer(peer) {
            self.hasten_reissues(out);
        }
    }

    /// The link to a peer works again: send again at once the copies and offers that it has not
    /// answered.
    pub(super) fn on_writable(&mut self, peer: I, out: &mut Effects<I>) {
        self.on_answer(peer, out);
        self.work(out, |parts, cx| parts.custody.on_writable(peer, cx));
    }

    fn bypass(&mut self, peer: I, why: Reason, out: &mut Effects<I>) {
        self.each_open_duty(out, |custody, number, cx| {
            custody.bypass(number, peer, why, cx);
        });
    }

    /// Act on each open duty. The origin takes in the result of each before the next.
    fn each_open_duty(
        &mut self,
        out: &mut Effects<I>,
        mut act: impl FnMut(&mut Custody<I>, u64, &mut Context<'_, I>),
    ) {
        for number in self.parts.custody.open_numbers() {
            self.work(out, |parts, cx| act(&mut parts.custody, number, cx));
        }
    }
}
