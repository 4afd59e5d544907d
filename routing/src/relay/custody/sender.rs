//! Sending copies and questions at their turns, and waiting for the answers.
//!
//! - A first copy is sent when there is room on the way to its peer ([`flow`]). A copy with a turn
//!   is sent when its turn comes ([`uplink`]). Until then the copy is held.
//! - Each delegation has one timer. Until custody comes, it is armed for the time that the peer
//!   usually takes ([`pace`]).
//! - A second copy is offered first, and sent if the peer says that it has none (`offers`). After a
//!   link has come up again, copies without an answer are sent again unasked.
//! - Every copy sent earns a share of a further try for parts that are late or lost ([`budget`]).

mod budget;
mod flow;
mod offers;
mod pace;
mod uplink;

use std::time::Duration;

use binomesh_overlay::Id;

use super::delegation::{Copies, Delegation, Phase};
use super::duty::Duty;
use crate::packet::{Message, Part, Span};
use crate::relay::context::Context;
use crate::relay::{Config, Effects, Timer};
use budget::Budget;
use flow::Flow;
use pace::Pace;
use uplink::Uplink;

pub(super) use flow::Copied;
pub(super) use uplink::Turn;

/// A copy with a turn is late once its timer has fired this many times without an answer to any
/// copy since the time before. A guess: on the slowest uplinks one copy takes as long as one timer.
/// If this is too small, parts are re-delegated whose copies only wait in a queue.
const QUIET_LOOKS: u32 = 3;

/// Copies on their way, the pace of each peer, and the budgets for further tries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sender<I> {
    flow: Flow<I>,
    uplink: Uplink<I>,
    pace: Pace<I>,
    /// The budget for re-delegations of late parts.
    redelegations: Budget,
    /// The budget for further hops of routed parts.
    searches: Budget,
    /// The budget for parts behind a rank to which no way is found.
    skips: Budget,
}

impl<I: Id> Sender<I> {
    pub(super) const fn new(config: &Config) -> Self {
        let searches = Budget::full(config.search_burst, config.search_percent);
        Self {
            flow: Flow::new(),
            uplink: Uplink::new(),
            pace: Pace::new(),
            redelegations: Budget::full(Config::REDELEGATION_BURST, Config::REDELEGATION_PERCENT),
            skips: Budget::full(config.search_burst, config.search_percent),
            searches,
        }
    }

    /// Send the first copy of a delegation, or offer it. The copy is sent now, or when there is
    /// room on the way to its peer, or when its turn comes.
    pub(super) fn send_first(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        cx: &mut Context<'_, I>,
    ) {
        let copy = Copied::of(duty, delegation);
        let handed = duty.delegations.get_mut(&delegation);
        let Some(handed) = handed.filter(|handed| handed.phase == Phase::Sent) else {
            return self.send(duty, delegation, cx);
        };
        let to = handed.to;
        let turn = duty.turn(delegation);
        let goes = match turn {
            None => self.flow.admit(to, copy, cx.config),
            Some(turn) => {
                let goes = self.uplink.admit(to, copy, turn, cx.config);
                if goes {
                    self.flow.force(to, copy, cx.config);
                }
                goes
            }
        };
        if goes {
            cx.stats.unpaced += u64::from(turn.is_some() && self.uplink.is_full());
            return self.send_copy(duty, delegation, cx);
        }
        let before = self.answers_before(duty, to);
        if let Some(handed) = duty.delegations.get_mut(&delegation) {
            handed.copies = Copies::Held;
            handed.answers = before;
        }
        cx.stats.held_back += 1;
        self.await_custody(duty, delegation, cx);
    }

    /// Send the copy of a delegation, or offer it, and wait for custody.
    pub(super) fn send(&mut self, duty: &mut Duty<I>, delegation: u64, cx: &mut Context<'_, I>) {
        let Some(handed) = duty.delegations.get(&delegation) else {
            return;
        };
        if handed.phase.is_offer() {
            cx.out.send(handed.to, duty.question_for(handed));
            self.await_custody(duty, delegation, cx);
        } else {
            let copy = Copied::of(duty, delegation);
            self.flow.force(handed.to, copy, cx.config);
            self.send_copy(duty, delegation, cx);
        }
    }

    fn send_copy(&mut self, duty: &mut Duty<I>, delegation: u64, cx: &mut Context<'_, I>) {
        if let Some(handed) = duty.delegations.get_mut(&delegation) {
            handed.copies = Copies::Sent;
            handed.answers = self.uplink.answers();
        }
        if let Some(handed) = duty.delegations.get(&delegation) {
            cx.stats.packets_sent += 1;
            self.redelegations.earn();
            // Copies of routed parts, which are steps of a search, earn no further step. Otherwise
            // ranks that nobody holds would keep all nodes searching for each other.
            if matches!(handed.part, Part::Range(_)) {
                self.searches.earn();
                self.skips.earn();
            }
            let packet = Box::new(duty.packet_for(handed));
            cx.out.send(handed.to, Message::Packet(packet));
        }
        self.await_custody(duty, delegation, cx);
    }

    /// Send a held copy: there is room for it, or its turn has come.
    pub(super) fn send_held(
        &mut self,
        duty: &mut Duty<I>,
        peer: I,
        copy: Copied,
        cx: &mut Context<'_, I>,
    ) {
        self.flow.force(peer, copy, cx.config);
        self.send_copy(duty, copy.delegation, cx);
    }

    /// Ask a delegate about a part of which it took custody.
    pub(super) fn inquire(&self, duty: &mut Duty<I>, delegation: u64, cx: &mut Context<'_, I>) {
        let Some(handed) = duty.delegations.get_mut(&delegation) else {
            return;
        };
        let wait = Config::INQUIRE_AFTER * (1 << handed.attempts.min(3));
        handed.attempts = handed.attempts.saturating_add(1);
        handed.unanswered = handed.unanswered.saturating_add(1);
        handed.phase = Phase::Asked;
        if let Some(handed) = duty.delegations.get(&delegation) {
            cx.out.send(handed.to, duty.question_for(handed));
        }
        arm(duty, delegation, wait, cx.out);
    }

    /// Reduce a delegation to the head of its span: the rest is not wanted from this delegate any
    /// more.
    pub(super) fn keep_head(
        &self,
        duty: &mut Duty<I>,
        delegation: u64,
        span: Span,
        cx: &mut Context<'_, I>,
    ) {
        if let Some(handed) = duty.delegations.get_mut(&delegation) {
            handed.part = Part::Range(Span::single(span.start));
            handed.pending.remove(Span::new(span.start + 1, span.end));
            if handed.copies == Copies::Held {
                handed.sent_end = span.start + 1;
            }
            self.await_custody(duty, delegation, cx);
        }
    }

    /// Arm the timer for custody. The wait doubles with every attempt and re-delegation. A copy
    /// adds its own transfer time and that of the copies before it; a held copy adds the latter
    /// alone.
    pub(super) fn await_custody(&self, duty: &Duty<I>, delegation: u64, cx: &mut Context<'_, I>) {
        let Some(handed) = duty.delegations.get(&delegation) else {
            return;
        };
        let config = cx.config;
        // An offer costs nearly nothing, so the last re-delegation does not double its wait: the
        // next heir is asked as soon as the first one was.
        let is_offer = handed.phase.is_offer();
        let generation = handed.generation.saturating_sub(u32::from(is_offer));
        let doublings = handed.attempts.saturating_add(generation);
        let mut wait = self.pace.wait(handed.to, doublings);
        let bytes = duty.payloads.len();
        if bytes <= Config::SHORT_PAYLOAD {
            wait += config.custody_delay;
        }
        if !is_offer {
            let own = if handed.copies == Copies::Held {
                0
            } else {
                bytes
            };
            wait += self.flow.transfer(handed.to, own, config);
            if duty.key.strategy.has_rounds() {
                // Other copies queue in front of this copy, and of its answer.
                wait += Config::INQUIRE_AFTER;
            }
        }
        arm(duty, delegation, wait, cx.out);
    }

    /// Custody has come for the first time: wait for done now.
    pub(super) fn await_done(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        cx: &mut Context<'_, I>,
    ) {
        if let Some(handed) = duty.delegations.get_mut(&delegation) {
            if handed.attempts == 0 && !handed.is_excused {
                self.pace.on_time(handed.to);
            }
            handed.attempts = 0;
            handed.is_excused = false;
            arm(duty, delegation, Config::INQUIRE_AFTER, cx.out);
        }
    }

    /// A copy has been answered, or its answer is not wanted any more.
    pub(super) fn on_answer(&mut self, peer: I, delegation: u64) {
        self.uplink.on_answer(peer, delegation);
        self.flow.on_answer(peer, delegation);
    }

    /// Done has come. If it came in time and without custody before, it counts for the pace of the
    /// peer.
    pub(super) fn on_done(&mut self, handed: &Delegation<I>) {
        if handed.phase == Phase::Sent && handed.attempts == 0 && !handed.is_excused {
            self.pace.on_time(handed.to);
        }
    }

    /// Custody of a delegation did not come in time.
    pub(super) fn on_late(&mut self, handed: &mut Delegation<I>, delegation: u64, config: &Config) {
        if handed.attempts == 0 && handed.copies != Copies::Held {
            self.pace.on_late(handed.to, handed.first_wait, config);
        }
        handed.attempts = handed.attempts.saturating_add(1);
        if handed.copies == Copies::Sent {
            self.uplink.on_late(handed.to, delegation, config);
        }
    }

    /// The transport has measured the round-trip time to a peer.
    pub(super) fn on_round_trip(&mut self, peer: I, time: Duration, config: &Config) {
        self.pace.on_round_trip(peer, time, config);
    }

    /// Take a delegation out of its duty, and disarm its timer.
    pub(super) fn withdraw(
        &mut self,
        duty: &mut Duty<I>,
        delegation: u64,
        out: &mut Effects<I>,
    ) -> Option<Delegation<I>> {
        let handed = duty.delegations.remove(&delegation)?;
        self.on_answer(handed.to, delegation);
        out.disarm(timer(duty, delegation));
        Some(handed)
    }

    /// Look at a copy with a turn whose answer is not there in time. Returns whether the copy may
    /// only be waiting behind others: other copies are being answered, and too few were answered so
    /// far for its own answer to be overdue.
    pub(super) fn is_in_queue(&self, duty: &mut Duty<I>, delegation: u64, config: &Config) -> bool {
        let has_rounds = duty.key.strategy.has_rounds();
        let handed = duty.delegations.get_mut(&delegation);
        let is_first = |handed: &&mut Delegation<I>| {
            handed.copies == Copies::Sent && handed.phase == Phase::Sent && handed.attempts == 0
        };
        let Some(handed) = handed.filter(is_first).filter(|_| has_rounds) else {
            return false;
        };
        let answers = self.uplink.answers();
        match answers.saturating_sub(handed.answers) {
            0 => handed.quiet_looks += 1,
            some => handed.overtaken += some,
        }
        handed.answers = answers;
        let most = 2 * config.uplink_copies as u64;
        handed.quiet_looks < QUIET_LOOKS && handed.overtaken < most
    }

    /// Whether a late part may be re-delegated now. If so, the try is paid for.
    pub(super) fn may_redelegate(&mut self) -> bool {
        self.redelegations.take()
    }

    /// Whether one more hop may be tried now. If so, the try is paid for.
    pub(super) fn may_search(&mut self) -> bool {
        self.searches.take()
    }

    /// Whether a rank may be skipped now, for the ranks behind it. If so, the try is paid for.
    pub(super) fn may_skip(&mut self) -> bool {
        self.skips.take()
    }

    /// An own message is issued again: allow one more try in each search budget.
    pub(super) fn grant_search(&mut self) {
        self.searches.grant();
        self.skips.grant();
    }

    /// A peer to which held copies may go now, since it has answered others.
    pub(super) fn pop_freed(&mut self) -> Option<I> {
        self.flow.pop_freed()
    }

    /// The first held copy for a peer, and whether there is room for it.
    pub(super) fn front(&self, peer: I, config: &Config) -> Option<(Copied, bool)> {
        self.flow.front(peer, config)
    }

    /// Remove the first held copy for a peer.
    pub(super) fn pop_front(&mut self, peer: I) {
        self.flow.pop_front(peer);
    }

    /// The copy with the first turn in the schedule, if there is room for it.
    pub(super) fn next_turn(&mut self, config: &Config) -> Option<(I, Copied)> {
        self.uplink.next(config)
    }

    /// The copy whose turn came is not wanted any more: make its room free.
    pub(super) fn drop_turn(&mut self, peer: I, copy: Copied) {
        self.uplink.on_answer(peer, copy.delegation);
    }

    /// How long to wait for custody from a peer at the first attempt.
    pub(super) fn first_wait(&self, peer: I) -> Duration {
        self.pace.wait(peer, 0)
    }

    /// How many bytes are on their way to a peer.
    pub(super) fn bytes(&self, peer: I) -> u64 {
        self.flow.bytes(peer)
    }

    /// How many answers came to the copies that a copy to this peer waits behind: to those for the
    /// same peer, or, if the copy has a turn, to all copies with a turn.
    pub(super) fn answers_before(&self, duty: &Duty<I>, peer: I) -> u64 {
        match duty.key.strategy.has_rounds() {
            true => self.uplink.answers(),
            false => self.flow.answers(peer),
        }
    }
}

/// Arm the timer of a delegation.
pub(super) fn arm<I: Id>(duty: &Duty<I>, delegation: u64, wait: Duration, out: &mut Effects<I>) {
    out.arm(timer(duty, delegation), wait);
}

/// The timer of a delegation.
pub(super) const fn timer<I>(duty: &Duty<I>, delegation: u64) -> Timer {
    Timer::Delegation {
        duty: duty.number,
        delegation,
    }
}
