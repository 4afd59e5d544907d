//! Messages of this node's own users, on their way from the queue to the relay.
//!
//! A message waits in a queue until the relay takes it, usually a moment. Messages that wait
//! together and go the same way share one packet, so many short messages cost little more than one.
//! While several packets are open, a short message waits a moment for others to share its packet,
//! and packets may be longer. Otherwise a message that is alone never waits for another.

use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_routing::packet::{Confirmation, Content, Payloads};
use binomesh_routing::{self as routing, PublishError};
use bytes::Bytes;
use tokio::sync::oneshot;

use super::proof::signed;
use super::queue::{Open, Waiting};
use super::{Host, now};
use crate::catalogue;
use crate::command::{Destination, Due, Outgoing, SendError};
use crate::report::Receipt;
use crate::spiffe::id_of;

pub(super) type Reply = oneshot::Sender<Result<Receipt, SendError>>;

impl Host {
    /// Queue a message of a user, for all members if there is no list; or refuse it. The queue is
    /// tried when the loop comes round.
    pub(super) fn submit(&mut self, to: Option<Vec<Destination>>, outgoing: Outgoing) {
        if !self.messages.has_room_for(&outgoing) {
            // The waiting messages may just not have been tried yet.
            self.attend_waiting();
        }
        let is_asking = outgoing.confirmation != Confirmation::Relayed;
        let has_room = !is_asking || self.collections.has_room_besides(self.messages.asking());
        let is_unplaced = self.peer.relay().roster().is_none();
        if is_unplaced && outgoing.due.time().is_none() {
            // A caller that gives no time is told at once that the node has no place.
            let _ = outgoing.reply.send(Err(SendError::NotReady));
            return;
        }
        let messages = &mut self.messages;
        if !has_room || !messages.has_room_for(&outgoing) {
            let full = if has_room { "messages" } else { "collections" };
            catalogue::SENDS_REFUSED.with([full]).increment(1);
            let _ = outgoing.reply.send(Err(SendError::Busy));
            return;
        }
        messages.has_room |= messages.waiting.is_empty() || messages.held_until.is_some();
        messages.push(Waiting {
            to,
            since: now(),
            outgoing,
            because: match is_unplaced {
                true => SendError::NotReady,
                false => SendError::Busy,
            },
        });
    }

    /// Try to send all waiting messages now, and from now on hold back none to share a packet,
    /// since this node leaves.
    pub(super) fn send_all_waiting(&mut self) {
        self.messages.is_last = true;
        self.note_room();
        self.attend_waiting();
    }

    /// Note that room or a roster may have come: the waiting messages are tried when the loop comes
    /// round.
    pub(super) const fn note_room(&mut self) {
        self.messages.has_room = true;
    }

    /// If there may be room, try the waiting messages in order, and then the waiting answers. Fail
    /// the messages whose time is over.
    pub(super) fn attend_waiting(&mut self) {
        let open = self.peer.relay().open_packets();
        // A packet that is now kept for absent members no longer counts as open, so there may be
        // room.
        self.messages.has_room |= self.messages.refused_at.is_some_and(|then| open < then);
        let is_held_no_longer = self.messages.held_until.is_some_and(|until| now() >= until);
        if std::mem::take(&mut self.messages.has_room) || is_held_no_longer {
            self.messages.held_until = None;
            self.messages.refused_at = None;
            while !self.messages.waiting.is_empty() && self.publish_oldest() {}
            self.attend_answers();
        }
        let overdue = self.messages.remove_overdue();
        let is_less = !overdue.is_empty();
        for message in overdue {
            tell_not_sent(message.outgoing.reply, message.because);
        }
        if is_less && !self.messages.waiting.is_empty() {
            // Messages behind the removed ones may go the way that is free.
            self.note_room();
            self.attend_waiting();
        }
    }

    /// Publish the oldest waiting message, with the ones that share its packet. Returns whether
    /// they no longer wait.
    fn publish_oldest(&mut self) -> bool {
        let open = self.peer.relay().open_packets();
        let count = self.messages.together(open);
        if self.messages.holds(count, open) {
            return false;
        }
        let together = self.messages.waiting.iter().take(count);
        let payloads: Vec<Bytes> = together.map(|m| m.outgoing.payload.clone()).collect();
        let (Some(oldest), Some(payloads)) =
            (self.messages.waiting.front(), Payloads::join(&payloads))
        else {
            return false;
        };
        let destination = match &oldest.to {
            None if oldest.outgoing.excused.is_empty() => routing::Destination::All,
            None => {
                let names = oldest.outgoing.excused.iter();
                let peers = names.map(|name| id_of(&self.trust_domain, name));
                routing::Destination::AllBut(peers.collect())
            }
            Some(to) => routing::Destination::Peers(to.iter().map(|d| self.id_of(d)).collect()),
        };
        let publish = routing::Publish {
            topic: oldest.outgoing.topic.clone(),
            payloads,
            destination,
            strategy: oldest
                .outgoing
                .strategy
                .strategy(self.config.fanout, oldest.outgoing.left),
            due: self.due_of(oldest),
            confirmation: oldest.outgoing.confirmation,
            is_ordered: oldest.outgoing.is_ordered,
        };
        let has_time = oldest.outgoing.due.time().is_some();
        let outcome = self.publish(publish);
        let because = match outcome {
            Err(PublishError::Unplaced) if has_time => SendError::NotReady,
            Err(PublishError::WindowFull(_) | PublishError::MemoryFull { .. }) => SendError::Busy,
            Err(PublishError::RosterIncomplete(_)) => SendError::NotReady,
            _ => {
                self.take_accepted(count, outcome);
                self.perform();
                return true;
            }
        };
        self.messages.refused_at = Some(open);
        for message in self.messages.waiting.iter_mut().take(count) {
            message.because = because.clone();
        }
        // The relay may have ended other messages to make room; perform that.
        self.perform();
        false
    }

    /// Hand a packet of messages to the relay, signed if this node signs.
    pub(super) fn publish(
        &mut self,
        publish: routing::Publish<PeerId>,
    ) -> Result<routing::PacketId<PeerId>, PublishError<PeerId>> {
        let (notary, wanted) = (&self.notary, self.config.signatures);
        let sign = |content: Content<'_, PeerId>| {
            if !wanted.signs() {
                return Ok(None);
            }
            signed(notary, &content).map(Some)
        };
        self.peer.publish_signed(publish, sign, &mut self.out)
    }

    /// Hand the relay the messages of the collectives, signed if this node signs.
    pub(super) fn post(&mut self) {
        let (notary, wanted) = (&self.notary, self.config.signatures);
        let sign = |content: Content<'_, PeerId>| match wanted.signs() {
            true => signed(notary, &content).map(Some),
            false => Ok(None),
        };
        self.peer.post(sign, &mut self.out);
        self.perform();
    }

    /// Remove the oldest messages from the queue: the relay has them, or will never take them.
    fn take_accepted(
        &mut self,
        count: usize,
        outcome: Result<routing::PacketId<PeerId>, PublishError<PeerId>>,
    ) {
        let refused = outcome.map_err(|error| {
            let oldest = self.messages.waiting.front();
            self.explain(error, oldest.and_then(|oldest| oldest.to.as_deref()))
        });
        for place in 0..count as u64 {
            let Some(Waiting {
                to,
                since,
                outgoing,
                ..
            }) = self.messages.remove(0)
            else {
                return;
            };
            match &refused {
                Ok(first) => {
                    let sequence = first.sequence + place;
                    let confirmation = outgoing.confirmation;
                    if let Some(time) = outgoing.due.time()
                        && confirmation != Confirmation::Relayed
                    {
                        let left = time.saturating_sub(now() - since);
                        self.collections.begin(sequence, super::after(left));
                    }
                    let open = Open {
                        since,
                        is_for_all: to.is_none(),
                        confirmation,
                        excused: outgoing.excused,
                        is_soon: matches!(outgoing.due, Due::Soon(_)),
                        reply: outgoing.reply,
                    };
                    self.messages.open.insert(sequence, open);
                }
                Err(error) => tell_not_sent(outgoing.reply, error.clone()),
            }
        }
    }

    fn due_of(&self, message: &Waiting) -> routing::Due<PeerId> {
        let due = message.outgoing.due;
        let left = |time: Duration| time.saturating_sub(now() - message.since);
        match due {
            Due::Settled => routing::Due::Settled,
            Due::Within(time) => routing::Due::Within(left(time)),
            Due::Soon(time) => routing::Due::Soon(left(time)),
            Due::Until(time) => routing::Due::Kept {
                time: left(time),
                awaited: match message.to {
                    None => self.inventory.peers(),
                    Some(_) => Vec::new(),
                },
            },
        }
    }

    fn explain(&self, error: PublishError<PeerId>, to: Option<&[Destination]>) -> SendError {
        // The name as the user gave it: the node may know no other.
        let as_given = |peer: PeerId| {
            let mut all = to.into_iter().flatten();
            let given = all.find(|destination| self.id_of(destination) == peer);
            given.map_or_else(|| self.name_of(peer), ToString::to_string)
        };
        match error {
            PublishError::UnknownPeer(peer) | PublishError::HasLeft(peer) => {
                SendError::UnknownPeers(vec![as_given(peer)])
            }
            PublishError::OwnId => {
                SendError::UnknownPeers(vec![format!("{} (this node itself)", self.config.name)])
            }
            PublishError::PayloadTooLarge { bytes, max } => SendError::TooLarge {
                size_bytes: bytes,
                max_bytes: max,
            },
            PublishError::NoDestination => SendError::NoDestination,
            PublishError::Draining => SendError::Stopped,
            PublishError::RosterTooLarge(..) | PublishError::TooManyAwaited(..) => {
                SendError::RosterTooLarge
            }
            PublishError::KeptFull(_) => SendError::KeptFull,
            PublishError::NotSigned => SendError::NotSigned,
            _ => SendError::NotReady,
        }
    }

    pub(super) fn id_of(&self, destination: &Destination) -> PeerId {
        match destination {
            Destination::Id(id) => *id,
            Destination::Name(name) => id_of(&self.trust_domain, name),
        }
    }
}

/// Answer a waiting message that will get no receipt.
fn tell_not_sent(reply: Reply, because: SendError) {
    catalogue::RECEIPTS.with(["not_sent"]).increment(1);
    // The caller may have gone.
    let _ = reply.send(Err(because));
}
