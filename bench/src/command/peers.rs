//! `binomesh-bench peers`: the cost of delivery, compared with bare QUIC in the same run.
//!
//! ```text
//!   star    node 0 ──QUIC──▶ every other           no relaying at all
//!   tree    node 0 ──QUIC──▶ 1, 2 ──▶ 3 … 6 ──▶    chunks passed on as they come
//!   ours    a cluster, broadcasts with receipts, to a listener on each node
//! ```
//!
//! Without `--processes`, all nodes of a system are in this process, with the same transport
//! settings. Each core has a runtime with one thread, and the nodes are shared out among these.
//! Messages are sent from a thread of their own. The systems take turns with each workload, in
//! reverse order in every other repeat. A ratio compares neighbours in time, so a change of the
//! machine's speed affects both alike.

mod arrivals;
mod bare;
mod callgrind;
pub(super) mod cluster;
pub(super) mod credentials;
mod figures;
mod file;
mod instructions;
mod measure;
mod processes;
mod runtimes;
mod stretches;

use binomesh::Profile;
use clap::Args;

use super::{Failure, Finding};
use crate::hosts::namespace;
use crate::record;
use credentials::CredentialsFolder;
use figures::{Figures, System};
use measure::{Task, Workload};
pub use processes::node::PeersNode;

/// Compare broadcasts with bare QUIC in throughput, latency, processor time and bytes.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench peers --floor
  binomesh-bench peers --floor --nodes 64 --repeat 5 --json
  binomesh-bench peers --workload 64KiB
  binomesh-bench peers --floor --workload 1MiB --file-mib 256
  binomesh-bench peers --floor --instructions --nodes 8 --profile quiet --workload 1KiB
  binomesh-bench peers --nodes 1024 --profile quiet --repeat 1 --workload 1KiB
  binomesh-bench peers --processes --rounds 10 --workload 1KiB,64KiB --json

A row per figure: {system, nodes, workload, figure, value, min, max, unit, ratio_to_tree,
ratio_min, ratio_max, ratio_quartiles}; value is the median of the repeats, and the ratio
that of their ratios to the tree measured just before or after. Node 0 sends: one message
after the other for latency (until the last node has the message), and back to back for all
other figures. Binomesh waits for its receipts; the other systems have none. The run has a
network namespace of its own if possible (package iproute2, and root or user namespaces),
and the loopback interface of the namespace carries only the packets of the run.

With --processes each node of each system is a process of its own with one thread, like a
daemon, and star and tree are measured as well. For latency, a message is then sent when
the last one has its receipt, and at least N times (0.2 ms and 4 ns per byte) after it was
sent, for N nodes. Idle figures are measured in the seconds after the last message.")]
pub struct Peers {
    /// Measure a bare QUIC star and a bare static binary tree as well.
    #[arg(long)]
    pub floor: bool,
    /// Run each node in a process of its own, also the nodes of a bare star and tree.
    #[arg(long, conflicts_with_all = ["queued", "file_mib", "volume_mib", "instructions", "stretches_of"])]
    pub processes: bool,
    /// The number of nodes.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub nodes: u32,
    /// How closely the nodes of Binomesh watch each other: default, fast or quiet. With hundreds of
    /// nodes on a few cores choose quiet, since the beats of the default profile use all processor
    /// time.
    #[arg(long, default_value_t = Profile::Default)]
    pub profile: Profile,
    /// Let the nodes of Binomesh sign their messages and refuse unsigned ones.
    #[arg(long)]
    pub signatures: bool,
    /// The number of times that each system is formed and measured with each workload. With an even
    /// number, each system is measured before the tree as often as after it.
    #[arg(long, visible_alias = "rounds", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// The sizes of the messages, such as 1KiB, 64KiB or 1MiB, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1KiB,64KiB,1MiB")]
    pub workload: Vec<Workload>,
    /// Also send a file of this number of MiB to all nodes: once as messages of 256 KiB, and with
    /// Binomesh also as a push that is checked and forgotten, and as a push to disk.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub file_mib: Option<u32>,
    /// The volume of all deliveries in a measurement of throughput, in MiB, with at most 2,000,000
    /// deliveries.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub volume_mib: u32,
    /// The most MiB of messages of Binomesh that wait for their receipts when messages are sent
    /// back to back, in at most 4,096 messages. One message may always wait. The tree has some 512
    /// KiB on the way at each of its links.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub window_mib: u32,
    /// Let the receivers of Binomesh take messages from a queue, each in a task of its own, instead
    /// of in a function that the node calls.
    #[arg(long)]
    pub queued: bool,
    /// How many seconds messages are sent back to back, with --processes.
    #[arg(long, default_value_t = 2.0, value_parser = seconds, requires = "processes")]
    pub seconds: f64,
    /// How many seconds no message is sent and the wake-ups of the nodes are counted, with
    /// --processes; 0 leaves out this count.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3600), requires = "processes")]
    pub idle_seconds: u64,
    /// How long one system may take for one measurement, with --processes beyond the time in
    /// which it sends.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout_seconds: u64,
    /// Also count the processor instructions per delivery with valgrind (package valgrind), of
    /// Binomesh and with --floor of the tree. Other load on the machine does not change this count.
    /// The run is some fifty times slower, so choose few nodes and the quiet profile.
    #[arg(long)]
    pub instructions: bool,
    /// The system that valgrind runs for --instructions.
    #[arg(long, hide = true, value_name = "SYSTEM")]
    pub stretches_of: Option<System>,
    /// Print JSON, one row per line.
    #[arg(long)]
    pub json: bool,
}

impl Peers {
    /// Measure all systems and print the rows.
    pub fn run(&self) -> Result<Finding, Failure> {
        if let Some(system) = self.stretches_of {
            runtime()?.block_on(stretches::run(system, self))?;
            return Ok(Finding::Good);
        }
        if self.processes {
            let figures = runtime()?.block_on(processes::measure(self))?;
            return self.print(&figures);
        }
        if self.instructions {
            instructions::require_valgrind()?;
        }
        if let Err(reason) = namespace::enter() {
            record::note(format_args!(
                "note: wire figures count all packets on the loopback interface: {reason}"
            ));
        }
        let mut figures = runtime()?.block_on(self.measure())?;
        if self.instructions {
            instructions::count(self, &mut figures)?;
        }
        self.print(&figures)
    }

    fn print(&self, figures: &Figures) -> Result<Finding, Failure> {
        let rows = figures.rows(self.nodes, self.queued);
        match self.json {
            true => rows.iter().try_for_each(record::print_json)?,
            false => figures::print_table(&rows)?,
        }
        Ok(Finding::Good)
    }

    /// The tasks that each system is measured with.
    fn tasks(&self) -> impl Iterator<Item = Task<'_>> {
        let workloads = self.workload.iter().map(Task::Workload);
        workloads.chain(self.file_mib.map(Task::File))
    }

    async fn measure(&self) -> Result<Figures, Failure> {
        let home = CredentialsFolder::new(self.nodes, self.profile, self.signatures)?;
        let systems: &[System] = match self.floor {
            true => &[System::Star, System::Tree, System::Ours],
            false => &[System::Ours],
        };
        let mut figures = Figures::default();
        for turn in 0..self.repeat {
            for task in self.tasks() {
                for system in order(systems, turn) {
                    let (name, of) = (system.name(), self.repeat);
                    record::progress(format_args!("{task}: {name}, {} of {of}", turn + 1));
                    let mut round = measure::Round {
                        system,
                        peers: self,
                        home: &home,
                        figures: &mut figures,
                    };
                    round.run(task).await?;
                }
            }
        }
        record::progress_done();
        Ok(figures)
    }
}

/// The order of the systems, reversed in every other turn.
fn order(systems: &[System], turn: u32) -> Vec<System> {
    let mut order = systems.to_vec();
    if turn % 2 == 1 {
        order.reverse();
    }
    order
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.01..=600.0).contains(seconds));
    seconds.ok_or_else(|| "expected a number from 0.01 to 600".to_owned())
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(Failure::run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_is_as_often_before_its_neighbour_as_after_it() {
        let systems = [System::Star, System::Tree, System::Ours];
        assert_eq!(order(&systems, 2), systems);
        assert_eq!(
            order(&systems, 3),
            [System::Ours, System::Tree, System::Star]
        );
    }
}
