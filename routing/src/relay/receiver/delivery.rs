//! The messages for the local subscribers that came in one packet.

use bytes::Bytes;

use crate::order::{Order, Ordered};
use crate::packet::{Confirmation, Packet, PacketId, Payloads, Topic};

/// The messages of one packet that this node has not delivered before. A message is known by its
/// origin, the origin's boot and the sequence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Delivery<I> {
    /// The name of the packet's first message, with origin and sequence. That message itself may
    /// have been delivered before.
    pub first: PacketId<I>,
    /// The confirmation that the origin of the messages asks of this node.
    pub confirmation: Confirmation,
    /// The topic of the messages.
    pub topic: Topic,
    /// The stream of the messages and the number of the first one in it, if they are ordered.
    order: Option<Order>,
    /// The origin kept the messages for this node, which was away or not yet a member.
    pub is_kept: bool,
    /// The origin does not answer for any message before the first one any more.
    is_settled_before: bool,
    /// The origin has signed the messages.
    pub is_signed: bool,
    payloads: Payloads,
    /// Sequences of this packet that were delivered before, with another packet from a liar.
    known: Vec<u64>,
}

impl<I: Copy> Delivery<I> {
    /// The messages of `packet`, except those whose sequences are in `known`.
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

    /// How many messages are new, at least one.
    pub fn count(&self) -> u64 {
        self.payloads.count() - self.known.len() as u64
    }

    /// Each new message: its id, its place if it is ordered, and the user's bytes, uncopied.
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
