//! One-to-all broadcasts by the circulant pattern, where a graph has its links: the
//! binomial graph, and what contains it.

use super::super::circulant::Circulant;
use super::super::plan::{Collective, Move};
use super::super::problem::Problem;
use super::super::topology::Topology;

/// The steps and the moves; `None` if it is another collective, if some nodes take no
/// part, or if the graph lacks a link of the pattern. The order of the nodes' numbers is
/// that round the circle.
pub(super) fn broadcast(problem: &Problem) -> Option<(usize, Vec<Move>)> {
    let graph = problem.graph();
    let nodes = graph.node_count();
    // Everybody relays, so everybody must be healthy and a receiver.
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

/// A pattern whose links a graph has.
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
    // The table of a binomial graph takes a while: not for a graph without its links.
    let mut powers = powers.take_while(|power| *power < nodes.get());
    powers
        .all(has)
        .then(|| Circulant::binomial(nodes))
        .flatten()
}
