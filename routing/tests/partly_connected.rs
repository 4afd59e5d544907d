//! Some pairs cannot reach each other and everybody else can.

use crate::network::{Conditions, Id, Network};
use binomesh_routing::{Config, Destination};

/// Until another way is looked for, and the way.
const FIRST_US: u64 = 1_600_000;
/// The time of each later message, whose other way is known.
const LATER_US: u64 = 100_000;

fn all_publish(network: &mut Network) -> Vec<Id> {
    let origins = network.members.clone();
    let publish = |origin| network.publish(origin, 16).unwrap();
    origins.into_iter().map(publish).collect()
}

fn cut(network: &mut Network, a: u32, b: u32) {
    network.cuts.extend([(a, b), (b, a)]);
}

/// One pair is cut for good, each in turn. Everybody gets everything of everybody
/// once, and after the first time without delay.
#[test]
fn a_pair_that_is_cut_costs_nobody_anything() {
    for n in [8u32, 16] {
        for a in 0..n {
            for b in a + 1..n {
                let seed = u64::from(n * 10_000 + a * 100 + b);
                let mut network = Network::new(n, seed, Conditions::default(), Config::default());
                let members = network.members.clone();
                cut(&mut network, members[a as usize], members[b as usize]);
                let mut ids = all_publish(&mut network);

                network.run_until_receipts(FIRST_US);

                for _ in 0..3 {
                    ids.extend(all_publish(&mut network));

                    network.run_until_receipts(LATER_US);
                }
                let to = Destination::Peers(vec![members[b as usize]]);
                let sent = network.publish_to(members[a as usize], to, 16, None);
                ids.push(sent.unwrap());
                network.run_until_receipts(FIRST_US);
                network.assert_sound();
                for id in ids {
                    network.assert_survivors_delivered(id);
                    let receipt = &network.receipts[&id][0];
                    assert!(receipt.is_complete(), "N={n} {a}-{b}: {receipt:?}");
                }
            }
        }
    }
}

/// The pair is cut while one has custody of a part that the other gave it.
#[test]
fn custody_beyond_a_cut_is_handed_to_others() {
    for seed in 0..20 {
        let mut network = Network::new(16, seed, Conditions::default(), Config::default());
        let (origin, holder, far) = (network.members[0], network.members[8], network.members[9]);
        network.pause(far, 60_000);
        let id = network.publish(origin, 16).unwrap();
        network.run_for(20_000);
        cut(&mut network, origin, holder);
        network.run_until_receipts(14_000_000);
        network.assert_sound();
        let receipt = &network.receipts[&id][0];
        assert!(receipt.is_complete(), "seed {seed}: {receipt:?}");
    }
}

/// Above the roster bound nobody knows that a delegate of the former epoch is no
/// member any more, and no verdict says so. The receipt comes all the same.
#[test]
fn a_dead_delegate_of_a_former_epoch_blocks_no_receipt() {
    for seed in 0..10 {
        let config = Config {
            roster_max: 8,
            ..Config::default()
        };
        let conditions = Conditions {
            verdict_us: 100_000_000,
            ..Conditions::default()
        };
        let mut network = Network::new(16, seed, conditions, config);
        let members = network.members.clone();
        let id = network.publish(members[0], 16).unwrap();
        network.crash(members[8]);
        network.run_for(1);
        let rest: Vec<u32> = members
            .iter()
            .copied()
            .filter(|id| *id != members[8])
            .collect();
        network.place(&rest);
        network.run_until_receipts(30_000_000);
        network.assert_sound();
        network.assert_survivors_delivered(id);
    }
}
