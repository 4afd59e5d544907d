//! The messages of each stream come in the order of their numbers. A gap is told in its place, a
//! message that comes after its gap is marked late, and the sorter loses no message.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh_routing::order::{Arrival, Bounds, Counts, Sorted, Sorter};
use proptest::collection::vec;
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds {
    messages: 100,
    bytes: 1000,
    streams: 8,
    time: Duration::from_millis(100),
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A sorter of messages that are pairs (stream, number).
struct Bench {
    sorter: Sorter<u32, (u32, u64)>,
    out: Vec<Sorted<(u32, u64)>>,
}

impl Bench {
    fn new(bounds: Bounds) -> Self {
        Self {
            sorter: Sorter::new(bounds),
            out: Vec::new(),
        }
    }

    fn take_all(&mut self, now: u64, (stream, number): (u32, u64), bytes: usize, is_settled: bool) {
        let arrival = Arrival {
            stream,
            number,
            is_settled_before: is_settled,
            bytes,
        };
        let item = (stream, number);
        self.sorter.take(ms(now), arrival, item, &mut self.out);
    }

    fn take(&mut self, now: u64, stream: u32, number: u64) {
        self.take_all(now, (stream, number), 1, false);
    }

    fn expire(&mut self, now: u64) {
        self.sorter.expire(ms(now), &mut self.out);
    }

    /// The output since the last call, as words: `-2` is a gap of two messages, `3` is message
    /// 3, and `3late` is message 3 marked late.
    fn said(&mut self) -> String {
        let mut words = Vec::new();
        for sorted in self.out.drain(..) {
            if sorted.missing > 0 {
                words.push(format!("-{}", sorted.missing));
            }
            let late = if sorted.is_late { "late" } else { "" };
            words.push(format!("{}{late}", sorted.item.1));
        }
        words.join(" ")
    }
}

#[test]
fn messages_wait_for_those_before_them() {
    let mut bench = Bench::new(BOUNDS);
    for number in [0, 3, 2] {
        bench.take(0, 7, number);
    }
    assert_eq!(bench.said(), "0");
    assert_eq!(bench.sorter.len(), 2);
    bench.take(99, 7, 1);
    assert_eq!(bench.said(), "1 2 3");
    assert_eq!(bench.sorter.next_deadline(), None);
    assert_eq!(bench.sorter.counts(), Counts::default());
}

#[test]
fn no_message_is_held_beyond_the_time_and_each_gap_is_told_in_its_place() {
    let mut bench = Bench::new(BOUNDS);
    bench.take(0, 7, 0);
    bench.take(10, 7, 5);
    bench.take(20, 7, 3);
    bench.take(20, 7, 9);
    assert_eq!(bench.sorter.next_deadline(), Some(ms(110)));
    bench.expire(109);
    assert_eq!(bench.said(), "0");
    bench.expire(110);
    assert_eq!(bench.said(), "-2 3 -1 5", "the time of 9 is not over");
    assert_eq!(bench.sorter.next_deadline(), Some(ms(120)));
    // Message 2 comes after its gap, and is not lost.
    bench.take(111, 7, 2);
    bench.take(111, 7, 6);
    assert_eq!(bench.said(), "2late 6");
    bench.expire(120);
    assert_eq!(bench.said(), "-2 9");
    let counts = bench.sorter.counts();
    assert_eq!((counts.gaps, counts.late, counts.crowded), (3, 1, 0));
}

#[test]
fn a_receiver_that_comes_later_is_told_how_many_messages_it_missed() {
    let mut bench = Bench::new(BOUNDS);
    // Earlier messages may be on their way.
    bench.take(0, 1, 1000);
    bench.take(1, 1, 999);
    assert_eq!(bench.said(), "");
    bench.expire(100);
    assert_eq!(bench.said(), "-999 999 1000");
    // No earlier message is on its way.
    bench.take_all(100, (2, 1000), 1, true);
    assert_eq!(bench.said(), "-1000 1000");
    // In a known stream this does not suffice, since a kept message may still come.
    bench.take_all(100, (2, 1002), 1, true);
    assert_eq!(bench.said(), "");
    bench.take(101, 2, 1001);
    assert_eq!(bench.said(), "1001 1002");
}

#[test]
fn streams_do_not_wait_for_each_other() {
    let mut bench = Bench::new(BOUNDS);
    bench.take(0, 1, 1);
    bench.take(0, 2, 0);
    bench.take(0, 2, 1);
    assert_eq!(bench.said(), "0 1");
    bench.take(0, 1, 0);
    assert_eq!(bench.said(), "0 1");
}

#[test]
fn held_messages_are_bounded_by_number_and_bytes_and_one_of_any_length_is_held() {
    let mut bench = Bench::new(Bounds {
        messages: 3,
        ..BOUNDS
    });
    for number in [2, 9, 5] {
        bench.take(0, 1, number);
    }
    assert_eq!(bench.said(), "");
    bench.take(0, 2, 7);
    assert_eq!(bench.said(), "-2 2", "it came first");
    bench.take(0, 1, 6);
    assert_eq!(bench.said(), "-2 5 6 -2 9", "that is next");
    assert_eq!(bench.sorter.counts().crowded, 2);

    let mut bench = Bench::new(BOUNDS);
    bench.take_all(0, (1, 4), 2000, false);
    assert_eq!(bench.said(), "");
    bench.take_all(0, (1, 6), 0, false);
    assert_eq!(bench.said(), "-4 4");
    bench.take_all(0, (1, 8), 1000, false);
    assert_eq!(bench.said(), "", "a thousand fit");
    bench.take_all(0, (1, 10), 1, false);
    assert_eq!(bench.said(), "-1 6 -1 8", "6 had no bytes");
    assert_eq!(bench.sorter.counts().crowded, 3);
}

#[test]
fn the_longest_silent_stream_is_forgotten_and_its_held_messages_go_out() {
    let mut bench = Bench::new(Bounds {
        streams: 2,
        ..BOUNDS
    });
    bench.take(0, 1, 0);
    bench.take(0, 2, 5);
    bench.take(0, 1, 1);
    assert_eq!(bench.said(), "0 1");
    bench.take(0, 3, 0);
    assert_eq!(bench.said(), "-5 5 0");
    bench.take(0, 1, 2);
    assert_eq!(bench.said(), "2", "1 is known");
    bench.take(0, 2, 6);
    assert_eq!(bench.said(), "", "2 seems to begin there");
    assert_eq!(bench.sorter.counts().forgotten, 2);
    bench.sorter.finish(&mut bench.out);
    assert_eq!(bench.said(), "-6 6");
}

/// A liar gives two messages one number.
#[test]
fn a_repeated_number_is_late_and_the_greatest_number_is_no_panic() {
    let mut bench = Bench::new(BOUNDS);
    for number in [0, 0, 4, 4, u64::MAX, u64::MAX] {
        bench.take(0, 1, number);
    }
    assert_eq!(bench.said(), format!("0 0late 4late {}late", u64::MAX));
    bench.sorter.finish(&mut bench.out);
    assert_eq!(bench.said(), format!("-3 4 -{} {}", u64::MAX - 5, u64::MAX));
}

/// The choices of an adversary: the lost messages of some streams, the order in which the other
/// messages come, and the pause before each.
#[derive(Debug, Clone)]
struct Weather {
    lost: BTreeSet<(u32, u64)>,
    coming: Vec<(u32, u64)>,
    pauses: Vec<u64>,
}

fn weather() -> impl Strategy<Value = Weather> {
    let lengths = vec(0..40u64, 1..5);
    lengths.prop_flat_map(|lengths| {
        let streams = (0..).zip(lengths.iter());
        let all: Vec<(u32, u64)> = streams
            .flat_map(|(stream, length)| (0..*length).map(move |number| (stream, number)))
            .collect();
        let kept = vec(prop::bool::weighted(0.8), all.len());
        let shuffled = Just(all.clone()).prop_shuffle();
        // Either in order or shuffled.
        let coming = prop_oneof![Just(all.clone()), shuffled];
        let pauses = vec(0..60u64, all.len());
        (Just(all), kept, coming, pauses).prop_map(|(all, kept, coming, pauses)| {
            let lost = all.iter().zip(kept).filter(|(_, kept)| !kept);
            let lost: BTreeSet<_> = lost.map(|(one, _)| *one).collect();
            let coming = coming.into_iter().filter(|one| !lost.contains(one));
            Weather {
                coming: coming.collect(),
                lost,
                pauses,
            }
        })
    })
}

type Numbers = BTreeSet<(u32, u64)>;

/// Checks an output without knowledge of the sorter. Each message comes once, the messages that
/// are not late come in order, and each gap has exactly the numbers that are told as missing.
/// Returns the missing numbers and the late messages.
fn judge(coming: &[(u32, u64)], out: &[Sorted<(u32, u64)>]) -> (Numbers, Numbers) {
    let mut next: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut missing, mut late) = (BTreeSet::new(), BTreeSet::new());
    let mut came = BTreeSet::new();
    for sorted in out {
        let (stream, number) = sorted.item;
        assert!(came.insert(sorted.item), "{:?} came twice", sorted.item);
        if sorted.is_late {
            assert_eq!(sorted.missing, 0);
            assert!(missing.contains(&sorted.item), "it was not missing");
            late.insert(sorted.item);
            continue;
        }
        let next = next.entry(stream).or_default();
        assert_eq!(*next + sorted.missing, number, "a hole that nobody told");
        missing.extend((*next..number).map(|number| (stream, number)));
        *next = number + 1;
    }
    assert_eq!(came, coming.iter().copied().collect());
    (missing, late)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// With enough room and time, the gaps are exactly the lost messages, and no message is
    /// late.
    #[test]
    fn messages_come_once_in_order_and_gaps_are_exactly_the_lost_ones(
        weather in weather(),
    ) {
        let patient = Bounds { messages: 1000, streams: 8, bytes: 1000, time: Duration::MAX };
        let mut bench = Bench::new(patient);
        for (stream, number) in &weather.coming {
            bench.take(0, *stream, *number);
        }
        bench.expire(1 << 40);
        bench.sorter.finish(&mut bench.out);
        let (missing, late) = judge(&weather.coming, &bench.out);
        // No gap is told for a message that was lost behind the last arrival of its stream.
        let lost = weather.lost.iter().filter(|(stream, number)| {
            weather.coming.iter().any(|(other, last)| other == stream && last > number)
        });
        prop_assert_eq!(missing, lost.copied().collect());
        prop_assert!(late.is_empty());
        prop_assert_eq!(bench.sorter.counts().crowded, 0);
    }

    /// With little room and time, each message that is told as missing is lost or comes late.
    /// The bounds hold.
    #[test]
    fn bounds_hold_and_messages_that_come_too_late_are_marked_late(
        weather in weather(),
        messages in 1..10usize,
        bytes in 1..20usize,
    ) {
        let bounds = Bounds { messages, bytes, ..BOUNDS };
        let mut bench = Bench::new(bounds);
        let mut now = 0;
        for ((stream, number), pause) in weather.coming.iter().zip(&weather.pauses) {
            now += pause;
            bench.expire(now);
            let oldest = bench.sorter.next_deadline();
            prop_assert!(oldest.is_none_or(|until| until > ms(now)));
            bench.take_all(now, (*stream, *number), 3, false);
            let held = bench.sorter.len();
            prop_assert!(held <= messages && (held <= 1 || 3 * held <= bytes));
        }
        bench.sorter.finish(&mut bench.out);
        let (missing, late) = judge(&weather.coming, &bench.out);
        let lost = missing.difference(&late);
        prop_assert!(lost.into_iter().all(|one| weather.lost.contains(one)));
        let counts = bench.sorter.counts();
        prop_assert_eq!(counts.late, late.len() as u64);
        let told = bench.out.iter().filter(|sorted| sorted.missing > 0).count();
        prop_assert_eq!(counts.gaps, told as u64);
    }
}
