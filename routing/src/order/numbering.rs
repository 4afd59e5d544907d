//! The origin's counts of its streams.

use std::collections::BTreeMap;

use binomesh_overlay::Id;

use super::Order;
use crate::destination::Destination;
use crate::topic::Topic;

/// The next number of each stream.
///
/// There are at most [`Numbering::MAX_STREAMS`] streams, with [`Numbering::MAX_NAMES`] destinations
/// in all; streams with open messages may exceed these bounds. Full: of the streams whose last
/// message is not open any more, the one used longest ago is forgotten. When it is used again it is
/// another stream, which begins at 0. So no receiver misses a message that was never sent. There
/// are two costs. No receiver learns of messages that were lost at the end of the forgotten stream.
/// Messages of the forgotten stream that are still on their way are not ordered with those of the
/// new stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Numbering<I> {
    streams: BTreeMap<(Topic, Vec<I>), Stream>,
    begun: u64,
    names: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stream {
    next: Order,
    /// The sequence of the last packet that was numbered in the stream.
    last: u64,
}

impl<I: Id> Numbering<I> {
    /// The most streams. A guess: more than a process uses topics at a time, and more than it has
    /// open packets. If it is too small, streams begin again, and receivers see no loss at the ends
    /// of the old ones.
    pub(crate) const MAX_STREAMS: usize = 1024;
    /// The most destinations of all streams together. A guess: a megabyte of 16-byte ids. If it is
    /// too small, streams begin again as above.
    pub(crate) const MAX_NAMES: usize = 65_536;

    pub(crate) const fn new() -> Self {
        Self {
            streams: BTreeMap::new(),
            begun: 0,
            names: 0,
        }
    }

    /// The place of the next message on this topic to these destinations. The place is not taken
    /// until [`Numbering::number`] is called.
    pub(crate) fn next_of(&self, topic: &Topic, to: &Destination<I>) -> Order {
        let known = self.streams.get(&key_of(topic, to));
        known.map_or_else(|| self.first(), |stream| stream.next)
    }

    /// Take the next places for `count` messages in the packet `sequence`. `is_open` tells whether
    /// the messages of a sequence are open. Returns the first place, and how many streams were
    /// forgotten.
    pub(crate) fn number(
        &mut self,
        (topic, to): (&Topic, &Destination<I>),
        (sequence, count): (u64, u64),
        is_open: impl Fn(u64) -> bool,
    ) -> (Order, u64) {
        let key = key_of(topic, to);
        let mut forgotten = 0;
        if !self.streams.contains_key(&key) {
            self.names += key.1.len();
            while self.is_full() && self.forget_oldest(&is_open) {
                forgotten += 1;
            }
            let next = self.first();
            self.begun += 1;
            self.streams.insert(key.clone(), Stream { next, last: 0 });
        }
        let Some(stream) = self.streams.get_mut(&key) else {
            return (self.first(), forgotten);
        };
        let order = stream.next;
        stream.next.number += count;
        stream.last = sequence;
        (order, forgotten)
    }

    /// The first place of a new stream.
    const fn first(&self) -> Order {
        Order {
            stream: self.begun,
            number: 0,
        }
    }

    /// Whether there is no room for another stream.
    fn is_full(&self) -> bool {
        self.streams.len() >= Self::MAX_STREAMS || self.names > Self::MAX_NAMES
    }

    fn forget_oldest(&mut self, is_open: impl Fn(u64) -> bool) -> bool {
        let closed = self.streams.iter();
        let closed = closed.filter(|(_, stream)| !is_open(stream.last));
        let oldest = closed.min_by_key(|(_, stream)| stream.last);
        let Some(key) = oldest.map(|(key, _)| key.clone()) else {
            return false;
        };
        self.names -= key.1.len();
        self.streams.remove(&key);
        true
    }
}

/// The topic of a stream and its destinations; no destinations if it goes to all members or to all
/// but some.
fn key_of<I: Id>(topic: &Topic, to: &Destination<I>) -> (Topic, Vec<I>) {
    let mut names = match to {
        // A list of destinations is never empty, so an empty one can stand for all.
        Destination::All | Destination::AllBut(_) => Vec::new(),
        Destination::Peers(peers) => peers.clone(),
    };
    names.sort_unstable();
    names.dedup();
    (topic.clone(), names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        Topic::new(name).unwrap()
    }

    #[test]
    fn each_topic_and_each_set_of_destinations_is_counted_without_holes() {
        let mut all = Numbering::<u32>::new();
        let (a, b) = (topic("a"), topic("b"));
        let some = Destination::Peers(vec![1, 2]);
        let same = Destination::Peers(vec![2, 1, 2]);
        let mut number = |topic, to, sequence, count| {
            let (order, forgotten) = all.number((topic, to), (sequence, count), |_| true);
            assert_eq!(forgotten, 0);
            (order.stream, order.number)
        };
        assert_eq!(number(&a, &Destination::All, 0, 1), (0, 0));
        assert_eq!(number(&b, &Destination::All, 1, 3), (1, 0));
        assert_eq!(number(&a, &Destination::All, 7, 5), (0, 1));
        assert_eq!(number(&a, &some, 12, 1), (2, 0));
        assert_eq!(number(&b, &Destination::All, 13, 1), (1, 3));
        assert_eq!(number(&a, &same, 14, 1), (2, 1));
        assert_eq!(number(&a, &Destination::All, 15, 1), (0, 6));
    }

    #[test]
    fn a_number_is_the_next_one_until_it_is_assigned() {
        let mut all = Numbering::<u32>::new();
        let (a, b) = (topic("a"), topic("b"));
        for (topic, count) in [(&a, 1), (&a, 3), (&b, 2), (&a, 1), (&b, 1)] {
            let place = (topic, &Destination::All);
            let next = all.next_of(place.0, place.1);
            assert_eq!(
                all.next_of(place.0, place.1),
                next,
                "nothing was given away"
            );
            let (given, _) = all.number(place, (0, count), |_| true);
            assert_eq!(given, next);
        }
    }

    /// A stream whose last message is open is not forgotten, however long ago it was used.
    #[test]
    fn streams_are_bounded_and_one_that_is_forgotten_goes_on_as_another() {
        let most = Numbering::<u32>::MAX_STREAMS as u64;
        let mut all = Numbering::<u32>::new();
        let mut number = |name: u64, sequence| {
            let topic = topic(&name.to_string());
            let place = (&topic, &Destination::All);
            all.number(place, (sequence, 1), |sequence| sequence == 0)
        };
        for name in 0..most {
            assert_eq!(number(name, name).1, 0);
        }
        let order = |stream, number| Order { stream, number };
        assert_eq!(number(most, most), (order(most, 0), 1), "1 is forgotten");
        assert_eq!(number(0, most + 1), (order(0, 1), 0), "0 is not");
        assert_eq!(number(1, most + 2), (order(most + 1, 0), 1), "2 is");
        assert_eq!(number(3, most + 3), (order(3, 1), 0));
        assert_eq!(all.streams.len() as u64, most);
    }

    #[test]
    fn destinations_are_bounded_but_for_those_of_open_messages() {
        let mut all = Numbering::<u32>::new();
        let half = Numbering::<u32>::MAX_NAMES as u32 / 2;
        let mut number = |from: u32, sequence, is_open: bool| {
            let peers = Destination::Peers((from..from + half).collect());
            let place = (&topic("x"), &peers);
            all.number(place, (sequence, 1), |_| is_open).1
        };
        assert_eq!(number(0, 0, true), 0);
        assert_eq!(number(1, 1, true), 0);
        assert_eq!(number(2, 2, true), 0, "all of them are open");
        assert_eq!(number(3, 3, false), 2, "and now none");
        assert_eq!(all.names, all.streams.len() * half as usize);
        assert_eq!(all.streams.len(), 2);
    }
}
