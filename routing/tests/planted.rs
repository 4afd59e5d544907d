//! The judge must be able to see red: the same worlds with planted bugs.
#![cfg(feature = "planted")]

mod network;

use binomesh_overlay::{Bug, Planted};
use binomesh_routing::Config;
use network::{Conditions, Network};
use rand::Rng;

/// The share of worlds in which the judge complains.
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
