//! How many nodes have to go before the others cannot all reach each other.
//!
//! By Menger's theorem that is the least number of ways without common nodes
//! between two nodes that are not linked, and such ways are a maximum flow through
//! nodes that let one unit pass. Not all pairs are needed ([EH84] Esfahanian and
//! Hakimi, *On computing the connectivities of graphs and digraphs*): a least cut
//! spares a node v, and then parts it from somebody, or takes it, and then parts
//! one that sends to v from one that v sends to.

use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};

use super::Topology;
use crate::parallel;

/// The vertex connectivity, exactly; N − 1 if everybody is linked to everybody.
/// `tell` hears how many of how many flows are done.
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

/// The flows that suffice: none of them between nodes that are linked.
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
        // Where links lead both ways, so do the ways.
        let once = receivers.filter(|end| topology.is_directed() || sender < **end);
        pairs.extend(once.map(|&receiver| (sender, receiver)));
    }
    let is_linked = |from: u32, to: u32| topology.neighbours(from).binary_search(&to).is_ok();
    pairs.retain(|&(from, to)| from != to && !is_linked(from, to));
    pairs
}

/// The fewer of those that a node sends to and those that send to it.
fn degrees(topology: &Topology, node: u32) -> usize {
    let (ahead, back) = (topology.neighbours(node), topology.senders(node));
    ahead.len().min(back.len())
}

/// Every node as an arc for one unit, and every link as one too.
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
