//! Packets of epochs that this node does not know yet.

use std::collections::BTreeMap;

use binomesh_overlay::{Epoch, Id};

use crate::packet::Packet;
use crate::relay::Config;

/// Packets that wait for their epoch, in order of arrival; at most `config.max_held` and
/// `config.max_held_bytes`. A packet that does not fit is refused at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct DeferredPackets<I> {
    packets: BTreeMap<u64, (I, Box<Packet<I>>)>,
    bytes: usize,
    next: u64,
}

impl<I: Id> DeferredPackets<I> {
    pub(super) const fn new() -> Self {
        Self {
            packets: BTreeMap::new(),
            bytes: 0,
            next: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a packet of this size can be held.
    pub(super) fn has_room(&self, bytes: usize, config: &Config) -> bool {
        self.packets.len() < config.max_held
            && self.bytes.saturating_add(bytes) <= config.max_held_bytes
    }

    /// Hold a packet. Returns its number. There must be room.
    pub(super) fn push(&mut self, from: I, packet: Box<Packet<I>>) -> u64 {
        self.bytes += packet.bytes();
        self.next += 1;
        self.packets.insert(self.next, (from, packet));
        self.next
    }

    /// Take one packet out.
    pub(super) fn take(&mut self, number: u64) -> Option<(I, Box<Packet<I>>)> {
        let taken = self.packets.remove(&number)?;
        self.bytes -= taken.1.bytes();
        Some(taken)
    }

    /// The numbers of the packets of an epoch, in order of arrival.
    pub(super) fn of_epoch(&self, epoch: Epoch<I>) -> Vec<u64> {
        let of = |packet: &Packet<I>| packet.header.errand.epoch == epoch;
        self.packets
            .iter()
            .filter(|(_, (_, packet))| of(packet))
            .map(|(number, _)| *number)
            .collect()
    }
}
