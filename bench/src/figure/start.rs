//! [FC]: the start without a deployment tree.

use super::chart::{Axis, Chart, Curve, Spacing};
use super::laboratory::Laboratory;
use super::{Claim, Figure, Scale};

const SIZE: Axis = Axis {
    label: "nodes (logarithmic)",
    spacing: Spacing::Doubling,
};

/// The procedures, and their names.
const PROCEDURES: [(&str, &str); 3] = [
    ("corrected", "corrected: a random smaller node"),
    ("sorted", "the order of a list that all share"),
    ("as-written", "as [FC] writes it"),
];
/// The size of [FC]'s own example.
const EXAMPLE: u32 = 8;

fn clique(scale: &Scale, procedure: &str, nodes: u32) -> String {
    let seeds = if scale.is_quick { 50 } else { 1_000 };
    let seed = scale.seed;
    format!(
        "converge --bootstrap clique --procedure {procedure} --nodes {nodes} --seeds {seeds} --seed {seed}"
    )
}

fn tree(nodes: u32) -> String {
    format!("converge --shape binomial --nodes {nodes}")
}

fn graph(scale: &Scale, root: &str) -> String {
    let (nodes, seeds) = if scale.is_quick {
        (200, 20)
    } else {
        (1_000, 200)
    };
    let seed = scale.seed;
    format!(
        "converge --bootstrap graph --graph random:{nodes},4 --root {root} --seeds {seeds} --seed {seed}"
    )
}

fn sizes(scale: &Scale) -> impl Iterator<Item = u32> + Clone + use<> {
    let last = scale.nodes_max.clamp(8, 256).ilog2();
    (3..=last).map(|e| 1 << e)
}

fn last(scale: &Scale) -> u32 {
    sizes(scale).last().unwrap_or(EXAMPLE)
}

pub(super) fn figure(scale: &Scale) -> Figure {
    let curves = |of_clique, of_tree| {
        let procedures = PROCEDURES.iter().enumerate();
        let mut curves: Vec<Curve> = procedures
            .map(|(look, (procedure, label))| {
                let lines = sizes(scale).map(|nodes| clique(scale, procedure, nodes));
                Curve::new(*label, lines.collect(), "nodes", of_clique, look)
            })
            .collect();
        let lines = sizes(scale).map(tree).collect();
        let label = "binomial tree, ring, graph";
        curves.push(Curve::new(label, lines, "nodes", of_tree, PROCEDURES.len()));
        curves
    };
    let chart = |file, title, label, of_clique, of_tree| Chart {
        file,
        title,
        x: SIZE,
        y: Axis {
            label,
            spacing: Spacing::Decimal,
        },
        curves: curves(of_clique, of_tree),
        limit: None,
    };
    Figure {
        key: "fc",
        source: "[FC]",
        title: "A start without a deployment tree",
        method: "A round is everybody's question and its answer. Runs of the procedure as written count only if they come to their end, which few do. The tree's rounds are half of its phases.".to_owned(),
        charts: vec![
            chart(
                "fc-rounds",
                "Rounds to the binomial graph",
                "rounds, mean (logarithmic)",
                "all_rounds_mean",
                "bmg_rounds",
            ),
            chart(
                "fc-messages",
                "Messages to the binomial graph",
                "messages per node, mean (logarithmic)",
                "messages_per_node_mean",
                "messages_per_node",
            ),
        ],
        extra: ["highest", "drawn"].map(|root| graph(scale, root)).to_vec(),
        claims,
    }
}

fn claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let nodes = last(scale);
    let of = |procedure, nodes, field| laboratory.number(&clique(scale, procedure, nodes), field);
    let of_tree = |field| laboratory.number(&tree(nodes), field);
    let share = |field| of("as-written", nodes, field) / of("as-written", nodes, "seeds");
    let [rings, stuck] = ["one_ring_count", "stuck_count"].map(share);
    let steps = of("as-written", EXAMPLE, "finger_rounds_mean");
    let exact = of("as-written", EXAMPLE, "exact_count");
    let tree_takes = [of_tree("bmg_rounds"), of_tree("messages_per_node")];
    let takes = |procedure| {
        ["all_rounds_mean", "messages_per_node_mean"].map(|field| of(procedure, nodes, field))
    };
    let versus = |procedure: &'static str| {
        let [rounds, messages] = takes(procedure);
        let [tree_rounds, tree_messages] = tree_takes;
        let is_less = rounds <= tree_rounds && messages <= tree_messages;
        let found = format!(
            "with {nodes} nodes {rounds:.1} rounds and {messages:.1} messages per node; by the tree {tree_rounds:.1} and {tree_messages:.1}"
        );
        (is_less, found)
    };
    let (is_less_as_written, as_written) = versus("as-written");
    let (is_less_sorted, sorted) = versus("sorted");
    let rounds =
        ["highest", "drawn"].map(|root| laboratory.number(&graph(scale, root), "rounds_mean"));
    vec![
        Claim::new(
            "The first part of the algorithm forms a ring.",
            rings >= 1.0,
            format!(
                "with {nodes} nodes one ring in {:.1} % of the runs, for e/N = {:.1} %; {:.1} % get stuck",
                rings * 100.0,
                std::f64::consts::E / f64::from(nodes) * 100.0,
                stuck * 100.0
            ),
            "Random links are a random permutation, which seldom is one cycle; and the last node may find only its own place free.",
        ),
        Claim::new(
            "The example of figures 1 to 4: with 8 nodes two steps of the second part form the lists.",
            steps <= 2.0 && exact >= of("as-written", EXAMPLE, "one_ring_count"),
            format!("{steps:.1} rounds, and the lists are right in {exact:.0} runs"),
            "The end condition is right at 10 of the sizes from 2 to 64, and 8 is none of them.",
        ),
        Claim::new(
            "The algorithm is more optimal than tree, ring and graph, whose transformations it does without.",
            is_less_as_written,
            as_written,
            "The last nodes ask at random for the last free places.",
        ),
        Claim::new(
            "Ours: the order of a list takes fewer rounds and messages than tree, ring and graph.",
            is_less_sorted,
            sorted,
            "",
        ),
        Claim::new(
            "A root of highest degree has a positive impact.",
            rounds[0] < rounds[1],
            format!(
                "in random graphs of mean degree 4 it takes {:.1} rounds, and a root that is drawn {:.1}",
                rounds[0], rounds[1]
            ),
            "",
        ),
    ]
}
