//! What delegates answer: custody, done, refusals.

use binomesh_overlay::{Bug, Id};

use super::custody::{answer_to, custody_of};
use super::duty::{Copies, Delegation, Duty, Phase};
use super::{Effects, Relay, Timer};
use crate::packet::{Errand, Exception, Message, Part, Reason, Refusal, Span, State};
use crate::runs::Runs;

impl<I: Id> Relay<I> {
    pub(super) fn on_custody(
        &mut self,
        from: I,
        errand: &Errand<I>,
        pending: &[Span],
        out: &mut Effects<I>,
    ) {
        for number in self.duties.of_message(errand.id, errand.epoch) {
            let duty = self.duties.get(number);
            let Some(delegation) = duty.and_then(|duty| duty.answered(from, errand)) else {
                continue;
            };
            self.with_duty(number, |relay, duty| {
                let mut is_again = false;
                if let Some(handed) = duty.delegations.get_mut(&delegation) {
                    relay.flow.on_answer(from, delegation);
                    handed.unanswered = 0;
                    is_again = handed.phase.has_custody();
                    handed.phase = Phase::Custody;
                }
                if let Some(handed) = duty.delegations.get_mut(&delegation)
                    && !is_again
                {
                    if handed.attempts == 0 && !handed.is_excused {
                        relay.pace.on_time(from, &relay.config);
                    }
                    handed.attempts = 0;
                    handed.is_excused = false;
                    relay.arm(number, delegation, relay.config.inquire_after, out);
                    relay.give_back(number, duty, (delegation, &errand.part), out);
                }
                let is_news = relay.narrow(duty, delegation, pending);
                // Something is late there: who waits shall not take it for more than it is.
                if is_news || is_again && duty.pending_count() < duty.told {
                    relay.report(duty, out);
                }
            });
        }
    }

    /// Tell those who wait what is pending as of now.
    pub(super) fn report(&self, duty: &mut Duty<I>, out: &mut Effects<I>) {
        duty.told = duty.pending_count();
        for (waiter, errand) in &duty.waiters {
            out.send(*waiter, custody_of(duty, errand));
        }
    }

    /// Less is pending in a delegate's part than was known; true if more is
    /// reached now than just the delegate itself, which is no news.
    fn narrow(&mut self, duty: &mut Duty<I>, delegation: u64, pending: &[Span]) -> bool {
        let Some(handed) = duty.delegations.get_mut(&delegation) else {
            return false;
        };
        let mut reached: Runs = handed.part.spans().iter().copied().collect();
        pending.iter().for_each(|span| reached.remove(*span));
        let before = handed.pending.len();
        for span in reached.spans() {
            handed.pending.remove(*span);
        }
        let after = handed.pending.len();
        let is_news = before > after.saturating_add(1);
        if duty.is_own && before > after {
            self.open.confirm(&duty.key, &duty.distances(&reached));
        }
        is_news
    }

    pub(super) fn on_done(
        &mut self,
        from: I,
        errand: &Errand<I>,
        exceptions: &[Exception<I>],
        (redelegated, replaced): (u32, &[I]),
        out: &mut Effects<I>,
    ) {
        for number in self.duties.of_message(errand.id, errand.epoch) {
            let duty = self.duties.get(number);
            let Some(delegation) = duty.and_then(|duty| duty.answered(from, errand)) else {
                continue;
            };
            self.settle_with(number, out, |relay, duty, out| {
                duty.redelegated = duty.redelegated.saturating_add(redelegated);
                replaced.iter().for_each(|peer| duty.replace(*peer));
                if let Some(handed) = relay.withdraw_delegation(number, duty, delegation, out) {
                    relay.pace_of_done(&handed);
                    let given = handed.given();
                    relay.complete(number, duty, handed, exceptions, out);
                    if let Part::Range(said) = errand.part {
                        let done = said.clip(given);
                        relay.complete_others(number, duty, done, exceptions, out);
                    }
                }
            });
        }
    }

    pub(super) fn on_refused(
        &mut self,
        from: I,
        errand: &Errand<I>,
        reason: Refusal,
        out: &mut Effects<I>,
    ) {
        for number in self.duties.of_message(errand.id, errand.epoch) {
            let duty = self.duties.get(number);
            let Some(delegation) = duty.and_then(|duty| duty.answered(from, errand)) else {
                continue;
            };
            self.settle_with(number, out, |relay, duty, out| {
                // A question may have overtaken the copy.
                if reason != Refusal::Unknown {
                    relay.flow.on_answer(from, delegation);
                }
                match reason {
                    Refusal::Busy => relay.on_busy(number, duty, delegation, out),
                    // It answers a question, once; otherwise a liar would have the
                    // packet sent again at its pleasure.
                    Refusal::Unknown if !duty.is_asked_about(delegation) => {}
                    Refusal::Unknown => relay.on_lacking(number, duty, delegation, out),
                    _ => {
                        if let Some(handed) =
                            relay.withdraw_delegation(number, duty, delegation, out)
                        {
                            relay.turn_away(number, duty, handed, reason, out);
                        }
                    }
                }
            });
        }
    }

    /// A delegate has no room for a duty. A copy for the delegate alone needs none. So only that
    /// is left with it, and this node hands out the rest. Thus bounded buffers never wait for
    /// each other in a circle. The timer sends again what is left.
    fn on_busy(&mut self, number: u64, duty: &mut Duty<I>, delegation: u64, out: &mut Effects<I>) {
        let Some(handed) = duty.delegations.get(&delegation).cloned() else {
            return;
        };
        if self.config.planted.has(Bug::WaitForRoom) {
            // As if it had it: it is asked again and again.
            if let Some(handed) = duty.delegations.get_mut(&delegation) {
                (handed.phase, handed.attempts, handed.unanswered) = (Phase::Custody, 0, 0);
            }
            return self.arm(number, delegation, self.config.inquire_after, out);
        }
        match &handed.part {
            Part::Range(span) if span.len() > 1 => {
                self.stats.taken_over += 1;
                self.keep_head(number, duty, delegation, *span, out);
                if handed.copies == Copies::Sent {
                    self.send_now(number, duty, delegation, out);
                } else {
                    self.send(number, duty, delegation, out);
                }
                let rest = (*span, handed.to);
                self.delegate_rest(number, duty, rest, handed.generation, out);
            }
            Part::Routed { spans, .. } if self.reaches_heads(duty, spans) => {
                self.stats.taken_over += 1;
                self.withdraw_delegation(number, duty, delegation, out);
                for span in spans {
                    self.delegate(number, duty, *span, handed.generation, out);
                }
            }
            // Waiting for room, hops full of each other's parts would do so for
            // ever; without another hop the origin tries again later.
            Part::Routed { spans, .. } => {
                self.withdraw_delegation(number, duty, delegation, out);
                self.search(number, duty, &handed, spans, out);
            }
            Part::Range(_) => {}
        }
    }

    /// Act on a duty, which is out of its list meanwhile; nothing happens if there is none.
    pub(super) fn with_duty(&mut self, number: u64, act: impl FnOnce(&mut Self, &mut Duty<I>)) {
        if let Some(mut duty) = self.duties.take(number) {
            act(self, &mut duty);
            self.duties.put(number, duty, &self.config);
        }
    }

    /// As [`Self::with_duty`], and settle it then.
    pub(super) fn settle_with(
        &mut self,
        number: u64,
        out: &mut Effects<I>,
        act: impl FnOnce(&mut Self, &mut Duty<I>, &mut Effects<I>),
    ) {
        if let Some(mut duty) = self.duties.take(number) {
            act(self, &mut duty, out);
            self.settle(number, duty, out);
        }
    }

    /// If nothing is handed on any more, tell everybody who waits.
    pub(super) fn settle(&mut self, number: u64, mut duty: Box<Duty<I>>, out: &mut Effects<I>) {
        if !duty.delegations.is_empty() {
            return self.duties.put(number, duty, &self.config);
        }
        let has_ended = !duty.is_finished;
        duty.is_finished = true;
        duty.payloads.clear();
        duty.signature = None;
        duty.names.clear();
        duty.stood.clear();
        for (waiter, errand) in std::mem::take(&mut duty.waiters) {
            let done = Message::Done {
                errand: answer_to(&duty, &errand),
                exceptions: duty.exceptions.as_slice().to_vec(),
                redelegated: duty.redelegated,
                replaced: duty.replaced.iter().copied().collect(),
            };
            out.send(waiter, done);
        }
        let own = (has_ended && duty.is_own).then(|| duty.clone());
        self.duties.put(number, duty, &self.config);
        if has_ended {
            if let Some(own) = own {
                self.on_round_done(&own, out);
            }
            self.check_drained(out);
        }
    }

    /// Take a delegation back, with its timer.
    pub(super) fn withdraw_delegation(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        delegation: u64,
        out: &mut Effects<I>,
    ) -> Option<Delegation<I>> {
        let handed = duty.delegations.remove(&delegation)?;
        self.flow.on_answer(handed.to, delegation);
        out.disarm(Timer::Delegation {
            duty: number,
            delegation,
        });
        Some(handed)
    }

    fn pace_of_done(&mut self, handed: &Delegation<I>) {
        if handed.phase == Phase::Sent && handed.attempts == 0 && !handed.is_excused {
            self.pace.on_time(handed.to, &self.config);
        }
    }

    /// A delegate is done. Its exceptions become exceptions of this duty, as far as they are
    /// about the part that was wanted from it and no other way is left to try.
    fn complete(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        handed: Delegation<I>,
        exceptions: &[Exception<I>],
        out: &mut Effects<I>,
    ) {
        let mut reached: Runs = handed.part.spans().iter().copied().collect();
        let mut astray = Vec::new();
        for exception in exceptions {
            for span in handed.part.spans() {
                let clipped = exception.span.clip(*span);
                if clipped.is_empty() {
                    continue;
                }
                reached.remove(clipped);
                let is_routed = matches!(handed.part, Part::Routed { .. });
                if is_routed && exception.reason == Reason::NoRoute {
                    astray.push(clipped);
                } else {
                    let exception = self.heard(duty, clip(exception, clipped));
                    self.except(duty, exception);
                }
            }
        }
        if duty.is_own {
            self.open.confirm(&duty.key, &duty.distances(&reached));
        }
        let astray = apart(astray);
        if duty.visited().len() < self.config.route_backtrack {
            if !astray.is_empty() {
                self.search(number, duty, &handed, &astray, out);
            }
        } else {
            self.give_up(number, duty, &astray, handed.generation, out);
        }
    }

    /// An exception that a delegate reports of somebody else. The origin does not
    /// take a refusal from hearsay, which would be final: it stays unconfirmed,
    /// and the next round asks the member itself, if its name is known.
    fn heard(&mut self, duty: &Duty<I>, mut exception: Exception<I>) -> Exception<I> {
        if exception.state != State::Refused {
            return exception;
        }
        let is_asked_after = duty.is_own && self.knows_heads(duty, &[exception.span]);
        if is_asked_after || !duty.may_refuse_for_good(exception.reason) {
            self.stats.refusals_checked += 1;
            exception.state = State::Unconfirmed;
        }
        exception
    }

    /// What a hop has no way to, or no room for: another hop, while the budget
    /// lasts. Ranks that nobody holds, as a liar can make many, would otherwise
    /// keep all nodes searching.
    fn search(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        handed: &Delegation<I>,
        spans: &[Span],
        out: &mut Effects<I>,
    ) {
        if !self.has_detour(duty, handed) || self.searches.take() {
            return self.detour(number, duty, handed, spans, out);
        }
        self.stats.over_search += 1;
        self.give_up(number, duty, spans, handed.generation, out);
    }

    /// Spans that a hop could not get any further: another hop, or no route.
    pub(super) fn detour(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        handed: &Delegation<I>,
        spans: &[Span],
        out: &mut Effects<I>,
    ) {
        let generation = handed.generation.saturating_add(1);
        if !self.has_detour(duty, handed) {
            return self.give_up(number, duty, spans, generation, out);
        }
        self.route(number, duty, spans, generation, &handed.tried, out);
    }

    /// A late delegate whose remainder went to others may be done with all of
    /// it: what it does not except needs nobody else. It speaks for what it was
    /// given at most, however much more it says: a liar must not end others' parts.
    fn complete_others(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        done: Span,
        exceptions: &[Exception<I>],
        out: &mut Effects<I>,
    ) {
        let is_done = |handed: &Delegation<I>| {
            handed.part.spans().iter().all(|span| {
                done.covers(*span) && exceptions.iter().all(|e| e.span.clip(*span).is_empty())
            })
        };
        let others: Vec<u64> = (duty.delegations.iter())
            .filter(|(_, handed)| is_done(handed))
            .map(|(other, _)| *other)
            .collect();
        for other in others {
            if let Some(handed) = self.withdraw_delegation(number, duty, other, out) {
                self.complete(number, duty, handed, &[], out);
            }
        }
    }

    /// A delegate said no for good: it is excepted or gone round, and the rest
    /// of its range goes to the next rank.
    fn turn_away(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        handed: Delegation<I>,
        reason: Refusal,
        out: &mut Effects<I>,
    ) {
        let generation = handed.generation.saturating_add(1);
        let span = match handed.part {
            Part::Routed { ref spans, .. } => {
                return self.search(number, duty, &handed, spans, out);
            }
            Part::Range(span) => span,
        };
        let mut peer = Some(handed.to);
        let (state, why) = match reason {
            Refusal::NotThatRank => {
                if let Some(view) = self.epochs.find_mut(duty.key.epoch) {
                    view.deny(handed.rank);
                }
                return self.delegate(number, duty, span, generation, out);
            }
            // The next life of that peer may accept the message.
            Refusal::Draining => {
                if duty.is_own {
                    self.on_draining(handed.to, out);
                }
                (State::Unconfirmed, Reason::Draining)
            }
            // There may be room later.
            Refusal::Full => (State::Unconfirmed, Reason::Full),
            Refusal::TooLarge => (State::Refused, Reason::TooLarge),
            Refusal::Unsigned if duty.may_refuse_for_good(Reason::Unsigned) => {
                (State::Refused, Reason::Unsigned)
            }
            Refusal::Unsigned => (State::Unconfirmed, Reason::Unsigned),
            // Its judgement may be another later: no word for good.
            Refusal::Signature => (State::Unconfirmed, Reason::Signature),
            Refusal::EpochUnknown | Refusal::EpochGone => (State::Unconfirmed, Reason::Epoch),
            // The rank is right, and who is meant is not there in this epoch.
            Refusal::NotThatPeer => {
                peer = duty.name_at(span.start);
                // It is who is named, so the name was wrong when the message was accepted.
                if duty.is_own && peer == Some(handed.to) {
                    self.stats.misnamed += 1;
                    self.open.misname(&duty.key, span.start);
                }
                (State::Unconfirmed, Reason::Epoch)
            }
            Refusal::Window => (State::Unconfirmed, Reason::Window),
            _ => (State::Unconfirmed, Reason::Malformed),
        };
        let exception = Exception {
            span: Span::single(span.start),
            peer,
            state,
            reason: why,
        };
        self.except(duty, exception);
        if span.len() > 1 {
            duty.replace(handed.to);
        }
        self.delegate_rest(number, duty, (span, handed.to), generation, out);
    }
}

/// What a delegate excepts may overlap and be in any order. What only adjoins stays
/// apart: each has a head of its own.
fn apart(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut end = 0;
    for span in &mut spans {
        span.start = span.start.max(end);
        end = end.max(span.end);
    }
    spans.retain(|span| !span.is_empty());
    spans
}

/// A part of an exception; a refusal speaks for one member only.
fn clip<I: Id>(exception: &Exception<I>, span: Span) -> Exception<I> {
    let mut clipped = Exception { span, ..*exception };
    if exception.span.len() != 1 {
        clipped.state = State::Unconfirmed;
        clipped.peer = None;
    }
    clipped
}
