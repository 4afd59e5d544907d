//! The places of a graph's nodes in a picture.

use std::f64::consts::TAU;

use binomesh_overlay::{Population, Rank};
use binomesh_routing::schedule::Topology;
use binomesh_routing::sibling_tree::{Fanout, SiblingTree};

/// A point: distances to the right and down.
pub(super) type Point = (f64, f64);

/// A point for each node, between (0, 0) and (1, 1). Meshes and tori have rows and columns, a
/// hypercube is projected, a sibling tree has levels, and all other graphs are circles.
pub(super) fn layout(graph: &Topology) -> Vec<Point> {
    let count = graph.node_count();
    let (kind, rest) = graph.name().split_once(':').unwrap_or_default();
    let pair = |mark| {
        let (one, other): (&str, &str) = rest.split_once(mark)?;
        Some((one.parse::<usize>().ok()?, other.parse::<usize>().ok()?))
    };
    let points = match kind {
        "mesh" | "torus" => pair('x').map(|(_, columns)| grid(count, columns)),
        "hypercube" => Some(hypercube(count)),
        "sibling" => pair(',').and_then(|(fanout, _)| tree(count, fanout)),
        _ => None,
    };
    let points = points.filter(|points| points.len() == count);
    fit(points.unwrap_or_else(|| circle(count)))
}

fn circle(count: usize) -> Vec<Point> {
    let angle = |node: usize| TAU * node as f64 / count as f64;
    let nodes = (0..count).map(|node| (angle(node).sin(), -angle(node).cos()));
    nodes.collect()
}

fn grid(count: usize, columns: usize) -> Vec<Point> {
    let nodes = 0..count;
    let place = |node: usize| ((node % columns) as f64, (node / columns) as f64);
    nodes.map(place).collect()
}

/// A node is at the sum of the directions of the bits that are set in its number. So the first two
/// bits make a square, and each further bit adds a copy of the picture so far, moved its own way.
fn hypercube(count: usize) -> Vec<Point> {
    const DIRECTIONS: [Point; 10] = [
        (1.0, 0.0),
        (0.0, 1.0),
        (0.42, 0.36),
        (1.75, -0.62),
        (0.62, 1.75),
        (4.1, 0.3),
        (0.3, 4.4),
        (10.4, 0.0),
        (0.0, 10.4),
        (21.0, 0.0),
    ];
    let place = |node: usize| {
        let bits = DIRECTIONS.iter().enumerate();
        let bits = bits.filter(|(bit, _)| node >> bit & 1 == 1);
        bits.fold((0.0, 0.0), |sum, (_, step)| {
            (sum.0 + step.0, sum.1 + step.1)
        })
    };
    (0..count).map(place).collect()
}

/// A sibling tree with its levels below each other.
fn tree(count: usize, fanout: usize) -> Option<Vec<Point>> {
    let population = Population::new(u32::try_from(count).ok()?)?;
    let shape = SiblingTree::new(population, Fanout::new(u32::try_from(fanout).ok()?)?);
    let level = |node: usize| {
        let mut rank = Rank(node as u32);
        let mut level = 0;
        while let Some(parent) = shape.parent(rank).filter(|_| level < count) {
            rank = parent;
            level += 1;
        }
        level
    };
    let levels: Vec<usize> = (0..count).map(level).collect();
    let place = |node: usize| {
        let same = |others: &[usize]| others.iter().filter(|one| **one == levels[node]).count();
        let (before, all) = (same(&levels[..node]), same(&levels));
        let down = levels[node] as f64 * count as f64 / 4.0;
        ((before as f64 + 0.5) * count as f64 / all as f64, down)
    };
    Some((0..count).map(place).collect())
}

/// The same points, moved and scaled to the square from (0, 0) to (1, 1).
fn fit(points: Vec<Point>) -> Vec<Point> {
    let low = points.iter().fold((f64::MAX, f64::MAX), |low, point| {
        (low.0.min(point.0), low.1.min(point.1))
    });
    let high = points.iter().fold((f64::MIN, f64::MIN), |high, point| {
        (high.0.max(point.0), high.1.max(point.1))
    });
    let side = (high.0 - low.0).max(high.1 - low.1).max(1e-9);
    // The shorter side is centred.
    let gap = |low: f64, high: f64| (side - (high - low)) / 2.0;
    let gaps = (gap(low.0, high.0), gap(low.1, high.1));
    let moved = |point: Point| {
        let right = (point.0 - low.0 + gaps.0) / side;
        (right, (point.1 - low.1 + gaps.1) / side)
    };
    points.into_iter().map(moved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_nodes_are_at_one_place_and_all_are_in_the_square() {
        for name in [
            "mesh:4x4",
            "mesh:1x5",
            "torus:3x5",
            "hypercube:1",
            "hypercube:4",
            "hypercube:6",
            "sibling:2,15",
            "sibling:3,14",
            "bmg:12",
            "kautz:3,2",
            "spidergon:12",
            "ring:2",
        ] {
            let points = layout(&Topology::generate(name).unwrap());
            for (place, one) in points.iter().enumerate() {
                let is_inside = |at: f64| (0.0..=1.0).contains(&at);
                assert!(is_inside(one.0) && is_inside(one.1), "{name}: {one:?}");
                for other in &points[..place] {
                    let far = (one.0 - other.0).hypot(one.1 - other.1);
                    assert!(far > 0.02, "{name}: {one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn a_mesh_is_drawn_as_rows_and_columns() {
        let points = layout(&Topology::generate("mesh:2x3").unwrap());
        assert_eq!(points[0].1, points[2].1);
        assert_eq!(points[1].0, points[4].0);
        assert!(points[3].1 > points[0].1);
    }
}
