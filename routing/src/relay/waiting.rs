//! Own broadcasts that wait for a complete roster before anybody gets them.
//!
//! A member that is known by its rank alone cannot be found again once its
//! epoch is gone. So a broadcast is issued in an epoch whose members are all
//! known by name, if that can be had: until then it belongs to no epoch for
//! good and moves on to each new one. Those that wait are open messages, so the
//! window and the memory bound of open messages bound them.

use binomesh_overlay::Id;

use super::{Effects, Relay, Timer};

impl<I: Id> Relay<I> {
    /// Whether the newest roster is incomplete and may yet become complete.
    pub(super) fn has_to_wait(&self) -> bool {
        let roster = self.epochs.newest().map(|view| view.roster());
        let may_grow = roster.is_some_and(|roster| roster.is_kept() && !roster.is_complete());
        may_grow && !self.is_impatient
    }

    pub(super) fn wait_for_roster(&mut self, sequence: u64, out: &mut Effects<I>) {
        if self.open.waiting().is_empty() {
            out.arm(Timer::Waiting, self.config.roster_wait);
        }
        if let Some(message) = self.open.get_mut(sequence) {
            message.is_waiting = true;
            self.stats.waited += 1;
        }
    }

    /// Another epoch is the newest: what waits belongs to it. The timer runs on,
    /// so that no sequence of short epochs keeps a message for ever.
    pub(super) fn move_waiting(&mut self, out: &mut Effects<I>) {
        self.is_impatient = false;
        let Some(placement) = self.epochs.newest().map(|view| view.placement()) else {
            return;
        };
        for sequence in self.open.waiting() {
            if let Some(message) = self.open.get_mut(sequence) {
                message.rebase(placement);
            }
        }
        self.release_waiting(out);
    }

    /// Issue what waits unless it has to wait on.
    pub(super) fn release_waiting(&mut self, out: &mut Effects<I>) {
        let waiting = self.open.waiting();
        if waiting.is_empty() || self.has_to_wait() {
            return;
        }
        out.disarm(Timer::Waiting);
        for sequence in waiting {
            let Some(message) = self.open.get_mut(sequence) else {
                continue;
            };
            message.is_waiting = false;
            self.issue_to_all(sequence, out);
        }
    }

    /// The roster does not become complete: members whose names nobody tells
    /// must not keep the others from getting anything.
    pub(super) fn on_waiting_timer(&mut self, out: &mut Effects<I>) {
        let waiting = self.open.waiting();
        if !waiting.is_empty() {
            self.is_impatient = true;
            self.stats.waited_in_vain += waiting.len() as u64;
            self.release_waiting(out);
        }
    }
}
