//! The claims about a clean start, on the machines that the node runs.

use binomesh_bench::arena::asynchronous::Asynchronous;
use binomesh_bench::arena::convergence::{Convergence, Scheduler, converge};
use binomesh_bench::arena::mailbox::Discipline;
use binomesh_bench::arena::repetition::repeat;
use binomesh_bench::arena::synchronous::{Reading, Synchronous};
use binomesh_bench::arena::tree::{Randomness, Tree, TreeShape};
use binomesh_bench::arena::{Arena, Repetition};
use binomesh_overlay::backoff::BackoffLimits;
use binomesh_overlay::fingers::{Forwarding, Rules};

const SEED: Randomness = Randomness {
    seed: 42,
    depth: 20,
    degree: 6,
};

fn arena(shape: TreeShape, nodes: usize) -> Arena<()> {
    let tree = Tree::new(shape, nodes, SEED);
    Arena::new(tree, Rules::default(), Repetition::UntilQuiet, |_| ())
}

fn run(arena: &mut Arena<()>, mut scheduler: impl Scheduler<()>) -> Convergence {
    converge(arena, &mut scheduler, 100_000, |_, _| ())
}

fn synchronous(shape: TreeShape, nodes: usize, reading: Reading) -> (Option<u64>, Option<u64>) {
    let found = run(&mut arena(shape, nodes), Synchronous::new(reading));
    assert!(
        found.silent_phases.is_some(),
        "{shape:?} {nodes}: {found:?}"
    );
    (found.ring_phases, found.bmg_phases)
}

/// The number of levels above 0: ⌈log2 N⌉ − 1.
fn m(nodes: usize) -> u64 {
    u64::from(nodes.next_power_of_two().trailing_zeros()) - 1
}

#[test]
fn the_ring_of_a_binomial_tree_stands_after_4_phases_and_the_graph_m_later() {
    for nodes in (4..=16).map(|exponent| 1 << exponent) {
        let expected = (Some(4), Some(4 + m(nodes)));
        assert_eq!(
            synchronous(TreeShape::Binomial, nodes, Reading::SamePhase),
            expected
        );
    }
}

#[test]
fn the_ring_of_a_balanced_binary_tree_stands_after_k_plus_1_phases() {
    for k in 2..=14 {
        let nodes = (1 << k) - 1;
        let expected = (Some(k + 1), Some(k + 1 + m(nodes)));
        assert_eq!(
            synchronous(TreeShape::Binary, nodes, Reading::SamePhase),
            expected
        );
    }
}

#[test]
fn the_ring_of_a_random_tree_stands_one_or_two_phases_after_its_depth() {
    for seed in 0..200 {
        let (depth, nodes) = (3 + seed % 8, 1 << (6 + seed % 5));
        let randomness = Randomness {
            seed: seed.into(),
            depth,
            degree: 40,
        };
        let tree = Tree::new(TreeShape::RandomLevelled, nodes, randomness);
        let mut arena = Arena::new(tree, Rules::default(), Repetition::UntilQuiet, |_| ());
        let found = run(&mut arena, Synchronous::new(Reading::SamePhase));
        let ring = found.ring_phases.unwrap_or(0);
        let depth = u64::from(depth);
        assert!(
            (depth + 1..=depth + 2).contains(&ring),
            "seed {seed}: {ring}"
        );
        assert_eq!(found.bmg_phases, Some(ring + m(nodes)), "seed {seed}");
    }
}

#[test]
fn delivery_in_the_next_phase_adds_1_and_2() {
    let expected = (Some(4 + 1), Some(4 + m(1024) + 2));
    assert_eq!(
        synchronous(TreeShape::Binomial, 1024, Reading::NextPhase),
        expected
    );
    let expected = (Some(10 + 1 + 1), Some(10 + 1 + m(1023) + 2));
    assert_eq!(
        synchronous(TreeShape::Binary, 1023, Reading::NextPhase),
        expected
    );
}

#[test]
fn with_the_smallest_subtree_first_the_ring_takes_more_than_4_phases() {
    let (ring, _) = synchronous(TreeShape::BinomialSmallestFirst, 1024, Reading::SamePhase);
    assert!(ring > Some(4), "{ring:?}");
}

#[test]
fn a_clean_start_receives_exactly_two_introductions_per_level_above_0() {
    let shapes = [
        TreeShape::Binomial,
        TreeShape::Binary,
        TreeShape::Flat,
        TreeShape::Chain,
        TreeShape::Random,
        TreeShape::RandomLevelled,
    ];
    for shape in shapes {
        for nodes in [2, 3, 4, 5, 7, 8, 11, 12, 16, 33, 100] {
            for is_synchronous in [true, false] {
                let mut arena = arena(shape, nodes);
                let found = match is_synchronous {
                    true => run(&mut arena, Synchronous::new(Reading::SamePhase)),
                    false => run(&mut arena, Asynchronous::new(Discipline::Channels, nodes)),
                };
                assert!(found.silent_phases.is_some(), "{shape:?} {nodes}");
                for received in arena.received() {
                    let expected = 2 * m(nodes) as u32;
                    assert_eq!(received.introductions, expected, "{shape:?} {nodes}");
                }
            }
        }
    }
}

#[test]
fn asynchronous_starts_of_65536_take_what_the_paper_draws() {
    // With `UntilSuccessor` parents fall quiet at once. Their first children then have more turns
    // for Infos, and a binary tree takes longer.
    for (repetition, binary) in [
        (Repetition::UntilQuiet, 80..=130),
        (Repetition::UntilSuccessor, 100..=130),
    ] {
        let phases = |shape, nodes| {
            let tree = Tree::new(shape, nodes, SEED);
            let mut arena = Arena::new(tree, Rules::default(), repetition, |_| ());
            let found = run(&mut arena, Asynchronous::new(Discipline::Channels, nodes));
            assert!(found.silent_phases.is_some(), "{shape:?} {repetition:?}");
            found.bmg_phases.unwrap_or(0)
        };
        let binomial = phases(TreeShape::Binomial, 1 << 16);
        assert!(
            (240..=285).contains(&binomial),
            "{repetition:?}: {binomial}"
        );
        let found = phases(TreeShape::Binary, (1 << 16) - 1);
        assert!(binary.contains(&found), "{repetition:?}: {found}");
    }
}

#[test]
fn a_lone_process_has_no_ring_and_no_graph_to_build() {
    let mut arena = arena(TreeShape::Flat, 1);
    let found = run(&mut arena, Synchronous::new(Reading::SamePhase));
    assert_eq!((found.ring_phases, found.bmg_phases), (Some(0), Some(0)));
}

/// The UP/DN that the idlest and the busiest process receive in 64 times the longest wait, once
/// the graph stands. After each wait of its own, a process applies rule 1 once.
fn introductions_per_round(forwarding: Forwarding, nodes: usize) -> (u32, u32) {
    let wait = 64;
    let repetition = Repetition::Backoff {
        limits: BackoffLimits {
            minimum: wait,
            maximum: wait,
        },
        visit_period: 0,
    };
    let rules = Rules {
        forwarding,
        ..Rules::default()
    };
    let tree = Tree::new(TreeShape::Binomial, nodes, SEED);
    let mut arena = Arena::new(tree, rules, repetition, |_| ());
    let mut scheduler = Synchronous::new(Reading::SamePhase);
    for _ in 0..4 * wait {
        scheduler.phase(&mut arena);
    }
    assert!(arena.is_binomial_graph());
    arena.forget_received();
    // Jitter shortens all waits of a process by a share of its own, at most half. So in 64 times
    // the longest wait every process has fired 64 to 128 times.
    for _ in 0..64 * wait {
        scheduler.phase(&mut arena);
    }
    let counts = || arena.received().iter().map(|one| one.introductions);
    (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
}

#[test]
fn a_round_of_linear_forwarding_costs_2m_and_a_literal_one_about_n() {
    let (low, high) = introductions_per_round(Forwarding::Linear, 64);
    let per_round = 2 * m(64) as u32;
    assert!(
        low >= 63 * per_round && high <= 129 * per_round,
        "{low}..{high}"
    );
    let (low, _) = introductions_per_round(Forwarding::Literal, 64);
    assert!(low >= 63 * (64 - 2), "{low}");
}

#[test]
fn one_repetition_of_rule_1_costs_2m_and_literally_about_n() {
    for (forwarding, expected) in [
        (Forwarding::Linear, 2 * m(256) as u32),
        (Forwarding::Literal, 256 - 2),
    ] {
        let rules = Rules {
            forwarding,
            ..Rules::default()
        };
        let tree = Tree::new(TreeShape::Binomial, 256, SEED);
        let mut arena = Arena::new(tree, rules, Repetition::UntilQuiet, |_| ());
        let mut scheduler = Asynchronous::new(Discipline::Channels, 256);
        let found = converge(&mut arena, &mut scheduler, 1000, |_, _| ());
        assert!(found.silent_phases.is_some(), "{found:?}");
        let repeated = repeat(&mut arena, &mut scheduler, 10_000, |_, _| ());
        let range = (repeated.introductions_min, repeated.introductions_max);
        assert_eq!(range, (expected, expected), "{forwarding:?}");
        assert!(repeated.phases >= Some(u64::from(expected)), "{repeated:?}");
        assert!(arena.is_binomial_graph());
    }
}

#[cfg(feature = "planted")]
#[test]
fn planted_bugs_go_red() {
    use binomesh_overlay::{Bug, Planted};
    for bug in [Bug::LevelBound, Bug::LostBConnect] {
        let rules = Rules {
            planted: Planted::new(bug),
            ..Rules::default()
        };
        let tree = Tree::new(TreeShape::Binomial, 16, SEED);
        let mut arena = Arena::new(tree, rules, Repetition::UntilQuiet, |_| ());
        let mut scheduler = Synchronous::new(Reading::SamePhase);
        let found = converge(&mut arena, &mut scheduler, 200, |_, _| ());
        let is_exact = arena.received().iter().all(|one| one.introductions == 6);
        assert!(
            found.silent_phases.is_none() || !is_exact,
            "{bug} stayed green"
        );
    }
}
