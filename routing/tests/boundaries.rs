//! Crashes at every boundary between two messages of a broadcast: of each node alone and of
//! each pair of nodes, by every strategy. (A debug build takes a sample of the boundaries.) The
//! crashed nodes stay away or are started again. Unless the origin crashes, each survivor gets
//! the broadcast once. No life gets it twice, and the receipt is sound.

use std::time::Duration;

use crate::network::{Conditions, Network};
use binomesh_routing::Config;
use binomesh_routing::strategy::Strategy;

const STRATEGIES: [Strategy; 7] = [
    Strategy::Binomial,
    Strategy::SiblingTree { fanout: 2 },
    Strategy::SiblingTree { fanout: 4 },
    Strategy::Flood,
    Strategy::Chain,
    Strategy::circulant(0),
    Strategy::circulant(5),
];

/// Longer than an undisturbed broadcast among so few members.
const QUIET_US: u64 = 200_000;

/// The time after which all members have heard of a crash.
const VERDICTS_US: u64 = 100_000;

/// The fate of the crashed nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The crashed nodes stay away.
    Gone,
    /// Each crashed node is started again after this time in µs, with a new life at its old rank.
    BackAfter(u64),
}

/// Crashes the victims after `count` messages of a broadcast of the first member. Returns the
/// number of victims that got the broadcast in two lives, or `None` if the broadcast had fewer
/// messages.
fn crashed_after(
    start: &Network,
    victims: &[u32],
    count: u64,
    then: Then,
    context: &str,
) -> Option<usize> {
    let mut network = start.clone();
    let origin = network.members[0];
    let id = network.publish(origin, 100).unwrap();
    if !network.run_messages(count, QUIET_US) {
        return None;
    }
    for victim in victims {
        network.crash(*victim);
    }
    if let Then::BackAfter(us) = then {
        network.run_for(us);
        victims
            .iter()
            .for_each(|victim| network.come_back(*victim, 2));
    }
    let all = network.members.iter().copied();
    let others: Vec<u32> = all.filter(|one| !victims.contains(one)).collect();
    if victims.contains(&origin) {
        // A broadcast whose origin crashes need not reach all members. No life gets it twice,
        // and all relays become idle.
        network.run_for(3_000_000);
        let busy = others.iter().find(|one| !network.relay(**one).is_idle());
        assert_eq!(busy, None, "{context}");
    } else {
        network.run_until_receipts(8_000_000);
        for one in others.iter().filter(|one| **one != origin) {
            assert_eq!(network.delivered(id, *one), 1, "{context}: {one}");
        }
        let receipt = &network.receipts[&id][0];
        let lost = receipt.unreached.iter().filter_map(|line| line.peer);
        for peer in lost {
            assert!(victims.contains(&peer), "{context}: {receipt:?}");
        }
        if matches!(then, Then::BackAfter(us) if us > VERDICTS_US) {
            // No node takes a victim for down any more, and no patience with a victim is over.
            assert!(receipt.is_complete(), "{context}: {receipt:?}");
        }
    }
    // The complaints count the deliveries of each life of a restarted node by itself.
    let complaints = network.complaints();
    assert!(complaints.is_empty(), "{context}: {complaints:?}");
    let twice = victims
        .iter()
        .filter(|one| network.delivered(id, **one) == 2);
    Some(twice.count())
}

fn all_boundaries(n: u32, stride: u64) -> u64 {
    let (mut runs, mut twice) = (0, 0);
    for strategy in STRATEGIES {
        let conditions = Conditions {
            verdict_us: VERDICTS_US,
            ..Conditions::default()
        };
        let config = Config {
            down_patience: Duration::from_millis(500),
            down_pressed: Duration::from_millis(500),
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
                // Some victims return before the other nodes hear of the crash, and some return
                // later.
                let back = Then::BackAfter((count / stride + place) % 5 * 30_000);
                let each = [Then::Gone, back].map(|then| {
                    let context =
                        format!("{strategy:?}, N={n}, {victims:?} after {count}, {then:?}");
                    crashed_after(&start, &victims, count, then, &context)
                });
                let [Some(_), Some(again)] = each else {
                    break;
                };
                twice += again;
                runs += 1;
                count += stride;
            }
        }
    }
    assert!(twice > 0, "no life was judged after another");
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
