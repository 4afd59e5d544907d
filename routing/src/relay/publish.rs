//! The origin's side: accepting messages, re-issuing what is left, receipts.

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh_overlay::{Id, Rank};

use super::duty::{Duty, DutyKey};
use super::epochs::EpochView;
use super::origin::{OpenMessage, Whereabouts};
use super::{Destination, Due, Effects, Event, Publish, PublishError, Relay, Timer};
use crate::packet::{
    Content, Errand, Exception, Header, Packet, PacketId, Part, Payloads, Reason, Signature,
    SigningFailed, Span, State, signature_bytes,
};
use crate::runs::Runs;
use crate::strategy::Strategy;

impl<I: Id> Relay<I> {
    /// Accept a message, or several that go in one packet under consecutive sequences.
    /// The receipt of all follows as [`Event::Receipt`], exactly once while this
    /// process lives. After an error nothing was sent.
    pub fn publish(
        &mut self,
        publish: Publish<I>,
        out: &mut Effects<I>,
    ) -> Result<PacketId<I>, PublishError<I>> {
        self.publish_signed(publish, |_| Ok(None), out)
    }

    /// As [`Relay::publish`], with the signature that `sign` makes, if any. It is asked
    /// once the name of the message is certain, and only if all but the signature has
    /// room: so what has to wait is not signed at every try.
    pub fn publish_signed(
        &mut self,
        publish: Publish<I>,
        sign: impl FnOnce(Content<'_, I>) -> Result<Option<Signature>, SigningFailed>,
        out: &mut Effects<I>,
    ) -> Result<PacketId<I>, PublishError<I>> {
        if self.draining {
            return Err(PublishError::Draining);
        }
        if !publish.strategy.is_possible() {
            return Err(PublishError::ImpossibleStrategy(publish.strategy));
        }
        let view = self.epochs.newest().ok_or(PublishError::Unplaced)?;
        let accepted = view.placement();
        let mut awaited = self.awaited_by(&publish.due)?;
        let n = accepted.population.get();
        let (mut expected, names) = match &publish.destination {
            Destination::All | Destination::AllBut(_) => {
                (Runs::from_iter([Span::new(1, n)]), BTreeMap::new())
            }
            Destination::Peers(peers) => {
                if let Some(awaited) = &mut awaited {
                    awaited.retain(|peer| view.rank_of(*peer).is_none());
                }
                let names = self.distances_of(view, peers, awaited.as_mut())?;
                (singles(&names), names)
            }
        };
        let beyond = awaited.iter().flatten().count();
        let beyond = n.saturating_add(u32::try_from(beyond).unwrap_or(u32::MAX));
        expected.insert(Span::new(n, beyond));
        let (bytes, keeps) = (publish.payloads.len(), awaited.is_some());
        self.check_room(&publish.payloads, keeps, out)?;
        let sequence = self.open.next_sequence();
        let id = PacketId {
            origin: self.me,
            boot: self.boot,
            sequence,
        };
        // Whoever is to get one of a stream is to get all of it: a place that is not used
        // would be a hole, so it is given away when the message is accepted.
        let is_ordered = publish.is_ordered;
        let next = || {
            let (topic, to) = (&publish.topic, &publish.destination);
            self.numbering.next_of(topic, to)
        };
        let order = is_ordered.then(next);
        let signature = sign(Content {
            id,
            confirmation: publish.confirmation,
            topic: &publish.topic,
            order,
            payloads: &publish.payloads,
        });
        let signature = signature.map_err(|SigningFailed| PublishError::NotSigned)?;
        self.check_memory(bytes + signature_bytes(signature.as_ref()), keeps)?;
        if is_ordered {
            self.number(&publish, sequence);
        }
        self.stats.published += publish.payloads.count();
        let content = (
            publish.topic,
            order,
            publish.payloads,
            publish.strategy,
            publish.confirmation,
        );
        let wait = self.config.reissue_first;
        let members = (expected.clone(), names.clone(), awaited);
        self.open
            .open(id, accepted, content, signature, members, wait);
        if let Some(time) = publish.due.time() {
            out.arm(Timer::Deadline(sequence), time);
        }
        let is_for_all = publish.destination.is_all();
        let spared = match publish.destination {
            Destination::AllBut(peers) => peers,
            Destination::All | Destination::Peers(_) => Vec::new(),
        };
        let spared = spared.into_iter().take(self.config.roster_max as usize);
        let is_soon = matches!(publish.due, Due::Soon(_));
        self.open.spare(sequence, spared, is_soon);
        if is_for_all && self.has_to_wait() {
            self.wait_for_roster(sequence, out);
        } else if is_for_all {
            self.issue_to_all(sequence, out);
        } else if names.is_empty() {
            self.end_unissued(sequence, out);
        } else {
            self.issue_to(sequence, names, out);
        }
        self.release(out);
        Ok(id)
    }

    /// A message in order is accepted: it has its place.
    fn number(&mut self, publish: &Publish<I>, sequence: u64) {
        let place = (&publish.topic, &publish.destination);
        let packet = (sequence, publish.payloads.count());
        let open = &self.open;
        let is_open = |sequence| open.get(sequence).is_some();
        let (_, forgotten) = self.numbering.number(place, packet, is_open);
        self.stats.streams_forgotten += forgotten;
    }

    /// The first round of a message to all members.
    pub(super) fn issue_to_all(&mut self, sequence: u64, out: &mut Effects<I>) {
        self.await_the_absent(sequence);
        self.heed_names(sequence);
        let message = self.open.get(sequence);
        let n = message.map_or(1, |message| message.accepted.population.get());
        let all = Runs::from_iter([Span::new(1, n)]);
        let is_for_nobody = message.is_none_or(|message| message.outstanding().is_empty());
        if all.is_empty() || is_for_nobody {
            self.end_unissued(sequence, out);
        } else {
            self.issue(sequence, &all, BTreeMap::new(), false, out);
        }
    }

    /// There is nobody to issue it to.
    fn end_unissued(&mut self, sequence: u64, out: &mut Effects<I>) {
        self.pass_turn(sequence, out);
        self.give_up_the_lost(sequence);
        self.conclude_or_wait(sequence, self.config.reissue_first, out);
    }

    /// The first round of a message to some members.
    fn issue_to(&mut self, sequence: u64, mut names: BTreeMap<u32, I>, out: &mut Effects<I>) {
        let all: Vec<(u32, u32)> = names.keys().map(|at| (*at, *at)).collect();
        let message = self.open.get_mut(sequence);
        let issued = message.map(|message| message.take_turns(&all, true));
        let issued = issued.unwrap_or_default();
        names.retain(|at, _| issued.contains_key(at));
        self.issue(sequence, &singles(&issued), names, true, out);
    }

    /// A round ended: either nothing is left, or it is issued again later.
    pub(super) fn on_round_done(&mut self, duty: &Duty<I>, out: &mut Effects<I>) {
        let sequence = duty.key.id.sequence;
        let exceptions = self.exceptions_of(duty);
        let Some(message) = self.open.get_mut(sequence) else {
            return;
        };
        message.redelegated = message.redelegated.saturating_add(duty.redelegated);
        for peer in &duty.replaced {
            message.replace(*peer);
        }
        message.end_round(duty.key.epoch, &exceptions);
        // Whoever has had no turn yet has no part in the back-off.
        let wait = if message.has_postponed() {
            self.config.reissue_first
        } else {
            message.wait
        };
        self.give_up_the_lost(sequence);
        self.pass_turn(sequence, out);
        self.conclude_or_wait(sequence, wait, out);
    }

    /// What a round could not confirm, by distances.
    fn exceptions_of(&self, duty: &Duty<I>) -> Vec<Exception<I>> {
        let by_position = duty.exceptions.as_slice();
        if duty.key.strategy.is_clockwise() {
            return by_position.to_vec();
        }
        let mut by_distance = Vec::new();
        for exception in by_position {
            let spans = duty.distances(&Runs::from_iter([exception.span]));
            let of = |span: &Span| Exception {
                span: *span,
                ..*exception
            };
            by_distance.extend(spans.spans().iter().map(of));
        }
        by_distance
    }

    /// A verdict has stood for long: who waits for the lost alone waits no more.
    pub(super) fn conclude_the_lost(&mut self, out: &mut Effects<I>) {
        for sequence in self.open.sequences() {
            let message = self.open.get(sequence);
            if message.is_some_and(|message| self.is_between_rounds(message)) {
                self.give_up_the_lost(sequence);
                self.conclude_if_settled(sequence, out);
            }
        }
    }

    pub(super) fn is_between_rounds(&self, message: &OpenMessage<I>) -> bool {
        !message.is_waiting && !self.duties.is_open(message.id)
    }

    /// If nobody is left but members that have been called down for longer than
    /// `down_patience`, or `down_pressed` under pressure, no further try, unless the
    /// message is kept for them.
    fn give_up_the_lost(&mut self, sequence: u64) {
        self.heed_names(sequence);
        let Some(message) = self.open.get(sequence) else {
            return;
        };
        if message.keeps {
            return self.keep_for_the_lost(sequence);
        }
        // Whom I cannot name I have no verdict on; after the longest wait I take
        // my delegates' word for it.
        let may_hear = message.wait >= self.config.reissue_cap;
        // Unless I know better: a delegate may have said so in an epoch without that member.
        let newest = self.epochs.newest();
        let is_back = |peer: I| {
            let is_member = newest.is_some_and(|newest| newest.rank_of(peer).is_some());
            is_member && !self.verdicts.is_down(peer)
        };
        let mut lost = Vec::new();
        for at in message.outstanding().iter() {
            let peer = message.peer_at(at, &self.epochs);
            let doubt = message.doubt_about(at);
            let heard = doubt.map(|doubt| (doubt.reason, doubt.peer));
            lost.push(match (peer, heard) {
                (Some(peer), _) if self.is_lost_to(peer, message.is_soon) => {
                    (at, Some(peer), State::Unconfirmed, self.loss(peer))
                }
                (None, Some((reason @ (Reason::Down | Reason::Left), peer)))
                    if may_hear && !peer.is_some_and(is_back) =>
                {
                    (at, peer, State::Unconfirmed, reason)
                }
                // Two members that leave do not wait for each other.
                (peer, Some((Reason::Draining, named)))
                    if may_hear
                        || self.draining
                        || peer.is_some_and(|peer| self.is_drained(peer)) =>
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

    fn conclude_or_wait(&mut self, sequence: u64, wait: Duration, out: &mut Effects<I>) {
        if !self.conclude_if_settled(sequence, out) {
            out.arm(Timer::Reissue(sequence), wait);
        }
    }

    /// Emit the receipt if nobody is left; whether that was so.
    fn conclude_if_settled(&mut self, sequence: u64, out: &mut Effects<I>) -> bool {
        let message = self.open.get(sequence);
        let is_settled = message.is_some_and(|message| message.outstanding().is_empty());
        if is_settled {
            self.conclude(sequence, None, out);
        }
        is_settled
    }

    /// Names may have become known since the last round. A member that was given up for
    /// want of its name is tried again. A broadcast has no line for a member that had left
    /// when it was accepted, unless it was to be kept for that member's next life.
    fn heed_names(&mut self, sequence: u64) {
        let Some(message) = self.open.get_mut(sequence) else {
            return;
        };
        message.recall_the_named(&self.epochs);
        message.excuse_the_spared(&self.epochs);
        let is_for_these = !message.is_for_all() || message.lists_departed;
        if is_for_these || self.departures.gone().next().is_none() {
            return;
        }
        for at in message.outstanding().iter() {
            let peer = message.peer_at(at, &self.epochs);
            let had_left = |peer: &I| {
                self.departures.was_gone(*peer, sequence) && self.verdicts.is_down(*peer)
            };
            if peer.as_ref().is_some_and(had_left) {
                message.excuse(at);
                self.stats.excused += 1;
            }
        }
    }

    pub(super) fn on_deadline(&mut self, sequence: u64, out: &mut Effects<I>) {
        self.conclude(sequence, Some(Reason::Deadline), out);
    }

    /// Issue what is left again, to where its members stand in the newest epoch. The
    /// next time is further away.
    pub(super) fn reissue(&mut self, sequence: u64, out: &mut Effects<I>) {
        self.heed_names(sequence);
        let (Some(newest), Some(message)) = (self.epochs.newest(), self.open.get(sequence)) else {
            return;
        };
        if !self.is_between_rounds(message) {
            return;
        }
        let by_name = self.is_by_name(message, newest);
        let keeps = message.keeps;
        let is_owed = |peer| keeps && self.open.is_owed_before(peer, sequence);
        let mut has_to_wait = false;
        let mut left = Vec::new();
        let mut names = BTreeMap::new();
        let mut gone = Vec::new();
        let cap = self.config.reissue_cap;
        // With the longest wait the old epoch has been silent for a while.
        let is_over = message.wait >= cap && message.accepted != newest.placement();
        for at in message.outstanding().iter() {
            let peer = message.peer_at(at, &self.epochs);
            let is_down = peer.is_some_and(|peer| self.verdicts.is_down(peer));
            match message.whereabouts(at, newest, &self.epochs) {
                // A verdict is no end at once: it may be withdrawn.
                Whereabouts::At(_) if is_down => {}
                // Others that are kept for it come first.
                Whereabouts::At(_) if peer.is_some_and(&is_owed) => has_to_wait = true,
                // Named among those who are not.
                Whereabouts::At(_) if message.is_awaited(at) && !by_name => {}
                Whereabouts::At(now) => {
                    left.push((now, at));
                    names.extend(peer.filter(|_| by_name).map(|peer| (at, peer)));
                }
                Whereabouts::Absent if message.keeps => {}
                Whereabouts::NotFound if !is_down => gone.push((at, peer, Reason::Epoch)),
                Whereabouts::Absent | Whereabouts::NotFound => {
                    let reason = peer.map_or(Reason::Down, |peer| self.loss(peer));
                    gone.push((at, peer, reason));
                }
                Whereabouts::Nameless if is_over => gone.push((at, peer, Reason::Epoch)),
                Whereabouts::Unknown | Whereabouts::Nameless => {}
            }
        }
        let epoch = newest.placement().epoch;
        // The tables may never change again, and with them what is believed of them.
        let is_desperate = message.wait >= cap;
        if let Some(newest) = self.epochs.find_mut(epoch).filter(|_| is_desperate) {
            newest.forget_denials();
        }
        let Some(message) = self.open.get_mut(sequence) else {
            return;
        };
        let is_less = !gone.is_empty();
        for (at, peer, reason) in gone {
            message.settle(at, peer, State::Unconfirmed, reason);
        }
        if is_less {
            self.pass_turn(sequence, out);
        }
        let Some(message) = self.open.get_mut(sequence) else {
            return;
        };
        let issued = message.take_turns(&left, by_name);
        // Waiting for others is no trying in vain.
        if !message.has_postponed() && !has_to_wait {
            message.wait = message.wait.saturating_mul(2).min(cap);
        }
        let wait = message.wait;
        if issued.is_empty() {
            self.give_up_the_lost(sequence);
            self.conclude_or_wait(sequence, wait, out);
        } else {
            out.arm(Timer::Reissue(sequence), wait);
            let spans = singles(&issued);
            let named = issued.iter();
            let named = named.filter_map(|(now, at)| Some((*now, *names.get(at)?)));
            let named = named.collect();
            message.begin_round(epoch, issued);
            self.stats.reissues += 1;
            self.searches.grant();
            self.skips.grant();
            self.issue(sequence, &spans, named, false, out);
        }
    }

    /// Something changed for the better: issue again soon what waits for it.
    pub(super) fn hasten_reissues(&mut self, out: &mut Effects<I>) {
        let first = self.config.reissue_first;
        for sequence in self.open.sequences() {
            let Some(message) = self.open.get_mut(sequence) else {
                continue;
            };
            if message.is_waiting {
                continue;
            }
            // Should a round be open, it is after that.
            message.wait = first;
            if !self.duties.is_open(message.id) {
                out.arm(Timer::Reissue(sequence), first);
            }
        }
    }

    /// Hand out one round of a message in the newest epoch; `names` says who is
    /// meant at each distance, if not whoever stands there.
    pub(super) fn issue(
        &mut self,
        sequence: u64,
        spans: &Runs,
        names: BTreeMap<u32, I>,
        is_routed: bool,
        out: &mut Effects<I>,
    ) {
        let (Some(view), Some(message)) = (self.epochs.newest(), self.open.get(sequence)) else {
            return;
        };
        let placement = view.placement();
        // Positions are distances but for the first round to all, and that is to
        // all positions.
        let is_first = message.round == 0 && names.is_empty();
        let strategy = if is_first {
            let down = self.verdicts.down().filter_map(|peer| view.rank_of(peer));
            message.strategy.among(placement.population).without(down)
        } else {
            Strategy::Binomial
        };
        let key = DutyKey {
            id: message.id,
            epoch: placement.epoch,
            strategy,
            is_flood: false,
            routed: None,
            named: None,
        };
        let errand = Errand {
            id: message.id,
            epoch: placement.epoch,
            strategy,
            round: message.round,
            part: Part::Range(Span::new(0, placement.population.get())),
        };
        let packet = Packet {
            header: Header {
                errand,
                origin_rank: placement.rank,
                to: placement.rank,
                closed_below: self.open.closed_below().min(sequence),
                is_kept: message.is_kept,
                confirmation: message.confirmation,
                topic: message.topic.clone(),
                order: message.order,
                names: Vec::new(),
                stood: None,
                signature: message.signature.clone(),
            },
            payloads: message.payloads.clone(),
        };
        let stood_at = |at: &u32| Some((*at, message.stood_at(*at)?));
        let stood: BTreeMap<u32, Rank> = names.keys().filter_map(stood_at).collect();
        let stood_in = Some(message.accepted.epoch).filter(|_| !stood.is_empty());
        let number = self.duties.find(&key);
        let number = number.unwrap_or_else(|| self.duties.number());
        self.forget(number, out);
        let mut duty = Duty::of_packet(key, &packet, placement.population, true);
        (duty.names, duty.stood, duty.stood_in) = (names, stood, stood_in);
        if is_routed {
            self.route(number, &mut duty, spans.spans(), 0, &[], out);
        } else {
            for span in spans.spans() {
                self.assign(number, &mut duty, *span, 0, out);
            }
        }
        self.settle(number, duty, out);
    }

    /// Emit the receipt and forget the message.
    pub(super) fn conclude(&mut self, sequence: u64, reason: Option<Reason>, out: &mut Effects<I>) {
        if self.open.get(sequence).is_some_and(|open| open.is_waiting) {
            // It names the inventory yet, members or not.
            self.await_the_absent(sequence);
        }
        self.heed_names(sequence);
        let Some((message, next)) = self.open.close(sequence) else {
            return;
        };
        out.disarm(Timer::Reissue(sequence));
        out.disarm(Timer::Deadline(sequence));
        for number in self.duties.of_id(message.id) {
            self.forget(number, out);
        }
        self.stats.receipts += message.payloads.count();
        let receipt = message.receipt(reason, &self.epochs);
        // Whoever was refused may have given up.
        self.is_pressed &= self.is_scarce();
        out.event(Event::Receipt(Box::new(receipt)));
        self.wake(next, out);
        self.check_drained(out);
    }

    /// Whether there is room for one more, perhaps because nobody waits any longer for
    /// those that are down.
    fn check_room(
        &mut self,
        payloads: &Payloads,
        keeps: bool,
        out: &mut Effects<I>,
    ) -> Result<(), PublishError<I>> {
        let full = match self.check_bounds(payloads, keeps) {
            Err(full @ (PublishError::WindowFull(_) | PublishError::MemoryFull { .. })) => full,
            checked => {
                self.is_pressed &= checked.is_err() || self.is_scarce();
                return checked;
            }
        };
        let is_first = !std::mem::replace(&mut self.is_pressed, true);
        let mut checked = Err(full);
        // Otherwise what could end for that has ended.
        if is_first {
            self.conclude_the_lost(out);
            checked = self.check_bounds(payloads, keeps);
        }
        match &checked {
            Ok(()) => self.is_pressed &= self.is_scarce(),
            Err(PublishError::WindowFull(_)) => self.stats.window_full += 1,
            Err(_) => {}
        }
        checked
    }

    /// Whether more than half of the room for own messages is taken.
    fn is_scarce(&self) -> bool {
        let sequences = self.open.next_sequence() - self.open.closed_below();
        2 * self.open_packets() > self.config.max_open
            || 2 * self.open.bytes() > self.config.max_message_bytes
            || 2 * sequences > self.config.window
    }

    fn check_bounds(&mut self, payloads: &Payloads, keeps: bool) -> Result<(), PublishError<I>> {
        self.check_window(payloads)?;
        self.check_memory(payloads.len(), keeps)
    }

    /// Whether it is not too long, and not too far ahead of what is open.
    fn check_window(&mut self, payloads: &Payloads) -> Result<(), PublishError<I>> {
        let (longest, max) = (payloads.longest(), self.config.payload_max);
        if longest > max {
            let bytes = longest;
            return Err(PublishError::PayloadTooLarge { bytes, max });
        }
        let end = self.open.next_sequence() + payloads.count();
        let is_beyond = end - self.open.closed_below() > self.config.window;
        let open = self.open_packets();
        if is_beyond || open >= self.config.max_open {
            return Err(PublishError::WindowFull(open));
        }
        Ok(())
    }

    /// Whether there is room for so many bytes, of a message that is to be kept if need be.
    fn check_memory(&mut self, bytes: usize, keeps: bool) -> Result<(), PublishError<I>> {
        if keeps {
            self.check_kept(bytes)?;
        }
        let max = self.config.max_message_bytes;
        let held = self.open.bytes();
        if held.saturating_add(bytes) > max {
            return Err(PublishError::MemoryFull { bytes: held, max });
        }
        Ok(())
    }

    /// Where these members stand, each at a distance of its own. Who is no member is
    /// awaited, if anybody is.
    fn distances_of(
        &self,
        view: &EpochView<I>,
        peers: &[I],
        mut awaited: Option<&mut Vec<I>>,
    ) -> Result<BTreeMap<u32, I>, PublishError<I>> {
        if peers.is_empty() {
            return Err(PublishError::NoDestination);
        }
        let keeps = awaited.is_some();
        let distance_of = |peer: I| {
            if peer == self.me {
                return Err(PublishError::OwnId);
            }
            match view.rank_of(peer) {
                Some(_) if !keeps && self.is_absent(peer) => Err(PublishError::HasLeft(peer)),
                Some(rank) => Ok(view.distance_to(rank)),
                None if view.roster().is_complete() => Err(PublishError::UnknownPeer(peer)),
                None if view.roster().is_kept() => Err(PublishError::RosterIncomplete(peer)),
                None => {
                    let n = view.placement().population.get();
                    Err(PublishError::RosterTooLarge(peer, n))
                }
            }
        };
        let mut names = BTreeMap::new();
        for peer in peers {
            let at = match (distance_of(*peer), &mut awaited) {
                (Err(PublishError::UnknownPeer(peer)), Some(awaited)) => {
                    if !awaited.contains(&peer) {
                        awaited.push(peer);
                    }
                    continue;
                }
                (at, _) => at?,
            };
            // Two claim one rank: whose it is, is not known.
            if names.insert(at, *peer).is_some_and(|other| other != *peer) {
                return Err(PublishError::RosterIncomplete(*peer));
            }
        }
        Ok(names)
    }
}

fn singles<T>(by_distance: &BTreeMap<u32, T>) -> Runs {
    by_distance.keys().map(|at| Span::single(*at)).collect()
}
