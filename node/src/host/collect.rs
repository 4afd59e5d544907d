//! Own messages whose receivers are asked for an answer: what they have said so far.

use std::collections::{BTreeMap, BTreeSet};

use binomesh_overlay::PeerId;
use bytes::Bytes;
use tokio::time::Instant;

use super::answer::Said;
use super::outgoing::Reply;
use crate::report::Receipt;

/// What a receiver has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// A subscriber has it.
    Taken,
    /// It answered this.
    Reply(Bytes),
    /// Neither, for this reason.
    Not(&'static str),
}

/// A message that answers are collected for.
struct Collection {
    /// When they are awaited no longer.
    until: Instant,
    heard: BTreeMap<PeerId, Heard>,
    /// The relay is done with it: its receipt, who has it, and who wants to know.
    settled: Option<Settled>,
}

/// What is known of a message but the answers to it.
pub(super) struct Settled {
    pub(super) receipt: Receipt,
    pub(super) reached: Vec<PeerId>,
    /// Of these, whose answers are awaited.
    pub(super) awaited: Vec<PeerId>,
    pub(super) reply: Reply,
}

/// All messages that answers are collected for, by sequence. At most
/// [`Collections::MAX`], then no further one is accepted; of answers beyond
/// [`Collections::MAX_BYTES`] only that they came is kept.
#[derive(Default)]
pub(super) struct Collections {
    open: BTreeMap<u64, Collection>,
    /// Answers, equal ones as one.
    contents: BTreeSet<Bytes>,
    bytes: usize,
}

impl Collections {
    /// As many as a receiver's window has messages.
    pub(super) const MAX: usize = 1024;
    /// A guess: 4,096 members with an answer each of the longest, twice.
    pub(super) const MAX_BYTES: usize = 32 << 20;
    /// How many may answer one message: as many as a roster names.
    const MAX_HEARD: usize = 4096;

    pub(super) fn has_room(&self) -> bool {
        self.open.len() < Self::MAX
    }

    /// Answers to an own message are awaited.
    pub(super) fn begin(&mut self, sequence: u64, until: Instant) {
        let collection = Collection {
            until,
            heard: BTreeMap::new(),
            settled: None,
        };
        self.open.insert(sequence, collection);
    }

    /// A receiver has answered; the first answer counts.
    pub(super) fn hear(&mut self, sequence: u64, from: PeerId, said: Said) {
        let heard = match said {
            Said::Taken => Heard::Taken,
            Said::NoSubscriber => Heard::Not("no-subscriber"),
            Said::Missed => Heard::Not("missed"),
            Said::Reply(reply) => self.stored(reply.into()),
        };
        let Some(collection) = self.open.get_mut(&sequence) else {
            return;
        };
        if collection.heard.len() < Self::MAX_HEARD {
            collection.heard.entry(from).or_insert(heard);
        }
    }

    fn stored(&mut self, reply: Bytes) -> Heard {
        if let Some(same) = self.contents.get(&reply) {
            return Heard::Reply(same.clone());
        }
        if self.bytes + reply.len() > Self::MAX_BYTES {
            return Heard::Not("no-room");
        }
        self.bytes += reply.len();
        self.contents.insert(reply.clone());
        Heard::Reply(reply)
    }

    /// The relay is done with a message that is collected for.
    pub(super) fn settle(&mut self, sequence: u64, settled: Settled) {
        if let Some(collection) = self.open.get_mut(&sequence) {
            collection.settled = Some(settled);
        }
    }

    /// When the next one is awaited no longer.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let settled = self.open.values().filter(|open| open.settled.is_some());
        settled.map(|open| open.until).min()
    }

    /// Take the settled ones that everybody who has them has answered, or whose time is
    /// over.
    pub(super) fn take_finished(
        &mut self,
        now: Instant,
    ) -> Vec<(Settled, BTreeMap<PeerId, Heard>)> {
        let finished: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, open)| open.is_finished(now))
            .map(|(sequence, _)| *sequence)
            .collect();
        let mut taken = Vec::new();
        for sequence in finished {
            let Some(collection) = self.open.remove(&sequence) else {
                continue;
            };
            if let Some(settled) = collection.settled {
                taken.push((settled, collection.heard));
            }
        }
        if self.open.is_empty() {
            self.contents.clear();
            self.bytes = 0;
        }
        taken
    }
}

impl Collection {
    fn is_finished(&self, now: Instant) -> bool {
        let Some(settled) = &self.settled else {
            return false;
        };
        let mut awaited = settled.awaited.iter();
        now >= self.until || awaited.all(|peer| self.heard.contains_key(peer))
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
            receipt: Receipt::default(),
            reached: reached.iter().map(|n| peer(*n)).collect(),
            awaited: reached.iter().map(|n| peer(*n)).collect(),
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
        all.hear(1, peer(1), Said::Taken);
        all.hear(9, peer(1), Said::Taken);
        assert_eq!(all.next_deadline(), None);
        all.settle(1, settled(&[1, 2]));
        all.settle(2, settled(&[1]));
        assert_eq!(all.next_deadline(), Some(start + Duration::from_secs(1)));
        assert!(all.take_finished(start).is_empty());
        all.hear(1, peer(2), Said::Missed);
        all.hear(1, peer(2), Said::Taken);
        let finished = all.take_finished(start);
        let [(_, heard)] = &finished[..] else {
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
    async fn equal_answers_are_kept_once_and_all_together_are_bounded() {
        let mut all = Collections::default();
        let until = super::super::now();
        (0..16).for_each(|sequence| all.begin(sequence, until));
        let long = |n: usize| Said::Reply(n.to_be_bytes().repeat(512));
        let count = Collections::MAX_BYTES / 4096;
        for n in 0..=count {
            let from = PeerId::from_bytes((n as u128).to_be_bytes());
            all.hear((n % 16) as u64, from, long(n));
        }
        assert_eq!(all.bytes, Collections::MAX_BYTES);
        all.hear(0, peer(200), long(0));
        assert_eq!(all.bytes, Collections::MAX_BYTES, "known already");
        all.hear(1, peer(201), long(count + 1));
        assert_eq!(all.open[&1].heard[&peer(201)], Heard::Not("no-room"));
        assert!(matches!(all.open[&0].heard[&peer(200)], Heard::Reply(_)));
        (0..16).for_each(|sequence| all.settle(sequence, settled(&[])));
        assert_eq!(all.take_finished(until).len(), 16);
        assert_eq!((all.bytes, all.contents.len()), (0, 0));
    }
}
