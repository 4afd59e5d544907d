//! New epochs and restarts in the middle of broadcasts.

use std::collections::BTreeSet;

use crate::network::single::{self, ORIGIN, Single, header, view};
use crate::network::{Conditions, Network, seeds};
use binomesh_overlay::{Effect, Rank};
use binomesh_routing::packet::{Errand, Header, Message, Packet, PacketId, Part, Span};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination, Event, Input, Relay};
use bytes::Bytes;
use rand::Rng;

/// Ranks are assigned again, and members come and go, while broadcasts run. A member of all
/// epochs gets each message once, and the receipts stay true.
#[test]
fn an_epoch_change_mid_broadcast_loses_nothing() {
    for seed in seeds(600) {
        let n = 20;
        let mut network = Network::unplaced(n + 4, seed, Conditions::default(), Config::default());
        let everybody = network.members.clone();
        let mut members = everybody[..n as usize].to_vec();
        network.place(&members);
        network.run_for(2_000_000);
        let origin = members[3];
        let mut ids = Vec::new();
        let mut stayed: BTreeSet<u32> = members.iter().copied().collect();
        for _ in 0..5 {
            ids.push(network.publish(origin, 100).unwrap());
            let delay = network.rng.random_range(0..30_000);
            network.run_for(delay);
            for at in (1..members.len()).rev() {
                let other = network.rng.random_range(0..=at);
                members.swap(at, other);
            }
            if let Some(gone) = members
                .iter()
                .position(|id| *id != origin && network.rng.random_bool(0.04))
            {
                stayed.remove(&members[gone]);
                members[gone] = everybody[n as usize + ids.len() % 4];
                let unique: BTreeSet<u32> = members.iter().copied().collect();
                if unique.len() < members.len() {
                    members.remove(gone);
                }
            }
            network.place(&members);
            // Long enough for rosters: the origin loses a member that it knows only by rank
            // when the epoch ends.
            let delay = network.rng.random_range(80_000..250_000);
            network.run_for(delay);
        }
        network.run_until_receipts(60_000_000);
        network.run_for(1_000_000);
        network.assert_sound();
        for id in ids {
            for unreached in &network.receipts[&id][0].unreached {
                let Some(peer) = unreached.peer else {
                    panic!("seed {seed}: {unreached:?} of {id:?}")
                };
                assert!(
                    !stayed.contains(&peer),
                    "seed {seed}: {unreached:?} of {id:?}"
                );
            }
        }
    }
}

/// A process restarts with a new boot in the same epoch. Each boot delivers a message at most
/// once, and no other member delivers it twice.
#[test]
fn a_restart_delivers_at_most_once_to_each_boot() {
    for seed in seeds(400) {
        let mut network = Network::new(12, seed, Conditions::default(), Config::default());
        let origin = network.members[0];
        let mut ids = vec![network.publish(origin, 10).unwrap()];
        let delay = network.rng.random_range(0..4_000);
        network.run_for(delay);
        let victim = network.members[network.rng.random_range(1..12)];
        network.start(victim, 2);
        network.tell_place(victim);
        ids.push(network.publish(origin, 10).unwrap());
        network.run_until_receipts(20_000_000);
        network.assert_sound();
        for id in ids {
            assert!(network.receipts[&id][0].is_complete(), "seed {seed}");
        }
    }
}

/// The origin restarts. Its sequences begin at 0 under a higher boot, and the messages of the
/// old boot do not come back.
#[test]
fn a_restarted_origin_begins_at_sequence_0() {
    let mut network = Network::new(9, 4, Conditions::default(), Config::default());
    let origin = network.members[2];
    let first = network.publish(origin, 10).unwrap();
    network.run_until_receipts(1_000_000);
    network.start(origin, 2);
    network.tell_place(origin);
    network.run_for(100_000);
    let second = network.publish(origin, 10).unwrap();
    network.run_until_receipts(1_000_000);
    assert_eq!((first.sequence, second.sequence), (0, 0));
    assert!(network.receipts[&second][0].is_complete());
    network.assert_sound();
    network.assert_survivors_delivered(first);
    network.assert_survivors_delivered(second);
}

fn copy(network: &Network, origin: u32, to: u32, end: u32) -> Message<u32> {
    let rank_of = |id: u32| {
        let at = network.members.iter().position(|member| *member == id);
        Rank(at.unwrap() as u32)
    };
    let placement = network.relay(to).placement().unwrap();
    let start = rank_of(origin).distance_to(rank_of(to), placement.population);
    Message::Packet(Box::new(Packet {
        header: Header {
            origin_rank: rank_of(origin),
            ..header(
                Errand {
                    id: PacketId {
                        origin,
                        boot: 1,
                        sequence: 0,
                    },
                    epoch: placement.epoch,
                    strategy: Strategy::default(),
                    round: 0,
                    part: Part::Range(Span::new(start, end)),
                },
                rank_of(to),
            )
        },
        payloads: Bytes::from_static(b"x").into(),
    }))
}

/// A copy with a larger part is a larger duty, and no new delivery.
#[test]
fn a_duplicate_with_a_larger_part_is_served() {
    let mut network = Network::new(16, 1, Conditions::default(), Config::default());
    let (origin, node) = (network.members[0], network.members[4]);
    for end in [6, 6, 5, 8, 13] {
        let message = copy(&network, origin, node, end);
        network.input_after(
            node,
            0,
            Input::Message {
                from: origin,
                message,
            },
        );
        network.run_for(200_000);
        let delivered: Vec<usize> = (0..16)
            .filter(|at| {
                network
                    .deliveries
                    .keys()
                    .any(|(node, ..)| *node == network.members[*at])
            })
            .collect();
        let reached = if end < 6 { 6 } else { end } as usize;
        assert_eq!(delivered, (4..reached).collect::<Vec<_>>());
    }
    assert!(network.deliveries.values().all(|count| *count == 1));
    assert_eq!(network.stats(node).delivered, 1);
    assert_eq!(network.stats(node).duplicates, 4);
}

/// Packets that a stranger or an outdated member may send are refused, and change nothing.
#[test]
fn packets_that_do_not_fit_are_refused() {
    let mut network = Network::new(16, 1, Conditions::default(), Config::default());
    let (origin, node) = (network.members[0], network.members[4]);
    let good = copy(&network, origin, node, 5);
    let spoil = |change: &dyn Fn(&mut Header<u32>)| {
        let mut message = good.clone();
        if let Message::Packet(packet) = &mut message {
            change(&mut packet.header);
        }
        message
    };
    let bad = [
        spoil(&|header| header.to = Rank(5)),
        spoil(&|header| header.to = Rank(u32::MAX)),
        spoil(&|header| header.origin_rank = Rank(99)),
        spoil(&|header| header.origin_rank = Rank(1)),
        spoil(&|header| header.errand.part = Part::Range(Span::new(4, 99))),
        spoil(&|header| header.errand.part = Part::Range(Span::new(5, 4))),
        spoil(&|header| header.errand.part = Part::Range(Span::new(0, 16))),
        spoil(&|header| header.errand.id.origin = node),
        spoil(&|header| header.errand.id.sequence = Config::default().window),
        spoil(&|header| header.closed_below = 9),
        spoil(&|header| header.errand.epoch.nonce = 99),
        spoil(&|header| {
            let visited = vec![Rank(4)];
            header.errand.part = Part::Routed {
                spans: vec![Span::single(7)],
                visited,
                dead: Vec::new(),
            };
        }),
        spoil(&|header| header.errand.strategy = Strategy::SiblingTree { fanout: 1 }),
        spoil(&|header| header.errand.strategy = Strategy::SiblingTree { fanout: 1 << 24 }),
    ];
    let count = bad.len() as u64;
    for message in bad {
        network.input_after(
            node,
            0,
            Input::Message {
                from: origin,
                message,
            },
        );
    }
    network.run_for(2_000_000);
    assert!(network.deliveries.is_empty());
    let stats = network.stats(node);
    assert_eq!(stats.refused.iter().sum::<u64>(), count, "{stats:?}");
    assert_eq!((stats.held_packets, stats.open_duties), (0, 0));
    network
        .publish_to(origin, Destination::All, 1, None)
        .unwrap();
    network.run_until_receipts(1_000_000);
    network.assert_sound();
}

/// A packet may arrive before its receiver knows the epoch. The receiver holds it.
#[test]
fn a_packet_of_an_epoch_to_come_is_held() {
    for seed in seeds(200) {
        let config = Config {
            roster_wait: std::time::Duration::from_micros(1),
            ..Config::default()
        };
        let mut network = Network::new(16, seed, Conditions::default(), config);
        let mut members = network.members.clone();
        members.rotate_left(5);
        network.place(&members);
        network.run_for(10_000);
        let placed = members
            .iter()
            .copied()
            .find(|id| network.relay(*id).placement().unwrap().epoch.counter == 2);
        let id = network.publish(placed.unwrap(), 10).unwrap();
        network.run_until_receipts(1_000_000);
        network.assert_sound();
        assert!(network.receipts[&id][0].is_complete(), "seed {seed}");
    }
}

/// Epochs follow each other faster than rosters are gathered. A message that is published
/// meanwhile waits for an epoch whose members are all known, and reaches all of them.
#[test]
fn a_broadcast_in_a_short_epoch_reaches_all_who_stay() {
    let conditions = Conditions {
        latency_us: 5_000..20_000,
        ..Conditions::default()
    };
    let mut waited = 0;
    for seed in seeds(300) {
        let mut network = Network::unplaced(24, seed, conditions.clone(), Config::default());
        let mut members = network.members.clone();
        let mut ids = Vec::new();
        for _ in 0..6 {
            for at in (1..members.len()).rev() {
                let other = network.rng.random_range(0..=at);
                members.swap(at, other);
            }
            network.place(&members);
            let delay = network.rng.random_range(21_000..90_000);
            network.run_for(delay);
            let origin = members[network.rng.random_range(0..24)];
            ids.push(network.publish(origin, 16).unwrap());
            // The first delegates may hand on copies before the next epoch comes.
            let delay = network.rng.random_range(0..10_000);
            network.run_for(delay);
        }
        network.run_until_receipts(30_000_000);
        network.run_for(1_000_000);
        network.assert_sound();
        for id in ids {
            let receipt = &network.receipts[&id][0];
            assert!(receipt.is_complete(), "seed {seed}: {receipt:?}");
        }
        let stats = members.iter().map(|member| network.stats(*member));
        waited += stats.map(|stats| stats.waited).sum::<u64>();
    }
    assert!(waited > 0, "no broadcast had to wait");
}

/// A member dies before any node learns its name, so the roster of the epoch never becomes
/// complete. The other members get the broadcast nevertheless.
#[test]
fn a_roster_that_cannot_become_complete_delays_only() {
    let mut waited = 0;
    for seed in seeds(100) {
        let config = Config::default();
        let mut network = Network::unplaced(16, seed, Conditions::default(), config);
        let members = network.members.clone();
        network.place_without(&members, &[members[5]]);
        network.run_for(1_000_000);
        let id = network.publish(members[0], 16).unwrap();
        assert_eq!(network.stats(members[0]).waiting_messages, 1, "seed {seed}");
        network.run_for(2_900_000);
        assert!(network.deliveries.is_empty(), "seed {seed}");
        network.run_for(1_000_000);
        network.assert_survivors_delivered(id);
        // The second message in the same epoch does not wait.
        let second = network.publish(members[0], 16).unwrap();
        network.run_for(500_000);
        network.assert_survivors_delivered(second);
        waited += network.stats(members[0]).waited_in_vain;
        let survivors: Vec<u32> = members
            .iter()
            .copied()
            .filter(|id| *id != members[5])
            .collect();
        network.place(&survivors);
        network.run_until_receipts(30_000_000);
        network.assert_sound();
    }
    assert!(waited > 0);
}

/// A process that begins its next life in place has the same subscribers as before, so the next
/// life delivers no message again.
#[test]
fn another_life_of_the_same_process_delivers_nothing_again() {
    let me = ORIGIN + 1;
    let mut receiver = Single::new(me);
    let delivered = |receiver: &mut Single| {
        let view = view(1, 4, 1, |rank| ORIGIN + rank.0);
        receiver.relay.handle(Input::View(view), &mut receiver.out);
        let (from, message) = (ORIGIN, single::copy(Span::single(1), 0, 9));
        receiver
            .relay
            .handle(Input::Message { from, message }, &mut receiver.out);
        let effects = receiver.out.drain();
        let is_delivery =
            |effect: &Effect<_, _, _, _>| matches!(effect, Effect::Event(Event::Deliver(_)));
        effects.filter(is_delivery).count()
    };
    assert_eq!(delivered(&mut receiver), 1);
    receiver.relay = receiver.relay.next_life(2, Config::default());
    assert_eq!(delivered(&mut receiver), 0);
    receiver.relay = Relay::new(me, 3, Config::default());
    assert_eq!(delivered(&mut receiver), 1, "another process");
}

/// A member is told of a second epoch, and then of the first one again. The parts that the member
/// has handed on in the first epoch still count, and the member's answer names no exception.
#[test]
fn an_epoch_that_comes_back_keeps_its_duties() {
    let mut member = single::member(8, 4, Config::default());
    member.hear(ORIGIN, single::copy(Span::new(4, 8), 0, 10));
    let copies = member.packets();
    assert!(!copies.is_empty());
    for counter in [2, 1] {
        member.handle(Input::View(view(counter, 8, 4, |at| ORIGIN + at.0)));
    }
    for (to, packet) in copies {
        let done = Message::Done {
            errand: packet.header.errand,
            exceptions: Vec::new(),
            redelegated: 0,
            replaced: Vec::new(),
        };
        member.hear(to, done);
    }
    let answers = member
        .sent
        .iter()
        .filter_map(|(to, message)| match message {
            Message::Done { exceptions, .. } => Some((*to, exceptions.len())),
            _ => None,
        });
    assert_eq!(answers.collect::<Vec<_>>(), [(ORIGIN, 0)]);
}
