//! The time that the relay alone takes for a packet: `cargo bench -p binomesh-routing --bench
//! relay`.
//!
//! ```text
//!   origin (rank 0) ──copy [8,16)──▶ rank 8 ──▶ 12, 10, 9
//!                   ◀──done────────         ◀── done, done, done
//! ```
//!
//! One relay works through round after round of messages. Timed is only its handling of the inputs,
//! neither the making of the inputs nor the end of a round.

#[path = "../tests/network/single.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "shared with the tests, which use the rest"
)]
mod single;

use std::hint::black_box;
use std::time::{Duration, Instant};

use binomesh_routing::packet::{Errand, Message, Span, Topic};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination, Due, Input, Publish};
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion};
use single::{ORIGIN, Single, copy, member, placed};

const NODES: u32 = 16;
/// The ranks for which rank 8 answers. It hands parts of this span to three other ranks.
const PART: Span = Span::new(8, 16);
/// Messages in a round. All of them at once fit into a peer's window, and into the open packets of
/// an origin.
const ROUND: u64 = 16;
const SIZES: [usize; 2] = [1 << 10, 64 << 10];

/// The wall time that `work` takes.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures wall time; the relay reads no clock"
)]
fn timed(work: impl FnOnce()) -> Duration {
    let clock = Instant::now();
    work();
    clock.elapsed()
}

/// Do rounds until at least `steps` steps are timed. Returns the time, scaled to just that number.
fn rounds(steps: u64, mut round: impl FnMut(u64) -> (u64, Duration)) -> Duration {
    let (mut done, mut took, mut first) = (0, Duration::ZERO, 0);
    while done < steps {
        let (count, time) = round(first);
        (done, took, first) = (done + count, took + time, first + ROUND);
    }
    took.mul_f64(steps as f64 / done as f64)
}

/// Give the relay these messages, and return the time that it takes to handle them. Its effects are
/// collected, as by a host.
fn tell(node: &mut Single, messages: Vec<(u32, Message<u32>)>) -> Duration {
    timed(|| {
        for (from, message) in messages {
            let input = Input::Message { from, message };
            node.relay.handle(black_box(input), &mut node.out);
        }
    })
}

/// The copies of one round from the origin, whose mark closes all earlier rounds.
fn copies(first: u64, payload: &Bytes) -> Vec<(u32, Message<u32>)> {
    let copies = (first..first + ROUND).map(|sequence| {
        let mut message = copy(PART, sequence, 0);
        if let Message::Packet(packet) = &mut message {
            packet.header.closed_below = first;
            packet.payloads = payload.clone().into();
        }
        (ORIGIN, message)
    });
    copies.collect()
}

/// The copies that the relay has sent since the last call: receivers and errands.
fn handed(node: &mut Single) -> Vec<(u32, Errand<u32>)> {
    node.perform();
    let packets = node.packets().into_iter();
    packets
        .map(|(to, packet)| (to, packet.header.errand))
        .collect()
}

/// The answer to a copy of a part.
type Answer = fn(Errand<u32>) -> Message<u32>;

/// The answers of the peers to their copies.
fn answers(handed: &[(u32, Errand<u32>)], answer: Answer) -> Vec<(u32, Message<u32>)> {
    let handed = handed.iter().cloned();
    handed.map(|(to, errand)| (to, answer(errand))).collect()
}

fn done(errand: Errand<u32>) -> Message<u32> {
    Message::Done {
        errand,
        exceptions: Vec::new(),
        redelegated: 0,
        replaced: Vec::new(),
    }
}

fn custody(errand: Errand<u32>) -> Message<u32> {
    Message::Custody {
        errand,
        pending: Vec::new(),
    }
}

/// A round is over: forget the effects, and check that nothing is open.
fn end(node: &mut Single) {
    node.perform();
    assert!(node.relay.is_idle(), "something is open");
    node.sent.clear();
    node.receipts.clear();
}

fn handing_on(c: &mut Criterion) {
    let mut group = c.benchmark_group("a copy is delivered and handed to 3");
    for size in SIZES {
        let payload = Bytes::from(vec![7; size]);
        group.bench_function(BenchmarkId::from_parameter(size), |bench| {
            bench.iter_custom(|steps| {
                let mut node = member(NODES, PART.start, Config::default());
                rounds(steps, |first| {
                    let took = tell(&mut node, copies(first, &payload));
                    let handed = handed(&mut node);
                    assert_eq!(handed.len() as u64, 3 * ROUND);
                    tell(&mut node, answers(&handed, done));
                    end(&mut node);
                    (ROUND, took)
                })
            });
        });
    }
}

fn answering(c: &mut Criterion) {
    let mut group = c.benchmark_group("an answer comes to who handed it on");
    let payload = Bytes::from(vec![7; SIZES[0]]);
    let cases: [(&str, Answer); 2] = [("done", done), ("custody", custody)];
    for (name, answer) in cases {
        group.bench_function(name, |bench| {
            bench.iter_custom(|steps| {
                let mut node = member(NODES, PART.start, Config::default());
                rounds(steps, |first| {
                    tell(&mut node, copies(first, &payload));
                    let handed = handed(&mut node);
                    let took = tell(&mut node, answers(&handed, answer));
                    // After custody this ends the parts. After done it changes nothing.
                    tell(&mut node, answers(&handed, done));
                    end(&mut node);
                    (3 * ROUND, took)
                })
            });
        });
    }
}

fn publishing(c: &mut Criterion) {
    let mut group = c.benchmark_group("a message is published to 15");
    for size in SIZES {
        let payload = Bytes::from(vec![7; size]);
        group.bench_function(BenchmarkId::from_parameter(size), |bench| {
            bench.iter_custom(|steps| {
                let mut node = Single::new(ORIGIN);
                placed(1, NODES, &mut node);
                rounds(steps, |_| {
                    let messages: Vec<_> = (0..ROUND).map(|_| message(&payload)).collect();
                    let took = timed(|| {
                        for message in messages {
                            let id = node.relay.publish(black_box(message), &mut node.out);
                            id.expect("there is room");
                        }
                    });
                    let handed = handed(&mut node);
                    assert_eq!(handed.len() as u64, 4 * ROUND);
                    tell(&mut node, answers(&handed, done));
                    end(&mut node);
                    (ROUND, took)
                })
            });
        });
    }
}

fn message(payload: &Bytes) -> Publish<u32> {
    Publish {
        topic: Topic::new("test").expect("a topic"),
        payloads: payload.clone().into(),
        destination: Destination::All,
        strategy: Strategy::default(),
        due: Due::Settled,
        confirmation: Default::default(),
        is_ordered: false,
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    handing_on(&mut criterion);
    answering(&mut criterion);
    publishing(&mut criterion);
    criterion.final_summary();
}
