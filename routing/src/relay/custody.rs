//! Custody: the duties of this node, for own messages and for those of others.
//!
//! - A *duty* is one part of a message that this node answers for. It is open while delegates hold
//!   some of the part ([`delegator`]). It is finished once each member of the part has delivered or
//!   is an exception. Then each waiting delegator is told, and only the answer is remembered.
//! - Parts go only to higher positions in the order of their strategy, and routed steps never
//!   return to a visited rank. So no circle waits (`docs/relay.md`, *Why waiting ends*).
//! - A further copy with the same key ([`DutyKey`]) renews the duty, and makes no second one.
//! - Open duties for others are bounded by number, parts and bytes. A part beyond these bounds is
//!   refused as *busy*. A part for this node alone needs no room.
//!
//! A duty is taken out of its list while this module works on it. The origin learns from
//! [`Progress`] what became of its own messages.

mod delegation;
mod delegator;
mod duties;
mod duty;
mod exceptions;
mod flood;
mod intake;
mod progress;
mod release;
mod sender;
mod slow_peers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh_overlay::{Epoch, Id, Rank};

use super::context::Context;
use super::{Config, RelayStats};
use crate::packet::{CustodyRefusal, Errand, Message, Packet, PacketId, Reason, Signature, Span};
use crate::runs::Runs;
use delegator::Delegator;
use duties::Duties;
use duty::{Duty, DutyKey};

pub(super) use delegator::Done;
pub(super) use progress::{Progress, RoundEnd};
pub use slow_peers::SlowPeer;

/// The duties of a node, and the delegator that hands on their parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Custody<I> {
    duties: Duties<I>,
    /// The numbers of the duties for which the answer *custody* is delayed; at most
    /// `config.max_duties`.
    unreported: Vec<u64>,
    delegator: Delegator<I>,
}

/// One round of an own message, in the newest epoch.
#[derive(Debug)]
pub(super) struct Round<I> {
    /// The copy for all members; its part is the whole range.
    pub(super) packet: Packet<I>,
    /// The positions of the members that the round is for.
    pub(super) spans: Runs,
    /// The member that is meant at each distance. Empty if the round is for the holders of the
    /// ranks, by whatever name.
    pub(super) names: BTreeMap<u32, I>,
    /// The ranks in the epoch `stood_in` of the members in `names`, unless meant by name alone.
    pub(super) stood: BTreeMap<u32, Rank>,
    /// The epoch in which the origin counted these members; none if `stood` is empty.
    pub(super) stood_in: Option<Epoch<I>>,
    /// The round goes hop by hop, and not in the order of its strategy.
    pub(super) is_routed: bool,
}

/// The state of a delegate, as found when its timer fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DelegateState<I> {
    /// A doubtful verdict on this delegate is certain now.
    Down(I),
    /// This delegate does not answer this node.
    Silent(I),
}

impl<I: Id> Custody<I> {
    pub(super) const fn new(config: &Config) -> Self {
        Self {
            duties: Duties::new(),
            unreported: Vec::new(),
            delegator: Delegator::new(config),
        }
    }

    /// A delegate has taken custody of its part.
    pub(super) fn on_custody(
        &mut self,
        from: I,
        errand: &Errand<I>,
        pending: &[Span],
        cx: &mut Context<'_, I>,
    ) {
        for (number, delegation) in self.answered(from, errand) {
            self.with_duty(number, cx, |delegator, duty, cx| {
                delegator.on_custody(duty, delegation, &errand.part, pending, cx);
            });
        }
    }

    /// A delegate is done with its part.
    pub(super) fn on_done(
        &mut self,
        from: I,
        errand: &Errand<I>,
        done: Done<'_, I>,
        cx: &mut Context<'_, I>,
    ) {
        for (number, delegation) in self.answered(from, errand) {
            self.settle_with(number, cx, |delegator, duty, cx| {
                delegator.on_done(duty, delegation, &errand.part, done, cx);
            });
        }
    }

    /// A delegate refuses its part, for good or for now.
    pub(super) fn on_refused(
        &mut self,
        from: I,
        errand: &Errand<I>,
        reason: CustodyRefusal,
        cx: &mut Context<'_, I>,
    ) {
        for (number, delegation) in self.answered(from, errand) {
            self.settle_with(number, cx, |delegator, duty, cx| {
                delegator.on_refused(duty, delegation, reason, cx);
            });
        }
    }

    /// The timer of a delegation has fired, `late` after its time. Returns the state of the
    /// delegate if it became down or silent by this.
    pub(super) fn on_delegation_timer(
        &mut self,
        number: u64,
        delegation: u64,
        late: Duration,
        cx: &mut Context<'_, I>,
    ) -> Option<DelegateState<I>> {
        let duty = self.duties.get(number)?;
        let to = duty.delegations.get(&delegation).map(|handed| handed.to);
        let is_known = to.is_none_or(|to| cx.peers.is_silent(to) || cx.peers.is_down(to));
        self.settle_with(number, cx, |delegator, duty, cx| {
            delegator.on_timer(duty, delegation, late, cx);
        });
        match to.filter(|_| !is_known) {
            Some(to) if cx.peers.is_down(to) => Some(DelegateState::Down(to)),
            Some(to) if cx.peers.is_silent(to) => Some(DelegateState::Silent(to)),
            _ => None,
        }
    }

    /// Custody of short messages has been delayed long enough.
    pub(super) fn on_custody_timer(&mut self, cx: &mut Context<'_, I>) {
        for number in std::mem::take(&mut self.unreported) {
            self.with_duty(number, cx, |_, duty, cx| {
                if !duty.is_finished {
                    duty.report(cx.out);
                }
            });
        }
    }

    /// The transport has measured the round-trip time to a peer.
    pub(super) fn on_round_trip(&mut self, peer: I, time: Duration, config: &Config) {
        self.delegator
            .sender_mut()
            .on_round_trip(peer, time, config);
    }

    /// A peer does not answer: as far as the budget allows, go round it with each late part of one
    /// duty of which it has not taken custody.
    pub(super) fn go_round(&mut self, number: u64, peer: I, cx: &mut Context<'_, I>) {
        self.settle_with(number, cx, |delegator, duty, cx| {
            delegator.go_round_all(duty, peer, cx);
        });
    }

    /// A peer is down or has left: hand on the parts of one duty that it was given. The peer itself
    /// becomes an exception if it is the head of such a part.
    pub(super) fn bypass(&mut self, number: u64, peer: I, why: Reason, cx: &mut Context<'_, I>) {
        self.settle_with(number, cx, |delegator, duty, cx| {
            delegator.bypass(duty, peer, why, cx);
        });
    }

    /// A peer is up, perhaps as a new process. Ask about each part of which it took custody. A new
    /// process does not know the part, says so, and gets the copy again.
    pub(super) fn on_peer_up(&mut self, peer: I, cx: &mut Context<'_, I>) {
        for number in self.duties.open_numbers() {
            self.with_duty(number, cx, |delegator, duty, cx| {
                delegator.inquire_all(duty, peer, cx);
            });
        }
    }

    /// The link to a peer works again: send again at once the copies and offers that it has not
    /// answered.
    pub(super) fn on_writable(&mut self, peer: I, cx: &mut Context<'_, I>) {
        for number in self.duties.open_numbers() {
            self.with_duty(number, cx, |delegator, duty, cx| {
                delegator.hurry_all(duty, peer, cx);
            });
        }
    }

    /// Hand out one round of an own message in the newest epoch.
    pub(super) fn begin_round(&mut self, round: Round<I>, cx: &mut Context<'_, I>) {
        let errand = &round.packet.header.errand;
        let key = DutyKey {
            id: errand.id,
            epoch: errand.epoch,
            strategy: errand.strategy,
            is_flood: false,
            routed: None,
            named: None,
        };
        let population = cx.population_of(key.epoch);
        let number = self.duties.find(&key);
        let number = number.unwrap_or_else(|| self.delegator.number());
        self.forget(number, cx);
        let mut duty = Duty::of_packet(number, key, &round.packet, population, true);
        (duty.names, duty.stood, duty.stood_in) = (round.names, round.stood, round.stood_in);
        let spans = round.spans.spans();
        if round.is_routed {
            self.delegator.route(&mut duty, spans, 0, &[], cx);
        } else {
            for span in spans {
                self.delegator.assign(&mut duty, *span, 0, cx);
            }
        }
        self.settle(duty, cx);
    }

    /// An epoch is no longer kept: the parts that one of its duties has handed on become
    /// unconfirmed, and the duty is forgotten.
    pub(super) fn close(&mut self, number: u64, cx: &mut Context<'_, I>) {
        self.settle_with(number, cx, Delegator::withdraw_all);
        self.forget(number, cx);
    }

    /// Forget the duties of an origin's messages below its mark, except for kept messages. The
    /// origin does not answer for the others any more.
    pub(super) fn forget_below(&mut self, id: PacketId<I>, mark: u64, cx: &mut Context<'_, I>) {
        for number in self.duties.below(id, mark) {
            self.forget(number, cx);
        }
    }

    /// An own message has its receipt: forget its duties.
    pub(super) fn forget_message(&mut self, id: PacketId<I>, cx: &mut Context<'_, I>) {
        for number in self.duties.of_id(id) {
            self.forget(number, cx);
        }
    }

    /// Send the copies of an own message with this signature from now on.
    pub(super) fn sign(&mut self, id: PacketId<I>, signature: &Signature, cx: &mut Context<'_, I>) {
        for number in self.duties.of_id(id) {
            self.with_duty(number, cx, |_, duty, _| {
                if !duty.is_finished {
                    duty.signature = Some(signature.clone());
                }
            });
        }
    }

    /// An own message is issued again: allow one more try in each search budget.
    pub(super) fn grant_search(&mut self) {
        self.delegator.sender_mut().grant_search();
    }

    /// Whether a round of this message is open.
    pub(super) fn is_open(&self, id: PacketId<I>) -> bool {
        self.duties.is_open(id)
    }

    /// Whether no duty is open.
    pub(super) fn is_idle(&self) -> bool {
        self.duties.open_count() == 0
    }

    /// The numbers of the open duties.
    pub(super) fn open_numbers(&self) -> Vec<u64> {
        self.duties.open_numbers()
    }

    /// The numbers of the duties of an epoch.
    pub(super) fn of_epoch(&self, epoch: Epoch<I>) -> Vec<u64> {
        self.duties.of_epoch(epoch)
    }

    /// The origins of all messages with an open duty.
    pub(super) fn open_origins(&self) -> BTreeSet<I> {
        self.duties.open_origins()
    }

    /// The delegates of a duty, unless the duty is of this epoch.
    pub(super) fn delegates_but_in(&self, number: u64, epoch: Epoch<I>) -> Vec<I> {
        let duty = self.duties.get(number);
        let old = duty.filter(|duty| duty.key.epoch != epoch);
        let handed = old.into_iter().flat_map(|duty| duty.delegations.values());
        handed.map(|handed| handed.to).collect()
    }

    /// Bytes of payloads, names and signatures that duties for others hold.
    pub(super) fn bytes(&self) -> usize {
        self.duties.bytes()
    }

    /// Set the gauges of custody.
    pub(super) fn measure(&self, stats: &mut RelayStats) {
        stats.open_duties = self.duties.relayed_count();
        stats.delegations = self.duties.delegations();
        stats.duty_bytes = self.duties.bytes();
    }

    /// The pairs of duty and delegation that an answer is about.
    fn answered(&self, from: I, errand: &Errand<I>) -> Vec<(u64, u64)> {
        let of_message = self.duties.of_message(errand.id, errand.epoch).into_iter();
        let answered = |number| {
            let delegation = self.duties.get(number)?.answered(from, errand)?;
            Some((number, delegation))
        };
        of_message.filter_map(answered).collect()
    }

    /// Act on a duty, which is out of its list meanwhile. If the duty does not exist, nothing
    /// happens.
    fn with_duty(
        &mut self,
        number: u64,
        cx: &mut Context<'_, I>,
        act: impl FnOnce(&mut Delegator<I>, &mut Duty<I>, &mut Context<'_, I>),
    ) {
        if let Some(mut duty) = self.duties.take(number) {
            act(&mut self.delegator, &mut duty, cx);
            self.duties.put(duty, cx.config);
        }
    }

    /// Act on a duty as [`Self::with_duty`] does, and settle it then.
    fn settle_with(
        &mut self,
        number: u64,
        cx: &mut Context<'_, I>,
        act: impl FnOnce(&mut Delegator<I>, &mut Duty<I>, &mut Context<'_, I>),
    ) {
        if let Some(mut duty) = self.duties.take(number) {
            act(&mut self.delegator, &mut duty, cx);
            self.settle(duty, cx);
        }
    }

    /// Finish a duty if no part of it is handed on any more, and say done to the waiting
    /// delegators.
    fn settle(&mut self, mut duty: Box<Duty<I>>, cx: &mut Context<'_, I>) {
        if !duty.delegations.is_empty() {
            return self.duties.put(duty, cx.config);
        }
        let has_ended = !duty.is_finished;
        duty.is_finished = true;
        duty.payloads.clear();
        duty.signature = None;
        duty.names.clear();
        duty.stood.clear();
        for (waiter, errand) in std::mem::take(&mut duty.waiters) {
            let done = Message::Done {
                errand: duty.answer_to(&errand),
                exceptions: duty.exceptions.as_slice().to_vec(),
                redelegated: duty.redelegated,
                replaced: duty.replaced.iter().copied().collect(),
            };
            cx.out.send(waiter, done);
        }
        if has_ended && duty.is_own {
            cx.progress.push(Progress::round_done(&duty));
        }
        self.duties.put(duty, cx.config);
    }

    /// Forget a duty, its timers, and its copies on their way.
    fn forget(&mut self, number: u64, cx: &mut Context<'_, I>) {
        let Some(duty) = self.duties.forget(number) else {
            return;
        };
        for (delegation, handed) in &duty.delegations {
            self.delegator
                .sender_mut()
                .on_answer(handed.to, *delegation);
            cx.out.disarm(sender::timer(&duty, *delegation));
        }
    }
}
