//! Closure and recovery in small worlds, searched exhaustively where that is
//! quick; `binomesh-bench check` searches further.

use binomesh_bench::checker::Protocol;
use binomesh_bench::checker::channels::Carriage;
use binomesh_bench::checker::finger::FingersOn;
use binomesh_bench::checker::model::{Garbage, World};
use binomesh_bench::checker::ring::RingOn;
use binomesh_bench::checker::search::{Found, search};
use binomesh_overlay::Planted;
use binomesh_overlay::fingers::Rules;

const SAMPLED: Garbage = Garbage::Sampled { seed: 1 };
const ROUNDS: usize = 12;

fn check<P: Protocol>(
    protocol: P,
    carriage: Carriage,
    garbage: Garbage,
    limit: usize,
) -> Found<usize> {
    search(World::new(protocol, carriage, garbage, ROUNDS, limit), 2)
}

fn is_green(found: &Found<usize>) {
    let script = found.counterexample.as_deref().unwrap_or_default();
    assert!(found.counterexample.is_none(), "{script}");
}

#[test]
fn rings_of_two_are_exhausted_with_every_single_message_and_a_stranger() {
    for has_stranger in [false, true] {
        for ring in RingOn::all(2, has_stranger, Planted::default()) {
            let found = check(ring, Carriage::Slots, Garbage::EverySingle, usize::MAX);
            is_green(&found);
            assert!(found.is_exhaustive && found.states > 1000, "{found:?}");
        }
    }
}

#[test]
fn rings_of_three_recover_from_every_table() {
    for ring in RingOn::all(3, false, Planted::default()) {
        is_green(&check(ring, Carriage::Slots, SAMPLED, 30_000));
    }
}

#[test]
fn rings_of_three_recover_over_queues_of_four() {
    for ring in RingOn::all(3, false, Planted::default()) {
        is_green(&check(
            ring,
            Carriage::Queue { capacity: 4 },
            SAMPLED,
            30_000,
        ));
    }
}

#[test]
fn b_connect_starves_behind_ask_connect_in_short_queues() {
    // This is why the node has slots: one fair schedule loses the B_Connect for ever.
    for capacity in [1, 2] {
        let mut worlds = RingOn::all(3, false, Planted::default()).into_iter();
        let starves = |ring| {
            let found = check(ring, Carriage::Queue { capacity }, SAMPLED, 30_000);
            found.counterexample.is_some()
        };
        assert!(worlds.any(starves), "capacity {capacity}");
    }
}

#[test]
fn fingers_of_three_recover_from_every_finger_of_level_1() {
    let fingers = FingersOn::new(3, Rules::default());
    is_green(&check(fingers, Carriage::Slots, SAMPLED, 30_000));
}

#[cfg(feature = "planted")]
mod planted {
    use super::*;
    use binomesh_overlay::Bug;

    fn is_red(found: &Found<usize>) -> bool {
        let script = found.counterexample.as_deref().unwrap_or_default();
        script.contains("start:") && script.contains("not legitimate")
            || script.contains("leads out")
    }

    #[test]
    fn ring_bugs_go_red() {
        for bug in [Bug::Rule4Guard, Bug::MissingRefresh, Bug::LostBConnect] {
            let mut worlds = RingOn::all(3, true, Planted::new(bug)).into_iter();
            let goes_red = |ring| is_red(&check(ring, Carriage::Slots, SAMPLED, 30_000));
            assert!(worlds.any(goes_red), "{bug} stayed green");
        }
    }

    #[test]
    fn finger_bugs_go_red() {
        for (bug, nodes) in [(Bug::MissingRefresh, 3), (Bug::LevelBound, 4)] {
            let rules = Rules {
                planted: Planted::new(bug),
                ..Rules::default()
            };
            let found = check(
                FingersOn::new(nodes, rules),
                Carriage::Slots,
                SAMPLED,
                30_000,
            );
            assert!(is_red(&found), "{bug} stayed green");
        }
    }
}
