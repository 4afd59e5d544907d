//! Single wrong variables and single garbage messages, one at a time, in a quiet legitimate system
//! of 15.

use binomesh_bench::arena::single_fault::Quiet;
use binomesh_bench::arena::tree::{Randomness, Tree, TreeShape};
use binomesh_overlay::Planted;
use binomesh_overlay::backoff::BackoffLimits;
use binomesh_overlay::fingers::Rules;

fn quiet(shape: TreeShape, planted: Planted) -> Quiet {
    let randomness = Randomness {
        seed: 1,
        depth: 5,
        degree: 4,
    };
    let rules = Rules {
        planted,
        ..Rules::default()
    };
    let tree = Tree::new(shape, 15, randomness);
    Quiet::on(tree, rules, BackoffLimits::default()).expect("a clean start is legitimate")
}

/// The step between the faults that are tried. An optimised build tries all faults, and the
/// slow development build tries one in 20.
const STEP: usize = if cfg!(debug_assertions) { 20 } else { 1 };

fn all_recover(shape: TreeShape) {
    let quiet = quiet(shape, Planted::NONE);
    let faults = quiet.faults();
    // 15 · (16 values of 2 neighbours and 8 fingers, 25 back-offs), and in each of
    // 210 channels 2 + 2 · 15 letters of the ring, 5 · (2 · 15 + 8) of fingers.
    assert_eq!(faults.len(), 15 * (16 * 10 + 25) + 210 * 222);
    let phases = faults.iter().step_by(STEP).map(|&fault| {
        let found = quiet.recovery(fault, 512);
        found.unwrap_or_else(|| panic!("{shape:?}: no recovery from {fault:?}"))
    });
    let most = phases.max().unwrap_or(0);
    assert!(most > 64, "the back-offs had not grown: {most}");
    // One wait passes until the fault is seen. Further waits follow where the change wakes no
    // other node.
    assert!(most <= 3 * 128, "{shape:?}: {most} phases");
}

#[test]
fn every_single_fault_of_a_quiet_binomial_tree_of_15_recovers() {
    all_recover(TreeShape::Binomial);
}

#[test]
fn every_single_fault_of_a_quiet_binary_tree_of_15_recovers() {
    all_recover(TreeShape::Binary);
}

#[test]
#[cfg(feature = "planted")]
fn planted_missing_refresh_never_finds_a_single_fault() {
    use binomesh_overlay::Bug;
    let quiet = quiet(TreeShape::Binary, Planted::new(Bug::MissingRefresh));
    let is_lasting = |fault: &_| quiet.recovery(*fault, 512).is_none();
    assert!(quiet.faults().iter().take(100).any(is_lasting));
}
