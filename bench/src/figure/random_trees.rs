//! [BMG09] figure 4: random trees, by size and depth; and where the promise of
//! 1/33 s ends.

use super::chart::{Axis, Chart, Curve, Spacing};
use super::laboratory::Laboratory;
use super::{Claim, Figure, PAPER, Scale};

const SIZE: Axis = Axis {
    label: "processes (logarithmic)",
    spacing: Spacing::Doubling,
};

/// The depths of the paper's figure.
const DEPTHS: [u32; 5] = [3, 4, 6, 8, 10];

/// The paper's promise, in seconds.
const PROMISE: f64 = 1.0 / 33.0;

/// A tree of this depth, with twice the degree that it needs. The paper does not say which degrees
/// it took.
fn line(scale: &Scale, scheduler: &str, nodes: u32, depth: u32) -> String {
    let degree = 2 * least_degree(nodes, depth);
    format!(
        "converge --shape random-levelled --nodes {nodes} --depth {depth} --degree {degree} --seed {} --scheduler {scheduler}",
        scale.seed
    )
}

/// The least d with 1 + d + … + d^depth ≥ nodes.
fn least_degree(nodes: u32, depth: u32) -> u32 {
    let room = |degree: u32| {
        let levels = (0..=depth).map(|level| u64::from(degree).saturating_pow(level));
        levels.fold(0, u64::saturating_add)
    };
    let mut degrees = 1..nodes.max(2);
    degrees
        .find(|degree| room(*degree) >= u64::from(nodes))
        .unwrap_or(nodes)
}

fn sizes(scale: &Scale) -> impl Iterator<Item = u32> + Clone {
    let last = scale
        .paper_nodes()
        .min(if scale.is_quick { 4096 } else { PAPER });
    (4..=last.ilog2()).step_by(2).map(|e| 1 << e)
}

fn lines(scale: &Scale, scheduler: &str, depth: u32) -> Vec<String> {
    sizes(scale)
        .map(|nodes| line(scale, scheduler, nodes, depth))
        .collect()
}

fn all_lines(scale: &Scale, scheduler: &str) -> Vec<String> {
    DEPTHS
        .iter()
        .flat_map(|depth| lines(scale, scheduler, *depth))
        .collect()
}

fn curves(scale: &Scale, scheduler: &str, what: &str, y: &'static str) -> Vec<Curve> {
    let curve = |(look, depth): (usize, &u32)| {
        let label = format!("{what}, depth {depth}");
        Curve::new(label, lines(scale, scheduler, *depth), "nodes", y, look)
    };
    DEPTHS.iter().enumerate().map(curve).collect()
}

pub(super) fn synchronous(scale: &Scale) -> Figure {
    let graphs = curves(scale, "sync", "graph", "bmg_phases");
    let rings = curves(scale, "sync", "ring", "ring_phases");
    let rings = rings.into_iter().map(Curve::dashed);
    let pairs = graphs.into_iter().zip(rings);
    Figure {
        key: "bmg09-4a",
        source: "[BMG09] figure 4(a)",
        title: "Convergence time of random trees, synchronous",
        method: "As in the paper, every process above the last level has a child, and all leaves are equally deep. Levels grow by a like factor; no process has more than twice as many children as the depth needs (the paper gives no degrees). The paper draws surfaces over depth and size; here a curve is one depth.".to_owned(),
        charts: vec![Chart {
            file: "bmg09-4a",
            title: "Phases to the ring and to the binomial graph of random trees",
            x: SIZE,
            y: Axis {
                label: "convergence time (phases)",
                spacing: Spacing::Linear,
            },
            curves: pairs.flat_map(|(graph, ring)| [graph, ring]).collect(),
            limit: None,
        }],
        extra: Vec::new(),
        claims: synchronous_claims,
    }
}

fn synchronous_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let all = all_lines(scale, "sync");
    let number = |line: &str, field| laboratory.number(line, field);
    // The phases that the ring takes beyond the depth.
    let beyond = |line: &String| number(line, "ring_phases") - number(line, "tree_depth");
    let by_depth = all
        .iter()
        .filter(|line| [1.0, 2.0].contains(&beyond(line)))
        .count();
    let largest = sizes(scale).last().unwrap_or(0);
    let ring = |depth| number(&line(scale, "sync", largest, depth), "ring_phases");
    let (shallow, deep) = (ring(DEPTHS[0]), ring(DEPTHS[4]));
    let grown = (deep - shallow) / f64::from(DEPTHS[4] - DEPTHS[0]);
    let is_m_later = |line: &&String| {
        let m = number(line, "nodes").log2().ceil() - 1.0;
        number(line, "bmg_phases") - number(line, "ring_phases") == m
    };
    let m_later = all.iter().filter(is_m_later).count();
    vec![
        Claim::new(
            "“The convergence time of the ring construction algorithm is not modified by the number of nodes in the tree, only by the depth of the tree itself”",
            by_depth == all.len(),
            format!(
                "depth + 1 or depth + 2 phases in {by_depth} of {} trees",
                all.len()
            ),
            "",
        ),
        Claim::new(
            "“It presents an increase logarithmic in the depth of the tree”",
            // From depth 3 to 10 a logarithm to base 2 grows by a quarter per level.
            grown < 0.5,
            format!(
                "{shallow} phases at depth {} and {deep} at depth {}, {grown:.1} a level, with {largest} processes",
                DEPTHS[0], DEPTHS[4]
            ),
            "An Info climbs one edge a phase, so the increase is linear in the depth; it is logarithmic in the size only where the depth is.",
        ),
        Claim::new(
            "“this progression remains logarithmic with the number of nodes”",
            m_later == all.len(),
            format!(
                "the graph stands ⌈log2 N⌉ − 1 phases after the ring in {m_later} of {} trees",
                all.len()
            ),
            "",
        ),
    ]
}

/// Trees of one size, from shallow to deep. The shallower a tree, the more children its processes
/// have.
fn breaking(scale: &Scale) -> Vec<String> {
    let (nodes, depths) = breaking_size(scale);
    let depths = depths.iter();
    depths
        .map(|depth| line(scale, "async", nodes, *depth))
        .collect()
}

fn breaking_size(scale: &Scale) -> (u32, &'static [u32]) {
    match scale.is_quick || scale.nodes_max < 100_000 {
        true => (4096.min(scale.nodes_max), &[2, 3, 4, 6, 10, 12]),
        false => (100_000, &[3, 4, 5, 6, 7, 8, 10, 12, 16]),
    }
}

pub(super) fn asynchronous(scale: &Scale) -> Figure {
    let breaking = breaking(scale);
    Figure {
        key: "bmg09-4b",
        source: "[BMG09] figure 4(b)",
        title: "Convergence time of random trees, asynchronous",
        method: "The trees of figure 4(a), scheduled as in figure 2(a). Second chart: trees of one size, from deep to shallow, over the most children that a process has in them.".to_owned(),
        charts: vec![
            Chart {
                file: "bmg09-4b",
                title: "Seconds to the binomial graph of random trees",
                x: SIZE,
                y: Axis {
                    label: "convergence time (s, logarithmic)",
                    spacing: Spacing::Decimal,
                },
                curves: curves(scale, "async", "graph", "seconds_at_50us"),
                limit: Some((PROMISE, "1/33 s")),
            },
            Chart {
                file: "bmg09-4b-degree",
                title: "Seconds to the binomial graph over the largest degree",
                x: Axis {
                    label: "most children of a process (logarithmic)",
                    spacing: Spacing::Doubling,
                },
                y: Axis {
                    label: "convergence time (s, logarithmic)",
                    spacing: Spacing::Decimal,
                },
                curves: vec![Curve::new(
                    format!("graph, {} processes", breaking_size(scale).0),
                    breaking,
                    "tree_degree", "seconds_at_50us",
                    0,
                )],
                limit: Some((PROMISE, "1/33 s")),
            },
        ],
        extra: Vec::new(),
        claims: asynchronous_claims,
    }
}

fn asynchronous_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let number = |line: &str, field| laboratory.number(line, field);
    let points = |lines: Vec<String>| {
        let mut points: Vec<(f64, f64)> = lines
            .iter()
            .map(|line| (number(line, "tree_degree"), number(line, "seconds_at_50us")))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let nodes = breaking_size(scale).0;
    let breaking = points(breaking(scale));
    let is_kept = |point: &&(f64, f64)| point.1 < PROMISE;
    let kept = breaking
        .iter()
        .filter(is_kept)
        .map(|point| point.0)
        .fold(0.0, f64::max);
    let broken = breaking.iter().find(|point| !is_kept(point));
    let found = match broken {
        Some((degree, seconds)) => format!(
            "with {nodes} processes kept up to {kept} children of one process; {degree} children take {seconds:.3} s"
        ),
        None => format!("with {nodes} processes kept up to {kept} children of one process"),
    };
    let by_depth = points(all_lines(scale, "async"));
    let slowest = by_depth.iter().map(|point| point.1).fold(0.0, f64::max);
    vec![
        Claim::new(
            "“The projected time still remains very low, with less than 1/33 second for a 100k nodes tree”",
            broken.is_none(),
            found,
            "The promise holds for bounded degree only. A leaf repeats Info until its successor is found, its parent consumes one message a phase, and what it passes on waits behind those of all its leaves.",
        ),
        Claim::new(
            "The figure's axis ends at 0.03 s, for depths of 3 to 10 and up to 64K processes.",
            by_depth.iter().all(|point| point.1 <= 0.0305),
            format!("the slowest of these trees takes {slowest:.3} s"),
            "In a shallow tree of that size some process has dozens of children. The paper's trees may have had others: it gives no degrees.",
        ),
    ]
}
