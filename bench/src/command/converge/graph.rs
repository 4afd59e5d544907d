//! `converge --bootstrap graph`: from any connected graph to the binomial graph.

use binomesh::graph::Graph;
use binomesh_overlay::noise::Noise;
use clap::ValueEnum;
use serde::Serialize;

use super::clique::mean;
use super::{BootstrapName, Converge, ProcedureName};
use crate::arena::convergence::{Convergence, converge};
use crate::arena::graph::{self, Facts, Found};
use crate::arena::synchronous::{self, Synchronous};
use crate::arena::tree::Tree;
use crate::arena::{Arena, Repetition};
use crate::command::Failure;
use crate::parallel;
use crate::record::{self, Stopwatch};

/// The node that becomes the root in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum RootName {
    /// A node of highest degree.
    Highest,
    /// A node that the seed draws, and that claims the highest degree.
    Drawn,
}

/// The results of many runs in one kind of graph; random graphs differ between runs. The rounds of
/// a stage count from the end of the stage before.
#[derive(Debug, Clone, Serialize)]
pub(super) struct GraphRow {
    bootstrap: &'static str,
    graph: String,
    root: RootName,
    nodes: usize,
    seeds: u64,
    first_seed: u64,
    edges_mean: Option<f64>,
    diameter_max: Option<u32>,
    /// How many runs have the breadth-first tree from the right root, of highest degree or drawn,
    /// and the ring and fingers of the binomial graph.
    exact_count: u64,
    one_ring_count: u64,
    claim_rounds_mean: Option<f64>,
    claim_rounds_max: Option<u64>,
    echo_rounds_mean: Option<f64>,
    tree_rounds_mean: Option<f64>,
    tree_depth_max: u32,
    tree_degree_max: u32,
    ring_rounds_mean: Option<f64>,
    finger_rounds_mean: Option<f64>,
    rounds_mean: Option<f64>,
    rounds_max: Option<u64>,
    /// The most, over all runs, of the rounds divided by the sum of diameter and log2 N.
    rounds_to_diameter_and_log_max: Option<f64>,
    claims_per_node_mean: Option<f64>,
    first_inexact_seed: Option<u64>,
    wall_seconds: f64,
    version: &'static str,
}

/// The result of one run.
struct Run {
    facts: Facts,
    found: Found,
    after: Convergence,
    depth: u32,
    degree: u32,
}

impl Run {
    const fn is_exact(&self) -> bool {
        self.found.is_exact && self.after.bmg_phases.is_some()
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.found.tree_rounds? + self.after.bmg_phases?)
    }

    fn ratio(&self) -> Option<f64> {
        let nodes = self.found.parents.len() as f64;
        let yardstick = f64::from(self.facts.diameter) + nodes.log2();
        Some(self.rounds()? as f64 / yardstick.max(1.0))
    }
}

impl Converge {
    /// The number of runs in a graph. Fails if the options do not fit a graph.
    pub(super) fn runs_in_graph(&self) -> Result<u64, Failure> {
        let refusal = if self.bootstrap != BootstrapName::Graph {
            "--graph is only for --bootstrap graph: add --bootstrap graph, or leave out --graph"
        } else if self.graph.is_none() {
            "--bootstrap graph needs a graph: give --graph, such as --graph mesh:25x40"
        } else if self.arbitrary || self.single_faults {
            "--bootstrap graph is always a clean start: leave out --arbitrary and --single-faults"
        } else if self.shape.is_some() || self.repeat || self.procedure != ProcedureName::Corrected
        {
            "--bootstrap graph builds its own tree: leave out --shape, --repeat and --procedure"
        } else if self.is_scheduled() {
            "--bootstrap graph runs in rounds, without a scheduler: leave out --scheduler and \
             --reading"
        } else if self.seeds == Some(0) {
            "--seeds 0 runs nothing: give at least 1"
        } else {
            return Ok(self.seeds.unwrap_or(1));
        };
        Err(Failure::Usage(refusal.to_owned()))
    }

    /// Run many trials in a graph.
    pub(super) fn in_graph(&self, graph: &Graph, seeds: u64) -> Result<GraphRow, Failure> {
        let watch = Stopwatch::start();
        let seed = |number: u64| self.seed.wrapping_add(number);
        let lists = |number| graph.lists(seed(number));
        let first = lists(0).map_err(|error| Failure::Usage(format!("--graph: {error}")))?;
        let found = parallel::map(
            seeds,
            parallel::processors(),
            |number| lists(number).map(|lists| self.run_in(&lists, seed(number))),
            |_| false,
            |all| record::progress(format_args!("{graph}, {} of {seeds} runs", all.len())),
        );
        let all: Result<Vec<Run>, _> = found.into_values().collect();
        let all = all.map_err(|error| Failure::Usage(format!("--graph: {error}")))?;
        Ok(self.graph_row(graph, first.len(), &all, watch))
    }

    fn run_in(&self, lists: &[Vec<u32>], seed: u64) -> Run {
        let chosen = match self.root {
            RootName::Highest => None,
            RootName::Drawn => {
                let drawn = Noise::new(seed).next() % lists.len().max(1) as u64;
                usize::try_from(drawn).ok()
            }
        };
        let facts = Facts::of(lists, chosen);
        let found = graph::run(lists, &facts, self.phase_limit);
        let tree = Tree::from_parents(&in_breadth(&found.parents), false);
        let (depth, degree) = (tree.depth(), tree.degree());
        let mut arena = Arena::new(tree, self.rules(), Repetition::UntilQuiet, |_| ());
        let mut scheduler = Synchronous::new(synchronous::Reading::SamePhase);
        let after = converge(&mut arena, &mut scheduler, self.phase_limit, |_, _| {});
        Run {
            facts,
            found,
            after,
            depth,
            degree,
        }
    }

    fn graph_row(&self, graph: &Graph, nodes: usize, all: &[Run], watch: Stopwatch) -> GraphRow {
        let over = |of: &dyn Fn(&Run) -> Option<u64>| mean(all.iter().filter_map(of));
        let most = |of: &dyn Fn(&Run) -> Option<u64>| all.iter().filter_map(of).max();
        let claims = |run: &Run| run.found.claim_rounds;
        let echo = |run: &Run| between(run.found.claim_rounds, run.found.echo_rounds);
        let tree = |run: &Run| between(run.found.echo_rounds, run.found.tree_rounds);
        let fingers = |run: &Run| between(run.after.ring_phases, run.after.bmg_phases);
        let inexact = all.iter().position(|run| !run.is_exact());
        GraphRow {
            bootstrap: "graph",
            graph: graph.to_string(),
            root: self.root,
            nodes,
            seeds: all.len() as u64,
            first_seed: self.seed,
            edges_mean: over(&|run| Some(run.facts.edges as u64)),
            diameter_max: all.iter().map(|run| run.facts.diameter).max(),
            exact_count: all.iter().filter(|run| run.is_exact()).count() as u64,
            one_ring_count: all.iter().filter_map(|run| run.after.ring_phases).count() as u64,
            claim_rounds_mean: over(&claims),
            claim_rounds_max: most(&claims),
            echo_rounds_mean: over(&echo),
            tree_rounds_mean: over(&tree),
            tree_depth_max: all.iter().map(|run| run.depth).max().unwrap_or(0),
            tree_degree_max: all.iter().map(|run| run.degree).max().unwrap_or(0),
            ring_rounds_mean: over(&|run| run.after.ring_phases),
            finger_rounds_mean: over(&fingers),
            rounds_mean: over(&Run::rounds),
            rounds_max: most(&Run::rounds),
            rounds_to_diameter_and_log_max: all.iter().filter_map(Run::ratio).reduce(f64::max),
            claims_per_node_mean: over(&|run| Some(run.found.messages))
                .map(|messages| messages / nodes.max(1) as f64),
            first_inexact_seed: inexact.map(|number| self.seed.wrapping_add(number as u64)),
            wall_seconds: watch.elapsed().as_secs_f64(),
            version: record::VERSION,
        }
    }
}

impl GraphRow {
    /// Whether every run was exact.
    pub(super) const fn is_good(&self) -> bool {
        self.exact_count == self.seeds
    }
}

/// The rounds of a stage, from the end of the stage before. If lists are one-way, a stage may end
/// before the stage before it, and then has 0 rounds.
const fn between(before: Option<u64>, end: Option<u64>) -> Option<u64> {
    match (before, end) {
        (Some(before), Some(end)) => Some(end.saturating_sub(before)),
        _ => None,
    }
}

/// The parents of a tree in which nodes are numbered by a breadth-first walk, each after its
/// parent. Further nodes without a parent are put below the root, so that the tree is whole; such a
/// run is not exact.
fn in_breadth(parents: &[Option<usize>]) -> Vec<u32> {
    let mut children = vec![Vec::new(); parents.len()];
    for (node, parent) in parents.iter().enumerate() {
        if let Some(parent) = parent {
            children[*parent].push(node);
        }
    }
    let roots = (0..parents.len()).filter(|node| parents[*node].is_none());
    let mut order: Vec<(usize, u32)> = roots.map(|root| (root, 0)).collect();
    let mut next = 0;
    while let Some(&(node, _)) = order.get(next) {
        let number = next as u32;
        order.extend(children[node].iter().map(|child| (*child, number)));
        next += 1;
    }
    order.into_iter().map(|(_, parent)| parent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Node 1 lists no node, so it takes the root, node 0, for its only neighbour, and tells the
    /// root too early that all nodes have heard of the root.
    #[test]
    fn a_root_that_begins_before_all_have_heard_of_it_is_judged_and_is_not_exact() {
        let lists = [&[1][..], &[], &[1], &[2], &[3]].map(<[u32]>::to_vec);
        let facts = Facts::of(&lists, None);
        let found = graph::run(&lists, &facts, 100);
        assert!(found.echo_rounds < found.claim_rounds, "{found:?}");
        assert_eq!(between(found.claim_rounds, found.echo_rounds), Some(0));
    }

    #[test]
    fn parents_come_before_their_children_and_nobody_is_left_out() {
        let parents = [Some(2), Some(0), None, Some(2), None];
        assert_eq!(in_breadth(&parents), [0, 0, 0, 0, 2]);
    }
}
