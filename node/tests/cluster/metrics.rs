//! The series that a live node shows at `/metrics`.

use std::collections::BTreeMap;

use binomesh::catalogue;
use binomesh_overlay::quic::registry::{Declared, Label};

use crate::bed::{self, formed, member, ran, stop};

/// The name and the labels of a line of a scrape.
fn series(line: &str) -> (&str, BTreeMap<&str, &str>) {
    let (series, _) = line.rsplit_once(' ').expect("a value");
    let Some((name, labels)) = series.split_once('{') else {
        return (series, BTreeMap::new());
    };
    let labels = labels.trim_end_matches('}').split("\",");
    let labels = labels.map(|label| label.split_once("=\"").expect("a label"));
    let labels = labels.map(|(name, value)| (name, value.trim_end_matches('"')));
    (name, labels.collect())
}

/// Describes the defect of a series in a scrape, if it has one.
fn undeclared(line: &str, declared: &BTreeMap<&str, &dyn Declared>) -> Option<String> {
    let (name, mut labels) = series(line);
    let stems = ["_bucket", "_sum", "_count"].map(|suffix| name.strip_suffix(suffix));
    let stem = stems
        .into_iter()
        .flatten()
        .find(|stem| declared.contains_key(stem));
    let stem = stem.unwrap_or(name);
    let Some(metric) = declared.get(stem) else {
        return Some(format!("{name} is not declared"));
    };
    if stem != name {
        labels.remove("le");
    }
    if labels.remove("node").is_none() {
        return Some(format!("{line}: not of a node"));
    }
    let known = metric.description().labels;
    let is_known = |label: &Label| {
        let value = labels.get(label.name);
        let mut values = label.values.iter();
        value
            .is_some_and(|value| label.values.is_empty() || values.any(|(known, _)| known == value))
    };
    let is_right = labels.len() == known.len() && known.iter().all(is_known);
    (!is_right).then(|| format!("{line}: the labels are not as declared"))
}

#[tokio::test]
async fn every_series_of_a_busy_node_is_declared_and_explained() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(4)).await;
    let dir = cluster.dir().display().to_string();
    for command in [
        &["broadcast", "--node", "node-1", "a word"][..],
        &["send", "--node", "node-0", "--to", "node-2", "a word"],
        &["push", "--node", "node-1", "-", "--name", "file"],
    ] {
        let output = ran(
            &[&command[..1], &["--cluster", &dir], &command[1..]].concat(),
            b"x",
        )
        .await;
        assert!(
            output.status.success() || output.status.code() == Some(1),
            "{output:?}"
        );
    }
    let all = catalogue::ALL.iter().flat_map(|registry| registry.metrics);
    let declared: BTreeMap<&str, &dyn Declared> = all
        .map(|metric| (metric.description().name, *metric))
        .collect();
    for name in ["node-0", "node-1", "node-2", "node-3"] {
        let text = member(&cluster, name)
            .client()
            .text("/metrics")
            .await
            .expect("scraped");
        let helps = text.lines().filter(|line| line.starts_with("# HELP"));
        let types = text.lines().filter(|line| line.starts_with("# TYPE"));
        assert_eq!(helps.count(), types.count(), "one without help:\n{text}");
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        for usual in [
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_open_fds",
            "process_max_fds",
            "process_threads",
            "process_start_time_seconds",
            "binomesh_build_info",
        ] {
            let mut values = lines.clone().filter(|line| series(line).0 == usual);
            let value = values.next().and_then(|line| line.rsplit(' ').next());
            let value: f64 = value.and_then(|value| value.parse().ok()).unwrap_or(0.0);
            assert!(value > 0.0, "{usual}: {value}");
        }
        let wrong: Vec<String> = lines
            .filter_map(|line| undeclared(line, &declared))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        for (name, metric) in &declared {
            let has_open_label = metric
                .description()
                .labels
                .iter()
                .any(|label| label.values.is_empty());
            if metric.kind() == "counter" && !has_open_label {
                assert!(
                    text.contains(&format!("\n{name}{{")),
                    "{name} does not begin at 0"
                );
            }
        }
    }
    stop(cluster).await;
}
