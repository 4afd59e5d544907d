//! Broadcasts in many blocks over trees that share no channel.
//!
//! ```text
//!   blocks 0 2 4 …  ─▶ tree A        a node tells its children the block that it got
//!   blocks 1 3 5 …  ─▶ tree B        in the step before; no channel is in two trees
//! ```
//!
//! If every node can be reached over k ways that share no channel, there are k trees from the
//! source to all nodes that share no channel (Edmonds, *Edge-disjoint branchings*, 1973). They are
//! found one by one, channel by channel. A channel is taken if the channels that are left still
//! have as many ways to its end as trees are missing (Lovász, *On two minimax theorems in graph
//! theory*, 1976). In each step each tree takes in a block, so B blocks take about B ÷ k steps and
//! the depth of a tree.

use super::super::flow::Network;
use super::super::plan::{Collective, Model, Move, Ports};
use super::super::problem::Problem;
use super::super::topology::{Channel, Node, Topology};

/// The most channels times nodes times trees. Guess: a second or so. Larger problems are left to
/// other methods.
const WORK_MAX: usize = 4_000_000;

/// A tree from the source: the channels over which the other nodes joined, in this order, and the
/// depth of each node.
struct Tree {
    channels: Vec<Channel>,
    /// For each node its depth.
    depth: Vec<usize>,
    height: usize,
}

/// The steps and the moves. `None` for another collective, in the wormhole model, with one port, if
/// some healthy nodes do not receive, if the graph is too large, or once `goes_on` denies.
pub(super) fn broadcast(
    problem: &Problem,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<(usize, Vec<Move>)> {
    let (graph, request) = (problem.graph(), problem.request());
    let is_everybody = problem.receivers().len() == graph.healthy_nodes().count();
    // In the wormhole model a whole path would take one step, so trees do not fit.
    let is_fitting = request.model == Model::StoreForward && request.ports == Ports::All;
    if request.collective != Collective::Oab || !is_fitting || !is_everybody {
        return None;
    }
    let source = problem.source()?;
    let trees = pack(graph, source, goes_on)?;
    // Each block goes down the tree that finishes it first.
    let mut blocks = vec![0; trees.len()];
    let (mut moves, mut steps) = (Vec::new(), 0);
    for block in 0..request.blocks as usize {
        let place = (0..trees.len()).min_by_key(|place| blocks[*place] + trees[*place].height)?;
        let tree = &trees[place];
        for channel in &tree.channels {
            let (from, to) = graph.channels()[*channel];
            let step = blocks[place] + tree.depth[from];
            moves.push(problem.step_move(step, &[from, to], source, to, block));
        }
        steps = steps.max(blocks[place] + tree.height);
        blocks[place] += 1;
    }
    Some((steps, moves))
}

/// As many trees from the source to all healthy nodes as can share no channel.
fn pack(graph: &Topology, source: Node, goes_on: &mut dyn FnMut() -> bool) -> Option<Vec<Tree>> {
    let mut is_free = vec![true; graph.channels().len()];
    let others = graph.healthy_nodes().filter(|node| *node != source);
    let counts = others.map(|node| ways(graph, &is_free, source, node, goes_on));
    let count = counts.collect::<Option<Vec<u32>>>()?.into_iter().min()?;
    let work = graph.channels().len() * graph.node_count();
    if count == 0 || work.saturating_mul(count as usize) > WORK_MAX {
        return None;
    }
    let trees = (0..count).rev();
    let trees = trees.map(|missing| grow(graph, source, &mut is_free, missing, goes_on));
    trees.collect()
}

/// A tree that leaves as many ways to each node as trees are missing.
fn grow(
    graph: &Topology,
    source: Node,
    is_free: &mut [bool],
    missing: u32,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<Tree> {
    let nodes = graph.healthy_nodes().count();
    let mut depth = vec![usize::MAX; graph.node_count()];
    depth[source] = 0;
    let mut tree = Tree {
        channels: Vec::new(),
        depth,
        height: 0,
    };
    // A channel that is refused once is refused for ever, since ways only become fewer.
    let mut is_refused = vec![false; is_free.len()];
    while tree.channels.len() + 1 < nodes {
        let leaves = |channel: &Channel| {
            let (from, to) = graph.channels()[*channel];
            tree.depth[from] != usize::MAX && tree.depth[to] == usize::MAX
        };
        let usable = (0..is_free.len()).filter(|one| is_free[*one] && !is_refused[*one]);
        let next = usable
            .filter(leaves)
            .min_by_key(|one| tree.depth[graph.channels()[*one].0])?;
        let (from, to) = graph.channels()[next];
        is_free[next] = false;
        if missing > 0 && ways(graph, is_free, source, to, goes_on)? < missing {
            is_free[next] = true;
            is_refused[next] = true;
            continue;
        }
        tree.depth[to] = tree.depth[from] + 1;
        tree.height = tree.height.max(tree.depth[to]);
        tree.channels.push(next);
    }
    Some(tree)
}

/// How many ways that share no channel lead from one node to another; `None` if `goes_on` denied
/// before.
fn ways(
    graph: &Topology,
    is_free: &[bool],
    from: Node,
    to: Node,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<u32> {
    let mut network = Network::default();
    for _ in 0..graph.node_count() {
        network.node();
    }
    for (channel, (one, other)) in graph.channels().iter().enumerate() {
        if is_free[channel] {
            network.edge(*one, *other, 1);
        }
    }
    network.maximize(from, to, goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_trees_as_ways_and_they_share_no_channel() {
        for (name, count) in [
            ("ring:7", 2),
            ("mesh:3x4", 2),
            ("torus:3x4", 4),
            ("hypercube:4", 4),
            ("kautz:3,2", 3),
            ("bmg:12", 6),
        ] {
            let graph = Topology::generate(name).unwrap();
            for source in [0, graph.node_count() / 2] {
                let trees = pack(&graph, source, &mut || true).unwrap();
                assert_eq!(trees.len(), count, "{name} from {source}");
                let mut used: Vec<Channel> = Vec::new();
                for tree in trees {
                    let mut ends: Vec<Node> = Vec::new();
                    for channel in &tree.channels {
                        let (from, to) = graph.channels()[*channel];
                        assert!(from == source || ends.contains(&from), "{name}");
                        ends.push(to);
                    }
                    ends.push(source);
                    ends.sort_unstable();
                    assert!(ends.into_iter().eq(0..graph.node_count()), "{name}");
                    used.extend(tree.channels);
                }
                let all = used.len();
                used.sort_unstable();
                used.dedup();
                assert_eq!(used.len(), all, "{name}: a channel is in two trees");
            }
        }
    }

    #[test]
    fn without_time_there_are_no_trees() {
        let graph = Topology::generate("torus:3x4").unwrap();
        for asks in 0..40 {
            let mut left = asks;
            let mut goes_on = || {
                let is_left = left > 0;
                left -= i32::from(is_left);
                is_left
            };
            assert!(pack(&graph, 0, &mut goes_on).is_none(), "{asks} asks");
        }
    }
}
