//! Successive blocks by the strategy `circulant`, and members that a broadcast does not wait
//! for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::network::single::{ORIGIN, Single, placed};
use crate::network::{Conditions, Network, seeds};
use binomesh_routing::packet::{CustodyRefusal, Errand, Message, Topic};
use binomesh_routing::relay::Due;
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination, Input, Publish, Timer};
use bytes::Bytes;

fn network(n: u32, seed: u64) -> Network {
    let conditions = Conditions {
        latency_us: 100..2_000,
        ..Conditions::default()
    };
    Network::new(n, seed, conditions, Config::default())
}

/// Publishes this number of blocks, one after the other.
fn publish(network: &mut Network, origin: u32, blocks: u32) -> Vec<crate::network::Id> {
    let mut ids = Vec::new();
    for left in (0..blocks).rev() {
        network.strategy = Strategy::circulant(left);
        ids.push(network.publish(origin, 100).unwrap());
    }
    ids
}

#[test]
fn each_member_gets_each_block_once_in_n_minus_1_packets() {
    for n in [1, 2, 3, 5, 8, 13, 24, 33] {
        let mut network = network(n, n.into());
        let origin = network.members[n as usize / 2];
        let ids = publish(&mut network, origin, 20);
        network.run_until_receipts(5_000_000);
        for id in &ids {
            assert_eq!(network.receipts[id][0].reached_count, n - 1, "{n} members");
        }
        assert_eq!(network.packets, 20 * (u64::from(n) - 1), "{n} members");
        network.assert_sound();
    }
}

/// Up to four members die, at once or one after the other.
#[test]
fn a_dead_member_keeps_its_place_and_all_survivors_get_every_block() {
    for seed in seeds(100) {
        let mut network = network(16, seed);
        let origin = network.members[seed as usize % 16];
        let ids = publish(&mut network, origin, 12);
        for step in 1..=1 + seed % 4 {
            let victim = network.members[(seed + 3 * step) as usize % 16];
            network.run_for(seed % 5 * 700);
            network.crash(victim);
        }
        network.run_for(5_000_000);
        for id in ids {
            network.assert_survivors_delivered(id);
        }
        assert!(network.complaints().is_empty(), "seed {seed}");
    }
}

/// A live member that is spared gets the message all the same. A dead member that is spared delays
/// no receipt.
#[test]
fn members_that_are_spared_are_not_waited_for() {
    for (seed, strategy) in seeds(20).flat_map(|seed| {
        let all = [Strategy::Binomial, Strategy::circulant(2)];
        all.map(|strategy| (seed, strategy))
    }) {
        let mut network = network(16, seed);
        network.strategy = strategy;
        let origin = network.members[0];
        let (dead, well) = (network.members[4], network.members[6]);
        network.crash(dead);
        network.run_for(2_000_000);
        let all_but = Destination::AllBut(vec![dead, well]);
        let id = network.publish_to(origin, all_but, 100, None).unwrap();
        network.run_for(300_000);
        let receipts = network.receipts.get(&id).cloned().unwrap_or_default();
        assert_eq!(receipts.len(), 1, "seed {seed}: no receipt yet");
        assert_eq!(receipts[0].reached_count, 13, "seed {seed}");
        assert!(receipts[0].unreached.is_empty(), "seed {seed}");
        assert_eq!(network.delivered(id, well), 1, "seed {seed}");
    }
}

/// Three copies are on their way at a time. The others wait, and go in the order of their turns as
/// copies are answered.
#[test]
fn a_node_has_few_blocks_on_their_way() {
    let config = Config {
        uplink_copies: 3,
        ..Config::default()
    };
    let mut origin = Single::with(ORIGIN, config);
    placed(1, 8, &mut origin);
    let blocks = 9;
    for left in (0..blocks).rev() {
        publish_from(
            &mut origin,
            Strategy::circulant(left),
            Destination::All,
            70_000,
        );
    }
    let mut seen = BTreeSet::new();
    loop {
        let sent = std::mem::take(&mut origin.sent).into_iter();
        let copies = sent.filter_map(|(to, message)| match message {
            Message::Packet(packet) => Some((to, packet)),
            _ => None,
        });
        let copies: Vec<_> = copies.collect();
        assert!(copies.len() <= 3);
        if copies.is_empty() {
            break;
        }
        for (to, packet) in copies {
            let errand = packet.header.errand;
            let is_last = errand.id.sequence + 1 == u64::from(blocks);
            let is_new = seen.insert((errand.id.sequence, to));
            assert!(is_new, "sent twice");
            let before = (0..errand.id.sequence).all(|other| seen.iter().any(|one| one.0 == other));
            assert!(
                before || is_last,
                "block {} was not its turn",
                errand.id.sequence
            );
            let message = Message::Custody {
                pending: errand.part.spans().to_vec(),
                errand,
            };
            origin.handle(Input::Message { from: to, message });
        }
    }
    // The origin sends the last block to three members, and each other block to one.
    assert_eq!(seen.len() as u32, blocks - 1 + 3);
}

/// The copies for a silent peer wait, however many blocks other peers answer. The part of the
/// silent peer is handed to another member within twice the time that this takes without blocks.
#[test]
fn blocks_of_others_do_not_keep_a_silent_peer_waited_for() {
    let without = handed_on_after(false);
    let with = handed_on_after(true);
    assert!(
        with.is_some() && with <= without.map(|time| 2 * time),
        "{with:?} {without:?}"
    );
}

/// The time in milliseconds until another member gets the waiting part of a silent peer.
fn handed_on_after(has_blocks: bool) -> Option<u64> {
    let mut origin = Single::with(ORIGIN, Config::default());
    placed(1, 8, &mut origin);
    origin.timers.clear();
    for _ in 0..3 {
        publish_from(&mut origin, Strategy::Binomial, Destination::All, 900 << 10);
    }
    let silent = ORIGIN + 4;
    let mut due = BTreeMap::new();
    let mut has = BTreeSet::new();
    for now in 0..2_000 {
        while !origin.sent.is_empty() {
            for (to, message) in std::mem::take(&mut origin.sent) {
                let Some((errand, is_copy)) = asked(&message) else {
                    continue;
                };
                if errand.id.sequence == 2 && errand.part.spans()[0].start == 5 {
                    return Some(now);
                }
                if to == silent {
                    continue;
                }
                let is_there = !has.insert((errand.id.sequence, to)) || is_copy;
                origin.handle(Input::Message {
                    from: to,
                    message: answer(errand, is_there),
                });
            }
        }
        let armed = std::mem::take(&mut origin.timers).into_iter();
        due.extend(armed.map(|(timer, wait)| (timer, now + wait.as_millis() as u64)));
        if has_blocks && now % 20 == 0 {
            let strategy = Strategy::circulant(u32::MAX - now as u32);
            let spared = Destination::AllBut(vec![silent]);
            publish_from(&mut origin, strategy, spared, 1_000);
        }
        let fired: Vec<Timer> = due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(timer, _)| *timer)
            .collect();
        for timer in fired {
            due.remove(&timer);
            origin.handle(Input::Timer {
                timer,
                late: Duration::ZERO,
            });
        }
    }
    None
}

fn publish_from(origin: &mut Single, strategy: Strategy, to: Destination<u32>, bytes: usize) {
    let publish = Publish {
        topic: Topic::new("test").unwrap(),
        payloads: Bytes::from(vec![0; bytes]).into(),
        destination: to,
        strategy,
        due: Due::Within(Duration::from_millis(400)),
        confirmation: Default::default(),
        is_ordered: false,
    };
    // If there is no room, enough blocks are open.
    let _ = origin.relay.publish(publish, &mut origin.out);
    origin.perform();
}

/// The errand of a copy or of a question, and whether it is a copy.
fn asked(message: &Message<u32>) -> Option<(Errand<u32>, bool)> {
    match message {
        Message::Packet(packet) => Some((packet.header.errand.clone(), true)),
        Message::Inquire { errand, .. } => Some((errand.clone(), false)),
        _ => None,
    }
}

fn answer(errand: Errand<u32>, is_there: bool) -> Message<u32> {
    match is_there {
        true => Message::Done {
            errand,
            exceptions: Vec::new(),
            redelegated: 0,
            replaced: Vec::new(),
        },
        false => Message::Refused {
            errand,
            reason: CustodyRefusal::Unknown,
        },
    }
}
