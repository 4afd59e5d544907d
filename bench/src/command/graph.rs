//! `binomesh-bench graph`: facts about the binomial graph and others.

use binomesh_overlay::Population;
use binomesh_routing::sibling_tree::Fanout;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Failure, Finding};
use crate::parallel;
use crate::record::{self, Stopwatch};
use crate::topology::connectivity::vertex_connectivity;
use crate::topology::distance::Distances;
use crate::topology::failure::Trials;
use crate::topology::routing::Comparison;
use crate::topology::{Name, Topology};

/// Compare graphs by degree, distances, connectivity and random failures.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench graph --nodes 1024
  binomesh-bench graph --nodes 85 --graph sibling --fanout 4 --json
  binomesh-bench graph --check-routing 4096

The figures of a graph are these. degree: the most neighbours to which a node sends.
hops_mean: the mean length of the shortest paths between all ordered pairs.
vertex_connectivity: the fewest nodes whose removal separates some of the others, exact, by
maximum flows. failures_survived_99: the largest number of random failures up to which all
other nodes still reach each other in 99 of 100 trials; a larger number may go well again
when almost no node is left.

Links of Chord lead one way, since a node knows its fingers but not the nodes that point at
it; used both ways they are the binomial graph. Time grows with the square of --nodes:
seconds for 1024, some ten minutes for 16384.")]
pub struct Graph {
    /// The number of nodes.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(2..=i64::from(MOST)))]
    pub nodes: u32,
    /// The graphs, separated by commas [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    pub graph: Vec<Name>,
    /// The number of children of a node in the sibling tree.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=i64::from(Fanout::MAX)))]
    pub fanout: u32,
    /// The number of random sets of failures for each number of failed nodes.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub trials: u64,
    /// The seed of the random failures.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Instead compare the router `binomial` with breadth-first search, for every number of nodes
    /// up to this one.
    #[arg(long, value_name = "NODES", conflicts_with_all = ["nodes", "graph", "fanout", "trials", "seed"], value_parser = clap::value_parser!(u32).range(2..=i64::from(MOST)))]
    pub check_routing: Option<u32>,
    /// The number of threads [default: the number of processors].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: Option<u8>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// The largest graph, which bounds the time.
const MOST: u32 = 16_384;

/// The facts about one graph.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The name of the graph.
    pub graph: Name,
    /// The number of nodes.
    pub nodes: u32,
    /// How many children a node has, in the sibling tree.
    pub fanout: Option<u32>,
    /// The most neighbours that a node sends to.
    pub degree: usize,
    /// The greatest distance between two nodes. `None` if a node cannot reach another.
    pub diameter: Option<u32>,
    /// The mean distance between two nodes. `None` if a node cannot reach another, or if there is
    /// only one node.
    pub hops_mean: Option<f64>,
    /// The fewest nodes whose removal disconnects the others.
    pub vertex_connectivity: usize,
    /// The largest number of random failures up to which the other nodes still all reach each
    /// other, in 99 of 100 trials.
    pub failures_survived_99: u32,
    /// How many trials each number of failures had.
    pub trials: u64,
    /// The seed of the failures.
    pub seed: u64,
    /// The real time of the run.
    pub wall_seconds: f64,
    /// The version of the code that ran.
    pub version: &'static str,
}

/// A comparison of the router `binomial` with breadth-first search.
#[derive(Debug, Clone, Serialize)]
pub struct RoutingRow {
    /// The graph that was compared.
    pub graph: Name,
    /// The largest number of nodes; every number from 1 on was compared.
    pub nodes: u32,
    /// How many pairs of source and destination were compared, up to symmetry.
    pub distances: u64,
    /// For how many pairs of source and destination router and search differ.
    pub distances_differing: u64,
    /// The smallest number of nodes with which router and search differ for a pair.
    pub first_differing_nodes: Option<u32>,
    /// The mean distance by the router, with the most nodes.
    pub hops_mean: f64,
    /// The mean distance by the search, with the most nodes.
    pub shortest_mean: f64,
    /// The real time of the run.
    pub wall_seconds: f64,
    /// The version of the code that ran.
    pub version: &'static str,
}

impl Graph {
    /// Compute the facts and print their rows.
    pub fn run(self) -> Result<Finding, Failure> {
        if let Some(most) = self.check_routing {
            let row = self.compare_routing(most);
            self.print(&row)?;
            return Ok(Finding::good_if(row.distances_differing == 0));
        }
        let all = Name::value_variants();
        let chosen = all
            .iter()
            .filter(|name| self.graph.is_empty() || self.graph.contains(name));
        for name in chosen {
            let row = self.measure(*name).map_err(Failure::Usage)?;
            self.print(&row)?;
        }
        Ok(Finding::Good)
    }

    /// The facts about one graph, or the parameter that is out of range.
    pub fn measure(&self, name: Name) -> Result<Row, String> {
        let watch = Stopwatch::start();
        let topology = self.topology(name)?;
        let threads = self.threads();
        let tell = |what: &'static str| {
            move |done: u64, all: u64| {
                record::progress(format_args!("{name:?}: {what}, {done} of {all}"));
            }
        };
        let distances = Distances::of(&topology, threads, tell("distances"));
        let trials = self.trials();
        Ok(Row {
            graph: name,
            nodes: self.nodes,
            fanout: (name == Name::Sibling).then_some(self.fanout),
            degree: topology.degree(),
            diameter: distances.map(|found| found.diameter),
            hops_mean: distances.and_then(|found| found.mean),
            vertex_connectivity: vertex_connectivity(&topology, threads, tell("flows")),
            failures_survived_99: trials.survived(&topology, 0.99, |failures| {
                record::progress(format_args!("{name:?}: {failures} failures"));
            }),
            trials: trials.count,
            seed: trials.seed,
            wall_seconds: watch.elapsed().as_secs_f64(),
            version: record::VERSION,
        })
    }

    /// Compare the router `binomial` with breadth-first search, with 1 to `most` nodes.
    pub fn compare_routing(&self, most: u32) -> RoutingRow {
        let watch = Stopwatch::start();
        let sizes = (1..=most).filter_map(Population::new);
        let sizes: Vec<Population> = sizes.collect();
        let found = parallel::map(
            sizes.len() as u64,
            self.threads(),
            |place| Comparison::of(sizes[place as usize]),
            |_| false,
            |done| record::progress(format_args!("{} of {most} sizes", done.len())),
        );
        let differing = found.values().map(|one| u64::from(one.differing)).sum();
        let mut wrong = sizes
            .iter()
            .zip(found.values())
            .filter(|(_, one)| one.differing > 0);
        let mean = |sum: fn(&Comparison) -> u64| {
            let last = found.values().last();
            last.map_or(0.0, |one| {
                sum(one) as f64 / f64::from(one.destinations.max(1))
            })
        };
        RoutingRow {
            graph: Name::Bmg,
            nodes: most,
            distances: found.values().map(|one| u64::from(one.destinations)).sum(),
            distances_differing: differing,
            first_differing_nodes: wrong.next().map(|(size, _)| size.get()),
            hops_mean: mean(|one| one.routed),
            shortest_mean: mean(|one| one.shortest),
            wall_seconds: watch.elapsed().as_secs_f64(),
            version: record::VERSION,
        }
    }

    /// The facts about the one graph that the options name.
    pub fn only(&self) -> Result<Row, String> {
        match self.graph[..] {
            [name] => self.measure(name),
            _ => Err("--graph: expected the name of one graph".to_owned()),
        }
    }

    /// A graph with these parameters, or the parameter that is out of range.
    pub fn topology(&self, name: Name) -> Result<Topology, String> {
        let population =
            Population::new(self.nodes).ok_or("--nodes: expected 1 to 16777216 nodes")?;
        let fanout = Fanout::new(self.fanout).ok_or("--fanout: expected 2 to 16777216 children")?;
        Ok(Topology::new(name, population, fanout))
    }

    /// The random failures of these parameters.
    pub fn trials(&self) -> Trials {
        Trials {
            count: self.trials,
            seed: self.seed,
            threads: self.threads(),
        }
    }

    fn threads(&self) -> u8 {
        self.threads.unwrap_or_else(parallel::processors)
    }

    fn print(&self, row: &impl Serialize) -> Result<(), Failure> {
        record::progress_done();
        if self.json {
            record::print_json(row)?;
        } else {
            record::print_table(row)?;
        }
        Ok(())
    }
}
