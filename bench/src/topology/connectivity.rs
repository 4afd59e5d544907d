//! Vertex connectivity: how many nodes must be removed before some of the others cannot reach each
//! other.
//!
//! By Menger's theorem this is the least number of ways without common nodes between two nodes that
//! are not linked. It is computed as a maximum flow through nodes with capacity one. Not all pairs
//! are needed ([EH84] Esfahanian and Hakimi, *On computing the connectivities of graphs and
//! digraphs*). Take any node v. If a least cut does not have v, it separates v from some node. If
//! it has v, it separates a node that sends to v from a node that v sends to.

use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};

use super::Topology;
use crate::parallel;

/// The exact vertex connectivity: N − 1 if all nodes are linked to each other. `tell` is called
/// with the number of flows that are done and of all flows.
pub fn vertex_connectivity(
    topology: &Topology,
    threads: u8,
    tell: impl Fn(u64, u64) + Sync,
) -> usize {
    let network = network(topology);
    let pairs = pairs(topology);
    let count = pairs.len() as u64;
    let flow = |number: u64| {
        let (from, to) = pairs[number as usize];
        dinics(&network, leaving(from), entering(to)).0 as usize
    };
    let is_apart = |flow: &usize| *flow == 0;
    let flows = parallel::map(count, threads, flow, is_apart, |done| {
        tell(done.len() as u64, count);
    });
    let least_degree = (0..topology.nodes() as u32)
        .map(|node| degrees(topology, node))
        .min();
    flows.into_values().chain(least_degree).min().unwrap_or(0)
}

/// The pairs of nodes whose flows suffice. None of them are linked.
fn pairs(topology: &Topology) -> Vec<(u32, u32)> {
    let nodes = 0..topology.nodes() as u32;
    let Some(pivot) = nodes.clone().min_by_key(|node| degrees(topology, *node)) else {
        return Vec::new();
    };
    let mut pairs: Vec<(u32, u32)> = nodes.clone().map(|node| (pivot, node)).collect();
    if topology.is_directed() {
        pairs.extend(nodes.map(|node| (node, pivot)));
    }
    for &sender in topology.senders(pivot) {
        let receivers = topology.neighbours(pivot).iter();
        // If links have both directions, one flow per pair suffices.
        let once = receivers.filter(|end| topology.is_directed() || sender < **end);
        pairs.extend(once.map(|&receiver| (sender, receiver)));
    }
    let is_linked = |from: u32, to: u32| topology.neighbours(from).binary_search(&to).is_ok();
    pairs.retain(|&(from, to)| from != to && !is_linked(from, to));
    pairs
}

/// The smaller of two numbers: the nodes that a node sends to, and the nodes that send to it.
fn degrees(topology: &Topology, node: u32) -> usize {
    let (ahead, back) = (topology.neighbours(node), topology.senders(node));
    ahead.len().min(back.len())
}

/// A network in which each node and each link is an arc with capacity one.
fn network(topology: &Topology) -> DiGraph<(), u32> {
    let nodes = 0..topology.nodes() as u32;
    let within = nodes.clone().map(|node| (entering(node), leaving(node), 1));
    let links = nodes.flat_map(|node| {
        let ends = topology.neighbours(node).iter();
        ends.map(move |&end| (leaving(node), entering(end), 1))
    });
    DiGraph::from_edges(within.chain(links))
}

fn entering(node: u32) -> NodeIndex {
    NodeIndex::new(2 * node as usize)
}

fn leaving(node: u32) -> NodeIndex {
    NodeIndex::new(2 * node as usize + 1)
}
