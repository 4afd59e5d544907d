//! `binomesh-bench heal`: one disturbance of a formed cluster in the seeded
//! world, and what healing from it takes.

mod traffic;
mod trial;

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::converge::Sizes;
use super::{Failure, Finding};
use crate::parallel;
use crate::record::{self, Stopwatch};
use trial::{Case, Healed, Outcome};

/// Disturb formed clusters once, and measure the time and the traffic of healing.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench heal --nodes 1000 --victims 50% --seeds 20
  binomesh-bench heal --nodes 16 --victims 75% --seeds 100 --json
  binomesh-bench heal --fault scramble --victims 100% --nodes 2..64 --seeds 5000
  binomesh-bench heal --nodes 2000 --victims 1 --grace-seconds 30
  binomesh-bench heal --nodes 10000 --victims 1% --broadcasts 10 --seeds 1

Whole peers in virtual time, on a network of 50 to 500 microseconds one way, with the
default profile. 'relinked' is the time until tree, ring and fingers of the live members are
right, with the ranks of the dead vacant. 'exact' is the time until no rank is vacant: the
exact binomial graph of the live members. Both states must then hold for five seconds. A
round is one beat, 600 ms. The state is read every 20 ms. Dialled links are links that
neither end used before. With --broadcasts one broadcast goes out every 100 ms from the
fault on, each from a live node, and all other live nodes must get each broadcast once. The
exit status is 1 if a seed does not heal in time, or if a broadcast did not reach all live
nodes.")]
pub struct Heal {
    /// The fault that strikes the victims.
    #[arg(long, value_enum, default_value = "crash")]
    pub fault: FaultName,
    /// The number of victims, or their share of all nodes such as 50%.
    #[arg(long, default_value = "1")]
    pub victims: Victims,
    /// The number of nodes; A..B for every number in turn, one per seed.
    #[arg(long, default_value = "64")]
    pub nodes: Sizes,
    /// The shape of the deployment tree.
    #[arg(long, value_enum, default_value = "random")]
    pub shape: ShapeName,
    /// The number of seeds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, visible_alias = "seed", default_value_t = 0)]
    pub first_seed: u64,
    /// How many seconds the rank of a dead node stays vacant.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(..=86_400))]
    pub grace_seconds: u32,
    /// The number of broadcasts that go out from the fault on.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub broadcasts: u32,
    /// Give up after this number of virtual seconds.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit_seconds: u32,
    /// The number of seeds that run at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: u8,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// A fault that strikes all victims at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FaultName {
    /// The victims are killed, and no node is told.
    Crash,
    /// The victims are killed and start again at once, with only their configuration.
    Restart,
    /// Every field of the state of the victims is overwritten with noise.
    Scramble,
}

/// The shape of the deployment tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ShapeName {
    /// The parent of node i is i without its lowest bit.
    Binomial,
    /// The parent of node i is (i − 1) / 2.
    Binary,
    /// The parent of node i is drawn among the nodes before i.
    Random,
    /// The parent of every node is the root.
    Flat,
}

/// The nodes that are disturbed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Victims {
    /// A number of nodes.
    Count(u32),
    /// A percentage of all nodes.
    Percent(f64),
}

impl Victims {
    /// How many of `nodes` these are; at least one.
    pub fn of(self, nodes: u32) -> u32 {
        let count = match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (f64::from(nodes) * percent / 100.0) as u32,
        };
        count.clamp(1, nodes)
    }
}

/// A text that is neither a number of victims nor a share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a number above 0, or a share such as 50%")]
pub struct InvalidVictims;

impl FromStr for Victims {
    type Err = InvalidVictims;

    fn from_str(text: &str) -> Result<Self, InvalidVictims> {
        match text.strip_suffix('%') {
            Some(share) => {
                let share = share.parse().ok();
                let share = share.filter(|share| *share > 0.0 && *share <= 100.0);
                share.map(Self::Percent).ok_or(InvalidVictims)
            }
            None => {
                let count = text.parse().ok().filter(|count| *count > 0);
                count.map(Self::Count).ok_or(InvalidVictims)
            }
        }
    }
}

/// The results of all seeds.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The fault that was applied.
    pub fault: FaultName,
    /// The fewest nodes of a seed.
    pub nodes_min: usize,
    /// The most nodes that a seed may have.
    pub nodes_max: usize,
    /// The most victims that a seed may have.
    pub victims_max: u32,
    /// How long ranks stayed vacant.
    pub grace_seconds: u32,
    /// The number of seeds that ran.
    pub seeds: u64,
    /// The number of seeds whose overlay healed.
    pub healed: u64,
    /// The first seed that did not heal, or whose broadcasts did not come exactly once to all.
    pub first_failing_seed: Option<u64>,
    /// The defect of the first failing seed at the end, or the result of its broadcasts.
    pub defect: Option<String>,
    /// The greatest depth D of a tree before the fault.
    pub depth_max: u32,
    /// ⌈log2 N⌉ of the most nodes that a seed may have.
    pub levels_max: u32,
    /// The cost until ring, tree and fingers of the living nodes stood.
    pub relinked: Stage,
    /// The cost until no rank was vacant any more.
    pub exact: Stage,
    /// The number of broadcasts that went out.
    pub broadcasts: u64,
    /// Deliveries that never came, at nodes that lived at the end.
    pub deliveries_lacking: u64,
    /// Repeated deliveries of a message.
    pub deliveries_repeated: u64,
    /// The longest time from a broadcast to its last delivery, in virtual seconds.
    pub broadcast_seconds_max: Option<f64>,
    /// The real time of the run.
    pub wall_seconds: f64,
    /// The most memory that this process has taken.
    pub memory_peak_bytes: Option<u64>,
    /// The version of the code that ran.
    pub version: &'static str,
}

/// The cost of one stage of healing, over all seeds that completed it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stage {
    /// The median time from the fault to this stage, in virtual seconds.
    pub seconds_p50: Option<f64>,
    /// The slowest of the best 99 in 100 seeds.
    pub seconds_p99: Option<f64>,
    /// The time of the slowest seed.
    pub seconds_max: Option<f64>,
    /// The slowest seed, in beats, rounded up.
    pub rounds_max: Option<u64>,
    /// The most nodes of a seed that had another rank, or a rank of another epoch, than before the
    /// fault.
    pub ranks_moved_max: Option<u64>,
    /// The median number of links that were dialled.
    pub dialled_p50: Option<u64>,
    /// The most links that were dialled.
    pub dialled_max: Option<u64>,
}

impl Stage {
    fn of(healed: &[Healed]) -> Self {
        let sorted = |of: fn(&Healed) -> u64| {
            let mut values: Vec<u64> = healed.iter().map(of).collect();
            values.sort_unstable();
            values
        };
        let micros = sorted(|healed| healed.after.as_micros() as u64);
        let dialled = sorted(|healed| healed.dialled);
        let seconds = |share| Some(record::quantile(&micros, share)? as f64 / 1e6);
        let longest = micros.last().copied().map(Duration::from_micros);
        Self {
            seconds_p50: seconds(0.5),
            seconds_p99: seconds(0.99),
            seconds_max: seconds(1.0),
            rounds_max: longest.map(|length| length.div_duration_f64(super::round()).ceil() as u64),
            ranks_moved_max: sorted(|healed| healed.ranks_moved).last().copied(),
            dialled_p50: record::quantile(&dialled, 0.5),
            dialled_max: dialled.last().copied(),
        }
    }
}

impl Heal {
    /// Run all seeds and print the row.
    pub fn run(self) -> Result<Finding, Failure> {
        if self.nodes.first() < 2 || self.nodes.last() > 65_536 {
            return Err(Failure::Usage(
                "--nodes: expected 2 to 65536 nodes".to_owned(),
            ));
        }
        if self.broadcasts > 0 && self.fault != FaultName::Crash {
            let problem = "--broadcasts: only possible with --fault crash, since a node that \
                           restarts or is scrambled may miss a broadcast; leave out --broadcasts";
            return Err(Failure::Usage(problem.to_owned()));
        }
        self.leaves_survivors()?;
        let row = self.measure();
        record::progress_done();
        if let Some(seed) = row.first_failing_seed {
            let defect = row.defect.as_deref().unwrap_or_default();
            record::note(format_args!("seed {seed} failed: {defect}"));
        }
        if self.json {
            record::print_json(&row)?;
        } else {
            record::print_table(&row)?;
        }
        Ok(Finding::good_if(row.first_failing_seed.is_none()))
    }

    /// Fail if a crash would leave no survivors, since nothing could heal. Fail as well if there
    /// are more victims than nodes.
    fn leaves_survivors(&self) -> Result<(), Failure> {
        let fewest = self.nodes.first() as u32;
        let (victims, most) = match (self.victims, self.fault) {
            (Victims::Count(count), FaultName::Crash) => (count, fewest - 1),
            (Victims::Count(count), _) => (count, fewest),
            (Victims::Percent(_), FaultName::Crash) => (self.victims.of(fewest), fewest - 1),
            (Victims::Percent(_), _) => return Ok(()),
        };
        if victims <= most {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "--victims: {victims} of {fewest} nodes are too many for this fault; give at most \
             {most}, or more --nodes"
        )))
    }

    /// Run all seeds.
    pub fn measure(&self) -> Row {
        let watch = Stopwatch::start();
        let outcomes = self.outcomes();
        let relinked: Vec<Healed> = outcomes.iter().filter_map(|o| o.relinked).collect();
        let exact: Vec<Healed> = outcomes.iter().filter_map(|o| o.exact).collect();
        let failing = outcomes.iter().find(|outcome| !outcome.is_good());
        let delivered = || outcomes.iter().map(|outcome| outcome.delivered);
        let broadcasts = delivered().map(|one| one.broadcasts).sum();
        let longest = delivered().map(|one| one.longest).max();
        Row {
            fault: self.fault,
            nodes_min: self.nodes.first(),
            nodes_max: self.nodes.last(),
            victims_max: self.victims.of(self.nodes.last() as u32),
            grace_seconds: self.grace_seconds,
            seeds: self.seeds,
            healed: exact.len() as u64,
            first_failing_seed: failing.map(|outcome| outcome.seed),
            defect: failing.and_then(|outcome| outcome.defect.clone()),
            depth_max: outcomes.iter().map(|o| o.depth).max().unwrap_or(0),
            levels_max: self.nodes.last().next_power_of_two().ilog2(),
            relinked: Stage::of(&relinked),
            exact: Stage::of(&exact),
            broadcasts,
            deliveries_lacking: delivered().map(|one| one.lacking).sum(),
            deliveries_repeated: delivered().map(|one| one.repeated).sum(),
            broadcast_seconds_max: longest
                .filter(|_| broadcasts > 0)
                .map(|longest| longest.as_secs_f64()),
            wall_seconds: watch.elapsed().as_secs_f64(),
            memory_peak_bytes: record::peak_rss_bytes(),
            version: record::VERSION,
        }
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let outcomes = parallel::map(
            self.seeds,
            self.threads,
            |number| trial::play(&self.case(number)),
            |_| false,
            |outcomes| {
                let healed = outcomes.values().filter(|o| o.exact.is_some()).count();
                let (done, all) = (outcomes.len(), self.seeds);
                record::progress(format_args!("{done} of {all} seeds, {healed} healed"));
            },
        );
        outcomes.into_values().collect()
    }

    fn case(&self, number: u64) -> Case {
        let nodes = self.nodes.turn(number) as u32;
        Case {
            seed: self.first_seed.wrapping_add(number),
            nodes,
            shape: self.shape,
            fault: self.fault,
            victims: self.victims.of(nodes),
            grace: Duration::from_secs(self.grace_seconds.into()),
            limit: Duration::from_secs(self.limit_seconds.into()),
            broadcasts: self.broadcasts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn victims_are_a_number_or_a_share() {
        assert_eq!("3".parse(), Ok(Victims::Count(3)));
        assert_eq!("12.5%".parse(), Ok(Victims::Percent(12.5)));
        for text in ["", "0", "-1", "0%", "101%", "half", "NaN%"] {
            assert_eq!(text.parse::<Victims>(), Err(InvalidVictims), "{text}");
        }
        assert_eq!(Victims::Percent(50.0).of(15), 7);
        assert_eq!(Victims::Percent(1.0).of(15), 1);
        assert_eq!(Victims::Count(99).of(15), 15);
    }
}
