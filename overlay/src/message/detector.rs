//! Messages of the detector.

use serde::{Deserialize, Serialize};

use crate::stamp::Mark;

/// The most peers of which a node keeps rumours; one more displaces the oldest.
pub const MAX_RUMOURS: usize = 256;
/// The most rumours in a new message. Messages that wait for one receiver are merged up to
/// [`MAX_RUMOURS`]; [`union`] drops the oldest rumours beyond that.
pub const MAX_TOLD: usize = 64;

/// A message of the detector. Every message of any layer is a sign of life of its sender; Beat,
/// Ping and Pong are signs of life even if there is nothing else to send.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To a ring neighbour or parent: I am alive and, if `mark` is set, this is my place.
    Beat {
        /// The place of the sender; unset if it has none, or if the receiver need not learn it.
        mark: Option<Mark<I>>,
        /// Whether the receiver should answer with its own place.
        reply: bool,
    },
    /// Are you alive? If `asker` is set, the sender asks on behalf of that node.
    Ping {
        /// The node on whose behalf the sender asks.
        asker: Option<I>,
    },
    /// The answer to [`Message::Ping`], which goes back the way the question came.
    Pong {
        /// The node on whose behalf the question was.
        asker: Option<I>,
    },
    /// Ping this peer for me.
    PingFor(I),
    /// I have heard this peer answer just now.
    Alive(I),
    /// Rumours about peers; at most [`MAX_RUMOURS`] of them are read.
    Rumours(Vec<Rumour<I>>),
    /// Accusations that the sender cannot check or that may be out of date: does the receiver know
    /// better? They are answered but not believed, so that no rumour lives longer because nodes ask
    /// about it. At most [`MAX_TOLD`] of them are read.
    Doubts(Vec<Rumour<I>>),
    /// A member has left, by its own signature. The host of the receiver verifies the signature
    /// before this machine sees the message.
    Goodbye(Goodbye<I>),
    /// To the peer of a new link: accusations that already hold, each with the beats that it has
    /// left. The receiver believes them no longer than that and does not pass them on. So an
    /// accusation ends everywhere when it ends at the nodes that heard it first. At most
    /// [`MAX_TOLD`] of them are read.
    Standing(Vec<(Rumour<I>, u32)>),
}

/// A rumour about one peer: that it is down, or up after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rumour<I> {
    /// The peer that the rumour is about.
    pub peer: I,
    /// The life of the peer's process; 0 if the accuser never knew it.
    pub boot: u64,
    /// The incarnation of the peer in that life: a number from 0 that rises with each answer of the
    /// peer to an accusation.
    pub incarnation: u32,
    /// The place of the peer, if the accuser knows it.
    pub mark: Option<Mark<I>>,
    /// Whether the peer is up after all.
    pub is_up: bool,
}

impl<I> Rumour<I> {
    /// If the accuser never knew the accused life, take it for `link`, the life that the receiver
    /// has a link to. Other rumours stay the same.
    pub(crate) fn of_linked(self, link: Option<u64>) -> Self {
        match link.filter(|_| self.boot == 0 && !self.is_up) {
            Some(boot) => Self { boot, ..self },
            None => self,
        }
    }
}

/// Two batches that wait for one receiver as one batch, without repetitions, the newer rumours
/// last. Beyond [`MAX_RUMOURS`] the oldest are dropped; a node that thus misses the answer to an
/// accusation asks others about it ([`Message::Doubts`]). Also returns how many were dropped.
pub fn union<I: PartialEq>(
    mut older: Vec<Rumour<I>>,
    newer: Vec<Rumour<I>>,
) -> (Vec<Rumour<I>>, usize) {
    older.retain(|rumour| !newer.contains(rumour));
    older.extend(newer);
    let beyond = older.len().saturating_sub(MAX_RUMOURS);
    older.drain(..beyond);
    (older, beyond)
}

/// A life of a peer has ended, by its own word.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Goodbye<I> {
    /// The peer that has left.
    pub peer: I,
    /// The life that has ended.
    pub boot: u64,
    /// The peer's signature of its identity and this life, which the host of the receiver verifies.
    pub proof: Vec<u8>,
}

impl<I: Copy> Goodbye<I> {
    /// A goodbye without its proof: a rumour that this life is down.
    pub const fn rumour(&self) -> Rumour<I> {
        Rumour {
            peer: self.peer,
            boot: self.boot,
            incarnation: 0,
            mark: None,
            is_up: false,
        }
    }
}
