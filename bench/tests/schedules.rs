//! `binomesh-bench schedule` finds, writes and verifies schedules.

use std::path::Path;

use binomesh_bench::command::schedule::{Row, ScheduleArguments};
use binomesh_bench::command::{Failure, Finding};
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    schedule: ScheduleArguments,
}

fn arguments(line: &str) -> ScheduleArguments {
    let line = ["schedule"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(line).unwrap().schedule
}

fn run(line: &str) -> Row {
    arguments(line).measure().unwrap().0
}

/// The reason for which a line is refused.
fn refused(line: &str) -> String {
    match arguments(line).measure() {
        Err(Failure::Usage(reason)) => reason,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_paper_s_kautz_network_takes_as_few_steps_as_its_table_2_says() {
    for (line, steps) in [
        ("oab --source 01", 2),
        ("aab", 4),
        ("oas --source 01", 4),
        ("aas", 7),
        ("aog --source 01", 4),
    ] {
        let row = run(&format!(
            "--graph kautz:3,2 --collective {line} --seconds 20"
        ));
        assert!((row.steps, row.optimal) == (steps, true), "{row:?}");
    }
}

#[test]
fn a_schedule_that_is_written_passes_and_one_that_is_changed_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("schedule.json");
    let (file, name) = (file.as_path(), file.display());
    let line = "--graph kautz:3,2 --collective aab --fault link:01-10 --seconds 20";
    let finding = arguments(&format!("{line} --out {name}")).run().unwrap();
    assert_eq!(finding, Finding::Good);
    let verify = |file: &Path| arguments(&format!("--verify {}", file.display()));
    assert_eq!(verify(file).run().unwrap(), Finding::Good);
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, text.replacen("[[1,", "[[2,", 1)).unwrap();
    assert_eq!(verify(file).run().unwrap(), Finding::Bad);
    assert!(verify(file).verdict(file).unwrap().defect.is_some());
}

#[test]
fn a_graph_may_come_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("graph.txt");
    std::fs::write(&file, "a b\nb c\nc d\nd a\n").unwrap();
    let graph = format!("--graph file:{}", file.display());
    let row = run(&format!("{graph} --collective oab --source a"));
    assert_eq!((row.steps, row.lower_bound), (2, 2), "{row:?}");
    assert!(refused(&format!("{graph} --collective oab --source e")).contains("\"e\""));
}

#[test]
fn errors_name_the_value_and_the_remedy() {
    for (line, value, remedy) in [
        ("--graph star:5 --collective aab", "star:5", "kautz:D,K"),
        ("--graph ring:5 --collective oab", "oab", "source"),
        (
            "--graph ring:5 --collective aab --fault link:0-2",
            "link:0-2",
            "link:0-1",
        ),
        (
            "--graph ring:5 --collective aab --blocks 2",
            "aab",
            "leave the blocks",
        ),
        (
            "--graph ring:5 --collective aab --senders 0,9",
            "\"9\"",
            "names such as",
        ),
        (
            "--graph file:/nowhere --collective aab",
            "/nowhere",
            "can be read",
        ),
        (
            "--graph ring:5 --collective aab --start /nowhere",
            "/nowhere",
            "can be read",
        ),
    ] {
        let reason = refused(line);
        assert!(
            reason.contains(value) && reason.contains(remedy),
            "{line}: {reason}"
        );
    }
}
