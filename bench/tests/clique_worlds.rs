//! Exhaustive searches of small fully connected systems, and runs of larger ones.
//! `binomesh-bench check --layer clique` searches further.

use binomesh_bench::arena::clique::{Found, Trial};
use binomesh_bench::checker::clique::{Faults, World};
use binomesh_bench::checker::search;
use binomesh_overlay::clique::Procedure;

fn search(nodes: usize, procedure: Procedure, faults: Faults) {
    let found = search::search(World::new(nodes, procedure, faults, 200_000), 2);
    assert_eq!(found.counterexample, None);
    // Three nodes that fall back from sorted lists after a fault have more states than a test
    // may take.
    let is_large = nodes == 3 && procedure == Procedure::Sorted && faults == Faults::One;
    assert!(
        found.is_exhaustive || is_large,
        "{nodes} nodes, {procedure:?}: {found:?}"
    );
}

#[test]
fn three_nodes_agree_in_every_order_and_none_waits_for_ever_after_any_single_fault() {
    for procedure in [Procedure::Corrected, Procedure::Sorted] {
        for nodes in [2, 3] {
            search(nodes, procedure, Faults::None);
            search(nodes, procedure, Faults::One);
        }
    }
}

#[test]
fn four_nodes_agree_in_every_order() {
    for procedure in [Procedure::Corrected, Procedure::Sorted] {
        search(4, procedure, Faults::None);
    }
}

fn run(nodes: usize, procedure: Procedure, seed: u64) -> Found {
    let trial = Trial {
        nodes,
        procedure,
        seed,
        phase_limit: 1_000_000,
    };
    trial.run()
}

#[test]
fn corrected_and_sorted_end_exactly_at_every_size() {
    for nodes in 1..=64 {
        for seed in 0..10 {
            for procedure in [Procedure::Corrected, Procedure::Sorted] {
                let found = run(nodes, procedure, seed);
                assert!(
                    found.is_exact,
                    "{nodes} nodes, {procedure:?}, seed {seed}: {found:?}"
                );
            }
        }
    }
}

/// [FC] promises a ring. At 8 nodes, a share of 0.27 to 0.30 of all runs ends with a ring.
#[test]
fn as_written_gives_one_ring_in_few_runs_and_gets_stuck_in_some() {
    let found: Vec<Found> = (0..4_000)
        .map(|seed| run(8, Procedure::AsWritten, seed))
        .collect();
    let share = |is: fn(&Found) -> bool| found.iter().filter(|one| is(one)).count() as f64 / 4e3;
    let rings = share(|one| one.ring_rounds.is_some());
    assert!((0.26..0.31).contains(&rings), "{rings}");
    assert!(share(|one| one.is_stuck) > 0.1);
    assert!(
        found
            .iter()
            .all(|one| !one.is_stuck || one.ring_rounds.is_none())
    );
}

/// [FC] steps 4 and 5 stop when a distance is repeated. The number of turns is right then at 10
/// of the sizes 2 to 64.
#[test]
fn the_end_condition_as_written_is_right_at_few_sizes() {
    let is_right = |nodes: &usize| {
        let mut runs = (0..2_000).map(|seed| run(*nodes, Procedure::AsWritten, seed));
        runs.find(|one| one.ring_rounds.is_some())
            .is_some_and(|one| one.is_exact)
    };
    let right: Vec<usize> = (2..=64).filter(is_right).collect();
    assert_eq!(right, [7, 14, 15, 28, 30, 31, 56, 60, 62, 63]);
}
