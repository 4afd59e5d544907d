//! Receipts and deliveries as users see them.

use std::sync::Arc;

use binomesh_overlay::PeerId;
use binomesh_routing as routing;
use bytes::Bytes;

use super::{Host, now};
use crate::report::{Receipt, Unreached, UnreachedState, epoch_name};
use crate::subscription::Message;
use crate::topic::Topic;

/// Names as they were used last: the next receipt or delivery has the same, as a rule.
#[derive(Default)]
pub(super) struct LastNames {
    reached: Option<(Vec<PeerId>, Arc<[String]>)>,
    origin: Option<(PeerId, Arc<str>)>,
}

impl Host {
    /// Offer a message to the subscribers.
    pub(super) fn deliver(&mut self, id: routing::PacketId<PeerId>, topic: Topic, payload: Bytes) {
        if !self.subscribers.is_wanted(&topic) {
            return;
        }
        let message = Message {
            id,
            origin_name: self.origin_name(id.origin),
            topic,
            payload,
        };
        self.subscribers.offer(&message);
    }

    fn origin_name(&mut self, origin: PeerId) -> Arc<str> {
        if let Some((last, name)) = &self.last_names.origin
            && *last == origin
        {
            return name.clone();
        }
        let name: Arc<str> = self.name_of(origin).into();
        // It may become known yet.
        if self.is_named(origin) {
            self.last_names.origin = Some((origin, name.clone()));
        }
        name
    }

    /// The messages of a packet are done: tell whoever waits for them, and let others
    /// in.
    pub(super) fn on_receipt(&mut self, receipt: &routing::Receipt<PeerId>) {
        let first = receipt.id.sequence;
        let mut described: Option<Receipt> = None;
        for sequence in first..first.saturating_add(receipt.count) {
            let Some((accepted, reply)) = self.messages.open.remove(&sequence) else {
                continue;
            };
            let elapsed = (now() - accepted).as_secs_f64();
            metrics::histogram!("binomesh_receipt_seconds").record(elapsed);
            let id = routing::PacketId {
                sequence,
                ..receipt.id
            };
            let common = described.get_or_insert_with(|| self.describe(receipt));
            let own = Receipt {
                id: id.to_string(),
                elapsed_seconds: elapsed,
                ..common.clone()
            };
            // Whoever asked may have gone; the message went out all the same.
            let _ = reply.send(Ok(own));
        }
        if described.is_some() {
            self.note_room();
        }
    }

    /// The receipt of the first message, as of no time.
    fn describe(&mut self, receipt: &routing::Receipt<PeerId>) -> Receipt {
        let unreached = receipt.unreached.iter().map(|member| Unreached {
            name: member.peer.map_or_else(
                || format!("rank-{}", member.rank.0),
                |peer| self.name_of(peer),
            ),
            id: member.peer,
            rank: Some(member.rank.0),
            state: match member.state {
                routing::packet::State::Refused => UnreachedState::Refused,
                routing::packet::State::Unconfirmed => UnreachedState::Unconfirmed,
            },
            reason: member.reason.name().to_owned(),
        });
        let unreached = unreached.collect();
        let replaced = receipt.replaced.iter().map(|peer| self.name_of(*peer));
        let mut replaced: Vec<String> = replaced.collect();
        replaced.sort_unstable();
        Receipt {
            id: String::new(),
            epoch: epoch_name(&receipt.epoch),
            origin: self.config.name.clone(),
            expected_count: receipt.expected_count,
            reached_count: receipt.reached_count,
            reached: self.reached_names(&receipt.reached_peers),
            unreached,
            absent: Vec::new(),
            redelegated: receipt.redelegated,
            replaced,
            elapsed_seconds: 0.0,
        }
    }

    fn reached_names(&mut self, peers: &[PeerId]) -> Arc<[String]> {
        if let Some((last, names)) = &self.last_names.reached
            && last == peers
        {
            return names.clone();
        }
        let names: Arc<[String]> = peers.iter().map(|peer| self.name_of(*peer)).collect();
        if peers.iter().all(|peer| self.is_named(*peer)) {
            self.last_names.reached = Some((peers.to_vec(), names.clone()));
        }
        names
    }

    fn is_named(&self, peer: PeerId) -> bool {
        self.transport.contact(peer).is_some()
    }
}
