//! Seeded schedules through such a world, where a search would not come to its end.

use std::time::Duration;

use binomesh_routing::Relay;
use binomesh_routing::packet::Refusal;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::{DELIVERY, Id, Relays, State, Step};
use crate::parallel;

/// How many schedules one thread takes at a time.
const CHUNK: u64 = 500;

/// How so many schedules went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walked {
    /// How many there were; of a world without a flaw it may be fewer than were asked
    /// for only if one failed.
    pub schedules: u64,
    /// All their steps.
    pub steps: u64,
    /// The most steps of one.
    pub depth: usize,
    /// The longest, by the clock of the world.
    pub longest: Duration,
    /// How often somebody said that it had no room.
    pub busy: u64,
    /// How often a copy waited until another one to the same peer was answered.
    pub held_back: u64,
    /// How many had a property fail.
    pub failures: u64,
    /// Of the first of these: its seed, the property, and the steps that led there.
    pub counterexample: Option<String>,
}

/// Which schedules.
#[derive(Debug, Clone, Copy)]
pub struct Schedules {
    /// The seed of the first; the others follow.
    pub first_seed: u64,
    /// How many.
    pub count: u64,
    /// Go on after a failure, to count them.
    pub to_the_end: bool,
}

/// Take steps at random, seed by seed. What comes out does not depend on the threads.
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

/// One schedule, until it ends or a property fails.
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
    counters.get(Refusal::Busy as usize).copied().unwrap_or(0)
}

/// What went wrong, and the steps that led there.
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
