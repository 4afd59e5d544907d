//! `binomesh-bench reschedule`: a search after a fault, from the old schedule and from
//! scratch.

use binomesh_routing::schedule::search::{Found, Method, Options};
use binomesh_routing::schedule::{self, Collective, Fault, Problem, Request, bounds};
use clap::Args;
use serde::Serialize;

use super::faults::links_of;
use super::schedule::{CollectiveName, threads, topology};
use super::{Failure, Finding};
use crate::record::{self, Stopwatch};

/// How often a search is repeated to measure its time. The median counts.
const TIMINGS: usize = 5;

/// Search for a schedule after a fault, from the old schedule and from scratch.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench reschedule --graph kautz:3,2 --collective aab --seed 3 --json
  binomesh-bench reschedule --graph mesh:4x4 --collective aas --fault link:11-12

Both searches are tabu search with the same seed and know the lower bound. The result of
each search is its number of evaluations and its time until it has a schedule with as many
steps as the final schedule from scratch. With --told both searches know this number of
steps beforehand and do not look for fewer. bound_seconds is the time of the lower bound,
the same for both searches. Without --fault, the fault is another link for each seed.")]
pub struct Reschedule {
    /// The graph, in the notation of `schedule`.
    #[arg(long)]
    pub graph: String,
    /// The collective communication.
    #[arg(long, value_enum)]
    pub collective: CollectiveName,
    /// The node that sends the message or messages of oab and oas, or that receives those of aog.
    #[arg(long, value_name = "NODE")]
    pub source: Option<String>,
    /// The fault [default: a link that the seed chooses].
    #[arg(long, value_name = "FAULT")]
    pub fault: Option<Fault>,
    /// Give both searches the number of steps that is enough.
    #[arg(long)]
    pub told: bool,
    /// The most evaluations of each search.
    #[arg(long, default_value_t = 20_000_000)]
    pub evaluations: u64,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// The comparison of the two searches.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The name of the graph.
    pub graph: String,
    /// The kind of the collective.
    pub collective: Collective,
    /// The source, or the root of a gather.
    pub source: Option<String>,
    /// The fault that was added.
    pub fault: Fault,
    /// Whether both searches were told how many steps are enough.
    pub told: bool,
    /// How many steps the old schedule has.
    pub steps_before: u32,
    /// The number of steps of the schedule from scratch. The one from the old schedule has no more.
    pub steps: u32,
    /// The lower bound: no schedule has fewer steps.
    pub lower_bound: u32,
    /// The method of both searches.
    pub method: Method,
    /// How many moves of the old schedule use the broken link or node.
    pub moves_broken: usize,
    /// The evaluations until the search from scratch had its best schedule.
    pub scratch_evaluations: u64,
    /// The evaluations until the search from the old schedule had its best schedule.
    pub old_evaluations: u64,
    /// `old_evaluations` divided by `scratch_evaluations`.
    pub evaluations_ratio: f64,
    /// The real time of a search from scratch that ends with its best schedule.
    pub scratch_seconds: f64,
    /// The real time of a search from the old schedule that ends with its best schedule.
    pub old_seconds: f64,
    /// `old_seconds` divided by `scratch_seconds`.
    pub seconds_ratio: f64,
    /// Real time for the lower bound.
    pub bound_seconds: f64,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The version of the code that ran.
    pub version: &'static str,
}

/// One of the two searches, with its time.
struct Arm {
    found: Found,
    seconds: f64,
}

impl Reschedule {
    /// Run both searches and print their row.
    pub fn run(self) -> Result<Finding, Failure> {
        let row = self.measure()?;
        record::progress_done();
        match self.json {
            true => record::print_json(&row)?,
            false => record::print_table(&row)?,
        }
        Ok(Finding::Good)
    }

    /// Run both searches.
    pub fn measure(&self) -> Result<Row, Failure> {
        let graph = topology(&self.graph)?;
        let links = links_of(&graph);
        let drawn = links[(self.seed.wrapping_mul(7) % links.len() as u64) as usize].clone();
        let fault = self.fault.clone().unwrap_or(drawn);
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
        let request = Request::paper(self.collective.into(), self.source.clone());
        let healthy = Problem::new(graph.clone(), request.clone());
        let healthy = healthy.map_err(|error| usage(&error))?;
        let rest = graph.with_faults(std::slice::from_ref(&fault));
        let rest = rest.map_err(|error| usage(&format!("--fault: {error}")))?;
        let problem = Problem::new(rest, request).map_err(|error| usage(&error))?;
        let options = Options {
            evaluations_max: self.evaluations,
            ..Options::new(self.seed)
        };
        let old = threads::find(&healthy, &options, 1, f64::MAX).map_err(Failure::run)?;
        let steps_before = old.schedule.steps;
        let broken = |one: &&schedule::Move| {
            let node = |name: &String| problem.graph().node(name).unwrap_or(0);
            let mut pairs = one.path.windows(2);
            pairs.any(|pair| {
                problem
                    .graph()
                    .channel(node(&pair[0]), node(&pair[1]))
                    .is_none()
            })
        };
        let moves_broken = old.schedule.moves.iter().filter(broken).count();
        let watch = Stopwatch::start();
        let lower_bound = bounds::lower_bound(&problem);
        let bound_seconds = watch.elapsed().as_secs_f64();
        let mut scratch = Options {
            method: Some(Method::Tabu),
            lower_bound: Some(lower_bound),
            ..options
        };
        let first = threads::find(&problem, &scratch, 1, f64::MAX).map_err(Failure::run)?;
        if self.told {
            scratch.steps_enough = first.schedule.steps;
        }
        let from_old = Options {
            start: Some(old.schedule),
            ..scratch.clone()
        };
        let scratch = arm(&problem, scratch, first.schedule.steps)?;
        let from_old = arm(&problem, from_old, first.schedule.steps)?;
        let evaluations = |arm: &Arm| arm.found.reached_after;
        Ok(Row {
            graph: self.graph.clone(),
            collective: self.collective.into(),
            source: self.source.clone(),
            fault,
            told: self.told,
            steps_before,
            steps: first.schedule.steps,
            lower_bound,
            method: Method::Tabu,
            moves_broken,
            scratch_evaluations: evaluations(&scratch),
            old_evaluations: evaluations(&from_old),
            evaluations_ratio: evaluations(&from_old) as f64 / evaluations(&scratch).max(1) as f64,
            scratch_seconds: scratch.seconds,
            old_seconds: from_old.seconds,
            seconds_ratio: from_old.seconds / scratch.seconds,
            bound_seconds,
            seed: self.seed,
            version: record::VERSION,
        })
    }
}

/// Search for a schedule, which must have at most `steps` steps. Then repeat the search to measure
/// its time. Each repeat stops after as many evaluations as led to the best schedule.
fn arm(problem: &Problem, options: Options, steps: u32) -> Result<Arm, Failure> {
    let search = |options: &Options| {
        let watch = Stopwatch::start();
        let found = schedule::search::find(problem, options, &mut |_| true);
        let found = found.map_err(Failure::run)?;
        Ok::<Arm, Failure>(Arm {
            found,
            seconds: watch.elapsed().as_secs_f64(),
        })
    };
    let whole = search(&options)?;
    if whole.found.schedule.steps > steps {
        return Err(Failure::Run(format!(
            "the search from the old schedule did not reach {} steps; give more --evaluations",
            steps
        )));
    }
    let cut = Options {
        evaluations_max: whole.found.reached_after.max(1),
        ..options
    };
    let mut arms = Vec::new();
    for _ in 0..TIMINGS {
        arms.push(search(&cut)?);
    }
    arms.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    Ok(arms.swap_remove(TIMINGS / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_schedule_spares_nine_evaluations_of_ten() {
        for told in [false, true] {
            let reschedule = Reschedule {
                graph: "kautz:3,2".to_owned(),
                collective: CollectiveName::Aab,
                source: None,
                fault: None,
                told,
                evaluations: 1_000_000,
                seed: 3,
                json: false,
            };
            let row = reschedule.measure().unwrap();
            assert_eq!((row.steps_before, row.steps, row.lower_bound), (4, 6, 6));
            assert!(
                row.moves_broken > 0 && row.evaluations_ratio < 0.1,
                "{row:?}"
            );
        }
    }
}
