//! Performs the effects that a peer asks of its host.

use binomesh_overlay::quic::SendError;
use binomesh_overlay::{self as overlay, Effect, PeerId};
use binomesh_routing as routing;

use super::{Host, now};
use crate::catalogue;
use crate::peer::{Event, Message, Timer};
use crate::report::{PlacementView, epoch_name};
use crate::wire;

impl Host {
    /// Perform all effects of the peer, and the effects that follow from its events.
    pub(super) fn perform(&mut self) {
        while !self.out.is_empty() {
            // The buffer is not kept for reuse: the allocator hands out memory that a node of this
            // process used just before, which is still in the caches.
            for effect in std::mem::take(&mut self.out) {
                self.perform_one(effect);
            }
        }
    }

    fn perform_one(&mut self, effect: Effect<PeerId, Message<PeerId>, Timer, Event<PeerId>>) {
        match effect {
            // A node that has stopped voting sends no frame of collectives: a frame may carry a
            // vote that could not be recorded.
            Effect::Send {
                message: Message::Collective(_),
                ..
            } if self.peer.collectives().is_barred() => {}
            Effect::Send { to, message } => self.send(to, &message),
            Effect::Arm { timer, after } => self.arm(timer, after),
            Effect::Disarm { timer } => self.timers.disarm(timer),
            Effect::Connect(peer) => self.transport.connect(peer),
            Effect::Disconnect(peer) => self.transport.disconnect(peer),
            Effect::Doubt(peer) => self.transport.doubt(peer),
            Effect::Event(Event::Overlay(event)) => self.on_overlay_event(&event),
            Effect::Event(Event::Relay(event)) => self.on_relay_event(event),
            Effect::Event(Event::Record(key)) => self.record_vote(&key),
            Effect::Event(Event::Answer { call, outcome }) => self.answer_call(call, outcome),
        }
    }

    fn send(&self, to: PeerId, message: &Message<PeerId>) {
        let Some(frame) = wire::frame(message) else {
            catalogue::SENDS_FAILED.with(["encoding"]).increment(1);
            return;
        };
        if let Message::Overlay(message) = message {
            let kind = message.name();
            catalogue::OVERLAY_MESSAGES.with([kind]).increment(1);
            if message.may_be_lost() && self.transport.beat(to, &frame.head) {
                return;
            }
        }
        if let Err(error) = self.transport.send(to, frame) {
            let reason = match error {
                SendError::UnknownPeer => "unknown-peer",
                SendError::Full => "full",
                SendError::TooLong { .. } => "too-long",
                SendError::TooManyPeers => "too-many-peers",
                SendError::ToSelf => "to-self",
                SendError::Closed => "closed",
            };
            catalogue::SENDS_FAILED.with([reason]).increment(1);
            tracing::debug!(peer = %self.name_of(to), %error, "not sent");
        }
    }

    fn on_overlay_event(&mut self, event: &overlay::Event<PeerId>) {
        self.is_placement_stale = true;
        match event {
            overlay::Event::View => {}
            overlay::Event::Down(peer) => {
                let has_left = self.peer.overlay().has_left(*peer);
                self.inventory.note(*peer, has_left);
                self.outages.on_down(*peer, now());
                tracing::info!(peer = %self.name_of(*peer), "peer is down");
                catalogue::PEERS_DOWN.get().increment(1);
            }
            overlay::Event::Left { peer, boot } => {
                tracing::info!(peer = %self.name_of(*peer), boot, "peer has left");
                catalogue::PEERS_LEFT.get().increment(1);
                self.inventory.note(*peer, true);
                self.look_for_absent();
            }
            overlay::Event::Up(peer) => {
                self.inventory.note(*peer, false);
                self.outages.on_up(*peer);
                self.look_for_absent();
                tracing::info!(peer = %self.name_of(*peer), "peer is up again");
                catalogue::PEERS_UP.get().increment(1);
            }
            overlay::Event::Expired(peer) => {
                self.outages.on_expired(*peer);
                tracing::debug!(peer = %self.name_of(*peer), "peer is no longer called down");
                catalogue::VERDICTS_EXPIRED.get().increment(1);
            }
            overlay::Event::Relinked => {
                catalogue::RELINKED.get().increment(1);
                let ring = self.peer.overlay().ring();
                let ring = [ring.predecessor, ring.successor];
                self.outages.on_relinked(ring, now());
            }
            overlay::Event::Renumbered { from, to } => {
                let from = from.map_or(0, overlay::Population::get);
                tracing::info!(from, to = to.get(), "a new epoch");
                catalogue::RENUMBERED.get().increment(1);
                if to.get() < from {
                    catalogue::COMPACTED.get().increment(1);
                }
            }
            overlay::Event::Seeking { rounds } => {
                let parent = self.config.parent.as_ref().map(ToString::to_string);
                tracing::info!(rounds, parent, "no parent can be reached yet, trying on");
            }
        }
    }

    fn on_relay_event(&mut self, event: routing::Event<PeerId>) {
        match event {
            routing::Event::Deliver(delivery) => self.deliver(&delivery),
            routing::Event::Receipt(receipt) => self.on_receipt(&receipt),
            routing::Event::RosterComplete(_) => {
                self.note_room();
                self.look_for_absent();
            }
            routing::Event::Drained => {
                if let Some(leaving) = &mut self.leaving {
                    leaving.is_drained = true;
                }
            }
        }
    }

    /// Show the placement to its watchers if it has changed.
    pub(super) fn show_placement(&mut self) {
        let overlay = self.peer.overlay();
        let (placement, anchored) = (overlay.placement(), overlay.island().is_none());
        let settled = self.unsettled().is_none() && self.leaving.is_none();
        self.attend_readiness(settled && anchored, now());
        self.outages.on_settled(settled, now());
        let now = placement.map(|placement| (placement, settled, anchored));
        if self.shown == now {
            return;
        }
        self.shown = now;
        self.note_membership();
        self.note_room();
        let view = now.map(|(placement, settled, anchored)| PlacementView {
            epoch: epoch_name(&placement.epoch),
            population: placement.population.get(),
            rank: placement.rank.0,
            settled,
            anchored,
        });
        tracing::debug!(?view, "placement");
        self.placement.send_replace(view);
    }

    /// The name of a peer, or its id while no name is known.
    pub(super) fn name_of(&self, peer: PeerId) -> String {
        if peer == self.id {
            return self.config.name.clone();
        }
        let contact = self.transport.contact(peer);
        let name = contact.map(|contact| contact.name);
        let name = name.filter(|name| !name.is_empty());
        name.unwrap_or_else(|| peer.to_string())
    }
}
