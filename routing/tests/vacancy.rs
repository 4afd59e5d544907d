//! A member dies and its rank stays vacant in the same epoch, until it comes back
//! or the next epoch leaves it out.

use std::collections::BTreeSet;

use crate::network::{Conditions, Id, Network, seeds};
use binomesh_routing::packet::Reason;
use binomesh_routing::relay::Unreached;
use binomesh_routing::{Config, Destination};
use rand::Rng;

fn live(network: &Network) -> Vec<u32> {
    let members = network.members.iter().copied();
    members.filter(|id| network.is_alive(*id)).collect()
}

fn all_publish(network: &mut Network) -> Vec<Id> {
    let origins = live(network);
    let publish = |origin| network.publish(origin, 16).unwrap();
    origins.into_iter().map(publish).collect()
}

/// The patience after a verdict, and a margin.
const PATIENCE_US: u64 = 5_000_000;
const SLACK_US: u64 = 700_000;

/// While ranks are vacant, messages reach all members that are there. The receipts wait for the
/// next epoch, but no longer than the patience lasts, and come soon after either.
#[test]
fn a_vacant_rank_delays_receipts_and_no_delivery() {
    for seed in seeds(100) {
        let mut network = Network::new(24, seed, Conditions::default(), Config::default());
        for _ in 0..3 {
            let victim = network.members[network.rng.random_range(0..24)];
            if network.is_alive(victim) {
                network.crash(victim);
            }
        }
        let mut ids = all_publish(&mut network);
        network.run_for(2_000_000);
        ids.extend(all_publish(&mut network));
        network.run_for(2_000_000);
        ids.iter()
            .for_each(|id| network.assert_survivors_delivered(*id));
        assert!(
            network.receipts.is_empty(),
            "seed {seed}: who is missing is a member"
        );
        let survivors = live(&network);
        if seed % 2 == 0 {
            network.place(&survivors);
            network.run_until_receipts(1_000_000);
        } else {
            // The rank stays vacant, and the patience ends.
            network.run_until_receipts(PATIENCE_US - 4_000_000 + SLACK_US);
        }
        network.assert_sound();
        for id in ids {
            let lines = &network.receipts[&id][0].unreached;
            let is_right = |reason| matches!(reason, Reason::Down | Reason::Left);
            assert!(
                lines.iter().all(|line| is_right(line.reason)),
                "seed {seed}: {lines:?}"
            );
            assert_eq!(lines.len(), 24 - survivors.len(), "seed {seed}");
        }
    }
}

/// An origin can publish again once the patience is over, however long the rank stays vacant,
/// and also if the epoch changes meanwhile.
#[test]
fn a_vacant_rank_stops_no_publisher() {
    for seed in seeds(10) {
        let mut network = Network::new(24, seed, Conditions::default(), Config::default());
        let members = network.members.clone();
        let (origin, victim) = (members[0], members[network.rng.random_range(1..24)]);
        network.crash(victim);
        network.run_for(PATIENCE_US + SLACK_US);
        let mut ids = Vec::new();
        for step in 0..300 {
            if step == 150 {
                // The new epoch tries the dead member once more, and waits for it no longer.
                let mut turned = members.clone();
                turned.rotate_left(5);
                network.place(&turned);
                network.run_for(500_000);
                all_publish(&mut network);
                network.run_for(PATIENCE_US);
            }
            let sent = network.publish(origin, 16);
            ids.push(sent.unwrap_or_else(|error| panic!("seed {seed} step {step}: {error}")));
            network.run_for(10_000);
        }
        network.run_until_receipts(1_000_000);
        network.assert_sound();
        for id in ids {
            network.assert_survivors_delivered(id);
            let lines = &network.receipts[&id][0].unreached;
            let is_right = lines.len() == 1 && lines[0].reason == Reason::Down;
            assert!(is_right, "seed {seed}: {lines:?}");
        }
    }
}

/// A member that returns gets each open message once, completes its roster, and takes part.
#[test]
fn a_member_that_returns_to_a_vacant_rank_gets_open_messages() {
    for seed in seeds(200) {
        let mut network = Network::new(24, seed, Conditions::default(), Config::default());
        let members = network.members.clone();
        let victim = members[network.rng.random_range(1..24)];
        let mut ids = vec![network.publish(members[0], 16).unwrap()];
        let delay = network.rng.random_range(0..5_000);
        network.run_for(delay);
        network.crash(victim);
        ids.extend(all_publish(&mut network));
        let delay = network.rng.random_range(300_000..30_000_000);
        network.run_for(delay);
        network.come_back(victim, 2);
        network.run_until_receipts(3_000_000);
        network.run_for(1_000_000);
        assert!(network.relay(victim).roster().unwrap().is_complete());
        let in_time = delay < PATIENCE_US;
        let of_old = ids.len();
        ids.push(network.publish(victim, 16).unwrap());
        let peers = Destination::Peers(vec![victim]);
        ids.push(network.publish_to(members[0], peers, 16, None).unwrap());
        network.run_until_receipts(1_000_000);
        network.assert_sound();
        for (at, id) in ids.iter().enumerate() {
            let lines = &network.receipts[id][0].unreached;
            let is_lost =
                |line: &Unreached<u32>| (line.peer, line.reason) == (Some(victim), Reason::Down);
            let may_be_lost = at < of_old && !in_time && lines.iter().all(is_lost);
            assert!(lines.is_empty() || may_be_lost, "seed {seed}: {lines:?}");
        }
    }
}

/// A process restarts so fast that no verdict is given. The custody of the former process is
/// void. A delegator asks as soon as it has a link to the new process, and does not wait for
/// its timer.
#[test]
fn custody_of_a_former_process_is_void() {
    for seed in seeds(200) {
        let mut network = Network::new(16, seed, Conditions::default(), Config::default());
        let (origin, victim, far) = (network.members[0], network.members[8], network.members[9]);
        // The victim has custody of [8, 16) while a member of that part is late.
        network.pause(far, 60_000);
        let id = network.publish(origin, 16).unwrap();
        network.run_for(20_000);
        network.come_back(victim, 2);
        network.run_until_receipts(300_000);
        network.assert_sound();
        assert!(network.receipts[&id][0].is_complete(), "seed {seed}");
    }
}

/// Members die and restart while the rosters of a new epoch are gathered.
#[test]
fn rosters_become_complete_though_members_die_meanwhile() {
    for seed in seeds(200) {
        let conditions = Conditions {
            verdict_us: 5_000_000,
            ..Conditions::default()
        };
        let mut network = Network::unplaced(48, seed, conditions, Config::default());
        let members = network.members.clone();
        network.place(&members);
        let mut touched = BTreeSet::new();
        for round in 0..16 {
            let delay = network.rng.random_range(0..4_000);
            network.run_for(delay);
            let victim = members[network.rng.random_range(0..48)];
            if !touched.insert(victim) {
                continue;
            }
            if round % 4 == 0 {
                network.come_back(victim, 2);
            } else {
                network.crash(victim);
            }
        }
        network.run_for(3_000_000);
        for id in live(&network) {
            let roster = network.relay(id).roster().unwrap();
            assert!(
                roster.is_complete(),
                "seed {seed}: {id} knows {}",
                roster.known_count()
            );
        }
        let waits = live(&network)[0];
        let id = network.publish(waits, 16).unwrap();
        network.run_for(5_000_000);
        network.assert_survivors_delivered(id);
    }
}
