//! `binomesh-bench collectives`: the cost of a decided collective, compared with a broadcast with
//! receipt in the same run, and with Open MPI over TCP.
//!
//! All nodes are in this process, as with `peers`. Every member calls, and begins its next call
//! when it has the outcome. The latency of a call is the time from the call to its outcome.

mod mpi;
mod world;

use std::time::Duration;

use binomesh::{CollectiveOutcome, Node, Profile, SendOptions};
use bytes::Bytes;
use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;

use super::peers::cluster::Network;
use super::peers::credentials::CredentialsFolder;
use super::{Failure, Finding};
use crate::record::{self, Stopwatch};

/// Measure barriers, all-reduces and all-gathers of live nodes.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench collectives
  binomesh-bench collectives --nodes 64 --rounds 100 --json
  binomesh-bench collectives --nodes 16 --mpi
  binomesh-bench collectives --world --nodes 1024

A row per operation: {nodes, system, operation, bytes, rounds, p50_ms, p99_ms, mean_ms,
ratio_to_broadcast}. `mean_ms` is the time of all rounds, one after the other, divided by
the number of rounds. The ratio is that of the median to the median of a broadcast of 1 KiB
with its receipt in the same run. --mpi needs the packages openmpi-bin, libopenmpi-dev and
gcc. The ranks of MPI are processes that yield the processor while they wait, and do not
encrypt.")]
pub struct Collectives {
    /// The number of nodes.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub nodes: u32,
    /// How eagerly the nodes watch each other.
    #[arg(long, default_value_t = Profile::Default)]
    pub profile: Profile,
    /// The number of times that each operation is measured.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
    /// The number of bytes of the value of each member in the all-gather.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=65536))]
    pub bytes: u32,
    /// Also measure the barrier and the all-reduce of Open MPI, with one rank for each node.
    #[arg(long)]
    pub mpi: bool,
    /// Simulate whole peers in virtual time instead, in a network without faults, and count the
    /// messages and the virtual time of one operation of each kind.
    #[arg(long, conflicts_with_all = ["mpi", "rounds", "profile"])]
    pub world: bool,
    /// The seed of the simulated world.
    #[arg(long, default_value_t = 1, requires = "world")]
    pub seed: u64,
    /// Print JSON, one row per line.
    #[arg(long)]
    pub json: bool,
}

/// The cost of one operation.
#[derive(Debug, Clone, Serialize)]
struct Row {
    nodes: u32,
    system: &'static str,
    operation: &'static str,
    bytes: u32,
    rounds: u32,
    p50_ms: f64,
    p99_ms: f64,
    mean_ms: f64,
    ratio_to_broadcast: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Barrier,
    AllReduce,
    AllGather,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Barrier, Self::AllReduce, Self::AllGather];

    const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
        }
    }

    const fn bytes(self, wanted: u32) -> u32 {
        match self {
            Self::Barrier => 0,
            Self::AllReduce => 8,
            Self::AllGather => wanted,
        }
    }
}

impl Collectives {
    /// Measure all operations and print their rows.
    pub fn run(&self) -> Result<Finding, Failure> {
        if self.world {
            return self.run_world();
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.enable_all().build().map_err(Failure::run)?;
        let mut rows = runtime.block_on(self.measure())?;
        if self.mpi {
            let broadcast = rows.first().map_or(0.0, |row| row.p50_ms);
            rows.extend(mpi::measure(self.nodes, self.rounds, broadcast)?);
        }
        match self.json {
            true => rows.iter().try_for_each(record::print_json)?,
            false => print_table(&rows)?,
        }
        Ok(Finding::Good)
    }

    fn run_world(&self) -> Result<Finding, Failure> {
        for row in world::measure(self.nodes, self.bytes, self.seed)? {
            match self.json {
                true => record::print_json(&row)?,
                false => record::print_line(&row.line())?,
            }
        }
        Ok(Finding::Good)
    }

    async fn measure(&self) -> Result<Vec<Row>, Failure> {
        let home = CredentialsFolder::new(self.nodes, self.profile, false)?;
        let network = Network::form(&home, 1 << 20, false).await?;
        let nodes = network.nodes();
        let mut rows = Vec::new();
        record::progress(format_args!("broadcast"));
        self.broadcasts(nodes, self.rounds / 10 + 1).await?;
        let (latencies, time) = self.broadcasts(nodes, self.rounds).await?;
        rows.push(self.row("broadcast with receipt", 1024, latencies, time, None));
        let base = rows.first().map(|row| row.p50_ms);
        for operation in Operation::ALL {
            record::progress(format_args!("{}", operation.name()));
            self.rounds_of(nodes, operation, "warm", self.rounds / 10 + 1)
                .await?;
            let (latencies, time) = self
                .rounds_of(nodes, operation, "measured", self.rounds)
                .await?;
            let bytes = operation.bytes(self.bytes);
            rows.push(self.row(operation.name(), bytes, latencies, time, base));
        }
        record::progress_done();
        Ok(rows)
    }

    async fn broadcasts(
        &self,
        nodes: &[Node],
        rounds: u32,
    ) -> Result<(Vec<Duration>, Duration), Failure> {
        let payload = Bytes::from(vec![7; 1024]);
        let watch = Stopwatch::start();
        let mut latencies = Vec::new();
        for _ in 0..rounds {
            let watch = Stopwatch::start();
            let receipt = nodes[0].publish(payload.clone(), SendOptions::default());
            let receipt = receipt.await.map_err(Failure::run)?;
            if receipt.reached_count != receipt.expected_count {
                return Err(Failure::Run(
                    "a broadcast did not reach all nodes".to_owned(),
                ));
            }
            latencies.push(watch.elapsed());
        }
        Ok((latencies, watch.elapsed()))
    }

    /// Let all nodes call, one round after the other. Each node begins the next round when it has
    /// the outcome.
    async fn rounds_of(
        &self,
        nodes: &[Node],
        operation: Operation,
        phase: &'static str,
        rounds: u32,
    ) -> Result<(Vec<Duration>, Duration), Failure> {
        let watch = Stopwatch::start();
        let mut members = JoinSet::new();
        for node in nodes {
            let (node, bytes) = (node.clone(), operation.bytes(self.bytes));
            members.spawn(calls(node, operation, phase, rounds, bytes));
        }
        let mut latencies = Vec::new();
        while let Some(ended) = members.join_next().await {
            latencies.extend(ended.map_err(Failure::run)??);
        }
        Ok((latencies, watch.elapsed()))
    }

    fn row(
        &self,
        operation: &'static str,
        bytes: u32,
        mut latencies: Vec<Duration>,
        time: Duration,
        broadcast: Option<f64>,
    ) -> Row {
        latencies.sort_unstable();
        let at = |percent: usize| {
            let place = (latencies.len().saturating_sub(1)) * percent / 100;
            latencies.get(place).copied().unwrap_or_default()
        };
        let p50_ms = milliseconds(at(50));
        Row {
            nodes: self.nodes,
            system: "binomesh",
            operation,
            bytes,
            rounds: self.rounds,
            p50_ms,
            p99_ms: milliseconds(at(99)),
            mean_ms: milliseconds(time) / f64::from(self.rounds),
            ratio_to_broadcast: p50_ms / broadcast.unwrap_or(p50_ms),
        }
    }
}

async fn calls(
    node: Node,
    operation: Operation,
    phase: &'static str,
    rounds: u32,
    bytes: u32,
) -> Result<Vec<Duration>, Failure> {
    let name = format!("{}-{phase}", operation.name());
    let value = Bytes::from(vec![1; bytes as usize]);
    let mut latencies = Vec::new();
    for round in 0..rounds {
        let watch = Stopwatch::start();
        let call = node.collective(&name).generation(round.into());
        let outcome = match operation {
            Operation::Barrier => call.barrier().await,
            Operation::AllReduce => {
                let op = "sum:u64".parse().map_err(Failure::run)?;
                call.all_reduce(value.clone(), op).await
            }
            Operation::AllGather => call.all_gather(value.clone()).await,
        };
        check(&outcome.map_err(Failure::run)?)?;
        latencies.push(watch.elapsed());
    }
    Ok(latencies)
}

fn check(outcome: &CollectiveOutcome) -> Result<(), Failure> {
    match outcome.agreed && outcome.missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!(
            "the collective {}, generation {}, ended without these members: {:?}",
            outcome.name, outcome.generation, outcome.missing
        ))),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn print_table(rows: &[Row]) -> Result<(), Failure> {
    let head = format!(
        "{:<10} {:<24} {:>6} {:>9} {:>9} {:>9} {:>8}",
        "system", "operation", "bytes", "p50 ms", "p99 ms", "mean ms", "ratio"
    );
    record::print_line(&head)?;
    for row in rows {
        record::print_line(&format!(
            "{:<10} {:<24} {:>6} {:>9.3} {:>9.3} {:>9.3} {:>8.2}",
            row.system,
            row.operation,
            row.bytes,
            row.p50_ms,
            row.p99_ms,
            row.mean_ms,
            row.ratio_to_broadcast
        ))?;
    }
    Ok(())
}
