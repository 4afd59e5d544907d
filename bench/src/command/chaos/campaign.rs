//! Many scenarios, some at once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use binomesh_overlay::Planted;

use super::scenario::Scenario;
use super::trial::{self, Outcome};
use super::violation::Violation;
use crate::record;

/// Play a scenario; a panic in it is a violation like any other.
pub fn play(scenario: &Scenario, planted: Planted) -> Outcome {
    let played = catch_unwind(AssertUnwindSafe(|| trial::play(scenario, planted)));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        let text = text.unwrap_or_default();
        Outcome::failed(scenario.seed, Violation::Panicked { text })
    })
}

/// The outcomes of `count` scenarios, by their number, whichever thread played
/// them. If the first failure is enough, nothing that comes after it is kept.
pub fn outcomes(
    count: u64,
    threads: u8,
    until_failure: bool,
    planted: Planted,
    scenario: impl Fn(u64) -> Scenario + Sync,
) -> BTreeMap<u64, Outcome> {
    let (next, enough) = (AtomicU64::new(0), AtomicU64::new(count));
    let outcomes = Mutex::new(BTreeMap::new());
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= enough.load(Ordering::Relaxed) {
            break;
        }
        let outcome = play(&scenario(number), planted);
        let has_failed = !outcome.violations.is_empty();
        if has_failed && until_failure {
            enough.fetch_min(number + 1, Ordering::Relaxed);
        }
        let mut outcomes = outcomes.lock().unwrap_or_else(|poison| poison.into_inner());
        outcomes.insert(number, outcome);
        let is_bad = |outcome: &&Outcome| !outcome.violations.is_empty();
        let bad = outcomes.values().filter(is_bad).count();
        record::progress(format_args!(
            "{} of {count} seeds, {bad} failed",
            outcomes.len()
        ));
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut outcomes = outcomes
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner());
    outcomes.split_off(&enough.into_inner());
    outcomes
}
