//! `binomesh-bench schedule`: conflict-free schedules of collective communications
//! ([EVO]), found and verified.

mod choices;
mod file;
mod layout;
mod picture;
pub(super) mod threads;

use std::path::{Path, PathBuf};

use binomesh_routing::schedule::search::{Method, Options};
use binomesh_routing::schedule::{
    self, BLOCKS_MAX, Collective, EXCESS_MAX, Fault, Model, Ports, Problem, Request, Schedule,
};
use clap::Args;
use serde::Serialize;

pub use choices::{CollectiveName, MethodName, ModelName, PortsName};
pub(super) use file::topology;

use file::{check_writable, read_schedule, write};

use super::{Failure, Finding};
use crate::parallel;
use crate::record::{self, Stopwatch};

/// Find and verify conflict-free schedules of collective communications.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench schedule --graph kautz:3,2 --collective aas --json
  binomesh-bench schedule --graph mesh:4x4 --collective oas --source 01 --excess 2
  binomesh-bench schedule --graph kautz:3,2 --collective aab --fault link:01-10 --out aab.json
  binomesh-bench schedule --verify aab.json
  binomesh-bench schedule --graph bmg:16 --collective oab --source 0 --model store-forward \\
      --ports one --blocks 8

Graphs: kautz:D,K  mesh:AxB  torus:AxB  ring:N  hypercube:D  bmg:N  sibling:K,N  spidergon:N
file:PATH, where PATH has an edge 'a b' (both directions) or 'a > b' (one) per line.
Nodes: words such as 01 (kautz), row and column such as 03 (mesh and torus; 3.11 if one side
is longer than 10), the names of the file, else numbers from 0.

Collectives: oab and aab, one-to-all and all-to-all broadcast; oas and aas, scatter; aog,
gather: there --source is the root. Messages are never combined.

The search stops when the lower bound is met: then 'optimal' is true, which is a proof. Else
it stops after --seconds. The same --seed and --threads find the same schedule, if they are
not stopped by time: of the threads that meet the bound, the one with the fewest evaluations
wins. Each thread has a seed and memory of its own.
Exit status: 0 all right, 1 a schedule that breaks a rule, or none found, 2 usage.")]
pub struct ScheduleArguments {
    /// The graph, as listed below.
    #[arg(long, required_unless_present = "verify")]
    pub graph: Option<String>,
    /// The collective communication.
    #[arg(
        long,
        value_enum,
        required_unless_present = "verify",
        conflicts_with = "verify"
    )]
    pub collective: Option<CollectiveName>,
    /// The node that sends the message or messages of oab and oas, or that receives those of aog.
    #[arg(long, value_name = "NODE")]
    pub source: Option<String>,
    /// The senders of aab, aas and aog; other nodes only relay [default: all healthy nodes].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub senders: Option<Vec<String>>,
    /// The receivers of all collectives but aog; other nodes only relay [default: all healthy
    /// nodes].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub receivers: Option<Vec<String>>,
    /// A faulty link or node: link:A-B (both directions of an undirected graph) or node:A.
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<Fault>,
    /// The model of the network: a message crosses a whole path in one step, or one hop per step.
    #[arg(long, value_enum, default_value = "wormhole")]
    pub model: ModelName,
    /// Whether a node sends and receives one message per step, or as many as it has channels.
    #[arg(long, value_enum, default_value = "all")]
    pub ports: PortsName,
    /// The number of channels that a path may have beyond those of a shortest path.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=i64::from(EXCESS_MAX)))]
    pub excess: u8,
    /// The number of blocks into which the message of oab is cut.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(BLOCKS_MAX)))]
    pub blocks: u32,
    /// Stop the search after this number of seconds.
    #[arg(long, default_value_t = 20.0, value_parser = seconds)]
    pub seconds: f64,
    /// Stop the search after this number of evaluations per thread.
    #[arg(long)]
    pub evaluations: Option<u64>,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The number of threads that search, each with a seed of its own [default: the number of
    /// processors].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: Option<u8>,
    /// Improve the schedule only by this method, if it applies [default: tabu and orbits after a
    /// greedy start].
    #[arg(long, value_enum)]
    pub method: Option<MethodName>,
    /// Begin from the schedule in this file, such as that of the graph before a fault.
    #[arg(long, value_name = "FILE")]
    pub start: Option<PathBuf>,
    /// Write the schedule to this file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Draw the schedule into this file, one panel per step.
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,
    /// Verify the schedule in this file instead of searching for one.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "out", "start", "source", "senders", "receivers", "faults", "model", "ports", "excess", "blocks",
        "seconds", "evaluations", "seed", "threads", "method",
    ])]
    pub verify: Option<PathBuf>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds, such as 20")?;
    match (0.0..=1e6).contains(&seconds) {
        true => Ok(seconds),
        false => Err("expected 0 to 1000000 seconds".to_owned()),
    }
}

/// The result of a search.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The name of the graph.
    pub graph: String,
    /// The kind of the collective.
    pub collective: Collective,
    /// The source, or the root of a gather.
    pub source: Option<String>,
    /// How many steps the schedule has.
    pub steps: u32,
    /// The lower bound: no schedule has fewer steps.
    pub lower_bound: u32,
    /// Whether steps and lower bound are equal.
    pub optimal: bool,
    /// The method that found the schedule.
    pub method: Method,
    /// The real time of the bound and the search.
    pub seconds: f64,
    /// How many (path, step) pairs or chromosomes the successful thread weighed.
    pub evaluations: u64,
    /// The number of moves of the schedule.
    pub moves: usize,
    /// The faulty links and nodes.
    pub faults: Vec<Fault>,
    /// How a message crosses the network.
    pub model: Model,
    /// How many messages a node sends and receives at once.
    pub ports: Ports,
    /// The number of channels that a path may have beyond those of a shortest path.
    pub excess: u8,
    /// The number of blocks of the message.
    pub blocks: u32,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of threads that searched.
    pub threads: u8,
    /// The version of the code that ran.
    pub version: &'static str,
}

/// The verdict of the verifier on a file.
#[derive(Debug, Clone, Serialize)]
pub struct Verification {
    /// The name of the graph.
    pub graph: String,
    /// The kind of the collective.
    pub collective: Collective,
    /// The source, or the root of a gather.
    pub source: Option<String>,
    /// How many steps the schedule has.
    pub steps: u32,
    /// How many moves the schedule has.
    pub moves: usize,
    /// Whether the schedule keeps all rules.
    pub valid: bool,
    /// The first rule that the schedule breaks.
    pub defect: Option<String>,
    /// The version of the code that ran.
    pub version: &'static str,
}

impl ScheduleArguments {
    /// Search for a schedule or verify one, and print the row.
    pub fn run(self) -> Result<Finding, Failure> {
        // A search may take long, so first check that its result can be written.
        for (flag, file) in [("--out", &self.out), ("--picture", &self.picture)] {
            if let Some(file) = file {
                check_writable(flag, file)?;
            }
        }
        if let Some(file) = &self.verify {
            let verdict = self.verdict(file)?;
            if verdict.valid {
                let remark = format!("{} steps", verdict.steps);
                self.draw(&read_schedule("--verify", file)?, remark)?;
            }
            self.print(&verdict)?;
            return Ok(Finding::good_if(verdict.valid));
        }
        let (row, found) = self.measure()?;
        record::progress_done();
        if let Some(file) = &self.out {
            let text = serde_json::to_string(&found).map_err(Failure::run)?;
            write("--out", file, &(text + "\n"))?;
        }
        let (steps, bound, method) = (row.steps, row.lower_bound, row.method);
        let remark = format!("{steps} steps, bound {bound}, found by {method}");
        self.draw(&found, remark)?;
        self.print(&row)?;
        Ok(Finding::Good)
    }

    /// Draw the schedule, if a picture was requested.
    fn draw(&self, schedule: &Schedule, remark: String) -> Result<(), Failure> {
        let Some(file) = &self.picture else {
            return Ok(());
        };
        let name = self.graph.as_ref().unwrap_or(&schedule.graph);
        let graph = &topology(name)?;
        let nodes = graph.node_count();
        let (panels_max, nodes_max) = (picture::PANELS_MAX, picture::NODES_MAX);
        if schedule.steps > panels_max || nodes > nodes_max {
            return Err(Failure::Usage(format!(
                "--picture: {nodes} nodes and {} steps are too many for a legible picture; at \
                 most {nodes_max} nodes and {panels_max} steps are drawn",
                schedule.steps
            )));
        }
        let picture = picture::Picture {
            schedule,
            graph,
            remark,
        };
        let svg = picture.draw().map_err(Failure::run)?;
        write("--picture", file, &svg)
    }

    /// Search for the best schedule. Returns the row to print, and the schedule.
    pub fn measure(&self) -> Result<(Row, Schedule), Failure> {
        let problem = self.problem()?;
        let options = self.options()?;
        let watch = Stopwatch::start();
        let threads = self.threads.unwrap_or_else(parallel::processors);
        let found = threads::find(&problem, &options, threads, self.seconds);
        let found = found.map_err(Failure::run)?;
        let is_optimal = found.is_optimal();
        let schedule = found.schedule;
        let row = Row {
            graph: schedule.graph.clone(),
            collective: schedule.collective,
            source: schedule.source.clone(),
            steps: schedule.steps,
            lower_bound: found.lower_bound,
            optimal: is_optimal,
            method: found.method,
            seconds: watch.elapsed().as_secs_f64(),
            evaluations: found.evaluations,
            moves: schedule.moves.len(),
            faults: schedule.faults.clone(),
            model: schedule.model,
            ports: schedule.ports,
            excess: schedule.excess,
            blocks: schedule.blocks,
            seed: self.seed,
            threads,
            version: record::VERSION,
        };
        // The searches and `verify` share no code, so this check finds an error of either.
        if let Err(defect) = schedule::verify(&schedule, &topology(&schedule.graph)?) {
            return Err(Failure::Run(format!(
                "the schedule that the method {} found breaks a rule: {defect}; this is a bug of \
                 binomesh-bench",
                found.method
            )));
        }
        Ok((row, schedule))
    }

    /// The verdict on the schedule in a file.
    pub fn verdict(&self, file: &Path) -> Result<Verification, Failure> {
        let schedule = read_schedule("--verify", file)?;
        let graph = self.graph.as_ref().unwrap_or(&schedule.graph);
        let defect = schedule::verify(&schedule, &topology(graph)?).err();
        Ok(Verification {
            graph: schedule.graph,
            collective: schedule.collective,
            source: schedule.source,
            steps: schedule.steps,
            moves: schedule.moves.len(),
            valid: defect.is_none(),
            defect: defect.map(|defect| defect.to_string()),
            version: record::VERSION,
        })
    }

    fn problem(&self) -> Result<Problem, Failure> {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
        let name = self.graph.as_deref().unwrap_or_default();
        let collective = self.collective;
        let collective = collective.ok_or_else(|| {
            usage(
                &"--collective: expected the name of a \
                                                          collective, such as oab",
            )
        })?;
        let graph = topology(name)?.with_faults(&self.faults);
        let graph = graph.map_err(|error| usage(&format!("--fault: {error}")))?;
        let request = Request {
            collective: collective.into(),
            source: self.source.clone(),
            senders: self.senders.clone(),
            receivers: self.receivers.clone(),
            model: self.model.into(),
            ports: self.ports.into(),
            excess: self.excess,
            blocks: self.blocks,
        };
        Problem::new(graph, request).map_err(|error| usage(&error))
    }

    fn options(&self) -> Result<Options, Failure> {
        let start = self.start.as_ref();
        let start = start
            .map(|file| read_schedule("--start", file))
            .transpose()?;
        Ok(Options {
            start,
            method: self.method.map(Method::from),
            evaluations_max: self.evaluations.unwrap_or(u64::MAX),
            ..Options::new(self.seed)
        })
    }

    fn print(&self, row: &impl Serialize) -> Result<(), Failure> {
        if self.json {
            record::print_json(row)?;
        } else {
            record::print_table(row)?;
        }
        Ok(())
    }
}
