//! `binomesh-bench evolution`: the evolutionary search of [EVO] by itself.

use binomesh_routing::schedule::search::{Evolution as Outcome, evolve};
use binomesh_routing::schedule::{Collective, Problem, Request, bounds};
use clap::Args;
use serde::Serialize;

use super::schedule::{CollectiveName, topology};
use super::{Failure, Finding};
use crate::parallel;
use crate::record::{self, Stopwatch};

/// Measure how often the evolutionary search of [EVO] succeeds, and how it progresses.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench evolution --graph kautz:3,2 --collective oas --source 01
  binomesh-bench evolution --graph ring:8 --collective aas --seeds 1 --generations 64 --json

Each search looks for a schedule with --steps steps, from a seed of its own. A search that
finds one within --generations succeeds. conflicts_least and conflicts_mean are the
conflicts of the best and of the average chromosome in the last generation, averaged over
the seeds.")]
pub struct Evolution {
    /// The graph, in the notation of `schedule`.
    #[arg(long)]
    pub graph: String,
    /// The collective communication.
    #[arg(long, value_enum)]
    pub collective: CollectiveName,
    /// The node that sends the message or messages of oab and oas, or that receives those of aog.
    #[arg(long, value_name = "NODE")]
    pub source: Option<String>,
    /// The number of steps of the schedule [default: the lower bound].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub steps: Option<u32>,
    /// The most generations, each of 60 chromosomes of which 30 are new.
    #[arg(long, default_value_t = 2000)]
    pub generations: u64,
    /// The number of searches.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// The seed of the first search. Each later search has the next seed.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The number of searches that run at once [default: the number of processors].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: Option<u8>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// The results of all searches.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The name of the graph.
    pub graph: String,
    /// The kind of the collective.
    pub collective: Collective,
    /// The source, or the root of a gather.
    pub source: Option<String>,
    /// The number of steps that was looked for.
    pub steps: u32,
    /// The lower bound: no schedule has fewer steps.
    pub lower_bound: u32,
    /// How many searches there were.
    pub seeds: u64,
    /// How many searches found a schedule.
    pub succeeded: u64,
    /// The share of searches that found a schedule.
    pub success_rate: f64,
    /// The limit of the generations of one search.
    pub generations_max: u64,
    /// The mean number of generations of a search.
    pub generations_mean: f64,
    /// The conflicts of the best chromosome of the last generation, averaged over the searches.
    pub conflicts_least: f64,
    /// The mean conflicts of a chromosome of the last generation, averaged over the searches.
    pub conflicts_mean: f64,
    /// The seed of the first search.
    pub seed: u64,
    /// The real time of the run.
    pub wall_seconds: f64,
    /// The version of the code that ran.
    pub version: &'static str,
}

impl Evolution {
    /// Run the command and print its row.
    pub fn run(self) -> Result<Finding, Failure> {
        let row = self.measure()?;
        record::progress_done();
        match self.json {
            true => record::print_json(&row)?,
            false => record::print_table(&row)?,
        }
        Ok(Finding::Good)
    }

    /// Search with each seed.
    pub fn measure(&self) -> Result<Row, Failure> {
        let watch = Stopwatch::start();
        let request = Request::paper(self.collective.into(), self.source.clone());
        let problem = Problem::new(topology(&self.graph)?, request);
        let problem = problem.map_err(|error| Failure::Usage(error.to_string()))?;
        let lower_bound = bounds::lower_bound(&problem);
        let steps = self.steps.unwrap_or(lower_bound);
        let threads = self.threads.unwrap_or_else(parallel::processors);
        let search = |number| {
            let seed = self.seed.wrapping_add(number);
            evolve(&problem, steps, seed, self.generations, &mut || true)
        };
        let outcomes = parallel::map(
            self.seeds,
            threads,
            search,
            |_| false,
            |done| record::progress(format_args!("{} of {} seeds", done.len(), self.seeds)),
        );
        let mean = |of: &dyn Fn(&Outcome) -> f64| {
            outcomes.values().map(of).sum::<f64>() / self.seeds as f64
        };
        let is_schedule = |one: &&Outcome| one.conflicts_least == 0;
        let succeeded = outcomes.values().filter(is_schedule).count() as u64;
        Ok(Row {
            graph: self.graph.clone(),
            collective: self.collective.into(),
            source: self.source.clone(),
            steps,
            lower_bound,
            seeds: self.seeds,
            succeeded,
            success_rate: succeeded as f64 / self.seeds as f64,
            generations_max: self.generations,
            generations_mean: mean(&|one| one.generations as f64),
            conflicts_least: mean(&|one| f64::from(one.conflicts_least)),
            conflicts_mean: mean(&|one| one.conflicts_mean),
            seed: self.seed,
            wall_seconds: watch.elapsed().as_secs_f64(),
            version: record::VERSION,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(generations: u64) -> Row {
        let evolution = Evolution {
            graph: "ring:8".to_owned(),
            collective: CollectiveName::Oab,
            source: Some("0".to_owned()),
            steps: None,
            generations,
            seeds: 6,
            seed: 0,
            threads: Some(2),
            json: false,
        };
        evolution.measure().unwrap()
    }

    #[test]
    fn more_generations_leave_fewer_conflicts_and_more_successes() {
        let (few, many) = (row(0), row(1000));
        assert_eq!((few.steps, few.generations_mean), (2, 0.0));
        assert!(few.conflicts_mean > few.conflicts_least);
        assert!(many.conflicts_least < few.conflicts_least);
        assert!(many.succeeded > few.succeeded);
        assert_eq!(many.succeeded as f64 / 6.0, many.success_rate);
    }
}
