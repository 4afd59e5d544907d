//! A small run of `binomesh-bench peers --instructions`, which counts by valgrind. The test
//! says so if valgrind is not installed.

use std::io::Write;
use std::process::{Command, Output};

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_binomesh-bench");

fn run(line: &str, path: Option<&str>) -> Output {
    let mut command = Command::new(BENCH);
    command.args(line.split_whitespace());
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().expect("ended")
}

#[test]
fn instructions_are_counted_beside_those_of_the_tree() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        // The test passes, and output of `eprintln` would not be shown.
        let told = writeln!(std::io::stderr(), "skipped: valgrind is not installed");
        return told.expect("told");
    }
    let line = "peers --floor --instructions --nodes 4 --profile quiet --repeat 1 \
                --workload 1KiB --volume-mib 1 --timeout-seconds 300 --json";
    let output = run(line, None);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    let of = |system: &str, figure: &str| {
        let is_it = |row: &&Value| row["system"] == system && row["figure"] == figure;
        let row = rows.iter().find(is_it);
        row.unwrap_or_else(|| panic!("no {figure} of {system}: {errors}"))
    };
    for figure in [
        "instructions_per_delivery",
        "instructions_per_single_delivery",
    ] {
        let [tree, ours] = ["quinn-tree", "binomesh"].map(|system| of(system, figure));
        let count = |row: &Value| row["value"].as_f64().unwrap_or_default();
        // No delivery takes fewer instructions than 1e3. Forming a cluster takes far more than
        // 1e7, so it is not counted.
        assert!((1e3..1e7).contains(&count(tree)), "{tree}");
        assert!((1e3..1e7).contains(&count(ours)), "{ours}");
        assert_eq!(tree["ratio_to_tree"], 1.0, "{tree}");
        assert!(ours["ratio_to_tree"].is_number(), "{ours}");
        assert_eq!(ours["repeats"], 3, "{ours}");
    }
    for figure in [
        "counted_packets_per_delivery",
        "counted_packets_per_single_delivery",
    ] {
        assert!(of("quinn-tree", figure)["value"].as_f64() > Some(0.0));
    }
}

#[test]
fn without_valgrind_it_says_so_at_once() {
    let output = run("peers --instructions --nodes 4", Some("/nowhere"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("install the package valgrind"), "{errors}");
    assert!(output.stdout.is_empty());
}
