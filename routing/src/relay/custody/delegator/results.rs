//! What delegates answer: custody, done, refusals.

use binomesh_overlay::{Bug, Id};

use super::Delegator;
use crate::packet::{Exception, Part, Reason, Refusal, Span, State};
use crate::relay::context::Context;
use crate::relay::custody::delegation::{Copies, Delegation, Phase};
use crate::relay::custody::duty::Duty;
use crate::relay::custody::progress::Progress;
use crate::relay::custody::sender;
use crate::runs::Runs;

/// What a delegate says that is done with its part.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct Done<'a, I> {
    /// Of its part, who is not known to have delivered.
    pub(in crate::relay) exceptions: &'a [Exception<I>],
    /// How many parts were handed to somebody else.
    pub(in crate::relay) redelegated: u32,
    /// From whom parts were taken.
    pub(in crate::relay) replaced: &'a [I],
}

impl<I: Id> Delegator<I> {
    /// A delegate answers for its part, of which these are pending.
    pub(in crate::relay::custody) fn on_custody(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        said: &Part,
        pending: &[Span],
        cx: &mut Context<'_, I>,
    ) {
        let mut is_again = false;
        if let Some(handed) = duty.delegations.get_mut(&delegation) {
            self.sender.on_answer(handed.to, delegation);
            handed.unanswered = 0;
            is_again = handed.phase.has_custody();
            handed.phase = Phase::Custody;
        }
        if !is_again {
            self.sender.await_done(duty, delegation, cx);
            self.sender.give_back(duty, delegation, said, cx);
        }
        let is_news = narrow(duty, delegation, pending, cx);
        // Something is late there: who waits shall not take it for more than it is.
        if is_news || is_again && duty.pending_count() < duty.told {
            duty.report(cx.out);
        }
    }

    /// A delegate is done with a part that it says; what it was given may be larger.
    pub(in crate::relay::custody) fn on_done(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        said: &Part,
        done: Done<'_, I>,
        cx: &mut Context<'_, I>,
    ) {
        duty.redelegated = duty.redelegated.saturating_add(done.redelegated);
        done.replaced.iter().for_each(|peer| duty.replace(*peer));
        if let Some(handed) = self.sender.withdraw(duty, delegation, cx.out) {
            self.sender.on_done(&handed, cx.config);
            let given = handed.given();
            self.complete(duty, handed, done.exceptions, cx);
            if let Part::Range(said) = said {
                let all = said.clip(given);
                self.complete_others(duty, all, done.exceptions, cx);
            }
        }
    }

    /// A delegate does not take its part, or not now.
    pub(in crate::relay::custody) fn on_refused(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        reason: Refusal,
        cx: &mut Context<'_, I>,
    ) {
        // A question may have overtaken the copy.
        if reason != Refusal::Unknown
            && let Some(handed) = duty.delegations.get(&delegation)
        {
            self.sender.on_answer(handed.to, delegation);
        }
        match reason {
            Refusal::Busy => self.on_busy(duty, delegation, cx),
            // It answers a question, once; otherwise a liar would have the
            // packet sent again at its pleasure.
            Refusal::Unknown if !duty.is_asked_about(delegation) => {}
            Refusal::Unknown => self.sender.on_lacking(duty, delegation, cx),
            _ => {
                if let Some(handed) = self.sender.withdraw(duty, delegation, cx.out) {
                    self.turn_away(duty, handed, reason, cx);
                }
            }
        }
    }

    /// A delegate has no room for a duty. A copy for the delegate alone needs none. So only that
    /// is left with it, and this node hands out the rest. Thus bounded buffers never wait for
    /// each other in a circle. The timer sends again what is left.
    fn on_busy(&mut self, duty: &mut Duty<I>, delegation: u64, cx: &mut Context<'_, I>) {
        let Some(handed) = duty.delegations.get(&delegation).cloned() else {
            return;
        };
        if cx.config.planted.has(Bug::WaitForRoom) {
            // As if it had it: it is asked again and again.
            if let Some(handed) = duty.delegations.get_mut(&delegation) {
                (handed.phase, handed.attempts, handed.unanswered) = (Phase::Custody, 0, 0);
            }
            return sender::arm(duty, delegation, cx.config.inquire_after, cx.out);
        }
        match &handed.part {
            Part::Range(span) if span.len() > 1 => {
                cx.stats.taken_over += 1;
                self.sender.keep_head(duty, delegation, *span, cx);
                if handed.copies == Copies::Sent {
                    self.sender.send_now(duty, delegation, cx);
                } else {
                    self.sender.send(duty, delegation, cx);
                }
                self.delegate_rest(duty, *span, handed.to, handed.generation, cx);
            }
            Part::Routed { spans, .. } if cx.reaches_heads(duty, spans) => {
                cx.stats.taken_over += 1;
                self.sender.withdraw(duty, delegation, cx.out);
                for span in spans {
                    self.delegate(duty, *span, handed.generation, cx);
                }
            }
            // Waiting for room, hops full of each other's parts would do so for
            // ever; without another hop the origin tries again later.
            Part::Routed { spans, .. } => {
                self.sender.withdraw(duty, delegation, cx.out);
                self.search(duty, &handed, spans, cx);
            }
            Part::Range(_) => {}
        }
    }

    /// A delegate is done. Its exceptions become exceptions of this duty, as far as they are
    /// about the part that was wanted from it and no other way is left to try.
    fn complete(
        &mut self,
        duty: &mut Duty<I>,
        handed: Delegation<I>,
        exceptions: &[Exception<I>],
        cx: &mut Context<'_, I>,
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
                    let exception = heard(duty, clip(exception, clipped), cx);
                    duty.except(exception, cx);
                }
            }
        }
        if duty.is_own {
            cx.progress.push(Progress::confirmed(duty, &reached));
        }
        let astray = apart(astray);
        if duty.visited().len() < cx.config.route_backtrack {
            if !astray.is_empty() {
                self.search(duty, &handed, &astray, cx);
            }
        } else {
            self.give_up(duty, &astray, handed.generation, cx);
        }
    }

    /// What a hop has no way to, or no room for: another hop, while the budget
    /// lasts. Ranks that nobody holds, as a liar can make many, would otherwise
    /// keep all nodes searching.
    fn search(
        &mut self,
        duty: &mut Duty<I>,
        handed: &Delegation<I>,
        spans: &[Span],
        cx: &mut Context<'_, I>,
    ) {
        if !cx.has_detour(duty, handed) || self.sender.may_search() {
            return self.detour(duty, handed, spans, cx);
        }
        cx.stats.over_search += 1;
        self.give_up(duty, spans, handed.generation, cx);
    }

    /// Spans that a hop could not get any further: another hop, or no route.
    pub(super) fn detour(
        &mut self,
        duty: &mut Duty<I>,
        handed: &Delegation<I>,
        spans: &[Span],
        cx: &mut Context<'_, I>,
    ) {
        let generation = handed.generation.saturating_add(1);
        if !cx.has_detour(duty, handed) {
            return self.give_up(duty, spans, generation, cx);
        }
        self.route(duty, spans, generation, &handed.tried, cx);
    }

    /// A late delegate whose remainder went to others may be done with all of
    /// it: what it does not except needs nobody else. It speaks for what it was
    /// given at most, however much more it says: a liar must not end others' parts.
    fn complete_others(
        &mut self,
        duty: &mut Duty<I>,
        done: Span,
        exceptions: &[Exception<I>],
        cx: &mut Context<'_, I>,
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
            if let Some(handed) = self.sender.withdraw(duty, other, cx.out) {
                self.complete(duty, handed, &[], cx);
            }
        }
    }

    /// A delegate said no for good: it is excepted or gone round, and the rest
    /// of its range goes to the next rank.
    fn turn_away(
        &mut self,
        duty: &mut Duty<I>,
        handed: Delegation<I>,
        reason: Refusal,
        cx: &mut Context<'_, I>,
    ) {
        let generation = handed.generation.saturating_add(1);
        let span = match handed.part {
            Part::Routed { ref spans, .. } => {
                return self.search(duty, &handed, spans, cx);
            }
            Part::Range(span) => span,
        };
        let mut peer = Some(handed.to);
        let (state, why) = match reason {
            Refusal::NotThatRank => {
                if let Some(view) = cx.epochs.find_mut(duty.key.epoch) {
                    view.deny(handed.rank);
                }
                return self.delegate(duty, span, generation, cx);
            }
            // The next life of that peer may accept the message.
            Refusal::Draining => {
                if duty.is_own {
                    cx.peers.on_draining(handed.to, cx.config, cx.out);
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
                    cx.stats.misnamed += 1;
                    cx.progress.push(Progress::misnamed(duty, span.start));
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
        duty.except(exception, cx);
        if span.len() > 1 {
            duty.replace(handed.to);
        }
        self.delegate_rest(duty, span, handed.to, generation, cx);
    }
}

/// Less is pending in a delegate's part than was known; true if more is
/// reached now than just the delegate itself, which is no news.
fn narrow<I: Id>(
    duty: &mut Duty<I>,
    delegation: u64,
    pending: &[Span],
    cx: &mut Context<'_, I>,
) -> bool {
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
        cx.progress.push(Progress::confirmed(duty, &reached));
    }
    is_news
}

/// An exception that a delegate reports of somebody else. The origin does not
/// take a refusal from hearsay, which would be final: it stays unconfirmed,
/// and the next round asks the member itself, if its name is known.
fn heard<I: Id>(
    duty: &Duty<I>,
    mut exception: Exception<I>,
    cx: &mut Context<'_, I>,
) -> Exception<I> {
    if exception.state != State::Refused {
        return exception;
    }
    let is_asked_after = duty.is_own && cx.knows_heads(duty, &[exception.span]);
    if is_asked_after || !duty.may_refuse_for_good(exception.reason) {
        cx.stats.refusals_checked += 1;
        exception.state = State::Unconfirmed;
    }
    exception
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
