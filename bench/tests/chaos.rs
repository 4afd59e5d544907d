//! Whole peers under faults: the judge is green, and sees planted bugs.

use binomesh_bench::command::chaos::{Chaos, Row};
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    chaos: Chaos,
}

fn run(arguments: &[&str]) -> Row {
    let line = ["chaos"].iter().chain(arguments);
    let line = Line::try_parse_from(line).unwrap();
    line.chaos.measure().0
}

#[test]
fn a_few_seeds_break_no_promise() {
    let row = run(&["--seeds", "6", "--nodes", "12", "--minutes", "1"]);
    assert_eq!(row.failures, 0, "{row:?}");
    assert!(row.faults > 100 && row.deliveries > 1000, "{row:?}");
}

#[test]
fn a_seed_replays_whatever_runs_beside_it() {
    let alone = run(&["--seeds", "1", "--first-seed", "3", "--minutes", "0.5"]);
    let beside = run(&["--seeds", "3", "--first-seed", "2", "--minutes", "0.5"]);
    let twice = run(&["--seeds", "3", "--first-seed", "2", "--minutes", "0.5"]);
    let figures = |row: &Row| (row.faults, row.broadcasts, row.deliveries);
    assert_eq!(figures(&beside), figures(&twice));
    assert!(figures(&alone) < figures(&beside));
    let again = run(&["--seeds", "1", "--first-seed", "3", "--minutes", "0.5"]);
    assert_eq!(figures(&alone), figures(&again));
}

#[cfg(feature = "planted")]
mod planted {
    use super::*;
    use binomesh_overlay::Bug;

    /// Rule 4's guard is not among them: without strangers and forged messages
    /// nobody but a child sends an Info that could pass it.
    #[test]
    fn bugs_go_red() {
        for bug in [
            Bug::DropDuplicateDuty,
            Bug::DoneBeforeCustody,
            Bug::LostBConnect,
            Bug::MissingRefresh,
            Bug::LevelBound,
        ] {
            let row = run(&[
                "--seeds",
                "8",
                "--heal-seconds",
                "60",
                "--planted",
                bug.name(),
            ]);
            assert!(row.failures > 0, "{bug} stayed green");
        }
    }
}
