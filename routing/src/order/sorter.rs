//! A receiver's side: messages as they come, sorted by what their origins numbered.
//!
//! Like a reader of a serial in a paper that comes by post: the fourth part is laid aside
//! while the third is awaited, for a time and on a shelf of limited length; then the reader
//! goes on and knows that one is missing. Should it come yet, it is read all the same, as
//! *late*.
//!
//! Nothing is dropped and nothing is passed over without a word: each message that is put
//! in comes out once, and what is missing between two is told with the second.

use std::collections::BTreeMap;
use std::time::Duration;

/// How much may be held, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// How many messages of all streams are held; of more, the one that came first goes
    /// out, with those before it.
    pub messages: usize,
    /// How many bytes they have; one is held however long it is.
    pub bytes: usize,
    /// How many streams are known, at least 1; of more, the one that has been silent for
    /// longest is forgotten. Goes it on, it seems to begin there.
    pub streams: usize,
    /// How long a message is held for those that are missing before it.
    pub time: Duration,
}

/// Where a message belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arrival<K> {
    /// In which stream.
    pub stream: K,
    /// Its place there.
    pub number: u64,
    /// Nothing before it in its stream is on its way any more. Believed of streams that
    /// are new here, and not of others: what their origin keeps may come yet.
    pub is_settled_before: bool,
    /// What it takes of [`Bounds::bytes`].
    pub bytes: usize,
}

/// A message in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sorted<T> {
    /// How many are missing right before it: they were lost, or will come late.
    pub missing: u64,
    /// It was said to be missing, or has the number of another.
    pub is_late: bool,
    /// The message.
    pub item: T,
}

/// What happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Places where something was missing.
    pub gaps: u64,
    /// Messages that came late.
    pub late: u64,
    /// Messages that went out because too many were held.
    pub crowded: u64,
    /// Streams that were forgotten because there were too many.
    pub forgotten: u64,
}

/// Sorts by streams of type `K`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sorter<K, T> {
    bounds: Bounds,
    streams: BTreeMap<K, Stream>,
    /// By when something of them came last: of each stream one.
    silent: BTreeMap<u64, K>,
    /// In the order in which they came.
    held: BTreeMap<u64, Held<K, T>>,
    bytes: usize,
    arrivals: u64,
    counts: Counts,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stream {
    /// What goes out next.
    next: u64,
    /// Which arrivals have which number, of those that are held.
    waiting: BTreeMap<u64, u64>,
    /// The last arrival.
    last: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Held<K, T> {
    stream: K,
    number: u64,
    bytes: usize,
    since: Duration,
    item: T,
}

impl<K: Copy + Ord, T> Sorter<K, T> {
    /// One that has seen nothing.
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

    /// A message has come at `now`, a time since any fixed instant. `out` gets what goes
    /// out for that.
    pub fn take(&mut self, now: Duration, arrival: Arrival<K>, item: T, out: &mut Vec<Sorted<T>>) {
        self.hold(now, arrival, item, out);
        self.relieve(out);
    }

    /// As [`Sorter::take`], but more may be held than the bounds allow: who has more to
    /// put in at once does not want to hear that something is missing which is among it.
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
        let held = Held {
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

    /// What is held beyond the bounds goes out.
    pub fn relieve(&mut self, out: &mut Vec<Sorted<T>>) {
        while self.is_crowded() {
            self.counts.crowded += 1;
            self.release_oldest(out);
        }
    }

    /// It is `now`: what was held for long enough goes out.
    pub fn expire(&mut self, now: Duration, out: &mut Vec<Sorted<T>>) {
        while self.next_deadline().is_some_and(|until| until <= now) {
            self.release_oldest(out);
        }
    }

    /// When [`Sorter::expire`] has something to do, if nothing else comes.
    pub fn next_deadline(&self) -> Option<Duration> {
        let oldest = self.held.values().next()?;
        Some(oldest.since.saturating_add(self.bounds.time))
    }

    /// Nothing more will come: everything goes out.
    pub fn finish(&mut self, out: &mut Vec<Sorted<T>>) {
        while !self.held.is_empty() {
            self.release_oldest(out);
        }
    }

    /// How many messages are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// What happened so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether more is held than the bounds allow.
    pub fn is_crowded(&self) -> bool {
        let is_long = self.bytes > self.bounds.bytes && self.held.len() > 1;
        self.held.len() > self.bounds.messages || is_long
    }

    /// Something of a stream has come; whether it is the first.
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

    /// What is held of a stream up to this number goes out, and what follows it without
    /// a hole.
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
