//! The bytes of relay messages: round trips, bounds, garbage, golden vectors.

use std::collections::BTreeSet;

use binomesh_overlay::{Epoch, PeerId, Rank};
use binomesh_routing::packet::{
    Confirmation, CustodyRefusal, Errand, Exception, Header, Message, Packet, PacketId, Part,
    Payloads, Reason, Signature, Span, State, Stood,
};
use binomesh_routing::strategy;
use binomesh_routing::wire::{DecodeError, MAX_HEAD_BYTES, VERSION, decode, encode};
use binomesh_routing::{Order, Topic};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

type Relayed = Message<PeerId>;

fn peer() -> impl Strategy<Value = PeerId> {
    any::<[u8; 16]>().prop_map(PeerId::from_bytes)
}

fn epoch() -> impl Strategy<Value = Epoch<PeerId>> {
    (peer(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(root, boot, counter, nonce)| {
        Epoch {
            root,
            boot,
            counter,
            nonce,
        }
    })
}

fn span() -> impl Strategy<Value = Span> {
    (any::<u32>(), any::<u32>()).prop_map(|(a, b)| {
        let start = a.min(b).min(u32::MAX - 1);
        Span::new(start, a.max(b).max(start + 1))
    })
}

fn part() -> impl Strategy<Value = Part> {
    let visited = vec(any::<u32>().prop_map(Rank), 0..=Part::MAX_VISITED);
    let cuts = proptest::collection::btree_set(any::<u32>(), 2..=2 * Part::MAX_SPANS);
    let dead = vec(any::<u32>().prop_map(Rank), 0..=Part::MAX_DEAD);
    let routed = (cuts.prop_map(between), visited, dead);
    prop_oneof![
        span().prop_map(Part::Range),
        routed.prop_map(|(spans, visited, dead)| Part::Routed {
            spans,
            visited,
            dead
        }),
    ]
}

/// Ordered, disjoint spans: from the first cut to the second, from the third to the fourth, etc.
fn between(cuts: BTreeSet<u32>) -> Vec<Span> {
    let cuts: Vec<u32> = cuts.into_iter().collect();
    let pairs = cuts.chunks_exact(2);
    pairs.map(|pair| Span::new(pair[0], pair[1])).collect()
}

fn errand() -> impl Strategy<Value = Errand<PeerId>> {
    let id =
        (peer(), any::<u64>(), 0..u64::MAX - 9).prop_map(|(origin, boot, sequence)| PacketId {
            origin,
            boot,
            sequence,
        });
    let all = (id, epoch(), strategy(), any::<u32>(), part());
    all.prop_map(|(id, epoch, strategy, round, part)| Errand {
        id,
        epoch,
        strategy,
        round,
        part,
    })
}

fn strategy() -> impl Strategy<Value = strategy::Strategy> {
    prop_oneof![
        Just(strategy::Strategy::Binomial),
        Just(strategy::Strategy::Flood),
        Just(strategy::Strategy::Chain),
        (any::<u32>(), vec(any::<u16>(), 0..6)).prop_map(|(left, lost)| {
            let lost = lost.into_iter().map(|rank| Rank(rank.into()));
            strategy::Strategy::circulant(left).without(lost)
        }),
        (2..=strategy::Strategy::MAX_FANOUT)
            .prop_map(|fanout| strategy::Strategy::SiblingTree { fanout }),
    ]
}

fn exception() -> impl Strategy<Value = Exception<PeerId>> {
    let state = prop_oneof![Just(State::Refused), Just(State::Unconfirmed)];
    let reason = prop_oneof![
        Just(Reason::Down),
        Just(Reason::Summarised),
        Just(Reason::Draining)
    ];
    (span(), proptest::option::of(peer()), state, reason).prop_map(|(span, peer, state, reason)| {
        Exception {
            span,
            peer,
            state,
            reason,
        }
    })
}

fn packet() -> impl Strategy<Value = Relayed> {
    let topic = "[a-zé]{1,100}".prop_map(|name| Topic::new(name).unwrap());
    let payload = vec(any::<u8>(), 0..500).prop_map(Bytes::from);
    let payloads = vec(payload, 1..5).prop_map(|all| Payloads::join(&all).unwrap());
    (
        errand(),
        any::<u32>(),
        any::<u32>(),
        any::<u64>(),
        topic,
        payloads,
        any::<bool>(),
        peer(),
        order(),
    )
        .prop_map(
            |(errand, origin_rank, to, closed_below, topic, payloads, is_named, name, order)| {
                let count = errand.part.count();
                let fits = is_named && count <= Header::<PeerId>::MAX_NAMES as u64;
                let count = if fits { count as usize } else { 0 };
                let stood = Stood {
                    epoch: errand.epoch,
                    ranks: (0..count)
                        .map(|at| (at % 2 == 0).then_some(Rank(to)))
                        .collect(),
                };
                let header = Header {
                    errand,
                    origin_rank: Rank(origin_rank),
                    to: Rank(to),
                    closed_below,
                    is_kept: is_named,
                    confirmation: Confirmation::Delivered,
                    topic,
                    order,
                    names: vec![name; count],
                    stood: (count > 0).then_some(stood),
                    signature: signature(count % 100),
                };
                Message::Packet(Box::new(Packet { header, payloads }))
            },
        )
}

fn order() -> impl Strategy<Value = Option<Order>> {
    let order = (any::<u64>(), 0..u64::MAX - 9);
    proptest::option::of(order.prop_map(|(stream, number)| Order { stream, number }))
}

fn message() -> impl Strategy<Value = Relayed> {
    let replaced = vec(peer(), 0..=Relayed::MAX_REPLACED);
    let done = (errand(), vec(exception(), 0..=256), any::<u32>(), replaced);
    let custody = (errand(), vec(span(), 0..=64));
    prop_oneof![
        packet(),
        custody.prop_map(|(errand, pending)| Message::Custody { errand, pending }),
        done.prop_map(
            |(errand, exceptions, redelegated, replaced)| Message::Done {
                errand,
                exceptions,
                redelegated,
                replaced,
            }
        ),
        (epoch(), any::<u32>(), 2..=strategy::Strategy::MAX_FANOUT).prop_map(
            |(epoch, rank, fanout)| {
                Message::Hello {
                    epoch,
                    rank: Rank(rank),
                    fanout,
                }
            }
        ),
        (errand(), proptest::sample::select(&CustodyRefusal::ALL[..]))
            .prop_map(|(errand, reason)| Message::Refused { errand, reason }),
        (errand(), proptest::option::of(peer())).prop_map(|(errand, name)| {
            let name = name.filter(|_| matches!(errand.part, Part::Range(_)));
            Message::Inquire { errand, name }
        }),
        (epoch(), any::<u32>(), any::<u32>()).prop_map(|(epoch, start, count)| {
            Message::RosterAsk {
                epoch,
                start: Rank(start),
                count,
            }
        }),
        (epoch(), any::<u32>(), vec(peer(), 0..=256)).prop_map(|(epoch, start, peers)| {
            Message::RosterTell {
                epoch,
                start: Rank(start),
                peers,
            }
        }),
    ]
}

fn frame(message: &Relayed) -> Bytes {
    let (head, payload) = encode(message).unwrap();
    [head, payload].concat().into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_message_is_decoded_as_it_was_encoded(message in message()) {
        let (head, payload) = encode(&message).unwrap();
        prop_assert!(head.len() <= MAX_HEAD_BYTES);
        prop_assert_eq!(decode::<PeerId>(&[head, payload].concat().into()), Ok(message));
    }

    #[test]
    fn garbage_is_an_error_and_no_panic(mut bytes in vec(any::<u8>(), 0..300)) {
        let _ = decode::<PeerId>(&Bytes::from(bytes.clone()));
        if let Some(version) = bytes.first_mut() {
            *version = VERSION;
        }
        let _ = decode::<PeerId>(&bytes.into());
    }

    #[test]
    fn a_damaged_frame_is_no_panic(message in message(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = frame(&message).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = to;
        let _ = decode::<PeerId>(&bytes.clone().into());
        bytes.truncate(at);
        let is_packet = matches!(message, Message::Packet(_));
        prop_assert!(is_packet || decode::<PeerId>(&bytes.into()).is_err());
    }
}

fn signature(length: usize) -> Option<Signature> {
    Signature::new(vec![7; length].into())
}

fn small_errand(part: Part) -> Errand<u32> {
    Errand {
        id: PacketId {
            origin: 1,
            boot: 300,
            sequence: 2,
        },
        epoch: Epoch {
            root: 3,
            boot: 4,
            counter: 5,
            nonce: 6,
        },
        strategy: strategy::Strategy::Binomial,
        round: 0,
        part,
    }
}

#[test]
fn golden_vectors_do_not_change() {
    let packet = Message::Packet(Box::new(Packet {
        header: Header {
            errand: small_errand(Part::Range(Span::new(4, 8))),
            origin_rank: Rank(9),
            to: Rank(13),
            closed_below: 1,
            is_kept: true,
            confirmation: Confirmation::Acknowledged,
            topic: Topic::new("hi").unwrap(),
            order: None,
            names: Vec::new(),
            stood: None,
            signature: None,
        },
        payloads: Bytes::from_static(b"payload").into(),
    }));
    let (head, payload) = encode(&packet).unwrap();
    let errand = [1, 0xac, 2, 2, 3, 4, 5, 6, 0, 0];
    let tail = [0, 4, 8, 9, 13, 1, 1, 2, 2, b'h', b'i', 0, 0, 0, 0, 0];
    assert_eq!(head, [&[11, 0][..], &errand, &tail].concat());
    assert_eq!(payload, &b"payload"[..]);

    let done = Message::Done {
        errand: small_errand(Part::Routed {
            spans: vec![Span::single(4)],
            visited: vec![Rank(9)],
            dead: vec![Rank(77)],
        }),
        exceptions: vec![Exception {
            span: Span::single(4),
            peer: Some(70),
            state: State::Unconfirmed,
            reason: Reason::NoRoute,
        }],
        redelegated: 2,
        replaced: vec![71],
    };
    let (head, payload) = encode(&done).unwrap();
    let tail = [1, 1, 4, 5, 1, 9, 1, 77, 1, 4, 5, 1, 70, 1, 2, 2, 1, 71];
    assert_eq!(head, [&[11, 2][..], &errand, &tail].concat());
    assert!(payload.is_empty());

    let mut named = packet;
    if let Message::Packet(packet) = &mut named {
        packet.header.names = vec![70, 71, 72, 73];
    }
    let head = encode(&named).unwrap().0;
    let tail = [
        0, 4, 8, 9, 13, 1, 1, 2, 2, b'h', b'i', 0, 4, 70, 71, 72, 73, 0, 0, 0,
    ];
    assert_eq!(head, [&[11, 0][..], &errand, &tail].concat());

    if let Message::Packet(packet) = &mut named {
        let three = ["pay", "", "load"].map(Bytes::from);
        packet.payloads = Payloads::join(&three).unwrap();
    }
    let (head, payload) = encode(&named).unwrap();
    assert_eq!(head.last_chunk(), Some(&[73, 0, 0, 2, 3, 3]));
    assert_eq!(payload, &b"payload"[..]);

    if let Message::Packet(packet) = &mut named {
        packet.header.signature = signature(3);
        packet.header.stood = Some(Stood {
            epoch: packet.header.errand.epoch,
            ranks: vec![Some(Rank(9)), None, None, Some(Rank(2))],
        });
    }
    let head = encode(&named).unwrap().0;
    let stood = [73, 1, 3, 4, 5, 6, 4, 1, 9, 0, 0, 1, 2];
    let end = [&stood[..], &[1, 3, 7, 7, 7, 2, 3, 3]].concat();
    assert!(head.ends_with(&end), "{head:?}");

    if let Message::Packet(packet) = &mut named {
        packet.header.order = Some(Order {
            stream: 300,
            number: 5,
        });
    }
    let head = encode(&named).unwrap().0;
    assert_eq!(head[head.len() - 31..][..6], [b'h', b'i', 1, 0xac, 2, 5]);

    let inquire = Message::Inquire {
        errand: small_errand(Part::Range(Span::new(4, 8))),
        name: Some(70),
    };
    let head = encode(&inquire).unwrap().0;
    assert_eq!(head, [&[11, 4][..], &errand, &[0, 4, 8, 1, 70]].concat());

    let refused = Message::Refused {
        errand: small_errand(Part::Range(Span::new(4, 8))),
        reason: CustodyRefusal::NotThatPeer,
    };
    let head = encode(&refused).unwrap().0;
    assert_eq!(head, [&[11, 3][..], &errand, &[0, 4, 8, 9]].concat());

    for (strategy, written) in [
        (strategy::Strategy::SiblingTree { fanout: 4 }, &[1, 4][..]),
        (strategy::Strategy::circulant(7), &[4, 7, 0, 0, 0, 0]),
        (
            strategy::Strategy::circulant(7).without([Rank(9), Rank(300)]),
            &[4, 7, 1, 9, 1, 0xac, 2, 0, 0],
        ),
    ] {
        let mut errand = small_errand(Part::Range(Span::new(4, 8)));
        errand.strategy = strategy;
        let refused = Message::Refused {
            errand,
            reason: CustodyRefusal::Busy,
        };
        let head = encode(&refused).unwrap().0;
        let errand = [&[1, 0xac, 2, 2, 3, 4, 5, 6][..], written, &[0]].concat();
        assert_eq!(head, [&[11, 3][..], &errand, &[0, 4, 8, 3]].concat());
    }

    let hello = Message::<u32>::Hello {
        epoch: small_errand(Part::Range(Span::new(4, 8))).epoch,
        rank: Rank(9),
        fanout: 2,
    };
    let head = encode(&hello).unwrap().0;
    assert_eq!(head, &[11, 5, 3, 4, 5, 6, 9, 2][..]);
}

#[test]
fn values_out_of_bounds_are_refused() {
    let inquire_of = |part, name| {
        let errand = small_errand(part);
        encode(&Message::Inquire { errand, name }).unwrap().0
    };
    let inquire = |part| inquire_of(part, None);
    let routed = |spans: usize, visited: usize| Part::Routed {
        spans: (1..).take(spans).map(Span::single).collect(),
        visited: vec![Rank(1); visited],
        dead: vec![Rank(1); Part::MAX_DEAD],
    };
    let spans = |spans: &[(u32, u32)]| Part::Routed {
        spans: (spans.iter())
            .map(|(start, end)| Span::new(*start, *end))
            .collect(),
        visited: Vec::new(),
        dead: Vec::new(),
    };
    let read = |bytes: Bytes| decode::<u32>(&bytes).map(|_| ());
    assert_eq!(read(inquire(routed(256, 64))), Ok(()));
    for part in [
        routed(0, 0),
        routed(257, 0),
        Part::Range(Span::new(4, 4)),
        Part::Range(Span::new(4, 3)),
        spans(&[(4, 5), (4, 5)]),
        spans(&[(4, 9), (8, 12)]),
        spans(&[(8, 9), (4, 5)]),
    ] {
        assert_eq!(read(inquire(part)), Err(DecodeError::OutOfBounds("spans")));
    }
    let error = DecodeError::OutOfBounds("visited or dead");
    assert_eq!(read(inquire(routed(1, 65))), Err(error));
    let too_many_dead = Part::Routed {
        spans: vec![Span::single(4)],
        visited: Vec::new(),
        dead: vec![Rank(1); Part::MAX_DEAD + 1],
    };
    assert_eq!(read(inquire(too_many_dead)), Err(error));
    for fanout in [0, 1, strategy::Strategy::MAX_FANOUT + 1] {
        let mut errand = small_errand(Part::Range(Span::new(4, 8)));
        errand.strategy = strategy::Strategy::SiblingTree { fanout };
        let name = None;
        let head = encode(&Message::Inquire { errand, name }).unwrap().0;
        let error = DecodeError::OutOfBounds("fanout");
        assert_eq!(read(head), Err(error));
    }
    let done = |replaced: usize| Message::Done {
        errand: small_errand(Part::Range(Span::new(4, 8))),
        exceptions: Vec::new(),
        redelegated: 0,
        replaced: vec![7; replaced],
    };
    let most = Message::<u32>::MAX_REPLACED;
    assert_eq!(read(encode(&done(most)).unwrap().0), Ok(()));
    let error = DecodeError::OutOfBounds("replaced");
    assert_eq!(read(encode(&done(most + 1)).unwrap().0), Err(error));
    let error = DecodeError::OutOfBounds("name");
    assert_eq!(read(inquire_of(routed(1, 1), Some(7))), Err(error));
    let good = inquire(routed(1, 1));
    let longer: Bytes = [&good[..], b"xy"].concat().into();
    assert_eq!(read(longer), Err(DecodeError::TrailingBytes(2)));
    let newer: Bytes = [&[VERSION + 1], &good[1..]].concat().into();
    assert_eq!(read(newer), Err(DecodeError::Version(Some(VERSION + 1))));
    assert_eq!(read(Bytes::new()), Err(DecodeError::Version(None)));
}

/// A part has a name for each of its positions, or has no name. It has at most 2,048 names, so
/// the head stays below its bound with any other content.
#[test]
fn names_that_do_not_fit_their_part_are_refused() {
    let named = |part: Part, names: usize, signature| {
        let errand = Errand {
            id: PacketId {
                origin: PeerId::from_bytes([255; 16]),
                boot: u64::MAX,
                sequence: u64::MAX - 1,
            },
            epoch: Epoch {
                root: PeerId::from_bytes([255; 16]),
                boot: u64::MAX,
                counter: u64::MAX,
                nonce: u64::MAX,
            },
            strategy: strategy::Strategy::SiblingTree {
                fanout: strategy::Strategy::MAX_FANOUT,
            },
            round: u32::MAX,
            part,
        };
        let stood = Stood {
            epoch: errand.epoch,
            ranks: vec![Some(Rank(u32::MAX)); names],
        };
        let header = Header {
            errand,
            origin_rank: Rank(u32::MAX),
            to: Rank(u32::MAX),
            closed_below: u64::MAX,
            is_kept: false,
            confirmation: Default::default(),
            topic: Topic::new("x".repeat(255)).unwrap(),
            order: None,
            names: vec![PeerId::from_bytes([255; 16]); names],
            stood: Some(stood),
            signature,
        };
        let payloads = Payloads::default();
        encode(&Message::Packet(Box::new(Packet { header, payloads })))
            .unwrap()
            .0
    };
    let range = |count: u32| Part::Range(Span::new(9, 9 + count));
    let widest = Part::Routed {
        spans: (0..256)
            .map(|at| Span::new(u32::MAX - 5_000 + 16 * at, u32::MAX - 4_992 + 16 * at))
            .collect(),
        visited: vec![Rank(u32::MAX); 64],
        dead: vec![Rank(u32::MAX); Part::MAX_DEAD],
    };
    for (part, names) in [
        (range(5), 0),
        (range(5), 5),
        (range(2049), 0),
        (widest.clone(), 2048),
    ] {
        let head = named(part, names, signature(Signature::MAX_BYTES));
        assert!(head.len() < MAX_HEAD_BYTES, "{}", head.len());
        assert!(decode::<PeerId>(&head).is_ok());
    }
    for (part, names) in [
        (range(5), 4),
        (range(5), 6),
        (range(2049), 2049),
        (widest, 2047),
        (Part::Range(Span::new(0, u32::MAX)), 1),
    ] {
        let error = DecodeError::OutOfBounds("names");
        assert_eq!(decode::<PeerId>(&named(part, names, None)), Err(error));
    }
}

/// In a packet with an order the messages have consecutive numbers from the order's number on.
/// All of them, and the number after the last, must fit into 64 bits.
#[test]
fn numbers_without_an_end_are_refused() {
    for (first, count, fits) in [
        (u64::MAX - 3, 3, true),
        (u64::MAX - 2, 3, false),
        (u64::MAX, 1, false),
    ] {
        let number = first;
        let header = Header {
            errand: small_errand(Part::Range(Span::new(4, 8))),
            origin_rank: Rank(9),
            to: Rank(13),
            closed_below: 1,
            is_kept: false,
            confirmation: Default::default(),
            topic: Topic::new("x").unwrap(),
            order: Some(Order { stream: 0, number }),
            names: Vec::new(),
            stood: None,
            signature: None,
        };
        let payloads = Payloads::join(&vec![Bytes::new(); count]).unwrap();
        let packet = Message::Packet(Box::new(Packet { header, payloads }));
        let read = decode::<u32>(&encode(&packet).unwrap().0).map(|_| ());
        let error = DecodeError::OutOfBounds("order");
        assert_eq!(read, if fits { Ok(()) } else { Err(error) });
    }
}

/// A signature that is empty or too long cannot be made, but it can be written on the wire.
#[test]
fn a_signature_out_of_its_bounds_is_refused() {
    let header = Header {
        errand: small_errand(Part::Range(Span::new(4, 8))),
        origin_rank: Rank(9),
        to: Rank(13),
        closed_below: 1,
        is_kept: false,
        confirmation: Default::default(),
        topic: Topic::new("x").unwrap(),
        order: None,
        names: Vec::new(),
        stood: None,
        signature: None,
    };
    let payloads = Payloads::default();
    let unsigned = encode(&Message::Packet(Box::new(Packet { header, payloads })))
        .unwrap()
        .0;
    let most = Signature::MAX_BYTES;
    let longest = signature(most).unwrap();
    assert_eq!(longest.bytes().len(), most);
    for (length, fits) in [(0, false), (1, true), (most, true), (most + 1, false)] {
        let varint = [(length % 128) as u8 | 0x80, (length / 128) as u8];
        let head = &unsigned[..unsigned.len() - 2];
        let signed: Bytes = [head, &[1], &varint, &vec![7; length], &[0]]
            .concat()
            .into();
        let error = DecodeError::OutOfBounds("signature");
        let read = decode::<u32>(&signed).map(|_| ());
        assert_eq!(read, if fits { Ok(()) } else { Err(error) });
    }
}

#[test]
fn a_topic_is_checked_when_it_is_read() {
    let message = Message::Packet(Box::new(Packet {
        header: Header {
            errand: small_errand(Part::Range(Span::new(4, 8))),
            origin_rank: Rank(9),
            to: Rank(13),
            closed_below: 1,
            is_kept: false,
            confirmation: Default::default(),
            topic: Topic::new("x").unwrap(),
            order: None,
            names: Vec::new(),
            stood: None,
            signature: None,
        },
        payloads: Default::default(),
    }));
    let head = encode(&message).unwrap().0;
    let with_topic = |name: &str| -> Bytes {
        let length = [(name.len() % 128) as u8 | 0x80, (name.len() / 128) as u8];
        [
            &head[..head.len() - 7],
            &length,
            name.as_bytes(),
            &[0, 0, 0, 0, 0],
        ]
        .concat()
        .into()
    };
    assert!(decode::<u32>(&with_topic(&"a".repeat(255))).is_ok());
    assert_eq!(
        decode::<u32>(&with_topic(&"a".repeat(256))),
        Err(DecodeError::Malformed)
    );
    assert!(Topic::new("").is_err());
}
