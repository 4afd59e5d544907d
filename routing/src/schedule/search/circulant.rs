//! One-to-all broadcasts by the circulant pattern, on graphs with its links: the binomial graph,
//! and graphs that contain it.

use super::super::circulant::Circulant;
use super::super::plan::{Collective, Move};
use super::super::problem::Problem;
use super::super::topology::Topology;

/// The steps and the moves. `None` for another collective, if some nodes take no part, or if the
/// graph lacks a link of the pattern. The order of the nodes' numbers is their order round the
/// circle.
pub(super) fn broadcast(problem: &Problem) -> Option<(usize, Vec<Move>)> {
    let graph = problem.graph();
    let nodes = graph.node_count();
    // All nodes relay, so all must be healthy and receivers.
    if problem.request().collective != Collective::Oab || problem.receivers().len() < nodes {
        return None;
    }
    let source = problem.source()?;
    let pattern = pattern(graph)?;
    let blocks = problem.request().blocks;
    let steps = usize::try_from(pattern.rounds(blocks)).ok()?;
    let mut moves = Vec::new();
    for rank in 0..pattern.nodes() {
        let table = pattern.timetable(rank)?;
        let node = |rank: u32| (rank as usize + source) % nodes;
        for step in 0..steps {
            if let Some((to, block)) = table.round(step as u64, blocks).send {
                let path = [node(rank), node(to)];
                let one = problem.step_move(step, &path, source, path[1], block as usize);
                moves.push(one);
            }
        }
    }
    Some((steps, moves))
}

/// A pattern of which the graph has all links.
fn pattern(graph: &Topology) -> Option<Circulant> {
    let nodes = std::num::NonZeroU32::new(u32::try_from(graph.node_count()).ok()?)?;
    let has = |skip: u32| {
        let nodes = graph.node_count();
        (0..nodes).all(|from| {
            graph
                .channel(from, (from + skip as usize) % nodes)
                .is_some()
        })
    };
    let halved = Circulant::new(nodes);
    if halved.skips().iter().all(|skip| has(*skip)) {
        return Some(halved);
    }
    let powers = (0..u32::BITS).map(|bit| 1 << bit);
    // The table of a binomial graph takes a while, so it is not made for a graph without its links.
    let mut powers = powers.take_while(|power| *power < nodes.get());
    powers
        .all(has)
        .then(|| Circulant::binomial(nodes))
        .flatten()
}
