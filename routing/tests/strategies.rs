//! [SFT06] §3 over the relay: broadcasts down the sibling tree, encapsulation, flooding, and
//! the routers of routed parts.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::network::single::header;
use crate::network::{Conditions, Network};
use binomesh_overlay::{Population, Rank};
use binomesh_routing::packet::{
    Errand, Header, Message, Packet, PacketId, Part, Reason, Span, State,
};
use binomesh_routing::relay::PublishError;
use binomesh_routing::router::{Chosen, ROUTERS};
use binomesh_routing::sibling_tree::{Fanout, Links, SiblingTree};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination, Input};
use bytes::Bytes;

fn tree(fanout: u32) -> Strategy {
    Strategy::SiblingTree { fanout }
}

fn calm(n: u32, seed: u64, strategy: Strategy) -> Network {
    let mut network = Network::new(n, seed, Conditions::default(), Default::default());
    network.strategy = strategy;
    network
}

/// A network whose nodes route by `router` over trees of this fanout.
fn routed(n: u32, seed: u64, router: &str, fanout: u32) -> Network {
    let config = Config {
        router: Chosen::named(router).unwrap(),
        fanout: Fanout::new(fanout).unwrap(),
        ..Config::default()
    };
    Network::new(n, seed, Conditions::default(), config)
}

fn shape(n: u32, fanout: u32) -> SiblingTree {
    let population = Population::new(n).unwrap();
    SiblingTree::new(population, Fanout::new(fanout).unwrap())
}

fn alive(network: &Network) -> Vec<u32> {
    let members = network.members.iter().copied();
    members.filter(|id| network.is_alive(*id)).collect()
}

#[test]
fn a_broadcast_down_the_tree_takes_n_minus_1_packets_from_any_origin() {
    for fanout in [2, 3, 5] {
        for n in (1..=20).chain([31, 40]) {
            let mut network = calm(n, u64::from(n), tree(fanout));
            // One hop to the root, and the levels of the tree.
            let bound = u32::from(shape(n, fanout).last_level()) + 1;
            for origin in network.members.clone() {
                let before = network.packets;
                let id = network.publish(origin, 100).unwrap();
                network.run_until_receipts(1_000_000);
                let context = format!("N={n} k={fanout} from {origin}");
                assert_eq!(network.packets - before, u64::from(n) - 1, "{context}");
                let receipt = &network.receipts[&id][0];
                assert!(
                    receipt.is_complete() && receipt.replaced.is_empty(),
                    "{context}"
                );
                for member in &network.members {
                    assert!(
                        network.depth[&(id, *member)] <= bound,
                        "{context} → {member}"
                    );
                }
                network.assert_survivors_delivered(id);
            }
            network.assert_sound();
        }
    }
}

/// [SFT06] §3.1: "the message is encapsulated and sent to the grandchildren". When the first
/// broadcast starts, no node has a verdict on the dead, and verdicts take up to 3 s. All survivors
/// have each broadcast within a second.
#[test]
fn a_broadcast_goes_round_the_dead_children_of_the_root_before_any_verdict() {
    let worlds = [(31, 2, 1), (31, 2, 2)];
    let all = ROUTERS.map(|router| worlds.map(|world| (router.name(), world)));
    // With more dead children, the routers of the tree may spend the budget of re-delegations
    // on other dead hops, and then wait for a verdict.
    let wider = [("binomial", (40, 3, 3)), ("binomial", (85, 4, 4))];
    for (router, (n, fanout, seed)) in all.into_iter().flatten().chain(wider) {
        let mut network = routed(n, seed, router, fanout);
        network.strategy = tree(fanout);
        network.conditions.verdict_us = 3_000_000;
        let root = network.members[0];
        let children = shape(n, fanout).children(Rank(0));
        let dead: BTreeSet<u32> = children
            .map(|rank| network.members[rank.0 as usize])
            .collect();
        for id in &dead {
            network.crash(*id);
        }
        for origin in [root, network.members[n as usize - 1]] {
            let id = network.publish(origin, 100).unwrap();
            network.run_for(1_000_000);
            for member in alive(&network) {
                let expected = u32::from(member != origin);
                let count = network.delivered(id, member);
                assert_eq!(count, expected, "{router} seed {seed}: {member}");
            }
            network.run_until_receipts(20_000_000);
            let receipt = &network.receipts[&id][0];
            let replaced: BTreeSet<u32> = receipt.replaced.iter().copied().collect();
            assert_eq!(replaced, dead, "seed {seed}: {receipt:?}");
            let unreached: BTreeSet<u32> = receipt
                .unreached
                .iter()
                .filter_map(|one| one.peer)
                .collect();
            assert_eq!(unreached, dead, "seed {seed}");
        }
        network.assert_sound();
    }
}

#[test]
fn a_broadcast_down_the_tree_reaches_all_survivors_with_a_tenth_dead() {
    for seed in crate::network::seeds(200) {
        let mut network = calm(60, seed, tree(2 + (seed % 4) as u32));
        network.conditions.loss = if seed % 3 == 0 { 0.05 } else { 0.0 };
        let origin = network.members[seed as usize % 60];
        let others = network
            .members
            .clone()
            .into_iter()
            .filter(|id| *id != origin);
        let dead: Vec<u32> = others.skip(seed as usize % 7).step_by(9).take(6).collect();
        // Three of the six are known to be dead. The other three die while the broadcast is on
        // its way.
        for id in &dead[..3] {
            network.crash(*id);
        }
        network.run_for(400_000);
        let id = network.publish(origin, 100).unwrap();
        for dead in &dead[3..] {
            network.crash(*dead);
        }
        network.run_until_receipts(60_000_000);
        network.assert_survivors_delivered(id);
        network.assert_sound();
    }
}

/// The origin sends a copy to one neighbour and dies. By `binomial` the members behind the
/// other neighbours miss the message. By `flood` all members get it, or none.
#[test]
fn flooding_survives_its_origin() {
    let (mut partly, mut flooded) = (0, 0);
    for seed in crate::network::seeds(300) {
        for strategy in [Strategy::Binomial, Strategy::Flood] {
            let mut network = calm(33, seed, strategy);
            // Slow and uneven links.
            network.conditions.latency_us = 100..20_000;
            let origin = network.members[seed as usize % 33];
            let id = network.publish(origin, 100).unwrap();
            // The copy to one member is on its way, and all other copies are lost.
            let spared = network.members[(seed as usize + 1) % 33];
            for other in network.members.clone() {
                if other != spared {
                    network.lose(origin, other);
                }
            }
            network.crash(origin);
            network.run_for(20_000_000);
            let live = alive(&network);
            let count = live
                .iter()
                .filter(|member| network.delivered(id, **member) == 1);
            let count = count.count();
            match strategy {
                Strategy::Flood => {
                    assert!(count == 0 || count == live.len(), "seed {seed}: {count}");
                    flooded += usize::from(count == live.len());
                }
                _ => partly += usize::from(count > 0 && count < live.len()),
            }
            assert!(network.complaints().is_empty(), "seed {seed}");
        }
    }
    assert!(partly > 0, "binomial does not show the difference");
    assert!(flooded > 0, "nothing was flooded");
}

/// Each member but the last sends one copy. Dead members are passed over, at any place of the
/// chain.
#[test]
fn a_chain_reaches_all_with_one_copy_from_each_and_goes_over_the_dead() {
    for n in [1, 2, 3, 8, 33] {
        let mut network = calm(n, u64::from(n), Strategy::Chain);
        let origin = network.members[n as usize / 2];
        let id = network.publish(origin, 100).unwrap();
        network.run_until_receipts(2_000_000);
        assert_eq!(network.receipts[&id][0].reached_count, n - 1);
        assert_eq!(network.packets, u64::from(n) - 1);
        let deepest = network.depth.values().max();
        assert_eq!(deepest.copied(), Some(n - 1));
        network.assert_sound();
    }
    for seed in crate::network::seeds(100) {
        let mut network = calm(16, seed, Strategy::Chain);
        let origin = network.members[seed as usize % 16];
        let id = network.publish(origin, 100).unwrap();
        for step in 1..=seed % 5 {
            let victim = network.members[(seed + 3 * step) as usize % 16];
            network.run_for(network.seed % 3 * 1_000);
            network.crash(victim);
        }
        network.run_for(3_000_000);
        network.assert_survivors_delivered(id);
        assert!(network.complaints().is_empty(), "seed {seed}");
    }
}

#[test]
fn a_flood_reaches_all_and_its_receipt_is_that_of_any_broadcast() {
    for n in [1, 2, 3, 8, 33] {
        let mut network = calm(n, u64::from(n), Strategy::Flood);
        let id = network.publish(network.members[0], 100).unwrap();
        network.run_until_receipts(2_000_000);
        let receipt = &network.receipts[&id][0];
        assert_eq!(receipt.reached_count, n - 1);
        network.assert_sound();
        network.run_for(2_000_000);
        for member in network.members.clone() {
            assert_eq!(network.relay(member).stats().open_duties, 0, "N={n}");
        }
    }
}

/// Unicasts among all pairs take the hops that the router promises: `aware` takes the distance
/// in the tree, `variant` at most its cost, and `binomial` the distance in the binomial graph.
#[test]
fn a_unicast_takes_the_way_of_its_router() {
    for fanout in [2, 4] {
        for router in ROUTERS {
            let n = 21;
            let mut network = routed(n, 5, router.name(), fanout);
            let shape = shape(n, fanout);
            let members = network.members.clone();
            for (from, origin) in (0..).map(Rank).zip(&members) {
                for (to, target) in (0..).map(Rank).zip(&members) {
                    if from == to {
                        continue;
                    }
                    let before = network.packets;
                    let peers = Destination::Peers(vec![*target]);
                    let id = network.publish_to(*origin, peers, 10, None).unwrap();
                    network.run_until_receipts(1_000_000);
                    let hops = (network.packets - before) as u32;
                    let context = format!("{} k={fanout} {from:?} → {to:?}", router.name());
                    assert_eq!(network.receipts[&id][0].reached_count, 1, "{context}");
                    let distance = shape.distance(from, to);
                    let most = router.cost(&shape, from, to);
                    match router.name() {
                        "aware" => assert_eq!(hops, distance, "{context}"),
                        "variant" => assert!((distance..=most).contains(&hops), "{context}"),
                        "binomial" => assert_eq!(hops, most, "{context}"),
                        _ => assert!(hops >= distance, "{context}"),
                    }
                }
            }
            network.assert_sound();
        }
    }
}

/// A multicast reaches all live members on its list, also past dead members. It uses links of
/// the binomial graph where the tree is cut.
#[test]
fn a_multicast_goes_round_the_dead_by_any_router() {
    for seed in crate::network::seeds(300) {
        let router = ROUTERS[seed as usize % ROUTERS.len()];
        let mut network = routed(31, seed, router.name(), 2);
        let members = network.members.clone();
        let dead = [1, 2, 5].map(|rank| members[rank]);
        for id in dead {
            network.crash(id);
        }
        let to: Vec<u32> = [3, 5, 11, 12, 30].map(|rank| members[rank]).to_vec();
        let id = network.publish_to(members[0], Destination::Peers(to.clone()), 10, None);
        let id = id.unwrap();
        network.run_until_receipts(30_000_000);
        let receipt = &network.receipts[&id][0];
        let context = format!("seed {seed} {}: {receipt:?}", router.name());
        assert_eq!(receipt.reached_count, 4, "{context}");
        let [lost] = receipt.unreached[..] else {
            panic!("{context}");
        };
        assert_eq!(
            (lost.rank, lost.state),
            (Some(Rank(5)), State::Unconfirmed),
            "{context}"
        );
        assert_eq!(lost.reason, Reason::Down, "{context}");
        network.assert_survivors_delivered(id);
        network.assert_sound();
    }
}

/// [SFT06] §3.1: a node sends hello to its parent and to its left neighbour, and the rightmost
/// node of a level to the leftmost. So each link of the tree is held once. The hellos follow
/// the epoch.
#[test]
fn hellos_hold_every_link_of_the_tree_once_and_follow_the_epoch() {
    for (n, fanout) in [(1, 2), (2, 2), (3, 2), (15, 2), (16, 2), (40, 3)] {
        let mut network = routed(n, 9, "aware", fanout);
        let check = |network: &Network, times: u64| {
            let shape = shape(network.members.len() as u32, fanout);
            let at = |rank: Rank| network.members[rank.0 as usize];
            let mut expected = BTreeSet::new();
            for rank in (0..network.members.len() as u32).map(Rank) {
                for other in shape.neighbours(rank, Links::SiblingTree) {
                    expected.insert(BTreeSet::from([at(rank), at(other)]));
                }
            }
            let held: Vec<BTreeSet<u32>> = (network.links.iter())
                .map(|(from, to)| BTreeSet::from([*from, *to]))
                .collect();
            assert_eq!(held.len(), expected.len(), "N={n} k={fanout}: twice");
            assert_eq!(held.into_iter().collect::<BTreeSet<_>>(), expected);
            let hellos = |id: &u32| network.relay(*id).stats().hellos;
            let hellos: u64 = network.members.iter().map(hellos).sum();
            // A hello that comes before its epoch is known is not counted.
            assert!(hellos <= times * expected.len() as u64, "N={n}: {hellos}");
            assert!(n < 15 || hellos > 0, "N={n}: no hello");
            let rejected = |id: &u32| network.relay(*id).stats().hellos_rejected;
            assert_eq!(network.members.iter().map(rejected).sum::<u64>(), 0);
        };
        check(&network, 1);
        let mut members = network.members.clone();
        members.reverse();
        network.place(&members);
        network.run_for(3_000_000);
        check(&network, 2);
    }
}

#[test]
fn the_binomial_router_holds_no_link_of_the_tree() {
    let network = routed(16, 9, "binomial", 2);
    assert!(network.links.is_empty());
}

#[test]
fn a_hello_that_does_not_belong_here_is_counted_and_changes_nothing() {
    let mut network = routed(15, 9, "aware", 2);
    let [node, other] = [network.members[1], network.members[9]];
    let epoch = network.relay(node).placement().unwrap().epoch;
    let before = network.links.clone();
    for (rank, fanout) in [(9, 2), (u32::MAX, 2), (3, 3), (3, 0), (4, 2)] {
        let rank = Rank(rank);
        let message = Message::Hello {
            epoch,
            rank,
            fanout,
        };
        let from = other;
        network.input_after(node, 0, Input::Message { from, message });
    }
    network.run_for(1000);
    let stats = network.relay(node).stats();
    assert_eq!(stats.hellos_rejected, 5);
    assert_eq!(network.links, before);
}

#[test]
fn a_fanout_that_no_tree_has_is_an_error_at_once() {
    let mut network = calm(4, 1, tree(1));
    let origin = network.members[0];
    let error = network.publish(origin, 1).unwrap_err();
    assert_eq!(error, PublishError::ImpossibleStrategy(tree(1)));
    network.strategy = tree(2);
    let id: PacketId<u32> = network.publish(origin, 1).unwrap();
    assert_eq!(id.sequence, 0, "no sequence was used");
    let all = Destination::All;
    let deadline = Some(Duration::from_secs(1));
    assert!(network.publish_to(origin, all, 1, deadline).is_ok());
    network.run_until_receipts(1_000_000);
    network.assert_sound();
}

/// No node has room for a duty, so each answers for itself alone. A node with a part hands out
/// all of that part directly, and asks no node twice to take a part for which that node is full.
#[test]
fn full_hops_cost_few_packets_and_nobody_goes_without() {
    for seed in 0..20 {
        let config = Config {
            max_duties: 0,
            router: Chosen::new(ROUTERS[seed as usize % ROUTERS.len()]),
            ..Config::default()
        };
        let n = 31;
        let mut network = Network::new(n, seed, Conditions::default(), config);
        network.strategy = tree(2 + (seed % 3) as u32);
        network.crash(network.members[1]);
        network.run_for(400_000);
        let before = network.packets;
        let id = network.publish(network.members[0], 100).unwrap();
        network.run_until_receipts(30_000_000);
        network.assert_survivors_delivered(id);
        network.assert_sound();
        let packets = network.packets - before;
        assert!(
            packets < 10 * u64::from(n),
            "seed {seed}: {packets} packets"
        );
    }
}

/// Custody is late after 25 ms. The parts behind the two dead children go over neither of these
/// children, so no second wait follows.
#[test]
fn the_heirs_of_late_children_are_not_reached_over_late_children() {
    for router in ["variant", "aware", "binomial"] {
        for seed in 0..20 {
            let mut network = routed(31, seed, router, 2);
            network.strategy = tree(2);
            network.conditions.verdict_us = 3_000_000;
            let [root, left, right] = [0, 1, 2].map(|rank| network.members[rank]);
            network.crash(left);
            network.crash(right);
            let id = network.publish(root, 100).unwrap();
            network.run_for(50_000);
            network.assert_survivors_delivered(id);
        }
    }
}

/// A node names the members that it knows to be dead in each routed part that it hands on.
#[test]
fn a_routed_part_names_those_that_are_known_to_be_dead() {
    let mut network = routed(31, 9, "aware", 2);
    let [root, dead, target] = [0, 1, 3].map(|rank| network.members[rank]);
    network.crash(dead);
    network.run_for(400_000);
    network.copied.clear();
    let peers = Destination::Peers(vec![target]);
    let id = network.publish_to(root, peers, 10, None).unwrap();
    network.run_until_receipts(2_000_000);
    assert_eq!(network.delivered(id, target), 1);
    let told = |(_, part): &(u32, Part)| match part {
        Part::Routed { dead, .. } => Some(dead.clone()),
        Part::Range(_) => None,
    };
    let told: Vec<Vec<Rank>> = network.copied.values().flatten().filter_map(told).collect();
    assert!(!told.is_empty());
    assert!(told.iter().all(|dead| *dead == [Rank(1)]), "{told:?}");
}

/// A node avoids the ranks that a routed part calls dead if there is another way. Otherwise the
/// node does not believe the part, which may lie.
#[test]
fn a_routed_part_goes_round_those_it_calls_dead_if_it_can() {
    // The way up is 7 → 3 → 1 → 0. The other neighbours of rank 7 are 8 and, round the ring,
    // 14.
    let fingers: Vec<Rank> = shape(15, 2)
        .neighbours(Rank(7), Links::BinomialGraph)
        .collect();
    let kin: Vec<Rank> = shape(15, 2)
        .neighbours(Rank(7), Links::SiblingTree)
        .collect();
    for (dead, expected) in [
        (vec![], vec![Rank(3)]),
        (
            vec![Rank(3)],
            kin.iter().copied().filter(|rank| rank.0 != 3).collect(),
        ),
        ([kin.clone(), fingers.clone()].concat(), vec![Rank(3)]),
    ] {
        let mut network = routed(15, 9, "aware", 2);
        let [origin, here] = [network.members[8], network.members[7]];
        let placement = network.relay(here).placement().unwrap();
        let at = Rank(8).distance_to(Rank(1), placement.population);
        let message = Message::Packet(Box::new(Packet {
            header: Header {
                origin_rank: Rank(8),
                ..header(
                    Errand {
                        id: PacketId {
                            origin,
                            boot: 1,
                            sequence: 0,
                        },
                        epoch: placement.epoch,
                        strategy: Strategy::Binomial,
                        round: 0,
                        part: Part::Routed {
                            spans: vec![Span::single(at)],
                            visited: vec![Rank(8)],
                            dead: dead.clone(),
                        },
                    },
                    Rank(7),
                )
            },
            payloads: Bytes::from_static(b"x").into(),
        }));
        // All messages of this node are lost. No answer follows, and only its first copy is
        // seen.
        for member in network.members.clone() {
            network.cuts.insert((here, member));
        }
        let from = origin;
        network.input_after(here, 0, Input::Message { from, message });
        network.run_for(1_000);
        let [(next, _)] = network.copied[&here][..] else {
            panic!("{dead:?}: {:?}", network.copied);
        };
        let next = network.members.iter().position(|member| *member == next);
        let next = Rank(next.unwrap() as u32);
        assert!(
            expected.contains(&next),
            "{dead:?}: to {next:?}, not {expected:?}"
        );
    }
}

/// A node without room for a duty delivers a message and does not pass it on.
#[test]
fn a_full_node_does_not_flood_and_says_so() {
    let config = Config {
        max_duties: 0,
        ..Config::default()
    };
    let mut network = Network::new(9, 3, Conditions::default(), config);
    network.strategy = Strategy::Flood;
    let id = network.publish(network.members[0], 100).unwrap();
    network.run_until_receipts(2_000_000);
    network.assert_survivors_delivered(id);
    let skipped = |id: &u32| network.relay(*id).stats().floods_skipped;
    assert_eq!(network.members.iter().map(skipped).sum::<u64>(), 8);
}

#[test]
fn floods_keep_within_the_bound_of_duties() {
    let config = Config {
        max_duties: 2,
        ..Config::default()
    };
    for seed in crate::network::seeds(100) {
        let mut network = Network::new(17, seed, Conditions::default(), config);
        network.strategy = Strategy::Flood;
        for member in network.members.clone() {
            network.publish(member, 100).unwrap();
        }
        for _ in 0..200 {
            network.run_for(500);
            for member in network.members.clone() {
                let open = network.relay(member).stats().open_duties;
                assert!(open <= 2, "seed {seed}: {member} has {open}");
            }
        }
        network.run_until_receipts(10_000_000);
        network.assert_sound();
    }
}

/// A hop finds the head of a routed part dead, and is itself one of the heirs. It hands on the
/// parts of the other heirs, and keeps its own part.
#[test]
fn a_hop_among_the_heirs_of_a_routed_part_keeps_its_own() {
    let mut network = routed(31, 9, "aware", 2);
    // In preorder: 0 1 3 7 15 16 8 17 18 4 …; the subtree of 3 has the positions 2 .. 9.
    let [root, dead, here] = [0, 3, 7].map(|rank| network.members[rank]);
    network.crash(dead);
    network.run_for(400_000);
    let placement = network.relay(here).placement().unwrap();
    let errand = Errand {
        id: PacketId {
            origin: root,
            boot: 1,
            sequence: 0,
        },
        epoch: placement.epoch,
        strategy: tree(2),
        round: 0,
        part: Part::Routed {
            spans: vec![Span::new(2, 9)],
            visited: vec![Rank(0)],
            dead: Vec::new(),
        },
    };
    let header = header(errand, Rank(7));
    let payload = Bytes::from_static(b"x");
    let message = Message::Packet(Box::new(Packet {
        header,
        payloads: payload.into(),
    }));
    network.copied.clear();
    let from = root;
    network.input_after(here, 0, Input::Message { from, message });
    network.run_for(20_000);
    let parts: BTreeSet<(u32, Part)> = network.copied[&here].iter().cloned().collect();
    let range = |rank: usize, start, end| {
        let span = Span::new(start, end);
        (network.members[rank], Part::Range(span))
    };
    let expected = [range(15, 4, 5), range(16, 5, 6), range(8, 6, 9)];
    assert_eq!(parts, BTreeSet::from(expected));
}
