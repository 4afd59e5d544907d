//! The command line of `binomesh-bench`: one file per subcommand.
//!
//! stdout has only data, with `--json` one object per line. Progress goes to stderr.

pub mod blocks;
pub mod chaos;
pub mod check;
pub mod collectives;
pub mod converge;
pub mod dashboards;
pub mod evolution;
pub mod faults;
pub mod figures;
pub mod graph;
pub mod heal;
pub mod hosts;
pub mod live;
pub mod peers;
mod planted;
pub mod reschedule;
pub mod route;
pub mod schedule;
pub mod verify;
mod world;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use binomesh_overlay::config::Pace;
use clap::{Parser, Subcommand};

use crate::hosts::HostError;
use crate::record::Unprinted;

/// Measure and check Binomesh.
#[derive(Debug, Parser)]
#[command(name = "binomesh-bench", version, about, propagate_version = true)]
pub struct Arguments {
    /// The subcommand to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands of `binomesh-bench`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate convergence to the ring and the binomial graph.
    Converge(converge::Converge),
    /// Model-check the ring and the fingers exhaustively on small trees.
    Check(check::Check),
    /// Crash, restart, pause and remove nodes under traffic, then check every promise.
    Chaos(chaos::Chaos),
    /// Disturb formed clusters once, and measure the time and the traffic of healing.
    Heal(heal::Heal),
    /// Measure clusters of real processes on this machine.
    Live(live::Live),
    /// Run nodes on hosts of their own, as network namespaces, and disturb their network.
    Hosts(hosts::Hosts),
    /// Check that running nodes together form the exact binomial graph.
    Verify(verify::Verify),
    /// Compare broadcasts with bare QUIC in throughput, latency, processor time and bytes.
    Peers(peers::Peers),
    /// Be one node of `peers --processes`.
    #[command(hide = true)]
    PeersNode(peers::PeersNode),
    /// Measure barriers, all-reduces and all-gathers of live nodes.
    Collectives(collectives::Collectives),
    /// Send blocks to all members over slow uplinks, in virtual time.
    Blocks(blocks::Blocks),
    /// Route round dead nodes, and count hops, steps and reached nodes.
    Route(route::Route),
    /// Compare graphs by degree, distances, connectivity and random failures.
    Graph(graph::Graph),
    /// Find and verify conflict-free schedules of collective communications.
    Schedule(schedule::ScheduleArguments),
    /// Schedule a collective for every set of a given number of faulty links or nodes.
    Faults(faults::FaultsArguments),
    /// Search for a schedule after a fault, from the old schedule and from scratch.
    Reschedule(reschedule::Reschedule),
    /// Measure how often the evolutionary search of [EVO] succeeds, and how it progresses.
    Evolution(evolution::Evolution),
    /// Draw the figures of the papers beside the claims of the papers, as SVG and one HTML report.
    Figures(figures::Figures),
    /// Draw the dashboards for Grafana from a Prometheus, as one HTML page.
    Dashboards(dashboards::Dashboards),
}

impl Arguments {
    /// Run the command. Exit status: 0 all right, 1 a check failed or the run could not be
    /// completed, 2 usage.
    pub fn run(self) -> ExitCode {
        let finding = match self.command {
            Command::Converge(converge) => converge.run(),
            Command::Check(check) => check.run(),
            Command::Chaos(chaos) => chaos.run(),
            Command::Heal(heal) => heal.run(),
            Command::Live(live) => live.run(),
            Command::Hosts(hosts) => hosts.run(),
            Command::Verify(verify) => verify.run(),
            Command::Peers(peers) => peers.run(),
            Command::PeersNode(node) => node.run(),
            Command::Collectives(peers) => peers.run(),
            Command::Blocks(blocks) => blocks.run(),
            Command::Route(route) => route.run(),
            Command::Graph(graph) => graph.run(),
            Command::Schedule(schedule) => schedule.run(),
            Command::Faults(faults) => faults.run(),
            Command::Reschedule(reschedule) => reschedule.run(),
            Command::Evolution(evolution) => evolution.run(),
            Command::Figures(figures) => figures.run(),
            Command::Dashboards(dashboards) => dashboards.run(),
        };
        match finding {
            Ok(Finding::Good) => ExitCode::SUCCESS,
            Ok(Finding::Bad) => ExitCode::from(1),
            Err(Failure::Usage(reason)) => {
                crate::record::note(format_args!(
                    "error: {reason}\n\nFor more information, try '--help'."
                ));
                ExitCode::from(2)
            }
            Err(Failure::Run(reason)) => {
                crate::record::note(format_args!("error: {reason}"));
                ExitCode::from(1)
            }
            // The reader of the output has closed it, as `head` does.
            Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                ExitCode::from(1)
            }
            Err(Failure::Output(error)) => {
                crate::record::note(format_args!("error: cannot write the output: {error}"));
                ExitCode::from(1)
            }
        }
    }
}

/// A round of healing: the default period of the beat, by which failure detection counts.
fn round() -> Duration {
    Pace::default().beat
}

/// The verdict of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Every check of the command held.
    Good,
    /// A check failed. A row, or a note on standard error, tells which.
    Bad,
}

impl Finding {
    /// `Good` if `is_good`, else `Bad`.
    pub const fn good_if(is_good: bool) -> Self {
        if is_good { Self::Good } else { Self::Bad }
    }
}

/// Why a command could not run.
#[derive(Debug)]
pub enum Failure {
    /// The arguments make no sense. Most commands find that before anything runs. The exit status
    /// is 2.
    Usage(String),
    /// The run could not be completed.
    Run(String),
    /// Rows could not be printed. The run itself may be complete.
    Output(std::io::Error),
}

impl Failure {
    /// A run that failed for the reason that `error` states.
    pub fn run(error: impl std::fmt::Display) -> Self {
        Self::Run(error.to_string())
    }

    /// A file in the folder of `--out` that could not be written.
    pub fn unwritable(path: &Path, error: &std::io::Error) -> Self {
        Self::Run(format!(
            "cannot write {}: {error}; give --out a folder in which you may write",
            path.display()
        ))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(reason) | Self::Run(reason) => f.write_str(reason),
            Self::Output(error) => error.fmt(f),
        }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error.is_usage() {
            true => Self::Usage(error.to_string()),
            false => Self::Run(error.to_string()),
        }
    }
}

impl From<Unprinted> for Failure {
    fn from(error: Unprinted) -> Self {
        Self::Output(error.0)
    }
}
