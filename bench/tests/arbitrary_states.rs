//! Overlays converge from arbitrary states, with the back-off on.

use binomesh_bench::arena::arbitrary::Trial;
use binomesh_bench::arena::mailbox::Discipline;
use binomesh_bench::arena::tree::TreeShape;
use binomesh_overlay::backoff::BackoffLimits;
use binomesh_overlay::fingers::Rules;

/// The default limits, as a constant.
const PHASES: BackoffLimits = BackoffLimits {
    minimum: 1,
    maximum: 128,
};

/// The shapes whose depth is at most log2 N.
const SHALLOW: [TreeShape; 3] = [TreeShape::Binomial, TreeShape::Binary, TreeShape::Flat];

const SYNCHRONOUS: Trial = Trial {
    nodes: 0,
    seed: 0,
    shape: None,
    garbage: 3,
    census_phases: 4,
    rules: Rules {
        forwarding: binomesh_overlay::fingers::Forwarding::Linear,
        planted: binomesh_overlay::Planted::NONE,
    },
    limits: PHASES,
    visit_period: 0,
    phase_limit: 2000,
    asynchronous: None,
    is_stamped: false,
};

/// With slower limits, since one message per turn drains an inbox slowly.
const ASYNCHRONOUS: Trial = Trial {
    limits: BackoffLimits {
        minimum: 16,
        maximum: 256,
    },
    phase_limit: 20_000,
    asynchronous: Some(Discipline::Slots),
    ..SYNCHRONOUS
};

/// Runs all trials, and returns the most phases that a trial took.
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
    assert_eq!(BackoffLimits::default(), PHASES);
    // Chains converge in this time as well. An Info climbs at most 32 levels, since there are at
    // most 32 nodes. A change where the Info ends wakes only the process there, so one back-off is
    // left, of at most 128 phases.
    let most = all_converge(SYNCHRONOUS, 2..=32, 200);
    assert!(most <= 128 + 32, "{most} phases");
}

#[test]
fn sixty_four_and_more_converge() {
    all_converge(SYNCHRONOUS, [64, 128].into_iter(), 40);
}

#[test]
fn thirty_two_on_a_shallow_tree_need_20_phases_whatever_their_timers() {
    for shape in SHALLOW {
        // The nodes learn N from the census, or know N from the start and have timers up to the
        // maximum.
        for census_phases in [4, 0] {
            let trial = Trial {
                shape: Some(shape),
                census_phases,
                ..SYNCHRONOUS
            };
            let most = all_converge(trial, 32..=32, 1000);
            assert!(most <= 20, "{shape:?} {census_phases}: {most} phases");
        }
    }
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
    for nodes in (2..=32).chain([64, 128]) {
        let outcome = Trial {
            nodes,
            ..SYNCHRONOUS
        }
        .run();
        // A process receives, once in 64 to 128 turns: 2m UP/DN, F_Connect or Info, and the
        // messages that these cause.
        assert!(outcome.quiet_traffic <= 0.2, "N={nodes}: {outcome:?}");
    }
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
