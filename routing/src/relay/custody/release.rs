//! Sending held copies, when there is room for them or their turn has come.

use binomesh_overlay::Id;

use super::Custody;
use super::sender::Copied;
use crate::relay::context::Context;

impl<I: Id> Custody<I> {
    /// Send the held copies for which there is room now. All duties have to be in their list
    /// meanwhile.
    pub(in crate::relay) fn release(&mut self, cx: &mut Context<'_, I>) {
        while let Some(peer) = self.delegator.sender_mut().pop_freed() {
            self.release_to(peer, cx);
        }
        while let Some((peer, copy)) = self.delegator.sender_mut().next_turn(cx.config) {
            if self.is_awaited(peer, copy) {
                self.release_copy(peer, copy, cx);
            } else {
                self.delegator.sender_mut().drop_turn(peer, copy);
            }
        }
    }

    fn release_to(&mut self, peer: I, cx: &mut Context<'_, I>) {
        while let Some((copy, has_room)) = self.delegator.sender().front(peer, cx.config) {
            let is_wanted = self.is_awaited(peer, copy);
            if is_wanted && !has_room {
                return;
            }
            self.delegator.sender_mut().pop_front(peer);
            if is_wanted {
                self.release_copy(peer, copy, cx);
            }
        }
    }

    fn release_copy(&mut self, peer: I, copy: Copied, cx: &mut Context<'_, I>) {
        self.with_duty(copy.duty, cx, |delegator, duty, cx| {
            delegator.sender_mut().send_held(duty, peer, copy, cx);
        });
    }

    /// Whether a held copy is still to be sent.
    fn is_awaited(&self, peer: I, copy: Copied) -> bool {
        let duty = self.duties.get(copy.duty);
        let handed = duty.and_then(|duty| duty.delegations.get(&copy.delegation));
        handed.is_some_and(|handed| handed.to == peer && handed.is_waiting())
    }
}
