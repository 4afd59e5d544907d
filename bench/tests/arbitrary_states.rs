//! From arbitrary states everything converges, with the back-off on.

use binomesh_bench::arena::arbitrary::Trial;
use binomesh_bench::arena::mailbox::Discipline;
use binomesh_bench::arena::tree::Shape;
use binomesh_overlay::backoff::Limits;
use binomesh_overlay::fingers::Rules;

const SYNCHRONOUS: Trial = Trial {
    nodes: 0,
    seed: 0,
    shape: None,
    garbage: 6,
    census_phases: 4,
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

/// On trees of logarithmic depth, garbage of three messages per process. The maximum of
/// the back-off decides what a quiet process costs, not how fast a corrupted one recovers:
/// whoever hears something wrong changes, and is at its minimum again.
#[test]
fn thirty_two_processes_recover_within_20_phases_and_are_quiet_at_a_fifth_of_a_message() {
    for shape in [Shape::Binary, Shape::Binomial, Shape::Flat] {
        for (census_phases, seed) in [0, 4]
            .into_iter()
            .flat_map(|c| (0..200).map(move |s| (c, s)))
        {
            let trial = Trial {
                nodes: 32,
                seed,
                shape: Some(shape),
                garbage: 3,
                census_phases,
                limits: Limits::default(),
                ..SYNCHRONOUS
            };
            let outcome = trial.run();
            let phases = outcome.phases;
            assert!(
                phases.is_some_and(|phases| phases <= 20),
                "{trial:?}: {outcome:?}"
            );
            assert!(outcome.quiet_traffic <= 0.2, "{trial:?}: {outcome:?}");
        }
    }
}

#[test]
fn larger_arbitrary_states_converge() {
    let trial = Trial {
        garbage: 3,
        limits: Limits::default(),
        ..SYNCHRONOUS
    };
    all_converge(
        trial,
        [64, 128].into_iter(),
        if cfg!(debug_assertions) { 10 } else { 100 },
    );
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
