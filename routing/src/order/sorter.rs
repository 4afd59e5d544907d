//! The sorter at a receiver: it brings the messages of each stream into the order of their numbers.
//!
//! It works like a reader of a serial that comes by post. The fourth instalment is laid aside while
//! the third is awaited, for a limited time and on a shelf of limited length. Then the reader goes
//! on, and knows that an instalment is missing. If it still comes it is read all the same, as
//! *late*.
//!
//! No message is dropped: each one that is put in comes out once. With each message comes the
//! number of those that are missing right before it.

use std::collections::BTreeMap;
use std::time::Duration;

/// The bounds on the messages that are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// How many messages of all streams are held. Full: the oldest arrival goes out, with all
    /// earlier messages of its stream.
    pub messages: usize,
    /// How many bytes the held messages have together. A single message is held whatever its
    /// length. Full: as `messages`.
    pub bytes: usize,
    /// How many streams are known, at least 1. Full: the stream that has been silent longest is
    /// forgotten, after its held messages went out. If it goes on, it is treated as a new one.
    pub streams: usize,
    /// How long a message is held while earlier messages of its stream are missing.
    pub time: Duration,
}

/// The place and size of a message that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arrival<K> {
    /// The stream of the message.
    pub stream: K,
    /// The number of the message in the stream.
    pub number: u64,
    /// No earlier message of the stream is on its way any more. This is heeded only when the stream
    /// is new here: in a known stream a message that its origin keeps may still come.
    pub is_settled_before: bool,
    /// How many bytes the message counts in [`Bounds::bytes`].
    pub bytes: usize,
}

/// A message that goes out in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sorted<T> {
    /// How many messages are missing right before this one. They were lost or will come late.
    pub missing: u64,
    /// The message comes after it was reported missing, or has the number of another message.
    pub is_late: bool,
    /// The message itself.
    pub item: T,
}

/// Counts of events so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// How often messages were missing before one that went out.
    pub gaps: u64,
    /// Messages that came late.
    pub late: u64,
    /// How often messages of a stream went out early because too many messages or bytes were held.
    pub crowded: u64,
    /// Streams that were forgotten because there were too many.
    pub forgotten: u64,
}

/// Sorts messages of streams with keys of type `K`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sorter<K, T> {
    bounds: Bounds,
    streams: BTreeMap<K, Stream>,
    /// The streams by their last arrivals, the most silent first.
    silent: BTreeMap<u64, K>,
    /// The held messages by the number of their arrival.
    held: BTreeMap<u64, HeldMessage<K, T>>,
    bytes: usize,
    arrivals: u64,
    counts: Counts,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stream {
    /// The number of the message that goes out next.
    next: u64,
    /// The arrivals of the held messages, by their number in the stream.
    waiting: BTreeMap<u64, u64>,
    /// The last arrival of the stream.
    last: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct HeldMessage<K, T> {
    stream: K,
    number: u64,
    bytes: usize,
    since: Duration,
    item: T,
}

impl<K: Copy + Ord, T> Sorter<K, T> {
    /// A sorter that has seen no message.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            streams: BTreeMap::new(),
            silent: BTreeMap::new(),
            held: BTreeMap::new(),
            bytes: 0,
            arrivals: 0,
            counts: Counts::default(),
        }
    }

    /// A message has come at `now`, a time since any fixed instant. Messages that go out are added
    /// to `out`.
    pub fn take(&mut self, now: Duration, arrival: Arrival<K>, item: T, out: &mut Vec<Sorted<T>>) {
        self.hold(now, arrival, item, out);
        self.relieve(out);
    }

    /// As [`Sorter::take`], but more may be held than the bounds allow. A caller puts in several
    /// messages that came together, so that none of them is reported missing, and then calls
    /// [`Sorter::relieve`].
    pub fn hold(&mut self, now: Duration, arrival: Arrival<K>, item: T, out: &mut Vec<Sorted<T>>) {
        let Arrival { stream, number, .. } = arrival;
        let is_new = self.touch(stream, out);
        let Some(known) = self.streams.get_mut(&stream) else {
            return;
        };
        if number < known.next || known.waiting.contains_key(&number) {
            self.counts.late += 1;
            out.push(Sorted {
                missing: 0,
                is_late: true,
                item,
            });
            return;
        }
        known.waiting.insert(number, self.arrivals);
        let is_next = number == known.next;
        self.bytes = self.bytes.saturating_add(arrival.bytes);
        let held = HeldMessage {
            stream,
            number,
            bytes: arrival.bytes,
            since: now,
            item,
        };
        self.held.insert(self.arrivals, held);
        if is_next || (is_new && arrival.is_settled_before) {
            self.release(stream, number, out);
        }
    }

    /// Let messages go out until the bounds hold.
    pub fn relieve(&mut self, out: &mut Vec<Sorted<T>>) {
        while self.is_crowded() {
            self.counts.crowded += 1;
            self.release_oldest(out);
        }
    }

    /// Let the messages go out that have been held long enough at `now`.
    pub fn expire(&mut self, now: Duration, out: &mut Vec<Sorted<T>>) {
        while self.next_deadline().is_some_and(|until| until <= now) {
            self.release_oldest(out);
        }
    }

    /// When [`Sorter::expire`] next has something to do, unless more messages come.
    pub fn next_deadline(&self) -> Option<Duration> {
        let oldest = self.held.values().next()?;
        Some(oldest.since.saturating_add(self.bounds.time))
    }

    /// No more messages will come: let all go out.
    pub fn finish(&mut self, out: &mut Vec<Sorted<T>>) {
        while !self.held.is_empty() {
            self.release_oldest(out);
        }
    }

    /// How many messages are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether no message is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The counts of events so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether more messages are held than the bounds allow.
    pub fn is_crowded(&self) -> bool {
        let is_long = self.bytes > self.bounds.bytes && self.held.len() > 1;
        self.held.len() > self.bounds.messages || is_long
    }

    /// Note an arrival in a stream. Returns whether the stream is new.
    fn touch(&mut self, key: K, out: &mut Vec<Sorted<T>>) -> bool {
        self.arrivals += 1;
        if let Some(stream) = self.streams.get_mut(&key) {
            self.silent.remove(&stream.last);
            stream.last = self.arrivals;
            self.silent.insert(self.arrivals, key);
            return false;
        }
        while self.streams.len() >= self.bounds.streams.max(1) {
            self.forget_most_silent(out);
        }
        let stream = Stream {
            next: 0,
            waiting: BTreeMap::new(),
            last: self.arrivals,
        };
        self.streams.insert(key, stream);
        self.silent.insert(self.arrivals, key);
        true
    }

    fn forget_most_silent(&mut self, out: &mut Vec<Sorted<T>>) {
        let Some((_, key)) = self.silent.pop_first() else {
            return;
        };
        self.release(key, u64::MAX, out);
        self.streams.remove(&key);
        self.counts.forgotten += 1;
    }

    fn release_oldest(&mut self, out: &mut Vec<Sorted<T>>) {
        let oldest = self.held.values().next();
        if let Some((stream, number)) = oldest.map(|held| (held.stream, held.number)) {
            self.release(stream, number, out);
        }
    }

    /// Let the held messages of a stream go out up to the number `through`, and those that follow
    /// without a hole.
    fn release(&mut self, key: K, through: u64, out: &mut Vec<Sorted<T>>) {
        let Some(stream) = self.streams.get_mut(&key) else {
            return;
        };
        while let Some(first) = stream.waiting.first_entry() {
            let number = *first.key();
            if number > through && number != stream.next {
                return;
            }
            let arrival = first.remove();
            let missing = number.saturating_sub(stream.next);
            stream.next = number.saturating_add(1);
            if let Some(held) = self.held.remove(&arrival) {
                self.bytes -= held.bytes;
                self.counts.gaps += u64::from(missing > 0);
                out.push(Sorted {
                    missing,
                    is_late: false,
                    item: held.item,
                });
            }
        }
    }
}
