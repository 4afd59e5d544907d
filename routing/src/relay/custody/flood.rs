//! Passing on messages that came by strategy `flood`.

use binomesh_overlay::Id;

use super::Custody;
use super::duty::{Duty, DutyKey};
use crate::packet::{Packet, Span};
use crate::relay::context::Context;
use crate::sibling_tree::SiblingTree;
use crate::strategy;

impl<I: Id> Custody<I> {
    /// A message has come for the first time: send it to all neighbours in the binomial graph but
    /// its sender and its origin. So it spreads even if the origin and all nodes that answer for
    /// the neighbours die. Each neighbour answers for itself alone, so no nodes wait in a circle.
    /// Without room for the duty the message is not passed on, which is counted.
    pub(in crate::relay) fn flood(&mut self, from: I, packet: &Packet<I>, cx: &mut Context<'_, I>) {
        let header = &packet.header;
        let key = DutyKey {
            id: header.errand.id,
            epoch: header.errand.epoch,
            strategy: header.errand.strategy,
            is_flood: true,
            routed: None,
            named: None,
        };
        if !self.duties.has_room(packet.bytes(), cx.config) {
            cx.stats.floods_skipped += 1;
            return;
        }
        let (Some(view), None) = (cx.epochs.find(key.epoch), self.duties.find(&key)) else {
            return;
        };
        let placement = view.placement();
        let origin = header.origin_rank;
        let sender = view.rank_of(from);
        let shape = SiblingTree::new(placement.population, cx.config.fanout);
        let next = strategy::flood(&shape, placement.rank, sender).filter(|rank| *rank != origin);
        let next: Vec<Span> = next
            .map(|rank| Span::single(origin.distance_to(rank, placement.population)))
            .collect();
        let number = self.delegator.number();
        let mut duty = Duty::of_packet(number, key, packet, placement.population, false);
        // The copies are for the holders of the neighbouring ranks, by whatever name.
        duty.names.clear();
        duty.stood.clear();
        for span in next {
            self.delegator.delegate(&mut duty, span, 0, cx);
        }
        self.settle(duty, cx);
    }
}
