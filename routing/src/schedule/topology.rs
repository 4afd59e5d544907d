//! Interconnection networks as directed channels, with faulty links and nodes
//! taken out.
//!
//! ```text
//!   undirected link 00 ─── 01   =   channels 00 ▶ 01 and 01 ▶ 00
//!   Kautz arc       01 ──▶ 10   =   one channel
//! ```
//!
//! A channel carries at most one message per step. A topology knows nothing of
//! schedules.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::fault::{FAULTS_MAX, Fault, FaultError};
use super::generator;

/// The number of a node: 0 .. the number of nodes, faulty ones included.
pub type Node = usize;
/// The number of a channel: 0 .. the number of healthy channels.
pub type Channel = usize;

/// The most nodes of a topology. Guess: far above what a search can schedule. Larger graphs are
/// refused.
pub const NODES_MAX: usize = 1024;
/// The most channels of a topology. Guess: far above what a search can schedule. Graphs with more
/// are refused.
pub const CHANNELS_MAX: usize = 1 << 16;

/// A network: named nodes and the channels between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    name: String,
    nodes: Vec<String>,
    numbers: BTreeMap<String, Node>,
    is_directed: bool,
    channels: Vec<(Node, Node)>,
    out: Vec<Vec<Channel>>,
    into: Vec<Vec<Channel>>,
    is_faulty: Vec<bool>,
    faults: Vec<Fault>,
}

/// Why a name is no graph, or why a graph cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The text names no graph.
    #[error(
        "{0:?} is no graph; expected kautz:D,K, mesh:AxB, torus:AxB, ring:N, hypercube:D, bmg:N, \
         sibling:K,N, spidergon:N or file:PATH"
    )]
    Unknown(String),
    /// The parameters of a graph are out of range.
    #[error("{graph}: {reason}")]
    Parameters {
        /// The name of the graph.
        graph: String,
        /// The parameters that would be valid.
        reason: &'static str,
    },
    /// The graph has too few or too many nodes.
    #[error("{0} has {1} nodes; give a graph of 2 to {NODES_MAX}")]
    Size(String, u64),
    /// The graph has too many channels.
    #[error("{0} has more than {CHANNELS_MAX} channels; give a graph with fewer edges")]
    Channels(String),
    /// A line of an edge list is no edge.
    #[error(
        "{graph}, line {line}: {text:?} is no edge; expected the names of two different nodes such as `a b`, or `a > b` for a channel in one direction; a name has letters, digits, '_' and '.'"
    )]
    Edge {
        /// The name of the graph.
        graph: String,
        /// The line's number, from 1.
        line: usize,
        /// The text of the line.
        text: String,
    },
}

impl Topology {
    /// The graph that a name such as `kautz:3,2` or `mesh:4x4` stands for. Files
    /// are read by the caller, see [`Topology::from_edges`].
    pub fn generate(name: &str) -> Result<Self, TopologyError> {
        generator::generate(name)
    }

    /// A graph from an edge list: a line `a b` is a link in both directions, a
    /// line `a > b` one channel. Empty lines and lines that start with `#` are
    /// skipped.
    pub fn from_edges(name: &str, text: &str) -> Result<Self, TopologyError> {
        generator::from_edges(name, text)
    }

    /// A graph of these nodes and channels. A channel that is given twice is taken once. A channel
    /// from a node to itself, or with an end that is no node, is left out.
    pub(super) fn build(
        name: &str,
        nodes: Vec<String>,
        is_directed: bool,
        channels: impl IntoIterator<Item = (Node, Node)>,
    ) -> Result<Self, TopologyError> {
        let count = nodes.len();
        if !(2..=NODES_MAX).contains(&count) {
            return Err(TopologyError::Size(name.to_owned(), count as u64));
        }
        let mut distinct = BTreeSet::new();
        for (from, to) in channels {
            if from != to && from < count && to < count {
                distinct.insert((from, to));
            }
            if distinct.len() > CHANNELS_MAX {
                return Err(TopologyError::Channels(name.to_owned()));
            }
        }
        let numbers = nodes.iter().cloned().zip(0..).collect();
        let mut topology = Self {
            name: name.to_owned(),
            nodes,
            numbers,
            is_directed,
            channels: distinct.into_iter().collect(),
            out: Vec::new(),
            into: Vec::new(),
            is_faulty: vec![false; count],
            faults: Vec::new(),
        };
        topology.index();
        Ok(topology)
    }

    /// A copy of this graph in which these nodes and links are faulty: their channels are removed.
    /// A faulty link of an undirected graph loses both directions. A faulty node keeps its number
    /// but has no channel.
    pub fn with_faults(&self, faults: &[Fault]) -> Result<Self, FaultError> {
        if faults.len() > FAULTS_MAX {
            return Err(FaultError::TooMany(faults.len()));
        }
        let mut rest = self.clone();
        for fault in faults {
            match fault {
                Fault::Node(name) => {
                    let node = self.require(name)?;
                    rest.is_faulty[node] = true;
                    rest.channels
                        .retain(|(from, to)| *from != node && *to != node);
                }
                Fault::Link(one, other) => {
                    let ends = (self.require(one)?, self.require(other)?);
                    let back = (ends.1, ends.0);
                    if !self.channels.contains(&ends) {
                        return Err(self.no_link(fault, self.channels.contains(&back)));
                    }
                    let is_both = !self.is_directed;
                    rest.channels
                        .retain(|channel| *channel != ends && !(is_both && *channel == back));
                }
            }
            if !rest.faults.contains(fault) {
                rest.faults.push(fault.clone());
            }
        }
        rest.index();
        Ok(rest)
    }

    /// The same nodes with every channel turned round, so that a gather becomes a scatter.
    pub fn reversed(&self) -> Self {
        let mut turned = self.clone();
        turned.channels = self
            .channels
            .iter()
            .map(|(from, to)| (*to, *from))
            .collect();
        turned.channels.sort_unstable();
        turned.index();
        turned
    }

    /// The name from which the graph was made.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many nodes there are, faulty ones included.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes without a fault.
    pub fn healthy_nodes(&self) -> impl Iterator<Item = Node> + '_ {
        (0..self.nodes.len()).filter(|node| !self.is_faulty[*node])
    }

    /// Whether a node is faulty. A number that is no node counts as faulty.
    pub fn is_faulty(&self, node: Node) -> bool {
        self.is_faulty.get(node).copied().unwrap_or(true)
    }

    /// Whether the graph is directed: a link may have one direction only, and a fault takes away
    /// one direction only.
    pub const fn is_directed(&self) -> bool {
        self.is_directed
    }

    /// The faults that were taken out.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The name of a node; empty for a number that is no node.
    pub fn node_name(&self, node: Node) -> &str {
        self.nodes.get(node).map_or("", String::as_str)
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<Node> {
        self.numbers.get(name).copied()
    }

    /// The healthy channels as (from, to), in ascending order.
    pub fn channels(&self) -> &[(Node, Node)] {
        &self.channels
    }

    /// The channel from one node to another.
    pub fn channel(&self, from: Node, to: Node) -> Option<Channel> {
        self.channels.binary_search(&(from, to)).ok()
    }

    /// The channels that leave a node.
    pub fn out(&self, node: Node) -> &[Channel] {
        &self.out[node]
    }

    /// The channels that lead to a node.
    pub fn into(&self, node: Node) -> &[Channel] {
        &self.into[node]
    }

    /// The number of hops from a node to each; `None` if no path leads there.
    pub fn distances_from(&self, source: Node) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.nodes.len()];
        distances[source] = Some(0);
        let mut waiting = VecDeque::from([(source, 0)]);
        while let Some((node, distance)) = waiting.pop_front() {
            for channel in &self.out[node] {
                let next = self.channels[*channel].1;
                if distances[next].is_none() {
                    distances[next] = Some(distance + 1);
                    waiting.push_back((next, distance + 1));
                }
            }
        }
        distances
    }

    fn index(&mut self) {
        self.out = vec![Vec::new(); self.nodes.len()];
        self.into = vec![Vec::new(); self.nodes.len()];
        for (channel, (from, to)) in self.channels.iter().enumerate() {
            self.out[*from].push(channel);
            self.into[*to].push(channel);
        }
    }

    fn require(&self, name: &str) -> Result<Node, FaultError> {
        self.node(name).ok_or_else(|| FaultError::NoNode {
            graph: self.name.clone(),
            node: name.chars().take(80).collect(),
            example: self.nodes[0].clone(),
        })
    }

    fn no_link(&self, fault: &Fault, is_other_way: bool) -> FaultError {
        let (from, to) = self.channels.first().copied().unwrap_or((0, 0));
        FaultError::NoLink {
            graph: self.name.clone(),
            fault: fault.to_string(),
            hint: match is_other_way {
                true => " (the graph has the link in the other direction)",
                false => "",
            },
            example: format!("link:{}-{}", self.nodes[from], self.nodes[to]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(name: &str) -> Topology {
        Topology::generate(name).unwrap()
    }

    fn faulty(name: &str, faults: &[&str]) -> Result<Topology, FaultError> {
        let faults: Vec<Fault> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        graph(name).with_faults(&faults)
    }

    #[test]
    fn a_faulty_link_of_an_undirected_graph_is_both_directions() {
        let rest = faulty("mesh:4x4", &["link:00-01"]).unwrap();
        assert_eq!(rest.channels().len(), 46);
        let rest = faulty("kautz:3,2", &["link:01-10"]).unwrap();
        assert_eq!(rest.channels().len(), 35);
        let (one, other) = (rest.node("01").unwrap(), rest.node("10").unwrap());
        assert_eq!(rest.channel(one, other), None);
        assert!(rest.channel(other, one).is_some());
    }

    #[test]
    fn a_faulty_node_keeps_its_number_and_loses_its_channels() {
        let rest = faulty("mesh:4x4", &["node:11", "node:11"]).unwrap();
        assert_eq!(rest.channels().len(), 40);
        assert_eq!(rest.healthy_nodes().count(), 15);
        assert!(rest.is_faulty(rest.node("11").unwrap()));
        assert_eq!(rest.faults().len(), 1);
    }

    #[test]
    fn a_fault_that_does_not_exist_is_named_with_one_that_does() {
        let error = faulty("kautz:3,2", &["link:01-20"])
            .unwrap_err()
            .to_string();
        assert!(faulty("ring:4", &["node:1"; FAULTS_MAX + 1]).is_err());
        assert!(
            error.contains("link:01-20") && error.contains("link:01-10"),
            "{error}"
        );
        let error = faulty("kautz:3,2", &["node:44"]).unwrap_err().to_string();
        assert!(error.contains("44") && error.contains("01"), "{error}");
    }

    #[test]
    fn distances_follow_the_directions_and_turn_round() {
        let kautz = graph("kautz:3,2");
        for source in kautz.healthy_nodes() {
            let there = kautz.distances_from(source);
            assert_eq!(there.iter().filter(|hops| **hops == Some(1)).count(), 3);
            assert_eq!(there.iter().filter(|hops| **hops == Some(2)).count(), 8);
            for node in kautz.healthy_nodes() {
                assert_eq!(kautz.reversed().distances_from(node)[source], there[node]);
            }
        }
    }
}
