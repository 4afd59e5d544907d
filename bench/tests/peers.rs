//! `binomesh-bench peers`, in small.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_binomesh-bench");

#[test]
fn each_figure_of_each_system_is_a_row_with_its_ratio_to_the_tree() {
    let line = "peers --floor --nodes 4 --repeat 2 --workload 1KiB,100KiB --volume-mib 2 --json";
    let output = Command::new(BENCH)
        .args(line.split_whitespace())
        .output()
        .expect("ended");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    let mut seen = BTreeSet::new();
    for row in &rows {
        assert_eq!((&row["nodes"], &row["repeats"]), (&4.into(), &2.into()));
        let value = row["value"].as_f64().expect("a number");
        assert!(value > 0.0, "{row}");
        let ratio = row["ratio_to_tree"].as_f64().expect("a ratio");
        assert!(row["system"] != "quinn-tree" || ratio == 1.0, "{row}");
        let name = |field: &str| row[field].as_str().expect("a name").to_owned();
        seen.insert((name("system"), name("workload"), name("figure")));
    }
    // Two of formation, eight of each workload.
    assert_eq!((rows.len(), seen.len()), (54, 54));
    let wire = rows
        .iter()
        .filter(|row| row["figure"] == "wire_bytes_per_payload_byte");
    for row in wire {
        let value = row["value"].as_f64().unwrap_or_default();
        assert!(value > 1.0, "what is delivered was sent: {row}");
    }
}
