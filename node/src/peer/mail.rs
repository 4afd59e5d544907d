//! Messages about collectives on their way to the relay, which takes only so many at once.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use binomesh_overlay::Id;
use binomesh_routing::collective::Message;
use binomesh_routing::packet::{Confirmation, Payloads};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{self as routing, Delivery, Due, Publish, Relay, Topic};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The topic of collectives.
const TOPIC: &str = "$collective";
/// How many messages wait for the relay. Full: further ones are dropped and counted, and
/// asked for again by whoever misses them.
const MAX_WAITING: usize = 4096;
/// How many bytes they have together; beyond it likewise.
const MAX_BYTES: usize = 64 << 20;
/// How many of the relay's packets they have open, so that users find room for theirs.
const MAX_OPEN: usize = 32;
/// How long a message is tried; after that its sender asks again. A guess.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether a topic is that of collectives.
pub(crate) fn is_of_collectives(topic: &Topic) -> bool {
    topic.as_str() == TOPIC
}

/// The messages about collectives in a delivery; what makes no sense is left out.
pub(super) fn messages_of<I: Id + DeserializeOwned>(
    delivery: &Delivery<I>,
) -> impl Iterator<Item = Message<I>> + '_ {
    let payloads = delivery.messages().map(|(_, _, payload)| payload);
    payloads.filter_map(|payload| match postcard::take_from_bytes(&payload) {
        Ok((message, [])) => Some(message),
        _ => None,
    })
}

/// What waits, and what is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Mail<I> {
    waiting: VecDeque<Letter<I>>,
    /// Pieces of long values, behind all others.
    pieces: VecDeque<Letter<I>>,
    /// How many bytes both have.
    bytes: usize,
    /// The packets that are open, by sequence.
    open: BTreeSet<u64>,
    /// Those that ended while one was being published.
    ended: BTreeSet<u64>,
    dropped: u64,
}

impl<I: Id + Serialize> Mail<I> {
    pub(super) const fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            pieces: VecDeque::new(),
            bytes: 0,
            open: BTreeSet::new(),
            ended: BTreeSet::new(),
            dropped: 0,
        }
    }

    pub(super) fn push(&mut self, to: Vec<I>, message: &Message<I>) {
        let Ok(bytes) = postcard::to_stdvec(message) else {
            return;
        };
        let queue = match message {
            Message::Piece { .. } => &mut self.pieces,
            _ => &mut self.waiting,
        };
        if queue.len() >= MAX_WAITING || self.bytes + bytes.len() > MAX_BYTES {
            self.dropped += 1;
            return;
        }
        self.bytes += bytes.len();
        let payload = bytes.into();
        queue.push_back(Letter { to, payload });
    }

    /// Nothing of what waits is sent.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.pieces.clear();
        self.bytes = 0;
    }

    /// How many messages were dropped for want of room.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether this own packet was one of them. It is open no more.
    pub(super) fn close(&mut self, sequence: u64) -> bool {
        let was_open = self.open.remove(&sequence);
        if !was_open {
            self.ended.insert(sequence);
        }
        was_open
    }

    /// The packets of another life are over.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }

    /// The next message that the relay is to publish, if it may have more of them.
    pub(super) fn next(&mut self, me: I, relay: &Relay<I>) -> Option<(Publish<I>, Letter<I>)> {
        self.ended.clear();
        while self.open.len() < MAX_OPEN {
            let letter = self.waiting.pop_front();
            let letter = letter.or_else(|| self.pieces.pop_front())?;
            self.bytes -= letter.payload.len();
            if let Some(publish) = letter.publish(me, relay) {
                return Some((publish, letter));
            }
        }
        None
    }

    fn put_back(&mut self, letter: Letter<I>) {
        self.bytes += letter.payload.len();
        self.waiting.push_front(letter);
    }

    /// What became of it. Whether there may be room for the next one.
    pub(super) fn on_published(
        &mut self,
        mut letter: Letter<I>,
        outcome: &Result<routing::PacketId<I>, routing::PublishError<I>>,
    ) -> bool {
        use routing::PublishError as Error;
        match outcome {
            Ok(id) => {
                // It may be over already, if nobody is there to have it.
                if !self.ended.contains(&id.sequence) {
                    self.open.insert(id.sequence);
                }
                true
            }
            Err(Error::WindowFull(_) | Error::MemoryFull { .. }) => {
                self.put_back(letter);
                false
            }
            // Whoever is no member now is told when it asks.
            Err(
                Error::UnknownPeer(peer) | Error::HasLeft(peer) | Error::RosterIncomplete(peer),
            ) => {
                letter.to.retain(|to| to != peer);
                self.put_back(letter);
                true
            }
            Err(_) => true,
        }
    }
}

/// A message and its receivers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Letter<I> {
    to: Vec<I>,
    payload: Bytes,
}

impl<I: Id> Letter<I> {
    /// To those of its receivers that are members.
    fn publish(&self, me: I, relay: &Relay<I>) -> Option<Publish<I>> {
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
            payloads: Payloads::from(self.payload.clone()),
            destination,
            strategy: Strategy::Binomial,
            due: Due::Within(PATIENCE),
            confirmation: Confirmation::Relayed,
            is_ordered: false,
        })
    }
}
