//! Distances between nodes, by breadth-first search.

use super::Topology;
use crate::parallel;

/// The distances between all ordered pairs of different nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distances {
    /// The greatest distance.
    pub diameter: u32,
    /// The average distance; none for a lone node.
    pub mean: Option<f64>,
}

/// The number of hops from `source` to each node, where there is a way.
pub fn breadth_first(topology: &Topology, source: u32) -> Vec<Option<u32>> {
    let mut depth = vec![None; topology.nodes()];
    depth[source as usize] = Some(0);
    let mut open = Vec::with_capacity(topology.nodes());
    open.push((source, 1));
    let mut next = 0;
    while let Some(&(node, further)) = open.get(next) {
        next += 1;
        for &end in topology.neighbours(node) {
            let place = &mut depth[end as usize];
            if place.is_none() {
                *place = Some(further);
                open.push((end, further + 1));
            }
        }
    }
    depth
}

impl Distances {
    /// The distances of all pairs; none if a node cannot reach another. `tell` is called with the
    /// number of sources that are done and of all sources.
    pub fn of(topology: &Topology, threads: u8, tell: impl Fn(u64, u64) + Sync) -> Option<Self> {
        let sources = match topology.name().is_vertex_transitive() {
            true => 1,
            false => topology.nodes() as u64,
        };
        let from = |source: u64| {
            let mut depths = breadth_first(topology, source as u32).into_iter();
            depths.try_fold((0, 0), |(most, sum), depth| {
                depth.map(|depth| (depth.max(most), sum + u64::from(depth)))
            })
        };
        let found = parallel::map(sources, threads, from, Option::is_none, |done| {
            tell(done.len() as u64, sources);
        });
        let all = found.into_values().try_fold((0, 0), |(most, total), one| {
            one.map(|(farthest, sum)| (farthest.max(most), total + sum))
        });
        let pairs = sources * (topology.nodes() as u64 - 1);
        all.map(|(diameter, total)| Self {
            diameter,
            mean: (pairs > 0).then(|| total as f64 / pairs as f64),
        })
    }
}
