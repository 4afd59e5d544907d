//! The examples are short, and each prints the line that shows its result.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::output_of;

/// Every example has fewer lines than this.
const MOST_LINES: usize = 100;

/// Each example but one, and a text that its output contains.
const EXAMPLES: [(&str, &str); 7] = [
    ("ask_collect", "without an answer: []"),
    ("barrier", "node-2: 3 have come"),
    ("first_cluster", "reached: [\"b\", \"c\"]"),
    ("ordered_log", "20 entries, in order"),
    ("publish_subscribe", "2 of 2 have it"),
    ("push_receive", "1048576 bytes are everywhere"),
    ("simulated", "members delivered it"),
];

/// This example needs the program `binomesh` for its cluster, so a cluster test runs the example.
const ELSEWHERE: &str = "custom_router";

#[test]
fn each_example_prints_what_it_shows() {
    let program = Path::new(env!("CARGO_BIN_EXE_binomesh"));
    let folder = program.with_file_name("examples");
    for (name, line) in EXAMPLES {
        let example = folder.join(name);
        assert!(
            example.exists(),
            "first: cargo build -p binomesh --examples"
        );
        let output = output_of(Command::new(example));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(text.contains(line), "{name}: {text}");
    }
}

#[test]
fn each_example_is_short_and_has_a_test() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        seen += 1;
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let is_tested = EXAMPLES.iter().any(|(tested, _)| *tested == name) || name == ELSEWHERE;
        assert!(is_tested, "{name} has no test");
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < MOST_LINES, "{name} has {lines} lines");
    }
    assert_eq!(seen, EXAMPLES.len() + 1);
}
