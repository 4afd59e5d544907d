//! Messages about collectives on their way to the relay, which takes a limited number at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use binomesh_overlay::Id;
use binomesh_routing::collective::Message;
use binomesh_routing::packet::{Confirmation, Payloads};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{self as routing, Delivery, Due, Publish, Receipt, Relay, Topic};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The topic of collectives.
const TOPIC: &str = "$collective";
/// The most letters (messages for the same members) that wait for the relay in one lane. Messages
/// that would need a further letter are dropped and counted; a member that misses a message asks
/// for it again.
const MAX_WAITING: usize = 4096;
/// The most messages of one letter, and the size up to which messages are added to it, unless
/// payloads have to be shorter. Guesses: larger letters take long on a link, smaller ones use up
/// the relay's window. A coordinator of 64 members asks each of them for 64 values.
const MAX_TOGETHER: usize = 64;
const MAX_TOGETHER_BYTES: usize = 16 << 10;
/// The most bytes of all waiting letters; further messages are dropped and counted.
const MAX_BYTES: usize = 64 << 20;
/// The most members that are remembered as slow: as many as a roster has.
const MAX_SLOW: usize = 4096;

/// A class of messages with its own share of the relay's open packets. Messages of one lane never
/// wait for another lane. All lanes together have half of the packets, so that users find room for
/// theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Lane {
    /// Short messages.
    Words,
    /// Pieces of long values.
    Pieces,
    /// Messages to members that did not confirm their last one in time. A slow member is
    /// the only receiver of its letters, so no other member waits with it.
    Slow,
}

impl Lane {
    const ALL: [Self; 3] = [Self::Words, Self::Pieces, Self::Slow];

    /// The most packets of this lane that may be open.
    const fn room(self) -> usize {
        match self {
            Self::Words => 16,
            Self::Pieces => 12,
            Self::Slow => 4,
        }
    }

    /// The time for which a message is tried; a member that misses it then asks again. Guesses:
    /// with less, slow members miss messages and ask again too often; with more, a lane is blocked
    /// longer.
    const fn patience(self) -> Duration {
        match self {
            Self::Words | Self::Slow => Duration::from_secs(1),
            Self::Pieces => Duration::from_secs(5),
        }
    }
}

/// Whether a topic is the one of collectives.
pub(crate) fn is_of_collectives(topic: &Topic) -> bool {
    topic.as_str() == TOPIC
}

/// The messages about collectives in a delivery. A letter is read up to its first malformed
/// message.
pub(super) fn messages_of<I: Id + DeserializeOwned>(delivery: &Delivery<I>) -> Vec<Message<I>> {
    let payloads = delivery.messages().map(|(_, _, payload)| payload);
    payloads.flat_map(|payload| opened(&payload)).collect()
}

/// The messages in a letter.
fn opened<I: Id + DeserializeOwned>(mut letter: &[u8]) -> Vec<Message<I>> {
    let mut messages = Vec::new();
    while messages.len() < MAX_TOGETHER
        && let Ok((message, rest)) = postcard::take_from_bytes(letter)
    {
        messages.push(message);
        letter = rest;
    }
    messages
}

/// The letters that wait for the relay, and the packets that it has already taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Mail<I> {
    waiting: BTreeMap<Lane, VecDeque<Letter<I>>>,
    /// The bytes of all waiting letters.
    bytes: usize,
    /// The open packets, by sequence number.
    open: BTreeMap<u64, Lane>,
    /// Packets without a letter in `open`, users' too, whose receipt came since the last call of
    /// [`Mail::next`].
    ended: BTreeSet<u64>,
    /// Members that did not confirm the last message to them in time.
    slow: BTreeSet<I>,
    /// The size up to which messages are added to a letter.
    together: usize,
    dropped: u64,
}

impl<I: Id + Serialize> Mail<I> {
    /// A mailbox for a relay that takes payloads of at most `payload_max` bytes.
    pub(super) fn new(payload_max: usize) -> Self {
        Self {
            together: MAX_TOGETHER_BYTES.min(payload_max),
            waiting: BTreeMap::new(),
            bytes: 0,
            open: BTreeMap::new(),
            ended: BTreeSet::new(),
            slow: BTreeSet::new(),
            dropped: 0,
        }
    }

    pub(super) fn push(&mut self, to: Vec<I>, message: &Message<I>) {
        let Ok(bytes) = postcard::to_stdvec(message) else {
            return;
        };
        let lane = match message {
            Message::Piece { .. } => Lane::Pieces,
            _ => Lane::Words,
        };
        self.queue(lane, to, bytes.into());
    }

    /// Add a message to the last waiting letter for the same members, if that letter has room. A
    /// message that this letter already has is not added again. So two members that exchange many
    /// messages do not hold up others, even if few letters may be open at once.
    fn queue(&mut self, lane: Lane, to: Vec<I>, payload: Bytes) {
        let queue = self.waiting.entry(lane).or_default();
        let last = queue.iter().rposition(|letter| letter.to == to);
        let last = last.and_then(|place| queue.get_mut(place));
        if last
            .as_ref()
            .is_some_and(|one| one.payloads.contains(&payload))
        {
            return;
        }
        let together = self.together;
        let last = last.filter(|letter| letter.has_room(&payload, together));
        let fits = self.bytes + payload.len() <= MAX_BYTES;
        let bytes = payload.len();
        if let Some(last) = last.filter(|_| fits) {
            last.payloads.push(payload);
        } else if fits && queue.len() < MAX_WAITING {
            let payloads = vec![payload];
            queue.push_back(Letter { to, payloads });
        } else {
            self.dropped += 1;
            return;
        }
        self.bytes += bytes;
    }

    /// Drop all waiting letters.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }

    /// The number of messages that were dropped for want of room.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Close the packet of this receipt, and return whether it was a packet of a letter.
    pub(super) fn close(&mut self, receipt: &Receipt<I>) -> bool {
        let was_open = self.open.remove(&receipt.id.sequence).is_some();
        if !was_open {
            self.ended.insert(receipt.id.sequence);
            return false;
        }
        for peer in &receipt.reached_peers {
            self.slow.remove(peer);
        }
        let unreached = receipt.unreached.iter().filter_map(|one| one.peer);
        for peer in unreached {
            if self.slow.len() < MAX_SLOW {
                self.slow.insert(peer);
            }
        }
        true
    }

    /// Forget the open packets: they belong to a life that is over.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }

    /// The next letter for the relay to publish, if a lane has room for one.
    pub(super) fn next(
        &mut self,
        me: I,
        relay: &Relay<I>,
    ) -> Option<(Publish<I>, OutgoingLetter<I>)> {
        self.ended.clear();
        for lane in Lane::ALL {
            let is_open = |other: &&Lane| **other == lane;
            while self.open.values().filter(is_open).count() < lane.room()
                && let Some(letter) = self.pop(lane)
            {
                let letter = match lane {
                    Lane::Slow => letter,
                    Lane::Words | Lane::Pieces => self.set_slow_aside(letter),
                };
                if let Some(publish) = letter.publish(me, relay, lane.patience()) {
                    return Some((publish, OutgoingLetter { lane, letter }));
                }
            }
        }
        None
    }

    fn pop(&mut self, lane: Lane) -> Option<Letter<I>> {
        let letter = self.waiting.get_mut(&lane)?.pop_front()?;
        self.bytes -= letter.len();
        Some(letter)
    }

    /// Remove the slow members from a letter's receivers, and give each a letter of its own.
    fn set_slow_aside(&mut self, mut letter: Letter<I>) -> Letter<I> {
        let is_slow = |peer: &I| self.slow.contains(peer);
        let (slow, quick): (Vec<I>, Vec<I>) = letter.to.into_iter().partition(is_slow);
        letter.to = quick;
        for peer in slow {
            let waiting = self.waiting.get(&Lane::Slow).into_iter().flatten();
            let to_it = waiting.filter(|other| other.to == [peer]).count();
            // A slow member for which as many letters wait as its lane may have open asks for the
            // rest itself.
            if to_it < Lane::Slow.room() {
                for payload in &letter.payloads {
                    self.queue(Lane::Slow, vec![peer], payload.clone());
                }
            }
        }
        letter
    }

    fn put_back(&mut self, sent: OutgoingLetter<I>) {
        self.bytes += sent.letter.len();
        let queue = self.waiting.entry(sent.lane).or_default();
        queue.push_front(sent.letter);
    }

    /// Note how the relay took a letter, and return whether the next one may be tried.
    pub(super) fn on_published(
        &mut self,
        mut sent: OutgoingLetter<I>,
        outcome: &Result<routing::PacketId<I>, routing::PublishError<I>>,
    ) -> bool {
        use routing::PublishError as Error;
        match outcome {
            Ok(id) => {
                // The packet may have ended already, if no receiver is there.
                if !self.ended.contains(&id.sequence) {
                    self.open.insert(id.sequence, sent.lane);
                }
                true
            }
            Err(Error::WindowFull(_) | Error::MemoryFull { .. }) => {
                self.put_back(sent);
                false
            }
            // A member that has gone meanwhile asks for the message when it returns.
            Err(
                Error::UnknownPeer(peer) | Error::HasLeft(peer) | Error::RosterIncomplete(peer),
            ) => {
                sent.letter.to.retain(|to| to != peer);
                self.put_back(sent);
                true
            }
            Err(_) => true,
        }
    }
}

/// A letter that is being handed to the relay.
pub(super) struct OutgoingLetter<I> {
    lane: Lane,
    letter: Letter<I>,
}

/// Messages of collectives, and the members that get them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Letter<I> {
    to: Vec<I>,
    payloads: Vec<Bytes>,
}

impl<I: Id> Letter<I> {
    fn len(&self) -> usize {
        self.payloads.iter().map(Bytes::len).sum()
    }

    /// Whether this message may be added to a letter of at most `together` bytes.
    fn has_room(&self, payload: &Bytes, together: usize) -> bool {
        self.payloads.len() < MAX_TOGETHER && self.len() + payload.len() <= together
    }

    /// All messages of the letter as one payload: they take one place in the relay's window.
    fn payload(&self) -> Bytes {
        match self.payloads.as_slice() {
            [alone] => alone.clone(),
            all => all.concat().into(),
        }
    }

    /// The letter as a message of the relay, for those receivers that are members now and not
    /// called down; `None` if there is none.
    fn publish(&self, me: I, relay: &Relay<I>, patience: Duration) -> Option<Publish<I>> {
        let roster = relay.roster()?;
        let is_member = |peer: &I| roster.rank_of(*peer).is_some() && !relay.is_down(*peer);
        let to: BTreeSet<I> = self.to.iter().copied().filter(is_member).collect();
        if to.is_empty() {
            return None;
        }
        let peers = roster.peers();
        let is_meant = |peer: &Option<I>| peer.is_some_and(|peer| peer == me || to.contains(&peer));
        let destination = match roster.is_complete() && peers.iter().all(is_meant) {
            true => routing::Destination::All,
            false => routing::Destination::Peers(to.into_iter().collect()),
        };
        Some(Publish {
            topic: Topic::new(TOPIC).ok()?,
            payloads: Payloads::from(self.payload()),
            destination,
            strategy: Strategy::Binomial,
            due: Due::Within(patience),
            confirmation: Confirmation::Relayed,
            is_ordered: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use binomesh_overlay::{Epoch, Outbox, Placement, Population, Rank};
    use binomesh_routing::collective::Key;
    use binomesh_routing::packet::{PacketId, Reason, State};
    use binomesh_routing::{Config, Input, Unreached, View};

    use super::*;

    const EPOCH: Epoch<u32> = Epoch {
        root: 0,
        boot: 1,
        counter: 1,
        nonce: 1,
    };
    const PLACEMENT: Placement<u32> = Placement {
        epoch: EPOCH,
        population: Population::new(4).unwrap(),
        rank: Rank(0),
    };

    /// Member 0 of four, which knows the others.
    fn relay() -> Relay<u32> {
        let mut relay = Relay::new(0, 1, Config::default());
        let view = View {
            placement: PLACEMENT,
            clockwise: vec![Some(1), Some(2)],
            counterclockwise: vec![Some(3), Some(2)],
        };
        relay.handle(Input::View(view), &mut Outbox::new());
        relay
    }

    fn message(generation: u64) -> Message<u32> {
        Message::Ask {
            key: Key {
                name: "job".parse().unwrap(),
                generation,
            },
            digest: [0; 16],
        }
    }

    /// Take all letters that may go, and return the receivers of each. The relay has them as open
    /// packets, whose sequences begin after `first`.
    fn taken(mail: &mut Mail<u32>, relay: &Relay<u32>, first: u64) -> Vec<Vec<u32>> {
        let mut all = Vec::new();
        while let Some((_, sent)) = mail.next(0, relay) {
            all.push(sent.letter.to.clone());
            let id = PacketId {
                origin: 0,
                boot: 1,
                sequence: first + all.len() as u64,
            };
            mail.on_published(sent, &Ok(id));
        }
        all
    }

    fn receipt(sequence: u64, reached: &[u32], unreached: &[u32]) -> Receipt<u32> {
        let lost = unreached.iter().map(|peer| Unreached {
            rank: None,
            peer: Some(*peer),
            state: State::Unconfirmed,
            reason: Reason::Deadline,
        });
        Receipt {
            id: PacketId {
                origin: 0,
                boot: 1,
                sequence,
            },
            count: 1,
            epoch: EPOCH,
            origin_rank: Rank(0),
            population: PLACEMENT.population,
            expected_count: 0,
            reached_count: 0,
            reached: Vec::new(),
            reached_peers: reached.to_vec(),
            unreached: lost.collect(),
            redelegated: 0,
            replaced: Vec::new(),
        }
    }

    #[test]
    fn a_member_that_does_not_confirm_holds_up_no_other() {
        let (mut mail, relay) = (Mail::new(MAX_TOGETHER_BYTES), relay());
        mail.push(vec![1, 2], &message(1));
        assert_eq!(taken(&mut mail, &relay, 0), [[1, 2]]);
        assert!(mail.close(&receipt(1, &[1], &[2])));
        // From now on member 2 has letters of its own, four at a time.
        let mut to = [0, 0];
        for generation in 0..6 {
            mail.push(vec![1, 2], &message(generation));
            for letter in taken(&mut mail, &relay, 10 * generation) {
                to[letter[0] as usize - 1] += 1;
                assert_eq!(letter.len(), 1);
            }
        }
        assert_eq!(to, [6, Lane::Slow.room()]);
        // After one confirmation member 2 is no longer slow; the messages that waited for it go in
        // one letter.
        assert!(mail.close(&receipt(12, &[2], &[])));
        mail.push(vec![1, 2], &message(1));
        assert_eq!(taken(&mut mail, &relay, 60), [vec![1, 2], vec![2]]);
    }

    #[test]
    fn each_lane_has_its_packets_and_waiting_messages_are_bounded() {
        let (mut mail, relay) = (Mail::new(MAX_TOGETHER_BYTES), relay());
        for generation in 0..(MAX_WAITING * MAX_TOGETHER + 3) as u64 {
            mail.push(vec![1], &message(generation));
        }
        assert_eq!(mail.dropped(), 3);
        assert_eq!(taken(&mut mail, &relay, 0).len(), Lane::Words.room());
        assert!(!mail.close(&receipt(999, &[], &[])), "another's");
        assert!(mail.close(&receipt(1, &[1], &[])));
        assert_eq!(taken(&mut mail, &relay, 50).len(), 1);
    }

    /// Member 1 gets 100 messages, each queued twice, and member 2 gets one. Three letters hold
    /// them all.
    #[test]
    fn messages_that_wait_for_the_same_members_go_together_and_once() {
        let (mut mail, relay) = (Mail::new(MAX_TOGETHER_BYTES), relay());
        for generation in 0..100 {
            mail.push(vec![1], &message(generation));
            mail.push(vec![1], &message(generation));
        }
        mail.push(vec![2], &message(0));
        let mut all = Vec::new();
        while let Some((publish, sent)) = mail.next(0, &relay) {
            assert_eq!(publish.payloads.count(), 1, "one place in the window");
            let messages = opened::<u32>(publish.payloads.bytes());
            all.push((sent.letter.to.clone(), messages));
        }
        let named = |from: u64, until: u64| (from..until).map(message).collect::<Vec<_>>();
        let together = MAX_TOGETHER as u64;
        let expected = [
            (vec![1], named(0, together)),
            (vec![1], named(together, 100)),
            (vec![2], named(0, 1)),
        ];
        assert_eq!(all, expected);
        assert_eq!(mail.bytes, 0);
        // Where payloads have to be short, each message goes alone.
        let mut mail = Mail::new(10);
        for generation in 0..3 {
            mail.push(vec![1], &message(generation));
        }
        assert_eq!(taken(&mut mail, &relay, 0).len(), 3);
    }
}
