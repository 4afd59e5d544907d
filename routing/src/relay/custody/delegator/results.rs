//! The answers of delegates: custody, done, refusals.

use binomesh_overlay::{Bug, Id};

use super::Delegator;
use crate::packet::{CustodyRefusal, Exception, Part, Reason, Span, State};
use crate::relay::Config;
use crate::relay::context::Context;
use crate::relay::custody::delegation::{Copies, Delegation, Phase};
use crate::relay::custody::duty::Duty;
use crate::relay::custody::progress::Progress;
use crate::relay::custody::sender;
use crate::runs::Runs;

/// The content of a `Done` message from a delegate.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct Done<'a, I> {
    /// The members of its part that are not known to have delivered.
    pub(in crate::relay) exceptions: &'a [Exception<I>],
    /// How many parts were handed to another peer.
    pub(in crate::relay) redelegated: u32,
    /// The peers from which parts were taken.
    pub(in crate::relay) replaced: &'a [I],
}

impl<I: Id> Delegator<I> {
    /// A delegate has taken custody of its part, of which some members are pending.
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
        // Repeated custody means that something is late there. This node then tells its own
        // delegators which members are pending, so that no other members count as late.
        if is_news || is_again && duty.pending_count() < duty.reported_pending {
            duty.report(cx.out);
        }
    }

    /// A delegate is done with the part `said`: at least the part that is still wanted from it, and
    /// perhaps all that it was given.
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
            self.sender.on_done(&handed);
            let given = handed.given();
            self.complete(duty, handed, done.exceptions, cx);
            if let Part::Range(said) = said {
                let all = said.clip(given);
                self.complete_others(duty, all, done.exceptions, cx);
            }
        }
    }

    /// A delegate refuses its part, for good or for now.
    pub(in crate::relay::custody) fn on_refused(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        reason: CustodyRefusal,
        cx: &mut Context<'_, I>,
    ) {
        // After `Unknown` the copy may still be on its way: the question may have overtaken it.
        if reason != CustodyRefusal::Unknown
            && let Some(handed) = duty.delegations.get(&delegation)
        {
            self.sender.on_answer(handed.to, delegation);
        }
        match reason {
            CustodyRefusal::Busy => self.on_busy(duty, delegation, cx),
            // `Unknown` counts only as the answer to an open question. Otherwise a liar could draw
            // a copy at any time.
            CustodyRefusal::Unknown if !duty.is_asked_about(delegation) => {}
            CustodyRefusal::Unknown => self.sender.on_lacking(duty, delegation, cx),
            _ => {
                if let Some(handed) = self.sender.withdraw(duty, delegation, cx.out) {
                    self.turn_away(duty, handed, reason, cx);
                }
            }
        }
    }

    /// A delegate has no room for a duty. A part for the delegate alone needs no room. So the
    /// delegate keeps only that part, and this node hands out the rest. Thus bounded buffers never
    /// wait for each other in a circle. The timer sends again what stays unanswered.
    fn on_busy(&mut self, duty: &mut Duty<I>, delegation: u64, cx: &mut Context<'_, I>) {
        let Some(handed) = duty.delegations.get(&delegation).cloned() else {
            return;
        };
        if cx.config.planted.has(Bug::WaitForRoom) {
            // The planted bug treats the delegate as if it had custody, and asks again and again.
            if let Some(handed) = duty.delegations.get_mut(&delegation) {
                (handed.phase, handed.attempts, handed.unanswered) = (Phase::Custody, 0, 0);
            }
            return sender::arm(duty, delegation, Config::INQUIRE_AFTER, cx.out);
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
            // Hops that wait for room, full of each other's parts, would wait for ever. If there is
            // no other hop, the origin tries again later.
            Part::Routed { spans, .. } => {
                self.sender.withdraw(duty, delegation, cx.out);
                self.search(duty, &handed, spans, cx);
            }
            Part::Range(_) => {}
        }
    }

    /// A delegate is done. Its exceptions become exceptions of this duty, clipped to the part that
    /// is still wanted from the delegate. If a routed part found no way, another hop is tried
    /// first, unless the transit list is long.
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
        if duty.visited().len() < Config::ROUTE_BACKTRACK {
            if !astray.is_empty() {
                self.search(duty, &handed, &astray, cx);
            }
        } else {
            self.give_up(duty, &astray, handed.generation, cx);
        }
    }

    /// Try another hop for spans that the last hop found no way or no room for, while the search
    /// budget lasts. Without the budget, ranks that nobody holds, which a liar can make up, would
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

    /// Try another hop for spans that a hop could not bring further, or report that there is no
    /// route.
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

    /// A late delegate may be done with its whole range, although the remainder went to other
    /// peers. Then delegations of the remainder end, except for those that its exceptions touch.
    /// Its answer counts for the range that it was given and no further, since a liar must not end
    /// others' parts.
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

    /// A delegate has refused, for another reason than *busy* or *unknown*: except it, or search
    /// for the true holder of its rank, and hand the rest of its range to the next rank. A routed
    /// part goes to another hop.
    fn turn_away(
        &mut self,
        duty: &mut Duty<I>,
        handed: Delegation<I>,
        reason: CustodyRefusal,
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
            CustodyRefusal::NotThatRank => {
                if let Some(view) = cx.epochs.find_mut(duty.key.epoch) {
                    view.deny(handed.rank);
                }
                return self.delegate(duty, span, generation, cx);
            }
            // The next life of this peer may accept the message.
            CustodyRefusal::Draining => {
                if duty.is_own {
                    cx.peers.on_draining(handed.to, cx.config, cx.out);
                }
                (State::Unconfirmed, Reason::Draining)
            }
            // The peer may have room later.
            CustodyRefusal::Full => (State::Unconfirmed, Reason::Full),
            CustodyRefusal::TooLarge => (State::Refused, Reason::TooLarge),
            CustodyRefusal::Unsigned if duty.may_refuse_for_good(Reason::Unsigned) => {
                (State::Refused, Reason::Unsigned)
            }
            CustodyRefusal::Unsigned => (State::Unconfirmed, Reason::Unsigned),
            // The peer may judge the signature otherwise later, so this refusal is not final.
            CustodyRefusal::Signature => (State::Unconfirmed, Reason::Signature),
            CustodyRefusal::EpochUnknown | CustodyRefusal::EpochGone => {
                (State::Unconfirmed, Reason::Epoch)
            }
            // The rank is right, and the named member is not there in this epoch.
            CustodyRefusal::NotThatPeer => {
                peer = duty.name_at(span.start);
                // The refusing peer is the named member itself. So the name was wrong when the
                // message was accepted.
                if duty.is_own && peer == Some(handed.to) {
                    cx.stats.misnamed += 1;
                    cx.progress.push(Progress::misnamed(duty, span.start));
                }
                (State::Unconfirmed, Reason::Epoch)
            }
            CustodyRefusal::Window => (State::Unconfirmed, Reason::Window),
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

/// Note that fewer members of a delegate's part are pending. Returns whether more members than the
/// delegate itself were reached since, as that one alone is no news.
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

/// An exception that a delegate reports of another member. A refusal by hearsay would be final. So
/// the origin turns it into *unconfirmed* if the member's name is known, and the next round asks
/// the member itself. Every node does so with a refusal that cannot be final.
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

/// Make the excepted spans disjoint and sorted; a delegate may report them in any order. Adjoining
/// spans are not merged, since each has a head of its own.
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

/// Clip an exception to a span. A refusal speaks for one member only, so an exception of several
/// members becomes *unconfirmed* and names no peer.
fn clip<I: Id>(exception: &Exception<I>, span: Span) -> Exception<I> {
    let mut clipped = Exception { span, ..*exception };
    if exception.span.len() != 1 {
        clipped.state = State::Unconfirmed;
        clipped.peer = None;
    }
    clipped
}
