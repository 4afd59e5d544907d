//! Taking packets in: checks, delivery, custody.

use std::cell::OnceCell;

use binomesh_overlay::{Bug, Id};

use super::delivery::Delivery;
use super::duty::{Duty, DutyKey};
use super::window::{Said, Source, Verdict};
use super::{Effects, Event, Relay, Timer};
use crate::packet::{Errand, Message, Packet, Part, Refusal, Span, Stood};
use crate::strategy::Strategy;

impl<I: Id> Relay<I> {
    pub(super) fn on_packet(&mut self, from: I, packet: Box<Packet<I>>, out: &mut Effects<I>) {
        let errand = &packet.header.errand;
        if let Err(reason) = self.check(&packet) {
            let errand = packet.header.errand;
            return self.refuse(from, errand, reason, out);
        }
        if self.epochs.find(errand.epoch).is_none() {
            return self.hold(from, packet, out);
        }
        let id = errand.id;
        let count = packet.payloads.count();
        let said = Said {
            closed_below: packet.header.closed_below,
            is_kept: packet.header.is_kept,
            source: if from == id.origin {
                Source::Origin
            } else {
                Source::Hearsay
            },
        };
        let (epochs, duties) = (&self.epochs, &self.duties);
        let served = OnceCell::new();
        let may_go = |origin| {
            let served = served.get_or_init(|| duties.open_origins());
            !epochs.may_be_member(origin) && !served.contains(&origin)
        };
        let before = self.windows.closed_below(id);
        let (verdict, is_undone) = self.windows.judge((id, count), said, &self.config, may_go);
        self.stats.hearsay_undone += u64::from(is_undone);
        let mark = self.windows.closed_below(id);
        if mark > before {
            for number in self.duties.below(id, mark) {
                self.forget(number, out);
            }
            self.check_drained(out);
        }
        let reason = match verdict {
            Verdict::Outside => Some(Refusal::Window),
            Verdict::Full => Some(Refusal::Full),
            // What was delivered is never denied, leaving or not.
            Verdict::New if self.draining => Some(Refusal::Draining),
            Verdict::New | Verdict::Delivered => None,
        };
        match reason {
            Some(reason) => self.refuse(from, packet.header.errand, reason, out),
            None => self.serve(from, &packet, verdict, out),
        }
    }

    /// Is the errand in my hands? Whoever lost an acknowledgement asks so.
    pub(super) fn on_inquire(
        &mut self,
        from: I,
        errand: Errand<I>,
        name: Option<I>,
        out: &mut Effects<I>,
    ) {
        if name.is_some_and(|name| name != self.me) {
            return self.refuse(from, errand, Refusal::NotThatPeer, out);
        }
        let number = self
            .duties
            .find(&Self::key_of(from, &errand, name.is_some()));
        let known = number.and_then(|number| Some((number, self.duties.get(number)?)));
        let Some((number, duty)) = known.filter(|(_, duty)| has_asked(duty, &errand)) else {
            let reason = if self.epochs.is_gone(errand.epoch) {
                Refusal::EpochGone
            } else {
                Refusal::Unknown
            };
            return self.refuse(from, errand, reason, out);
        };
        if is_for_one(&errand) {
            return out.send(from, done_alone(errand));
        }
        let is_finished = duty.is_finished;
        let room = duty.waiters.len() < self.config.max_waiters;
        if !is_finished && !room && !duty.waiters.contains_key(&from) {
            return self.refuse(from, errand, Refusal::Busy, out);
        }
        let enlist = |relay: &mut Self, duty: &mut Duty<I>, out: &mut Effects<I>| {
            relay.enlist(duty, from, errand.clone());
            if !is_finished {
                out.send(from, custody_of(duty, &errand));
            }
        };
        if is_finished {
            self.settle_with(number, out, enlist);
        } else {
            self.with_duty(number, |relay, duty| enlist(relay, duty, out));
        }
    }

    /// A copy came that its origin has not signed as it ought to be. It is no copy, so
    /// nothing of it is noted, but whoever sent it is told.
    pub(super) fn on_unproven(
        &mut self,
        from: I,
        errand: Errand<I>,
        reason: Refusal,
        out: &mut Effects<I>,
    ) {
        self.on_contact(from, out);
        // What was delivered is never denied.
        let reason = if self.windows.has_delivered(errand.id) {
            Refusal::Malformed
        } else {
            reason
        };
        self.refuse(from, errand, reason, out);
    }

    pub(super) fn on_held_timer(&mut self, number: u64, out: &mut Effects<I>) {
        if let Some((from, packet)) = self.held.take(number) {
            let errand = packet.header.errand;
            self.refuse(from, errand, Refusal::EpochUnknown, out);
        }
    }

    /// Everything that can be judged from the packet and the epoch alone.
    fn check(&self, packet: &Packet<I>) -> Result<(), Refusal> {
        let header = &packet.header;
        let errand = &header.errand;
        if packet.payloads.longest() > self.config.payload_max {
            return Err(Refusal::TooLarge);
        }
        if errand.id.origin == self.me || header.closed_below > errand.id.sequence {
            return Err(Refusal::Malformed);
        }
        if self.epochs.is_gone(errand.epoch) {
            return Err(Refusal::EpochGone);
        }
        let Some(view) = self.epochs.find(errand.epoch) else {
            return Ok(());
        };
        let placement = view.placement();
        if header.to != placement.rank {
            return Err(Refusal::NotThatRank);
        }
        let n = placement.population.get();
        if !header.origin_rank.is_within(placement.population) || !errand.part.is_within(n) {
            return Err(Refusal::Malformed);
        }
        let layout = errand
            .strategy
            .layout(placement.population, header.origin_rank);
        let Some(mine) = layout.map(|layout| layout.position(placement.rank)) else {
            return Err(Refusal::Malformed);
        };
        let is_right = match &errand.part {
            Part::Range(span) => span.start == mine,
            Part::Routed { spans, visited, .. } => {
                !visited.contains(&placement.rank) && spans.iter().all(|span| span.start != mine)
            }
        };
        if !is_right || !header.is_named_in_full() {
            return Err(Refusal::Malformed);
        }
        let is_step = matches!(errand.part, Part::Routed { .. });
        let mut named = header.names.first().filter(|_| !is_step).into_iter();
        let stood = header.stood.as_ref().filter(|_| !is_step);
        // Two peers may claim one rank. Each takes only its own copies: a copy that names the
        // other is refused, and so is a copy for a rank that this node did not hold in the
        // epoch in which the origin counted the members.
        if named.all(|name| *name == self.me) && !stood.is_some_and(|stood| self.denies(stood)) {
            Ok(())
        } else {
            Err(Refusal::NotThatPeer)
        }
    }

    /// Whether this node knows that it stood elsewhere when it was counted.
    fn denies(&self, stood: &Stood<I>) -> bool {
        let said = stood.ranks.first().copied().flatten();
        let is_known = |rank| self.epochs.has_stood(stood.epoch, rank) == Some(false);
        said.is_some_and(is_known)
    }

    fn hold(&mut self, from: I, packet: Box<Packet<I>>, out: &mut Effects<I>) {
        if self.held.has_room(packet.bytes(), &self.config) {
            let number = self.held.push(from, packet);
            out.arm(Timer::Held(number), self.config.hold);
        } else {
            let errand = packet.header.errand;
            self.refuse(from, errand, Refusal::EpochUnknown, out);
        }
    }

    /// Deliver if it is new, and answer for the part.
    fn serve(&mut self, from: I, packet: &Packet<I>, verdict: Verdict, out: &mut Effects<I>) {
        let errand = packet.header.errand.clone();
        let key = Self::key_of(from, &errand, !packet.header.names.is_empty());
        let found = self.duties.find(&key);
        let known = found.and_then(|number| self.duties.get(number));
        let waits = known.is_some_and(|duty| duty.waiters.contains_key(&from));
        let has_waiters = known.map_or(0, |duty| duty.waiters.len());
        let is_open = known.is_some_and(|duty| !duty.is_finished);
        let is_alone = is_for_one(&errand);
        let has_room = match known.filter(|_| is_open) {
            // A copy with more names, or the first one that is signed.
            Some(duty) => {
                let more = packet.bytes().saturating_sub(duty.bytes());
                self.duties.may_grow(more, &self.config)
            }
            None => self.duties.has_room(packet.bytes(), &self.config),
        };
        let is_full = !has_room || (!waits && has_waiters >= self.config.max_waiters);
        // A part for this node alone is always taken: it waits for no other node and needs no
        // room. So every duty comes to its end, however full the nodes are.
        let needs_room = !is_alone || self.config.planted.has(Bug::WaitForRoom);
        if is_full && needs_room {
            return self.refuse(from, errand, Refusal::Busy, out);
        }
        if known.is_some_and(|duty| duty.contradicts(packet)) {
            if from != errand.id.origin {
                return self.refuse(from, errand, Refusal::Malformed, out);
            }
            // The origin knows best where it stands and whom it means: the other copy
            // was a lie.
            if let Some(number) = found {
                self.forget(number, out);
            }
            return self.serve(from, packet, verdict, out);
        }
        if matches!(errand.part, Part::Range(_)) {
            self.deliver(packet, verdict, out);
        }
        if is_alone && is_open {
            out.send(from, done_alone(errand));
        } else {
            self.take_custody(from, packet, (found, key), out);
        }
        let is_first =
            matches!(packet.header.errand.part, Part::Range(_)) && verdict != Verdict::Delivered;
        if is_first && packet.header.errand.strategy == Strategy::Flood {
            self.flood(from, packet, out);
        }
    }

    /// Answer for the part, as far as it is not answered for yet.
    fn take_custody(
        &mut self,
        from: I,
        packet: &Packet<I>,
        (found, key): (Option<u64>, DutyKey<I>),
        out: &mut Effects<I>,
    ) {
        let errand = packet.header.errand.clone();
        let number = found.unwrap_or_else(|| self.duties.number());
        let mut duty = match self.duties.take(number) {
            Some(duty) => duty,
            None => self.begin(number, key, packet, out),
        };
        self.grow(number, &mut duty, packet, out);
        self.enlist(&mut duty, from, errand.clone());
        if self.config.planted.has(Bug::DoneBeforeCustody) {
            let done = Message::Done {
                errand: answer_to(&duty, &errand),
                exceptions: Vec::new(),
                redelegated: 0,
                replaced: Vec::new(),
            };
            out.send(from, done);
        }
        // Of a part that nobody else has a share in, done is said below.
        let is_said_later = duty.delegations.is_empty()
            || found.is_none() && self.may_delay_custody(number, packet, out);
        if !is_said_later {
            // Those who wait longer have been told otherwise.
            if duty.told == u32::MAX {
                duty.told = duty.pending_count();
            }
            out.send(from, custody_of(&duty, &errand));
        }
        self.settle(number, duty, out);
    }

    /// Soon all of a short message may be done, and done says more than custody. Whoever
    /// sent a long one is told at once: others wait behind it.
    fn may_delay_custody(&mut self, number: u64, packet: &Packet<I>, out: &mut Effects<I>) -> bool {
        let delay = self.config.custody_delay;
        let is_short = packet.payloads.len() <= self.config.short_payload;
        let may = !delay.is_zero() && is_short && self.owed.len() < self.config.max_duties;
        if may {
            if self.owed.is_empty() {
                out.arm(Timer::Custody, delay);
            }
            self.owed.push(number);
        }
        may
    }

    /// Custody has been delayed long enough.
    pub(super) fn on_custody_timer(&mut self, out: &mut Effects<I>) {
        for number in std::mem::take(&mut self.owed) {
            self.with_duty(number, |relay, duty| {
                if !duty.is_finished {
                    relay.report(duty, out);
                }
            });
        }
    }

    fn deliver(&mut self, packet: &Packet<I>, verdict: Verdict, out: &mut Effects<I>) {
        if verdict == Verdict::Delivered {
            self.stats.duplicates += 1;
            return;
        }
        let first = packet.header.errand.id;
        let is_settled_before = self.windows.closed_below(first) >= first.sequence;
        let count = packet.payloads.count();
        // A liar may have said that some of them are another packet.
        let known = self.windows.deliver(first, count, &self.config);
        let new = count - known.len() as u64;
        self.stats.delivered += new;
        if new > 0 {
            let delivery = Delivery::of(packet, is_settled_before, known);
            out.event(Event::Deliver(Box::new(delivery)));
        }
    }

    fn begin(
        &mut self,
        number: u64,
        key: DutyKey<I>,
        packet: &Packet<I>,
        out: &mut Effects<I>,
    ) -> Box<Duty<I>> {
        let population = self.population_of(key.epoch);
        let mut duty = Duty::of_packet(key, packet, population, false);
        match &packet.header.errand.part {
            Part::Range(span) => {
                let rest = Span::new(span.start + 1, span.end);
                self.assign(number, &mut duty, rest, 0, out);
            }
            Part::Routed { spans, .. } => self.route(number, &mut duty, spans, 0, &[], out),
        }
        duty
    }

    /// A copy with a larger part makes me serve the difference; one of a higher
    /// round, what an earlier round gave up; and the first one that is signed, those who
    /// take no other.
    fn grow(&mut self, number: u64, duty: &mut Duty<I>, packet: &Packet<I>, out: &mut Effects<I>) {
        let errand = &packet.header.errand;
        let Part::Range(span) = errand.part else {
            return;
        };
        let is_newly_signed = packet.header.signature.is_some() && duty.signature.is_none();
        if is_newly_signed && !duty.is_finished {
            // Who is yet to refuse the unsigned one is asked with it.
            duty.renew(packet);
        }
        let why = (errand.round > duty.round, is_newly_signed);
        let again = duty.exceptions.take_again(span, why);
        duty.round = duty.round.max(errand.round);
        let more = Span::new(duty.end, span.end);
        let is_wanted = !more.is_empty() && !self.config.planted.has(Bug::DropDuplicateDuty);
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
            self.assign(number, duty, span, 0, out);
        }
        if is_wanted {
            duty.end = span.end;
            self.assign(number, duty, more, 0, out);
        }
    }

    /// Remember who wants to know when it is done: of two questions of one peer
    /// the larger or later.
    fn enlist(&self, duty: &mut Duty<I>, from: I, errand: Errand<I>) {
        let place = duty.waiters.entry(from).or_insert_with(|| errand.clone());
        if let (Part::Range(old), Part::Range(new)) = (&place.part, &errand.part)
            && (new.end > old.end || errand.round > place.round)
        {
            let end = new.end.max(old.end);
            place.part = Part::Range(Span::new(new.start, end));
            place.round = place.round.max(errand.round);
        }
    }

    fn key_of(from: I, errand: &Errand<I>, is_named: bool) -> DutyKey<I> {
        let is_range = matches!(errand.part, Part::Range(_));
        DutyKey {
            id: errand.id,
            epoch: errand.epoch,
            strategy: errand.strategy,
            is_flood: false,
            routed: match &errand.part {
                Part::Range(_) => None,
                part => Some((from, errand.round, part.clone())),
            },
            named: Some(errand.round).filter(|_| is_range && is_named),
        }
    }
}

/// Whether a duty includes what is asked.
fn has_asked<I: Id>(duty: &Duty<I>, errand: &Errand<I>) -> bool {
    match errand.part {
        Part::Range(span) => {
            let is_served = span.end <= duty.end && errand.round <= duty.round;
            span.start == duty.start && (is_served || span.len() == 1)
        }
        Part::Routed { .. } => true,
    }
}

/// Whether only the receiver itself is meant.
fn is_for_one<I>(errand: &Errand<I>) -> bool {
    matches!(errand.part, Part::Range(span) if span.len() == 1)
}

/// I have delivered, whatever is open behind me.
fn done_alone<I>(errand: Errand<I>) -> Message<I> {
    Message::Done {
        errand,
        exceptions: Vec::new(),
        redelegated: 0,
        replaced: Vec::new(),
    }
}

/// Custody, with what is pending as of now.
pub(super) fn custody_of<I: Id>(duty: &Duty<I>, errand: &Errand<I>) -> Message<I> {
    Message::Custody {
        errand: answer_to(duty, errand),
        pending: duty.pending(),
    }
}

/// What an acknowledgement of this errand is about: all that the duty includes.
pub(super) fn answer_to<I: Id>(duty: &Duty<I>, errand: &Errand<I>) -> Errand<I> {
    let mut answer = errand.clone();
    if let Part::Range(span) = &mut answer.part {
        span.end = span.end.max(duty.end);
        answer.round = answer.round.max(duty.round);
    }
    answer
}
