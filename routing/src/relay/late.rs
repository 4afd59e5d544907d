//! Late custody, missing done, and peers that are down.

use std::time::Duration;

use binomesh_overlay::Id;

use super::duty::{Copies, Delegation, Duty, Phase};
use super::exceptions::unconfirmed;
use super::verdicts::Age;
use super::{Config, Effects, Relay, Timer};
use crate::packet::{Part, Reason, Span};

/// How many copies, or questions after them, without an answer make hearsay about a
/// rank, or a hop far along a transit list, doubtful. A guess: above what mere lateness
/// costs, as the wait doubles with each.
const DOUBT_AFTER: u32 = 4;

/// How many copies, or questions after them, a delegate leaves unanswered until another
/// way to it is looked for: 1.5 s at the first waits. A guess: above a short pause, and
/// below what fills an origin's window.
const GO_ROUND_AFTER: u32 = 5;
/// How many questions how its part is: 11.5 s at the default waits.
const UNANSWERED: u32 = 4;

impl<I: Id> Relay<I> {
    pub(super) fn on_delegation_timer(
        &mut self,
        number: u64,
        delegation: u64,
        late: Duration,
        out: &mut Effects<I>,
    ) {
        let Some(mut duty) = self.duties.take(number) else {
            return;
        };
        let was_paused = late > self.config.pause;
        let to = duty.delegations.get(&delegation).map(|handed| handed.to);
        let is_known = to.is_none_or(|to| self.silent.contains(&to) || self.verdicts.is_down(to));
        let before = to.map_or(0, |to| self.answers_before(&duty, to));
        match duty.delegations.get_mut(&delegation) {
            Some(handed) if was_paused && !handed.is_excused => {
                handed.is_excused = true;
                self.await_custody(number, &duty, delegation, out);
            }
            Some(handed) if handed.is_waiting() && handed.answers != before => {
                // That peer answers others, so this one's turn will come.
                handed.answers = before;
                self.await_custody(number, &duty, delegation, out);
            }
            Some(handed) if handed.phase.has_custody() => {
                if handed.unanswered >= UNANSWERED && self.may_redelegate(&mut duty) {
                    self.go_round(number, &mut duty, delegation, out);
                } else {
                    self.inquire(number, &mut duty, delegation, out);
                }
            }
            Some(handed) if handed.phase == Phase::Lacking => {
                self.send_now(number, &mut duty, delegation, out);
            }
            Some(_) => match self.is_in_queue(&mut duty, delegation) {
                true => self.await_custody(number, &duty, delegation, out),
                false => self.on_late_custody(number, &mut duty, delegation, out),
            },
            None => {}
        }
        self.settle(number, duty, out);
        match to.filter(|_| !is_known) {
            Some(to) if self.verdicts.is_down(to) => self.on_peer_down(to, out),
            Some(to) if self.silent.contains(&to) => self.go_round_everywhere(to, out),
            _ => {}
        }
    }

    /// What else waits for an answer of a silent peer need not find out by itself.
    fn go_round_everywhere(&mut self, peer: I, out: &mut Effects<I>) {
        for number in self.duties.open_numbers() {
            self.settle_with(number, out, |relay, duty, out| {
                let late = |handed: &Delegation<I>| {
                    handed.to == peer && !handed.phase.has_custody() && handed.attempts > 0
                };
                let waiting: Vec<u64> = (duty.delegations.iter())
                    .filter(|(_, handed)| late(handed))
                    .map(|(delegation, _)| *delegation)
                    .collect();
                for delegation in waiting {
                    if relay.may_redelegate(duty) {
                        relay.go_round(number, duty, delegation, out);
                    }
                }
            });
        }
    }

    /// A verdict on a peer that had left is about its next life.
    pub(super) fn on_verdict(&mut self, peer: I, out: &mut Effects<I>) {
        if self.departures.is_gone(peer) {
            self.departures.withdraw(peer);
            self.verdicts.withdraw(peer);
        }
        self.on_peer_down(peer, out);
    }

    pub(super) fn on_peer_down(&mut self, peer: I, out: &mut Effects<I>) {
        self.stats.losses += 1;
        if peer == self.me {
            return;
        }
        if let Some(number) = self.verdicts.give(peer, self.config.max_peers) {
            out.arm(Timer::Patience(number), self.pressed());
        }
        self.open.recall_refused(peer, &self.epochs);
        for number in self.duties.open_numbers() {
            self.bypass(number, peer, self.loss(peer), out);
        }
    }

    /// A peer has said goodbye: as a verdict that needs no patience.
    pub(super) fn on_peer_left(&mut self, peer: I, out: &mut Effects<I>) {
        self.stats.losses += 1;
        if peer == self.me {
            return;
        }
        let verdict = self.verdicts.give(peer, self.config.max_peers);
        let next = self.open.next_sequence();
        if let Some(number) = self.departures.leave(peer, next, self.config.max_peers) {
            out.disarm(Timer::Drain(number));
        }
        // Of one whose goodbye is remembered patience would tell nothing new.
        if let Some(number) = verdict.filter(|_| !self.departures.is_gone(peer)) {
            out.arm(Timer::Patience(number), self.pressed());
        }
        self.open.recall_refused(peer, &self.epochs);
        for number in self.duties.open_numbers() {
            self.bypass(number, peer, Reason::Left, out);
        }
        self.conclude_the_lost(out);
    }

    /// A verdict has stood for long: what waits for its peer alone ends.
    pub(super) fn on_patience_timer(&mut self, number: u64, out: &mut Effects<I>) {
        let Some(age) = self.verdicts.ripen(number) else {
            return;
        };
        self.stats.losses += 1;
        if age == Age::Firm {
            out.arm(Timer::Patience(number), self.rest_of_patience());
        }
        self.conclude_the_lost(out);
    }

    /// A member has told this origin that it drains.
    pub(super) fn on_draining(&mut self, peer: I, out: &mut Effects<I>) {
        if let Some(number) = self.departures.drain(peer, self.config.max_peers) {
            out.arm(Timer::Drain(number), self.pressed());
        }
    }

    /// A member has been draining for long: what waits for it alone ends.
    pub(super) fn on_drain_timer(&mut self, number: u64, out: &mut Effects<I>) {
        let Some(age) = self.departures.ripen(number) else {
            return;
        };
        if age == Age::Firm {
            out.arm(Timer::Drain(number), self.rest_of_patience());
        }
        self.conclude_the_lost(out);
    }

    /// How long a peer is waited for while own messages find no room.
    fn pressed(&self) -> Duration {
        self.config.down_pressed.min(self.config.down_patience)
    }

    /// How much longer it is waited for otherwise.
    fn rest_of_patience(&self) -> Duration {
        let Config {
            down_patience,
            down_pressed,
            ..
        } = self.config;
        down_patience.saturating_sub(down_pressed)
    }

    /// Whether no message waits for a peer any more: it has left, or has been called down
    /// for long. While the origin has no room for
    /// further messages a shorter patience is enough, so that a dead member does not stop
    /// the publisher.
    pub(super) fn is_lost(&self, peer: I) -> bool {
        self.departures.is_gone(peer) || self.verdicts.has_stood(peer, self.patient_age())
    }

    /// The same, for one message, which may give up soon.
    pub(super) fn is_lost_to(&self, peer: I, is_soon: bool) -> bool {
        self.is_lost(peer) || is_soon && self.verdicts.has_stood(peer, Age::Firm)
    }

    /// Whether a message that gives up soon ([`super::Due::Soon`]) expects nothing of a peer any
    /// more: it has been called down for `down_pressed`, or is no member of the newest epoch.
    pub fn is_given_up(&self, peer: I) -> bool {
        let roster = self.roster().filter(|roster| roster.is_complete());
        self.is_lost_to(peer, true) || roster.is_some_and(|it| it.rank_of(peer).is_none())
    }

    /// Whether a peer has been draining for so long that no message waits for it any more.
    pub(super) fn is_drained(&self, peer: I) -> bool {
        self.departures.has_stood(peer, self.patient_age())
    }

    const fn patient_age(&self) -> Age {
        if self.is_pressed { Age::Firm } else { Age::Old }
    }

    /// Why no message waits for a peer that is lost.
    pub(super) fn loss(&self, peer: I) -> Reason {
        if self.departures.is_gone(peer) {
            Reason::Left
        } else {
            Reason::Down
        }
    }

    /// A peer that was leaving is there, perhaps in its next life.
    fn on_return(&mut self, peer: I, out: &mut Effects<I>) {
        if let Some(number) = self.departures.withdraw(peer) {
            number
                .into_iter()
                .for_each(|number| out.disarm(Timer::Drain(number)));
            self.hasten_reissues(out);
        }
        self.open.recall_refused(peer, &self.epochs);
    }

    /// A peer is there, perhaps as a new process: is what it took custody of
    /// still in its hands? If not it says so and gets the packet again.
    pub(super) fn on_peer_up(&mut self, peer: I, out: &mut Effects<I>) {
        self.on_return(peer, out);
        self.on_contact(peer, out);
        self.on_answer(peer, out);
        self.greet(peer, out);
        for number in self.duties.open_numbers() {
            self.with_duty(number, |relay, duty| {
                let in_custody: Vec<u64> = (duty.delegations.iter())
                    .filter(|(_, handed)| handed.to == peer && handed.phase.has_custody())
                    .map(|(delegation, _)| *delegation)
                    .collect();
                for delegation in in_custody {
                    relay.inquire(number, duty, delegation, out);
                }
            });
        }
    }

    /// Ask how a part is that somebody took custody of.
    fn inquire(&self, number: u64, duty: &mut Duty<I>, delegation: u64, out: &mut Effects<I>) {
        let Some(handed) = duty.delegations.get_mut(&delegation) else {
            return;
        };
        let wait = self.config.inquire_after * (1 << handed.attempts.min(3));
        handed.attempts = handed.attempts.saturating_add(1);
        handed.unanswered = handed.unanswered.saturating_add(1);
        handed.phase = Phase::Asked;
        Self::ask(duty, delegation, out);
        self.arm(number, delegation, wait, out);
    }

    /// The link to a peer works again: what it has not answered is sent now.
    pub(super) fn on_writable(&mut self, peer: I, out: &mut Effects<I>) {
        self.on_answer(peer, out);
        for number in self.duties.open_numbers() {
            self.with_duty(number, |relay, duty| {
                let unanswered: Vec<u64> = (duty.delegations.iter())
                    .filter(|(_, handed)| handed.to == peer && !handed.phase.has_custody())
                    .filter(|(_, handed)| handed.copies != Copies::Held)
                    .map(|(delegation, _)| *delegation)
                    .collect();
                for delegation in unanswered {
                    relay.stats.retries += 1;
                    relay.hurry(number, duty, delegation, out);
                }
            });
        }
    }

    /// A delegate is gone for good: except it, and hand on the rest of its part.
    pub(super) fn bypass(&mut self, number: u64, peer: I, why: Reason, out: &mut Effects<I>) {
        self.settle_with(number, out, |relay, duty, out| {
            let in_its_hands: Vec<u64> = (duty.delegations.iter())
                .filter(|(_, handed)| handed.to == peer)
                .map(|(delegation, _)| *delegation)
                .collect();
            for delegation in in_its_hands {
                let Some(handed) = relay.withdraw_delegation(number, duty, delegation, out) else {
                    continue;
                };
                match &handed.part {
                    Part::Range(span) => {
                        let head = Span::single(span.start);
                        relay.except(duty, unconfirmed(head, Some(peer), why));
                        if span.len() > 1 {
                            relay.stats.bypassed += 1;
                            duty.redelegated = duty.redelegated.saturating_add(1);
                            duty.replace(peer);
                        }
                        let generation = handed.generation.saturating_add(1);
                        relay.delegate_rest(number, duty, (*span, peer), generation, out);
                    }
                    Part::Routed { spans, .. } => {
                        relay.stats.bypassed += 1;
                        duty.replace(peer);
                        relay.detour(number, duty, &handed, spans, out);
                    }
                }
            }
        });
    }

    /// No custody in time. The late one keeps a duty for itself alone, and the
    /// remainder of its range goes to the range's next rank; a routed part goes
    /// to another hop. Without budget, or with nothing to hand on: once more.
    fn on_late_custody(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        delegation: u64,
        out: &mut Effects<I>,
    ) {
        let Some(handed) = duty.delegations.get_mut(&delegation) else {
            return;
        };
        if handed.attempts == 0 && handed.copies != Copies::Held {
            self.pace
                .on_late(handed.to, handed.first_wait, &self.config);
        }
        handed.attempts = handed.attempts.saturating_add(1);
        if handed.copies == Copies::Sent {
            self.flow
                .uplink
                .on_late(handed.to, delegation, &self.config);
        }
        let is_silent = handed.attempts >= GO_ROUND_AFTER;
        let (part, to) = (handed.part.clone(), handed.to);
        let generation = handed.generation.saturating_add(1);
        match part {
            Part::Range(span) if span.len() > 1 && self.may_redelegate(duty) => {
                self.keep_head(number, duty, delegation, span, out);
                duty.replace(to);
                self.delegate_rest(number, duty, (span, to), generation, out);
            }
            Part::Routed { spans, .. } => {
                let handed = duty.delegations.get(&delegation).cloned();
                let other = handed.filter(|handed| self.is_replaceable(duty, handed));
                match other {
                    Some(handed) if self.may_redelegate(duty) => {
                        duty.replace(to);
                        self.withdraw_delegation(number, duty, delegation, out);
                        self.route(number, duty, &spans, generation, &handed.tried, out);
                    }
                    None if is_silent => self.go_round(number, duty, delegation, out),
                    _ => self.repeat(number, duty, delegation, to, out),
                }
            }
            Part::Range(span) if self.is_doubtful(duty, delegation) => {
                self.stats.roster_doubted += 1;
                self.withdraw_delegation(number, duty, delegation, out);
                self.delegate(number, duty, span, generation, out);
            }
            Part::Range(_) if is_silent && self.may_redelegate(duty) => {
                self.go_round(number, duty, delegation, out);
            }
            Part::Range(_) => self.repeat(number, duty, delegation, to, out),
        }
    }

    /// A delegate does not answer, and no verdict says that it is down: perhaps
    /// this pair alone is cut. It is reached over others from now on; if nobody
    /// finds a way the part ends with that, and the origin issues it again.
    fn go_round(&mut self, number: u64, duty: &mut Duty<I>, delegation: u64, out: &mut Effects<I>) {
        let Some(handed) = self.withdraw_delegation(number, duty, delegation, out) else {
            return;
        };
        self.stats.gone_round += 1;
        if self.verdicts.has(handed.to) {
            // It was tried again after a new epoch, and the verdict is right.
            self.verdicts.give(handed.to, self.config.max_peers);
        } else if self.silent.len() < self.config.max_peers {
            self.silent.insert(handed.to);
        }
        let generation = handed.generation.saturating_add(1);
        match &handed.part {
            Part::Range(span) if self.silent.contains(&handed.to) || self.is_down(handed.to) => {
                self.delegate(number, duty, *span, generation, out);
            }
            Part::Range(span) => {
                self.except(duty, unconfirmed(*span, None, Reason::NoRoute));
            }
            Part::Routed { spans, .. } => self.detour(number, duty, &handed, spans, out),
        }
    }

    /// Whether a late hop should be replaced. It may only be slow and go on, so
    /// far along a transit list, where every step adds its own, it is given time.
    fn is_replaceable(&self, duty: &Duty<I>, handed: &Delegation<I>) -> bool {
        let is_near = duty.visited().len() < self.config.route_backtrack;
        (is_near || handed.attempts >= DOUBT_AFTER) && self.has_detour(duty, handed)
    }

    /// Whether a silent delegate should be looked for over the fingers instead:
    /// that it holds its rank is hearsay, which a liar may have told. From now
    /// on nothing is sent to it by that name.
    fn is_doubtful(&mut self, duty: &Duty<I>, delegation: u64) -> bool {
        let Some(handed) = duty.delegations.get(&delegation) else {
            return false;
        };
        let view = self.epochs.find_mut(duty.key.epoch);
        handed.attempts >= DOUBT_AFTER && view.is_some_and(|view| view.doubt_hearsay(handed.rank))
    }

    /// From now on only the head itself is wanted from this delegate.
    pub(super) fn keep_head(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        delegation: u64,
        span: Span,
        out: &mut Effects<I>,
    ) {
        if let Some(handed) = duty.delegations.get_mut(&delegation) {
            handed.part = Part::Range(Span::single(span.start));
            handed.pending.remove(Span::new(span.start + 1, span.end));
            if handed.copies == Copies::Held {
                handed.sent_end = span.start + 1;
            }
            self.await_custody(number, duty, delegation, out);
        }
    }

    fn may_redelegate(&mut self, duty: &mut Duty<I>) -> bool {
        let has_room = duty.delegations.len() < self.config.max_duty_delegations;
        let is_paid = has_room && self.budget.take();
        if is_paid {
            self.stats.redelegations += 1;
            duty.redelegated = duty.redelegated.saturating_add(1);
        } else {
            self.stats.over_budget += 1;
        }
        is_paid
    }
}
