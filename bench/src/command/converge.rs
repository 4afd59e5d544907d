//! `binomesh-bench converge`: the arena, from a clean start or arbitrary states.

mod sizes;
mod tallies;

use binomesh_overlay::Planted;
use binomesh_overlay::backoff::Limits;
use binomesh_overlay::fingers::{Forwarding, Rules};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Failure, Finding};
use crate::arena::arbitrary::Trial;
use crate::arena::asynchronous::Asynchronous;
use crate::arena::convergence::{Convergence, Scheduler, converge};
use crate::arena::mailbox::Discipline;
use crate::arena::repetition::{Repeated, repeat};
use crate::arena::synchronous::{self, Synchronous};
use crate::arena::tree::{Randomness, Shape, Tree};
use crate::arena::{Arena, Repetition};
use crate::record::{self, Stopwatch};
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

ring_phases and bmg_phases count from the start. In a clean start spontaneous
rules are repeated until the ring neighbours are known, as in the paper's own
simulation; with --arbitrary they follow the back-off.")]
pub struct Converge {
    /// The shape of the deployment tree [default: binomial; with --arbitrary any
    /// of any depth, chains among them].
    #[arg(long, value_enum)]
    pub shape: Option<Shape>,
    /// How many processes; A..B for every size from A to B.
    #[arg(long, default_value = "1024")]
    pub nodes: Sizes,
    /// Who runs when.
    #[arg(long, value_enum, default_value = "sync")]
    pub scheduler: SchedulerName,
    /// When messages arrive. sync: same-phase (default), next-phase; async:
    /// channels (default), inbox, slots (default with --arbitrary).
    #[arg(long, value_enum)]
    pub reading: Option<Reading>,
    /// How introductions are passed on.
    #[arg(long, value_enum, default_value = "linear")]
    pub forwarding: ForwardingName,
    /// The random tree, and with --arbitrary the first of the states.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The depth limit of a random tree.
    #[arg(long, default_value_t = 64)]
    pub depth: u32,
    /// The degree limit of a random tree.
    #[arg(long, default_value_t = 16)]
    pub degree: u32,
    /// Give up after so many phases.
    #[arg(long, default_value_t = 1_000_000)]
    pub phase_limit: u64,
    /// Then let everybody repeat rule 1 of [BMG09] Alg. 2 once, and count what it
    /// begets.
    #[arg(long, conflicts_with = "arbitrary")]
    pub repeat: bool,
    /// Start from arbitrary states instead of a clean start.
    #[arg(long)]
    pub arbitrary: bool,
    /// How many arbitrary states of each size.
    #[arg(long, default_value_t = 200, requires = "arbitrary")]
    pub seeds: u64,
    /// Arbitrary states: garbage messages per process at the start.
    #[arg(long, default_value_t = 3, requires = "arbitrary")]
    pub garbage: usize,
    /// Arbitrary states: the phase by which everybody has heard its right N from
    /// the census, which wakes it; 0 if all know N from the start.
    #[arg(long, default_value_t = 4, requires = "arbitrary")]
    pub census_phases: u64,
    /// Arbitrary states: entries are proved by epoch and rank, with visits.
    #[arg(long, requires = "arbitrary")]
    pub stamped: bool,
    /// Arbitrary states: the shortest wait of the back-off, in turns. It should
    /// be slow against the rate at which inboxes drain [default: 1; async: 16].
    #[arg(long, requires = "arbitrary")]
    pub backoff_minimum: Option<u32>,
    /// Arbitrary states: the longest wait of the back-off, in turns
    /// [default: 128; async: 256].
    #[arg(long, requires = "arbitrary")]
    pub backoff_maximum: Option<u32>,
    /// Run with this bug, to see the check go red.
    #[cfg(feature = "planted")]
    #[arg(long)]
    pub planted: Option<binomesh_overlay::Bug>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// Who runs when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerName {
    /// Every process, everything it was sent, in every phase.
    Sync,
    /// One message or the spontaneous rules, per process and phase.
    Async,
}

/// When messages arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// sync: what spontaneous rules send arrives in the same phase.
    SamePhase,
    /// sync: it arrives in the next phase.
    NextPhase,
    /// async: first in, first out per channel, channels in turn.
    Channels,
    /// async: first in, first out per receiver.
    Inbox,
    /// async: as channels, a newer message replacing a waiting one of its slot,
    /// as in the node.
    Slots,
}

/// How introductions are passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardingName {
    /// UP begets UP, DN begets DN.
    Linear,
    /// Every message begets both, as the paper prints it.
    Literal,
}

/// What a clean start took.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    shape: Shape,
    nodes: usize,
    scheduler: SchedulerName,
    reading: Reading,
    forwarding: ForwardingName,
    seed: u64,
    tree_depth: u32,
    tree_degree: u32,
    ring_phases: Option<u64>,
    bmg_phases: Option<u64>,
    silent_phases: Option<u64>,
    messages_total: u64,
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

/// What many arbitrary states of one size took.
#[derive(Debug, Clone, Serialize)]
pub struct ArbitraryRow {
    /// Any, if none was asked for.
    shape: Option<Shape>,
    nodes: usize,
    scheduler: SchedulerName,
    reading: Reading,
    stamped: bool,
    garbage: usize,
    census_phases: u64,
    backoff_minimum: u32,
    backoff_maximum: u32,
    seeds: u64,
    first_seed: u64,
    converged: u64,
    first_failing_seed: Option<u64>,
    phases_mean: f64,
    phases_max: u64,
    /// The most phases that a trial took beyond the depth of its tree.
    phases_beyond_depth_max: i64,
    quiet_messages_per_process_phase: f64,
    quiet_up_dn_per_process_phase: f64,
    wall_seconds: f64,
    version: &'static str,
}

impl Converge {
    /// Run it and print its rows.
    pub fn run(self) -> Result<Finding, Failure> {
        let reading = self.reading()?;
        let mut is_good = true;
        for nodes in self.nodes.first..=self.nodes.last {
            if self.arbitrary {
                let row = self.arbitrary(nodes, reading);
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

    /// The row of a clean start, or what does not go together.
    pub fn measure(&self) -> Result<Row, String> {
        if self.arbitrary || self.nodes.first != self.nodes.last {
            return Err("a clean start of one size is measured here".to_owned());
        }
        let reading = self.reading().map_err(|failure| failure.to_string())?;
        let row = self.clean(self.nodes.first, reading);
        match row.is_good() {
            true => Ok(row),
            false => Err(format!("it did not converge as it should: {row:?}")),
        }
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
                "the reading {reading:?} does not belong to the scheduler {scheduler:?}"
            ))),
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            forwarding: match self.forwarding {
                ForwardingName::Linear => Forwarding::Linear,
                ForwardingName::Literal => Forwarding::Literal,
            },
            planted: self.planted(),
        }
    }

    #[cfg(feature = "planted")]
    fn planted(&self) -> Planted {
        self.planted.map(Planted::new).unwrap_or_default()
    }

    #[cfg(not(feature = "planted"))]
    fn planted(&self) -> Planted {
        Planted::default()
    }

    /// One clean start.
    pub fn clean(&self, nodes: usize, reading: Reading) -> Row {
        let watch = Stopwatch::start();
        let randomness = Randomness {
            seed: self.seed,
            depth: self.depth,
            degree: self.degree,
        };
        let tree = Tree::new(self.clean_shape(), nodes, randomness);
        let mut arena = Arena::new(tree, self.rules(), Repetition::UntilQuiet, |_| ());
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
            forwarding: self.forwarding,
            seed: self.seed,
            tree_depth: arena.tree().depth(),
            tree_degree: arena.tree().degree(),
            ring_phases: found.ring_phases,
            bmg_phases: found.bmg_phases,
            silent_phases: found.silent_phases,
            messages_total: tallies.total,
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

    /// The clean start, what was received in it, and the repetition if one is wanted.
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

    /// Many arbitrary states of one size.
    pub fn arbitrary(&self, nodes: usize, reading: Reading) -> ArbitraryRow {
        let watch = Stopwatch::start();
        let limits = self.limits();
        let mut row = ArbitraryRow {
            shape: self.shape,
            nodes,
            scheduler: self.scheduler,
            reading,
            stamped: self.stamped,
            garbage: self.garbage,
            census_phases: self.census_phases,
            backoff_minimum: limits.minimum,
            backoff_maximum: limits.maximum,
            seeds: self.seeds,
            first_seed: self.seed,
            converged: 0,
            first_failing_seed: None,
            phases_mean: 0.0,
            phases_max: 0,
            phases_beyond_depth_max: i64::MIN,
            quiet_messages_per_process_phase: 0.0,
            quiet_up_dn_per_process_phase: 0.0,
            wall_seconds: 0.0,
            version: record::VERSION,
        };
        for seed in (0..self.seeds).map(|n| self.seed.wrapping_add(n)) {
            record::progress(format_args!("{nodes} processes, seed {seed}"));
            let outcome = self.trial(nodes, seed, reading).run();
            if let Some(phases) = outcome.phases {
                row.converged += 1;
                row.phases_mean += phases as f64;
                row.phases_max = row.phases_max.max(phases);
                let beyond = phases as i64 - i64::from(outcome.depth);
                row.phases_beyond_depth_max = row.phases_beyond_depth_max.max(beyond);
                row.quiet_messages_per_process_phase += outcome.quiet_traffic;
                row.quiet_up_dn_per_process_phase += outcome.quiet_introductions;
            } else {
                row.first_failing_seed.get_or_insert(seed);
            }
        }
        let share = 1.0 / row.converged.max(1) as f64;
        row.phases_mean *= share;
        row.quiet_messages_per_process_phase *= share;
        row.quiet_up_dn_per_process_phase *= share;
        row.wall_seconds = watch.elapsed().as_secs_f64();
        row
    }

    fn clean_shape(&self) -> Shape {
        self.shape.unwrap_or(Shape::Binomial)
    }

    fn limits(&self) -> Limits {
        let default = match self.scheduler {
            SchedulerName::Sync => Limits::default(),
            SchedulerName::Async => Limits {
                minimum: 16,
                maximum: 256,
            },
        };
        Limits {
            minimum: self.backoff_minimum.unwrap_or(default.minimum),
            maximum: self.backoff_maximum.unwrap_or(default.maximum),
        }
    }

    fn trial(&self, nodes: usize, seed: u64, reading: Reading) -> Trial {
        Trial {
            nodes,
            seed,
            shape: self.shape,
            garbage: self.garbage,
            census_phases: self.census_phases,
            rules: self.rules(),
            limits: self.limits(),
            visit_period: if self.stamped { 8 } else { 0 },
            phase_limit: self.phase_limit.min(20_000),
            asynchronous: match reading {
                Reading::SamePhase | Reading::NextPhase => None,
                Reading::Channels => Some(Discipline::Channels),
                Reading::Inbox => Some(Discipline::Inbox),
                Reading::Slots => Some(Discipline::Slots),
            },
            is_stamped: self.stamped,
        }
    }
}

impl Row {
    /// Whether both stand to the end and, with linear forwarding, every process received
    /// exactly two UP/DN per level above 0.
    pub fn is_good(&self) -> bool {
        let levels = self.nodes.next_power_of_two().trailing_zeros();
        let expected = 2 * levels.saturating_sub(1);
        let is_exact = (self.up_dn_received_min, self.up_dn_received_max) == (expected, expected);
        let is_linear = self.forwarding == ForwardingName::Linear;
        self.silent_phases.is_some() && (is_exact || !is_linear)
    }
}
