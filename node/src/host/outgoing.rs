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
/// How many bytes of payload they may hold; one more is refused as busy.
const MAX_WAITING_BYTES: usize = 64 << 20;

type Reply = oneshot::Sender<Result<Receipt, SendError>>;

/// What became of the messages of this node's users so far.
#[derive(Default)]
pub(super) struct OpenMessages {
    /// Accepted, by sequence; the relay's window bounds them.
    open: BTreeMap<u64, (Instant, Reply)>,
    /// Not accepted yet, oldest first.
    waiting: VecDeque<Waiting>,
    /// Whether there may be room for those that wait.
    has_room: bool,
}

/// A message that is not accepted yet.
struct Waiting {
    /// To whom; to all members if there is no list.
    to: Option<Vec<Destination>>,
    since: Instant,
    outgoing: Outgoing,
    /// The answer, should its time run out.
    because: SendError,
}

impl Waiting {
    fn deadline(&self) -> Option<Instant> {
        let timeout = self.outgoing.timeout?;
        self.since.checked_add(timeout)
    }
}

impl OpenMessages {
    /// When the first message that waits runs out of time.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(Waiting::deadline).min()
    }
}

impl Host {
    /// A user wants a message sent, to all members if there is no list.
    pub(super) fn submit(&mut self, to: Option<Vec<Destination>>, outgoing: Outgoing) {
        let since = now();
        let because = SendError::Busy;
        let message = Waiting {
            to,
            since,
            outgoing,
            because,
        };
        let is_first = self.messages.waiting.is_empty();
        let left = if is_first {
            self.try_publish(message)
        } else {
            Some(message)
        };
        let Some(message) = left else {
            return;
        };
        let held = self
            .messages
            .waiting
            .iter()
            .map(|w| w.outgoing.payload.len());
        let bytes = held.sum::<usize>() + message.outgoing.payload.len();
        if self.messages.waiting.len() < MAX_WAITING && bytes <= MAX_WAITING_BYTES {
            self.messages.waiting.push_back(message);
        } else {
            let _ = message.outgoing.reply.send(Err(SendError::Busy));
        }
    }

    /// Room or a roster may have come: those that wait are tried when the loop
    /// comes round.
    pub(super) const fn note_room(&mut self) {
        self.messages.has_room = true;
    }

    /// Try those that wait, in order, and answer those whose time is over.
    pub(super) fn attend_waiting(&mut self) {
        if std::mem::take(&mut self.messages.has_room) {
            while let Some(message) = self.messages.waiting.pop_front() {
                if let Some(message) = self.try_publish(message) {
                    self.messages.waiting.push_front(message);
                    break;
                }
            }
        }
        let is_over = |message: &Waiting| message.deadline().is_some_and(|end| now() >= end);
        while let Some(place) = self.messages.waiting.iter().position(is_over) {
            if let Some(message) = self.messages.waiting.remove(place) {
                let _ = message.outgoing.reply.send(Err(message.because));
            }
        }
    }

    /// Publish, or give the message back if it has to wait.
    fn try_publish(&mut self, message: Waiting) -> Option<Waiting> {
        let Waiting {
            to,
            since,
            outgoing,
            ..
        } = message;
        let destination = match &to {
            None => routing::Destination::All,
            Some(to) => routing::Destination::Peers(to.iter().map(|d| self.id_of(d)).collect()),
        };
        let publish = routing::Publish {
            topic: outgoing.topic.clone(),
            payload: outgoing.payload.clone(),
            destination,
            strategy: outgoing.strategy.of(self.config.fanout),
            deadline: outgoing.timeout.map(|t| t.saturating_sub(now() - since)),
        };
        let because = match self.peer.publish(publish, &mut self.out) {
            Ok(id) => {
                self.messages
                    .open
                    .insert(id.sequence, (since, outgoing.reply));
                self.perform();
                return None;
            }
            Err(PublishError::WindowFull(_) | PublishError::MemoryFull { .. }) => SendError::Busy,
            Err(PublishError::RosterIncomplete(_)) => SendError::NotReady,
            Err(error) => {
                let _ = outgoing.reply.send(Err(self.explain(error)));
                return None;
            }
        };
        Some(Waiting {
            to,
            since,
            outgoing,
            because,
        })
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
            return;
        };
        let elapsed = now() - accepted;
        metrics::histogram!("binomesh_receipt_seconds").record(elapsed.as_secs_f64());
        let receipt = self.describe(&receipt, elapsed.as_secs_f64());
        // Whoever asked may have gone; the message went out all the same.
        let _ = reply.send(Ok(receipt));
        self.note_room();
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
        let replaced = receipt.replaced.iter().map(|peer| self.name_of(*peer));
        let mut replaced: Vec<String> = replaced.collect();
        replaced.sort_unstable();
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
            replaced,
            elapsed_seconds,
        }
    }
}
