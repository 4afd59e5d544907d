//! Waiting messages of an asynchronous system, flat in memory.
//!
//! Letters and channels live in two slabs whose free places are reused. The
//! non-empty channels of a receiver form a circle that is walked round robin.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::member::Member;
use super::{Letter, Message};

/// Which letters keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out per channel; a receiver's non-empty channels take
    /// turns.
    Channels,
    /// First in, first out per receiver.
    Inbox,
    /// As channels, but a newer message replaces a waiting one of the same slot, as in the node's
    /// transport.
    Slots,
}

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Waiting<K> {
    from: Member,
    message: Message<K>,
    next: u32,
}

#[derive(Debug, Clone, Copy)]
struct Channel {
    key: (Member, Member),
    head: u32,
    tail: u32,
    /// The next non-empty channel to the same receiver; of a free place, the next free place.
    next: u32,
}

/// The waiting letters of all processes.
#[derive(Debug, Clone)]
pub struct Mailbox<K> {
    discipline: Discipline,
    letters: Vec<Waiting<K>>,
    free_letter: u32,
    channels: Vec<Channel>,
    free_channel: u32,
    /// The map is never walked, so its order has no effect.
    places: HashMap<(Member, Member), u32, BuildHasherDefault<Mix>>,
    /// For each receiver the last channel of its circle. The channel behind this one is due.
    last: Vec<u32>,
    count: usize,
}

impl<K: Copy> Mailbox<K> {
    /// A mailbox without letters, for this many processes.
    pub fn new(discipline: Discipline, processes: usize) -> Self {
        Self {
            discipline,
            letters: Vec::new(),
            free_letter: NONE,
            channels: Vec::new(),
            free_channel: NONE,
            places: HashMap::default(),
            last: vec![NONE; processes],
            count: 0,
        }
    }

    /// The number of waiting letters.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether no letter waits.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Put a letter at the end of its channel or into its slot.
    pub fn push(&mut self, letter: Letter<K>) {
        let Letter { to, from, message } = letter;
        if self.discipline == Discipline::Slots && self.replace(letter) {
            return;
        }
        let waiting = Waiting {
            from,
            message,
            next: NONE,
        };
        let place = match self.free_letter {
            NONE => {
                self.letters.push(waiting);
                self.letters.len() as u32 - 1
            }
            free => {
                self.free_letter = self.letters[free as usize].next;
                self.letters[free as usize] = waiting;
                free
            }
        };
        self.count += 1;
        let key = match self.discipline {
            Discipline::Channels | Discipline::Slots => (to, from),
            Discipline::Inbox => (to, to),
        };
        if let Some(&channel) = self.places.get(&key) {
            let channel = &mut self.channels[channel as usize];
            self.letters[channel.tail as usize].next = place;
            channel.tail = place;
        } else {
            self.open(key, place);
        }
    }

    /// Take the letter that is due at `to`.
    pub fn pop(&mut self, to: Member) -> Option<Letter<K>> {
        let last = self.last[to.index()];
        if last == NONE {
            return None;
        }
        let due = self.channels[last as usize].next;
        let Channel {
            key,
            head,
            tail,
            next,
        } = self.channels[due as usize];
        let Waiting {
            from,
            message,
            next: after,
        } = self.letters[head as usize];
        self.letters[head as usize].next = self.free_letter;
        self.free_letter = head;
        self.count -= 1;
        if head == tail {
            self.places.remove(&key);
            self.channels[due as usize].next = self.free_channel;
            self.free_channel = due;
            if due == last {
                self.last[to.index()] = NONE;
            } else {
                self.channels[last as usize].next = next;
            }
        } else {
            self.channels[due as usize].head = after;
            self.last[to.index()] = due;
        }
        Some(Letter { to, from, message })
    }

    /// Replace the waiting letter of the same slot, if there is one.
    fn replace(&mut self, letter: Letter<K>) -> bool {
        let Some(&channel) = self.places.get(&(letter.to, letter.from)) else {
            return false;
        };
        let mut place = self.channels[channel as usize].head;
        while place != NONE {
            let waiting = &mut self.letters[place as usize];
            if waiting.message.slot() == letter.message.slot() {
                waiting.message = letter.message;
                return true;
            }
            place = waiting.next;
        }
        false
    }

    /// Open a channel with its first letter, as the last one in its receiver's circle.
    fn open(&mut self, key: (Member, Member), letter: u32) {
        let receiver = key.0.index();
        let last = self.last[receiver];
        let channel = Channel {
            key,
            head: letter,
            tail: letter,
            next: NONE,
        };
        let place = match self.free_channel {
            NONE => {
                self.channels.push(channel);
                self.channels.len() as u32 - 1
            }
            free => {
                self.free_channel = self.channels[free as usize].next;
                self.channels[free as usize] = channel;
                free
            }
        };
        if last == NONE {
            self.channels[place as usize].next = place;
        } else {
            self.channels[place as usize].next = self.channels[last as usize].next;
            self.channels[last as usize].next = place;
        }
        self.last[receiver] = place;
        self.places.insert(key, place);
    }
}

/// A hasher without a seed, as runs must repeat exactly.
#[derive(Debug, Clone, Copy, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, value: u32) {
        let mixed = (self.0 ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binomesh_overlay::ring;

    fn letter(from: usize, number: usize) -> Letter<()> {
        Letter {
            to: Member::at(0),
            from: Member::at(from),
            message: ring::Message::Info(Member::at(number)).into(),
        }
    }

    fn received(discipline: Discipline, sent: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let mut mailbox = Mailbox::new(discipline, 4);
        // The second turn uses places that the first one freed.
        for _ in 0..2 {
            sent.iter()
                .for_each(|&(from, n)| mailbox.push(letter(from, n)));
            assert_eq!(mailbox.len(), sent.len());
            let all: Vec<_> = std::iter::from_fn(|| mailbox.pop(Member::at(0))).collect();
            let numbers = all.iter().map(|letter| match letter.message {
                Message::Ring(ring::Message::Info(number)) => (letter.from.index(), number.index()),
                _ => panic!("not sent"),
            });
            let numbers = numbers.collect();
            if mailbox.is_empty() && mailbox.letters.len() == sent.len() {
                return numbers;
            }
        }
        panic!("letters were lost or kept");
    }

    #[test]
    fn channels_take_turns_and_keep_their_order() {
        let sent = [(1, 0), (1, 1), (1, 2), (2, 3), (3, 4), (3, 5)];
        let turns = [(1, 0), (2, 3), (3, 4), (1, 1), (3, 5), (1, 2)];
        assert_eq!(received(Discipline::Channels, &sent), turns);
        assert_eq!(received(Discipline::Inbox, &sent), sent);
    }

    #[test]
    fn in_a_slot_the_newest_wins_and_keeps_the_place() {
        let mut mailbox = Mailbox::new(Discipline::Slots, 4);
        for (from, n) in [(1, 0), (2, 1), (1, 2)] {
            mailbox.push(letter(from, n));
        }
        let all: Vec<_> = std::iter::from_fn(|| mailbox.pop(Member::at(0))).collect();
        assert_eq!(all, [letter(1, 2), letter(2, 1)]);
    }
}
