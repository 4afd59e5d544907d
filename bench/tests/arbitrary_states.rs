//! From arbitrary states everything converges, with the back-off on.

use binomesh_bench::arena::arbitrary::Trial;
use binomesh_bench::arena::mailbox::Discipline;
use binomesh_overlay::backoff::Limits;
use binomesh_overlay::fingers::Rules;

const SYNCHRONOUS: Trial = Trial {
    nodes: 0,
    seed: 0,
    rules: Rules {
        forwarding: binomesh_overlay::fingers::Forwarding::Linear,
        planted: binomesh_overlay::Planted::NONE,
    },
    limits: Limits {
        minimum: 2,
        maximum: 64,
    },
    visit_period: 0,
    phase_limit: 2000,
    asynchronous: None,
    is_stamped: false,
};

/// Slower, as one message per turn drains an inbox slowly.
const ASYNCHRONOUS: Trial = Trial {
    limits: Limits {
        minimum: 16,
        maximum: 256,
    },
    phase_limit: 20_000,
    asynchronous: Some(Discipline::Slots),
    ..SYNCHRONOUS
};

/// The most phases that any of the trials took.
fn all_converge(base: Trial, sizes: impl Iterator<Item = usize>, seeds: u64) -> u64 {
    let mut most = 0;
    for nodes in sizes {
        for seed in 0..seeds {
            let outcome = Trial {
                nodes,
                seed,
                ..base
            }
            .run();
            let phases = outcome.phases;
            most = most.max(phases.unwrap_or_else(|| panic!("N={nodes} seed={seed} did not")));
        }
    }
    most
}

#[test]
fn synchronous_arbitrary_states_converge() {
    // One capped back-off, as timers start anywhere, and D + log N rounds.
    let most = all_converge(SYNCHRONOUS, 2..=32, 200);
    assert!(most <= 64 + 32 + 6, "{most} phases");
}

#[test]
fn asynchronous_arbitrary_states_converge_with_slots() {
    all_converge(ASYNCHRONOUS, 2..=32, 20);
}

#[test]
fn arbitrary_states_with_proved_entries_and_visits_converge() {
    let stamped = |trial| Trial {
        is_stamped: true,
        visit_period: 8,
        ..trial
    };
    all_converge(stamped(SYNCHRONOUS), 2..=32, 40);
    all_converge(stamped(ASYNCHRONOUS), 2..=32, 10);
}

#[test]
fn quiet_traffic_is_bounded() {
    let outcome = Trial {
        nodes: 32,
        ..SYNCHRONOUS
    }
    .run();
    // 2m = 8 UP/DN, F_Connect or Info and what it begets, once per 32 to 64 turns.
    assert!(outcome.quiet_traffic < 0.3, "{outcome:?}");
}

#[cfg(feature = "planted")]
#[test]
fn planted_bugs_go_red() {
    use binomesh_overlay::{Bug, Planted};
    for bug in [
        Bug::Rule4Guard,
        Bug::LevelBound,
        Bug::MissingRefresh,
        Bug::LostBConnect,
    ] {
        let rules = Rules {
            planted: Planted::new(bug),
            ..SYNCHRONOUS.rules
        };
        let is_red = |seed| {
            let trial = Trial {
                nodes: 16,
                seed,
                rules,
                ..SYNCHRONOUS
            };
            trial.run().phases.is_none()
        };
        assert!((0..20).any(is_red), "{bug} stayed green");
    }
}
