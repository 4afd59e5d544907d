//! Small runs of `binomesh-bench peers`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_binomesh-bench");

/// The rows that this command prints.
fn rows(line: &str) -> Vec<Value> {
    let output = Command::new(BENCH)
        .args(line.split_whitespace())
        .output()
        .expect("ended");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect()
}

#[test]
fn each_figure_of_each_system_is_a_row_with_its_ratio_to_the_tree() {
    let line = "peers --floor --nodes 4 --repeat 2 --workload 1KiB,400KiB --volume-mib 2 --file-mib 4 --json";
    let rows = rows(line);
    let mut seen = BTreeSet::new();
    for row in &rows {
        // Each repeat forms a cluster for each of two sizes and for the file.
        let repeats = if row["workload"] == "formation" { 6 } else { 2 };
        assert_eq!(
            (&row["nodes"], &row["repeats"]),
            (&4.into(), &repeats.into())
        );
        assert_eq!(row["queued"], false, "{row}");
        let value = row["value"].as_f64().expect("a number");
        assert!(value > 0.0 || row["figure"] == "rss_kib_per_node", "{row}");
        let is_ours_alone = row["workload"] == "4MiB-push-to-disk";
        let is_memory = row["figure"] == "rss_kib_per_node";
        let ratio = row["ratio_to_tree"].as_f64();
        assert!(
            row["system"] != "quinn-tree" || is_memory || ratio == Some(1.0),
            "{row}"
        );
        assert_eq!(ratio.is_none(), is_ours_alone || is_memory, "{row}");
        let bounds = [&row["ratio_min"], &row["ratio_max"]].map(Value::as_f64);
        assert!(
            ratio.is_none() || bounds[0] <= ratio && ratio <= bounds[1],
            "{row}"
        );
        let name = |field: &str| row[field].as_str().expect("a name").to_owned();
        seen.insert((name("system"), name("workload"), name("figure")));
    }
    // For each of three systems: four figures of formation, nine of each of two workloads, and
    // three of a file in each of two ways. One system also pushes to disk.
    assert_eq!((rows.len(), seen.len()), (3 * (4 + 18 + 6) + 3, 87));
    let wire = rows
        .iter()
        .filter(|row| row["figure"] == "wire_bytes_per_payload_byte");
    for row in wire {
        let value = row["value"].as_f64().unwrap_or_default();
        assert!(value > 1.0, "what is delivered was sent: {row}");
    }
}

#[test]
fn receivers_can_be_subscribers() {
    let line = "peers --nodes 4 --repeat 1 --workload 1KiB --volume-mib 1 --queued --json";
    let rows = rows(line);
    assert!(rows.iter().any(|row| row["figure"] == "latency_p50_ms"));
    assert!(rows.iter().all(|row| row["queued"] == true));
}

#[test]
fn each_node_can_have_a_process_of_its_own() {
    let line = "peers --processes --nodes 3 --rounds 2 --workload 1KiB --seconds 0.2 \
                --idle-seconds 1 --json";
    let rows = rows(line);
    let mut seen = BTreeSet::new();
    for row in &rows {
        assert_eq!((&row["nodes"], &row["repeats"]), (&3.into(), &2.into()));
        let bounds = [&row["ratio_min"], &row["ratio_max"]].map(Value::as_f64);
        let quartiles = [0, 1].map(|end| row["ratio_quartiles"][end].as_f64());
        assert!(row["value"].as_f64() > Some(0.0), "{row}");
        assert!(bounds[0].is_some() && bounds[0] <= quartiles[0], "{row}");
        assert!(quartiles[1] <= bounds[1], "{row}");
        let name = |field: &str| row[field].as_str().expect("a name").to_owned();
        seen.insert((name("system"), name("workload"), name("figure")));
    }
    // Five figures of the workload and two of idle nodes, of three systems.
    assert_eq!((rows.len(), seen.len()), (21, 21));
}
