//! The smallest run of `binomesh-bench figures`, in a folder of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The rows of the run, and its folder.
fn figures() -> (Vec<Value>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_binomesh-bench"))
        .args(["figures", "--quick", "--nodes-max", "64", "--seed", "5"])
        .args(["--json", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("100 %"), "no progress: {errors}");
    let rows = output.stdout.split(|byte| *byte == b'\n');
    let rows = rows.filter(|row| !row.is_empty());
    let rows = rows.map(|row| serde_json::from_slice(row).unwrap());
    (rows.collect(), folder)
}

#[test]
fn every_figure_and_every_row_is_there() {
    let (rows, folder) = figures();
    every_figure_is_in_one_page_that_needs_nothing_else(&rows, folder.path());
    every_row_is_there_with_the_command_that_printed_it(folder.path());
}

fn every_figure_is_in_one_page_that_needs_nothing_else(rows: &[Value], folder: &Path) {
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    let keys: Vec<&str> = rows
        .iter()
        .map(|row| row["figure"].as_str().unwrap())
        .collect();
    let papers = [
        "bmg09-2a", "bmg09-2b", "bmg09-3", "bmg09-4a", "bmg09-4b", "sft06-2a", "sft06-2b",
    ];
    assert!(papers.iter().all(|key| keys.contains(key)), "{keys:?}");
    let mut images = 0;
    for row in rows {
        assert!(page.contains(&format!("id=\"{}\"", row["figure"].as_str().unwrap())));
        for file in row["files"].as_array().unwrap() {
            let image = fs::read_to_string(file.as_str().unwrap()).unwrap();
            assert!(
                image.starts_with("<svg") && image.contains("viewBox"),
                "{file}"
            );
            assert!(
                image.matches("<polyline").count() > 1,
                "{file} shows nothing"
            );
            images += 1;
        }
        for claim in row["claims"].as_array().unwrap() {
            let verdict = claim["verdict"].as_str().unwrap();
            let sentence = claim["sentence"].as_str().unwrap().to_lowercase();
            assert!(sentence.starts_with(verdict), "{claim}");
            assert!(!sentence.contains("nan"), "a row is missing: {claim}");
        }
    }
    assert_eq!(page.matches("<svg").count(), images);
    for outside in [
        "http:", "https:", "//", "src=", "<link", "<script", "@import", "url(",
    ] {
        assert!(!page.contains(outside), "{outside} in the page");
    }
}

fn every_row_is_there_with_the_command_that_printed_it(folder: &Path) {
    let rows = fs::read_to_string(folder.join("rows.jsonl")).unwrap();
    let rows: Vec<Value> = rows
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    let commands: BTreeSet<&str> = rows
        .iter()
        .map(|row| row["command"].as_str().unwrap())
        .collect();
    assert_eq!(commands.len(), rows.len());
    // The command of one row prints the same row again, except for time and memory.
    let row = rows
        .iter()
        .find(|row| row["command"].as_str().unwrap().contains("random-levelled"))
        .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_binomesh-bench"))
        .args(row["command"].as_str().unwrap().split(' '))
        .arg("--json")
        .output()
        .unwrap();
    let again: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(again["seed"], 5);
    for (field, value) in row["row"].as_object().unwrap() {
        if !["wall_seconds", "peak_rss_bytes"].contains(&field.as_str()) {
            assert_eq!(&again[field], value, "{field}");
        }
    }
}

#[test]
fn impossible_arguments_are_named_with_their_remedy() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let run = |words: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_binomesh-bench"))
            .arg("figures")
            .args(words)
            .output();
        let output = command.unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (status, reason) = run(&["--quick", "--out", file.path().to_str().unwrap()]);
    assert_eq!(status, Some(1), "{reason}");
    assert!(reason.contains("give --out a folder"), "{reason}");
    let (status, reason) = run(&["--nodes-max", "3"]);
    assert_eq!(status, Some(2), "{reason}");
}

#[test]
fn a_full_output_is_named_and_a_closed_one_is_not() {
    let run = |output: Stdio| {
        let command = Command::new(env!("CARGO_BIN_EXE_binomesh-bench"))
            .args(["graph", "--nodes", "8", "--json"])
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn();
        let ended = command.unwrap().wait_with_output().unwrap();
        let reason = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status.code(), reason)
    };
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let (status, reason) = run(full.into());
    assert_eq!(status, Some(1), "{reason}");
    assert!(reason.contains("cannot write the output"), "{reason}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (status, reason) = run(writer.into());
    assert_eq!((status, reason.as_str()), (Some(1), ""));
}
