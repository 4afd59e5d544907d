//! How own messages end: when nobody is waited for any more, and the receipt.

use std::time::Duration;

use binomesh_overlay::Id;

use super::{Origin, is_between_rounds};
use crate::packet::{Reason, State};
use crate::relay::context::Context;
use crate::relay::custody::Custody;
use crate::relay::{Event, Timer};

impl<I: Id> Origin<I> {
    /// A verdict has stood for long: who waits for the lost alone waits no more.
    pub(in crate::relay) fn conclude_the_lost(
        &mut self,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        for sequence in self.open.sequences() {
            let message = self.open.get(sequence);
            if message.is_some_and(|message| is_between_rounds(message, custody)) {
                self.give_up_the_lost(sequence, cx);
                self.conclude_if_settled(sequence, custody, cx);
            }
        }
    }

    /// If nobody is left but members that have been called down for longer than
    /// `down_patience`, or `down_pressed` under pressure, no further try, unless the
    /// message is kept for them.
    pub(super) fn give_up_the_lost(&mut self, sequence: u64, cx: &mut Context<'_, I>) {
        self.heed_names(sequence, cx);
        let Some(message) = self.open.get(sequence) else {
            return;
        };
        if message.keeps {
            return self.keep_for_the_lost(sequence, cx);
        }
        // Whom I cannot name I have no verdict on; after the longest wait I take
        // my delegates' word for it.
        let may_hear = message.wait >= cx.config.reissue_cap;
        // Unless I know better: a delegate may have said so in an epoch without that member.
        let newest = cx.epochs.newest();
        let is_back = |peer: I| {
            let is_member = newest.is_some_and(|newest| newest.rank_of(peer).is_some());
            is_member && !cx.peers.is_down(peer)
        };
        let mut lost = Vec::new();
        for at in message.outstanding().iter() {
            let peer = message.peer_at(at, cx.epochs);
            let doubt = message.doubt_about(at);
            let heard = doubt.map(|doubt| (doubt.reason, doubt.peer));
            lost.push(match (peer, heard) {
                (Some(peer), _) if cx.peers.is_lost_to(peer, message.is_soon) => {
                    (at, Some(peer), State::Unconfirmed, cx.peers.loss(peer))
                }
                (None, Some((reason @ (Reason::Down | Reason::Left), peer)))
                    if may_hear && !peer.is_some_and(is_back) =>
                {
                    (at, peer, State::Unconfirmed, reason)
                }
                // Two members that leave do not wait for each other.
                (peer, Some((Reason::Draining, named)))
                    if may_hear
                        || cx.is_draining
                        || peer.is_some_and(|peer| cx.peers.is_drained(peer)) =>
                {
                    let peer = peer.or(named);
                    (at, peer, State::Unconfirmed, Reason::Draining)
                }
                (peer, Some((Reason::Full, named))) if may_hear => {
                    (at, peer.or(named), State::Refused, Reason::Full)
                }
                _ => return,
            });
        }
        let Some(message) = self.open.get_mut(sequence) else {
            return;
        };
        for (at, peer, state, reason) in lost {
            message.settle(at, peer, state, reason);
        }
    }

    /// Emit the receipt if nobody is left, or issue what is left again after a wait.
    pub(super) fn conclude_or_wait(
        &mut self,
        sequence: u64,
        wait: Duration,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        if !self.conclude_if_settled(sequence, custody, cx) {
            cx.out.arm(Timer::Reissue(sequence), wait);
        }
    }

    /// Emit the receipt if nobody is left; whether that was so.
    fn conclude_if_settled(
        &mut self,
        sequence: u64,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) -> bool {
        let message = self.open.get(sequence);
        let is_settled = message.is_some_and(|message| message.outstanding().is_empty());
        if is_settled {
            self.conclude(sequence, None, custody, cx);
        }
        is_settled
    }

    /// Names may have become known since the last round. A member that was given up for
    /// want of its name is tried again. A broadcast has no line for a member that had left
    /// when it was accepted, unless it was to be kept for that member's next life.
    pub(super) fn heed_names(&mut self, sequence: u64, cx: &mut Context<'_, I>) {
        let Some(message) = self.open.get_mut(sequence) else {
            return;
        };
        message.recall_the_named(cx.epochs);
        message.excuse_the_spared(cx.epochs);
        let is_for_these = !message.is_for_all() || message.lists_departed;
        if is_for_these || cx.peers.gone().next().is_none() {
            return;
        }
        for at in message.outstanding().iter() {
            let peer = message.peer_at(at, cx.epochs);
            if peer.is_some_and(|peer| cx.peers.was_gone(peer, sequence)) {
                message.excuse(at);
                cx.stats.excused += 1;
            }
        }
    }

    /// An own message has run out of time: its receipt comes now, with the rest unconfirmed.
    pub(in crate::relay) fn on_deadline(
        &mut self,
        sequence: u64,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        self.conclude(sequence, Some(Reason::Deadline), custody, cx);
    }

    /// Emit the receipt and forget the message.
    pub(super) fn conclude(
        &mut self,
        sequence: u64,
        reason: Option<Reason>,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        if self.open.get(sequence).is_some_and(|open| open.is_waiting) {
            // It names the inventory yet, members or not.
            self.await_the_absent(sequence, cx);
        }
        self.heed_names(sequence, cx);
        let Some((message, next)) = self.open.close(sequence) else {
            return;
        };
        cx.out.disarm(Timer::Reissue(sequence));
        cx.out.disarm(Timer::Deadline(sequence));
        custody.forget_message(message.id, cx);
        cx.stats.receipts += message.payloads.count();
        let receipt = message.receipt(reason, cx.epochs);
        // Whoever was refused may have given up.
        cx.peers.ease(self.is_scarce(cx.config));
        cx.out.event(Event::Receipt(Box::new(receipt)));
        self.wake(next, custody, cx);
    }
}
