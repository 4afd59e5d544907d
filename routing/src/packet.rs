//! The packets and acknowledgements that relays send to each other.
//!
//! Places in a message are *positions* in the order of the members that its [`Strategy`] lays out
//! from the origin, in the epoch that the message names. With `binomial` a position is the number
//! of ranks clockwise from the origin. The origin is at 0, so the spans of a part are plain
//! intervals and never wrap, and a range is handed on to higher positions only.
//!
//! | [SFT06] §3.1 | here |
//! |---|---|
//! | version, type | the first byte, see [`crate::wire`]; the kind of [`Message`] |
//! | `hello` | [`Message::Hello`] |
//! | `bcast` | [`Message::Packet`] with a [`Part::Range`] |
//! | `mcast` | [`Message::Packet`] with a [`Part::Routed`] |
//! | SrcID | [`PacketId::origin`], and its rank in [`Header::origin_rank`] |
//! | data size | the rest of the frame behind the head |
//! | #Dest, DestList | [`Part::Routed::spans`]: the starts are the destinations, and each answers for its span |
//! | DestInd | the first span: a part is cut where the ways to its destinations separate |
//! | TranList | [`Part::Routed::visited`] |
//! | (aware) dead nodes | [`Part::Routed::dead`] |

mod message;
mod outcome;
mod payloads;
mod signature;

use std::fmt;
use std::str::FromStr;

use binomesh_overlay::{Epoch, Rank};
use serde::{Deserialize, Serialize};

use crate::order::Order;
pub use crate::span::Span;
use crate::strategy::Strategy;
pub use crate::topic::{InvalidTopic, Topic};
pub use message::{Class, Message};
pub use outcome::{Confirmation, CustodyRefusal, Exception, Reason, State, UnknownConfirmation};
pub use payloads::Payloads;
pub use signature::{Content, Signature, SigningFailed};

/// A message could not be serialised, which only an id can cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the relay message cannot be encoded: {0}")]
pub struct EncodeError(String);

impl EncodeError {
    pub(crate) fn of(error: postcard::Error) -> Self {
        Self(error.to_string())
    }
}

/// The name of one published message, the same for every copy and re-issue. A packet
/// goes by the name of the first message in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PacketId<I> {
    /// The member that published the message.
    pub origin: I,
    /// The number of the life in which that member published it.
    pub boot: u64,
    /// The number of the message among all that this life of the origin publishes.
    pub sequence: u64,
}

impl<I: fmt::Display> fmt::Display for PacketId<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.origin, self.boot, self.sequence)
    }
}

/// A text that is no message id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no message id; give the id of a receipt or of a delivery")]
pub struct InvalidPacketId(String);

impl<I: FromStr> FromStr for PacketId<I> {
    type Err = InvalidPacketId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (rest, sequence) = text.rsplit_once('-')?;
            let (origin, boot) = rest.rsplit_once('-')?;
            Some(Self {
                origin: origin.parse().ok()?,
                boot: boot.parse().ok()?,
                sequence: sequence.parse().ok()?,
            })
        };
        parse().ok_or_else(|| InvalidPacketId(text.chars().take(64).collect()))
    }
}

/// The part of a broadcast that a receiver has to answer for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// The receiver stands at the start of the span and answers for all of it.
    Range(Span),
    /// The receiver is a step on the way to the starts of these spans.
    Routed {
        /// The spans, in order and disjoint. The start of each will get its span as a range.
        spans: Vec<Span>,
        /// The transit list: ranks that must not be visited again.
        visited: Vec<Rank>,
        /// Ranks that earlier holders of the packet called down. A router avoids them if there is
        /// another way; nothing else is concluded from them.
        dead: Vec<Rank>,
    },
}

impl Part {
    /// The most spans of a routed part; a longer list travels as several parts.
    pub const MAX_SPANS: usize = 256;
    /// The longest transit list that is accepted.
    pub const MAX_VISITED: usize = 64;
    /// The most dead ranks in a part; of more, the lowest ones are named.
    pub const MAX_DEAD: usize = 128;

    /// The spans of this part.
    pub fn spans(&self) -> &[Span] {
        match self {
            Self::Range(span) => std::slice::from_ref(span),
            Self::Routed { spans, .. } => spans,
        }
    }

    /// How many positions the spans have together.
    pub fn count(&self) -> u64 {
        self.spans().iter().map(|span| u64::from(span.len())).sum()
    }

    /// Whether there is a span, and no more than [`Self::MAX_SPANS`], and the spans are not empty,
    /// in order and disjoint. Then there are no more spans than members.
    pub fn is_orderly(&self) -> bool {
        let spans = self.spans();
        let in_order = |pair: &[Span]| pair[0].end <= pair[1].start;
        !spans.is_empty()
            && spans.len() <= Self::MAX_SPANS
            && !spans.iter().any(|span| span.is_empty())
            && spans.windows(2).all(in_order)
    }

    /// Whether transit list and dead list are within their bounds.
    pub fn has_short_lists(&self) -> bool {
        match self {
            Self::Range(_) => true,
            Self::Routed { visited, dead, .. } => {
                visited.len() <= Self::MAX_VISITED && dead.len() <= Self::MAX_DEAD
            }
        }
    }

    /// Whether the part is orderly, its lists are within bounds and every span lies in 1 .. `n`.
    pub fn is_within(&self, n: u32) -> bool {
        let spans = self.spans();
        self.is_orderly()
            && self.has_short_lists()
            && spans.iter().all(|span| span.start >= 1 && span.end <= n)
    }
}

/// The task that a copy gives to its receiver: the part of which message to answer for.
/// Acknowledgements repeat it, so each is complete by itself and does not rely on what its receiver
/// remembers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Errand<I> {
    /// The message that is delegated.
    pub id: PacketId<I>,
    /// The epoch that the ranks belong to.
    pub epoch: Epoch<I>,
    /// The strategy that the positions belong to.
    pub strategy: Strategy,
    /// The origin's count of its re-issues. A higher round asks again for members that an earlier
    /// round gave up.
    pub round: u32,
    /// The members that the receiver has to answer for.
    pub part: Part,
}

impl<I> Errand<I> {
    /// Check that lists and numbers are within their bounds; the error is the first field that is
    /// not.
    fn check(&self) -> Result<(), &'static str> {
        if !self.part.is_orderly() {
            return Err("spans");
        }
        if !self.part.has_short_lists() {
            return Err("visited or dead");
        }
        if !self.strategy.is_possible() {
            return Err("fanout");
        }
        Ok(())
    }
}

/// Everything about a packet but its payload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Header<I> {
    /// The task of the receiver.
    pub errand: Errand<I>,
    /// The origin's rank in the epoch of the errand.
    pub origin_rank: Rank,
    /// The receiver's rank, as the sender knows it.
    pub to: Rank,
    /// The origin does not answer for any sequence below this one any more, except for those of
    /// kept messages.
    pub closed_below: u64,
    /// The origin keeps this message for members that were away. It answers for this sequence, even
    /// if it answers for no sequence around it any more.
    pub is_kept: bool,
    /// The confirmation that the origin wants from each member.
    pub confirmation: Confirmation,
    /// The topic of the message.
    pub topic: Topic,
    /// The place of the message in its stream, if it is published in order.
    pub order: Option<Order>,
    /// The peers that are meant, for each position of the part in order. Empty if the message is
    /// for whichever peer stands there. All copies of one message, epoch and round have the same
    /// name for a position.
    pub names: Vec<I>,
    /// The ranks at which the origin counted the named peers, if it meant the holders of these
    /// ranks and not the peers by name. A name is hearsay: a peer that never stood there is not the
    /// one that is meant.
    pub stood: Option<Stood<I>>,
    /// The origin's signature over the content. The host verifies it before the relay gets the
    /// packet.
    pub signature: Option<Signature>,
}

/// The ranks of the peers that are meant by name, in the epoch in which they were counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stood<I> {
    /// The epoch that these ranks belong to.
    pub epoch: Epoch<I>,
    /// The rank of each named peer, in order; `None` for a peer that was no member and is awaited.
    pub ranks: Vec<Option<Rank>>,
}

impl<I: Copy> Header<I> {
    /// The most names in one packet. An origin that means more members issues the message to the
    /// others in later rounds.
    pub const MAX_NAMES: usize = 2048;

    /// Whether no position of the part has a name, or each has one and there are at most
    /// [`Self::MAX_NAMES`]. If `stood` is present, it must have a rank for each name.
    pub fn is_named_in_full(&self) -> bool {
        let count = self.names.len() as u64;
        let stood = self.stood.as_ref();
        let is_full =
            count == 0 || (count <= Self::MAX_NAMES as u64 && count == self.errand.part.count());
        is_full && stood.is_none_or(|stood| stood.ranks.len() == self.names.len())
    }

    /// Each position with the peer that is meant there.
    pub fn named(&self) -> impl Iterator<Item = (u32, I)> + '_ {
        let spans = self.errand.part.spans().iter();
        let distances = spans.flat_map(|span| span.start..span.end);
        distances.zip(self.names.iter().copied())
    }

    /// Each position with the rank at which the peer that is meant there stood.
    pub fn places(&self) -> impl Iterator<Item = (u32, Rank)> + '_ {
        let spans = self.errand.part.spans().iter();
        let distances = spans.flat_map(|span| span.start..span.end);
        let ranks = self.stood.iter().flat_map(|stood| &stood.ranks);
        distances
            .zip(ranks)
            .filter_map(|(at, rank)| Some((at, (*rank)?)))
    }
}

/// One copy of a published message, or of several in a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Packet<I> {
    /// The header: everything but the payload.
    pub header: Header<I>,
    /// The payloads of the users.
    pub payloads: Payloads,
}

impl<I: Copy> Packet<I> {
    /// The content that the origin signs.
    pub fn content(&self) -> Content<'_, I> {
        let header = &self.header;
        Content {
            id: header.errand.id,
            confirmation: header.confirmation,
            topic: &header.topic,
            order: header.order,
            payloads: &self.payloads,
        }
    }

    /// Check that lists and numbers are within their bounds; the error is the first field that is
    /// not.
    fn check(&self) -> Result<(), &'static str> {
        let (header, count) = (&self.header, self.payloads.count());
        header.errand.check()?;
        if header.errand.id.sequence.checked_add(count).is_none() {
            return Err("sequence");
        }
        let order = header.order;
        if order.is_some_and(|order| order.number.checked_add(count).is_none()) {
            return Err("order");
        }
        let signature = header.signature.as_ref();
        if signature.is_some_and(|signature| !signature.is_within_bounds()) {
            return Err("signature");
        }
        if !header.is_named_in_full() {
            return Err("names");
        }
        Ok(())
    }

    /// How many bytes payloads, names, places and signature take in memory.
    pub(crate) fn bytes(&self) -> usize {
        let stood = self.header.stood.as_ref();
        let places = stood.map_or(0, |stood| stood.ranks.len());
        let names = names_bytes::<I>(self.header.names.len(), places);
        self.payloads
            .len()
            .saturating_add(names)
            .saturating_add(signature_bytes(self.header.signature.as_ref()))
    }
}

/// How many bytes a signature takes in memory.
pub(crate) fn signature_bytes(signature: Option<&Signature>) -> usize {
    signature.map_or(0, |signature| signature.bytes().len())
}

/// How many bytes this many names and places take in memory, with their positions.
pub(crate) const fn names_bytes<I>(names: usize, places: usize) -> usize {
    let places = places.saturating_mul(size_of::<(u32, Rank)>());
    names
        .saturating_mul(size_of::<(u32, I)>())
        .saturating_add(places)
}
