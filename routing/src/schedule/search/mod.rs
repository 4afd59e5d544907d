//! Searches for schedules with as few steps as possible.
//!
//! | method | finds | for |
//! |---|---|---|
//! | `flow` | the optimum; with an excess perhaps only that of shortest paths | oas, aog |
//! | `exhaustion` | the optimum or nothing: it may miss a schedule | wormhole oab on small graphs |
//! | `circulant` | the optimum with one port | oab on graphs with the links of a circulant pattern |
//! | `trees` | a good broadcast in many blocks | oab, store-forward, all ports |
//! | `gossip` | a good broadcast quickly | oab, aab |
//! | `packing` | a good scatter quickly | wormhole scatter |
//! | `relay` | a good scatter quickly | store-forward scatter |
//! | `tabu` | better schedules, conflict by conflict | wormhole; store-forward broadcasts to all |
//! | `orbits` | the same for graphs that look alike from many nodes | aab, aas |
//! | `umda` | what the paper's evolutionary search finds | as `tabu` |
//!
//! A construction or a greedy method gives a first schedule. Then the other methods try the lower
//! bound and one step less than the best so far, in turn, with growing patience. They end when the
//! bound is met, the caller stops them, a limit of [`Options`] is reached, or the problem is too
//! large for them. ([EVO] §3.3 raises the number of steps instead, and has no schedule before it
//! ends.)

mod bag;
mod circulant;
mod construction;
mod driver;
mod evolution;
pub(super) mod exhaustion;
mod gossip;
mod instance;
mod packing;
mod paths;
mod restart;
pub(super) mod scatter;
mod symmetry;
mod tabu;
#[cfg(test)]
mod tests;
mod trees;
mod umda;

use std::fmt;

use serde::Serialize;

pub use evolution::{Evolution, evolve};

use super::plan::Schedule;
use super::problem::Problem;

/// The method that found a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A flow through copies of the graph; exact, except perhaps with an excess.
    Flow,
    /// A trial of every largest set of nodes that one step can reach; may miss a schedule.
    Exhaustion,
    /// The circulant pattern of Träff.
    Circulant,
    /// Trees that share no channel.
    Trees,
    /// Greedy broadcast: each node that can learn a message in a step learns it.
    Gossip,
    /// Greedy scatter: every message in the first step with room.
    Packing,
    /// Greedy scatter: the messages with the farthest way move first.
    Relay,
    /// Tabu search, one delivery at a time.
    Tabu,
    /// Tabu search for a schedule that looks the same under symmetries.
    Orbits,
    /// The evolutionary search of [EVO].
    Umda,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flow => "flow",
            Self::Exhaustion => "exhaustion",
            Self::Circulant => "circulant",
            Self::Trees => "trees",
            Self::Gossip => "gossip",
            Self::Packing => "packing",
            Self::Relay => "relay",
            Self::Tabu => "tabu",
            Self::Orbits => "orbits",
            Self::Umda => "umda",
        })
    }
}

/// The options of a search.
#[derive(Debug, Clone)]
pub struct Options {
    /// The seed of all random numbers: the same problem and options give the same schedule, unless
    /// the caller stops the search.
    pub seed: u64,
    /// A schedule to begin from, such as that of the graph before a fault. Its moves over channels
    /// that are gone are left out.
    pub start: Option<Schedule>,
    /// Improve by this method alone, [`Method::Tabu`], [`Method::Orbits`],
    /// [`Method::Umda`], [`Method::Circulant`] or [`Method::Trees`]; `None`: by tabu search
    /// with and without symmetries, after the quick methods. Where the method can do nothing,
    /// tabu search takes its place or, in `store-forward` for a scatter or with relays that are no
    /// receivers, the flow or a greedy method.
    pub method: Option<Method>,
    /// Stop soon after this many evaluations: (path, step) pairs that tabu search weighed,
    /// chromosomes, and greedy trials.
    pub evaluations_max: u64,
    /// A schedule of this many steps is good enough, even if the lower bound is less.
    pub steps_enough: u32,
    /// The lower bound, if it is known; else it is computed.
    pub lower_bound: Option<u32>,
}

impl Options {
    /// Options for a search from scratch, with all methods and no limit but the caller's.
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            start: None,
            method: None,
            evaluations_max: u64::MAX,
            steps_enough: 0,
            lower_bound: None,
        }
    }
}

/// The progress of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The steps of the best schedule so far, if there is one.
    pub steps: Option<u32>,
    /// The lower bound: no schedule has fewer steps.
    pub lower_bound: u32,
    /// The number of steps that is tried now; 0 within a greedy trial, which aims at no number.
    pub trying: u32,
    /// The method that tries; none while the lower bound is computed.
    pub method: Option<Method>,
    /// How many evaluations were made so far.
    pub evaluations: u64,
}

impl Progress {
    /// The progress while the lower bound is computed.
    pub const BEFORE_SEARCH: Self = Self {
        steps: None,
        lower_bound: 1,
        trying: 1,
        method: None,
        evaluations: 0,
    };
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The best schedule that was found.
    pub schedule: Schedule,
    /// The lower bound: no schedule has fewer steps.
    pub lower_bound: u32,
    /// The method that found the schedule.
    pub method: Method,
    /// How many evaluations were made: see [`Options::evaluations_max`].
    pub evaluations: u64,
    /// How many evaluations were made before this schedule was found.
    pub reached_after: u64,
}

impl Found {
    /// Whether the bound proves that there is nothing better.
    pub const fn is_optimal(&self) -> bool {
        self.schedule.steps == self.lower_bound
    }
}

/// No method found any schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the search found no schedule; give more time, or choose another method")]
pub struct NotFound;

/// The best schedule that is found before `goes_on` denies. `goes_on` is called often, also while
/// the bound is computed; if it denies then, the bound may be lower. It interrupts neither
/// `circulant` nor a first greedy schedule, so there is always a schedule if one of these applies.
pub fn find(
    problem: &Problem,
    options: &Options,
    goes_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Found, NotFound> {
    driver::find(problem, options, goes_on)
}
