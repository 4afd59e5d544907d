//! `binomesh-bench chaos`: whole peers under faults in the seeded world, judged
//! from outside.

pub mod checker;
pub mod trial;
pub mod violation;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use binomesh_overlay::Planted;
use clap::Args;
use serde::Serialize;

use super::{Failure, Finding};
use crate::record::{self, Stopwatch};
use trial::{Outcome, Settings};

/// A round of healing: the default period of the beat, in which failure
/// detection counts.
const ROUND: Duration = Duration::from_millis(500);
/// How many violations of a failing seed are printed.
const SHOWN: usize = 8;

/// Crash, restart, pause and remove nodes under traffic, then check every promise.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench chaos
  binomesh-bench chaos --seeds 2000 --nodes 24 --json
  binomesh-bench chaos --first-seed 17 --seeds 1

Each seed draws a deployment shape, latencies and a loss; then crashes, restarts,
pauses, graceful leaves and joins for --minutes of virtual time, with broadcasts
and unicasts from random nodes throughout. Then the faults end: the overlay must
become the exact binomial graph within --heal-seconds, every open message must get
its receipt, and silence must follow. Deliveries are counted at the receivers and
receipts held against them. A heal round is 500 ms of virtual time, one beat.
A failing seed prints what was broken and the command that replays it; the exit
status is then 1.")]
pub struct Chaos {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, visible_alias = "seed", default_value_t = 0)]
    pub first_seed: u64,
    /// How many nodes are deployed; others join later.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub nodes: u32,
    /// How long faults and messages go on, in virtual minutes.
    #[arg(long, default_value_t = 2.0, value_parser = minutes)]
    pub minutes: f64,
    /// The most messages lost of a million while they do; each seed draws.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(..=500_000))]
    pub loss_per_million: u32,
    /// The longest healing, and the longest wait for the last receipt, in
    /// virtual seconds.
    #[arg(long, default_value_t = 120)]
    pub heal_seconds: u32,
    /// How many seeds run at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: u8,
    /// Run with this bug, to see the check go red.
    #[cfg(feature = "planted")]
    #[arg(long)]
    pub planted: Option<binomesh_overlay::Bug>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let valid = number.filter(|minutes| (0.0..=1e6).contains(minutes));
    valid.ok_or_else(|| "expected minutes, from 0 to 1000000".to_owned())
}

/// What all seeds showed.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// How many seeds ran.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// How many nodes were deployed.
    pub nodes: u32,
    /// How long each seed was disturbed.
    pub minutes: f64,
    /// The most that was lost.
    pub loss_per_million: u32,
    /// The bug that was planted.
    pub planted: Option<String>,
    /// How many seeds broke a promise.
    pub failures: u64,
    /// The first that did.
    pub first_failing_seed: Option<u64>,
    /// What it broke first.
    pub first_violation: Option<String>,
    /// Crashes, restarts, pauses, leaves and joins.
    pub faults: u64,
    /// Accepted messages, broadcasts and others.
    pub broadcasts: u64,
    /// Deliveries, counted at the receivers.
    pub deliveries: u64,
    /// Receipt lines that give up a member whose name the origin never learned.
    pub unnamed: u64,
    /// The virtual time of all seeds together.
    pub virtual_seconds: f64,
    /// From the last fault to the exact graph.
    pub heal_seconds_p50: Option<f64>,
    /// The slowest of the best 99 in 100.
    pub heal_seconds_p99: Option<f64>,
    /// The slowest.
    pub heal_seconds_max: Option<f64>,
    /// In beats of 500 ms.
    pub heal_rounds_p99: Option<u64>,
    /// Real time.
    pub wall_seconds: f64,
    /// The version of the code that ran.
    pub version: &'static str,
}

impl Chaos {
    /// Run it and print its row.
    pub fn run(self) -> Result<Finding, Failure> {
        let (row, failing) = self.measure();
        record::progress_done();
        for outcome in &failing {
            eprintln!("seed {} failed:", outcome.seed);
            for violation in outcome.violations.iter().take(SHOWN) {
                eprintln!("  {violation}");
            }
            let more = outcome.violations.len().saturating_sub(SHOWN);
            if more > 0 {
                eprintln!("  and {more} more");
            }
            eprintln!("  replay: {}", self.replay(outcome.seed));
        }
        if self.json {
            record::print_json(&row)?;
        } else {
            record::print_table(&row)?;
        }
        Ok(Finding::good_if(row.failures == 0))
    }

    /// Run it; the row, and what became of the seeds that failed.
    pub fn measure(&self) -> (Row, Vec<Outcome>) {
        let watch = Stopwatch::start();
        let outcomes = self.outcomes();
        let mut healed: Vec<Duration> = (outcomes.values())
            .filter_map(|outcome| outcome.healed_after)
            .collect();
        healed.sort_unstable();
        let at = |share: f64| quantile(&healed, share);
        let seconds = |share| at(share).map(|length| length.as_secs_f64());
        let count = |of: fn(&Outcome) -> u64| outcomes.values().map(of).sum();
        let failing: Vec<Outcome> = (outcomes.values())
            .filter(|outcome| !outcome.violations.is_empty())
            .cloned()
            .collect();
        let first = failing.first();
        let lived: Duration = outcomes.values().map(|outcome| outcome.lived).sum();
        let row = Row {
            seeds: self.seeds,
            first_seed: self.first_seed,
            nodes: self.nodes,
            minutes: self.minutes,
            loss_per_million: self.loss_per_million,
            planted: self.planted_name(),
            failures: failing.len() as u64,
            first_failing_seed: first.map(|outcome| outcome.seed),
            first_violation: first
                .and_then(|o| o.violations.first())
                .map(ToString::to_string),
            faults: count(|outcome| outcome.faults),
            broadcasts: count(|outcome| outcome.published),
            deliveries: count(|outcome| outcome.deliveries),
            unnamed: count(|outcome| outcome.unnamed),
            virtual_seconds: lived.as_secs_f64(),
            heal_seconds_p50: seconds(0.5),
            heal_seconds_p99: seconds(0.99),
            heal_seconds_max: seconds(1.0),
            heal_rounds_p99: at(0.99).map(|length| length.div_duration_f64(ROUND).ceil() as u64),
            wall_seconds: watch.elapsed().as_secs_f64(),
            version: record::VERSION,
        };
        (row, failing)
    }

    /// Every seed's outcome, whichever thread ran it.
    fn outcomes(&self) -> BTreeMap<u64, Outcome> {
        let (next, outcomes) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
        let settings = self.settings();
        let work = || loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= self.seeds {
                break;
            }
            let outcome = trial::run(self.first_seed.wrapping_add(number), settings);
            let mut outcomes = outcomes.lock().unwrap_or_else(|poison| poison.into_inner());
            outcomes.insert(number, outcome);
            let is_bad = |outcome: &&Outcome| !outcome.violations.is_empty();
            let bad = outcomes.values().filter(is_bad).count();
            record::progress(format_args!(
                "{} of {} seeds, {bad} failed",
                outcomes.len(),
                self.seeds
            ));
        };
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(work);
            }
        });
        outcomes
            .into_inner()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    fn settings(&self) -> Settings {
        Settings {
            nodes: self.nodes,
            faulty: Duration::from_secs_f64(self.minutes * 60.0),
            loss_per_million: self.loss_per_million,
            heal_limit: Duration::from_secs(self.heal_seconds.into()),
            planted: self.planted(),
        }
    }

    fn replay(&self, seed: u64) -> String {
        let Self {
            nodes,
            minutes,
            loss_per_million,
            heal_seconds,
            ..
        } = self;
        let planted = self.planted_name().map(|bug| format!(" --planted {bug}"));
        let planted = planted.unwrap_or_default();
        format!(
            "binomesh-bench chaos --first-seed {seed} --seeds 1 --nodes {nodes} \
             --minutes {minutes} --loss-per-million {loss_per_million} \
             --heal-seconds {heal_seconds}{planted}"
        )
    }

    #[cfg(feature = "planted")]
    fn planted(&self) -> Planted {
        self.planted.map(Planted::new).unwrap_or_default()
    }

    #[cfg(not(feature = "planted"))]
    fn planted(&self) -> Planted {
        Planted::default()
    }

    #[cfg(feature = "planted")]
    fn planted_name(&self) -> Option<String> {
        self.planted.map(|bug| bug.to_string())
    }

    #[cfg(not(feature = "planted"))]
    fn planted_name(&self) -> Option<String> {
        None
    }
}

/// The smallest value that is not below this share of all.
fn quantile(sorted: &[Duration], share: f64) -> Option<Duration> {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}
