//! The judge must be able to fail: it sees the same worlds with planted bugs.
#![cfg(feature = "planted")]

use crate::network::{Conditions, Network};
use binomesh_overlay::{Bug, Planted};
use binomesh_routing::Config;
use rand::Rng;

/// The number of worlds, out of 100, in which the judge complains.
fn red_worlds(planted: Planted) -> usize {
    let config = Config {
        planted,
        ..Config::default()
    };
    let is_red = |seed: &u64| {
        let mut network = Network::new(64, *seed, Conditions::default(), config);
        let members = network.members.clone();
        for _ in 0..6 {
            let late = members[network.rng.random_range(1..64)];
            if !network.is_paused(late) {
                let pause = network.rng.random_range(50_000..400_000);
                network.pause(late, pause);
            }
        }
        network.publish(members[0], 100).unwrap();
        let delay = network.rng.random_range(0..2_000);
        network.run_for(delay);
        let victim = network.rng.random_range(1..64);
        network.crash(members[victim]);
        network.run_for(100_000);
        !network.complaints().is_empty() || {
            network.run_for(5_000_000);
            !network.complaints().is_empty()
        }
    };
    (0..100).filter(is_red).count()
}

#[test]
fn without_a_bug_every_world_is_green() {
    assert_eq!(red_worlds(Planted::default()), 0);
}

#[test]
fn done_before_custody_goes_red() {
    assert!(red_worlds(Planted::new(Bug::DoneBeforeCustody)) > 0);
}

#[test]
fn dropping_a_duplicate_with_its_duty_goes_red() {
    assert!(red_worlds(Planted::new(Bug::DropDuplicateDuty)) > 0);
}

/// Twenty nodes broadcast, and some of them are dead. Each node has room for two duties and no
/// complete roster, so the steps on the way to a rank need room as well. Returns the numbers of
/// receipts and of published messages.
fn receipts_of_a_crowd(planted: Planted) -> (usize, usize) {
    let config = Config {
        max_duties: 2,
        roster_max: 8,
        planted,
        ..Config::default()
    };
    let mut network = Network::new(20, 1, Conditions::default(), config);
    for rank in [3, 7, 8, 14, 17] {
        network.crash(network.members[rank]);
    }
    network.run_for(1_000_000);
    let mut published = 0;
    for origin in network.members.clone() {
        for _ in 0..4 {
            if network.is_alive(origin) {
                network.publish(origin, 10).unwrap();
                published += 1;
            }
        }
    }
    network.run_for(120_000_000);
    (network.receipts.len(), published)
}

#[test]
fn without_a_bug_no_node_waits_for_room_for_ever() {
    let (receipts, published) = receipts_of_a_crowd(Planted::default());
    assert_eq!(receipts, published);
}

#[test]
fn wait_for_room_goes_red() {
    let (receipts, published) = receipts_of_a_crowd(Planted::new(Bug::WaitForRoom));
    assert!(receipts < published / 2, "{receipts} of {published}");
}
