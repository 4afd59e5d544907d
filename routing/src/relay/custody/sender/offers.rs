//! Offers: a peer is sent a second copy only if it says that it has none, or when its link has come
//! up again.
//!
//! [`Phase`] shows the transitions.

use binomesh_overlay::Id;

use super::Sender;
use crate::packet::Part;
use crate::relay::context::Context;
use crate::relay::custody::delegation::{Copies, Delegation, Phase};
use crate::relay::custody::duty::Duty;

impl<I: Id> Sender<I> {
    /// A delegate says that it has no copy. The delegate is sent one at once, with one exception:
    /// its answer to an offer came late, and an earlier copy, or one by another way, may be as
    /// late. Then the delegate is sent a copy when the timer fires again or its link works again.
    pub(in crate::relay::custody) fn on_lacking(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        cx: &mut Context<'_, I>,
    ) {
        let Some(handed) = duty.delegations.get_mut(&delegation) else {
            return;
        };
        let may_come = handed.copies == Copies::Sent || handed.generation > 0;
        let is_late = handed.attempts > handed.asked_at;
        if handed.phase == Phase::Offered && is_late && may_come {
            handed.phase = Phase::Lacking;
            return self.await_custody(duty, delegation, cx);
        }
        self.send_now(duty, delegation, cx);
    }

    /// Send a copy without a further question.
    pub(in crate::relay::custody) fn send_now(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        cx: &mut Context<'_, I>,
    ) {
        let Some(handed) = duty.delegations.get_mut(&delegation) else {
            return;
        };
        handed.phase = Phase::Sent;
        match handed.copies {
            Copies::None => self.send_first(duty, delegation, cx),
            // A copy that was held has waited once, and does not queue again.
            Copies::Held | Copies::Sent => self.send(duty, delegation, cx),
        }
    }

    /// Custody came late, but before other peers were sent the parts that were taken from this
    /// delegate meanwhile: these were only offered or held. So the delegate answers for them again.
    pub(in crate::relay::custody) fn give_back(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        said: &Part,
        cx: &mut Context<'_, I>,
    ) {
        let handed = duty.delegations.get(&delegation);
        let (Some(handed), Part::Range(said)) = (handed, said) else {
            return;
        };
        let given = handed.given().clip(*said);
        if handed.part == Part::Range(given) {
            return;
        }
        let is_of_it = |other: &Delegation<I>| {
            let spans = other.part.spans().iter();
            spans.copied().any(|span| !span.clip(given).is_empty())
        };
        let mut others = Vec::new();
        for (number, other) in &duty.delegations {
            if *number != delegation && is_of_it(other) {
                let mut spans = other.part.spans().iter();
                let is_held = !other.phase.has_custody() && other.copies != Copies::Sent;
                if !is_held || !spans.all(|span| given.covers(*span)) {
                    return;
                }
                others.push(*number);
            }
        }
        if others.is_empty() {
            return;
        }
        cx.stats.given_back += 1;
        let mut pending = Vec::new();
        for other in others {
            if let Some(other) = self.withdraw(duty, other, cx.out) {
                pending.extend_from_slice(other.pending.spans());
            }
        }
        if let Some(handed) = duty.delegations.get_mut(&delegation) {
            handed.part = Part::Range(given);
            for span in pending {
                handed.pending.insert(span);
            }
        }
    }

    /// Offer the copy again, since only the answer may be missing or late, and tell the delegators
    /// of the duty which members are pending. If the delegate says no, it is sent the copy once
    /// more.
    pub(in crate::relay::custody) fn repeat(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        to: I,
        cx: &mut Context<'_, I>,
    ) {
        if let Some(handed) = duty.delegations.get_mut(&delegation)
            && handed.to == to
        {
            handed.phase = Phase::Offered;
        }
        cx.stats.retries += 1;
        self.send(duty, delegation, cx);
        duty.report(cx.out);
    }

    /// Try a delegate without custody again now, and not when its timer fires. If the delegate has
    /// said no to an offer, or was sent a copy, it is sent a copy. If it was asked, it is asked
    /// again, and its next answer counts as in time.
    pub(in crate::relay::custody) fn hurry(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        cx: &mut Context<'_, I>,
    ) {
        match duty.delegations.get_mut(&delegation) {
            Some(handed) if handed.phase == Phase::Lacking => {
                self.send_now(duty, delegation, cx);
            }
            Some(handed) => {
                handed.asked_at = handed.attempts;
                self.send(duty, delegation, cx);
            }
            None => {}
        }
    }
}
