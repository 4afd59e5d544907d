//! One-to-all scatter as a flow: exact.
//!
//! ```text
//!   wormhole, two steps:            store-forward, two steps:
//!     source ─▶ copy 1 ─▶ ┐           (v, 0) ─▶ (v, 1) ─▶ (v, 2) ─▶ sink   waits
//!            └▶ copy 2 ─▶ node ─▶ sink   (v, 0) ─▶ (w, 1)                   moves
//! ```
//!
//! Wormhole: a step is a set of channel-disjoint paths from the source, which is a
//! flow in a copy of the graph; a node takes one message from all copies together.
//! With shortest paths only, a copy keeps the channels that lead away from the
//! source: there every path is a shortest one. Store-forward: a copy of each node
//! per step. If the flow serves all receivers in S steps and not in S − 1, S is the
//! optimum for such paths ([EVO] has a bound and an evolutionary search for this).

use super::super::flow::Network;
use super::super::plan::{Model, Move, Ports};
use super::super::problem::Problem;
use super::super::topology::Node;

/// Whether paths in the flow are shortest ones, or of any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Ways {
    Shortest,
    Any,
}

/// The least number of steps in which a flow serves all receivers, from `first` up. Once `goes_on`
/// denies, a number that is certainly not too large.
pub(in super::super) fn least_steps(
    problem: &Problem,
    ways: Ways,
    first: usize,
    goes_on: &mut dyn FnMut() -> bool,
) -> usize {
    let enough = problem.receivers().len() + problem.graph().node_count();
    let mut steps = first.max(1);
    // One message per step along a tree is always possible, so `enough` steps are.
    while steps < enough && is_served(problem, ways, steps, goes_on) == Some(false) {
        steps += 1;
    }
    steps
}

/// Whether a flow serves all receivers in this many steps; `None` if `goes_on` denied.
fn is_served(
    problem: &Problem,
    ways: Ways,
    steps: usize,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<bool> {
    let mut flow = Flow::new(problem, ways, steps);
    let raised = flow.network.maximize(flow.source, flow.sink, goes_on)?;
    Some(raised as usize == problem.pairs().count())
}

/// The moves of a schedule in this many steps, if there is one and `goes_on` does not deny. With
/// [`Ways::Any`] its paths may be longer than the problem allows; the caller checks that.
pub(in super::super) fn moves(
    problem: &Problem,
    ways: Ways,
    steps: usize,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<Vec<Move>> {
    let source = problem.source()?;
    let mut flow = Flow::new(problem, ways, steps);
    let raised = flow.network.maximize(flow.source, flow.sink, goes_on)?;
    if raised as usize != problem.pairs().count() {
        return None;
    }
    let moves = match problem.request().model {
        Model::Wormhole => flow.wormhole_moves(problem, source),
        Model::StoreForward => flow.relayed_moves(problem, source),
    };
    Some(moves)
}

/// The network of a flow, and what its edges stand for.
struct Flow {
    network: Network,
    source: usize,
    sink: usize,
    /// For each step and channel its edge, if the channel may be used.
    channels: Vec<Vec<Option<usize>>>,
    /// Wormhole: for each step and node, the edge over which a message ends there. Store-forward:
    /// for each step and node, the edge over which messages wait there.
    stays: Vec<Vec<Option<usize>>>,
}

impl Flow {
    fn new(problem: &Problem, ways: Ways, steps: usize) -> Self {
        let mut network = Network::default();
        let (source, sink) = (network.node(), network.node());
        let mut flow = Self {
            network,
            source,
            sink,
            channels: Vec::new(),
            stays: Vec::new(),
        };
        match problem.request().model {
            Model::Wormhole => flow.add_copies(problem, ways, steps),
            Model::StoreForward => flow.add_time(problem, steps),
        }
        flow
    }

    /// Wormhole: add one copy of the graph per step.
    fn add_copies(&mut self, problem: &Problem, ways: Ways, steps: usize) {
        let graph = problem.graph();
        let origin = problem.source().unwrap_or(0);
        let distances = graph.distances_from(origin);
        let network = &mut self.network;
        let ends: Vec<Option<usize>> = (0..graph.node_count())
            .map(|node| {
                let is_served = node != origin && problem.receivers().contains(&node);
                is_served.then(|| network.node())
            })
            .collect();
        for end in ends.iter().flatten() {
            network.edge(*end, self.sink, 1);
        }
        let sent_at_once = match problem.request().ports {
            Ports::One => 1,
            Ports::All => Network::UNLIMITED,
        };
        for _ in 0..steps {
            let nodes: Vec<usize> = (0..graph.node_count()).map(|_| network.node()).collect();
            network.edge(self.source, nodes[origin], sent_at_once);
            let channels = graph.channels().iter().map(|(from, to)| {
                let is_shorter = distances[*from].map(|hops| hops + 1) == distances[*to];
                let is_allowed = ways == Ways::Any || is_shorter;
                is_allowed.then(|| network.edge(nodes[*from], nodes[*to], 1))
            });
            self.channels.push(channels.collect());
            let stays = (0..graph.node_count())
                .map(|node| ends[node].map(|end| network.edge(nodes[node], end, 1)));
            self.stays.push(stays.collect());
        }
    }

    /// Store-forward: add a copy of every node for each time 0 ..= `steps`, and the moves and waits
    /// between these times.
    fn add_time(&mut self, problem: &Problem, steps: usize) {
        let graph = problem.graph();
        let origin = problem.source().unwrap_or(0);
        let network = &mut self.network;
        let mut now: Vec<usize> = (0..graph.node_count()).map(|_| network.node()).collect();
        network.edge(self.source, now[origin], Network::UNLIMITED);
        let at_once = match problem.request().ports {
            Ports::One => 1,
            Ports::All => Network::UNLIMITED,
        };
        for _ in 0..steps {
            let port = |network: &mut Network, is_out: bool, at: usize| {
                let door = network.node();
                match is_out {
                    true => network.edge(at, door, at_once),
                    false => network.edge(door, at, at_once),
                };
                door
            };
            let next: Vec<usize> = now.iter().map(|_| network.node()).collect();
            let out: Vec<usize> = now.iter().map(|at| port(network, true, *at)).collect();
            let into: Vec<usize> = next.iter().map(|at| port(network, false, *at)).collect();
            let channels = graph.channels().iter();
            let channels = channels.map(|(from, to)| Some(network.edge(out[*from], into[*to], 1)));
            self.channels.push(channels.collect());
            let stays = now.iter().zip(&next);
            let stays =
                stays.map(|(now, next)| Some(network.edge(*now, *next, Network::UNLIMITED)));
            self.stays.push(stays.collect());
            now = next;
        }
        for node in problem.receivers().iter().filter(|node| **node != origin) {
            network.edge(now[*node], self.sink, 1);
        }
    }

    /// Take the flow of each step apart into paths.
    fn wormhole_moves(&self, problem: &Problem, source: Node) -> Vec<Move> {
        let graph = problem.graph();
        let mut moves = Vec::new();
        for (step, channels) in self.channels.iter().enumerate() {
            let mut left: Vec<bool> = channels.iter().map(|edge| self.is_used(*edge)).collect();
            let ends = self.stays[step].iter();
            let mut ends: Vec<bool> = ends.map(|edge| self.is_used(*edge)).collect();
            let count = ends.iter().filter(|is_end| **is_end).count();
            for _ in 0..count {
                let mut path = vec![source];
                let mut node = source;
                while !std::mem::take(&mut ends[node]) {
                    let Some(channel) = graph.out(node).iter().find(|channel| left[**channel])
                    else {
                        break;
                    };
                    left[*channel] = false;
                    node = graph.channels()[*channel].1;
                    // A flow may run in a circle; a message need not, so the circle is cut out.
                    if let Some(place) = path.iter().position(|before| *before == node) {
                        path.truncate(place);
                    }
                    path.push(node);
                }
                moves.push(problem.step_move(step, &path, source, node, 0));
            }
        }
        moves
    }

    /// Follow each message through the steps.
    fn relayed_moves(&self, problem: &Problem, source: Node) -> Vec<Move> {
        let graph = problem.graph();
        let units = |edges: &Vec<Option<usize>>| -> Vec<u32> {
            let flows = edges
                .iter()
                .map(|edge| edge.map_or(0, |edge| self.network.flow(edge)));
            flows.collect()
        };
        let mut channels: Vec<Vec<u32>> = self.channels.iter().map(units).collect();
        let mut stays: Vec<Vec<u32>> = self.stays.iter().map(units).collect();
        let mut moves = Vec::new();
        for _ in 0..problem.pairs().count() {
            // The nodes of the way, each with the step in which the message comes there.
            let mut way = vec![(source, 0)];
            let mut node = source;
            for step in 0..channels.len() {
                let out = graph.out(node).iter();
                let used = out.copied().find(|channel| channels[step][*channel] > 0);
                if let Some(channel) = used {
                    channels[step][channel] -= 1;
                    node = graph.channels()[channel].1;
                    match way.iter().position(|(before, _)| *before == node) {
                        Some(place) => way.truncate(place + 1),
                        None => way.push((node, step)),
                    }
                } else {
                    stays[step][node] = stays[step][node].saturating_sub(1);
                }
            }
            for pair in way.windows(2) {
                let path = [pair[0].0, pair[1].0];
                moves.push(problem.step_move(pair[1].1, &path, source, node, 0));
            }
        }
        moves
    }

    fn is_used(&self, edge: Option<usize>) -> bool {
        edge.is_some_and(|edge| self.network.flow(edge) > 0)
    }
}
