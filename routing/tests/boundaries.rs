//! Crashes at every boundary between two messages of a broadcast: each node by itself, and
//! each pair, by every strategy, who stay away or are started again. Whoever lives gets it
//! once, nobody twice in one life, and the receipt is sound.

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

/// Longer than a broadcast among so few takes undisturbed.
const QUIET_US: u64 = 200_000;

/// When all have heard of a crash.
const VERDICTS_US: u64 = 100_000;

/// What becomes of those that crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The crashed nodes stay away.
    Gone,
    /// Each is started again after so long, as another life in its place.
    BackAfter(u64),
}

/// Crash these after so many messages of a broadcast from the first member. How many got it
/// in two lives; `None` if it had fewer messages.
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
        // Nobody promises that all get it; nobody gets it twice, and all come to an end.
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
            // Nobody takes it for down any more, and its patience is not over.
            assert!(receipt.is_complete(), "{context}: {receipt:?}");
        }
    }
    // Of each life, for whoever was started again.
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
                // Before and after the others hear of it.
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
