//! Taking parts: whether there is room for a part, and which answer its giver gets.

use binomesh_overlay::{Bug, Id};

use super::Custody;
use super::duty::{Duty, DutyKey};
use crate::packet::{CustodyRefusal, Errand, Message, Packet, Part, Span};
use crate::relay::Config;
use crate::relay::Timer;
use crate::relay::context::Context;

/// The admission of a part: the part may be taken, into the duty with this key.
#[derive(Debug)]
pub(in crate::relay) struct Admission<I> {
    /// The duty that has this key already, if any.
    found: Option<u64>,
    key: DutyKey<I>,
    /// The part is for this node alone, and a duty for it is open: this part is done at once.
    is_done: bool,
}

impl<I: Id> Custody<I> {
    /// Decide whether the part of a copy can be taken.
    pub(in crate::relay) fn admit(
        &mut self,
        from: I,
        packet: &Packet<I>,
        cx: &mut Context<'_, I>,
    ) -> Result<Admission<I>, CustodyRefusal> {
        let errand = &packet.header.errand;
        let key = DutyKey::of_errand(from, errand, !packet.header.names.is_empty());
        let found = self.duties.find(&key);
        let known = found.and_then(|number| self.duties.get(number));
        let waits = known.is_some_and(|duty| duty.waiters.contains_key(&from));
        let has_waiters = known.map_or(0, |duty| duty.waiters.len());
        let is_open = known.is_some_and(|duty| !duty.is_finished);
        let is_alone = is_for_one(errand);
        let has_room = match known.filter(|_| is_open) {
            // A copy for an open duty may bring more names, or the first signature.
            Some(duty) => {
                let more = packet.bytes().saturating_sub(duty.bytes());
                self.duties.may_grow(more, cx.config)
            }
            None => self.duties.has_room(packet.bytes(), cx.config),
        };
        let is_full = !has_room || (!waits && has_waiters >= cx.config.max_waiters);
        // A part for this node alone is always taken: it waits for no other node and needs no room.
        // So every duty comes to its end, however full the nodes are.
        let needs_room = !is_alone || cx.config.planted.has(Bug::WaitForRoom);
        if is_full && needs_room {
            return Err(CustodyRefusal::Busy);
        }
        if known.is_some_and(|duty| duty.contradicts(packet)) {
            if from != errand.id.origin {
                return Err(CustodyRefusal::Malformed);
            }
            // The origin knows best where it stands and which members it means: the other copy was
            // a lie.
            if let Some(number) = found {
                self.forget(number, cx);
            }
            return self.admit(from, packet, cx);
        }
        let is_done = is_alone && is_open;
        Ok(Admission {
            found,
            key,
            is_done,
        })
    }

    /// Take custody of the part of an admitted copy, as far as this node does not answer for it
    /// yet.
    pub(in crate::relay) fn take(
        &mut self,
        from: I,
        packet: &Packet<I>,
        admission: Admission<I>,
        cx: &mut Context<'_, I>,
    ) {
        let errand = packet.header.errand.clone();
        if admission.is_done {
            return cx.out.send(from, done_alone(errand));
        }
        let known = admission.found.and_then(|number| self.duties.take(number));
        let is_known = known.is_some();
        let mut duty = known.unwrap_or_else(|| self.begin(admission.key, packet, cx));
        self.grow(&mut duty, packet, cx);
        duty.enlist(from, errand.clone());
        if cx.config.planted.has(Bug::DoneBeforeCustody) {
            cx.out.send(from, done_alone(duty.answer_to(&errand)));
        }
        // If no other node has a share in the part, done is said below.
        let is_said_later = duty.delegations.is_empty()
            || !is_known && self.may_delay_custody(duty.number, packet, cx);
        if !is_said_later {
            // If `reported_pending` is set, it was told to delegators that wait longer, and stays.
            if duty.reported_pending == u32::MAX {
                duty.reported_pending = duty.pending_count();
            }
            cx.out.send(from, duty.custody_of(&errand));
        }
        self.settle(duty, cx);
    }

    /// Answer the question whether this node answers for an errand. A delegator asks it when an
    /// acknowledgement is missing, and to offer a copy.
    pub(in crate::relay) fn on_inquire(
        &mut self,
        from: I,
        errand: Errand<I>,
        name: Option<I>,
        cx: &mut Context<'_, I>,
    ) {
        if name.is_some_and(|name| name != cx.me) {
            return cx.refuse(from, errand, CustodyRefusal::NotThatPeer);
        }
        let key = DutyKey::of_errand(from, &errand, name.is_some());
        let number = self.duties.find(&key);
        let known = number.and_then(|number| self.duties.get(number));
        let Some(duty) = known.filter(|duty| duty.has_asked(&errand)) else {
            let reason = if cx.epochs.is_gone(errand.epoch) {
                CustodyRefusal::EpochGone
            } else {
                CustodyRefusal::Unknown
            };
            return cx.refuse(from, errand, reason);
        };
        if is_for_one(&errand) {
            return cx.out.send(from, done_alone(errand));
        }
        let (number, is_finished) = (duty.number, duty.is_finished);
        let room = duty.waiters.len() < cx.config.max_waiters;
        if !is_finished && !room && !duty.waiters.contains_key(&from) {
            return cx.refuse(from, errand, CustodyRefusal::Busy);
        }
        // A finished duty is settled again, which says done.
        self.settle_with(number, cx, |_, duty, cx| {
            duty.enlist(from, errand.clone());
            if !is_finished {
                cx.out.send(from, duty.custody_of(&errand));
            }
        });
    }

    /// Delay custody of a short message if possible, since it may be done soon and done says more
    /// than custody. The giver of a long message is told at once: other copies wait behind that
    /// one.
    fn may_delay_custody(
        &mut self,
        number: u64,
        packet: &Packet<I>,
        cx: &mut Context<'_, I>,
    ) -> bool {
        let delay = cx.config.custody_delay;
        let is_short = packet.payloads.len() <= Config::SHORT_PAYLOAD;
        let may = !delay.is_zero() && is_short && self.unreported.len() < cx.config.max_duties;
        if may {
            if self.unreported.is_empty() {
                cx.out.arm(Timer::Custody, delay);
            }
            self.unreported.push(number);
        }
        may
    }

    fn begin(
        &mut self,
        key: DutyKey<I>,
        packet: &Packet<I>,
        cx: &mut Context<'_, I>,
    ) -> Box<Duty<I>> {
        let population = cx.population_of(key.epoch);
        let number = self.delegator.number();
        let mut duty = Duty::of_packet(number, key, packet, population, false);
        match &packet.header.errand.part {
            Part::Range(span) => {
                let rest = Span::new(span.start + 1, span.end);
                self.delegator.assign(&mut duty, rest, 0, cx);
            }
            Part::Routed { spans, .. } => self.delegator.route(&mut duty, spans, 0, &[], cx),
        }
        duty
    }

    /// Extend a duty by what a copy adds. Of a larger part the difference is served. In a higher
    /// round the unconfirmed members are tried again. The first signed copy goes to the members
    /// that refused an unsigned one.
    fn grow(&mut self, duty: &mut Duty<I>, packet: &Packet<I>, cx: &mut Context<'_, I>) {
        let errand = &packet.header.errand;
        let Part::Range(span) = errand.part else {
            return;
        };
        let is_newly_signed = packet.header.signature.is_some() && duty.signature.is_none();
        if is_newly_signed && !duty.is_finished {
            // Copies that are sent from now on are signed, also those to delegates that have yet to
            // refuse an unsigned one.
            duty.renew(packet);
        }
        let is_new_round = errand.round > duty.round;
        let again = duty
            .exceptions
            .take_again(span, is_new_round, is_newly_signed);
        duty.round = duty.round.max(errand.round);
        let more = Span::new(duty.end, span.end);
        let is_wanted = !more.is_empty() && !cx.config.planted.has(Bug::DropDuplicateDuty);
        if again.is_empty() && !is_wanted {
            return;
        }
        duty.is_finished = false;
        duty.renew(packet);
        duty.names.extend(packet.header.named());
        duty.stood.extend(packet.header.places());
        duty.closed_below = duty.closed_below.max(packet.header.closed_below);
        duty.is_kept |= packet.header.is_kept;
        for span in again {
            self.delegator.assign(duty, span, 0, cx);
        }
        if is_wanted {
            duty.end = span.end;
            self.delegator.assign(duty, more, 0, cx);
        }
    }
}

/// Whether an errand is for its receiver alone.
fn is_for_one<I>(errand: &Errand<I>) -> bool {
    matches!(errand.part, Part::Range(span) if span.len() == 1)
}

/// The answer that this node itself has delivered, whatever is open behind it.
const fn done_alone<I>(errand: Errand<I>) -> Message<I> {
    Message::Done {
        errand,
        exceptions: Vec::new(),
        redelegated: 0,
        replaced: Vec::new(),
    }
}
