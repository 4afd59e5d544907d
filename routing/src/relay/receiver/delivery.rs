//! What has come for the local subscribers in one packet.

use bytes::Bytes;

use crate::order::{Order, Ordered};
use crate::packet::{Confirmation, Packet, PacketId, Payloads, Topic};

/// The messages of one packet that are new to this node, each once per boot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Delivery<I> {
    /// The name of the packet's first message, with origin and sequence.
    pub first: PacketId<I>,
    /// What their origin wants to know of this node.
    pub confirmation: Confirmation,
    /// What they are about.
    pub topic: Topic,
    /// Where the first stands among its origin's others, if they are to come in order.
    order: Option<Order>,
    /// Their origin kept them for this node, which was away or not there yet.
    pub is_kept: bool,
    /// Its origin answers for none before the first any more.
    is_settled_before: bool,
    /// Their origin has signed them.
    pub is_signed: bool,
    payloads: Payloads,
    /// Sequences that have been delivered already, with another packet: a liar's.
    known: Vec<u64>,
}

impl<I: Copy> Delivery<I> {
    /// Those of `packet`, but for those whose sequences `known` has.
    pub(super) fn of(packet: &Packet<I>, is_settled_before: bool, known: Vec<u64>) -> Self {
        let header = &packet.header;
        Self {
            first: header.errand.id,
            confirmation: header.confirmation,
            topic: header.topic.clone(),
            order: header.order,
            is_kept: header.is_kept,
            is_settled_before,
            is_signed: header.signature.is_some(),
            payloads: packet.payloads.clone(),
            known,
        }
    }

    /// How many there are, at least one.
    pub fn count(&self) -> u64 {
        self.payloads.count() - self.known.len() as u64
    }

    /// Each message: its name, where it stands among its origin's others if they are to
    /// come in order, and the user's bytes, uncopied.
    pub fn messages(&self) -> impl Iterator<Item = (PacketId<I>, Option<Ordered>, Bytes)> + '_ {
        let all = (0..).zip(self.payloads.iter());
        let all = all.map(|(place, payload)| (self.id(place), self.order(place), payload));
        all.filter(|(id, ..)| !self.known.contains(&id.sequence))
    }

    fn id(&self, place: u64) -> PacketId<I> {
        PacketId {
            sequence: self.first.sequence.saturating_add(place),
            ..self.first
        }
    }

    fn order(&self, place: u64) -> Option<Ordered> {
        let order = self.order?;
        let number = order.number.saturating_add(place);
        Some(Ordered {
            order: Order { number, ..order },
            is_settled_before: place == 0 && self.is_settled_before,
        })
    }
}
