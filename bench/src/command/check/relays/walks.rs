//! Seeded schedules of worlds in which all nodes broadcast, with buffers of one.

use binomesh_overlay::Planted;
use binomesh_routing::Config;
use binomesh_routing::router::{Aware, Chosen};
use binomesh_routing::strategy::Strategy;
use serde::Serialize;

use super::super::Check;
use crate::checker::relays::{DELIVERY, Full, PROGRESS, Relays, Schedules, walk};
use crate::command::Failure;
use crate::record::{self, Stopwatch};

/// The most schedules of a world that must deadlock or has a planted bug. All of them are walked,
/// and the failures are counted.
const RED: u64 = 1_000;

/// If standard error is no terminal, the progress is printed each time after this many schedules.
const MILESTONE: u64 = 50_000;

/// The result of the schedules of one world.
#[derive(Debug, Clone, Serialize)]
struct Row {
    layer: &'static str,
    world: &'static str,
    nodes: u32,
    packets: usize,
    inbox_capacity: usize,
    duties_max: usize,
    names_known: bool,
    schedules: u64,
    first_seed: u64,
    steps: u64,
    depth: usize,
    /// How often a node said that it has no room.
    busy: u64,
    /// How often a copy waited until earlier copies to the same peer were answered, or for its
    /// turn.
    held_back: u64,
    /// The longest schedule, by the clock of the world.
    virtual_seconds_max: f64,
    failures: u64,
    deadlock: bool,
    ok: bool,
    counterexample: Option<String>,
    wall_seconds: f64,
    version: &'static str,
}

/// A world; it must deadlock if inboxes block their senders.
struct Plan {
    world: Relays,
    names_known: bool,
}

impl Check {
    /// Walk through all worlds and print their rows. Returns whether all results are as expected.
    pub(super) fn walks(&self) -> Result<bool, Failure> {
        let mut is_good = true;
        for plan in plans() {
            if !self.is_wanted(plan.world.nodes) {
                continue;
            }
            let row = self.walk(plan);
            is_good &= row.ok;
            self.print_found(row, |row| row.counterexample.take())?;
        }
        Ok(is_good)
    }

    fn walk(&self, plan: Plan) -> Row {
        let watch = Stopwatch::start();
        let mut world = plan.world;
        world.config.planted = self.planted.get();
        let is_planted = world.config.planted != Planted::NONE;
        let must_deadlock = world.full == Full::Blocks;
        let schedules = Schedules {
            first_seed: self.seed,
            count: match must_deadlock || is_planted {
                true => self.schedules.min(RED),
                false => self.schedules,
            },
            to_the_end: must_deadlock || is_planted,
        };
        let walked = walk(&world, schedules, self.threads, |done| {
            record::progress(format_args!("{done} schedules of this world"));
            if done.is_multiple_of(MILESTONE) {
                record::milestone(format_args!("{done} schedules of this world"));
            }
        });
        let script = walked.counterexample.as_deref();
        let stops = |script: &str| script.starts_with(DELIVERY) || script.starts_with(PROGRESS);
        let deadlock = script.is_some_and(stops);
        Row {
            layer: "relays",
            world: name_of(&world),
            nodes: world.nodes,
            packets: world.posts.len(),
            inbox_capacity: world.capacity,
            duties_max: world.config.max_duties,
            names_known: plan.names_known,
            schedules: walked.schedules,
            first_seed: self.seed,
            steps: walked.steps,
            depth: walked.depth,
            busy: walked.busy,
            held_back: walked.held_back,
            virtual_seconds_max: walked.longest.as_secs_f64(),
            failures: walked.failures,
            deadlock,
            ok: deadlock == must_deadlock && (must_deadlock || script.is_none()),
            counterexample: walked.counterexample,
            wall_seconds: watch.elapsed().as_secs_f64(),
            version: record::VERSION,
        }
    }
}

fn name_of(world: &Relays) -> &'static str {
    let strategy = world.posts.first().map(|post| post.publish.strategy);
    match (world.full, strategy) {
        (Full::Blocks, Some(Strategy::Binomial)) => {
            "all broadcast, full inboxes block their senders: must deadlock"
        }
        (Full::Blocks, _) => {
            "all broadcast down the tree, full inboxes block their senders: must deadlock"
        }
        (_, Some(Strategy::Binomial)) => "all broadcast, in seeded orders",
        _ => "all broadcast down the tree, in seeded orders",
    }
}

fn plans() -> Vec<Plan> {
    let known = Config {
        router: Chosen::new(&Aware),
        ..Config::default()
    };
    // No rosters are kept above this population, so members that are no neighbours are reached by
    // routing.
    let unknown = Config {
        roster_max: 1,
        ..known
    };
    let mut plans = Vec::new();
    for nodes in 4..=6 {
        // In smaller graphs all nodes are neighbours.
        let configs = [(known, true), (unknown, false)].into_iter();
        for (config, names_known) in configs.take(if nodes < 6 { 1 } else { 2 }) {
            for strategy in [Strategy::Binomial, Strategy::SiblingTree { fanout: 2 }] {
                plans.push(Plan {
                    world: Relays::all_to_all(nodes, config, strategy),
                    names_known,
                });
            }
        }
        for strategy in [Strategy::Binomial, Strategy::SiblingTree { fanout: 2 }] {
            let mut world = Relays::all_to_all(nodes, known, strategy);
            world.full = Full::Blocks;
            plans.push(Plan {
                world,
                names_known: true,
            });
        }
    }
    plans
}
