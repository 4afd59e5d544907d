//! `binomesh-bench route`: the study of [SFT06] §5, with the routers and the strategy that the
//! relay uses.

mod broadcast;
mod cases;
mod tally;
mod unicast;
mod world;

use std::str::FromStr;
use std::time::Duration;

use binomesh_overlay::Population;
use binomesh_routing::router::{Chosen, ROUTERS, Reserve, Router};
use binomesh_routing::sibling_tree::{Fanout, Links, SiblingTree};
use binomesh_routing::strategy;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Failure, Finding};
use crate::parallel;
use crate::record::{self, Stopwatch};
use cases::{Cases, Sets};
use tally::Tally;

/// Route round dead nodes, and count hops, steps and reached nodes.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench route --nodes 64 --fanout 4 --dead 1 --router aware
  binomesh-bench route --nodes 16384 --fanout 3 --dead 1 --router variant --cast broadcast
  binomesh-bench route --nodes 1023 --dead 5% --cast broadcast --sample 400 --graph sibling+bmg
  binomesh-bench route --nodes 1048576 --dead 100 --where wall --known --sample 2000 --json

Without --sample every set of dead nodes is taken with every live source and destination
(broadcast: every set without the root), up to 20 million packets (20000 broadcasts). Beyond
this limit cases are drawn. 'sets' tells whether all sets were taken. Shares are of live
pairs, or of live nodes.

The sender of a hop to a dead node finds out that the node is dead, notes the node in the
packet and chooses again; such a hop counts neither as a hop nor as a step. A broadcast
starts at the root. In one step a node sends one packet. Forwarded packets go first, then
the packets to the children, from left to right. decision_ns is the mean processor time of a
decision on this machine, with all threads at work.")]
pub struct Route {
    /// The number of nodes.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(Population::MAX)))]
    pub nodes: u32,
    /// The number of children of a node.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=i64::from(Fanout::MAX)))]
    pub fanout: u32,
    /// The number of dead nodes, or their share of all nodes such as 5%.
    #[arg(long, default_value = "1")]
    pub dead: Dead,
    /// The router, which chooses the next hop.
    #[arg(long, default_value = "aware", value_parser = routers())]
    pub router: Chosen,
    /// The destinations of a message: one node, or all nodes.
    #[arg(long, value_enum, default_value = "unicast")]
    pub cast: Cast,
    /// Whether links of the binomial graph are used where no sibling leads further [default:
    /// sibling; with --router binomial: sibling+bmg].
    #[arg(long, value_enum)]
    pub graph: Option<Graph>,
    /// The descendants of dead nodes that still get the message.
    #[arg(long, value_enum, default_value = "recursive")]
    pub encapsulation: EncapsulationName,
    /// Draw this number of cases instead of taking all [default if there are too many: 100000, of
    /// broadcasts 400].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub sample: Option<u64>,
    /// The place of the dead nodes. All places but 'anywhere' are only for unicasts that are drawn.
    #[arg(long = "where", value_enum, default_value = "anywhere")]
    pub location: Location,
    /// Start packets with the complete list of the dead nodes.
    #[arg(long)]
    pub known: bool,
    /// The seed of the drawn cases.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The number of threads [default: the number of processors].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: Option<u8>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// A number of dead nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Dead {
    /// A number of nodes.
    Count(u32),
    /// A percentage of all nodes, rounded down.
    Percent(f64),
}

impl Dead {
    fn of(self, nodes: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (f64::from(nodes) * percent / 100.0) as u32,
        }
    }
}

/// A text that is neither a number of nodes nor a share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a number such as 3, or a share such as 5%")]
pub struct InvalidDead;

impl FromStr for Dead {
    type Err = InvalidDead;

    fn from_str(text: &str) -> Result<Self, InvalidDead> {
        match text.strip_suffix('%') {
            Some(share) => {
                let share = share.parse().ok();
                let share = share.filter(|share| (0.0..=100.0).contains(share));
                share.map(Self::Percent).ok_or(InvalidDead)
            }
            None => text.parse().map(Self::Count).map_err(|_| InvalidDead),
        }
    }
}

/// The names of the routers, each with its help.
fn routers() -> impl TypedValueParser<Value = Chosen> {
    let about = |router: &dyn Router| router.about().trim_end_matches('.');
    let value =
        |router: &(dyn Router + Sync)| PossibleValue::new(router.name()).help(about(router));
    let names = PossibleValuesParser::new(ROUTERS.map(value));
    names.try_map(|name| Chosen::named(&name).ok_or("no router has this name"))
}

/// The destinations of a message: one node, or all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Cast {
    /// From one node to another, for each pair of nodes or for those that are drawn.
    Unicast,
    /// From the root to all nodes.
    Broadcast,
}

/// The graph whose links packets use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Graph {
    /// The sibling tree.
    #[value(name = "sibling")]
    #[serde(rename = "sibling")]
    Sibling,
    /// The sibling tree, with the links of the binomial graph in reserve.
    #[value(name = "sibling+bmg")]
    #[serde(rename = "sibling+bmg")]
    SiblingAndBmg,
}

/// The descendants of dead nodes that still get the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EncapsulationName {
    /// The grandchildren, as the paper prints the rule.
    Once,
    /// The next live members behind the dead.
    Recursive,
}

/// The place of the dead nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Location {
    /// Each set of nodes is equally likely.
    Anywhere,
    /// Anywhere in one subtree that holds the destination and not the source.
    Subtree,
    /// The top of such a subtree.
    Top,
    /// Side by side on one level, the destination behind the middle.
    Wall,
}

/// The results of a study.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The number of nodes.
    pub nodes: u32,
    /// The number of children of a node.
    pub fanout: u32,
    /// The number of dead nodes.
    pub dead: u32,
    /// The places of the dead nodes.
    #[serde(rename = "where")]
    pub location: Location,
    /// The name of the router.
    pub router: &'static str,
    /// Whether each packet has one destination or all nodes.
    pub cast: Cast,
    /// The links that were used.
    pub graph: Graph,
    /// How far the children of the dead were served.
    pub encapsulation: EncapsulationName,
    /// Whether packets started with the complete list of the dead.
    pub known: bool,
    /// The seed of the cases.
    pub seed: u64,
    /// Whether the cases are all possible ones.
    pub sets: Sets,
    /// How many packets or broadcasts there were.
    pub cases: u64,
    /// The mean number of hops of the packets, or copies of a broadcast, that arrived.
    pub hops_mean: Option<f64>,
    /// The 99th percentile of these hops.
    pub hops_p99: Option<usize>,
    /// The most of these hops.
    pub hops_max: Option<usize>,
    /// The mean number of hops by breadth-first search, which knows all dead nodes. `None` unless
    /// all unicasts were taken.
    pub shortest_mean: Option<f64>,
    /// The mean number of steps until the last node that a broadcast reaches has it.
    pub steps_mean: Option<f64>,
    /// The most steps of a broadcast.
    pub steps_max: Option<usize>,
    /// The share of the live destinations that were reached.
    pub delivered_share: Option<f64>,
    /// The share of the live destinations that are connected with the source over the links in use.
    pub connected_share: Option<f64>,
    /// The share of the broadcasts that reached all live nodes.
    pub complete_share: Option<f64>,
    /// How often a node asked for the next hop of a packet, also if the packet ended there.
    pub decisions: u64,
    /// The mean processor time of a choice, in nanoseconds.
    pub decision_ns: Option<f64>,
    /// The number of threads that ran.
    pub threads: u8,
    /// The real time of the run.
    pub wall_seconds: f64,
    /// The version of the code that ran.
    pub version: &'static str,
}

/// The parameters of a study, checked to fit together.
struct Study {
    shape: SiblingTree,
    dead: u32,
    router: &'static (dyn Router + Sync),
    reserve: Reserve,
    encapsulation: strategy::Encapsulation,
    location: Location,
    knows: bool,
    seed: u64,
}

impl Route {
    /// Run the study and print its row.
    pub fn run(self) -> Result<Finding, Failure> {
        let row = self.measure().map_err(Failure::Usage)?;
        record::progress_done();
        if self.json {
            record::print_json(&row)?;
        } else {
            record::print_table(&row)?;
        }
        Ok(Finding::Good)
    }

    /// Run the study, or return the options that do not go together.
    pub fn measure(&self) -> Result<Row, String> {
        let watch = Stopwatch::start();
        let study = self.study()?;
        let cases = Cases::of(self.cast, &study, self.sample)?;
        let threads = self.threads.unwrap_or_else(parallel::processors);
        let tallies = parallel::map(
            cases.chunks(),
            threads,
            |chunk| match self.cast {
                Cast::Unicast => unicast::run(&study, &cases, chunk),
                Cast::Broadcast => broadcast::run(&study, &cases, chunk),
            },
            |_| false,
            |done| {
                let (done, all) = (done.len(), cases.chunks());
                let percent = 100 * done as u64 / all.max(1);
                record::progress(format_args!("{percent} % ({done} of {all} parts)"));
            },
        );
        let mut total = Tally::default();
        tallies.values().for_each(|tally| total.add(tally));
        Ok(self.row(&study, &cases, &total, threads, watch.elapsed()))
    }

    fn graph(&self) -> Graph {
        self.graph.unwrap_or(match self.router.get().links() {
            Links::BinomialGraph => Graph::SiblingAndBmg,
            Links::SiblingTree => Graph::Sibling,
        })
    }

    fn study(&self) -> Result<Study, String> {
        let (nodes, dead) = (self.nodes, self.dead.of(self.nodes));
        let population = Population::new(nodes).ok_or("--nodes: expected 1 to 16777216 nodes")?;
        let fanout = Fanout::new(self.fanout).ok_or("--fanout: expected 2 to 16777216 children")?;
        let (needed, who) = match self.cast {
            Cast::Unicast => (2, "a source and a destination"),
            Cast::Broadcast => (1, "the root"),
        };
        if nodes < needed {
            return Err(format!(
                "--nodes: a unicast needs {who}; give --nodes 2 or more"
            ));
        }
        if dead > nodes - needed {
            let most = nodes - needed;
            return Err(format!(
                "--dead: with {dead} of {nodes} nodes dead, too few are left for {who}; give \
                 --dead {most} or less, or more --nodes"
            ));
        }
        let links = self.router.get().links();
        if links == Links::BinomialGraph && self.graph() == Graph::Sibling {
            return Err(
                "--graph: the router binomial needs the binomial graph; give --graph sibling+bmg"
                    .to_owned(),
            );
        }
        if self.location != Location::Anywhere && self.cast == Cast::Broadcast {
            return Err(
                "--where: a broadcast has no single path on which dead nodes could lie; \
                        give --where anywhere or --cast unicast"
                    .to_owned(),
            );
        }
        Ok(Study {
            shape: SiblingTree::new(population, fanout),
            dead,
            router: self.router.get(),
            reserve: match self.graph() {
                Graph::Sibling => Reserve::None,
                Graph::SiblingAndBmg => Reserve::BinomialGraph,
            },
            encapsulation: match self.encapsulation {
                EncapsulationName::Once => strategy::Encapsulation::Once,
                EncapsulationName::Recursive => strategy::Encapsulation::Recursive,
            },
            location: self.location,
            knows: self.known,
            seed: self.seed,
        })
    }

    fn row(&self, study: &Study, cases: &Cases, total: &Tally, threads: u8, wall: Duration) -> Row {
        Row {
            nodes: self.nodes,
            fanout: self.fanout,
            dead: study.dead,
            location: self.location,
            router: self.router.get().name(),
            cast: self.cast,
            graph: self.graph(),
            encapsulation: self.encapsulation,
            known: self.known,
            seed: self.seed,
            sets: cases.sets(),
            cases: total.cases,
            hops_mean: total.hops.mean(),
            hops_p99: total.hops.quantile(0.99),
            hops_max: total.hops.most(),
            shortest_mean: total.shortest.mean(),
            steps_mean: total.steps.mean(),
            steps_max: total.steps.most(),
            delivered_share: tally::share(total.hops.count(), total.live),
            connected_share: tally::share(total.connected, total.live),
            complete_share: tally::share(total.complete, total.steps.count()),
            decisions: total.decisions,
            decision_ns: tally::share(total.deciding.as_nanos() as u64, total.decisions),
            threads,
            wall_seconds: wall.as_secs_f64(),
            version: record::VERSION,
        }
    }
}

#[cfg(test)]
mod tests;
