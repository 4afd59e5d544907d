//! Exhaustive searches of the votes of collectives in small worlds, with and without a flaw.
//! `binomesh-bench check --layer collectives` searches further.

use binomesh_bench::checker::collectives::{Flaw, Setting, World};
use binomesh_bench::checker::search::{self, Found};

fn search(members: usize, [ballots, restarts, losses]: [u8; 3], flaw: Flaw) -> Found {
    let setting = Setting {
        members,
        ballots,
        restarts,
        losses,
        flaw,
    };
    search::search(World::new(setting, 1_000_000), 2)
}

#[test]
fn no_two_members_learn_different_decisions() {
    for (members, steps) in [
        (3, [3, 0, 0]),
        (3, [2, 1, 0]),
        (3, [2, 0, 1]),
        (4, [2, 0, 0]),
    ] {
        let found = search(members, steps, Flaw::None);
        assert_eq!(found.counterexample, None);
        assert!(
            found.is_exhaustive,
            "{members} members, {steps:?}: {found:?}"
        );
    }
}

#[test]
fn each_flaw_makes_two_decisions() {
    for (steps, flaw) in [
        ([2, 1, 0], Flaw::NoRecord),
        ([2, 1, 1], Flaw::NewRecord),
        ([2, 0, 1], Flaw::NotIntroduced),
        ([2, 0, 0], Flaw::OwnValue),
    ] {
        let found = search(3, steps, flaw);
        assert!(found.counterexample.is_some(), "{flaw:?}: {found:?}");
    }
}
