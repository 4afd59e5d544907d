//! A duty: a part that a node answers for, and what it handed on of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh_overlay::{Epoch, Id, Population, Rank};

use super::exceptions::Exceptions;
use crate::order::Order;
use crate::packet::{
    Confirmation, Errand, Header, Message, Packet, PacketId, Part, Payloads, Reason, Signature,
    Span, Stood, Topic, names_bytes, signature_bytes,
};
use crate::runs::Runs;
use crate::strategy::{Layout, Strategy};

/// What names a duty: one for the range behind each node per message and epoch,
/// and one for each routed part by who gave it, so that routed steps wait only
/// on steps with a longer transit list. If members are meant by name it is one
/// per round: another round may mean others at the same distances, of whom what
/// is remembered of this one says nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DutyKey<I> {
    pub(super) id: PacketId<I>,
    pub(super) epoch: Epoch<I>,
    /// In which order the positions are meant.
    pub(super) strategy: Strategy,
    /// It is to pass on what came by [`Strategy::Flood`], and nobody waits for it.
    pub(super) is_flood: bool,
    /// Of a routed part: who gave it, in which round, and the part.
    pub(super) routed: Option<(I, u32, Part)>,
    /// Of a range whose members have names: the round.
    pub(super) named: Option<u32>,
}

/// How far a delegation is.
///
/// ```text
///              no, in time, or room on the link
///   Offered ──────────────────────────────────▶ Sent ◀── no ── Asked
///    ▲   └── no, late ──▶ Lacking ── timer ──────▲ │            ▲
///    │                                             │    timer, or a new link
///    └─────────────── no answer in time ───────────┤            │
///                                                  └──▶ Custody ┘
/// ```
///
/// From everywhere custody leads to [`Phase::Custody`], and done ends the delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// The peer was asked whether it has the message. It is sent a copy if it says no.
    Offered,
    /// It said no after its timer had fired. Another copy, or the answer to it, may be as late and
    /// not lost. So it is sent a copy when its timer fires again, or its link has room.
    Lacking,
    /// A copy is sent, or waits for its turn.
    Sent,
    /// The peer answers for the part.
    Custody,
    /// It answers for the part, was asked how that is, and has not answered yet.
    Asked,
}

impl Phase {
    /// Whether no copy goes before the peer has said that it wants one.
    pub(super) const fn is_offer(self) -> bool {
        matches!(self, Self::Offered | Self::Lacking)
    }

    /// Whether the peer answers for the part.
    pub(super) const fn has_custody(self) -> bool {
        matches!(self, Self::Custody | Self::Asked)
    }

    /// Whether a question to the peer is unanswered.
    pub(super) const fn is_question(self) -> bool {
        matches!(self, Self::Offered | Self::Asked)
    }
}

/// Where the copy of a delegation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Copies {
    /// None was sent.
    None,
    /// None was sent: others to that peer come first.
    Held,
    /// At least one was sent.
    Sent,
}

/// A part in somebody else's hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Delegation<I> {
    /// Who has it.
    pub(super) to: I,
    /// Its rank.
    pub(super) rank: Rank,
    /// What is still wanted from it; what was sent may have been larger.
    pub(super) part: Part,
    /// The end of the range that was sent; 0 of a routed part.
    pub(super) sent_end: u32,
    /// The round in which it was sent.
    pub(super) round: u32,
    pub(super) phase: Phase,
    pub(super) copies: Copies,
    /// What of the part has not delivered yet, as far as known.
    pub(super) pending: Runs,
    /// How often it was sent, or asked after, in this phase.
    pub(super) attempts: u32,
    /// How long an answer was waited for at first, beyond what the copy takes.
    pub(super) first_wait: Duration,
    /// How many questions how it is were not answered, in a row.
    pub(super) unanswered: u32,
    /// How many re-delegations led to it.
    pub(super) generation: u32,
    /// How often it had been tried when it was offered first, or its link had room again:
    /// who says no before its timer has fired since then says so in time.
    pub(super) asked_at: u32,
    /// The timer was excused once because this process had been paused.
    pub(super) is_excused: bool,
    /// Of a routed part: the hops that were tried, this one included.
    pub(super) tried: Vec<I>,
    /// How many answers to the copies in front of it, or sent with it, there had been when it
    /// was looked at last.
    pub(super) answers: u64,
    /// Of a copy with a turn: how many answers to others came since it was sent.
    pub(super) overtaken: u64,
    /// And how many looks found no answer since the look before.
    pub(super) quiet_looks: u32,
}

impl<I: Id> Delegation<I> {
    /// All that the peer was ever given with this delegation, of a range.
    pub(super) fn given(&self) -> Span {
        match &self.part {
            Part::Range(span) => Span::new(span.start, self.sent_end),
            Part::Routed { .. } => Span::new(0, 0),
        }
    }

    /// Whether its copy goes as soon as its turn has come.
    pub(super) fn is_waiting(&self) -> bool {
        self.phase == Phase::Sent && self.copies == Copies::Held
    }

    /// Whether an acknowledgement of this errand is about this delegation.
    pub(super) fn is_answered_by(&self, from: I, errand: &Errand<I>) -> bool {
        self.to == from
            && match (&self.part, &errand.part) {
                (Part::Range(mine), Part::Range(theirs)) => {
                    mine.start == theirs.start
                        && mine.end <= theirs.end
                        && self.round <= errand.round
                }
                (mine, theirs) => mine == theirs && self.round == errand.round,
            }
    }
}

/// One part that this node answers for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Duty<I> {
    pub(super) key: DutyKey<I>,
    /// The message is this node's own.
    pub(super) is_own: bool,
    /// How many members the epoch has.
    pub(super) population: Population,
    pub(super) origin_rank: Rank,
    pub(super) closed_below: u64,
    /// The origin answers for it beyond its mark.
    pub(super) is_kept: bool,
    pub(super) confirmation: Confirmation,
    pub(super) topic: Topic,
    pub(super) order: Option<Order>,
    /// How many messages it is of.
    pub(super) count: u64,
    /// Empty once finished.
    pub(super) payloads: Payloads,
    /// The origin's word for them, if it came with one; none once finished.
    pub(super) signature: Option<Signature>,
    /// Who is meant at each distance; empty if whoever stands there is, and once
    /// finished.
    pub(super) names: BTreeMap<u32, I>,
    /// Where these stood when the origin counted them, and in which numbering.
    pub(super) stood: BTreeMap<u32, Rank>,
    pub(super) stood_in: Option<Epoch<I>>,
    /// The newest round that was served.
    pub(super) round: u32,
    /// Of a range: my own distance from the origin.
    pub(super) start: u32,
    /// Of a range: the end of what is answered for.
    pub(super) end: u32,
    pub(super) delegations: BTreeMap<u64, Delegation<I>>,
    pub(super) exceptions: Exceptions<I>,
    /// Who is told when it is done; at most `config.max_waiters`.
    pub(super) waiters: BTreeMap<I, Errand<I>>,
    /// How many members were pending when those who wait were told last.
    pub(super) told: u32,
    pub(super) redelegated: u32,
    /// From whom parts were taken; at most [`Message::MAX_REPLACED`].
    pub(super) replaced: BTreeSet<I>,
    pub(super) is_finished: bool,
}

impl<I: Id> Duty<I> {
    /// A duty that a packet begins.
    pub(super) fn of_packet(
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
            told: u32::MAX,
            redelegated: 0,
            replaced: BTreeSet::new(),
            is_finished: false,
        })
    }

    /// In which order it goes to the members.
    pub(super) fn layout(&self) -> Option<Layout> {
        self.key.strategy.layout(self.population, self.origin_rank)
    }

    /// Positions as distances from the origin.
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

    /// A part was taken from this peer.
    pub(super) fn replace(&mut self, peer: I) {
        if self.replaced.len() < Message::<I>::MAX_REPLACED {
            self.replaced.insert(peer);
        }
    }

    /// The dead ranks that it came with.
    pub(super) fn dead(&self) -> &[Rank] {
        match &self.key.routed {
            Some((_, _, Part::Routed { dead, .. })) => dead,
            _ => &[],
        }
    }

    /// The transit list that it came with.
    pub(super) fn visited(&self) -> &[Rank] {
        match &self.key.routed {
            Some((_, _, Part::Routed { visited, .. })) => visited,
            _ => &[],
        }
    }

    /// What is asked with a delegation.
    pub(super) fn errand_for(&self, delegation: &Delegation<I>) -> Errand<I> {
        Errand {
            id: self.key.id,
            epoch: self.key.epoch,
            strategy: self.key.strategy,
            round: delegation.round,
            part: delegation.part.clone(),
        }
    }

    /// What payloads, names and signature take in memory.
    pub(super) fn bytes(&self) -> usize {
        let names = names_bytes::<I>(self.names.len(), self.stood.len());
        self.payloads
            .len()
            .saturating_add(names)
            .saturating_add(signature_bytes(self.signature.as_ref()))
    }

    /// Go on with what this copy brings. One with the origin's word is not given up for
    /// one without: those behind may take no other.
    pub(super) fn renew(&mut self, packet: &Packet<I>) {
        let signature = &packet.header.signature;
        if signature.is_some() || self.signature.is_none() {
            self.payloads = packet.payloads.clone();
            self.signature = signature.clone();
            // Signed as well: those behind refuse one without the other.
            self.topic = packet.header.topic.clone();
            self.order = packet.header.order;
            self.confirmation = packet.header.confirmation;
        }
    }

    /// Whether a refusal is the last word of the life that gave it. If this message has a
    /// signature, a member that refused for want of one was given a copy without it.
    pub(super) fn may_refuse_for_good(&self, reason: Reason) -> bool {
        match reason {
            Reason::TooLarge => true,
            Reason::Unsigned => self.signature.is_none(),
            _ => false,
        }
    }

    /// Whether a copy says otherwise about what all copies have in common.
    pub(super) fn contradicts(&self, packet: &Packet<I>) -> bool {
        let header = &packet.header;
        let is_other = |(at, name)| self.name_at(at).is_some_and(|mine| mine != name);
        self.origin_rank != header.origin_rank
            || self.count != packet.payloads.count()
            || header.named().any(is_other)
    }

    /// The ranks of those who have not answered a copy yet.
    pub(super) fn late(&self) -> impl Iterator<Item = Rank> + '_ {
        let late = self.delegations.values();
        let late = late.filter(|handed| !handed.phase.has_custody());
        late.map(|handed| handed.rank)
    }

    /// Who is meant at a distance, unless whoever stands there is.
    pub(super) fn name_at(&self, at: u32) -> Option<I> {
        self.names.get(&at).copied()
    }

    fn names_of(&self, part: &Part) -> Vec<I> {
        let spans = part.spans().iter();
        let named = spans.flat_map(|span| self.names.range(span.start..span.end));
        named.map(|(_, name)| *name).collect()
    }

    /// The ranks of the members that a part names, in the epoch in which the origin counted
    /// them.
    fn stood_of(&self, part: &Part) -> Option<Stood<I>> {
        let epoch = self.stood_in?;
        let spans = part.spans().iter();
        let named = spans.flat_map(|span| self.names.range(span.start..span.end));
        let ranks = named.map(|(at, _)| self.stood.get(at).copied()).collect();
        Some(Stood { epoch, ranks })
    }

    /// The question how a delegation is.
    pub(super) fn question_for(&self, delegation: &Delegation<I>) -> Message<I> {
        let name = match &delegation.part {
            Part::Range(span) => self.name_at(span.start),
            Part::Routed { .. } => None,
        };
        Message::Inquire {
            errand: self.errand_for(delegation),
            name,
        }
    }

    /// The copy for a delegation.
    pub(super) fn packet_for(&self, delegation: &Delegation<I>) -> Packet<I> {
        Packet {
            header: Header {
                errand: self.errand_for(delegation),
                origin_rank: self.origin_rank,
                to: delegation.rank,
                closed_below: self.closed_below,
                is_kept: self.is_kept,
                confirmation: self.confirmation,
                topic: self.topic.clone(),
                order: self.order,
                names: self.names_of(&delegation.part),
                stood: self.stood_of(&delegation.part),
                signature: self.signature.clone(),
            },
            payloads: self.payloads.clone(),
        }
    }

    /// What is not known to have delivered, coarsely if it is much.
    pub(super) fn pending(&self) -> Vec<Span> {
        let handed = self.delegations.values();
        let open = handed.flat_map(|handed| handed.pending.spans()).copied();
        let excepted = self
            .exceptions
            .as_slice()
            .iter()
            .map(|exception| exception.span);
        let mut pending: Runs = open.chain(excepted).collect();
        pending.coarsen(Message::<I>::MAX_PENDING);
        pending.spans().to_vec()
    }

    /// How many members are not known to have delivered.
    pub(super) fn pending_count(&self) -> u32 {
        let handed = self.delegations.values();
        let open = handed.map(|handed| handed.pending.len());
        let excepted = self.exceptions.as_slice().iter();
        let excepted = excepted.map(|exception| exception.span.len());
        open.chain(excepted).fold(0, u32::saturating_add)
    }

    /// Whether the peer of a delegation was asked how it is and has not answered.
    pub(super) fn is_asked_about(&self, delegation: u64) -> bool {
        let handed = self.delegations.get(&delegation);
        handed.is_some_and(|handed| handed.phase.is_question())
    }

    /// The delegation that an acknowledgement is about.
    pub(super) fn answered(&self, from: I, errand: &Errand<I>) -> Option<u64> {
        if self.key.strategy != errand.strategy {
            return None;
        }
        let mut all = self.delegations.iter();
        all.find(|(_, delegation)| delegation.is_answered_by(from, errand))
            .map(|(number, _)| *number)
    }
}
