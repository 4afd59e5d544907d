//! A campaign plays many scenarios, several at once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::scenario::Scenario;
use super::trial::{self, Outcome, Play};
use super::violation::Violation;
use crate::{parallel, record};

/// The most progress lines that a campaign prints in all if standard error is no terminal. Failures
/// have further lines.
const MILESTONES: u64 = 10;

/// Play a scenario. A panic in it is a violation like any other.
pub fn play(scenario: &Scenario, how: Play) -> Outcome {
    let played = catch_unwind(AssertUnwindSafe(|| trial::play(scenario, how)));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        let text = text.unwrap_or_default();
        Outcome::failed(scenario, Violation::Panicked { text })
    })
}

/// The outcomes of `count` scenarios, by number, whichever thread plays them. If the first failure
/// is enough, no outcome after it is kept.
pub fn outcomes(
    count: u64,
    threads: u8,
    until_failure: bool,
    how: Play,
    scenario: impl Fn(u64) -> Scenario + Sync,
) -> BTreeMap<u64, Outcome> {
    let is_bad = |outcome: &Outcome| !outcome.violations.is_empty();
    parallel::map(
        count,
        threads,
        |number| {
            let outcome = play(&scenario(number), how);
            if let Some(violation) = outcome.violations.first() {
                record::milestone(format_args!("seed {} failed: {violation}", outcome.seed));
            }
            outcome
        },
        |outcome| until_failure && is_bad(outcome),
        |outcomes| {
            let bad = outcomes.values().filter(|outcome| is_bad(outcome)).count();
            let done = outcomes.len() as u64;
            let line = format_args!("{done} of {count} seeds, {bad} failed");
            record::progress(line);
            if count > 1 && done * MILESTONES / count != (done - 1) * MILESTONES / count {
                record::milestone(line);
            }
        },
    )
}
