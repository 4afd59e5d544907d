//! `check --layer relays`: [SFT06] §4, and all nodes at once, with the shipped relays.

mod walks;

use binomesh_routing::router::{Aware, Chosen};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination};
use serde::Serialize;

use super::Check;
use crate::checker::relays::{DELIVERY, Full, HANDLERS, Post, Relays};
use crate::checker::search::{Judged, search};
use crate::command::Failure;
use crate::record::{self, Stopwatch};

/// The number of nodes in worlds in which some post: a full binary tree of three levels.
const NODES: u32 = 7;
/// The number of nodes in worlds in which all broadcast.
const ALL: u32 = 4;
/// The most states of one world that are judged, without `--states`: more than the largest of these
/// worlds has.
const STATES: usize = 20_000_000;

/// The result for one world.
#[derive(Debug, Clone, Serialize)]
struct Row {
    layer: &'static str,
    world: &'static str,
    nodes: u32,
    fanout: u32,
    packets: usize,
    link_failures_max: usize,
    inbox_capacity: usize,
    answers_at_once: bool,
    duties_max: usize,
    states: usize,
    depth: usize,
    exhaustive: bool,
    handlers: usize,
    handlers_unreached: String,
    deadlock: bool,
    ok: bool,
    counterexample: Option<String>,
    peak_rss_bytes: Option<u64>,
    wall_seconds: f64,
    version: &'static str,
}

/// A world, and whether it must deadlock.
struct Plan {
    name: &'static str,
    world: Relays,
    must_deadlock: bool,
    /// Whether the search takes long, so that it is only made if relays are requested.
    is_large: bool,
}

impl Plan {
    fn sound(name: &'static str, world: Relays) -> Self {
        Self {
            name,
            world,
            must_deadlock: false,
            is_large: false,
        }
    }

    fn red(name: &'static str, world: Relays) -> Self {
        Self {
            must_deadlock: true,
            ..Self::sound(name, world)
        }
    }
}

impl Check {
    /// Search all worlds, walk the seeded schedules, and print the rows. Returns whether all
    /// results are as expected, and every handler ran.
    pub(super) fn relays(&self) -> Result<bool, Failure> {
        let mut is_good = true;
        let mut unreached: Vec<&'static str> = HANDLERS.to_vec();
        for mut plan in plans() {
            if !self.is_wanted(plan.world.nodes) || plan.is_large && self.layer.is_none() {
                continue;
            }
            plan.world.config.planted = self.planted.get();
            let (row, missing) = self.search_relays(plan);
            unreached.retain(|handler| missing.contains(handler));
            is_good &= row.ok;
            self.print_found(row, |row| row.counterexample.take())?;
        }
        is_good &= self.walks()?;
        if self.nodes.is_some() {
            unreached.clear();
        }
        if !unreached.is_empty() {
            record::note(format_args!("in no world ran: {}", unreached.join(" ")));
        }
        Ok(is_good && unreached.is_empty())
    }

    /// Whether worlds of this size were requested.
    fn is_wanted(&self, nodes: u32) -> bool {
        self.nodes.is_none_or(|wanted| u32::from(wanted) == nodes)
    }

    fn search_relays(&self, plan: Plan) -> (Row, Vec<&'static str>) {
        let watch = Stopwatch::start();
        let mut world = plan.world;
        let limit = self
            .states
            .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        world.judged = Judged::up_to(limit.unwrap_or(STATES));
        world.progress = |states| record::progress(format_args!("{states} states of this world"));
        let mut row = Row {
            layer: "relays",
            world: plan.name,
            nodes: world.nodes,
            fanout: world.config.fanout.get(),
            packets: world.posts.len(),
            link_failures_max: world.failures,
            inbox_capacity: world.capacity,
            answers_at_once: world.answers_at_once,
            duties_max: world.config.max_duties,
            states: 0,
            depth: 0,
            exhaustive: false,
            handlers: HANDLERS.len(),
            handlers_unreached: String::new(),
            deadlock: false,
            ok: false,
            counterexample: None,
            peak_rss_bytes: None,
            wall_seconds: 0.0,
            version: record::VERSION,
        };
        let found = search(world, self.threads.into());
        row.states = found.states;
        row.depth = found.depth;
        row.exhaustive = found.is_exhaustive;
        row.handlers_unreached = found.facts.join(" ");
        let script = found.counterexample.as_deref();
        row.deadlock = script.is_some_and(|script| script.starts_with(DELIVERY));
        row.ok = match plan.must_deadlock {
            true => row.deadlock,
            // With a limit of states on the command line, a search need not be exhaustive.
            false => script.is_none() && (found.is_exhaustive || limit.is_some()),
        };
        row.counterexample = found.counterexample;
        row.peak_rss_bytes = record::peak_rss_bytes();
        row.wall_seconds = watch.elapsed().as_secs_f64();
        let unreached = if plan.must_deadlock {
            HANDLERS.to_vec()
        } else {
            found.facts
        };
        (row, unreached)
    }
}

fn plans() -> [Plan; 7] {
    let tree = Strategy::SiblingTree { fanout: 2 };
    let broadcast = |from| Post::new(from, Destination::All, tree);
    let multicast = Post::new(6, Destination::Peers(vec![1, 4]), tree);
    let both = vec![broadcast(5), multicast];
    let config = Config {
        router: Chosen::new(&Aware),
        ..Config::default()
    };
    let full = Config {
        max_duties: 1,
        ..config
    };
    let mut failing = Relays::new(NODES, config, both.clone());
    failing.failures = 2;
    let mut busy = Relays::new(NODES, full, both);
    busy.failures = 1;
    let mut blocking = Relays::new(NODES, config, vec![broadcast(0), broadcast(1)]);
    (blocking.full, blocking.capacity) = (Full::Blocks, 1);
    let everybody = |strategy| {
        let mut world = Relays::all_to_all(ALL, config, strategy);
        (world.answers_at_once, world.is_uncounted) = (true, true);
        world.depth_first = true;
        world
    };
    let everybody_blocking = |strategy| {
        let mut world = Relays::all_to_all(ALL, config, strategy);
        world.full = Full::Blocks;
        world
    };
    [
        Plan::sound("two links fail", failing),
        Plan::sound("one link fails, room for one duty", busy),
        Plan::red("full inboxes block their senders: must deadlock", blocking),
        Plan::sound(
            "all broadcast, one copy per inbox, one duty per node",
            everybody(Strategy::Binomial),
        ),
        Plan {
            is_large: true,
            ..Plan::sound(
                "all broadcast down the tree, one copy per inbox, one duty per node",
                everybody(tree),
            )
        },
        Plan::red(
            "all broadcast, full inboxes block their senders: must deadlock",
            everybody_blocking(Strategy::Binomial),
        ),
        Plan::red(
            "all broadcast down the tree, full inboxes block their senders: must deadlock",
            everybody_blocking(tree),
        ),
    ]
}
