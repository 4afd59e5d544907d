//! Messages of this node's own users, from acceptance to receipt.

use std::collections::{BTreeMap, VecDeque};

use binomesh_overlay::PeerId;
use binomesh_routing::{self as routing, PublishError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::open::id_of;
use super::perform::message_id;
use super::{Host, now};
use crate::command::{Destination, Outgoing, SendError};
use crate::report::{Receipt, Unreached, UnreachedState, epoch_name};

/// How many messages may wait for room in the window or for the roster; one
/// more is refused as busy.
const MAX_WAITING: usize = 256;

type Reply = oneshot::Sender<Result<Receipt, SendError>>;

/// What became of the messages of this node's users so far.
#[derive(Default)]
pub(super) struct OpenMessages {
    /// Accepted, by sequence; the relay's window bounds them.
    open: BTreeMap<u64, (Instant, Reply)>,
    /// Not accepted yet, oldest first.
    waiting: VecDeque<(Option<Vec<Destination>>, Instant, Outgoing)>,
    /// Receipts that came while the message was being accepted.
    early: Option<routing::Receipt<PeerId>>,
}

impl Host {
    /// A user wants a message sent, to all members if there is no list.
    pub(super) fn submit(&mut self, to: Option<Vec<Destination>>, outgoing: Outgoing) {
        let item = (to, now(), outgoing);
        if !self.messages.waiting.is_empty() {
            return self.wait_or_refuse(item);
        }
        if let Some(item) = self.try_publish(item) {
            self.wait_or_refuse(item);
        }
    }

    /// Room or a roster may have come: try those that wait, in order.
    pub(super) fn submit_waiting(&mut self) {
        while let Some(item) = self.messages.waiting.pop_front() {
            if let Some(item) = self.try_publish(item) {
                self.messages.waiting.push_front(item);
                return;
            }
        }
    }

    fn wait_or_refuse(&mut self, item: (Option<Vec<Destination>>, Instant, Outgoing)) {
        if self.messages.waiting.len() < MAX_WAITING {
            self.messages.waiting.push_back(item);
        } else {
            let _ = item.2.reply.send(Err(SendError::Busy));
        }
    }

    /// Publish, or give the message back if it has to wait.
    fn try_publish(
        &mut self,
        item: (Option<Vec<Destination>>, Instant, Outgoing),
    ) -> Option<(Option<Vec<Destination>>, Instant, Outgoing)> {
        let (to, accepted, outgoing) = item;
        let destination = match &to {
            None => routing::Destination::All,
            Some(to) => routing::Destination::Peers(to.iter().map(|d| self.id_of(d)).collect()),
        };
        let publish = routing::Publish {
            topic: outgoing.topic.clone(),
            payload: outgoing.payload.clone(),
            destination,
            deadline: outgoing.timeout.map(|t| t.saturating_sub(now() - accepted)),
        };
        match self.peer.publish(publish, &mut self.out) {
            Ok(id) => {
                self.messages
                    .open
                    .insert(id.sequence, (accepted, outgoing.reply));
                self.perform();
                if let Some(receipt) = self.messages.early.take() {
                    self.on_receipt(receipt);
                }
                None
            }
            Err(
                PublishError::WindowFull(_)
                | PublishError::MemoryFull { .. }
                | PublishError::RosterIncomplete(_),
            ) => Some((to, accepted, outgoing)),
            Err(error) => {
                let _ = outgoing.reply.send(Err(self.explain(error)));
                None
            }
        }
    }

    fn explain(&self, error: PublishError<PeerId>) -> SendError {
        match error {
            PublishError::UnknownPeer(peer) => SendError::UnknownPeers(vec![self.name_of(peer)]),
            PublishError::OwnId => {
                SendError::UnknownPeers(vec![format!("{} (this node itself)", self.config.name)])
            }
            PublishError::PayloadTooLarge { bytes, max } => SendError::TooLarge {
                size_bytes: bytes,
                max_bytes: max,
            },
            PublishError::NoDestination => SendError::NoDestination,
            PublishError::Draining => SendError::Stopped,
            PublishError::RosterTooLarge(..) => SendError::RosterTooLarge,
            _ => SendError::NotReady,
        }
    }

    fn id_of(&self, destination: &Destination) -> PeerId {
        match destination {
            Destination::Id(id) => *id,
            Destination::Name(name) => id_of(&self.trust_domain, name),
        }
    }

    /// A message is done: tell whoever waits for it, and let others in.
    pub(super) fn on_receipt(&mut self, receipt: routing::Receipt<PeerId>) {
        let Some((accepted, reply)) = self.messages.open.remove(&receipt.id.sequence) else {
            self.messages.early = Some(receipt);
            return;
        };
        let elapsed = now() - accepted;
        metrics::histogram!("binomesh_receipt_seconds").record(elapsed.as_secs_f64());
        let receipt = self.describe(&receipt, elapsed.as_secs_f64());
        // Whoever asked may have gone; the message went out all the same.
        let _ = reply.send(Ok(receipt));
        self.submit_waiting();
    }

    fn describe(&self, receipt: &routing::Receipt<PeerId>, elapsed_seconds: f64) -> Receipt {
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
        Receipt {
            id: message_id(&receipt.id),
            epoch: epoch_name(&receipt.epoch),
            origin: self.config.name.clone(),
            expected_count: receipt.expected_count,
            reached_count: receipt.reached_count,
            reached: receipt
                .reached_peers
                .iter()
                .map(|peer| self.name_of(*peer))
                .collect(),
            unreached: unreached.collect(),
            absent: Vec::new(),
            redelegated: receipt.redelegated,
            elapsed_seconds,
        }
    }
}
