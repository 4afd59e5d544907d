//! Receipts and deliveries as users see them.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::repeat;
use std::sync::Arc;

use binomesh_overlay::PeerId;
use binomesh_routing as routing;
use binomesh_routing::packet::Confirmation;
use bytes::Bytes;
use tokio::time::Instant;

use super::answer::{Answer, is_answer, own_result};
use super::collections::{Collected, Heard, Settled};
use super::{Host, now};
use crate::catalogue;
use crate::report::{Receipt, Reply, Unacknowledged, Unreached, UnreachedState, epoch_name};
use crate::subscription::{Message, Offered};

/// The reason for a member that has the message and has not answered.
const NO_ANSWER: &str = "no-answer";

/// The names that were used last: the next receipt or delivery usually has the same.
#[derive(Default)]
pub(super) struct LastNames {
    reached: Option<(Vec<PeerId>, Arc<[String]>)>,
    origin: Option<(PeerId, Arc<str>)>,
}

impl Host {
    /// Offer messages to the subscribers, and send the answers that their origin asks for. A packet
    /// of answers to this node's own messages goes to their collections instead.
    pub(super) fn deliver(&mut self, delivery: &routing::Delivery<PeerId>) {
        if is_answer(&delivery.topic) {
            for (id, _, payload) in delivery.messages() {
                self.on_answer(id.origin, &payload);
            }
            return;
        }
        let mut offered = Vec::new();
        let is_wanted = self.subscribers.is_wanted(&delivery.topic);
        if is_wanted || self.may_be_claimed(delivery) {
            // Each packet gets its own copy of the name. A shared one would have its reference
            // count changed by another core, where a subscriber drops the former packet's messages.
            let origin_name: Arc<str> = Arc::from(&*self.origin_name(delivery.first.origin));
            let messages = || {
                let all = delivery.messages();
                all.map(|(id, order, payload)| Message {
                    id,
                    origin_name: origin_name.clone(),
                    topic: delivery.topic.clone(),
                    confirmation: delivery.confirmation,
                    is_signed: delivery.is_signed,
                    order,
                    is_late: false,
                    payload,
                })
            };
            if is_wanted {
                let count = delivery.count() as usize;
                offered = self.subscribers.offer(&delivery.topic, count, messages);
            } else {
                messages().for_each(|message| self.unclaimed.hold(message));
            }
        }
        if delivery.confirmation == Confirmation::Relayed {
            return;
        }
        let offered = offered.into_iter().chain(repeat(Offered::default()));
        for ((id, ..), offered) in delivery.messages().zip(offered) {
            if let Some(result) = own_result(delivery.confirmation, offered) {
                // If the queue of answers is full, none is sent, and the origin's receipt says so.
                let _ = self.answer(id, result);
            }
        }
    }

    /// Whether these messages wait for a subscriber if there is none. For a while after its start a
    /// node lets messages wait, if it had an earlier life or their origin kept them. An origin that
    /// asks for an answer of subscribers is told at once that there is none.
    fn may_be_claimed(&self, delivery: &routing::Delivery<PeerId>) -> bool {
        let is_for_it = self.state.returns || delivery.is_kept;
        let asks = delivery.confirmation != Confirmation::Relayed;
        self.unclaimed.holds(&delivery.topic, is_for_it, asks)
    }

    /// Take the answer of a receiver to a message of this node.
    fn on_answer(&mut self, from: PeerId, payload: &[u8]) {
        let answer = Answer::parse(payload).filter(|answer| answer.boot == self.state.boot);
        match answer {
            Some(answer) => self.collections.hear(answer.sequence, from, answer.result),
            None => catalogue::ANSWERS_REFUSED.get().increment(1),
        }
    }

    /// Send the receipts of messages whose receivers have all answered, or whose time is over.
    pub(super) fn attend_collections(&mut self, now: Instant) {
        let relay = self.peer.relay();
        if self.collections.losses != relay.stats().losses {
            self.collections.losses = relay.stats().losses;
            self.collections.give_up(.., |peer| relay.is_given_up(peer));
        }
        for collected in self.collections.take_finished(now) {
            self.tell_collected(collected);
        }
    }

    /// Send the receipt of a message with the answers that have come; no more are awaited.
    pub(super) fn tell_collected(&self, collected: Collected) {
        let Collected { settled, heard } = collected;
        let mut receipt = settled.receipt;
        let mut replies: BTreeMap<&Bytes, Vec<String>> = BTreeMap::new();
        let nameless = (receipt.reached_count as usize).saturating_sub(settled.reached.len());
        if nameless > 0 {
            receipt.unacknowledged.push(Unacknowledged {
                name: format!("{nameless} members whose names are not known"),
                reason: NO_ANSWER.to_owned(),
            });
        }
        for peer in settled.reached {
            let name = self.name_of(peer);
            let reason = match heard.get(&peer) {
                Some(Heard::Taken) => continue,
                Some(Heard::Reply(reply)) => {
                    replies.entry(reply).or_default().push(name);
                    continue;
                }
                Some(Heard::Not(reason)) => reason,
                None => NO_ANSWER,
            };
            receipt.unacknowledged.push(Unacknowledged {
                name,
                reason: (*reason).to_owned(),
            });
        }
        let answered = replies.into_iter().map(|(reply, names)| Reply {
            count: names.len() as u32,
            names,
            size_bytes: reply.len() as u64,
            reply: reply.to_vec(),
        });
        receipt.replies = answered.collect();
        receipt
            .replies
            .sort_by_key(|reply| std::cmp::Reverse(reply.count));
        receipt.elapsed_seconds = (now() - settled.since).as_secs_f64();
        count(&receipt, nameless);
        let _ = settled.reply.send(Ok(receipt));
    }

    fn origin_name(&mut self, origin: PeerId) -> Arc<str> {
        if let Some((last, name)) = &self.last_names.origin
            && *last == origin
        {
            return name.clone();
        }
        let name: Arc<str> = self.name_of(origin).into();
        // Only a known name is kept: an unknown one may become known later.
        if self.is_named(origin) {
            self.last_names.origin = Some((origin, name.clone()));
        }
        name
    }

    /// Handle the receipt of a packet: tell the callers that wait for its messages, and let waiting
    /// messages in.
    pub(super) fn on_receipt(&mut self, receipt: &routing::Receipt<PeerId>) {
        let first = receipt.id.sequence;
        let mut described: Option<Receipt> = None;
        let now = now();
        let mut told = Vec::new();
        for sequence in first..first.saturating_add(receipt.count) {
            let Some(open) = self.messages.open.remove(&sequence) else {
                continue;
            };
            let elapsed = (now - open.since).as_secs_f64();
            let id = routing::PacketId {
                sequence,
                ..receipt.id
            };
            let common = described.get_or_insert_with(|| self.describe(receipt, open.is_for_all));
            let own = Receipt {
                id: id.to_string(),
                elapsed_seconds: elapsed,
                confirmation: open.confirmation.name().into(),
                ..common.clone()
            };
            if open.confirmation == Confirmation::Relayed {
                count(&own, 0);
                told.push((open.reply, own));
                continue;
            }
            let settled = Settled {
                since: open.since,
                receipt: own,
                reached: receipt.reached_peers.clone(),
                awaited: self.awaited(&receipt.reached_peers, &open.excused),
                is_soon: open.is_soon,
                reply: open.reply,
            };
            self.collections.settle(sequence, settled);
            let relay = self.peer.relay();
            self.collections
                .give_up(sequence..=sequence, |peer| relay.is_given_up(peer));
        }
        // The last receipt goes first, so a caller that awaits all in order is woken once.
        for (reply, own) in told.into_iter().rev() {
            // The caller may have gone; the message went out all the same.
            let _ = reply.send(Ok(own));
        }
        if self.answers.done(first) || described.is_some() {
            self.note_room();
        }
    }

    /// The members among `reached` whose answers are awaited.
    fn awaited(&self, reached: &[PeerId], excused: &[String]) -> Vec<PeerId> {
        let is_excused =
            |peer: &PeerId| !excused.is_empty() && excused.contains(&self.name_of(*peer));
        let awaited = reached.iter().copied();
        awaited.filter(|peer| !is_excused(peer)).collect()
    }

    /// The receipt that all messages of a packet share, still without id, confirmation and elapsed
    /// time.
    fn describe(&mut self, receipt: &routing::Receipt<PeerId>, is_for_all: bool) -> Receipt {
        let is_listed = |member: &&routing::Unreached<PeerId>| {
            let was_absent = member.rank.is_none() && is_for_all;
            !was_absent
                || !member
                    .peer
                    .is_some_and(|peer| self.inventory.is_expected(peer))
        };
        let unreached = receipt.unreached.iter().filter(is_listed);
        let unreached = unreached.map(|member| Unreached {
            name: member.peer.map_or_else(
                || format!("rank-{}", member.rank.map_or(0, |rank| rank.0)),
                |peer| self.name_of(peer),
            ),
            id: member.peer,
            rank: member.rank.map(|rank| rank.0),
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
            epoch: epoch_name(&receipt.epoch).into(),
            origin: self.config.name.as_str().into(),
            expected_count: receipt.expected_count,
            reached_count: receipt.reached_count,
            reached: self.reached_names(&receipt.reached_peers),
            unreached,
            absent: self.absent_from(receipt, is_for_all),
            redelegated: receipt.redelegated,
            replaced,
            ..Receipt::default()
        }
    }

    /// The expected hosts that were no members and have not got the message since.
    fn absent_from(
        &self,
        receipt: &routing::Receipt<PeerId>,
        is_for_all: bool,
    ) -> Vec<crate::report::Absent> {
        if !is_for_all || self.inventory.is_empty() {
            return Vec::new();
        }
        let members = receipt.unreached.iter();
        let members = members.filter(|member| member.rank.is_some());
        let named = members.clone().filter_map(|member| member.peer);
        let reached = receipt.reached_peers.iter().copied();
        let has_name: BTreeSet<PeerId> = reached.chain(named).collect();
        let nameless = members.filter(|member| member.peer.is_none()).count()
            + (receipt.reached_count as usize).saturating_sub(receipt.reached_peers.len());
        // A member without a name may be any host that is a member now.
        let inventory = &self.inventory;
        let was_member =
            |peer| has_name.contains(&peer) || nameless > 0 && inventory.is_member(peer);
        inventory.absent(now(), was_member)
    }

    /// Compare the expected hosts with the roster, and count the absent ones in the metrics.
    pub(super) fn look_for_absent(&mut self) {
        if let Some(roster) = self.peer.relay().roster() {
            self.inventory.look(roster, now());
            let inventory = &self.inventory;
            let absent = inventory
                .absent(now(), |peer| inventory.is_member(peer))
                .len();
            catalogue::INVENTORY_ABSENT.get().set(absent as f64);
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

/// Count a receipt that is sent. One entry of the receipt stands for all `nameless` members that
/// have not answered.
fn count(receipt: &Receipt, nameless: usize) {
    catalogue::RECEIPT_SECONDS
        .get()
        .record(receipt.elapsed_seconds);
    let is_unconfirmed = |one: &Unreached| one.state == UnreachedState::Unconfirmed;
    let outcome = if receipt.unreached.iter().any(is_unconfirmed) {
        "unconfirmed"
    } else if !receipt.unreached.is_empty() {
        "refused"
    } else if !receipt.unacknowledged.is_empty() {
        "unacknowledged"
    } else if !receipt.absent.is_empty() {
        "absent"
    } else {
        "confirmed"
    };
    catalogue::RECEIPTS.with([outcome]).increment(1);
    let unreached = receipt.unreached.iter().map(|one| &one.reason);
    let unacknowledged = receipt.unacknowledged.iter().map(|one| &one.reason);
    for reason in unreached.chain(unacknowledged) {
        catalogue::RECEIPT_EXCEPTIONS
            .with([reason.clone()])
            .increment(1);
    }
    let others = nameless.saturating_sub(1) as u64;
    catalogue::RECEIPT_EXCEPTIONS
        .with([NO_ANSWER])
        .increment(others);
}

#[cfg(all(test, feature = "admin"))]
mod tests {
    use metrics::with_local_recorder;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn members_without_a_name_count_one_by_one() {
        let silent = |name: &str| Unacknowledged {
            name: name.to_owned(),
            reason: NO_ANSWER.to_owned(),
        };
        let receipt = Receipt {
            unacknowledged: vec![silent("5 members whose names are not known"), silent("a")],
            ..Receipt::default()
        };
        let recorder = PrometheusBuilder::new().build_recorder();
        with_local_recorder(&recorder, || count(&receipt, 5));
        let text = recorder.handle().render();
        let line = "binomesh_receipt_exceptions_total{reason=\"no-answer\"} 6";
        assert!(text.lines().any(|one| one == line), "{text}");
    }
}
