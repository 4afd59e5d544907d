//! Messages about collectives on their way to the relay, which takes only so many at once.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use binomesh_overlay::Id;
use binomesh_routing::collective::{self, Message};
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
    waiting: VecDeque<(Vec<I>, Bytes)>,
    /// The packets that are open, by sequence.
    open: BTreeSet<u64>,
    dropped: u64,
}

impl<I: Id + Serialize> Mail<I> {
    pub(super) const fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            open: BTreeSet::new(),
            dropped: 0,
        }
    }

    pub(super) fn push(&mut self, to: Vec<I>, message: &Message<I>) {
        let Ok(bytes) = postcard::to_stdvec(message) else {
            return;
        };
        match self.waiting.len() < MAX_WAITING {
            true => self.waiting.push_back((to, bytes.into())),
            false => self.dropped += 1,
        }
    }

    /// Nothing of what waits is sent.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// How many messages were dropped for want of room.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether this own packet was one of them. It is open no more.
    pub(super) fn close(&mut self, sequence: u64) -> bool {
        self.open.remove(&sequence)
    }

    /// The packets of another life are over.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }

    /// The next message that the relay is to publish, if it may have more of them.
    pub(super) fn next(&mut self, me: I, relay: &Relay<I>) -> Option<(Publish<I>, Letter<I>)> {
        while self.open.len() < MAX_OPEN {
            let (to, payload) = self.waiting.pop_front()?;
            let letter = Letter { to, payload };
            if let Some(publish) = letter.publish(me, relay) {
                return Some((publish, letter));
            }
        }
        None
    }

    /// What became of it. Whether there may be room for the next one.
    pub(super) fn took(
        &mut self,
        mut letter: Letter<I>,
        outcome: &Result<routing::PacketId<I>, routing::PublishError<I>>,
    ) -> bool {
        use routing::PublishError as Error;
        match outcome {
            Ok(id) => {
                self.open.insert(id.sequence);
                true
            }
            Err(Error::WindowFull(_) | Error::MemoryFull { .. }) => {
                self.waiting.push_front((letter.to, letter.payload));
                false
            }
            // Whoever is no member now is told when it asks.
            Err(
                Error::UnknownPeer(peer) | Error::HasLeft(peer) | Error::RosterIncomplete(peer),
            ) => {
                letter.to.retain(|to| to != peer);
                self.waiting.push_front((letter.to, letter.payload));
                true
            }
            Err(_) => true,
        }
    }
}

/// A message and its receivers.
pub(super) struct Letter<I> {
    to: Vec<I>,
    payload: Bytes,
}

impl<I: Id> Letter<I> {
    /// To those of its receivers that are members.
    fn publish(&self, me: I, relay: &Relay<I>) -> Option<Publish<I>> {
        let roster = relay.roster()?;
        let is_member = |peer: &I| roster.rank_of(*peer).is_some();
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

/// The bounds of collectives at a node that takes payloads up to so many bytes.
pub(crate) fn config(payload_max: usize) -> collective::Config {
    let _ = payload_max;
    collective::Config::default()
}
