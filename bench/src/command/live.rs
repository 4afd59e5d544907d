//! `binomesh-bench live`: clusters of real `binomesh` processes on this machine, disturbed and
//! measured from outside.
//!
//! The only sources are the admin API, `/proc` and the nodes' subscribers. What counts as an
//! observation is decided in [`observation`] alone.

pub mod busy;
pub mod counters;
pub mod cut;
pub mod idle;
pub mod kill;
pub mod ledger;
pub mod observation;
pub mod partition;
pub mod pause;
pub mod receivers;
pub mod saturate;
pub mod setup;
pub mod stall;
pub mod uplink;
pub mod watch;

use clap::{Args, Subcommand};

use super::{Failure, Finding};

/// Measure clusters of real processes on this machine.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench live kill --nodes 32 --kill 1,4,30% --repeat 10
  binomesh-bench live pause --profile fast --json
  binomesh-bench live saturate --minutes 10
  binomesh-bench live partition --nodes 16 --seconds 30
  binomesh-bench live cut --nodes 64 --cut 10%
  binomesh-bench live stall --how paused
  binomesh-bench live uplink --nodes 16 --megabits 200
  binomesh-bench live idle --nodes 64 --minutes 5 --profile quiet

The nodes are processes of the program `binomesh` beside this one. The end of a run, also by
Ctrl-C, ends the nodes and removes their files. The exit status is 1 if the property that a
workload states did not hold, or if a run was not possible; stderr has the reason.")]
pub struct Live {
    /// What to do to the cluster.
    #[command(subcommand)]
    pub workload: Workload,
}

/// What to do to the cluster.
#[derive(Debug, Clone, Subcommand)]
pub enum Workload {
    /// Kill random nodes at once, and measure the time until the cluster has healed.
    Kill(kill::Kill),
    /// Stop a process for a short time, then for a long one, and let it continue.
    Pause(pause::Pause),
    /// Keep every core busy and count false verdicts.
    Saturate(saturate::Saturate),
    /// Cut the cluster into two halves for some time.
    Partition(partition::Partition),
    /// Silence some nodes, and broadcast at the same moment.
    Cut(cut::Cut),
    /// Stop one receiver, or its subscriber, during many broadcasts.
    Stall(stall::Stall),
    /// Send a file to all hosts over slow uplinks.
    Uplink(uplink::Uplink),
    /// Leave the cluster idle, and count bytes, processor time and changes.
    Idle(idle::Idle),
    /// Keep one core busy until standard input closes.
    #[command(hide = true)]
    Busy,
}

impl Live {
    /// Run the workload.
    pub fn run(self) -> Result<Finding, Failure> {
        match self.workload {
            Workload::Kill(kill) => setup::block_on(async |stop| kill.run(stop).await),
            Workload::Pause(mut pause) => {
                pause.setup.take_usual_grace();
                setup::block_on(async |stop| pause.run(stop).await)
            }
            Workload::Saturate(saturate) => setup::block_on(async |stop| saturate.run(stop).await),
            Workload::Partition(halves) => setup::block_on(async |stop| halves.run(stop).await),
            Workload::Cut(cut) => setup::block_on(async |stop| cut.run(stop).await),
            Workload::Stall(mut stall) => {
                stall.setup.take_usual_grace();
                setup::block_on(async |stop| stall.run(stop).await)
            }
            Workload::Uplink(mut uplink) => {
                uplink.setup.take_usual_grace();
                uplink.enter_namespace()?;
                setup::block_on(async |stop| uplink.run(stop).await)
            }
            Workload::Idle(idle) => {
                idle.enter_namespace()?;
                setup::block_on(async |stop| idle.run(stop).await)
            }
            Workload::Busy => busy::run(),
        }
    }
}
