//! Collects the answers to messages of this node that ask their receivers for one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use binomesh_overlay::PeerId;
use bytes::Bytes;
use tokio::time::Instant;

use super::answer::DeliveryResult;
use super::outgoing::Reply;
use crate::report::Receipt;

/// The answer of one receiver, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// A subscriber took the message.
    Taken,
    /// The application replied with these bytes.
    Reply(Bytes),
    /// The message was not taken, for this reason.
    Not(&'static str),
}

/// A message that answers are collected for.
struct Collection {
    /// When the wait for answers ends.
    until: Instant,
    heard: BTreeMap<PeerId, Heard>,
    /// Receivers whose answers are missing; filled once the relay is done with the message.
    missing: BTreeSet<PeerId>,
    settled: Option<Settled>,
}

/// A message that the relay is done with, without its answers.
pub(super) struct Settled {
    pub(super) since: Instant,
    pub(super) receipt: Receipt,
    pub(super) reached: Vec<PeerId>,
    /// The reached members whose answers are awaited.
    pub(super) awaited: Vec<PeerId>,
    /// Whether the message gives up members soon after they are called down ([`crate::Due::Soon`]).
    pub(super) is_soon: bool,
    pub(super) reply: Reply,
}

/// A message that the relay is done with, and the answers that have come.
pub(super) struct Collected {
    pub(super) settled: Settled,
    pub(super) heard: BTreeMap<PeerId, Heard>,
}

/// All messages for which answers are collected, by sequence. There are at most
/// [`Collections::MAX`]; a further message is refused. A reply that would bring all replies above
/// [`Collections::MAX_BYTES`] is stored only if an equal one is stored already; otherwise the
/// receipt says `no-room` for its sender.
#[derive(Default)]
pub(super) struct Collections {
    open: BTreeMap<u64, Collection>,
    /// When the wait ends for messages that the relay is done with.
    due: BTreeSet<(Instant, u64)>,
    /// Messages that wait for no further answer: none is missing, or their time is over.
    finished: BTreeSet<u64>,
    contents: Contents,
    /// The relay's count of losses when lost members were last given up.
    pub(super) losses: u64,
}

/// The texts of replies; equal replies share one entry, with a count.
#[derive(Default)]
struct Contents {
    counts: BTreeMap<Bytes, u32>,
    bytes: usize,
}

impl Contents {
    fn store(&mut self, reply: Bytes) -> Heard {
        if let Some((same, count)) = self.counts.get_key_value(&reply) {
            let (same, count) = (same.clone(), count.saturating_add(1));
            self.counts.insert(same.clone(), count);
            return Heard::Reply(same);
        }
        if self.bytes + reply.len() > Collections::MAX_BYTES {
            return Heard::Not("no-room");
        }
        self.bytes += reply.len();
        self.counts.insert(reply.clone(), 1);
        Heard::Reply(reply)
    }

    fn release(&mut self, reply: &Bytes) {
        match self.counts.get_mut(reply) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                self.counts.remove(reply);
                self.bytes -= reply.len();
            }
            None => {}
        }
    }
}

impl Collections {
    /// The most messages for which answers are collected. A guess: with the answers of 1,000 members
    /// to each, they take some 100 MB. With fewer, bursts of questions are refused.
    pub(super) const MAX: usize = 1024;
    /// The most bytes of replies. A guess: the longest reply from each of 4,096 members, twice.
    pub(super) const MAX_BYTES: usize = 32 << 20;
    /// The most receivers that may answer one message: as many as a roster names.
    const MAX_HEARD: usize = 4096;

    /// The number of messages, and the bytes of the replies to them.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.open.len(), self.contents.bytes)
    }

    /// The number of messages that the relay is done with and that still wait for answers.
    pub(super) fn settled_count(&self) -> usize {
        let all = self.open.values();
        all.filter(|collection| collection.settled.is_some())
            .count()
    }

    /// Whether there is room for the answers to one more message, besides those of `to_begin`
    /// messages that still wait.
    pub(super) fn has_room_besides(&self, to_begin: usize) -> bool {
        self.open.len() + to_begin < Self::MAX
    }

    /// Begin to collect answers to a message.
    pub(super) fn begin(&mut self, sequence: u64, until: Instant) {
        let collection = Collection {
            until,
            heard: BTreeMap::new(),
            missing: BTreeSet::new(),
            settled: None,
        };
        self.open.insert(sequence, collection);
    }

    /// Note the answer of a receiver; only its first answer counts.
    pub(super) fn hear(&mut self, sequence: u64, from: PeerId, result: DeliveryResult) {
        let Some(collection) = self.open.get_mut(&sequence) else {
            return;
        };
        let has_room = collection.heard.len() < Self::MAX_HEARD;
        if !has_room || collection.heard.contains_key(&from) {
            return;
        }
        let heard = match result {
            DeliveryResult::Taken => Heard::Taken,
            DeliveryResult::NoSubscriber => Heard::Not("no-subscriber"),
            DeliveryResult::Missed => Heard::Not("missed"),
            DeliveryResult::Reply(reply) => self.contents.store(reply.into()),
        };
        collection.heard.insert(from, heard);
        let was_last = collection.missing.remove(&from) && collection.missing.is_empty();
        if was_last {
            self.finished.insert(sequence);
        }
    }

    /// Note that the relay is done with a message.
    pub(super) fn settle(&mut self, sequence: u64, settled: Settled) {
        let Some(collection) = self.open.get_mut(&sequence) else {
            return;
        };
        let awaited = settled.awaited.iter().copied();
        let is_missing = |peer: &PeerId| !collection.heard.contains_key(peer);
        collection.missing = awaited.filter(is_missing).collect();
        collection.settled = Some(settled);
        if collection.missing.is_empty() {
            self.finished.insert(sequence);
        } else {
            self.due.insert((collection.until, sequence));
        }
    }

    /// Stop waiting for the answers of lost members. This is for messages with [`crate::Due::Soon`]
    /// that the relay is done with; others go on waiting.
    pub(super) fn give_up(
        &mut self,
        sequences: impl RangeBounds<u64>,
        is_lost: impl Fn(PeerId) -> bool,
    ) {
        for (sequence, collection) in self.open.range_mut(sequences) {
            let is_soon = collection.settled.as_ref().is_some_and(|it| it.is_soon);
            if !is_soon || collection.missing.is_empty() {
                continue;
            }
            let heard = &mut collection.heard;
            collection.missing.retain(|peer| {
                let is_lost = is_lost(*peer);
                if is_lost {
                    heard.insert(*peer, Heard::Not("down"));
                }
                !is_lost
            });
            if collection.missing.is_empty() {
                self.finished.insert(*sequence);
            }
        }
    }

    /// When the next wait for answers ends, among the messages that the relay is done with.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Take the messages that the relay is done with and that wait for no further answer: none is
    /// missing, or their time is over.
    pub(super) fn take_finished(&mut self, now: Instant) -> Vec<Collected> {
        while let Some((until, sequence)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(until, sequence));
            self.finished.insert(sequence);
        }
        let finished = std::mem::take(&mut self.finished);
        finished
            .into_iter()
            .filter_map(|at| self.take(at))
            .collect()
    }

    /// End all collections, since no answer can come any more. Returns the messages that the relay
    /// is done with.
    pub(super) fn take_all(&mut self) -> Vec<Collected> {
        let all: Vec<u64> = self.open.keys().copied().collect();
        all.into_iter().filter_map(|at| self.take(at)).collect()
    }

    fn take(&mut self, sequence: u64) -> Option<Collected> {
        let collection = self.open.remove(&sequence)?;
        self.due.remove(&(collection.until, sequence));
        for heard in collection.heard.values() {
            if let Heard::Reply(reply) = heard {
                self.contents.release(reply);
            }
        }
        Some(Collected {
            settled: collection.settled?,
            heard: collection.heard,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    fn peer(n: u8) -> PeerId {
        PeerId::from_bytes([n; 16])
    }

    fn settled(reached: &[u8]) -> Settled {
        Settled {
            since: super::super::now(),
            receipt: Receipt::default(),
            reached: reached.iter().map(|n| peer(*n)).collect(),
            awaited: reached.iter().map(|n| peer(*n)).collect(),
            is_soon: true,
            reply: oneshot::channel().0,
        }
    }

    #[tokio::test]
    async fn a_collection_ends_when_all_who_have_the_message_have_answered_or_in_time() {
        let start = super::super::now();
        let mut all = Collections::default();
        for sequence in [1, 2] {
            all.begin(sequence, start + Duration::from_secs(sequence));
        }
        all.hear(1, peer(1), DeliveryResult::Taken);
        all.hear(9, peer(1), DeliveryResult::Taken);
        assert_eq!(all.next_deadline(), None);
        all.settle(1, settled(&[1, 2]));
        all.settle(2, settled(&[1]));
        assert_eq!(all.next_deadline(), Some(start + Duration::from_secs(1)));
        assert!(all.take_finished(start).is_empty());
        all.hear(1, peer(2), DeliveryResult::Missed);
        all.hear(1, peer(2), DeliveryResult::Taken);
        let finished = all.take_finished(start);
        let [Collected { heard, .. }] = &finished[..] else {
            panic!("one is finished");
        };
        let expected = [(peer(1), Heard::Taken), (peer(2), Heard::Not("missed"))];
        assert_eq!(*heard, expected.into());
        assert!(
            all.take_finished(start + Duration::from_millis(1999))
                .is_empty()
        );
        assert_eq!(all.take_finished(start + Duration::from_secs(2)).len(), 1);
        assert_eq!(all.next_deadline(), None);
    }

    #[tokio::test]
    async fn a_collection_does_not_wait_for_a_lost_member() {
        let start = super::super::now();
        let mut all = Collections::default();
        all.begin(1, start + Duration::from_secs(60));
        all.hear(1, peer(1), DeliveryResult::Taken);
        all.settle(1, settled(&[1, 2, 3]));
        all.give_up(.., |lost| lost == peer(2));
        assert!(all.take_finished(start).is_empty(), "one is missing");
        all.hear(1, peer(3), DeliveryResult::Taken);
        let finished = all.take_finished(start);
        assert_eq!(finished.len(), 1);
        assert_eq!(finished[0].heard[&peer(2)], Heard::Not("down"));
    }

    #[tokio::test]
    async fn collections_are_bounded_with_those_that_are_yet_to_begin() {
        let mut all = Collections::default();
        assert!(all.has_room_besides(Collections::MAX - 1));
        assert!(!all.has_room_besides(Collections::MAX));
        let until = super::super::now();
        (0..10).for_each(|sequence| all.begin(sequence, until));
        assert!(all.has_room_besides(Collections::MAX - 11));
        assert!(!all.has_room_besides(Collections::MAX - 10));
    }

    #[tokio::test]
    async fn equal_answers_are_kept_once_and_all_together_are_bounded() {
        let mut all = Collections::default();
        let until = super::super::now();
        (0..16).for_each(|sequence| all.begin(sequence, until));
        let long = |n: usize| DeliveryResult::Reply(n.to_be_bytes().repeat(512));
        let count = Collections::MAX_BYTES / 4096;
        for n in 0..=count {
            let from = PeerId::from_bytes((n as u128).to_be_bytes());
            all.hear((n % 16) as u64, from, long(n));
        }
        assert_eq!(all.contents.bytes, Collections::MAX_BYTES);
        all.hear(0, peer(200), long(0));
        assert_eq!(all.contents.bytes, Collections::MAX_BYTES, "known already");
        all.hear(1, peer(201), long(count + 1));
        assert_eq!(all.open[&1].heard[&peer(201)], Heard::Not("no-room"));
        assert!(matches!(all.open[&0].heard[&peer(200)], Heard::Reply(_)));
        (0..16).for_each(|sequence| all.settle(sequence, settled(&[])));
        assert_eq!(all.take_finished(until).len(), 16);
        assert_eq!((all.contents.bytes, all.contents.counts.len()), (0, 0));
    }

    #[tokio::test]
    async fn unasked_answers_take_no_room_and_finished_collections_give_theirs_back() {
        let mut all = Collections::default();
        let until = super::super::now();
        let long = |n: u64| DeliveryResult::Reply(n.to_be_bytes().repeat(512));
        all.begin(0, until);
        for n in 0..3 {
            all.hear(77, peer(1), long(n));
            all.hear(0, peer(1), long(n));
        }
        assert_eq!(all.contents.bytes, 4096, "the first answer alone");
        // The other message stays open all the time.
        for sequence in 1..=3 * Collections::MAX_BYTES as u64 / 4096 {
            all.begin(sequence, until);
            all.hear(sequence, peer(2), long(1000 + sequence));
            all.settle(sequence, settled(&[2]));
            let finished = all.take_finished(until);
            assert!(
                matches!(finished[0].heard[&peer(2)], Heard::Reply(_)),
                "{sequence}"
            );
        }
        assert_eq!(all.contents.bytes, 4096);
        all.settle(0, settled(&[1, 3]));
        assert_eq!(all.take_all().len(), 1);
        assert_eq!((all.contents.bytes, all.next_deadline()), (0, None));
    }
}
