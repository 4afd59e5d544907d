//! `binomesh-bench faults`: a collective after every set of so many faults.

use binomesh_routing::schedule::search::{Method, Options};
use binomesh_routing::schedule::{Collective, Fault, Problem, ProblemError, Request, Topology};
use clap::Args;
use serde::Serialize;

use super::schedule::{CollectiveName, threads, topology};
use super::{Failure, Finding};
use crate::parallel;
use crate::record::{self, Stopwatch};

/// The most sets of faults. Guess: an hour of searches. More sets are refused.
const SETS_MAX: usize = 100_000;

/// Schedule a collective for every set of a given number of faulty links or nodes.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench faults --graph kautz:3,2 --collective oab --source 01 --links 2
  binomesh-bench faults --graph mesh:4x4 --collective aas --nodes 1 --json

Prints a row for each set of faults, with its steps, the lower bound and the method, or with the
reason if the set is refused because it cuts off a receiver. A last row is for all sets.
fault_diameter is the greatest distance
between two nodes over all sets that leave every node within reach of every other;
sets_apart counts those that do not. A faulty link of an undirected graph is both directions.
The source is never faulty.")]
pub struct FaultsArguments {
    /// The graph, in the notation of `schedule`.
    #[arg(long)]
    pub graph: String,
    /// The collective communication.
    #[arg(long, value_enum)]
    pub collective: CollectiveName,
    /// The node that sends the message or messages of oab and oas, or that receives those of aog.
    #[arg(long, value_name = "NODE")]
    pub source: Option<String>,
    /// The number of faulty links.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub links: u8,
    /// The number of faulty nodes.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub nodes: u8,
    /// Take only one of this number of sets, evenly spaced.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub every: u32,
    /// The number of channels that a path may have beyond those of a shortest path.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub excess: u8,
    /// The most evaluations of a search.
    #[arg(long, default_value_t = 20_000_000)]
    pub evaluations: u64,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The number of searches that run at once [default: the number of processors].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: Option<u8>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// The result for one set of faults.
#[derive(Debug, Clone, Serialize)]
pub struct Case {
    /// The faults of the set.
    pub faults: Vec<Fault>,
    /// The lower bound: no schedule has fewer steps.
    pub lower_bound: Option<u32>,
    /// The number of steps of the schedule.
    pub steps: Option<u32>,
    /// The method that found the schedule.
    pub method: Option<Method>,
    /// The reason why there is no schedule.
    pub refused: Option<String>,
}

/// The results for all sets together.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The name of the graph.
    pub graph: String,
    /// The kind of the collective.
    pub collective: Collective,
    /// The source, or the root of a gather.
    pub source: Option<String>,
    /// How many links are faulty in each set.
    pub links: u8,
    /// How many nodes are faulty in each set.
    pub nodes: u8,
    /// The number of faults of a set.
    pub faults: u8,
    /// The number of channels that a path may have beyond those of a shortest path.
    pub excess: u8,
    /// How many sets of faults were tried.
    pub sets: usize,
    /// How many sets leave no way to a receiver, or no message to send.
    pub refused: usize,
    /// How many sets have a schedule with as many steps as their lower bound.
    pub optimal: usize,
    /// The fewest steps of a schedule.
    pub steps_min: Option<u32>,
    /// The mean number of steps.
    pub steps_mean: f64,
    /// The most steps of a schedule.
    pub steps_max: Option<u32>,
    /// For each number of steps, how many sets have a schedule with so many.
    pub sets_by_steps: std::collections::BTreeMap<u32, usize>,
    /// The greatest distance between two healthy nodes, over all sets that leave these connected.
    pub fault_diameter: Option<usize>,
    /// How many sets leave a healthy node without a way to another.
    pub sets_apart: usize,
    /// The most evaluations that a search may make.
    pub evaluations: u64,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The real time of the run.
    pub wall_seconds: f64,
    /// The version of the code that ran.
    pub version: &'static str,
    /// The result of each set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Case>,
}

impl FaultsArguments {
    /// Schedule all sets and print the rows.
    pub fn run(self) -> Result<Finding, Failure> {
        let mut row = self.measure()?;
        record::progress_done();
        for case in std::mem::take(&mut row.cases) {
            self.print(&case)?;
        }
        self.print(&row)?;
        Ok(Finding::Good)
    }

    /// Search for each set of faults.
    pub fn measure(&self) -> Result<Row, Failure> {
        let watch = Stopwatch::start();
        let graph = topology(&self.graph)?;
        let sets = self.sets(&graph)?;
        let request = Request {
            excess: self.excess,
            ..Request::paper(self.collective.into(), self.source.clone())
        };
        // A problem that has an error even without faults is an error in the request.
        let whole = Problem::new(graph.clone(), request.clone());
        whole.map_err(|error| Failure::Usage(error.to_string()))?;
        let threads = self.threads.unwrap_or_else(parallel::processors);
        let cases = parallel::map(
            sets.len() as u64,
            threads,
            |number| self.case(&graph, &request, &sets[number as usize]),
            Result::is_err,
            |done| record::progress(format_args!("{} of {} sets", done.len(), sets.len())),
        );
        let cases: Result<Vec<Case>, Failure> = cases.into_values().collect();
        let diameters = sets.iter().map(|faults| {
            let rest = graph.with_faults(faults);
            rest.map_or(None, |rest| diameter(&rest))
        });
        let diameters: Vec<Option<usize>> = diameters.collect();
        Ok(self.row(cases?, &diameters, watch))
    }

    fn row(&self, cases: Vec<Case>, diameters: &[Option<usize>], watch: Stopwatch) -> Row {
        let mut sets_by_steps = std::collections::BTreeMap::new();
        let steps: Vec<u32> = cases.iter().filter_map(|case| case.steps).collect();
        for steps in &steps {
            *sets_by_steps.entry(*steps).or_default() += 1;
        }
        let is_optimal = |case: &&Case| case.steps.is_some() && case.steps == case.lower_bound;
        let sum: u32 = steps.iter().sum();
        Row {
            graph: self.graph.clone(),
            collective: self.collective.into(),
            source: self.source.clone(),
            links: self.links,
            nodes: self.nodes,
            faults: self.links + self.nodes,
            excess: self.excess,
            sets: cases.len(),
            refused: cases.len() - steps.len(),
            optimal: cases.iter().filter(is_optimal).count(),
            steps_min: steps.iter().min().copied(),
            steps_mean: f64::from(sum) / steps.len() as f64,
            steps_max: steps.iter().max().copied(),
            sets_by_steps,
            fault_diameter: diameters.iter().flatten().max().copied(),
            sets_apart: diameters.iter().filter(|one| one.is_none()).count(),
            evaluations: self.evaluations,
            seed: self.seed,
            wall_seconds: watch.elapsed().as_secs_f64(),
            version: record::VERSION,
            cases,
        }
    }

    fn case(&self, graph: &Topology, request: &Request, set: &[Fault]) -> Result<Case, Failure> {
        let mut case = Case {
            faults: set.to_vec(),
            lower_bound: None,
            steps: None,
            method: None,
            refused: None,
        };
        let rest = graph.with_faults(set).map_err(Failure::run)?;
        let problem = match Problem::new(rest, request.clone()) {
            Ok(problem) => problem,
            Err(error @ (ProblemError::Unreachable { .. } | ProblemError::NothingToSend)) => {
                case.refused = Some(error.to_string());
                return Ok(case);
            }
            Err(error) => return Err(Failure::Usage(error.to_string())),
        };
        let options = Options {
            evaluations_max: self.evaluations,
            ..Options::new(self.seed)
        };
        let found = threads::find(&problem, &options, 1, f64::MAX).map_err(Failure::run)?;
        case.lower_bound = Some(found.lower_bound);
        case.steps = Some(found.schedule.steps);
        case.method = Some(found.method);
        Ok(case)
    }

    /// The sets of faults to try, in ascending order: with `every`, only one of so many. Fails if
    /// they are too many.
    fn sets(&self, graph: &Topology) -> Result<Vec<Vec<Fault>>, Failure> {
        let nodes = graph.healthy_nodes().map(|node| graph.node_name(node));
        let nodes = nodes.filter(|name| Some(*name) != self.source.as_deref());
        let nodes: Vec<Fault> = nodes.map(|name| Fault::Node(name.to_owned())).collect();
        let of_links = subsets(&links_of(graph), usize::from(self.links))?;
        let of_nodes = subsets(&nodes, usize::from(self.nodes))?;
        let count = of_links.len().saturating_mul(of_nodes.len());
        let kept = count.div_ceil(self.every as usize);
        if kept > SETS_MAX {
            return Err(Failure::Usage(format!(
                "{kept} sets of faults are more than the limit of {SETS_MAX}; give --every {} or \
                 more, or fewer faults",
                count.div_ceil(SETS_MAX)
            )));
        }
        let all = of_links.iter().flat_map(|links| {
            of_nodes
                .iter()
                .map(|nodes| [&links[..], &nodes[..]].concat())
        });
        Ok(all.step_by(self.every as usize).collect())
    }

    fn print(&self, row: &impl Serialize) -> Result<(), Failure> {
        match self.json {
            true => record::print_json(row)?,
            false => record::print_table(row)?,
        }
        Ok(())
    }
}

/// Each link of a graph as a fault, in ascending order.
pub(super) fn links_of(graph: &Topology) -> Vec<Fault> {
    let channels = graph.channels().iter();
    let channels = channels.filter(|(from, to)| graph.is_directed() || from < to);
    let name = |node: usize| graph.node_name(node).to_owned();
    channels
        .map(|(from, to)| Fault::Link(name(*from), name(*to)))
        .collect()
}

/// All sets of this size, in ascending order.
fn subsets(all: &[Fault], size: usize) -> Result<Vec<Vec<Fault>>, Failure> {
    let mut sets: Vec<(usize, Vec<Fault>)> = vec![(0, Vec::new())];
    for _ in 0..size {
        let larger = sets.iter().flat_map(|(next, set)| {
            let more = (*next..all.len()).map(|place| (place, &all[place]));
            more.map(|(place, fault)| (place + 1, [&set[..], std::slice::from_ref(fault)].concat()))
        });
        // Up to 64 times the limit is listed, since `--every` skips some of the sets later.
        sets = larger.take(64 * SETS_MAX + 1).collect();
        if sets.len() > 64 * SETS_MAX {
            return Err(Failure::Usage(
                "the faults give too many sets; give a smaller --links or --nodes".to_owned(),
            ));
        }
    }
    Ok(sets.into_iter().map(|(_, set)| set).collect())
}

/// The greatest distance between two healthy nodes; none if one cannot reach another.
fn diameter(graph: &Topology) -> Option<usize> {
    let mut most = 0;
    for from in graph.healthy_nodes() {
        let distances = graph.distances_from(from);
        for to in graph.healthy_nodes() {
            most = most.max(distances[to]?);
        }
    }
    Some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(collective: CollectiveName, source: Option<&str>, graph: &str, links: u8) -> Row {
        let arguments = FaultsArguments {
            graph: graph.to_owned(),
            collective,
            source: source.map(str::to_owned),
            links,
            nodes: 0,
            every: 1,
            excess: 0,
            evaluations: 100_000,
            seed: 0,
            threads: Some(2),
            json: false,
        };
        arguments.measure().unwrap()
    }

    #[test]
    fn two_faults_of_a_ring_cut_it_and_one_doubles_its_diameter() {
        let one = row(CollectiveName::Oab, Some("0"), "ring:4", 1);
        assert_eq!((one.sets, one.refused, one.sets_apart), (4, 0, 0));
        assert_eq!(one.fault_diameter, Some(3));
        let two = row(CollectiveName::Oab, Some("0"), "ring:4", 2);
        assert_eq!((two.sets, two.refused, two.sets_apart), (6, 6, 6));
        assert_eq!((two.fault_diameter, two.steps_max), (None, None));
        assert!(two.cases.iter().all(|case| case.refused.is_some()));
    }

    #[test]
    fn all_pairs_of_links_of_the_paper_s_kautz_network_are_scheduled() {
        let two = row(CollectiveName::Oas, Some("01"), "kautz:3,2", 2);
        // A faulty link at the source costs it a third of its channels, two such links cost two
        // thirds. Then 11 messages share one channel.
        assert_eq!((two.sets, two.refused, two.steps_max), (630, 0, Some(11)));
        assert_eq!(two.sets_by_steps.values().sum::<usize>(), 630);
    }
}
