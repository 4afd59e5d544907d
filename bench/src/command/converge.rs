//! `binomesh-bench converge`: the arena, from a clean start or arbitrary states.

mod arbitrary;
mod clique;
mod graph;
mod single_faults;
mod sizes;
mod tallies;

use binomesh::graph::Graph;
use binomesh_overlay::backoff::BackoffLimits;
use binomesh_overlay::fingers::{Forwarding, Rules};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::planted::PlantedFlag;
use super::{Failure, Finding};
use crate::arena::asynchronous::Asynchronous;
use crate::arena::convergence::{Convergence, Scheduler, converge};
use crate::arena::mailbox::Discipline;
use crate::arena::repetition::{Repeated, repeat};
use crate::arena::synchronous::{self, Synchronous};
use crate::arena::tree::{Randomness, Tree, TreeShape};
use crate::arena::{Arena, Repetition};
use crate::record::{self, Stopwatch};
pub use clique::ProcedureName;
pub use graph::RootName;
pub use sizes::{InvalidSizes, Sizes};
use tallies::Tallies;

/// Simulate convergence to the ring and the binomial graph.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench converge --shape binomial --nodes 65536
  binomesh-bench converge --shape binary --nodes 1023 --scheduler async --json
  binomesh-bench converge --nodes 4096 --forwarding literal --repeat
  binomesh-bench converge --arbitrary --nodes 2..32 --seeds 200
  binomesh-bench converge --arbitrary --nodes 32 --shape binary --census-phases 0
  binomesh-bench converge --single-faults --nodes 15
  binomesh-bench converge --bootstrap clique --nodes 2..64 --seeds 100
  binomesh-bench converge --bootstrap clique --procedure as-written --nodes 8 --json
  binomesh-bench converge --bootstrap graph --graph mesh:25x40
  binomesh-bench converge --bootstrap graph --graph random:1000,4 --seeds 20 --json

The figures ring_phases and bmg_phases count from the start. In a clean start spontaneous
rules are repeated until a process is quiet (--quiet), as in the paper's own
simulation; with --arbitrary they follow the back-off.

In a fully connected system (--bootstrap clique) each process asks once per round and gets an
answer. rounds_mean counts until there is one ring, without the random linking that only the
procedure as-written has. ranking_rounds_mean counts from the ring until all processes know N and
their ranks, and finger_rounds_mean from there until the binomial graph.

In a graph (--bootstrap graph) a round carries every message over one edge.
claim_rounds_mean counts until every node has a path to the node of the longest list.
echo_rounds_mean counts from there until this node knows that, and tree_rounds_mean from
there until all nodes are in the tree. ring_rounds_mean and finger_rounds_mean follow. A
graph is ring:N, mesh:AxB, random:N,D (N nodes of mean degree D), star:N, cliques:N (two
cliques joined by an edge), caterpillar:N or file:PATH. Each line of the file is an edge:
`a b`, or `a > b` if only a knows b.")]
pub struct Converge {
    /// The knowledge of the processes about each other at the start.
    #[arg(long, value_enum, default_value = "tree")]
    pub bootstrap: BootstrapName,
    /// The procedure that makes the ring of a fully connected system.
    #[arg(long, value_enum, default_value = "corrected")]
    pub procedure: ProcedureName,
    /// The graph of the processes that know each other, as listed below.
    #[arg(long, conflicts_with = "nodes")]
    pub graph: Option<Graph>,
    /// The node that becomes the root in the graph.
    #[arg(long, value_enum, default_value = "highest", requires = "graph")]
    pub root: RootName,
    /// The shape of the deployment tree [default: binomial; with --arbitrary trees of all shapes
    /// and depths, also chains].
    #[arg(long, value_enum)]
    pub shape: Option<TreeShape>,
    /// The number of processes; A..B for every number from A to B.
    #[arg(long, default_value = "1024")]
    pub nodes: Sizes,
    /// The scheduler, which chooses the processes that run.
    #[arg(long, value_enum, default_value = "sync")]
    pub scheduler: SchedulerName,
    /// The time at which messages arrive. With sync: same-phase (default) or next-phase; with
    /// async: channels (default), inbox or slots (default with --arbitrary).
    #[arg(long, value_enum)]
    pub reading: Option<Reading>,
    /// The condition that ends the repetition of the spontaneous rules in a clean start.
    #[arg(
        long,
        value_enum,
        default_value = "tables",
        conflicts_with = "arbitrary"
    )]
    pub quiet: Quiet,
    /// The messages by which introductions are passed on.
    #[arg(long, value_enum, default_value = "linear")]
    pub forwarding: ForwardingName,
    /// The seed of the random tree, and with --arbitrary of the first state.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The depth limit of a random tree.
    #[arg(long, default_value_t = 64)]
    pub depth: u32,
    /// The degree limit of a random tree.
    #[arg(long, default_value_t = 16)]
    pub degree: u32,
    /// Give up after this number of phases.
    #[arg(long, default_value_t = 1_000_000)]
    pub phase_limit: u64,
    /// Let every process repeat rule 1 of [BMG09] Alg. 2 once after convergence, and count the
    /// messages that follow.
    #[arg(long, conflicts_with = "arbitrary")]
    pub repeat: bool,
    /// Start from arbitrary states instead of a clean start.
    #[arg(long)]
    pub arbitrary: bool,
    /// Put single faults, one at a time, into a quiet legitimate system: every value of every table
    /// entry, some states of each back-off, and every garbage message.
    #[arg(long, conflicts_with_all = ["arbitrary", "repeat"])]
    pub single_faults: bool,
    /// The number of arbitrary states, or of runs of a fully connected system, for each number of
    /// processes [default: 200].
    #[arg(long)]
    pub seeds: Option<u64>,
    /// Arbitrary states: garbage messages per process at the start.
    #[arg(long, default_value_t = 3, requires = "arbitrary")]
    pub garbage: usize,
    /// Arbitrary states: the phase by which the census has told every process the right N and woken
    /// it; 0 if all processes know N from the start.
    #[arg(long, default_value_t = 4, requires = "arbitrary")]
    pub census_phases: u64,
    /// Arbitrary states: visits prove each entry by epoch and rank.
    #[arg(long, requires = "arbitrary")]
    pub stamped: bool,
    /// Arbitrary states and single faults: the shortest wait of the back-off, in turns. The wait
    /// should be long compared with the time in which inboxes drain [default: 1; async: 16].
    #[arg(long)]
    pub backoff_minimum: Option<u32>,
    /// Arbitrary states and single faults: the longest wait of the back-off, in turns
    /// [default: 128; async: 256].
    #[arg(long)]
    pub backoff_maximum: Option<u32>,
    /// The bug to run with.
    #[command(flatten)]
    pub planted: PlantedFlag,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// The knowledge of the processes about each other at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum BootstrapName {
    /// A deployment tree: each process knows its parent and its children.
    Tree,
    /// Each process knows all others.
    Clique,
    /// Each process knows its neighbours in --graph.
    Graph,
}

/// The scheduler, which chooses the processes that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerName {
    /// In every phase every process handles all its messages.
    Sync,
    /// In every phase every process handles one message or applies its spontaneous rules.
    Async,
}

/// The time at which messages arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// With sync: a message of a spontaneous rule arrives in the same phase.
    SamePhase,
    /// With sync: a message of a spontaneous rule arrives in the next phase.
    NextPhase,
    /// With async: first in, first out per channel, channels in turn.
    Channels,
    /// With async: first in, first out per receiver.
    Inbox,
    /// With async: as channels, but a newer message replaces the waiting message of its slot, as in
    /// the node.
    Slots,
}

/// The condition that ends the repetition of the spontaneous rules in a clean start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Quiet {
    /// Until both ring neighbours and first fingers are set, as [BMG09] §4 says.
    Tables,
    /// Until the successor is known.
    Successor,
}

/// The messages by which introductions are passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardingName {
    /// An UP message causes UP messages, and a DN message causes DN messages.
    Linear,
    /// Every message causes messages of both kinds, as the paper prints the rule.
    Literal,
}

/// The result of a clean start.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    shape: TreeShape,
    nodes: usize,
    scheduler: SchedulerName,
    reading: Reading,
    quiet: Quiet,
    forwarding: ForwardingName,
    seed: u64,
    tree_depth: u32,
    tree_degree: u32,
    ring_phases: Option<u64>,
    bmg_phases: Option<u64>,
    /// Half of `bmg_phases`, since a question and its answer are two phases.
    bmg_rounds: Option<f64>,
    silent_phases: Option<u64>,
    messages_total: u64,
    messages_per_node: f64,
    received_max: u64,
    ring_received_max: u64,
    up_dn_received_min: u32,
    up_dn_received_max: u32,
    repeated_phases: Option<u64>,
    repeated_up_dn_min: Option<u32>,
    repeated_up_dn_max: Option<u32>,
    ring_seconds_at_50us: Option<f64>,
    seconds_at_50us: Option<f64>,
    peak_rss_bytes: Option<u64>,
    wall_seconds: f64,
    version: &'static str,
}

impl Converge {
    /// Run the simulations and print their rows.
    pub fn run(self) -> Result<Finding, Failure> {
        let reading = self.reading()?;
        let seeds = self.runs()?;
        if let Some(graph) = &self.graph {
            let row = self.in_graph(graph, seeds)?;
            self.print(&row)?;
            return Ok(Finding::good_if(row.is_good()));
        }
        let mut is_good = true;
        for nodes in self.nodes.first..=self.nodes.last {
            if self.bootstrap == BootstrapName::Clique {
                let row = self.clique(nodes, seeds);
                is_good &= row.is_good();
                self.print(&row)?;
            } else if self.single_faults {
                let row = self.single_faults(nodes);
                is_good &= row.as_ref().is_some_and(|row| row.recovered == row.faults);
                self.print(&row)?;
            } else if self.arbitrary {
                let row = self.arbitrary(nodes, seeds, reading);
                is_good &= row.converged == row.seeds;
                self.print(&row)?;
            } else {
                let row = self.clean(nodes, reading);
                is_good &= row.is_good();
                self.print(&row)?;
            }
        }
        Ok(Finding::good_if(is_good))
    }

    /// The row of a clean start of one size. Fails if the options do not go together, or if the run
    /// does not converge as it should.
    pub fn measure(&self) -> Result<serde_json::Value, String> {
        if self.arbitrary || self.single_faults || self.nodes.first != self.nodes.last {
            return Err(
                "a figure needs a clean start with one number of nodes; leave out \
                        --arbitrary and --single-faults, and give one number to --nodes"
                    .to_owned(),
            );
        }
        let reading = self.reading().map_err(|failure| failure.to_string())?;
        let seeds = self.runs().map_err(|failure| failure.to_string())?;
        let nodes = self.nodes.first;
        let (row, is_good) = match (self.bootstrap, &self.graph) {
            (BootstrapName::Clique, _) => {
                let row = self.clique(nodes, seeds);
                (serde_json::to_value(&row), row.is_good())
            }
            (_, Some(graph)) => {
                let row = self.in_graph(graph, seeds).map_err(|it| it.to_string())?;
                (serde_json::to_value(&row), row.is_good())
            }
            (_, None) => {
                let row = self.clean(nodes, reading);
                (serde_json::to_value(&row), row.is_good())
            }
        };
        let row = row.map_err(|error| error.to_string())?;
        match is_good {
            true => Ok(row),
            false => Err(format!(
                "the run did not converge to the exact binomial graph: {row}"
            )),
        }
    }

    /// The number of runs of each size; a clean start on a tree is one run whatever this is. Fails
    /// if the options do not go together.
    fn runs(&self) -> Result<u64, Failure> {
        let is_clique = self.bootstrap == BootstrapName::Clique;
        let is_graph = self.bootstrap == BootstrapName::Graph;
        if is_graph || self.graph.is_some() {
            return self.runs_in_graph();
        }
        let refusal = if is_clique && (self.arbitrary || self.single_faults) {
            "--bootstrap clique is always a clean start: leave out --arbitrary and \
             --single-faults"
        } else if is_clique && (self.shape.is_some() || self.repeat) {
            "--bootstrap clique has no deployment tree: leave out --shape and --repeat"
        } else if is_clique && self.is_scheduled() {
            "--bootstrap clique runs in rounds, without a scheduler: leave out --scheduler and \
             --reading"
        } else if !is_clique && !self.arbitrary && self.seeds.is_some() {
            "--seeds counts arbitrary states or runs of a clique: \
             add --arbitrary or --bootstrap clique"
        } else if !is_clique && self.procedure != ProcedureName::Corrected {
            "--procedure is only for a fully connected system: add --bootstrap clique"
        } else if self.seeds == Some(0) {
            "--seeds 0 runs nothing: give at least 1"
        } else {
            return Ok(self.seeds.unwrap_or(200));
        };
        Err(Failure::Usage(refusal.to_owned()))
    }

    /// Whether the options choose a scheduler.
    fn is_scheduled(&self) -> bool {
        self.scheduler != SchedulerName::Sync || self.reading.is_some()
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

    fn reading(&self) -> Result<Reading, Failure> {
        use Reading::{Channels, Inbox, NextPhase, SamePhase, Slots};
        match (self.scheduler, self.reading) {
            (SchedulerName::Sync, None) => Ok(SamePhase),
            (SchedulerName::Async, None) if self.arbitrary => Ok(Slots),
            (SchedulerName::Async, None) => Ok(Channels),
            (SchedulerName::Sync, Some(reading @ (SamePhase | NextPhase)))
            | (SchedulerName::Async, Some(reading @ (Channels | Inbox | Slots))) => Ok(reading),
            (scheduler, Some(reading)) => Err(Failure::Usage(format!(
                "--reading {reading:?} does not belong to --scheduler {scheduler:?}; see --help \
                 for the readings of each scheduler"
            ))),
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            forwarding: match self.forwarding {
                ForwardingName::Linear => Forwarding::Linear,
                ForwardingName::Literal => Forwarding::Literal,
            },
            planted: self.planted.get(),
        }
    }

    /// Run one clean start.
    pub fn clean(&self, nodes: usize, reading: Reading) -> Row {
        let watch = Stopwatch::start();
        let tree = Tree::new(self.clean_shape(), nodes, self.randomness());
        let repetition = match self.quiet {
            Quiet::Tables => Repetition::UntilQuiet,
            Quiet::Successor => Repetition::UntilSuccessor,
        };
        let mut arena = Arena::new(tree, self.rules(), repetition, |_| ());
        use Discipline::{Channels, Inbox, Slots};
        use synchronous::Reading::{NextPhase, SamePhase};
        let (found, tallies, repeated) = match reading {
            Reading::SamePhase => self.go(&mut arena, Synchronous::new(SamePhase)),
            Reading::NextPhase => self.go(&mut arena, Synchronous::new(NextPhase)),
            Reading::Channels => self.go(&mut arena, Asynchronous::new(Channels, nodes)),
            Reading::Inbox => self.go(&mut arena, Asynchronous::new(Inbox, nodes)),
            Reading::Slots => self.go(&mut arena, Asynchronous::new(Slots, nodes)),
        };
        let seconds = |phases: u64| phases as f64 * 50e-6;
        Row {
            shape: self.clean_shape(),
            nodes,
            scheduler: self.scheduler,
            reading,
            quiet: self.quiet,
            forwarding: self.forwarding,
            seed: self.seed,
            tree_depth: arena.tree().depth(),
            tree_degree: arena.tree().degree(),
            ring_phases: found.ring_phases,
            bmg_phases: found.bmg_phases,
            bmg_rounds: found.bmg_phases.map(|phases| phases as f64 / 2.0),
            silent_phases: found.silent_phases,
            messages_total: tallies.total,
            messages_per_node: tallies.total as f64 / nodes.max(1) as f64,
            received_max: tallies.most,
            ring_received_max: tallies.ring_most,
            up_dn_received_min: tallies.introductions_min,
            up_dn_received_max: tallies.introductions_max,
            repeated_phases: repeated.and_then(|round| round.phases),
            repeated_up_dn_min: repeated.map(|round| round.introductions_min),
            repeated_up_dn_max: repeated.map(|round| round.introductions_max),
            ring_seconds_at_50us: found.ring_phases.map(seconds),
            seconds_at_50us: found.bmg_phases.map(seconds),
            peak_rss_bytes: record::peak_rss_bytes(),
            wall_seconds: watch.elapsed().as_secs_f64(),
            version: record::VERSION,
        }
    }

    /// Run the clean start and count the received messages. Then run the repetition, if one is
    /// requested and the clean start has ended with ring and graph and without messages under way.
    fn go(
        &self,
        arena: &mut Arena<()>,
        mut scheduler: impl Scheduler<()>,
    ) -> (Convergence, Tallies, Option<Repeated>) {
        let tell = |phase: u64, waiting: usize| {
            record::progress(format_args!(
                "phase {phase}, {waiting} messages on their way"
            ));
        };
        let found = converge(arena, &mut scheduler, self.phase_limit, tell);
        let tallies = Tallies::of(arena.received());
        let is_wanted = self.repeat && found.silent_phases.is_some();
        let repeated = is_wanted.then(|| repeat(arena, &mut scheduler, self.phase_limit, tell));
        (found, tallies, repeated)
    }

    const fn randomness(&self) -> Randomness {
        Randomness {
            seed: self.seed,
            depth: self.depth,
            degree: self.degree,
        }
    }

    fn clean_shape(&self) -> TreeShape {
        self.shape.unwrap_or(TreeShape::Binomial)
    }

    fn limits(&self) -> BackoffLimits {
        let default = match self.scheduler {
            SchedulerName::Sync => BackoffLimits::default(),
            SchedulerName::Async => BackoffLimits {
                minimum: 16,
                maximum: 256,
            },
        };
        BackoffLimits {
            minimum: self.backoff_minimum.unwrap_or(default.minimum),
            maximum: self.backoff_maximum.unwrap_or(default.maximum),
        }
    }
}

impl Row {
    /// Whether ring and graph stand at the end and, with linear forwarding, every process received
    /// exactly two UP/DN per level above 0.
    pub fn is_good(&self) -> bool {
        let levels = self.nodes.next_power_of_two().trailing_zeros();
        let expected = 2 * levels.saturating_sub(1);
        let is_exact = (self.up_dn_received_min, self.up_dn_received_max) == (expected, expected);
        let is_linear = self.forwarding == ForwardingName::Linear;
        self.silent_phases.is_some() && (is_exact || !is_linear)
    }
}
