//! Receiving: the packets that are taken, and the messages in them that are new.
//!
//! - A packet that contradicts its epoch's tables is refused ([`check`]). A packet of an epoch that
//!   this node does not know yet is held for a while ([`unknown_epoch`]).
//! - Each message is delivered once for each life of its origin, whatever the number of its copies
//!   ([`window`]). A delivery is never denied.
//! - Duplicates are suppressed in delivery, never in duty: custody of a part is taken with each
//!   copy.

mod check;
mod delivered_sequences;
mod delivery;
#[cfg(test)]
mod tests;
mod unknown_epoch;
mod window;

use std::cell::OnceCell;

use binomesh_overlay::{Epoch, Id};

use super::context::Context;
use super::custody::Custody;
use super::{Event, RelayStats, Timer};
use crate::packet::{CustodyRefusal, Errand, Packet, Part};
use crate::strategy::Strategy;
use check::check;
use unknown_epoch::DeferredPackets;
use window::{Claim, Novelty, Source, Windows};

pub use delivery::Delivery;

/// The messages that were delivered here, and the packets whose epoch is yet to come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Receiver<I> {
    windows: Windows<I>,
    deferred: DeferredPackets<I>,
}

impl<I: Id> Receiver<I> {
    pub(super) const fn new() -> Self {
        Self {
            windows: Windows::new(),
            deferred: DeferredPackets::new(),
        }
    }

    /// The receiver for the next life of the same process. It remembers the deliveries.
    pub(super) fn next_life(&mut self) -> Self {
        let windows = std::mem::replace(&mut self.windows, Windows::new());
        Self {
            windows,
            ..Self::new()
        }
    }

    /// A link connects this node to the life `boot` of `peer`: greater boots of that peer that were
    /// noted before are forgotten.
    pub(super) fn meet(&mut self, peer: I, boot: u64) {
        self.windows.meet(peer, boot);
    }

    /// A copy has come. Serve it if it may be taken, hold it if its epoch is unknown, or refuse it.
    pub(super) fn on_packet(
        &mut self,
        from: I,
        packet: Box<Packet<I>>,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        if let Err(reason) = check(&packet, cx) {
            return cx.refuse(from, packet.header.errand, reason);
        }
        if cx.epochs.find(packet.header.errand.epoch).is_none() {
            return self.hold(from, packet, cx);
        }
        let novelty = self.judge(from, &packet, custody, cx);
        let reason = match novelty {
            Novelty::Outside => Some(CustodyRefusal::Window),
            Novelty::Full => Some(CustodyRefusal::Full),
            // Only a new message is refused here. A message that was delivered is confirmed even
            // while this node drains.
            Novelty::New if cx.is_draining => Some(CustodyRefusal::Draining),
            Novelty::New | Novelty::Delivered => None,
        };
        match reason {
            Some(reason) => cx.refuse(from, packet.header.errand, reason),
            None => self.serve(from, &packet, novelty, custody, cx),
        }
    }

    /// Judge whether the messages of a packet are new. The mark that the packet carries may close
    /// earlier messages of its origin.
    fn judge(
        &mut self,
        from: I,
        packet: &Packet<I>,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) -> Novelty {
        let id = packet.header.errand.id;
        let count = packet.payloads.count();
        let claim = Claim {
            closed_below: packet.header.closed_below,
            is_kept: packet.header.is_kept,
            source: if from == id.origin {
                Source::Origin
            } else {
                Source::Hearsay
            },
        };
        let served = OnceCell::new();
        let may_go = |origin| {
            let served = served.get_or_init(|| custody.open_origins());
            !cx.epochs.may_be_member(origin) && !served.contains(&origin)
        };
        let before = self.windows.closed_below(id);
        let (novelty, is_undone) = self.windows.judge(id, count, claim, cx.config, may_go);
        cx.stats.hearsay_undone += u64::from(is_undone);
        let mark = self.windows.closed_below(id);
        if mark > before {
            custody.forget_below(id, mark, cx);
        }
        novelty
    }

    /// Take custody of the part of a packet. If the part is a range, and not a routed one, also
    /// deliver the messages of the packet if they are new.
    fn serve(
        &mut self,
        from: I,
        packet: &Packet<I>,
        novelty: Novelty,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        let admission = match custody.admit(from, packet, cx) {
            Ok(admission) => admission,
            Err(reason) => return cx.refuse(from, packet.header.errand.clone(), reason),
        };
        let errand = &packet.header.errand;
        let is_for_me = matches!(errand.part, Part::Range(_));
        if is_for_me {
            self.deliver(packet, novelty, cx);
        }
        custody.take(from, packet, admission, cx);
        let is_first = is_for_me && novelty != Novelty::Delivered;
        if is_first && errand.strategy == Strategy::Flood {
            custody.flood(from, packet, cx);
        }
    }

    fn deliver(&mut self, packet: &Packet<I>, novelty: Novelty, cx: &mut Context<'_, I>) {
        if novelty == Novelty::Delivered {
            cx.stats.duplicates += 1;
            return;
        }
        let first = packet.header.errand.id;
        let is_settled_before = self.windows.closed_below(first) >= first.sequence;
        let count = packet.payloads.count();
        // A liar may have sent some of these messages in another packet.
        let (known, crowded_out) = self.windows.deliver(first, count, cx.config);
        cx.stats.deliveries_forgotten += crowded_out as u64;
        let new = count - known.len() as u64;
        cx.stats.delivered += new;
        if new > 0 {
            let delivery = Delivery::of(packet, is_settled_before, known);
            cx.out.event(Event::Deliver(Box::new(delivery)));
        }
    }

    /// A copy has come that its origin has not signed as required. Nothing of the copy is noted,
    /// but its sender is told.
    pub(super) fn on_unproven(
        &self,
        from: I,
        errand: Errand<I>,
        reason: CustodyRefusal,
        cx: &mut Context<'_, I>,
    ) {
        // A refusal for lack of a good signature would deny a delivery that has happened;
        // `Malformed` leaves it open.
        let reason = if self.windows.has_delivered(errand.id) {
            CustodyRefusal::Malformed
        } else {
            reason
        };
        cx.refuse(from, errand, reason);
    }

    fn hold(&mut self, from: I, packet: Box<Packet<I>>, cx: &mut Context<'_, I>) {
        if self.deferred.has_room(packet.bytes(), cx.config) {
            let number = self.deferred.push(from, packet);
            cx.out.arm(Timer::Held(number), cx.config.hold);
        } else {
            cx.refuse(from, packet.header.errand, CustodyRefusal::EpochUnknown);
        }
    }

    /// A packet was held for long enough, and its epoch has not come.
    pub(super) fn on_held_timer(&mut self, number: u64, cx: &mut Context<'_, I>) {
        if let Some((from, packet)) = self.deferred.take(number) {
            cx.refuse(from, packet.header.errand, CustodyRefusal::EpochUnknown);
        }
    }

    /// A new epoch is known: take the packets that came before it.
    pub(super) fn take_held(
        &mut self,
        epoch: Epoch<I>,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        for number in self.deferred.of_epoch(epoch) {
            cx.out.disarm(Timer::Held(number));
            if let Some((from, packet)) = self.deferred.take(number) {
                self.on_packet(from, packet, custody, cx);
            }
        }
    }

    /// Bytes of the held packets.
    pub(super) fn held_bytes(&self) -> usize {
        self.deferred.bytes()
    }

    /// Set the gauges of held packets.
    pub(super) fn measure(&self, stats: &mut RelayStats) {
        stats.held_packets = self.deferred.len();
        stats.held_bytes = self.deferred.bytes();
    }
}
