//! Facts about the binomial graph and about graphs that could be used instead.

use super::chart::{Axis, Chart, Curve, Spacing};
use super::laboratory::Laboratory;
use super::{Claim, Figure, Scale};

const SIZE: Axis = Axis {
    label: "nodes (logarithmic)",
    spacing: Spacing::Doubling,
};

const NAMES: [(&str, &str); 5] = [
    ("bmg", "binomial graph"),
    ("chord", "Chord, one way"),
    ("ring", "ring"),
    ("binary", "binary tree"),
    ("sibling", "sibling tree, k = 2"),
];

fn line(scale: &Scale, name: &str, nodes: u32) -> String {
    let trials = if scale.is_quick { 300 } else { 10_000 };
    format!(
        "graph --graph {name} --nodes {nodes} --trials {trials} --seed {}",
        scale.seed
    )
}

fn sizes() -> impl Iterator<Item = u32> + Clone {
    (3..=10).map(|e| 1 << e)
}

fn routing(scale: &Scale) -> String {
    let most = if scale.is_quick { 1024 } else { 4096 };
    format!("graph --check-routing {most}")
}

pub(super) fn figure(scale: &Scale) -> Figure {
    let curves = |y| {
        let curve = move |(look, (name, label)): (usize, &(&str, &str))| {
            let lines = sizes().map(|nodes| line(scale, name, nodes)).collect();
            Curve::new(*label, lines, "nodes", y, look)
        };
        NAMES.iter().enumerate().map(curve).collect::<Vec<_>>()
    };
    let chart = |file, title, label, spacing, y| Chart {
        file,
        title,
        x: SIZE,
        y: Axis { label, spacing },
        curves: curves(y),
        limit: None,
    };
    Figure {
        key: "graphs",
        source: "Beyond the papers",
        title: "The binomial graph beside others",
        method: "Shortest ways between all ordered pairs; vertex connectivity by maximum flows; random failures until the others cannot all reach each other, in 99 of 100 trials. Chord's links lead one way; used both ways they are the binomial graph.".to_owned(),
        charts: vec![
            chart(
                "graphs-hops",
                "Average hops of shortest ways",
                "hops, average (logarithmic)",
                Spacing::Decimal,
                "hops_mean",
            ),
            chart(
                "graphs-connectivity",
                "Vertex connectivity",
                "vertex connectivity (nodes)",
                Spacing::Linear,
                "vertex_connectivity",
            ),
            chart(
                "graphs-failures",
                "Random failures survived in 99 of 100 trials",
                "failures survived (nodes)",
                Spacing::Linear,
                "failures_survived_99",
            ),
        ],
        extra: vec![routing(scale)],
        claims,
    }
}

fn claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let number =
        |name: &str, nodes, field: &str| laboratory.number(&line(scale, name, nodes), field);
    let of = |field: &str| number("bmg", 1024, field);
    let (degree, diameter, hops) = (of("degree"), of("diameter"), of("hops_mean"));
    let failures = of("failures_survived_99");
    let is_full =
        |nodes| number("bmg", nodes, "vertex_connectivity") == number("bmg", nodes, "degree");
    let sibling = number("sibling", 1024, "vertex_connectivity");
    let wrong = laboratory.number(&routing(scale), "distances_differing");
    let routed = laboratory.number(&routing(scale), "nodes");
    vec![
        Claim::new(
            "Ours: with 1024 nodes degree 19, diameter 5, 3.448 hops on average.",
            degree == 19.0 && diameter == 5.0 && (hops - 3.448).abs() < 0.0005,
            format!("degree {degree}, diameter {diameter}, {hops:.4} hops"),
            "",
        ),
        Claim::new(
            "Ours: 580 random failures among 1024 nodes are survived in 99 of 100 trials.",
            failures >= 580.0,
            format!(
                "{failures}; Chord survives {}",
                number("chord", 1024, "failures_survived_99")
            ),
            "",
        ),
        Claim::new(
            "“a few failures lead with a high probability to disconnected components” in trees and rings ([BMG09])",
            ["ring", "binary"]
                .iter()
                .all(|name| number(name, 1024, "failures_survived_99") <= 2.0),
            format!(
                "of 1024 nodes the ring survives {}, the binary tree {}",
                number("ring", 1024, "failures_survived_99"),
                number("binary", 1024, "failures_survived_99")
            ),
            "",
        ),
        Claim::new(
            "Ours: the vertex connectivity of the binomial graph is its degree.",
            sizes().all(is_full),
            format!(
                "at every size drawn; {} with 1024 nodes",
                of("vertex_connectivity")
            ),
            "",
        ),
        Claim::new(
            "“the k-ary sibling tree can tolerate up to k failures” ([SFT06])",
            sibling > 2.0,
            format!(
                "with 1024 nodes and k = 2 its connectivity is {sibling}, so {} failures are always tolerated",
                sibling - 1.0
            ),
            "A last level with at most k nodes hangs on one parent; full trees have the lesser of k and 3.",
        ),
        Claim::new(
            "Ours: the router binomial takes shortest ways.",
            wrong == 0.0,
            format!(
                "{wrong} of all distances with up to {routed} nodes differ from breadth-first search"
            ),
            "",
        ),
    ]
}
