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

/// The reason with which a line is refused.
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
            "leave out the blocks",
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
        ("--graph file:/ --collective aab", "/", "regular file"),
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

#[test]
fn options_that_a_verification_would_ignore_are_refused() {
    for option in [
        "--model wormhole",
        "--ports one",
        "--excess 1",
        "--blocks 2",
        "--seconds 1",
        "--method tabu",
    ] {
        let line = format!("schedule --verify file.json {option}");
        let error = Line::try_parse_from(line.split_whitespace()).unwrap_err();
        assert_eq!(
            error.kind(),
            clap::error::ErrorKind::ArgumentConflict,
            "{option}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_search() {
    let directory = tempfile::tempdir().unwrap();
    let there = directory.path().join("there.json");
    std::fs::write(&there, "old").unwrap();
    for option in ["--out", "--picture"] {
        let line = format!("--graph star:5 --collective aab {option}");
        // The graph does not exist, so an error about the file comes from a check before the
        // search.
        let refused = |file: &str| match arguments(&format!("{line} {file}")).run() {
            Err(Failure::Usage(reason)) => reason,
            other => panic!("{option} {file}: {other:?}"),
        };
        assert!(
            refused("/nowhere/file").contains("can be written"),
            "{option}"
        );
        assert!(refused(&there.display().to_string()).contains("star:5"));
        let new = directory.path().join("new");
        assert!(refused(&new.display().to_string()).contains("star:5"));
        assert!(!new.exists());
    }
    assert_eq!(std::fs::read_to_string(there).unwrap(), "old");
}

#[test]
fn a_graph_may_have_another_name_when_a_schedule_is_verified() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(file("graph"), "0 1\n1 2\n").unwrap();
    for (name, other) in [
        ("mesh:02x2".to_owned(), "mesh:2x02".to_owned()),
        (
            format!("file:{}", file("graph")),
            format!("file:{}", file("./graph")),
        ),
    ] {
        let line = format!("--graph {name} --collective aab --out {}", file("aab.json"));
        arguments(&line).run().unwrap();
        let line = format!("--graph {other} --verify {}", file("aab.json"));
        assert_eq!(arguments(&line).run().unwrap(), Finding::Good, "{line}");
    }
}

/// Whether the tags of an SVG document are closed in the right order.
fn is_well_formed(svg: &str) -> bool {
    let mut open = Vec::new();
    for piece in svg.split('<').skip(1) {
        let Some((tag, text)) = piece.split_once('>') else {
            return false;
        };
        let name = tag.trim_start_matches('/').split_whitespace().next();
        let is_closed = match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => open.pop() == name,
            (false, true) => true,
            (false, false) => {
                open.push(name.unwrap_or_default());
                true
            }
        };
        if !is_closed || text.contains('>') || tag.matches('"').count() % 2 != 0 {
            return false;
        }
    }
    open.is_empty()
}

#[test]
fn a_picture_has_a_panel_per_step() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (picture, out) = (file("a.svg"), file("a.json"));
    for graph in [
        "mesh:3x3 --fault node:11",
        "kautz:2,2 --fault link:01-10",
        "sibling:2,7",
    ] {
        let line = format!("--graph {graph} --collective aab --seconds 2 --out {out}");
        arguments(&format!("{line} --picture {picture}"))
            .run()
            .unwrap();
        let drawn = std::fs::read_to_string(&picture).unwrap();
        assert!(is_well_formed(&drawn), "{drawn}");
        let schedule = std::fs::read_to_string(&out).unwrap();
        let schedule: binomesh_routing::schedule::Schedule =
            serde_json::from_str(&schedule).unwrap();
        let panels = drawn
            .lines()
            .filter(|line| line.starts_with("step "))
            .count();
        assert_eq!(panels, schedule.steps as usize, "{graph}");
        let arrows = drawn.matches("<polygon").count();
        assert_eq!(arrows, schedule.moves.len(), "{graph}");
        arguments(&format!("--verify {out} --picture {picture}"))
            .run()
            .unwrap();
        let again = std::fs::read_to_string(&picture).unwrap();
        assert_eq!(again.matches("<polygon").count(), arrows);
    }
}

#[test]
fn the_arrows_of_a_gather_have_the_colours_of_their_origins() {
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("a.svg");
    let line = "--graph ring:5 --collective aog --source 0 --model store-forward --picture";
    arguments(&format!("{line} {}", picture.display()))
        .run()
        .unwrap();
    let drawn = std::fs::read_to_string(&picture).unwrap();
    let arrows = drawn.split("<polygon").skip(1);
    let colours: std::collections::BTreeSet<&str> = arrows
        .filter_map(|arrow| arrow.split("fill=\"").nth(1)?.split('"').next())
        .collect();
    assert_eq!(colours.len(), 4, "{colours:?}");
}
