//! How own messages end: when no member is waited for any more, and the receipt.

use std::time::Duration;

use binomesh_overlay::Id;

use super::{Origin, is_between_rounds};
use crate::packet::{Reason, State};
use crate::relay::context::Context;
use crate::relay::custody::Custody;
use crate::relay::{Config, Event, Timer};

impl<I: Id> Origin<I> {
    /// The set of lost members may have grown: end the messages that wait for lost members alone.
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

    /// Settle all outstanding members of a message if each is lost: it has left, or has been called
    /// down or draining for longer than `down_patience`. Under pressure `down_pressed` is enough,
    /// and so it is for members that are called down if the message `is_soon`. Once the wait
    /// between rounds is the longest, the word of a delegate is enough: that a member without a
    /// known name has gone, or that a member drains or has no room. While this node drains, a
    /// draining member is lost at once. A message that is to be kept is kept for these members
    /// instead.
    pub(super) fn give_up_the_lost(&mut self, sequence: u64, cx: &mut Context<'_, I>) {
        self.heed_names(sequence, cx);
        let Some(message) = self.open.get(sequence) else {
            return;
        };
        if message.keeps {
            return self.keep_for_the_lost(sequence, cx);
        }
        // This node has no verdict on a member without a known name. At the longest wait it
        // believes its delegates about such a member.
        let may_hear = message.wait >= Config::REISSUE_CAP;
        // This node does not believe them if it knows better: a delegate may have spoken of an
        // epoch without that member.
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

    /// Emit the receipt if no member is outstanding, or issue the message again after a wait.
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

    /// Emit the receipt if no member is outstanding. Returns whether that was so.
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

    /// Names may have become known since the last round. A member that was given up for lack of its
    /// name is tried again. The receipt of a broadcast has no line for a member that had left when
    /// the broadcast was accepted, unless the broadcast was to be kept, and none for a member that
    /// it spares.
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

    /// The deadline of an own message has come: emit its receipt, with the outstanding members
    /// unconfirmed.
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
        if self
            .open
            .get(sequence)
            .is_some_and(|open| open.awaits_roster)
        {
            // The message still lists all awaited peers, even those that are members.
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
        // A publisher that found no room may have given up, so the pressure ends unless room is
        // scarce.
        cx.peers.ease(self.is_scarce(cx.config));
        cx.out.event(Event::Receipt(Box::new(receipt)));
        self.wake(next, custody, cx);
    }
}
