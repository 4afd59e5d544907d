//! The paths between two nodes that a message may take ([EVO] §3.1).

use binomesh_overlay::noise::Noise;

use super::super::problem::Problem;
use super::super::topology::{Node, Topology};

/// The search for all paths of one length between two nodes ends after this many visits of nodes.
const VISITS_MAX: usize = 4000;

/// The paths that a problem allows, found by the distances between all nodes of its graph.
pub(super) struct Paths<'a> {
    graph: &'a Topology,
    hops: Vec<Vec<Option<usize>>>,
    excess: usize,
}

impl<'a> Paths<'a> {
    /// The paths that a problem allows.
    pub(super) fn new(problem: &'a Problem) -> Self {
        let graph = problem.graph();
        let hops = (0..graph.node_count()).map(|node| graph.distances_from(node));
        Self {
            graph,
            hops: hops.collect(),
            excess: usize::from(problem.request().excess),
        }
    }

    /// The number of hops of a shortest path.
    pub(super) fn hops(&self, from: Node, to: Node) -> Option<usize> {
        self.hops[from][to]
    }

    /// Whether a path comes to no node twice and is short enough. Its channels are not looked at.
    pub(super) fn allows(&self, path: &[Node]) -> bool {
        let (Some(from), Some(to)) = (path.first(), path.last()) else {
            return false;
        };
        let is_simple = (1..path.len()).all(|place| !path[..place].contains(&path[place]));
        let hops = self.hops(*from, *to);
        is_simple && hops.is_some_and(|hops| path.len() <= hops + self.excess + 1)
    }

    /// At most `most` paths, short ones first; if there are more, some are drawn. Also returns
    /// whether the search gave up, so that paths may be missing even if there are fewer than
    /// `most`.
    pub(super) fn between(
        &self,
        from: Node,
        to: Node,
        most: usize,
        noise: &mut Noise,
    ) -> (Vec<Vec<Node>>, bool) {
        let Some(shortest) = self.hops[from][to] else {
            return (Vec::new(), false);
        };
        let mut found = Vec::new();
        let mut gave_up = false;
        for length in shortest..=shortest + self.excess {
            let mut walk = Walk {
                paths: self,
                to,
                most,
                visits: VISITS_MAX,
                gave_up: false,
                way: vec![from],
                found: &mut found,
                noise,
            };
            walk.extend(from, length);
            gave_up |= walk.gave_up;
        }
        (found, gave_up)
    }
}

/// A depth-first search for simple paths of one length.
struct Walk<'a, 'b> {
    paths: &'a Paths<'b>,
    to: Node,
    most: usize,
    visits: usize,
    /// Whether the search ran out of visits.
    gave_up: bool,
    way: Vec<Node>,
    found: &'a mut Vec<Vec<Node>>,
    noise: &'a mut Noise,
}

impl Walk<'_, '_> {
    /// Extend the path from its last node by this many hops. The depth is at most the number of
    /// nodes.
    fn extend(&mut self, node: Node, left: usize) {
        if node == self.to {
            if left == 0 {
                self.found.push(self.way.clone());
            }
            return;
        }
        if left == 0 {
            return;
        }
        if self.visits == 0 {
            self.gave_up = true;
            return;
        }
        self.visits -= 1;
        let graph = self.paths.graph;
        let next = graph
            .out(node)
            .iter()
            .map(|channel| graph.channels()[*channel].1);
        let mut next: Vec<Node> = next.collect();
        shuffle(&mut next, self.noise);
        for node in next {
            let rest = self.paths.hops[node][self.to];
            let is_near = rest.is_some_and(|rest| rest < left);
            if is_near && !self.way.contains(&node) && self.found.len() < self.most {
                self.way.push(node);
                self.extend(node, left - 1);
                self.way.pop();
            }
        }
    }
}

/// Bring a list into random order.
pub(super) fn shuffle<T>(list: &mut [T], noise: &mut Noise) {
    for place in (1..list.len()).rev() {
        list.swap(place, below(place + 1, noise));
    }
}

/// A random number below `count`; 0 if `count` is 0.
pub(super) fn below(count: usize, noise: &mut Noise) -> usize {
    (noise.next() % count.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::super::super::plan::Collective;
    use super::super::super::problem::Request;
    use super::*;

    #[test]
    fn a_mesh_has_as_many_shortest_paths_as_binomial_coefficients_say() {
        let graph = Topology::generate("mesh:4x4").unwrap();
        let mut request = Request::paper(Collective::Aas, None);
        let mut count = |excess, from, to| {
            request.excess = excess;
            let problem = Problem::new(graph.clone(), request.clone()).unwrap();
            let paths = Paths::new(&problem);
            let (paths, gave_up) = paths.between(from, to, 1000, &mut Noise::new(1));
            assert!(!gave_up);
            let distinct: std::collections::BTreeSet<_> = paths.iter().collect();
            assert_eq!(distinct.len(), paths.len());
            paths.len()
        };
        assert_eq!(count(0, 0, 15), 20);
        assert_eq!(count(0, 0, 3), 1);
        // The straight way, and six with two more hops: down in one of the four columns, and up
        // again in a later one.
        assert_eq!(count(2, 0, 3), 7);
    }
}
