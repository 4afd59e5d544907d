//! Several messages in one packet count and arrive as several messages.

use std::collections::BTreeSet;

use crate::network::{Conditions, Id, Network, seeds};
use binomesh_routing::packet::{Message, Packet, Payloads};
use binomesh_routing::{Config, Destination, Due, Input, PublishError};
use bytes::Bytes;
use rand::Rng;

fn payloads(texts: &[&'static str]) -> Payloads {
    let all: Vec<Bytes> = texts.iter().map(|text| Bytes::from(*text)).collect();
    Payloads::join(&all).unwrap()
}

fn publish(network: &mut Network, origin: u32, texts: &[&'static str]) -> Id {
    let (all, payloads) = (Destination::All, payloads(texts));
    let due = Due::Settled;
    network.publish_all(origin, all, payloads, due).unwrap()
}

fn nth(first: Id, place: u64) -> Id {
    Id {
        sequence: first.sequence + place,
        ..first
    }
}

/// Each message is delivered once under its own sequence. The next packet continues behind the last
/// sequence, and one receipt speaks for all messages of a packet.
#[test]
fn each_message_of_a_packet_is_delivered_under_its_own_sequence() {
    let mut network = Network::new(16, 1, Conditions::default(), Config::default());
    let origin = network.members[5];
    let texts = ["a", "", "long one", "a"];
    let first = publish(&mut network, origin, &texts);
    let second = publish(&mut network, origin, &["b"]);
    assert_eq!(second, nth(first, 4));
    network.run_until_receipts(10_000_000);
    for member in network.members.clone() {
        for (place, text) in (0..).zip(texts.into_iter().chain(["b"])) {
            let id = nth(first, place);
            let expected = (member != origin).then(|| Bytes::from(text));
            assert_eq!(network.payloads.get(&(member, id)), expected.as_ref());
            assert_eq!(network.delivered(id, member), u32::from(member != origin));
        }
    }
    let receipts: Vec<_> = network.receipts.values().flatten().collect();
    let counts: Vec<_> = receipts.iter().map(|receipt| receipt.count).collect();
    assert_eq!(counts, [4, 1]);
    assert!(receipts.iter().all(|receipt| receipt.reached_count == 15));
}

/// With losses, crashes and late custody, each survivor gets every message of every packet
/// once, and each packet has one receipt.
#[test]
fn losses_and_crashes_lose_no_message_of_a_packet() {
    for seed in seeds(300) {
        let conditions = Conditions {
            loss: 0.05,
            ..Conditions::default()
        };
        let mut network = Network::new(24, seed, conditions, Config::default());
        let members = network.members.clone();
        let origin = members[3];
        let mut firsts = Vec::new();
        let mut dead = BTreeSet::new();
        for round in 0..6 {
            let count = network.rng.random_range(1..=5);
            let texts = ["v", "w", "x", "y", "z"];
            firsts.push((publish(&mut network, origin, &texts[..count]), count as u64));
            let us = network.rng.random_range(0..20_000);
            network.run_for(us);
            if round % 2 == 1 {
                let victim = members[network.rng.random_range(4..24)];
                network.crash(victim);
                dead.insert(victim);
            }
        }
        network.run_until_receipts(60_000_000);
        for (first, count) in firsts {
            let receipts = &network.receipts[&first];
            assert_eq!(
                (receipts.len(), receipts[0].count),
                (1, count),
                "seed {seed}"
            );
            for member in members.iter().filter(|member| **member != origin) {
                for id in (0..count).map(|place| nth(first, place)) {
                    let delivered = network.delivered(id, *member);
                    assert!(delivered <= 1, "seed {seed}: {id:?} twice at {member}");
                    let is_missed = delivered == 0 && !dead.contains(member);
                    assert!(!is_missed, "seed {seed}: {id:?} is missing at {member}");
                }
            }
        }
    }
}

/// A member that shall hand on a packet of three messages lies: instead of the packet it sends one
/// forged message, under the sequence of the second. No message comes twice for that reason.
#[test]
fn messages_that_a_liar_sends_apart_come_once() {
    let mut network = Network::new(16, 1, Conditions::default(), Config::default());
    let origin = network.members[0];
    network.liar = Some((network.members[8], |message| {
        let Message::Packet(mut packet) = message else {
            return Some(message);
        };
        let id = &mut packet.header.errand.id;
        id.sequence += 1;
        // Hosts would refuse a copy whose signature is for another content.
        packet.header.signature = None;
        let payloads = Bytes::from_static(b"forged").into();
        Some(Message::Packet(Box::new(Packet {
            payloads,
            ..*packet
        })))
    }));
    let first = publish(&mut network, origin, &["a", "b", "c"]);
    network.run_for(20_000_000);
    let forged = network.payloads.values().filter(|text| **text == "forged");
    assert!(forged.count() > 0, "the liar did nothing");
    for member in &network.members[1..] {
        for place in 0..3 {
            assert!(network.delivered(nth(first, place), *member) <= 1);
        }
    }
}

/// A copy with fewer messages does not stand for the packet. The origin's own copy takes the place
/// of that copy, and all messages reach the members behind.
#[test]
fn a_cut_packet_does_not_stand_for_the_whole() {
    let mut network = Network::new(4, 1, Conditions::default(), Config::default());
    let members = network.members.clone();
    let first = publish(&mut network, members[0], &["a", "b", "c"]);
    let copies = network.take_packets(members[0], members[2]);
    let mut cut = copies[0].clone();
    cut.payloads = Bytes::from_static(b"a").into();
    let at = |network: &mut Network, delay, from, packet: Packet<u32>| {
        let message = Message::Packet(Box::new(packet));
        network.input_after(members[2], delay, Input::Message { from, message });
    };
    at(&mut network, 0, members[1], cut);
    at(&mut network, 20_000, members[0], copies[0].clone());
    network.run_until_receipts(20_000_000);
    for place in 0..3 {
        let id = nth(first, place);
        assert!(
            members[1..]
                .iter()
                .all(|at| network.delivered(id, *at) == 1)
        );
    }
}

/// The last possible sequences cannot be used, and cause no panic.
#[test]
fn a_packet_at_the_end_of_all_sequences_does_no_harm() {
    let mut network = Network::new(4, 1, Conditions::default(), Config::default());
    let members = network.members.clone();
    publish(&mut network, members[0], &["a"]);
    let mut last = network.take_packets(members[0], members[2])[0].clone();
    last.header.errand.id.sequence = u64::MAX - 1;
    last.header.closed_below = u64::MAX - 1;
    let message = Message::Packet(Box::new(last));
    let from = members[1];
    network.input_after(members[2], 0, Input::Message { from, message });
    network.run_until_receipts(20_000_000);
}

/// The window is a number of messages. There is also a bound on the number of packets.
#[test]
fn the_window_counts_messages_and_packets() {
    let config = Config {
        window: 6,
        max_open: 3,
        ..Config::default()
    };
    for (counts, full) in [
        (&[4, 2][..], &[1][..]),
        (&[4, 1], &[2]),
        (&[1, 1, 1], &[1]),
        (&[], &[7]),
    ] {
        let mut network = Network::new(4, 1, Conditions::default(), config);
        let origin = network.members[0];
        let mut publish = |count: usize| {
            let joined = payloads(&vec!["x"; count]);
            network.publish_all(origin, Destination::All, joined, Due::Settled)
        };
        for count in counts {
            assert!(publish(*count).is_ok(), "{counts:?}");
        }
        for count in full {
            let refused = publish(*count);
            assert_eq!(refused, Err(PublishError::WindowFull(counts.len())));
        }
        network.run_until_receipts(10_000_000);
        assert!(network.publish(origin, 1).is_ok());
    }
}

/// Copies beyond a peer's window wait in the relay until earlier copies are answered. All messages
/// arrive, and no more bytes are on their way than the window allows.
#[test]
fn a_peers_window_holds_copies_back_and_loses_none() {
    let config = Config {
        peer_window: 1500,
        ..Config::default()
    };
    let mut network = Network::new(8, 1, Conditions::default(), config);
    let origin = network.members[0];
    let ids: Vec<Id> = (0..40)
        .map(|_| network.publish(origin, 1000).unwrap())
        .collect();
    // One copy is on its way to each of the three clockwise fingers, and 39 copies wait for each.
    assert_eq!(network.stats(origin).held_back, 3 * 39);
    assert_eq!(network.stats(origin).packets_sent, 3);
    network.run_until_receipts(10_000_000);
    let members = network.members.clone();
    for id in ids {
        assert!(
            members[1..]
                .iter()
                .all(|at| network.delivered(id, *at) == 1)
        );
    }
    network.assert_sound();
    assert_eq!(network.stats(origin).packets_sent, 3 * 40, "each once");
}

/// The messages that wait for a silent peer reach all other members. The peer gets them when it
/// is back.
#[test]
fn copies_for_a_silent_peer_wait_and_are_sent_when_it_is_back() {
    let config = Config {
        peer_window: 1500,
        ..Config::default()
    };
    let mut network = Network::new(8, 1, Conditions::default(), config);
    let (origin, slow) = (network.members[0], network.members[4]);
    network.pause(slow, 900_000);
    let ids: Vec<Id> = (0..8)
        .map(|_| network.publish(origin, 1000).unwrap())
        .collect();
    network.run_for(800_000);
    let members = network.members.clone();
    for id in &ids {
        let has = |member: &u32| network.delivered(*id, *member) == 1;
        let without: Vec<u32> = members.iter().copied().filter(|m| !has(m)).collect();
        assert_eq!(without, [origin, slow], "{id:?}");
    }
    network.run_until_receipts(60_000_000);
    assert!(ids.iter().all(|id| network.delivered(*id, slow) == 1));
    let sent = Input::Writable(slow);
    network.input_after(origin, 0, sent);
    network.run_for(1_000_000);
    network.assert_sound();
}
