//! The messages about a duty: copies and questions to its delegates, answers to its delegators.

use binomesh_overlay::Id;

use super::Duty;
use crate::packet::{Errand, Header, Message, Packet, Part, Span, Stood};
use crate::relay::Effects;
use crate::relay::custody::delegation::Delegation;
use crate::runs::Runs;

impl<I: Id> Duty<I> {
    /// The errand that a delegation gives to its delegate.
    pub(in crate::relay::custody) fn errand_for(&self, delegation: &Delegation<I>) -> Errand<I> {
        Errand {
            id: self.key.id,
            epoch: self.key.epoch,
            strategy: self.key.strategy,
            round: delegation.round,
            part: delegation.part.clone(),
        }
    }

    fn names_of(&self, part: &Part) -> Vec<I> {
        let spans = part.spans().iter();
        let named = spans.flat_map(|span| self.names.range(span.start..span.end));
        named.map(|(_, name)| *name).collect()
    }

    /// The ranks of the members that a part names, in the epoch in which the origin counted them.
    fn stood_of(&self, part: &Part) -> Option<Stood<I>> {
        let epoch = self.stood_in?;
        let spans = part.spans().iter();
        let named = spans.flat_map(|span| self.names.range(span.start..span.end));
        let ranks = named.map(|(at, _)| self.stood.get(at).copied()).collect();
        Some(Stood { epoch, ranks })
    }

    /// The question about the state of a delegation.
    pub(in crate::relay::custody) fn question_for(&self, delegation: &Delegation<I>) -> Message<I> {
        let name = match &delegation.part {
            Part::Range(span) => self.name_at(span.start),
            Part::Routed { .. } => None,
        };
        Message::Inquire {
            errand: self.errand_for(delegation),
            name,
        }
    }

    /// The copy that a delegation sends.
    pub(in crate::relay::custody) fn packet_for(&self, delegation: &Delegation<I>) -> Packet<I> {
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

    /// Tell the waiting delegators which members are pending now.
    pub(in crate::relay::custody) fn report(&mut self, out: &mut Effects<I>) {
        self.reported_pending = self.pending_count();
        for (waiter, errand) in &self.waiters {
            out.send(*waiter, self.custody_of(errand));
        }
    }

    /// Custody, with the members that are pending now.
    pub(in crate::relay::custody) fn custody_of(&self, errand: &Errand<I>) -> Message<I> {
        Message::Custody {
            errand: self.answer_to(errand),
            pending: self.pending(),
        }
    }

    /// The errand that an acknowledgement repeats. A range is extended to all that the duty
    /// includes.
    pub(in crate::relay::custody) fn answer_to(&self, errand: &Errand<I>) -> Errand<I> {
        let mut answer = errand.clone();
        if let Part::Range(span) = &mut answer.part {
            span.end = span.end.max(self.end);
            answer.round = answer.round.max(self.round);
        }
        answer
    }

    /// Remember a delegator that waits for done. Two errands of one delegator become one: the
    /// larger part and the later round.
    pub(in crate::relay::custody) fn enlist(&mut self, from: I, errand: Errand<I>) {
        let place = self.waiters.entry(from).or_insert_with(|| errand.clone());
        if let (Part::Range(old), Part::Range(new)) = (&place.part, &errand.part)
            && (new.end > old.end || errand.round > place.round)
        {
            let end = new.end.max(old.end);
            place.part = Part::Range(Span::new(new.start, end));
            place.round = place.round.max(errand.round);
        }
    }

    /// The members not known to have delivered. Above [`Message::MAX_PENDING`] spans the smallest
    /// gaps are closed, so that other members are listed as well.
    pub(in crate::relay::custody) fn pending(&self) -> Vec<Span> {
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
    pub(in crate::relay::custody) fn pending_count(&self) -> u32 {
        let handed = self.delegations.values();
        let open = handed.map(|handed| handed.pending.len());
        let excepted = self.exceptions.as_slice().iter();
        let excepted = excepted.map(|exception| exception.span.len());
        open.chain(excepted).fold(0, u32::saturating_add)
    }
}
