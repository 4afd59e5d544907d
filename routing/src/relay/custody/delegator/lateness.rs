//! Late custody, missing done, and delegates that are gone.

use std::time::Duration;

use binomesh_overlay::Id;

use super::Delegator;
use crate::packet::{Part, Reason, Span};
use crate::relay::Config;
use crate::relay::context::Context;
use crate::relay::custody::delegation::{Copies, Delegation, Phase};
use crate::relay::custody::duty::Duty;
use crate::relay::custody::exceptions::unconfirmed;

/// How many copies, or offers after them, may stay unanswered before a rank known by hearsay is
/// doubted, or a hop far along a transit list is replaced. A guess: the wait doubles with each, so
/// mere lateness stays below this number.
const DOUBT_AFTER: u32 = 4;

/// How many copies, or offers after them, a delegate may leave unanswered before another way to it
/// is looked for: 1.5 s at the first waits. A guess: above a short pause, and below the time in
/// which an origin's window fills up.
const GO_ROUND_AFTER: u32 = 5;
/// How many questions about its part a delegate may leave unanswered before another way to it is
/// looked for: 8 s after custody at the default waits, or more if it answered earlier questions.
const UNANSWERED: u32 = 4;

impl<I: Id> Delegator<I> {
    /// The timer of a delegation has fired, `late` after its time.
    pub(in crate::relay::custody) fn on_timer(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        late: Duration,
        cx: &mut Context<'_, I>,
    ) {
        let was_paused = late > cx.config.pause;
        let to = duty.delegations.get(&delegation).map(|handed| handed.to);
        let before = to.map_or(0, |to| self.sender.answers_before(duty, to));
        match duty.delegations.get_mut(&delegation) {
            Some(handed) if was_paused && !handed.is_excused => {
                handed.is_excused = true;
                self.sender.await_custody(duty, delegation, cx);
            }
            Some(handed) if handed.is_waiting() && handed.answers != before => {
                // The peer answers other copies, so the turn of this one will come.
                handed.answers = before;
                self.sender.await_custody(duty, delegation, cx);
            }
            Some(handed) if handed.phase.has_custody() => {
                if handed.unanswered >= UNANSWERED && self.may_redelegate(duty, cx) {
                    self.go_round(duty, delegation, cx);
                } else {
                    self.sender.inquire(duty, delegation, cx);
                }
            }
            Some(handed) if handed.phase == Phase::Lacking => {
                self.sender.send_now(duty, delegation, cx);
            }
            Some(_) => match self.sender.is_in_queue(duty, delegation, cx.config) {
                true => self.sender.await_custody(duty, delegation, cx),
                false => self.on_late_custody(duty, delegation, cx),
            },
            None => {}
        }
    }

    /// A peer is silent: as far as the budget allows, go round it with every late part of this duty
    /// of which it has not taken custody, before each part's own timer finds out.
    pub(in crate::relay::custody) fn go_round_all(
        &mut self,
        duty: &mut Duty<I>,
        peer: I,
        cx: &mut Context<'_, I>,
    ) {
        let is_late = |handed: &Delegation<I>| {
            handed.to == peer && !handed.phase.has_custody() && handed.attempts > 0
        };
        for delegation in duty.delegations_that(is_late) {
            if self.may_redelegate(duty, cx) {
                self.go_round(duty, delegation, cx);
            }
        }
    }

    /// A peer is up, perhaps as a new process: ask about each part of which it took custody.
    pub(in crate::relay::custody) fn inquire_all(
        &self,
        duty: &mut Duty<I>,
        peer: I,
        cx: &mut Context<'_, I>,
    ) {
        let is_in_its_hands =
            |handed: &Delegation<I>| handed.to == peer && handed.phase.has_custody();
        for delegation in duty.delegations_that(is_in_its_hands) {
            self.sender.inquire(duty, delegation, cx);
        }
    }

    /// The link to a peer works again: send again at once the copies and offers that it has not
    /// answered.
    pub(in crate::relay::custody) fn hurry_all(
        &mut self,
        duty: &mut Duty<I>,
        peer: I,
        cx: &mut Context<'_, I>,
    ) {
        let is_unanswered = |handed: &Delegation<I>| {
            let is_sent = !handed.phase.has_custody() && handed.copies != Copies::Held;
            handed.to == peer && is_sent
        };
        for delegation in duty.delegations_that(is_unanswered) {
            cx.stats.retries += 1;
            self.sender.hurry(duty, delegation, cx);
        }
    }

    /// A peer is down or has left: hand on the parts of this duty that it was given. The peer
    /// itself becomes an exception if it is the head of such a part.
    pub(in crate::relay::custody) fn bypass(
        &mut self,
        duty: &mut Duty<I>,
        peer: I,
        why: Reason,
        cx: &mut Context<'_, I>,
    ) {
        for delegation in duty.delegations_that(|handed| handed.to == peer) {
            let Some(handed) = self.sender.withdraw(duty, delegation, cx.out) else {
                continue;
            };
            match &handed.part {
                Part::Range(span) => {
                    let head = Span::single(span.start);
                    duty.except(unconfirmed(head, Some(peer), why), cx);
                    if span.len() > 1 {
                        cx.stats.bypassed += 1;
                        duty.redelegated = duty.redelegated.saturating_add(1);
                        duty.replace(peer);
                    }
                    let generation = handed.generation.saturating_add(1);
                    self.delegate_rest(duty, *span, peer, generation, cx);
                }
                Part::Routed { spans, .. } => {
                    cx.stats.bypassed += 1;
                    duty.replace(peer);
                    self.detour(duty, &handed, spans, cx);
                }
            }
        }
    }

    /// The epoch of a duty is no longer kept: take all delegations back, and except their parts.
    pub(in crate::relay::custody) fn withdraw_all(
        &mut self,
        duty: &mut Duty<I>,
        cx: &mut Context<'_, I>,
    ) {
        for delegation in duty.delegations_that(|_| true) {
            let handed = self.sender.withdraw(duty, delegation, cx.out);
            let spans = handed.iter().flat_map(|handed| handed.part.spans());
            for span in spans {
                duty.except(unconfirmed(*span, None, Reason::Epoch), cx);
            }
        }
    }

    /// Custody is late. The delegate keeps a duty for itself alone, and the remainder of its range
    /// goes to the next ranks. A routed part goes to another hop. Without budget, or if there is
    /// nothing to hand on, the same delegate is tried again. If it stays silent, another way to it
    /// is looked for.
    fn on_late_custody(&mut self, duty: &mut Duty<I>, delegation: u64, cx: &mut Context<'_, I>) {
        let Some(handed) = duty.delegations.get_mut(&delegation) else {
            return;
        };
        self.sender.on_late(handed, delegation, cx.config);
        let is_silent = handed.attempts >= GO_ROUND_AFTER;
        let (part, to) = (handed.part.clone(), handed.to);
        let generation = handed.generation.saturating_add(1);
        match part {
            Part::Range(span) if span.len() > 1 && self.may_redelegate(duty, cx) => {
                self.sender.keep_head(duty, delegation, span, cx);
                duty.replace(to);
                self.delegate_rest(duty, span, to, generation, cx);
            }
            Part::Routed { spans, .. } => {
                let handed = duty.delegations.get(&delegation).cloned();
                let other = handed.filter(|handed| is_replaceable(duty, handed, cx));
                match other {
                    Some(handed) if self.may_redelegate(duty, cx) => {
                        duty.replace(to);
                        self.sender.withdraw(duty, delegation, cx.out);
                        self.route(duty, &spans, generation, &handed.tried, cx);
                    }
                    None if is_silent => self.go_round(duty, delegation, cx),
                    _ => self.sender.repeat(duty, delegation, to, cx),
                }
            }
            Part::Range(span) if doubt_late(duty, delegation, cx) => {
                cx.stats.roster_doubted += 1;
                self.sender.withdraw(duty, delegation, cx.out);
                self.delegate(duty, span, generation, cx);
            }
            Part::Range(_) if is_silent && self.may_redelegate(duty, cx) => {
                self.go_round(duty, delegation, cx);
            }
            Part::Range(_) => self.sender.repeat(duty, delegation, to, cx),
        }
    }

    /// A delegate does not answer, and no certain verdict calls it down: perhaps only this pair is
    /// cut. From now on this node reaches the delegate over other peers. If there is a doubtful
    /// verdict, it becomes certain instead. If no way is found, the part ends with *no route*, and
    /// the origin issues it again.
    fn go_round(&mut self, duty: &mut Duty<I>, delegation: u64, cx: &mut Context<'_, I>) {
        let Some(handed) = self.sender.withdraw(duty, delegation, cx.out) else {
            return;
        };
        cx.stats.gone_round += 1;
        cx.peers.on_silence(handed.to, cx.config);
        let generation = handed.generation.saturating_add(1);
        let is_avoided = cx.peers.is_silent(handed.to) || cx.peers.has_verdict(handed.to);
        match &handed.part {
            Part::Range(span) if is_avoided => {
                self.delegate(duty, *span, generation, cx);
            }
            Part::Range(span) => {
                duty.except(unconfirmed(*span, None, Reason::NoRoute), cx);
            }
            Part::Routed { spans, .. } => self.detour(duty, &handed, spans, cx),
        }
    }

    fn may_redelegate(&mut self, duty: &mut Duty<I>, cx: &mut Context<'_, I>) -> bool {
        let has_room = duty.delegations.len() < Config::MAX_DUTY_DELEGATIONS;
        let is_paid = has_room && self.sender.may_redelegate();
        if is_paid {
            cx.stats.redelegations += 1;
            duty.redelegated = duty.redelegated.saturating_add(1);
        } else {
            cx.stats.over_budget += 1;
        }
        is_paid
    }
}

/// Whether a late hop should be replaced. The hop may only be slow. So it is given more time far
/// along a transit list, where the delays of all steps add up.
fn is_replaceable<I: Id>(duty: &Duty<I>, handed: &Delegation<I>, cx: &Context<'_, I>) -> bool {
    let is_near = duty.visited().len() < Config::ROUTE_BACKTRACK;
    (is_near || handed.attempts >= DOUBT_AFTER) && cx.has_detour(duty, handed)
}

/// Whether to stop repeating to a late delegate and to search for its rank over the neighbours.
/// True after [`DOUBT_AFTER`] attempts, once per rank, if the peer at that rank is known by hearsay
/// alone: a liar may have named it. Notes the doubt: until the tables change, nothing is sent to
/// this peer by that rank.
fn doubt_late<I: Id>(duty: &Duty<I>, delegation: u64, cx: &mut Context<'_, I>) -> bool {
    let Some(handed) = duty.delegations.get(&delegation) else {
        return false;
    };
    let view = cx.epochs.find_mut(duty.key.epoch);
    handed.attempts >= DOUBT_AFTER && view.is_some_and(|view| view.doubt_hearsay(handed.rank))
}
