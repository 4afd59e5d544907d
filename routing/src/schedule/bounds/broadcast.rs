//! One-to-all broadcast: how fast a message can spread.

use super::super::plan::Model;
use super::super::problem::Problem;
use super::super::topology::Node;
use super::width;

/// Steps until all receivers are told one message, if nothing limits them but the number of the
/// nodes' channels and, in store-forward, the distances: in each step the nodes with the most
/// channels are told first ([EVO] §2).
pub(super) fn growth(problem: &Problem, source: Node) -> usize {
    let graph = problem.graph();
    let is_relayed = problem.request().model == Model::StoreForward;
    let distances = graph.distances_from(source);
    let channels = |node: Node| width(problem, graph.out(node).len());
    let tellers: Vec<Node> = match is_relayed {
        true => graph.healthy_nodes().collect(),
        false => problem.receivers().to_vec(),
    };
    let mut tellers: Vec<Node> = tellers.into_iter().filter(|node| *node != source).collect();
    tellers.sort_by_key(|node| (std::cmp::Reverse(channels(*node)), *node));
    let goal = problem.pairs().filter(|(from, _)| *from == source).count();
    let (mut told, mut sum, mut steps) = (0, channels(source), 0);
    while told < goal && steps < graph.node_count() {
        steps += 1;
        // In store-forward only nodes that are near enough can be told yet.
        let near = |node: &&Node| distances[**node].is_some_and(|hops| hops <= steps);
        let reachable = match is_relayed {
            true => tellers.iter().filter(near).count(),
            false => tellers.len(),
        };
        told = (told + sum).min(reachable);
        let best = tellers.iter().take(told).map(|node| channels(*node));
        sum = channels(source) + best.sum::<usize>();
    }
    steps
}
