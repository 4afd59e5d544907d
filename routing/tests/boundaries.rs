//! Crashes at every boundary between two messages of a broadcast: each node by itself, and
//! each pair, by every strategy. Whoever lives gets it once, and the receipt is sound.

mod network;

use std::time::Duration;

use binomesh_routing::Config;
use binomesh_routing::strategy::Strategy;
use network::{Conditions, Network};

const STRATEGIES: [Strategy; 5] = [
    Strategy::Binomial,
    Strategy::SiblingTree { fanout: 2 },
    Strategy::SiblingTree { fanout: 4 },
    Strategy::Flood,
    Strategy::Chain,
];

/// Longer than a broadcast among so few takes undisturbed.
const QUIET_US: u64 = 200_000;

/// Crash these after so many messages of a broadcast from the first member. False if it
/// had fewer.
fn crashed_after(start: &Network, victims: &[u32], count: u64, context: &str) -> bool {
    let mut network = start.clone();
    let origin = network.members[0];
    let id = network.publish(origin, 100).unwrap();
    if !network.run_messages(count, QUIET_US) {
        return false;
    }
    for victim in victims {
        network.crash(*victim);
    }
    if victims.contains(&origin) {
        // Nobody promises that all get it; nobody gets it twice.
        network.run_for(3_000_000);
    } else {
        network.run_until_receipts(8_000_000);
        network.assert_survivors_delivered(id);
        let receipt = &network.receipts[&id][0];
        let lost = receipt.unreached.iter().filter_map(|line| line.peer);
        for peer in lost {
            assert!(victims.contains(&peer), "{context}: {receipt:?}");
        }
    }
    let complaints = network.complaints();
    assert!(complaints.is_empty(), "{context}: {complaints:?}");
    true
}

fn all_boundaries(n: u32, stride: u64) -> u64 {
    let mut runs = 0;
    for strategy in STRATEGIES {
        let conditions = Conditions {
            verdict_us: 100_000,
            ..Conditions::default()
        };
        let config = Config {
            down_patience: Duration::from_millis(500),
            ..Config::default()
        };
        let mut start = Network::new(n, 7, conditions, config);
        start.strategy = strategy;
        let members = start.members.clone();
        let singles = members.iter().map(|one| vec![*one]);
        let pairs = members.iter().enumerate().flat_map(|(at, one)| {
            let others = members.get(at + 1..).unwrap_or_default();
            others.iter().map(|other| vec![*one, *other])
        });
        for (place, victims) in (0..).zip(singles.chain(pairs)) {
            let mut count = place % stride;
            loop {
                let context = format!("{strategy:?}, N={n}, {victims:?} after {count}");
                if !crashed_after(&start, &victims, count, &context) {
                    break;
                }
                runs += 1;
                count += stride;
            }
        }
    }
    runs
}

#[test]
fn a_crash_after_any_message_costs_nobody_else_the_broadcast_among_8() {
    let stride = if cfg!(debug_assertions) { 5 } else { 1 };
    let runs = all_boundaries(8, stride);
    assert!(runs * stride > 2_000, "{runs} runs");
}

#[test]
fn a_crash_after_any_message_costs_nobody_else_the_broadcast_among_16() {
    let stride = if cfg!(debug_assertions) { 29 } else { 1 };
    let runs = all_boundaries(16, stride);
    assert!(runs * stride > 15_000, "{runs} runs");
}
