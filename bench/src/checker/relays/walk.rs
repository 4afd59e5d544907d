//! Seeded schedules through a world of relays that is too large for a search.

use std::time::Duration;

use binomesh_routing::Relay;
use binomesh_routing::packet::CustodyRefusal;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::{DELIVERY, Id, Relays, State, Step};
use crate::parallel;

/// How many schedules one thread takes at a time.
const CHUNK: u64 = 500;

/// The result of many schedules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walked {
    /// How many schedules ran. They may be fewer than requested if one failed, unless
    /// [`Schedules::to_the_end`] is set.
    pub schedules: u64,
    /// How many steps all schedules had.
    pub steps: u64,
    /// The most steps of one schedule.
    pub depth: usize,
    /// The longest schedule, by the clock of the world.
    pub longest: Duration,
    /// How often a relay said that it had no room.
    pub busy: u64,
    /// How often a copy waited until earlier copies to the same peer were answered, or for its
    /// turn.
    pub held_back: u64,
    /// How many schedules broke a property.
    pub failures: u64,
    /// The first failure: its seed, the property, and the steps that led there.
    pub counterexample: Option<String>,
}

/// The schedules to walk.
#[derive(Debug, Clone, Copy)]
pub struct Schedules {
    /// The seed of the first schedule; the others follow.
    pub first_seed: u64,
    /// The number of schedules to walk.
    pub count: u64,
    /// Whether to go on after a failure, so that failures are counted.
    pub to_the_end: bool,
}

/// Take random steps, seed by seed. The result does not depend on the number of threads.
pub fn walk(
    world: &Relays,
    schedules: Schedules,
    threads: u8,
    tell: impl Fn(u64) + Sync,
) -> Walked {
    let Some(start) = world.start() else {
        let failed = Some("the world has no start\n".to_owned());
        return Walked {
            failures: 1,
            counterexample: failed,
            ..Walked::default()
        };
    };
    let chunks = schedules.count.div_ceil(CHUNK);
    let run = |chunk: u64| {
        let first = chunk * CHUNK;
        let mut sum = Walked::default();
        for offset in first..schedules.count.min(first + CHUNK) {
            let seed = schedules.first_seed.wrapping_add(offset);
            sum.add(one(world, start.clone(), seed));
            if sum.failures > 0 && !schedules.to_the_end {
                break;
            }
        }
        sum
    };
    let enough = |sum: &Walked| sum.failures > 0 && !schedules.to_the_end;
    let done = parallel::map(chunks, threads, run, enough, |sums| {
        tell((sums.len() as u64 * CHUNK).min(schedules.count));
    });
    let mut sum = Walked::default();
    done.into_values().for_each(|chunk| sum.add(chunk));
    sum
}

/// Walk one schedule, until it ends or a property fails.
fn one(world: &Relays, mut state: State, seed: u64) -> Walked {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut taken, mut steps) = (Vec::new(), Vec::new());
    let failed = loop {
        steps.clear();
        world.steps(&state, &mut steps);
        if let Some(name) = world.broken(&state) {
            break Some(name);
        }
        let Some(step) = steps.choose(&mut random).copied() else {
            let has_ended = Relays::has_ended(&state);
            break (!has_ended).then_some(DELIVERY);
        };
        world.take(&mut state, step);
        taken.push(step);
    };
    let busy = state.relays.iter().map(|relay| busy_of(relay));
    let held_back = state.relays.iter().map(|relay| relay.stats().held_back);
    Walked {
        schedules: 1,
        steps: taken.len() as u64,
        depth: taken.len(),
        longest: state.clock,
        busy: busy.sum(),
        held_back: held_back.sum(),
        failures: u64::from(failed.is_some()),
        counterexample: failed.map(|name| script(name, seed, &taken)),
    }
}

/// How often a node has said that it has no room.
fn busy_of(relay: &Relay<Id>) -> u64 {
    let counters = relay.stats().refused;
    counters
        .get(CustodyRefusal::Busy as usize)
        .copied()
        .unwrap_or(0)
}

/// The property that failed, and the steps that led there, as text.
fn script(name: &str, seed: u64, steps: &[Step]) -> String {
    let steps: String = steps.iter().map(|step| format!("  {step}\n")).collect();
    format!("{name} fails, seed {seed}:\n{steps}")
}

impl Walked {
    fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.steps += other.steps;
        self.depth = self.depth.max(other.depth);
        self.longest = self.longest.max(other.longest);
        self.busy += other.busy;
        self.held_back += other.held_back;
        self.failures += other.failures;
        if self.counterexample.is_none() {
            self.counterexample = other.counterexample;
        }
    }
}
