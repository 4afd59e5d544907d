//! The time to write and to read a message: `cargo bench -p binomesh-routing --bench wire`. The ids
//! are [`PeerId`]s of 16 bytes, as in a node.

use std::hint::black_box;

use binomesh_overlay::{Epoch, PeerId, Rank};
use binomesh_routing::packet::{Errand, Header, Message, Packet, PacketId, Part, Span, Topic};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::wire::{decode, encode};
use bytes::Bytes;
use criterion::Criterion;

/// The messages, with their names in the benchmark: packets of two lengths, and both answers.
fn messages() -> [(&'static str, Message<PeerId>); 4] {
    let custody = Message::Custody {
        errand: errand(),
        pending: vec![Span::new(12, 16)],
    };
    let done = Message::Done {
        errand: errand(),
        exceptions: Vec::new(),
        redelegated: 0,
        replaced: Vec::new(),
    };
    [
        ("packet of 1 KiB", packet(1 << 10)),
        ("packet of 64 KiB", packet(64 << 10)),
        ("custody", custody),
        ("done", done),
    ]
}

fn errand() -> Errand<PeerId> {
    let origin = PeerId::of_uri("spiffe://bench/node-0");
    Errand {
        id: PacketId {
            origin,
            boot: 1_700_000_000_000,
            sequence: 100_000,
        },
        epoch: Epoch {
            root: origin,
            boot: 1_700_000_000_000,
            counter: 3,
            nonce: u64::MAX / 3,
        },
        strategy: Strategy::default(),
        round: 0,
        part: Part::Range(Span::new(8, 16)),
    }
}

fn packet(payload: usize) -> Message<PeerId> {
    let header = Header {
        errand: errand(),
        origin_rank: Rank(0),
        to: Rank(8),
        closed_below: 99_990,
        is_kept: false,
        confirmation: Default::default(),
        topic: Topic::new("test").expect("a topic"),
        order: None,
        names: Vec::new(),
        stood: None,
        signature: None,
    };
    let payloads = Bytes::from(vec![7; payload]).into();
    Message::Packet(Box::new(Packet { header, payloads }))
}

/// Write head and payload apart, as for a stream.
fn encoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    for (name, message) in messages() {
        group.bench_function(name, |bench| {
            bench.iter(|| encode(black_box(&message)).expect("encodable"));
        });
    }
}

/// Read a message out of a frame that is in memory already.
fn decoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    for (name, message) in messages() {
        let (head, payload) = encode(&message).expect("encodable");
        let frame = Bytes::from([head, payload].concat());
        assert_eq!(decode(&frame), Ok(message), "what is written is read");
        group.bench_function(name, |bench| {
            bench.iter(|| decode::<PeerId>(black_box(&frame)).expect("a message"));
        });
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    encoding(&mut criterion);
    decoding(&mut criterion);
    criterion.final_summary();
}
