//! [BMG09] §3.5: the cost of a broadcast and of a unicast.

use std::time::Duration;

use crate::network::{Conditions, Network};
use binomesh_overlay::{Population, Rank};
use binomesh_routing::Destination;
use binomesh_routing::relay::PublishError;
use binomesh_routing::router::binomial::hops;

fn calm(n: u32, seed: u64) -> Network {
    Network::new(n, seed, Conditions::default(), Default::default())
}

#[test]
fn a_broadcast_takes_n_minus_1_packets_and_logarithmic_depth() {
    for n in (1..=20).chain([31, 32, 33, 47, 63, 64]) {
        let mut network = calm(n, u64::from(n));
        assert_eq!(network.complete_rosters, n as usize, "N={n}");
        let bound = Population::new(n).unwrap().levels() as u32;
        for origin in network.members.clone() {
            let before = network.packets;
            let id = network.publish(origin, 100).unwrap();
            network.run_until_receipts(1_000_000);
            assert_eq!(
                network.packets - before,
                u64::from(n) - 1,
                "N={n} from {origin}"
            );
            assert!(network.receipts[&id][0].is_complete());
            assert_eq!(network.receipts[&id][0].reached_peers.len(), n as usize - 1);
            for member in &network.members {
                assert!(
                    network.depth[&(id, *member)] <= bound,
                    "N={n} {origin}→{member}"
                );
            }
            network.assert_survivors_delivered(id);
        }
        network.assert_sound();
    }
}

#[test]
fn a_unicast_takes_a_shortest_path() {
    for n in [2u32, 3, 5, 8, 13, 21, 32] {
        let mut network = calm(n, u64::from(n));
        let population = Population::new(n).unwrap();
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
                let expected = hops(from.distance_to(to, population), population);
                assert_eq!(
                    network.packets - before,
                    u64::from(expected),
                    "N={n} {from:?}→{to:?}"
                );
                assert_eq!(network.delivered(id, *target), 1);
                assert_eq!(network.receipts[&id][0].reached_count, 1);
            }
        }
        network.assert_sound();
    }
}

#[test]
fn a_multicast_reaches_its_list_and_nobody_else() {
    for seed in crate::network::seeds(200) {
        let mut network = calm(33, seed);
        let members = network.members.clone();
        let peers: Vec<u32> = members.iter().copied().skip(1).step_by(3).collect();
        let id = network.publish_to(members[0], Destination::Peers(peers.clone()), 10, None);
        network.run_until_receipts(2_000_000);
        network.assert_sound();
        for member in &members {
            let expected = u32::from(peers.contains(member));
            assert_eq!(
                network.delivered(id.unwrap(), *member),
                expected,
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_message_that_cannot_be_sent_is_an_error_at_once() {
    let mut lone = Network::unplaced(2, 1, Conditions::default(), Default::default());
    let [a, b] = lone.members[..] else { panic!() };
    assert_eq!(lone.publish(a, 1), Err(PublishError::Unplaced));
    lone.place(&[a, b]);
    lone.run_for(1_000_000);
    let to = |peers: Vec<u32>| Destination::Peers(peers);
    let mut refused =
        |destination, bytes| lone.publish_to(a, destination, bytes, None).unwrap_err();
    assert_eq!(refused(to(vec![]), 1), PublishError::NoDestination);
    assert_eq!(refused(to(vec![a]), 1), PublishError::OwnId);
    assert_eq!(refused(to(vec![5]), 1), PublishError::UnknownPeer(5));
    let max = 16 << 20;
    let bytes = max + 1;
    assert_eq!(
        refused(Destination::All, bytes),
        PublishError::PayloadTooLarge { bytes, max }
    );
    lone.withdraw(a);
    assert_eq!(lone.publish(a, 1), Err(PublishError::Draining));
    assert!(lone.drained.contains(&a));
    assert!(lone.receipts.is_empty());
}

#[test]
fn above_the_roster_bound_receipts_name_ranks_only() {
    let config = binomesh_routing::Config {
        roster_max: 8,
        ..Default::default()
    };
    let mut network = Network::new(20, 3, Conditions::default(), config);
    let (origin, far) = (network.members[0], network.members[11]);
    let id = network.publish(origin, 5).unwrap();
    network.run_until_receipts(1_000_000);
    let receipt = &network.receipts[&id][0];
    assert_eq!(receipt.reached_count, 19);
    assert!(receipt.is_complete());
    assert!(receipt.reached_peers.len() < 19, "only fingers are known");
    let error = network.publish_to(origin, Destination::Peers(vec![far]), 5, None);
    assert_eq!(error, Err(PublishError::RosterTooLarge(far, 20)));
    network.assert_sound();
}

#[test]
fn at_the_deadline_the_receipt_says_so() {
    let mut network = calm(8, 9);
    let (origin, slow) = (network.members[0], network.members[5]);
    network.pause(slow, 10_000_000);
    let deadline = Some(Duration::from_secs(2));
    let id = network
        .publish_to(origin, Destination::All, 5, deadline)
        .unwrap();
    network.run_until_receipts(2_100_000);
    let receipt = network.receipts[&id][0].clone();
    assert_eq!(receipt.reached_count, 6);
    assert_eq!(receipt.unreached[0].peer, Some(slow));
    assert_eq!(receipt.unreached[0].reason.name(), "deadline");
    network.run_for(20_000_000);
    network.assert_sound();
}

/// Above `roster_max` no node knows all members. More origins than a node has receive windows
/// are all heard, if they publish one after the other.
#[test]
fn more_origins_than_windows_are_all_heard() {
    let config = binomesh_routing::Config {
        roster_max: 8,
        max_origins: 4,
        ..Default::default()
    };
    let mut network = Network::new(16, 5, Conditions::default(), config);
    for _ in 0..2 {
        for origin in network.members.clone() {
            let id = network.publish(origin, 16).unwrap();
            network.run_until_receipts(1_000_000);
            assert!(network.receipts[&id][0].is_complete(), "{id:?}");
        }
    }
    network.assert_sound();
}
