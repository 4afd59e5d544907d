//! The answers of this node to messages whose origin asks what became of them here. That a node has
//! a message is in the receipt anyway; an answer says whether a subscriber took it, or what the
//! application replies. An answer is a message of its own on a reserved topic.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_routing::packet::{Confirmation, Payloads};
use binomesh_routing::{self as routing, PacketId, PublishError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Host;
use super::collections::Collections;
use crate::catalogue;
use crate::command::SendError;
use crate::report::Reply;
use crate::subscription::Offered;
use crate::topic::Topic;

/// The topic of answers.
const ANSWERS: &str = "$answer";
/// How long the relay tries to deliver an answer. A guess: origins seldom wait longer. With less,
/// answers over a slow network are lost; with more, they take up room for origins that have stopped
/// waiting.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether messages of a topic are answers.
pub(super) fn is_answer(topic: &Topic) -> bool {
    topic.as_str() == ANSWERS
}

/// The result of a message at one receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum DeliveryResult {
    /// A subscriber took the message.
    Taken,
    /// The node has no subscriber for the topic of the message.
    NoSubscriber,
    /// No subscriber had room for the message, or the listener that was called panicked.
    Missed,
    /// The application answered with these bytes.
    Reply(Vec<u8>),
}

/// An answer, with the boot and sequence of the message that it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) boot: u64,
    pub(super) sequence: u64,
    pub(super) result: DeliveryResult,
}

impl Answer {
    /// Parse the answer in a payload; `None` if it is malformed or too long.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let (answer, rest) = postcard::take_from_bytes::<Self>(payload).ok()?;
        let fits = match &answer.result {
            DeliveryResult::Reply(reply) => reply.len() <= Reply::MAX_BYTES,
            _ => true,
        };
        (rest.is_empty() && fits).then_some(answer)
    }
}

/// The answer that the node itself gives for a message. `None` if the origin asks for none, or if
/// it asks for the application's and a subscriber took the message.
pub(super) fn own_result(confirmation: Confirmation, offered: Offered) -> Option<DeliveryResult> {
    let lost = if offered.missed > 0 {
        DeliveryResult::Missed
    } else {
        DeliveryResult::NoSubscriber
    };
    match confirmation {
        Confirmation::Relayed => None,
        _ if offered.taken == 0 => Some(lost),
        Confirmation::Delivered => Some(DeliveryResult::Taken),
        // The application has to acknowledge the message, not the node.
        Confirmation::Acknowledged => None,
    }
}

impl Host {
    /// Answer a message with the reply of an application.
    pub(super) fn reply(&mut self, to: PacketId<PeerId>, reply: Bytes) -> Result<(), SendError> {
        self.answer(to, DeliveryResult::Reply(reply.to_vec()))
    }

    /// Queue an answer, which is sent when its turn comes.
    pub(super) fn answer(
        &mut self,
        to: PacketId<PeerId>,
        result: DeliveryResult,
    ) -> Result<(), SendError> {
        let answer = Answer {
            boot: to.boot,
            sequence: to.sequence,
            result,
        };
        let payload = postcard::to_stdvec(&answer).map_err(|_| SendError::NotReady)?;
        if !self.answers.push(to.origin, payload.into()) {
            catalogue::ANSWERS_DROPPED.get().increment(1);
            return Err(SendError::Busy);
        }
        self.note_room();
        Ok(())
    }

    /// Send the answers whose turn has come.
    pub(super) fn attend_answers(&mut self) {
        while let Some((to, together)) = self.answers.next() {
            let (Some(payloads), Ok(topic)) = (Payloads::join(&together), Topic::new(ANSWERS))
            else {
                return;
            };
            let publish = routing::Publish {
                topic,
                payloads,
                destination: routing::Destination::Peers(vec![to]),
                strategy: routing::strategy::Strategy::default(),
                due: routing::Due::Within(PATIENCE),
                confirmation: Confirmation::Relayed,
                is_ordered: false,
            };
            match self.publish(publish) {
                Ok(first) => {
                    self.answers.sent(to, first.sequence, together.len());
                    self.perform();
                }
                Err(
                    PublishError::WindowFull(_)
                    | PublishError::MemoryFull { .. }
                    | PublishError::RosterIncomplete(_)
                    | PublishError::Unplaced
                    | PublishError::NotSigned,
                ) => {
                    // The relay may have ended other messages to make room; perform that.
                    self.perform();
                    return;
                }
                // The peer is no member any more, or this node cannot send to it at all, for
                // example while it leaves.
                Err(_) => self.answers.forget(to),
            }
        }
    }
}

/// Answers on their way. A peer that asks but takes no answers delays only the answers to itself:
/// few packets are open to it, and it may fill about half of the room that others left. Twelve to
/// sixteen such peers together delay all answers for about [`PATIENCE`], and leave little room to
/// others, whose further answers are dropped.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: BTreeMap<PeerId, VecDeque<Bytes>>,
    count: usize,
    /// Packets without a receipt yet, and their receivers.
    open: BTreeMap<u64, PeerId>,
    /// The peer that had its turn last.
    last: Option<PeerId>,
}

impl Answers {
    /// The most answers that wait for one peer: as many as there are messages for which a node
    /// collects answers at once. One more is dropped and counted.
    const MAX_EACH: usize = Collections::MAX;
    /// The most answers that wait in all: room for seven peers with the most that one may have. A
    /// guess; an answer has at most some 4 KiB.
    const MAX: usize = 8192;
    /// The most answers in one packet. A guess: all open answers together are at most a quarter of
    /// the relay's window. The oldest open one, as any open message, holds the start of the window.
    const MAX_TOGETHER: usize = 64;
    /// While fewer packets of answers than this are open, a peer without an open packet gets one. A
    /// guess: a quarter of the relay's own bound.
    const MAX_OPEN: usize = 16;
    /// While fewer packets of answers than this are open, a peer with one open packet gets a second.
    /// A guess: with more, few peers that take no answers hold up the first packets of others.
    const MAX_OPEN_SECOND: usize = 8;

    /// Returns whether there was room.
    fn push(&mut self, to: PeerId, answer: Bytes) -> bool {
        let waiting = self.waiting.get(&to).map_or(0, VecDeque::len);
        // At least as many places stay free as this peer had before.
        let has_room = waiting < Self::MAX_EACH && self.count + waiting < Self::MAX;
        if has_room {
            self.waiting.entry(to).or_default().push_back(answer);
            self.count += 1;
        }
        has_room
    }

    /// The number of answers that wait.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// The next peer to serve, round robin, and the answers that go to it in one packet.
    fn next(&self) -> Option<(PeerId, Vec<Bytes>)> {
        if self.open.len() >= Self::MAX_OPEN {
            return None;
        }
        let open_to = |peer: PeerId| self.open.values().filter(|to| **to == peer).count();
        let may = |peer: &PeerId| match open_to(*peer) {
            0 => true,
            1 => self.open.len() < Self::MAX_OPEN_SECOND,
            _ => false,
        };
        let peers = || self.waiting.iter();
        let mut behind = peers().filter(|(peer, _)| self.last.is_none_or(|last| **peer > last));
        let found = behind.find(|(peer, _)| may(peer));
        let (to, all) = found.or_else(|| peers().find(|(peer, _)| may(peer)))?;
        let mut bytes = 0;
        let fits = |answer: &&Bytes| {
            bytes += answer.len();
            bytes <= Payloads::MAX_BYTES
        };
        let together = all.iter().take(Self::MAX_TOGETHER).take_while(fits);
        Some((*to, together.cloned().collect()))
    }

    fn sent(&mut self, to: PeerId, sequence: u64, count: usize) {
        self.open.insert(sequence, to);
        self.last = Some(to);
        if let Some(all) = self.waiting.get_mut(&to) {
            self.count -= all.drain(..count.min(all.len())).count();
            if all.is_empty() {
                self.waiting.remove(&to);
            }
        }
    }

    fn forget(&mut self, to: PeerId) {
        self.count -= self.waiting.remove(&to).map_or(0, |all| all.len());
    }

    /// Note the receipt of a packet. Returns whether it was a packet of answers.
    pub(super) fn done(&mut self, sequence: u64) -> bool {
        self.open.remove(&sequence).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_back_and_nonsense_and_long_ones_are_not() {
        let answer = |result| Answer {
            boot: 3,
            sequence: 4,
            result,
        };
        let long = vec![7; Reply::MAX_BYTES + 1];
        for (result, is_read) in [
            (DeliveryResult::Taken, true),
            (DeliveryResult::Reply(Vec::new()), true),
            (DeliveryResult::Reply(long[1..].to_vec()), true),
            (DeliveryResult::Reply(long), false),
        ] {
            let answer = answer(result);
            let bytes = postcard::to_stdvec(&answer).unwrap();
            assert_eq!(Answer::parse(&bytes), is_read.then_some(answer));
            assert_eq!(Answer::parse(&[&bytes[..], b"x"].concat()), None);
            assert_eq!(Answer::parse(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(Answer::parse(b"hello"), None);
    }

    #[test]
    fn a_node_answers_itself_if_no_application_can() {
        use Confirmation::{Acknowledged, Delivered, Relayed};
        let offered = |taken, missed| Offered { taken, missed };
        for (asked, offered, expected) in [
            (Relayed, offered(0, 0), None),
            (Delivered, offered(0, 0), Some(DeliveryResult::NoSubscriber)),
            (Delivered, offered(0, 2), Some(DeliveryResult::Missed)),
            (Delivered, offered(1, 2), Some(DeliveryResult::Taken)),
            (
                Acknowledged,
                offered(0, 0),
                Some(DeliveryResult::NoSubscriber),
            ),
            (Acknowledged, offered(0, 1), Some(DeliveryResult::Missed)),
            (Acknowledged, offered(1, 0), None),
        ] {
            assert_eq!(own_result(asked, offered), expected);
        }
    }

    #[test]
    fn a_peer_that_takes_no_answers_holds_up_its_own_alone() {
        let peer = |n: u8| PeerId::from_bytes([n; 16]);
        let mut answers = Answers::default();
        let text = Bytes::from_static(b"answer");
        for _ in 0..Answers::MAX_EACH {
            assert!(answers.push(peer(1), text.clone()));
        }
        assert!(!answers.push(peer(1), text.clone()));
        assert!(answers.push(peer(2), text.clone()));
        let mut told = Vec::new();
        for sequence in 0.. {
            let Some((to, together)) = answers.next() else {
                break;
            };
            answers.sent(to, sequence, together.len());
            told.push((to, together.len()));
        }
        let most = Answers::MAX_TOGETHER;
        assert_eq!(told, [(peer(1), most), (peer(2), 1), (peer(1), most)]);
        assert_eq!(answers.count, Answers::MAX_EACH - 2 * most);
        assert!(answers.done(0) && !answers.done(7));
        assert_eq!(answers.next().map(|(to, _)| to), Some(peer(1)));
        answers.forget(peer(1));
        assert!(answers.next().is_none());
        assert_eq!(answers.count, 0);
    }

    #[test]
    fn many_peers_that_take_no_answers_leave_room_for_another() {
        let peer = |n: u8| PeerId::from_bytes([n; 16]);
        let text = Bytes::from_static(b"answer");
        let mut answers = Answers::default();
        // Eleven ask for as much as they may, and take nothing.
        for n in 1..=11 {
            while answers.push(peer(n), text.clone()) {}
        }
        let waiting = |answers: &Answers, n| answers.waiting[&peer(n)].len();
        assert_eq!(waiting(&answers, 7), Answers::MAX_EACH);
        // One more would leave less for others than the peer has.
        assert_eq!(waiting(&answers, 8), Answers::MAX_EACH / 2);
        for n in 12..=17 {
            assert!(answers.push(peer(n), text.clone()), "peer {n}");
        }
        let mut sequences = 0..;
        let mut send = |answers: &mut Answers| {
            let (to, together) = answers.next()?;
            answers.sent(to, sequences.next()?, together.len());
            Some(to)
        };
        for n in 1..=16 {
            assert_eq!(send(&mut answers), Some(peer(n)));
        }
        assert_eq!(answers.open.len(), Answers::MAX_OPEN);
        assert_eq!(send(&mut answers), None);
        // A receipt of any packet makes room.
        assert!(answers.done(0));
        assert_eq!(send(&mut answers), Some(peer(17)));
    }

    #[test]
    fn answers_are_bounded_in_all() {
        let text = Bytes::from_static(b"answer");
        let mut full = Answers::default();
        for n in 1..=255 {
            while full.push(PeerId::from_bytes([n; 16]), text.clone()) {}
        }
        assert_eq!(full.count, Answers::MAX);
        let longest = full.waiting.values().map(VecDeque::len).max();
        assert_eq!(longest, Some(Answers::MAX_EACH));
        assert!(!full.push(PeerId::from_bytes([0; 16]), text));
    }
}
