//! What the detector says.

use serde::{Deserialize, Serialize};

use crate::stamp::Mark;

/// How many peers a node keeps rumours of; one more displaces the oldest.
pub const MAX_RUMOURS: usize = 256;
/// The most rumours in a new message. Messages that wait for one receiver are merged up to
/// [`MAX_RUMOURS`]; [`union`] drops the oldest rumours beyond that.
pub const MAX_TOLD: usize = 64;

/// A message of the detector. Any message at all is a sign of life of its
/// sender; these exist for those who have nothing else to say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To a ring neighbour: I am alive, and this is my place.
    Beat {
        /// Where I stand.
        mark: Option<Mark<I>>,
        /// Whether I want to know the same of the receiver.
        reply: bool,
    },
    /// Are you alive? Asked on behalf of another node if `asker` is set.
    Ping {
        /// Who wants to know.
        asker: Option<I>,
    },
    /// Yes; returned by the way the question came.
    Pong {
        /// Who wanted to know.
        asker: Option<I>,
    },
    /// Ping this peer for me.
    PingFor(I),
    /// I have heard this peer answer just now.
    Alive(I),
    /// What is said of peers; of these [`MAX_RUMOURS`] at most are read.
    Rumours(Vec<Rumour<I>>),
    /// I have this from hearsay: who knows better? It is answered but not
    /// believed, so that nothing that is said lives on by being asked about. Of
    /// these [`MAX_TOLD`] at most are read.
    Doubts(Vec<Rumour<I>>),
    /// A member has left, as itself has signed. The host of the receiver verifies that
    /// before this machine hears of it.
    Goodbye(Goodbye<I>),
    /// To whom a link is new: accusations that hold already, each with the beats that are left
    /// of it. They are believed for no longer and not passed on, so that none outlives those
    /// that heard it first. Of these [`MAX_TOLD`] at most are read.
    Standing(Vec<(Rumour<I>, u32)>),
}

/// What is said of one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rumour<I> {
    /// Of whom.
    pub peer: I,
    /// Of which life of its process; 0 if the accuser never knew.
    pub boot: u64,
    /// Of which incarnation in it.
    pub incarnation: u32,
    /// Where it stood.
    pub mark: Option<Mark<I>>,
    /// Whether it is up after all.
    pub is_up: bool,
}

impl<I> Rumour<I> {
    /// The same about the life that the receiver has a link to, if the accuser never knew which
    /// it is.
    pub(crate) fn of_linked(self, link: Option<u64>) -> Self {
        match link.filter(|_| self.boot == 0 && !self.is_up) {
            Some(boot) => Self { boot, ..self },
            None => self,
        }
    }
}

/// Two batches that wait for one receiver, as one: each rumour once, the newer ones last.
/// Beyond [`MAX_RUMOURS`] the oldest go; whoever has them from hearsay asks again. Also returns
/// how many went.
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

/// A life of a peer has ended, and says so.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Goodbye<I> {
    /// Who has left.
    pub peer: I,
    /// In which life of its process.
    pub boot: u64,
    /// Its signature of both, as the host of the receiver verifies it.
    pub proof: Vec<u8>,
}

impl<I: Copy> Goodbye<I> {
    /// The rumour that a goodbye without proof comes to: somebody calls that life down.
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
