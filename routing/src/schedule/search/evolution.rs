//! The evolutionary search of [EVO] by itself, to watch its progress.

use super::super::plan::{Collective, Ports};
use super::super::problem::Problem;
use super::super::topology::Node;
use super::instance::{Instance, KnownPaths};
use super::paths::Paths;
use super::symmetry::Group;
use super::umda::Umda;

/// How far the evolutionary search came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evolution {
    /// How many generations there were, the first population not counted.
    pub generations: u64,
    /// The conflicts of the best chromosome of the last generation; 0 if it is a schedule.
    pub conflicts_least: u32,
    /// The mean number of conflicts over the chromosomes of the last generation.
    pub conflicts_mean: f64,
}

/// Search for a schedule in this many steps with the evolutionary search of [EVO]. It ends with a
/// schedule, after this many generations, or when `goes_on` denies.
pub fn evolve(
    problem: &Problem,
    steps: u32,
    seed: u64,
    generations_max: u64,
    goes_on: &mut dyn FnMut() -> bool,
) -> Evolution {
    if problem.request().collective == Collective::Aog {
        return evolve(&problem.turned(), steps, seed, generations_max, goes_on);
    }
    let graph = problem.graph();
    let group = Group::trivial(graph.node_count());
    let (paths, known) = (Paths::new(problem), KnownPaths::new());
    let instance = Instance::new(problem, &paths, group, seed, &known, goes_on);
    let width = |node: Node| match problem.request().ports {
        Ports::One => 1,
        Ports::All => graph.out(node).len(),
    };
    let mut search = Umda::new(&instance, steps.max(1) as usize, &width, &[], seed);
    let generations = search.generations(generations_max, &mut |_| goes_on());
    Evolution {
        generations,
        conflicts_least: search.conflicts_least(),
        conflicts_mean: search.conflicts_mean(),
    }
}
