//! One disturbance of a formed cluster, and the cost of healing.

use binomesh_bench::command::heal::{Heal, Row};
use binomesh_bench::command::{Failure, Finding};
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    heal: Heal,
}

fn run(arguments: &str) -> Row {
    let line = ["heal"].into_iter().chain(arguments.split_whitespace());
    Line::try_parse_from(line).unwrap().heal.measure()
}

#[test]
fn a_death_within_the_grace_moves_no_rank_and_dials_few_links() {
    let row = run("--nodes 64 --victims 1 --seeds 8");
    assert_eq!((row.healed, row.seeds), (8, 8), "{row:?}");
    assert_eq!(row.relinked.ranks_moved_max, Some(0), "{row:?}");
    // Only the neighbours in ring and tree dial. A node has at most five children here.
    assert!(row.relinked.dialled_max <= Some(8), "{row:?}");
    let grace = f64::from(row.grace_seconds);
    assert!(row.exact.seconds_p50 > Some(grace), "{row:?}");
}

#[test]
fn half_of_all_die_at_once_and_the_others_are_a_graph_again() {
    let row = run("--nodes 100 --victims 50% --seeds 4");
    assert_eq!((row.healed, row.victims_max), (4, 50), "{row:?}");
    assert!(row.exact.ranks_moved_max > Some(0), "{row:?}");
}

#[test]
fn three_quarters_die_at_once_and_the_others_are_a_graph_again() {
    let row = run("--nodes 16 --victims 75% --seeds 8");
    assert_eq!((row.healed, row.victims_max), (8, 12), "{row:?}");
}

#[test]
fn one_and_all_are_scrambled_and_recover() {
    for victims in ["1", "100%"] {
        let row = run(&format!(
            "--fault scramble --victims {victims} --nodes 2..24 --seeds 23"
        ));
        assert_eq!(row.healed, 23, "{row:?}");
    }
}

#[test]
fn a_cluster_that_does_not_heal_in_time_is_reported() {
    let row = run("--nodes 16 --victims 1 --seeds 3 --limit-seconds 10");
    assert_eq!((row.healed, row.first_failing_seed), (0, Some(0)));
    assert_eq!(row.defect.as_deref(), Some("Vacant(1)"), "{row:?}");
    assert!(row.relinked.seconds_max < Some(10.0), "{row:?}");
}

#[test]
fn a_disturbance_that_leaves_nobody_is_refused() {
    let outcome = |arguments: &str| {
        let line = ["heal"].into_iter().chain(arguments.split_whitespace());
        Line::try_parse_from(line).unwrap().heal.run()
    };
    for nobody in [
        "--nodes 4 --victims 4",
        "--nodes 4..9 --victims 100%",
        "--nodes 4 --victims 5 --fault restart",
        "--nodes 1",
    ] {
        assert!(
            matches!(outcome(nobody), Err(Failure::Usage(_))),
            "{nobody}"
        );
    }
    let everybody = outcome("--nodes 4 --victims 4 --fault restart --seeds 1 --json");
    assert!(matches!(everybody, Ok(Finding::Good)));
}
