//! Own broadcasts that wait for a complete roster before any member gets them.
//!
//! A member that is known by its rank alone cannot be found again once its epoch is gone. So a
//! broadcast is issued, if possible, in an epoch whose members are all known by name. Until then it
//! belongs to no epoch for good and moves on to each new one. Waiting broadcasts are open messages.
//! So the window and the memory bound of open messages bound them.

use binomesh_overlay::Id;

use super::Origin;
use crate::relay::Timer;
use crate::relay::context::Context;
use crate::relay::custody::Custody;

impl<I: Id> Origin<I> {
    /// Whether broadcasts wait for the newest roster: it is incomplete, and may yet become complete
    /// in time.
    pub(super) fn has_to_wait(&self, cx: &Context<'_, I>) -> bool {
        let roster = cx.epochs.newest().map(|view| view.roster());
        let may_grow = roster.is_some_and(|roster| roster.is_tracked() && !roster.is_complete());
        may_grow && !self.is_impatient
    }

    pub(super) fn wait_for_roster(&mut self, sequence: u64, cx: &mut Context<'_, I>) {
        if self.open.awaiting_roster().is_empty() {
            cx.out.arm(Timer::Waiting, cx.config.roster_wait);
        }
        if let Some(message) = self.open.get_mut(sequence) {
            message.awaits_roster = true;
            cx.stats.waited += 1;
        }
    }

    /// Another epoch is the newest: the waiting broadcasts belong to it now. The timer runs on, so
    /// that no sequence of short epochs holds a message back for ever.
    pub(in crate::relay) fn move_waiting(
        &mut self,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        self.is_impatient = false;
        let Some(placement) = cx.epochs.newest().map(|view| view.placement()) else {
            return;
        };
        for sequence in self.open.awaiting_roster() {
            if let Some(message) = self.open.get_mut(sequence) {
                message.rebase(placement);
            }
        }
        self.release_waiting(custody, cx);
    }

    /// Issue the waiting broadcasts, unless they still have to wait.
    pub(in crate::relay) fn release_waiting(
        &mut self,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        let waiting = self.open.awaiting_roster();
        if waiting.is_empty() || self.has_to_wait(cx) {
            return;
        }
        cx.out.disarm(Timer::Waiting);
        for sequence in waiting {
            let Some(message) = self.open.get_mut(sequence) else {
                continue;
            };
            message.awaits_roster = false;
            self.issue_to_all(sequence, custody, cx);
        }
    }

    /// The roster does not become complete: issue the waiting broadcasts all the same. Members
    /// whose names are not told must not keep the messages from the others.
    pub(in crate::relay) fn on_waiting_timer(
        &mut self,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        let waiting = self.open.awaiting_roster();
        if !waiting.is_empty() {
            self.is_impatient = true;
            cx.stats.waited_in_vain += waiting.len() as u64;
            self.release_waiting(custody, cx);
        }
    }
}
