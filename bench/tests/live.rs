//! Small runs of `binomesh-bench live`, with real processes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_binomesh-bench");
/// Long enough for a loaded machine. A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// One cluster runs at a time: clusters compete for the processor, and deaths are noticed by
/// the clock.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let nodes = Path::new(BENCH).with_file_name("binomesh");
    assert!(
        nodes.is_file(),
        "no {}: build the workspace, or `cargo build -p binomesh`",
        nodes.display()
    );
    ALONE.lock().unwrap_or_else(|poison| poison.into_inner())
}

fn start(line: &str) -> Child {
    let mut command = Command::new(BENCH);
    command
        .arg("live")
        .args(line.split_whitespace())
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("started")
}

fn rows(line: &str) -> (ExitStatus, Vec<Value>) {
    let output = start(line).wait_with_output().expect("ended");
    let text = String::from_utf8(output.stdout).expect("text");
    let rows: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    let rows = rows.unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(!rows.is_empty(), "{line}: {errors}");
    (output.status, rows)
}

#[test]
fn messages_sent_while_some_nodes_are_silent_reach_all_others_once() {
    let _alone = alone();
    // No delivery takes only a microsecond, so the run must fail by that limit. The counts must
    // be right all the same.
    let line = "cut --nodes 8 --cut 2 --seconds 2 --first-milliseconds 0.001";
    let (status, found) = rows(line);
    let [row] = found.as_slice() else {
        panic!("{found:?}");
    };
    let counts = [
        "cut",
        "broadcasts",
        "due",
        "undelivered",
        "duplicates",
        "refused",
    ];
    let counts = counts.map(|name| row[name].as_u64());
    assert_eq!(counts, [2, 20, 100, 0, 0, 0].map(Some), "{row}");
    assert!(row["first_milliseconds"].as_f64() > Some(0.001), "{row}");
    assert!(!status.success() && row["ok"] == false, "{row}");
    let line = "cut --nodes 6 --cut 1 --seconds 1 --first-milliseconds 60000";
    let (status, found) = rows(line);
    assert!(status.success() && found[0]["ok"] == true, "{found:?}");
}

#[test]
fn the_dead_are_avoided_and_the_graph_closes_over_the_living() {
    let _alone = alone();
    let line = "kill --nodes 8 --kill 1,30% --repeat 1 --profile fast --seed 3";
    let limits = " --avoid-seconds 60 --relink-seconds 60 --graph-seconds 60";
    let (status, found) = rows(&format!("{line}{limits}"));
    assert!(status.success(), "{found:?}");
    let [one, summary, three, _] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (&one["row"], &summary["row"]),
        (&"run".into(), &"summary".into())
    );
    assert_eq!((&one["killed"], &three["killed"]), (&1.into(), &3.into()));
    assert_eq!(three["killed_names"].as_array().map(Vec::len), Some(3));
    let seconds = |name: &str| summary[name].as_f64().expect("a figure");
    // A death is seen after one beat of silence at the earliest.
    assert!(seconds("avoided_seconds_max") > 0.1, "{summary}");
    assert!(seconds("relinked_seconds_max") <= seconds("graph_seconds_max"));

    let (status, found) = rows(&format!("{line} --kill 1 --relink-seconds 0.001"));
    assert_eq!(status.code(), Some(1), "{found:?}");
}

#[test]
fn a_pause_is_nothing_or_one_leave_and_one_return() {
    let _alone = alone();
    let (status, found) = rows("pause --nodes 6 --profile fast --seed 2");
    assert!(status.success(), "{found:?}");
    let [short, long] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (&short["length"], &long["length"]),
        (&"half".into(), &"five_times".into())
    );
    assert_eq!(short["epochs_distinct"], 0);
    assert_eq!(
        (&long["leaves_max"], &long["returns_max"]),
        (&1.into(), &1.into())
    );

    // The detection time is given as ten times too long, so half of it is no short pause.
    let wrong = "pause --nodes 6 --profile fast --seed 2 --detection-seconds 3";
    let (status, found) = rows(wrong);
    assert_eq!(status.code(), Some(1), "{found:?}");
    assert_ne!(found[0]["leaves_max"], 0);
}

#[test]
fn a_stopped_or_unread_node_harms_no_other_and_gets_what_receipts_promise() {
    let _alone = alone();
    let (status, found) = rows("stall --nodes 5 --volume-mib 24 --message-kib 64 --times 1000");
    assert!(status.success(), "{found:?}");
    let [undisturbed, paused, slow, unread] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(undisturbed["times_undisturbed"], Value::Null);
    assert!(unread["times_undisturbed"].is_number(), "{unread}");
    for row in &found {
        assert_eq!(row["broadcasts"], 384);
        for none in ["lacking", "duplicates", "broken"] {
            assert_eq!(row[none], 0, "{row}");
        }
    }
    // The pauses of the slow node are shorter than any detection.
    assert_eq!(slow["promised"], 384);
    assert_eq!(undisturbed["promised"], 384);
    // The paused node stood still, and was a member before and afterwards.
    let promised = paused["promised"].as_u64().unwrap();
    assert!((1..384).contains(&promised), "{paused}");
    assert_eq!(paused["kept_delivered"], 16);
    // 24 MiB are more than a subscriber's buffer, and each message is accounted for.
    assert_eq!(unread["promised"], 384);
    assert_ne!(unread["missed"], 0);

    // No node can do with so little memory.
    let (status, _) = rows("stall --nodes 4 --how unread --volume-mib 1 --memory-mib 1");
    assert_eq!(status.code(), Some(1));
}

/// The processes whose parent is `pid`.
fn children(pid: u32) -> BTreeSet<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |child: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1));
        parent == Some(&pid.to_string())
    };
    pids.filter(is_child).collect()
}

#[expect(clippy::disallowed_methods, reason = "patience is wall time")]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_is_left_when_it_is_interrupted() {
    let _alone = alone();
    let bench = start("saturate --nodes 3 --busy 1 --minutes 100");
    let pid = bench.id();
    // Three nodes, a busy process, and the process that removes their folder.
    until("all processes run", || children(pid).len() == 5);
    let processes = children(pid);
    let interrupted = Command::new("kill")
        .args(["-s", "INT", &pid.to_string()])
        .status();
    assert!(interrupted.expect("kill runs").success());
    let output = bench.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stopped by a signal"));
    until("all processes are gone", || {
        let runs = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
        !processes.iter().any(runs)
    });
}

#[test]
fn impossible_arguments_are_usage_errors() {
    for line in [
        "kill --kill 0",
        "kill --kill 100%",
        "partition --nodes 254",
        "idle --minutes 0",
    ] {
        let output = start(line).wait_with_output().expect("ended");
        assert_eq!(output.status.code(), Some(2), "{line}");
    }
    let output = start("kill --binary /nowhere --repeat 1").wait_with_output();
    let output = output.expect("ended");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("/nowhere"),
        "{output:?}"
    );
}
