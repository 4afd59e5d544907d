//! `binomesh-bench check`: exhaustive checks of the ring, the fingers, the relays, the
//! start in a fully connected system and in a graph, and the voting of collectives.

mod clique;
mod collectives;
mod graph;
mod relays;

use binomesh_overlay::fingers::{Forwarding, Rules};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::planted::PlantedFlag;
use super::{Failure, Finding};
use crate::checker::Protocol;
use crate::checker::channels::Carriage;
use crate::checker::finger::FingersOn;
use crate::checker::model::{Garbage, World};
use crate::checker::ring::RingOn;
use crate::checker::search::{Found, search};
use crate::record::{self, Stopwatch};

/// Model-check the ring, the fingers, the relays, the clique, the graph and the votes of
/// collectives exhaustively in small worlds.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench check
  binomesh-bench check --layer ring --nodes 4 --states 5000000
  binomesh-bench check --layer relays
  binomesh-bench check --layer relays --nodes 6 --schedules 250000
  binomesh-bench check --layer ring --nodes 3 --channels queue --capacity 4 --json

Of ring and fingers two properties are checked in every reachable state: closure (no
step leads out of a legitimate configuration) and recovery (--rounds fair rounds lead
into one). Without --layer and --nodes: the ring on all trees of 3, with every single
message as garbage, with and without a stranger; the ring on all trees of 4 with
sampled garbage; the fingers of rings of 3 and 4.

Of the relays: 7 nodes, a broadcast down the binary sibling tree and a multicast at once,
bounded inboxes, and links that fail at the worst moment. Each message is delivered once,
every execution ends, receipts are true, and every handler runs. With inboxes that block
their senders the relays must deadlock. Then all of 4 nodes broadcast, each at any time,
with an inbox of one copy and room for one duty: every order of the copies is checked, by
binomial and, with --layer relays, down the tree, and with 4, 5 and 6 nodes seeded orders of
all messages.

Of the clique (2 to 4 nodes): every choice of the process to ask and every order of
messages, also with one loss, crash or early end of waiting; with 4 nodes as far as --states
(default 2000000) goes. Successors stay a permutation, a run without a fault ends in the exact
ring, and no process waits for ever.

Of the graph (all connected ones of 2 to 4 nodes): every order of messages, also with one
loss, crash or early end of waiting; with 4 nodes as far as --states goes in each. A run
without a fault ends below one root of highest degree, no node is below itself, and without
a crash no node waits for ever.

Of collectives (3 and 4 members): every order, loss and repetition of the messages of one
decision, with ballots of several members and members that are started again, with and
without their record of votes. No two members ever learn different decisions. Four wrong
protocols must be found. With --layer collectives larger worlds are checked, too.

Only --layer, --nodes (4 to 6), --states, --schedules, --seed, --threads and --json
apply to relays, and only --layer, --nodes, --states, --threads and --json to the clique,
the graph and collectives.")]
pub struct Check {
    /// The part to check [default: all parts].
    #[arg(long, value_enum)]
    pub layer: Option<Layer>,
    /// The number of processes [default: see below]. The worlds of relays have 4 to 7.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=6))]
    pub nodes: Option<u8>,
    /// The channels of the messages.
    #[arg(long, value_enum, default_value = "slots")]
    pub channels: CarriageName,
    /// The number of messages that fit into a queue. In queues of 1 or 2 a B_Connect starves behind
    /// Ask_Connects, which is why the node has slots.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    pub capacity: u8,
    /// Messages that are on their way at the start [default: every-single on trees of up to
    /// 3 without strangers, else sampled].
    #[arg(long, value_enum)]
    pub garbage: Option<GarbageName>,
    /// Let an unknown process contact every node of the trees in turn.
    #[arg(long)]
    pub stranger: bool,
    /// The number of fair rounds that must lead to a legitimate configuration.
    #[arg(long, default_value_t = 12)]
    pub rounds: u16,
    /// Stop after this number of states for one size and layer, shared by its trees [default: ring
    /// 100000000 on trees of 3 and 5500000 above, which takes some 4 GiB; fingers 500000].
    #[arg(long)]
    pub states: Option<u64>,
    /// The seed of the sampled garbage.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The number of seeded schedules, from --seed on, of each world in which 4 to 6 relays all
    /// broadcast.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub schedules: u64,
    /// The number of threads that search.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: u8,
    /// The bug to run with.
    #[command(flatten)]
    pub planted: PlantedFlag,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// The part of Binomesh to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Algorithm 1 on every ordered tree.
    Ring,
    /// Algorithm 2 on a ring.
    Fingers,
    /// [SFT06] §4: the relays on the sibling tree.
    Relays,
    /// [FC], corrected: a fully connected system.
    Clique,
    /// [FC], the second algorithm: any connected graph.
    Graph,
    /// The votes of collective operations.
    Collectives,
}

/// The channels of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CarriageName {
    /// One slot per kind and level, in which a newer message replaces an older one.
    Slots,
    /// Bounded queues, which lose the messages that do not fit.
    Queue,
}

/// Messages that are on their way at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum GarbageName {
    /// No message, and then each single message.
    EverySingle,
    /// A few random messages for every state of the tables.
    Sampled,
}

/// One search: its layer, the number of processes, and whether there is a stranger.
#[derive(Debug, Clone, Copy)]
struct Plan {
    layer: Layer,
    nodes: usize,
    has_stranger: bool,
}

/// The results of one search: of the ring on all trees of one size, or of the fingers on one ring.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    layer: Layer,
    nodes: usize,
    stranger: bool,
    channels: CarriageName,
    garbage: GarbageName,
    worlds: usize,
    states: usize,
    depth: usize,
    exhaustive: bool,
    rounds_max: usize,
    rounds_allowed: u16,
    ok: bool,
    counterexample: Option<String>,
    seed: u64,
    peak_rss_bytes: Option<u64>,
    wall_seconds: f64,
    version: &'static str,
}

impl Check {
    /// Run the command and print its rows.
    pub fn run(self) -> Result<Finding, Failure> {
        let mut is_good = true;
        if self.layer == Some(Layer::Relays) || self.layer.is_none() && self.nodes.is_none() {
            is_good &= self.relays()?;
        }
        if self.layer == Some(Layer::Clique) || self.layer.is_none() {
            is_good &= self.cliques()?;
        }
        if self.layer == Some(Layer::Graph) || self.layer.is_none() {
            is_good &= self.graphs()?;
        }
        if self.layer == Some(Layer::Collectives) || self.layer.is_none() {
            is_good &= self.collectives()?;
        }
        for plan in self.plans() {
            let row = self.search(plan);
            is_good &= row.ok;
            self.print_found(row, |row| row.counterexample.take())?;
        }
        Ok(Finding::good_if(is_good))
    }

    /// Print a row. In a table, the steps to a failure follow the row.
    fn print_found<R: Serialize>(
        &self,
        mut row: R,
        take_script: impl FnOnce(&mut R) -> Option<String>,
    ) -> Result<(), Failure> {
        record::progress_done();
        if self.json {
            record::print_json(&row)?;
            return Ok(());
        }
        let script = take_script(&mut row);
        record::print_table(&row)?;
        if let Some(script) = script {
            record::print_line(&script)?;
        }
        Ok(())
    }

    fn plans(&self) -> Vec<Plan> {
        let standard = [
            (Layer::Ring, 3, false),
            (Layer::Ring, 3, true),
            (Layer::Ring, 4, false),
            (Layer::Fingers, 3, false),
            (Layer::Fingers, 4, false),
        ];
        let mut plans: Vec<Plan> = standard
            .map(|(layer, nodes, has_stranger)| Plan {
                layer,
                nodes,
                has_stranger,
            })
            .into();
        plans.retain(|plan| self.layer.is_none_or(|layer| layer == plan.layer));
        for plan in plans.iter_mut().filter(|plan| plan.layer == Layer::Ring) {
            plan.has_stranger |= self.stranger;
        }
        if let Some(nodes) = self.nodes {
            plans.iter_mut().for_each(|plan| plan.nodes = nodes.into());
        }
        let key = |plan: &Plan| (plan.layer as u8, plan.nodes, plan.has_stranger);
        plans.sort_by_key(key);
        plans.dedup_by_key(|plan| key(plan));
        plans
    }

    fn search(&self, plan: Plan) -> Row {
        let watch = Stopwatch::start();
        let is_small = plan.nodes <= 3 && !plan.has_stranger && plan.layer == Layer::Ring;
        let garbage = self.garbage.unwrap_or(match is_small {
            true => GarbageName::EverySingle,
            false => GarbageName::Sampled,
        });
        let worlds = match plan.layer {
            Layer::Ring => RingOn::all(plan.nodes, plan.has_stranger, self.planted.get()).len(),
            _ => 1,
        };
        let mut row = Row {
            layer: plan.layer,
            nodes: plan.nodes,
            stranger: plan.has_stranger,
            channels: self.channels,
            garbage,
            worlds,
            states: 0,
            depth: 0,
            exhaustive: true,
            rounds_max: 0,
            rounds_allowed: self.rounds,
            ok: true,
            counterexample: None,
            seed: self.seed,
            peak_rss_bytes: None,
            wall_seconds: 0.0,
            version: record::VERSION,
        };
        match plan.layer {
            Layer::Ring => {
                for ring in RingOn::all(plan.nodes, plan.has_stranger, self.planted.get()) {
                    let title = ring.describe();
                    row.add(
                        self.search_one(ring, garbage, self.limit(plan, worlds)),
                        &title,
                    );
                    if !row.ok {
                        break;
                    }
                }
            }
            _ => {
                let rules = Rules {
                    forwarding: Forwarding::Linear,
                    planted: self.planted.get(),
                };
                let fingers = FingersOn::new(plan.nodes, rules);
                row.add(
                    self.search_one(fingers, garbage, self.limit(plan, 1)),
                    "a ring",
                );
            }
        }
        row.peak_rss_bytes = record::peak_rss_bytes();
        row.wall_seconds = watch.elapsed().as_secs_f64();
        row
    }

    /// The most states of one world, an equal share of `--states`. The default is a guess at the
    /// number that fits into a few GiB. The search of a world with more states is not exhaustive.
    fn limit(&self, plan: Plan, worlds: usize) -> usize {
        let default = match (plan.layer, plan.nodes) {
            (Layer::Ring, 0..=3) => 100_000_000,
            (Layer::Ring, _) => 5_500_000,
            _ => 500_000,
        };
        usize::try_from(self.states.unwrap_or(default)).unwrap_or(usize::MAX) / worlds.max(1)
    }

    fn search_one<P: Protocol>(
        &self,
        protocol: P,
        garbage: GarbageName,
        limit: usize,
    ) -> Found<usize> {
        let carriage = match self.channels {
            CarriageName::Slots => Carriage::Slots,
            CarriageName::Queue => Carriage::Queue {
                capacity: self.capacity.into(),
            },
        };
        let garbage = match garbage {
            GarbageName::EverySingle => Garbage::EverySingle,
            GarbageName::Sampled => Garbage::Sampled { seed: self.seed },
        };
        let mut world = World::new(protocol, carriage, garbage, self.rounds.into(), limit);
        world.progress = |states| record::progress(format_args!("{states} states of this world"));
        search(world, self.threads.into())
    }
}

impl Row {
    fn add(&mut self, found: Found<usize>, title: &str) {
        self.states += found.states;
        self.depth = self.depth.max(found.depth);
        self.exhaustive &= found.is_exhaustive;
        self.rounds_max = self.rounds_max.max(found.facts);
        if let Some(script) = found.counterexample {
            self.ok = false;
            self.counterexample = Some(format!("{title}\n{script}"));
        }
    }
}
