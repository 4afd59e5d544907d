//! The numbers that relays give to messages: each stream counts without holes.

use std::collections::BTreeMap;

use crate::network::{Conditions, Id, Network, seeds};
use binomesh_routing::packet::Payloads;
use binomesh_routing::{Config, Destination, Due};
use bytes::Bytes;
use rand::Rng;

fn publish(network: &mut Network, origin: u32, to: Destination<u32>, count: usize) -> Id {
    let payloads = Payloads::join(&vec![Bytes::from_static(b"x"); count]).unwrap();
    let id = network.publish_all(origin, to, payloads, Due::Settled);
    id.unwrap()
}

/// Some messages are lost on the way. Each member gets each number of each of its streams once.
/// Within a stream, a greater number goes with a greater sequence of the origin.
#[test]
fn each_member_gets_the_numbers_of_each_stream_without_a_hole() {
    for seed in seeds(100) {
        let conditions = Conditions {
            loss: 0.05,
            ..Conditions::default()
        };
        let mut network = Network::new(12, seed, conditions, Config::default());
        network.is_ordered = true;
        let members = network.members.clone();
        let origin = members[3];
        let some = vec![members[5], members[9]];
        let mut counts = [0; 2];
        for _ in 0..12 {
            let is_for_all = network.rng.random_bool(0.5);
            let count = network.rng.random_range(1..=4);
            let to = match is_for_all {
                true => Destination::All,
                false => Destination::Peers(some.clone()),
            };
            publish(&mut network, origin, to, count);
            counts[usize::from(is_for_all)] += count as u64;
            let us = network.rng.random_range(0..3_000);
            network.run_for(us);
        }
        network.run_until_receipts(30_000_000);
        for member in members {
            let places = network.places.get(&member).cloned().unwrap_or_default();
            let mut streams: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
            for (id, ordered) in places {
                let stream = streams.entry(ordered.order.stream).or_default();
                let other = stream.insert(ordered.order.number, id.sequence);
                assert_eq!(other, None, "seed {seed}: a number twice");
            }
            let mut lengths: Vec<u64> = Vec::new();
            for numbers in streams.values() {
                assert!(numbers.keys().copied().eq(0..numbers.len() as u64));
                assert!(numbers.values().is_sorted(), "seed {seed}");
                lengths.push(numbers.len() as u64);
            }
            let expected: Vec<u64> = match (member == origin, some.contains(&member)) {
                (true, _) => Vec::new(),
                (_, true) => counts.iter().copied().filter(|one| *one > 0).collect(),
                _ => counts[1..].iter().copied().filter(|one| *one > 0).collect(),
            };
            lengths.sort_unstable();
            let mut sorted = expected.clone();
            sorted.sort_unstable();
            assert_eq!(lengths, sorted, "seed {seed}, member {member}");
        }
    }
}

/// If a message was published when no other was open, its receivers know that no earlier
/// message is on its way. For other messages they do not know it.
#[test]
fn receivers_are_told_when_nothing_before_a_message_is_on_its_way() {
    let mut network = Network::new(8, 1, Conditions::default(), Config::default());
    network.is_ordered = true;
    let origin = network.members[2];
    let first = publish(&mut network, origin, Destination::All, 2);
    let second = publish(&mut network, origin, Destination::All, 1);
    network.run_until_receipts(10_000_000);
    let third = publish(&mut network, origin, Destination::All, 2);
    network.run_until_receipts(10_000_000);
    let next = |id: Id| Id {
        sequence: id.sequence + 1,
        ..id
    };
    let known = [
        (first, true),
        (next(first), false),
        (second, false),
        (third, true),
        (next(third), false),
    ];
    for member in network.members.clone() {
        let places = network.places.get(&member).cloned().unwrap_or_default();
        let told: BTreeMap<Id, bool> = places
            .iter()
            .map(|(id, ordered)| (*id, ordered.is_settled_before))
            .collect();
        let expected = BTreeMap::from(known);
        assert!(member == origin || told == expected, "{told:?}");
    }
}
