//! The graphs that the binomial graph is compared with, and facts about them.
//!
//! Links come from the code that ships: [`SiblingTree`] for the binomial graph and the trees,
//! [`Rank`] for distances along the ring.
//!
//! Not here: routing with dead nodes (`binomesh-bench route`).

pub mod connectivity;
pub mod distance;
pub mod failure;
pub mod routing;

use binomesh_overlay::{Population, Rank};
use binomesh_routing::sibling_tree::{Fanout, Links, SiblingTree};
use clap::ValueEnum;
use serde::Serialize;

/// The name of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// The binomial graph: rank ± 2^i.
    Bmg,
    /// Chord's fingers: rank + 2^i, one way.
    Chord,
    /// The ring alone: rank ± 1.
    Ring,
    /// A binary tree, filled level by level.
    Binary,
    /// The k-ary sibling tree of [SFT06].
    Sibling,
}

impl Name {
    /// Whether the graph looks the same from every node, so that one source stands for all.
    pub const fn is_vertex_transitive(self) -> bool {
        matches!(self, Self::Bmg | Self::Chord | Self::Ring)
    }
}

/// A graph: to which nodes each node can send.
#[derive(Debug, Clone)]
pub struct Topology {
    name: Name,
    ahead: Arcs,
    /// The same arcs by their ends, if links have one direction only.
    back: Option<Arcs>,
}

/// Arcs by the node they start from, flat in memory.
#[derive(Debug, Clone)]
struct Arcs {
    /// For each node the place of its first arc in `ends`, and one more place behind the last node.
    first: Vec<u32>,
    ends: Vec<u32>,
}

impl Topology {
    /// The graph of this name over `population`; `fanout` is the sibling tree's.
    pub fn new(name: Name, population: Population, fanout: Fanout) -> Self {
        let sibling = SiblingTree::new(population, fanout);
        let binary = SiblingTree::new(population, Fanout::TWO);
        let arcs = Arcs::new(population, |rank, ends| match name {
            Name::Bmg => ends.extend(sibling.neighbours(rank, Links::BinomialGraph)),
            Name::Sibling => ends.extend(sibling.neighbours(rank, Links::SiblingTree)),
            Name::Binary => ends.extend(binary.children(rank).chain(binary.parent(rank))),
            Name::Chord => {
                let powers = (0..population.levels()).map(|level| 1 << level);
                ends.extend(powers.map(|power| rank.ahead(power, population)));
            }
            Name::Ring => ends.extend([rank.ahead(1, population), rank.behind(1, population)]),
        });
        Self {
            name,
            back: (name == Name::Chord).then(|| arcs.reversed()),
            ahead: arcs,
        }
    }

    /// The name of the graph.
    pub const fn name(&self) -> Name {
        self.name
    }

    /// The number of nodes.
    pub const fn nodes(&self) -> usize {
        self.ahead.first.len() - 1
    }

    /// Whether some links have one direction only.
    pub const fn is_directed(&self) -> bool {
        self.back.is_some()
    }

    /// The nodes that a node can send to, in order.
    pub fn neighbours(&self, node: u32) -> &[u32] {
        self.ahead.of(node)
    }

    /// The nodes that can send to a node, in order.
    pub fn senders(&self, node: u32) -> &[u32] {
        self.back.as_ref().unwrap_or(&self.ahead).of(node)
    }

    /// The most neighbours that a node can send to.
    pub fn degree(&self) -> usize {
        let degrees = (0..self.nodes() as u32).map(|node| self.neighbours(node).len());
        degrees.max().unwrap_or(0)
    }
}

impl Arcs {
    /// Arcs to the ranks that `ends` adds for each rank: each end once, in order, and no loops.
    fn new(population: Population, ends: impl Fn(Rank, &mut Vec<Rank>)) -> Self {
        let (mut arcs, mut found) = (Self::none(), Vec::new());
        for rank in (0..population.get()).map(Rank) {
            ends(rank, &mut found);
            found.sort_unstable();
            found.dedup();
            let others = found.drain(..).filter(|end| *end != rank);
            arcs.push(others.map(|end| end.0));
        }
        arcs
    }

    fn none() -> Self {
        Self {
            first: vec![0],
            ends: Vec::new(),
        }
    }

    /// Add a node with these arcs.
    fn push(&mut self, ends: impl Iterator<Item = u32>) {
        self.ends.extend(ends);
        self.first.push(self.ends.len() as u32);
    }

    fn of(&self, node: u32) -> &[u32] {
        let [first, end] = [node, node + 1].map(|node| self.first[node as usize] as usize);
        &self.ends[first..end]
    }

    fn reversed(&self) -> Self {
        let nodes = self.first.len() as u32 - 1;
        let mut senders = vec![Vec::new(); nodes as usize];
        for node in 0..nodes {
            for end in self.of(node) {
                senders[*end as usize].push(node);
            }
        }
        let mut arcs = Self::none();
        senders
            .into_iter()
            .for_each(|senders| arcs.push(senders.into_iter()));
        arcs
    }
}

#[cfg(test)]
mod tests;
