//! The largest flow through a network of whole capacities, by Dinic's algorithm.

use std::collections::VecDeque;

/// A network under construction, then with a flow.
#[derive(Debug, Clone, Default)]
pub(super) struct Network {
    /// For each node the edges that leave it, those against the direction of an added edge
    /// included.
    edges_of: Vec<Vec<usize>>,
    /// The end of each edge. Edges e and e ^ 1 are the two directions of one.
    ends: Vec<usize>,
    /// How much each edge can still take.
    rest: Vec<u32>,
}

impl Network {
    /// A capacity that no flow reaches.
    pub(super) const UNLIMITED: u32 = u32::MAX / 2;

    /// Add a node, and return its number.
    pub(super) fn node(&mut self) -> usize {
        self.edges_of.push(Vec::new());
        self.edges_of.len() - 1
    }

    /// Add an edge with this capacity, and return its number.
    pub(super) fn edge(&mut self, from: usize, to: usize, capacity: u32) -> usize {
        let edge = self.ends.len();
        self.ends.extend([to, from]);
        self.rest.extend([capacity, 0]);
        self.edges_of[from].push(edge);
        self.edges_of[to].push(edge + 1);
        edge
    }

    /// How much flow goes over an edge.
    pub(super) fn flow(&self, edge: usize) -> u32 {
        self.rest[edge ^ 1]
    }

    /// Raise the flow from one node to another as far as possible. Returns by how much it rose, or
    /// `None` if `goes_on` denied before.
    pub(super) fn maximize(
        &mut self,
        from: usize,
        to: usize,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<u32> {
        let mut raised = 0;
        while let Some(levels) = self.levels(from, to) {
            let mut next = vec![0; self.edges_of.len()];
            while self.augment(from, to, &levels, &mut next) {
                raised += 1;
            }
            if !goes_on() {
                return None;
            }
        }
        Some(raised)
    }

    /// The hops of each node from the start, over edges that can take more flow. `None` if these
    /// edges do not lead to the end.
    fn levels(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut levels = vec![usize::MAX; self.edges_of.len()];
        levels[from] = 0;
        let mut waiting = VecDeque::from([from]);
        while let Some(node) = waiting.pop_front() {
            for edge in &self.edges_of[node] {
                let end = self.ends[*edge];
                if self.rest[*edge] > 0 && levels[end] == usize::MAX {
                    levels[end] = levels[node] + 1;
                    waiting.push_back(end);
                }
            }
        }
        (levels[to] != usize::MAX).then_some(levels)
    }

    /// Send one unit along a shortest way. `next` skips edges that are known to lead nowhere.
    fn augment(&mut self, from: usize, to: usize, levels: &[usize], next: &mut [usize]) -> bool {
        let mut way: Vec<usize> = Vec::new();
        let mut node = from;
        while node != to {
            match self.edges_of[node].get(next[node]).copied() {
                Some(edge) => {
                    let end = self.ends[edge];
                    if self.rest[edge] > 0 && levels[end] == levels[node] + 1 {
                        way.push(edge);
                        node = end;
                    } else {
                        next[node] += 1;
                    }
                }
                None => {
                    let Some(edge) = way.pop() else { return false };
                    node = self.ends[edge ^ 1];
                    next[node] += 1;
                }
            }
        }
        for edge in way {
            self.rest[edge] -= 1;
            self.rest[edge ^ 1] += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_takes_back_what_blocks_it() {
        // Two ways of three hops, and a shorter way across them that blocks both.
        let mut network = Network::default();
        let nodes: Vec<usize> = (0..6).map(|_| network.node()).collect();
        for (from, to) in [(0, 1), (1, 2), (2, 5), (0, 3), (3, 4), (4, 5), (1, 4)] {
            network.edge(nodes[from], nodes[to], 1);
        }
        assert_eq!(network.maximize(0, 5, &mut || true), Some(2));
        assert_eq!(network.maximize(0, 5, &mut || true), Some(0));
        assert_eq!(network.flow(12), 0);
    }

    #[test]
    fn capacities_bound_it() {
        let mut network = Network::default();
        let (from, to) = (network.node(), network.node());
        let edge = network.edge(from, to, 3);
        network.edge(to, from, 7);
        let raised = network.maximize(from, to, &mut || true);
        assert_eq!((raised, network.flow(edge)), (Some(3), 3));
    }
}
