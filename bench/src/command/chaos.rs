//! `binomesh-bench chaos`: whole peers under faults in the seeded world, judged
//! from outside.

pub mod campaign;
pub mod checker;
pub mod generator;
pub mod operation;
pub mod scenario;
pub mod shrink;
pub mod trial;
pub mod violation;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use binomesh::Bootstrap;
use binomesh_overlay::digest::Digest;
use clap::Args;
use serde::Serialize;

use super::converge::Sizes;
use super::planted::PlantedFlag;
use super::{Failure, Finding};
use crate::record::{self, Stopwatch};
use generator::Bounds;
use scenario::{Given, Scenario};
use trial::{Outcome, Play};

/// How many violations of a failing seed are printed.
const SHOWN: usize = 8;

/// Do everything to a world of nodes that may happen to them, and check every promise.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench chaos
  binomesh-bench chaos --seeds 2000 --nodes 24 --json
  binomesh-bench chaos --first-seed 17 --seeds 1 --shrink --out /tmp
  binomesh-bench chaos --scenario /tmp/chaos-17.json
  binomesh-bench chaos --scenario bench/tests/scenarios/drawn
  binomesh-bench chaos --seeds 200 --nodes 13 --digest --json

Each seed draws a scenario: a size if --nodes is a range, small ones often, a deployment, a
network, bursts of faults with quiet between them, and broadcasts and unicasts throughout.
In the quiet, and when all faults have ended, the overlay must become the exact binomial
graph within --heal-seconds. Collective operations of all kinds are called throughout; their
outcomes must agree, be true and come in time. At the end every open message must get its
receipt, and then the nodes must be silent. Deliveries are counted at the receivers and
receipts held against them. A heal round is one beat of the default profile, 600 ms of
virtual time. A failing seed prints the broken promise and the command that replays the
seed. --shrink writes the shortest scenario found that still breaks the same promise. The
exit status is then 1.")]
pub struct Chaos {
    /// The number of seeds.
    #[arg(long, default_value_t = 100)]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, visible_alias = "seed", default_value_t = 0)]
    pub first_seed: u64,
    /// The nodes that each node knows at its start: with tree its parent, with clique all nodes.
    #[arg(long, default_value_t = Bootstrap::Tree)]
    pub bootstrap: Bootstrap,
    /// The number of deployed nodes, or A..B (B included) for a number that each seed draws, mostly
    /// a small one. Further nodes join later.
    #[arg(long, default_value = "2..40", value_parser = sizes)]
    pub nodes: Sizes,
    /// The least duration of each world, in virtual minutes.
    #[arg(long, default_value_t = 10.0, value_parser = minutes)]
    pub minutes: f64,
    /// The greatest loss in a burst, in messages per million. Each burst draws its loss up to this.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(..=500_000))]
    pub loss_per_million: u32,
    /// The longest healing, and the longest wait for the last receipt, in
    /// virtual seconds at the default profile.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub heal_seconds: u32,
    /// The number of seeds that run at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: u8,
    /// Stop at the first seed that fails.
    #[arg(long)]
    pub until_failure: bool,
    /// Play the scenarios in these files and folders, instead of drawing scenarios.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub scenario: Vec<PathBuf>,
    /// Shorten the scenario of the first seed that fails and write it to a file.
    #[arg(long)]
    pub shrink: bool,
    /// Write the scenarios of all failing seeds, as they were drawn.
    #[arg(long)]
    pub write: bool,
    /// Print a hash of all inputs and outputs of the nodes of a seed, in their order. Builds with
    /// the same hashes behave the same.
    #[arg(long)]
    pub digest: bool,
    /// The folder in which scenarios are written.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// The bug to run with.
    #[command(flatten)]
    pub planted: PlantedFlag,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

fn sizes(text: &str) -> Result<Sizes, String> {
    let sizes = text.parse::<Sizes>().ok();
    let valid = sizes.filter(|sizes| sizes.first() >= 2 && sizes.last() <= 4096);
    valid.ok_or_else(|| "expected a number from 2 to 4096, or a range such as 2..40".to_owned())
}

fn minutes(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let valid = number.filter(|minutes| (0.0..=1e6).contains(minutes));
    valid.ok_or_else(|| "expected a number of minutes from 0 to 1000000".to_owned())
}

/// The results of all seeds.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The number of seeds that ran.
    pub seeds: u64,
    /// The first seed, unless scenarios were given.
    pub first_seed: u64,
    /// The most nodes that a seed deployed.
    pub nodes: u32,
    /// The fewest nodes that a seed deployed.
    pub nodes_min: u32,
    /// How many minutes each world lived at least, as requested.
    pub minutes: f64,
    /// The most messages of a million that a burst may lose.
    pub loss_per_million: u32,
    /// The bug that was planted, if any.
    pub planted: Option<String>,
    /// How many seeds broke a promise.
    pub failures: u64,
    /// The first seed that broke a promise.
    pub first_failing_seed: Option<u64>,
    /// The first promise that the first failing seed broke.
    pub first_violation: Option<String>,
    /// All faults of all seeds.
    pub faults: u64,
    /// The fewest faults of a seed.
    pub faults_min: u64,
    /// The fewest kinds of faults of a seed.
    pub fault_kinds_min: u64,
    /// How many seeds had faults of each kind.
    pub seeds_by_fault: BTreeMap<&'static str, u64>,
    /// Accepted messages, broadcasts and others.
    pub messages: u64,
    /// Accepted messages for all members.
    pub broadcasts: u64,
    /// The fewest broadcasts of a seed.
    pub broadcasts_min: u64,
    /// Deliveries, counted at the receivers.
    pub deliveries: u64,
    /// Receipt lines that give up a member whose name the origin never learnt.
    pub unnamed: u64,
    /// The number of calls of collective operations.
    pub calls: u64,
    /// Callers that heard of an agreed outcome.
    pub agreed: u64,
    /// The virtual time of all seeds together.
    pub virtual_seconds: f64,
    /// The shortest life of a world.
    pub virtual_minutes_min: f64,
    /// How often a disturbed world healed.
    pub heals: u64,
    /// The time from the end of the last fault of a burst to the exact graph: the median.
    pub heal_seconds_p50: Option<f64>,
    /// The slowest of the best 99 in 100 healings.
    pub heal_seconds_p99: Option<f64>,
    /// The slowest healing.
    pub heal_seconds_max: Option<f64>,
    /// The slowest of the best 99 in 100 healings, in beats.
    pub heal_rounds_p99: Option<u64>,
    /// How many messages between nodes were sent.
    pub sent: u64,
    /// The hash of the digests of all seeds, if they were asked for.
    pub digest: Option<String>,
    /// The real time of the run.
    pub wall_seconds: f64,
    /// The version of the code that ran.
    pub version: &'static str,
}

/// A digest of the digests of all seeds. `None` unless each seed has one; a seed that panicked has
/// none.
fn digest_of(outcomes: &BTreeMap<u64, Outcome>) -> Option<String> {
    let digests = outcomes.values().map(|outcome| outcome.digest);
    let digests: Vec<u64> = digests.collect::<Option<_>>()?;
    let mut all = Digest::default();
    digests.hash(&mut all);
    Some(format!("{:016x}", all.finish()))
}

impl Chaos {
    /// Run all seeds, and print the row.
    pub fn run(self) -> Result<Finding, Failure> {
        let given = scenario::read_all(&self.scenario)?;
        let (row, failing) = self.measure_with(&given);
        record::progress_done();
        for (number, outcome) in &failing {
            record::note(format_args!("seed {} failed:", outcome.seed));
            for violation in outcome.violations.iter().take(SHOWN) {
                record::note(format_args!("  {violation}"));
            }
            let more = outcome.violations.len().saturating_sub(SHOWN);
            if more > 0 {
                record::note(format_args!("  and {more} more"));
            }
            record::note(format_args!(
                "  replay: {}",
                self.replay(&given, *number, outcome)
            ));
        }
        if self.write {
            for outcome in failing.values() {
                let path = self.out.join(format!("chaos-{}-drawn.json", outcome.seed));
                write(&path, &self.draw(outcome.seed))?;
                record::note(format_args!("{}", path.display()));
            }
        }
        if let (true, Some((number, first))) = (self.shrink, failing.first_key_value()) {
            self.write_short(&self.scenario(&given, *number), first)?;
        }
        if self.json {
            record::print_json(&row)?;
        } else {
            record::print_table(&row)?;
        }
        Ok(Finding::good_if(row.failures == 0))
    }

    /// Run all seeds. Returns the row and the outcomes of the seeds that failed.
    pub fn measure(&self) -> (Row, BTreeMap<u64, Outcome>) {
        self.measure_with(&[])
    }

    fn measure_with(&self, given: &[Given]) -> (Row, BTreeMap<u64, Outcome>) {
        let watch = Stopwatch::start();
        let count = match given.len() {
            0 => self.seeds,
            files => files as u64,
        };
        let how = Play {
            planted: self.planted.get(),
            is_hashed: self.digest,
        };
        let scenario = |number| self.scenario(given, number);
        let mut outcomes =
            campaign::outcomes(count, self.threads, self.until_failure, how, scenario);
        let row = self.row(&outcomes, watch.elapsed());
        outcomes.retain(|_, outcome| !outcome.violations.is_empty());
        (row, outcomes)
    }

    /// The scenario with this number: one of the given ones, or one drawn from a seed.
    fn scenario(&self, given: &[Given], number: u64) -> Scenario {
        let file = given.get(number as usize);
        file.map_or_else(
            || self.draw(self.first_seed.wrapping_add(number)),
            |(_, scenario)| scenario.clone(),
        )
    }

    fn row(&self, outcomes: &BTreeMap<u64, Outcome>, wall: Duration) -> Row {
        let healed = outcomes.values().flat_map(|outcome| &outcome.healed);
        let mut healed: Vec<Duration> = healed.copied().collect();
        healed.sort_unstable();
        let at = |share: f64| record::quantile(&healed, share);
        let seconds = |share| at(share).map(|length| length.as_secs_f64());
        let sum = |of: fn(&Outcome) -> u64| outcomes.values().map(of).sum();
        let least = |of: fn(&Outcome) -> u64| outcomes.values().map(of).min().unwrap_or(0);
        let lived: Duration = outcomes.values().map(|outcome| outcome.lived).sum();
        let shortest = outcomes.values().map(|outcome| outcome.lived).min();
        let sizes = outcomes.values().map(|outcome| outcome.nodes);
        let mut failing = outcomes
            .values()
            .filter(|outcome| !outcome.violations.is_empty());
        let failures = failing.clone().count() as u64;
        let first = failing.next();
        let mut seeds_by_fault = BTreeMap::new();
        for kind in outcomes.values().flat_map(|outcome| &outcome.kinds) {
            *seeds_by_fault.entry(*kind).or_insert(0) += 1;
        }
        Row {
            seeds: outcomes.len() as u64,
            first_seed: self.first_seed,
            nodes: sizes.clone().max().unwrap_or(0),
            nodes_min: sizes.min().unwrap_or(0),
            minutes: self.minutes,
            loss_per_million: self.loss_per_million,
            planted: self.planted.name(),
            failures,
            first_failing_seed: first.map(|outcome| outcome.seed),
            first_violation: first
                .and_then(|o| o.violations.first())
                .map(ToString::to_string),
            faults: sum(|outcome| outcome.faults),
            faults_min: least(|outcome| outcome.faults),
            fault_kinds_min: least(|outcome| outcome.kinds.len() as u64),
            seeds_by_fault,
            messages: sum(|outcome| outcome.published),
            broadcasts: sum(|outcome| outcome.broadcasts),
            broadcasts_min: least(|outcome| outcome.broadcasts),
            deliveries: sum(|outcome| outcome.deliveries),
            unnamed: sum(|outcome| outcome.unnamed),
            calls: sum(|outcome| outcome.calls),
            agreed: sum(|outcome| outcome.agreed),
            virtual_seconds: lived.as_secs_f64(),
            virtual_minutes_min: shortest.unwrap_or_default().as_secs_f64() / 60.0,
            heals: healed.len() as u64,
            heal_seconds_p50: seconds(0.5),
            heal_seconds_p99: seconds(0.99),
            heal_seconds_max: seconds(1.0),
            heal_rounds_p99: at(0.99)
                .map(|length| length.div_duration_f64(super::round()).ceil() as u64),
            sent: sum(|outcome| outcome.sent),
            digest: digest_of(outcomes),
            wall_seconds: wall.as_secs_f64(),
            version: record::VERSION,
        }
    }

    /// Draw the scenario of a seed.
    pub fn draw(&self, seed: u64) -> Scenario {
        let bounds = Bounds {
            nodes: generator::size(seed, self.nodes),
            least_ms: (self.minutes * 60_000.0) as u64,
            loss_per_million: self.loss_per_million,
            heal_ms: u64::from(self.heal_seconds) * 1000,
        };
        Scenario {
            bootstrap: self.bootstrap,
            ..generator::scenario(seed, bounds)
        }
    }

    /// Shorten a failing scenario and write it to a file.
    fn write_short(&self, scenario: &Scenario, outcome: &Outcome) -> Result<(), Failure> {
        let Some(violation) = outcome.violations.first() else {
            return Ok(());
        };
        let short = shrink::shrink(scenario, violation.kind(), self.planted.get());
        record::progress_done();
        let path = self.out.join(format!("chaos-{}.json", scenario.seed));
        write(&path, &short)?;
        let (faults, messages) = (short.faults.len(), short.messages.len());
        let path = path.display();
        record::note(format_args!(
            "{path}: {faults} faults and {messages} messages still break the promise"
        ));
        Ok(())
    }

    fn replay(&self, given: &[Given], number: u64, outcome: &Outcome) -> String {
        let planted = self.planted.name().map(|bug| format!(" --planted {bug}"));
        let planted = planted.unwrap_or_default();
        let bootstrap = match self.bootstrap {
            Bootstrap::Tree => "",
            Bootstrap::Clique => " --bootstrap clique",
            Bootstrap::Graph => " --bootstrap graph",
        };
        if let Some((path, _)) = given.get(number as usize) {
            let path = path.display();
            return format!("binomesh-bench chaos --scenario {path}{planted}");
        }
        let Outcome { seed, nodes, .. } = outcome;
        let Self {
            minutes,
            loss_per_million,
            heal_seconds,
            ..
        } = self;
        format!(
            "binomesh-bench chaos --first-seed {seed} --seeds 1 --nodes {nodes} \
             --minutes {minutes} --loss-per-million {loss_per_million} \
             --heal-seconds {heal_seconds}{bootstrap}{planted}"
        )
    }
}

/// Write a scenario to a file.
fn write(path: &Path, scenario: &Scenario) -> Result<(), Failure> {
    std::fs::write(path, scenario.text()).map_err(|error| Failure::unwritable(path, &error))
}
