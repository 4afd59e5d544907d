//! Sending copies, each when its turn comes, and waiting for custody.

use std::time::Duration;

use binomesh_overlay::Id;

use super::duty::{Copies, Delegation, Duty, Phase};
use super::flow::Copied;
use super::uplink::Turn;
use super::{Effects, Relay, Timer};
use crate::packet::{Message, Part};

/// A copy with a turn is late once so many looks in all found that no copy had been answered
/// since the look before. A guess: on the slowest uplinks one copy takes as long as a look.
const QUIET_LOOKS: u32 = 3;

impl<I: Id> Relay<I> {
    /// Send a delegation of which no copy was sent yet, or the offer of it: now, or when
    /// there is room on the way to its peer.
    pub(super) fn send_first(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        delegation: u64,
        out: &mut Effects<I>,
    ) {
        let copy = (number, delegation, duty.payloads.len());
        let handed = duty.delegations.get_mut(&delegation);
        let Some(handed) = handed.filter(|handed| handed.phase == Phase::Sent) else {
            return self.send(number, duty, delegation, out);
        };
        let to = handed.to;
        let turn = self.turn(duty, delegation);
        let goes = match turn {
            None => self.flow.admit(to, copy, &self.config),
            Some(turn) => {
                let goes = self.flow.uplink.admit(to, copy, turn, &self.config);
                if goes {
                    self.flow.force(to, copy, &self.config);
                }
                goes
            }
        };
        if goes {
            self.stats.unpaced += u64::from(turn.is_some() && self.flow.uplink.is_full());
            return self.send_copy(number, duty, delegation, out);
        }
        let before = self.answers_before(duty, to);
        if let Some(handed) = duty.delegations.get_mut(&delegation) {
            handed.copies = Copies::Held;
            handed.answers = before;
        }
        self.stats.held_back += 1;
        self.await_custody(number, duty, delegation, out);
    }

    /// A copy's turn in the schedule; none if its strategy has no rounds.
    fn turn(&self, duty: &Duty<I>, delegation: u64) -> Option<Turn<I>> {
        let handed = duty.delegations.get(&delegation)?;
        let Part::Range(span) = handed.part else {
            return None;
        };
        let round = duty.layout()?.round(span.start)?;
        Some(Turn {
            origin: duty.key.id.origin,
            at: duty.key.id.sequence.saturating_add(round.into()),
        })
    }

    /// How many answers there were to the copies that one to this peer waits behind: to those
    /// for that peer, or if it has a turn, to all that have one.
    pub(super) fn answers_before(&self, duty: &Duty<I>, peer: I) -> u64 {
        match duty.key.strategy.has_rounds() {
            true => self.flow.uplink.answers(),
            false => self.flow.answers(peer),
        }
    }

    /// Look at a copy with a turn that is not answered in time. Whether it may only be waiting
    /// behind others: other copies are being answered, and too few yet for its own answer to be
    /// overdue.
    pub(super) fn is_in_queue(&self, duty: &mut Duty<I>, delegation: u64) -> bool {
        let has_rounds = duty.key.strategy.has_rounds();
        let handed = duty.delegations.get_mut(&delegation);
        let is_first = |handed: &&mut Delegation<I>| {
            handed.copies == Copies::Sent && handed.phase == Phase::Sent && handed.attempts == 0
        };
        let Some(handed) = handed.filter(is_first).filter(|_| has_rounds) else {
            return false;
        };
        let answers = self.flow.uplink.answers();
        match answers.saturating_sub(handed.answers) {
            0 => handed.quiet_looks += 1,
            some => handed.overtaken += some,
        }
        handed.answers = answers;
        let most = 2 * self.config.uplink_copies as u64;
        handed.quiet_looks < QUIET_LOOKS && handed.overtaken < most
    }

    /// Answers have made room on the way to some peers: send what waits for that. No duty
    /// may be taken out meanwhile.
    pub(super) fn release(&mut self, out: &mut Effects<I>) {
        while let Some(peer) = self.flow.pop_freed() {
            self.release_to(peer, out);
        }
        while let Some((peer, copy)) = self.flow.uplink.next(&self.config) {
            if self.is_awaited(peer, copy) {
                self.release_copy(peer, copy, out);
            } else {
                self.flow.uplink.on_answer(peer, copy.1);
            }
        }
    }

    /// Whether a copy that was held back is still to be sent.
    fn is_awaited(&self, peer: I, (number, delegation, _): Copied) -> bool {
        let duty = self.duties.get(number);
        let handed = duty.and_then(|duty| duty.delegations.get(&delegation));
        handed.is_some_and(|handed| handed.to == peer && handed.is_waiting())
    }

    fn release_copy(&mut self, peer: I, copy: Copied, out: &mut Effects<I>) {
        let (number, delegation, _) = copy;
        self.with_duty(number, |relay, duty| {
            relay.flow.force(peer, copy, &relay.config);
            relay.send_copy(number, duty, delegation, out);
        });
    }

    fn release_to(&mut self, peer: I, out: &mut Effects<I>) {
        while let Some((copy, has_room)) = self.flow.front(peer, &self.config) {
            let is_wanted = self.is_awaited(peer, copy);
            if is_wanted && !has_room {
                return;
            }
            self.flow.pop_front(peer);
            if is_wanted {
                self.release_copy(peer, copy, out);
            }
        }
    }

    /// Send a delegation, or the offer of it, and wait for custody.
    pub(super) fn send(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        delegation: u64,
        out: &mut Effects<I>,
    ) {
        let Some(handed) = duty.delegations.get(&delegation) else {
            return;
        };
        let to = handed.to;
        if handed.phase.is_offer() {
            Self::ask(duty, delegation, out);
            self.await_custody(number, duty, delegation, out);
        } else {
            let copy = (number, delegation, duty.payloads.len());
            self.flow.force(to, copy, &self.config);
            self.send_copy(number, duty, delegation, out);
        }
    }

    /// Ask the peer of a delegation how it is.
    pub(super) fn ask(duty: &Duty<I>, delegation: u64, out: &mut Effects<I>) {
        if let Some(handed) = duty.delegations.get(&delegation) {
            out.send(handed.to, duty.question_for(handed));
        }
    }

    fn send_copy(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        delegation: u64,
        out: &mut Effects<I>,
    ) {
        if let Some(handed) = duty.delegations.get_mut(&delegation) {
            handed.copies = Copies::Sent;
            handed.answers = self.flow.uplink.answers();
        }
        if let Some(handed) = duty.delegations.get(&delegation) {
            self.stats.packets_sent += 1;
            self.budget.earn();
            // The steps of a search earn no further one: otherwise ranks that nobody holds
            // would keep all nodes searching for each other.
            if matches!(handed.part, Part::Range(_)) {
                self.searches.earn();
                self.skips.earn();
            }
            out.send(
                handed.to,
                Message::Packet(Box::new(duty.packet_for(handed))),
            );
        }
        self.await_custody(number, duty, delegation, out);
    }

    /// Arm the timer for custody. The wait doubles with every attempt and re-delegation. The time
    /// that the copy needs on its way is added; of a copy that is held, that of the copies before it.
    pub(super) fn await_custody(
        &self,
        number: u64,
        duty: &Duty<I>,
        delegation: u64,
        out: &mut Effects<I>,
    ) {
        let Some(handed) = duty.delegations.get(&delegation) else {
            return;
        };
        // An offer costs nearly nothing: the next heir is asked as soon as the first one was.
        let is_offer = handed.phase.is_offer();
        let generation = handed.generation.saturating_sub(u32::from(is_offer));
        let doublings = handed.attempts.saturating_add(generation);
        let mut wait = self.pace.wait(handed.to, doublings, &self.config);
        let bytes = duty.payloads.len();
        if bytes <= self.config.short_payload {
            wait += self.config.custody_delay;
        }
        if !is_offer {
            let own = if handed.copies == Copies::Held {
                0
            } else {
                bytes
            };
            wait += self.flow.transfer(handed.to, own, &self.config);
            if duty.key.strategy.has_rounds() {
                // Other blocks queue in front of this copy, and of its answer.
                wait += self.config.inquire_after;
            }
        }
        self.arm(number, delegation, wait, out);
    }

    /// Arm the timer of a delegation.
    pub(super) fn arm(&self, duty: u64, delegation: u64, wait: Duration, out: &mut Effects<I>) {
        out.arm(Timer::Delegation { duty, delegation }, wait);
    }

    /// Forget a duty, its timers, and what of it is on its way.
    pub(super) fn forget(&mut self, number: u64, out: &mut Effects<I>) {
        let Some(duty) = self.duties.forget(number) else {
            return;
        };
        for (delegation, handed) in duty.delegations {
            self.flow.on_answer(handed.to, delegation);
            out.disarm(Timer::Delegation {
                duty: number,
                delegation,
            });
        }
    }
}
