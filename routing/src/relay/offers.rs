//! Offers: nobody is sent a second copy unasked.
//!
//! The transitions are those of [`Phase`].

use binomesh_overlay::Id;

use super::duty::{Copies, Delegation, Duty, Phase};
use super::{Effects, Relay};
use crate::packet::Part;

impl<I: Id> Relay<I> {
    /// Who was asked has not got it. It is sent a copy; at once, unless it says so late, or
    /// a copy was sent already, which a question overtakes.
    pub(super) fn on_lacking(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        delegation: u64,
        out: &mut Effects<I>,
    ) {
        let Some(handed) = duty.delegations.get_mut(&delegation) else {
            return;
        };
        let may_come = handed.copies == Copies::Sent || handed.generation > 0;
        let is_late = handed.attempts > handed.asked_at;
        if handed.phase == Phase::Offered && is_late && may_come {
            handed.phase = Phase::Lacking;
            return self.await_custody(number, duty, delegation, out);
        }
        self.send_now(number, duty, delegation, out);
    }

    /// No more is asked: it is sent a copy.
    pub(super) fn send_now(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        delegation: u64,
        out: &mut Effects<I>,
    ) {
        let Some(handed) = duty.delegations.get_mut(&delegation) else {
            return;
        };
        handed.phase = Phase::Sent;
        match handed.copies {
            Copies::None => self.send_first(number, duty, delegation, out),
            // One that was held has had its turn already.
            Copies::Held | Copies::Sent => self.send(number, duty, delegation, out),
        }
    }

    /// Custody came late, but before anybody was sent what was taken from this delegate
    /// meanwhile: it was offered, or held back. So it answers for that again.
    pub(super) fn give_back(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        (delegation, said): (u64, &Part),
        out: &mut Effects<I>,
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
        self.stats.given_back += 1;
        let mut pending = Vec::new();
        for other in others {
            if let Some(other) = self.withdraw_delegation(number, duty, other, out) {
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

    /// Ask whether it has come, since it may only be the answer that is missing or late;
    /// who says no gets it once more.
    pub(super) fn repeat(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        delegation: u64,
        to: I,
        out: &mut Effects<I>,
    ) {
        if let Some(handed) = duty.delegations.get_mut(&delegation)
            && handed.to == to
        {
            handed.phase = Phase::Offered;
        }
        self.stats.retries += 1;
        self.send(number, duty, delegation, out);
        self.report(duty, out);
    }

    /// Once more, and not when the timer fires: who has said no gets its copy, and who was
    /// asked is asked as if for the first time.
    pub(super) fn hurry(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        delegation: u64,
        out: &mut Effects<I>,
    ) {
        match duty.delegations.get_mut(&delegation) {
            Some(handed) if handed.phase == Phase::Lacking => {
                self.send_now(number, duty, delegation, out);
            }
            Some(handed) => {
                handed.asked_at = handed.attempts;
                self.send(number, duty, delegation, out);
            }
            None => {}
        }
    }
}
