//! `docs/metrics.md` agrees with the registries of metrics.

use std::fmt::Write;
use std::path::Path;

use binomesh::catalogue;
use binomesh_overlay::quic::registry::{Declared, Label, Registry};

const WRITE: &str = "BINOMESH_WRITE_DOCS";

const PARTS: [&str; 5] = [
    "The transport",
    "The node in its cluster",
    "Messages, receipts, collectives",
    "The neighbours of now",
    "The process",
];

/// The section about the metrics of full queues, which are in several tables.
const FULL_QUEUES: &str = "
## Full queues

| turned away for want of room | counted in |
|---|---|
| messages of local users | `binomesh_sends_refused_total{full}` |
| messages to be kept for absent members | `binomesh_relay_events_total{event=\"kept_full\"}` |
| parts of messages of others | `binomesh_relay_refused_total{reason=\"busy\"}` and `{reason=\"full\"}` |
| frames to a neighbour | `binomesh_transport_full_total{class}` |
| messages for a slow subscriber | `binomesh_subscriber_missed_total` |

The alert *BinomeshQueueNearBound* comes before most of these, where bytes are the bound. [bounds.md](bounds.md) has all bounds.
";

fn document() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
        What `/metrics` of a node shows. Each series has the label `node`, the node's name, besides those of its row. Counters and\n\
        histograms whose labels are known beforehand begin at 0. Series of a neighbour end with its link, at once. This page is written from the code: `BINOMESH_WRITE_DOCS=1 cargo test -p binomesh --test commands metrics`.\n",
    );
    text.push_str(FULL_QUEUES);
    for (part, registry) in PARTS.iter().zip(catalogue::ALL) {
        text.push_str(&section(part, registry));
    }
    text
}

fn section(title: &str, registry: &Registry) -> String {
    let mut text = format!("\n## {title}\n\n| metric | kind | meaning |\n|---|---|---|\n");
    for metric in registry.metrics {
        let description = metric.description();
        let (name, kind) = (description.name, metric.kind());
        let unit = description.unit.map(|unit| unit.as_str());
        let unit = unit.map_or_else(String::new, |unit| format!(", {unit}"));
        let labels: Vec<&str> = description.labels.iter().map(|label| label.name).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(", ")),
        };
        let meaning = description.help.replace('|', "\\|");
        let _ = writeln!(
            text,
            "| `{name}{labels}` | {kind}{unit} | {meaning}{} |",
            values(*metric)
        );
    }
    text
}

/// The known values of the labels, with their meanings.
fn values(metric: &dyn Declared) -> String {
    let described = |label: &Label| {
        let values = label
            .values
            .iter()
            .map(|(value, meaning)| match meaning.is_empty() {
                true => format!("`{value}`"),
                false => format!("`{value}`: {meaning}"),
            });
        let values: Vec<String> = values.collect();
        (!values.is_empty()).then(|| format!("<br>{}: {}", label.name, values.join("; ")))
    };
    let labels = metric.description().labels.iter();
    labels.filter_map(described).collect()
}

#[test]
fn the_document_of_metrics_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let document = document();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &document).expect("written");
    }
    let sections: String = document.split(FULL_QUEUES).collect();
    for word in FULL_QUEUES
        .split(['`', '{'])
        .filter(|word| word.starts_with("binomesh_"))
    {
        assert!(sections.contains(word), "no metric is called {word}");
    }
    for value in FULL_QUEUES.split('"').skip(1).step_by(2) {
        assert!(
            sections.contains(&format!("`{value}`: ")),
            "no label has the value {value}"
        );
    }
    let there = std::fs::read_to_string(&path).expect("readable");
    assert!(
        there == document,
        "docs/metrics.md is not what the code says: set {WRITE}=1 and run this test again"
    );
}

/// See <https://prometheus.io/docs/practices/naming>.
#[test]
fn names_follow_the_conventions_of_prometheus_and_are_explained() {
    let mut names = std::collections::BTreeSet::new();
    for metric in catalogue::ALL.iter().flat_map(|registry| registry.metrics) {
        let description = metric.description();
        let name = description.name;
        // Metrics that all programs have of their process keep the usual names.
        let is_ours = name.starts_with("binomesh_") || name.starts_with("process_");
        assert!(is_ours, "{name}");
        assert!(names.insert(name), "{name} twice");
        assert_eq!(
            name.ends_with("_total"),
            metric.kind() == "counter",
            "{name}"
        );
        let unit = description.unit.map(|unit| unit.as_str());
        for base in ["seconds", "bytes"] {
            let stem = name.trim_end_matches("_total");
            let is_named = stem.ends_with(base) || stem.contains(&format!("_{base}_"));
            assert_eq!(is_named, unit == Some(base), "{name}: {unit:?}");
        }
        assert!(description.help.len() > 15, "{name}: {}", description.help);
        for label in description.labels {
            let mut values = std::collections::BTreeSet::new();
            assert!(
                label.values.iter().all(|(value, _)| values.insert(value)),
                "{name}"
            );
        }
    }
}
