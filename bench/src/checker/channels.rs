//! Messages under way between the processes of a small world.

use binomesh_overlay::{fingers, ring};

use super::Peer;

/// A message that has a slot between two processes.
pub trait Slotted {
    /// The slot: a kind and a level.
    fn slot(&self) -> (u8, u8);
}

impl<I> Slotted for ring::Message<I> {
    fn slot(&self) -> (u8, u8) {
        (self.slot(), 0)
    }
}

impl<I, K> Slotted for fingers::Message<I, K> {
    fn slot(&self) -> (u8, u8) {
        self.slot()
    }
}

/// The channels of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carriage {
    /// One place per (from, to, slot), in which the newest message replaces the waiting one, as in
    /// the node's transport. Any waiting message may arrive next.
    Slots,
    /// A queue per (from, to). A message to a full queue is lost.
    Queue {
        /// The most messages in a queue.
        capacity: usize,
    },
}

/// A message under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Letter<M> {
    /// The process that gets the letter.
    pub to: Peer,
    /// The process that sent the letter.
    pub from: Peer,
    /// The content of the letter.
    pub message: M,
}

/// All letters under way. With slots they are sorted; with queues they lie channel by channel, in
/// the order of sending within each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Channels<M> {
    letters: Vec<Letter<M>>,
}

impl<M: Slotted + Copy + Ord> Channels<M> {
    /// Channels without letters.
    pub const fn new() -> Self {
        Self {
            letters: Vec::new(),
        }
    }

    /// Put a letter under way, unless its queue is full. Equal states must look equal, so with
    /// queues the letters are kept by channel, in order within each.
    pub fn push(&mut self, letter: Letter<M>, carriage: Carriage) {
        let channel = (letter.to, letter.from);
        match carriage {
            Carriage::Slots => {
                let slot = letter.message.slot();
                let is_same =
                    |old: &Letter<M>| (old.to, old.from) == channel && old.message.slot() == slot;
                self.letters.retain(|old| !is_same(old));
                let place = self.letters.partition_point(|old| *old < letter);
                self.letters.insert(place, letter);
            }
            Carriage::Queue { capacity } => {
                let end = self
                    .letters
                    .partition_point(|old| (old.to, old.from) <= channel);
                let start = self
                    .letters
                    .partition_point(|old| (old.to, old.from) < channel);
                if end - start < capacity {
                    self.letters.insert(end, letter);
                }
            }
        }
    }

    /// The letters that may arrive next.
    pub fn next(&self, carriage: Carriage) -> impl Iterator<Item = Letter<M>> + '_ {
        self.letters
            .iter()
            .enumerate()
            .filter_map(move |(place, letter)| {
                let before = place
                    .checked_sub(1)
                    .and_then(|place| self.letters.get(place));
                let is_first =
                    before.is_none_or(|old| (old.to, old.from) != (letter.to, letter.from));
                (carriage == Carriage::Slots || is_first).then_some(*letter)
            })
    }

    /// Take out the first letter that equals this one.
    pub fn take(&mut self, letter: &Letter<M>) -> bool {
        let place = self.letters.iter().position(|old| old == letter);
        place.map(|place| self.letters.remove(place)).is_some()
    }

    /// All letters, channel by channel.
    pub fn letters(&self) -> &[Letter<M>] {
        &self.letters
    }
}

impl<M: Slotted + Copy + Ord> Default for Channels<M> {
    fn default() -> Self {
        Self::new()
    }
}
