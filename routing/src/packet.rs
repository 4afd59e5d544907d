//! What relays say to each other.
//!
//! Places in a message are *positions* in the order of the members that its
//! [`Strategy`] lays out from the origin, in the epoch that the message names: with
//! `binomial` how many ranks clockwise. The origin is at 0, so a part is a plain
//! interval, never wraps, and is handed on to higher positions only.
//!
//! | [SFT06] §3.1 | here |
//! |---|---|
//! | version, type | the first byte, see [`crate::wire`]; the kind of [`Message`] |
//! | `hello` | [`Message::Hello`] |
//! | `bcast` | [`Message::Packet`] with a [`Part::Range`] |
//! | `mcast` | [`Message::Packet`] with a [`Part::Routed`] |
//! | SrcID | [`PacketId::origin`], and its rank in [`Header::origin_rank`] |
//! | data size | what is left of the frame behind the head |
//! | #Dest, DestList | [`Part::Routed::spans`]: the starts are the destinations, and each answers for its span |
//! | DestInd | the first span: a part is cut where its destinations' ways part |
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
pub use outcome::{Confirmation, Exception, Reason, Refusal, State, UnknownConfirmation};
pub use payloads::Payloads;
pub use signature::{Content, Signature, SigningFailed};

/// A message that cannot be written: only an id whose serialisation fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("relay message cannot be encoded: {0}")]
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
    /// Who published it.
    pub origin: I,
    /// In which life of that process.
    pub boot: u64,
    /// Its number among the origin's broadcasts, multicasts and unicasts.
    pub sequence: u64,
}

impl<I: fmt::Display> fmt::Display for PacketId<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.origin, self.boot, self.sequence)
    }
}

/// A text that names no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no message id; receipts and deliveries have them")]
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

/// What a receiver is asked to answer for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// The receiver stands at the start and delivers to the whole span.
    Range(Span),
    /// The receiver is a step on the way to the starts of these spans.
    Routed {
        /// What is asked for, in order and disjoint; each span's start will get it
        /// as a range.
        spans: Vec<Span>,
        /// The transit list: ranks that must not be visited again.
        visited: Vec<Rank>,
        /// Ranks under a verdict of those who had it: to be avoided if there is another
        /// way, and nothing else is concluded from them.
        dead: Vec<Rank>,
    },
}

impl Part {
    /// The most spans of a routed part; a longer list travels as several parts.
    pub const MAX_SPANS: usize = 256;
    /// The longest transit list that is understood.
    pub const MAX_VISITED: usize = 64;
    /// The most dead ranks that are told; of more the least.
    pub const MAX_DEAD: usize = 128;

    /// All spans that are asked for.
    pub fn spans(&self) -> &[Span] {
        match self {
            Self::Range(span) => std::slice::from_ref(span),
            Self::Routed { spans, .. } => spans,
        }
    }

    /// How many distances are asked for.
    pub fn count(&self) -> u64 {
        self.spans().iter().map(|span| u64::from(span.len())).sum()
    }

    /// Whether the spans are not empty, in order and disjoint, so that there are no
    /// more of them than members.
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

    /// Whether the lists are within bounds and every span lies in 1 .. `n`.
    pub fn is_within(&self, n: u32) -> bool {
        let spans = self.spans();
        self.is_orderly()
            && self.has_short_lists()
            && spans.iter().all(|span| span.start >= 1 && span.end <= n)
    }
}

/// What exactly is asked and answered: acknowledgements repeat it, so that each
/// is a statement about the world and not about somebody's memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Errand<I> {
    /// Which message.
    pub id: PacketId<I>,
    /// In which numbering the ranks are meant.
    pub epoch: Epoch<I>,
    /// In which order the positions are meant.
    pub strategy: Strategy,
    /// The origin's count of its re-issues: a higher round asks again for what
    /// an earlier one gave up.
    pub round: u32,
    /// Which members.
    pub part: Part,
}

impl<I> Errand<I> {
    /// Whether its lists and numbers are within their bounds; the first that is not.
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
    /// What is asked.
    pub errand: Errand<I>,
    /// Where the origin stands in that epoch.
    pub origin_rank: Rank,
    /// The receiver's rank as its sender sees it.
    pub to: Rank,
    /// The origin answers for no sequence below this any more.
    pub closed_below: u64,
    /// The origin keeps this message for members that were away: it answers for it, though
    /// it may answer for none around it any more.
    pub is_kept: bool,
    /// What the origin wants to know of each member.
    pub confirmation: Confirmation,
    /// What the message is about.
    pub topic: Topic,
    /// Where it stands among its origin's others, if they are to come in order.
    pub order: Option<Order>,
    /// Who is meant at each distance of the part, in order; empty if whoever stands
    /// there is meant. Of one message, epoch and round every copy has the same.
    pub names: Vec<I>,
    /// Where they stood when the origin counted them, if that was in another place of
    /// its own: a name is hearsay, and whoever never stood there is not the one.
    pub stood: Option<Stood<I>>,
    /// The origin's word for the content, checked before it came here.
    pub signature: Option<Signature>,
}

/// The ranks of those who are meant by name, in the numbering in which they were counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stood<I> {
    /// Which numbering.
    pub epoch: Epoch<I>,
    /// One for each name, in order; `None` for whoever was no member and is awaited.
    pub ranks: Vec<Option<Rank>>,
}

impl<I: Copy> Header<I> {
    /// The most names in one packet; an origin that means more members issues to
    /// the others in later rounds.
    pub const MAX_NAMES: usize = 2048;

    /// Whether either no distance of the part has a name, or every one has, at most
    /// [`Self::MAX_NAMES`]; and whether `stood`, if present, has one rank per name.
    pub fn is_named_in_full(&self) -> bool {
        let count = self.names.len() as u64;
        let stood = self.stood.as_ref();
        let is_full =
            count == 0 || (count <= Self::MAX_NAMES as u64 && count == self.errand.part.count());
        is_full && stood.is_none_or(|stood| stood.ranks.len() == self.names.len())
    }

    /// Who is meant at which distance.
    pub fn named(&self) -> impl Iterator<Item = (u32, I)> + '_ {
        let spans = self.errand.part.spans().iter();
        let distances = spans.flat_map(|span| span.start..span.end);
        distances.zip(self.names.iter().copied())
    }

    /// Who is meant at which distance stood at which rank.
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
    /// Everything but the payload.
    pub header: Header<I>,
    /// The user's bytes.
    pub payloads: Payloads,
}

impl<I: Copy> Packet<I> {
    /// What the origin signs of it.
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

    /// Whether its lists and numbers are within their bounds; the first that is not.
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

    /// What payloads, names, places and signature take in memory.
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

/// What a signature takes in memory.
pub(crate) fn signature_bytes(signature: Option<&Signature>) -> usize {
    signature.map_or(0, |signature| signature.bytes().len())
}

/// What this many names and places take in memory, with their distances.
pub(crate) const fn names_bytes<I>(names: usize, places: usize) -> usize {
    let places = places.saturating_mul(size_of::<(u32, Rank)>());
    names
        .saturating_mul(size_of::<(u32, I)>())
        .saturating_add(places)
}
