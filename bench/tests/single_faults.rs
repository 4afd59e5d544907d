//! A quiet legitimate system of 15, in which everybody waits as long as it ever does: every
//! single wrong variable and every single message that nobody should have sent.

use binomesh_bench::arena::single_fault::{Fault, Quiet};
use binomesh_bench::arena::tree::{Randomness, Shape, Tree};
use binomesh_overlay::backoff::Limits;
use binomesh_overlay::fingers::{Forwarding, Rules};

const LIMITS: Limits = Limits {
    minimum: 1,
    maximum: 128,
};
/// One capped back-off for each of the three levels, as what is wrong at one may be told
/// at the next before it is put right, and what a clean start takes.
const LONGEST: u64 = 3 * LIMITS.maximum as u64 + 12;
/// In the development build one fault in so many.
const STEP: usize = if cfg!(debug_assertions) { 37 } else { 1 };

fn quiet(shape: Shape, rules: Rules) -> Quiet {
    let randomness = Randomness {
        seed: 1,
        depth: 4,
        degree: 4,
    };
    Quiet::on(Tree::new(shape, 15, randomness), rules, LIMITS).expect("it stands")
}

const RULES: Rules = Rules {
    forwarding: Forwarding::Linear,
    planted: binomesh_overlay::Planted::NONE,
};

#[test]
fn every_single_fault_of_a_quiet_system_of_15_is_mended() {
    for shape in [Shape::Binary, Shape::Binomial] {
        let quiet = quiet(shape, RULES);
        let faults = quiet.faults();
        let letters = faults
            .iter()
            .filter(|fault| matches!(fault, Fault::Letter(_)));
        let (letters, variables) = (letters.count(), faults.len());
        // Of 15 processes: ring and three levels each way, 16 values each, and 25 timers;
        // of 210 pairs, 2 + 30 letters of the ring, and 38 per level.
        assert!(letters >= 210 * 32 && variables - letters >= 15 * 8 * 16);
        let mut slowest = 0;
        for fault in faults.into_iter().step_by(STEP) {
            let phases = quiet.recovery(fault, LONGEST);
            slowest = slowest.max(phases.unwrap_or_else(|| panic!("{shape:?}: {fault:?} stays")));
        }
        println!("{shape:?}: {letters} letters of {variables} faults, {slowest} phases at most");
    }
}

#[cfg(feature = "planted")]
#[test]
fn missing_refresh_goes_red_in_a_quiet_system() {
    use binomesh_overlay::{Bug, Planted};
    let rules = Rules {
        planted: Planted::new(Bug::MissingRefresh),
        ..RULES
    };
    let quiet = quiet(Shape::Binary, rules);
    let mut faults = quiet.faults().into_iter();
    assert!(faults.any(|fault| quiet.recovery(fault, LONGEST).is_none()));
}
