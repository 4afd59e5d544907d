//! A duty: a part of a message that a node answers for, with its delegations.

mod messages;

use std::collections::{BTreeMap, BTreeSet};

use binomesh_overlay::{Epoch, Id, Population, Rank};

use super::delegation::Delegation;
use super::exceptions::Exceptions;
use super::sender::Turn;
use crate::order::Order;
use crate::packet::{
    Confirmation, Errand, Exception, Message, Packet, PacketId, Part, Payloads, Reason, Signature,
    Span, Topic, names_bytes, signature_bytes,
};
use crate::relay::context::Context;
use crate::runs::Runs;
use crate::strategy::{Layout, Strategy};

/// The key of a duty. A message has one duty per epoch and strategy for the range behind this node.
/// It has one for each routed part of each giver and round, so that routed steps wait only on steps
/// with a longer transit list. A range whose members are meant by name has one duty per round:
/// another round may mean other members at the same distances, of which the former answers say
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DutyKey<I> {
    pub(super) id: PacketId<I>,
    pub(super) epoch: Epoch<I>,
    /// The strategy, which gives the order that positions refer to.
    pub(super) strategy: Strategy,
    /// The duty passes on a copy of [`Strategy::Flood`], and no delegator waits for it.
    pub(super) is_flood: bool,
    /// Of a routed part: its giver, its round, and the part.
    pub(super) routed: Option<(I, u32, Part)>,
    /// Of a range whose members are meant by name: its round.
    pub(super) named: Option<u32>,
}

impl<I: Id> DutyKey<I> {
    /// The key of the duty for an errand that this peer gave.
    pub(super) fn of_errand(from: I, errand: &Errand<I>, is_named: bool) -> Self {
        let is_range = matches!(errand.part, Part::Range(_));
        Self {
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

/// A part of a message that this node answers for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Duty<I> {
    /// The number of the duty, which its timers name.
    pub(super) number: u64,
    pub(super) key: DutyKey<I>,
    /// This node is the origin of the message.
    pub(super) is_own: bool,
    /// How many members the epoch has.
    pub(super) population: Population,
    pub(super) origin_rank: Rank,
    pub(super) closed_below: u64,
    /// The origin keeps the message, and answers for it even below its mark.
    pub(super) is_kept: bool,
    pub(super) confirmation: Confirmation,
    pub(super) topic: Topic,
    pub(super) order: Option<Order>,
    /// How many messages the packet carries.
    pub(super) count: u64,
    /// The payloads; empty once the duty is finished.
    pub(super) payloads: Payloads,
    /// The origin's signature, if the copy has one; none once the duty is finished.
    pub(super) signature: Option<Signature>,
    /// The members that the origin means by name, by their distance clockwise of the origin. Empty
    /// if the message is for the holder of each rank. Emptied when the duty is finished.
    pub(super) names: BTreeMap<u32, I>,
    /// The ranks of the members in `names` when the origin counted them, and (`stood_in`) the epoch
    /// of that count.
    pub(super) stood: BTreeMap<u32, Rank>,
    pub(super) stood_in: Option<Epoch<I>>,
    /// The newest round of the origin that this duty served.
    pub(super) round: u32,
    /// Of a range: this node's position in the order.
    pub(super) start: u32,
    /// Of a range: the end of the part that this node answers for.
    pub(super) end: u32,
    pub(super) delegations: BTreeMap<u64, Delegation<I>>,
    pub(super) exceptions: Exceptions<I>,
    /// The delegators that are told when the duty is done; at most `config.max_waiters`.
    pub(super) waiters: BTreeMap<I, Errand<I>>,
    /// How many members were pending when the waiting delegators were last told; `u32::MAX` before
    /// that.
    pub(super) reported_pending: u32,
    pub(super) redelegated: u32,
    /// The peers from which parts were taken; at most [`Message::MAX_REPLACED`].
    pub(super) replaced: BTreeSet<I>,
    pub(super) is_finished: bool,
}

impl<I: Id> Duty<I> {
    /// A new duty for the part of a packet.
    pub(super) fn of_packet(
        number: u64,
        key: DutyKey<I>,
        packet: &Packet<I>,
        population: Population,
        is_own: bool,
    ) -> Box<Self> {
        let header = &packet.header;
        let range = match header.errand.part {
            Part::Range(span) => span,
            Part::Routed { .. } => Span::new(0, 0),
        };
        Box::new(Self {
            number,
            key,
            is_own,
            population,
            origin_rank: header.origin_rank,
            closed_below: header.closed_below,
            is_kept: header.is_kept,
            confirmation: header.confirmation,
            topic: header.topic.clone(),
            order: header.order,
            count: packet.payloads.count(),
            payloads: packet.payloads.clone(),
            signature: header.signature.clone(),
            names: header.named().collect(),
            stood: header.places().collect(),
            stood_in: header.stood.as_ref().map(|stood| stood.epoch),
            round: header.errand.round,
            start: range.start,
            end: range.end,
            delegations: BTreeMap::new(),
            exceptions: Exceptions::new(),
            waiters: BTreeMap::new(),
            reported_pending: u32::MAX,
            redelegated: 0,
            replaced: BTreeSet::new(),
            is_finished: false,
        })
    }

    /// The order in which the message goes to the members.
    pub(super) fn layout(&self) -> Option<Layout> {
        self.key.strategy.layout(self.population, self.origin_rank)
    }

    /// Convert positions in the order to distances from the origin.
    pub(super) fn distances(&self, positions: &Runs) -> Runs {
        let is_clockwise = self.key.strategy.is_clockwise();
        match self.layout().filter(|_| !is_clockwise) {
            Some(layout) => {
                let distances = positions.iter().map(|at| layout.distance(at));
                distances.map(Span::single).collect()
            }
            None => positions.clone(),
        }
    }

    /// Note an exception.
    pub(super) fn except(&mut self, exception: Exception<I>, cx: &mut Context<'_, I>) {
        let summarised = self.exceptions.add(exception, cx.config.max_exceptions);
        cx.stats.summarised += u64::from(summarised);
    }

    /// A part was taken from this peer.
    pub(super) fn replace(&mut self, peer: I) {
        if self.replaced.len() < Message::<I>::MAX_REPLACED {
            self.replaced.insert(peer);
        }
    }

    /// The dead ranks that the routed part came with.
    pub(super) fn dead(&self) -> &[Rank] {
        match &self.key.routed {
            Some((_, _, Part::Routed { dead, .. })) => dead,
            _ => &[],
        }
    }

    /// The transit list that the routed part came with.
    pub(super) fn visited(&self) -> &[Rank] {
        match &self.key.routed {
            Some((_, _, Part::Routed { visited, .. })) => visited,
            _ => &[],
        }
    }

    /// The bytes that payloads, names and signature take in memory.
    pub(super) fn bytes(&self) -> usize {
        let names = names_bytes::<I>(self.names.len(), self.stood.len());
        self.payloads
            .len()
            .saturating_add(names)
            .saturating_add(signature_bytes(self.signature.as_ref()))
    }

    /// Continue with the content of this copy. A signed copy is not replaced by an unsigned one,
    /// since delegates may refuse the latter.
    pub(super) fn renew(&mut self, packet: &Packet<I>) {
        let signature = &packet.header.signature;
        if signature.is_some() || self.signature.is_none() {
            self.payloads = packet.payloads.clone();
            self.signature = signature.clone();
            // These fields are signed as well, so delegates refuse a signature with other values of
            // them.
            self.topic = packet.header.topic.clone();
            self.order = packet.header.order;
            self.confirmation = packet.header.confirmation;
        }
    }

    /// Whether a refusal is final for the life that gave it. A member that refused for lack of a
    /// signature was given an unsigned copy. If this message is signed by now, that refusal is not
    /// final.
    pub(super) fn may_refuse_for_good(&self, reason: Reason) -> bool {
        match reason {
            Reason::TooLarge => true,
            Reason::Unsigned => self.signature.is_none(),
            _ => false,
        }
    }

    /// Whether a copy contradicts what all copies of one message have in common.
    pub(super) fn contradicts(&self, packet: &Packet<I>) -> bool {
        let header = &packet.header;
        let is_other = |(at, name)| self.name_at(at).is_some_and(|mine| mine != name);
        self.origin_rank != header.origin_rank
            || self.count != packet.payloads.count()
            || header.named().any(is_other)
    }

    /// The numbers of the delegations that satisfy a condition.
    pub(super) fn delegations_that(&self, is: impl Fn(&Delegation<I>) -> bool) -> Vec<u64> {
        let those = self.delegations.iter().filter(|(_, handed)| is(handed));
        those.map(|(delegation, _)| *delegation).collect()
    }

    /// The ranks of the delegates that have not taken custody yet.
    pub(super) fn ranks_without_custody(&self) -> impl Iterator<Item = Rank> + '_ {
        let late = self.delegations.values();
        let late = late.filter(|handed| !handed.phase.has_custody());
        late.map(|handed| handed.rank)
    }

    /// The member that is meant by name at a distance, if any.
    pub(super) fn name_at(&self, at: u32) -> Option<I> {
        self.names.get(&at).copied()
    }

    /// Whether a question to the delegate is unanswered.
    pub(super) fn is_asked_about(&self, delegation: u64) -> bool {
        let handed = self.delegations.get(&delegation);
        handed.is_some_and(|handed| handed.phase.is_question())
    }

    /// The number of the delegation that an acknowledgement is about.
    pub(super) fn answered(&self, from: I, errand: &Errand<I>) -> Option<u64> {
        if self.key.strategy != errand.strategy {
            return None;
        }
        let mut all = self.delegations.iter();
        all.find(|(_, delegation)| delegation.is_answered_by(from, errand))
            .map(|(number, _)| *number)
    }

    /// Whether the duty includes the part of an errand.
    pub(super) fn has_asked(&self, errand: &Errand<I>) -> bool {
        match errand.part {
            Part::Range(span) => {
                let is_served = span.end <= self.end && errand.round <= self.round;
                span.start == self.start && (is_served || span.len() == 1)
            }
            Part::Routed { .. } => true,
        }
    }

    /// The rank at the start of a span.
    pub(super) fn rank_at_start(&self, span: Span) -> Rank {
        let layout = self.layout();
        layout.map_or(self.origin_rank, |layout| layout.rank(span.start))
    }

    /// The parts that take the place of a span whose head is lost.
    pub(super) fn heirs(&self, span: Span) -> Vec<Span> {
        let rest = Span::new(span.start.saturating_add(1), span.end);
        let layout = self.layout();
        layout.map_or_else(Vec::new, |layout| layout.heirs(span.start, rest))
    }

    /// The turn of a delegation's copy in the schedule. None for a routed part, or if the strategy
    /// has no rounds.
    pub(super) fn turn(&self, delegation: u64) -> Option<Turn<I>> {
        let handed = self.delegations.get(&delegation)?;
        let Part::Range(span) = handed.part else {
            return None;
        };
        let round = self.layout()?.round(span.start)?;
        Some(Turn {
            origin: self.key.id.origin,
            at: self.key.id.sequence.saturating_add(round.into()),
        })
    }
}
