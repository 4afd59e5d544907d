//! A random scenario from a seed: bursts of faults, with quiet between them in
//! which everything must heal.
//!
//! ```text
//!   form ─ burst ─ quiet ─ burst ─ quiet ─ … ─ end of all faults
//! ```
//!
//! Everything is drawn here and nothing during the run.

use std::collections::{BTreeMap, BTreeSet};

use binomesh::world::{Conditions, Fault, Id, Latency, Memory, Shape};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::scenario::{Post, Profile, Scenario, Timed};

/// The time in which the nodes form before the first burst.
const FORMING_MS: u64 = 4_000;
/// How long healing, the last receipts and the final silence take in most runs.
const TAIL_MS: u64 = 100_000;
/// A burst lasts at most this long.
const BURST_MS: u64 = 40_000;
/// Messages per minute of a burst, and per minute of quiet.
const BURST_RATE: u64 = 130;
const QUIET_RATE: u64 = 22;
/// The first life of every process; smaller numbers are left for those that
/// lose their memory.
pub const FIRST_BOOT: u64 = 1_000;
/// Visitors are called by numbers from here on.
const FIRST_VISITOR: Id = 100_000;

/// What all scenarios of a run share.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How many nodes are deployed.
    pub nodes: u32,
    /// How long a world lives at least.
    pub least_ms: u64,
    /// The most that is lost of a million messages.
    pub loss_per_million: u32,
    /// The longest healing, at the default profile.
    pub heal_ms: u64,
}

/// The scenario of this seed.
pub fn scenario(seed: u64, bounds: Bounds) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let rng = &mut rng;
    let shape = Shape::ALL.choose(rng).copied().unwrap_or(Shape::Random);
    let profile = Profile::Default;
    let slowest_ms = [1, 5, 20, 80].choose(rng).copied().unwrap_or(1);
    let network = Conditions {
        latency: Latency::Uniform {
            min_us: 50,
            max_us: slowest_ms * 1000,
        },
        loss_per_million: 0,
        duplicated_per_million: 0,
        reordered_per_million: 0,
    };
    let mut script = Script::new(bounds, rng);
    let faulty_ms = bounds.least_ms.saturating_sub(TAIL_MS).max(bounds.least_ms / 2);
    // Each burst is followed by as much quiet as healing may take.
    let slot_ms = BURST_MS + bounds.heal_ms + 5_000;
    let bursts = (faulty_ms / slot_ms).max(1);
    let length = (faulty_ms / bursts).max(1);
    let mut start = FORMING_MS.min(faulty_ms / 4);
    for number in 0..bursts {
        let end = (number + 1) * length;
        let burst_end = if number + 1 == bursts && bursts == 1 {
            end
        } else {
            (start + BURST_MS).min(end)
        };
        script.burst(start, burst_end);
        script.chatter(start, burst_end, BURST_RATE, false);
        script.chatter(burst_end, end, QUIET_RATE, true);
        start = end;
    }
    let all_return = script.rng.random_bool(0.5);
    let Script {
        mut faults,
        mut messages,
        ..
    } = script;
    faults.sort_by_key(|fault| fault.at_ms);
    messages.sort_by_key(|message| message.at_ms);
    Scenario {
        seed,
        nodes: bounds.nodes,
        shape,
        profile,
        max_children: 16,
        network,
        faulty_ms,
        least_ms: bounds.least_ms,
        heal_ms: bounds.heal_ms,
        all_return,
        faults,
        messages,
    }
}

/// A scenario in the making, with what it knows of who is up.
struct Script<'a> {
    bounds: Bounds,
    rng: &'a mut ChaCha8Rng,
    /// All ids so far, visitors aside, and until when each is not to be counted
    /// on.
    nodes: BTreeMap<Id, u64>,
    down: BTreeSet<Id>,
    next_visitor: Id,
    faults: Vec<Timed<Fault>>,
    messages: Vec<Timed<Post>>,
}

impl<'a> Script<'a> {
    fn new(bounds: Bounds, rng: &'a mut ChaCha8Rng) -> Self {
        Self {
            nodes: (0..bounds.nodes).map(|id| (id, 0)).collect(),
            bounds,
            rng,
            down: BTreeSet::new(),
            next_visitor: FIRST_VISITOR,
            faults: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Faults between these times, each at its own.
    fn burst(&mut self, start: u64, end: u64) {
        let most = 16.max((end - start) / 2_500);
        let count = self.rng.random_range(10..=most);
        let mut times: Vec<u64> = (0..count)
            .map(|_| self.rng.random_range(start..end.max(start + 1)))
            .collect();
        times.sort_unstable();
        let first = [0, 5, 8, 9];
        let is_first = self.faults.is_empty();
        for (number, at) in times.into_iter().enumerate() {
            // The first four of a run are of four kinds.
            let kind = first.get(number).copied().filter(|_| is_first);
            let kind = kind.unwrap_or_else(|| self.rng.random_range(0..16));
            self.churn(at, kind);
        }
        if self.rng.random_bool(0.5) {
            while let Some(id) = self.down.first().copied() {
                self.restart(end, id);
            }
        }
    }

    fn churn(&mut self, at: u64, kind: u32) {
        match kind {
            0..5 => {
                for _ in 0..self.rng.random_range(1..=3) {
                    self.crash(at);
                }
            }
            5..8 => {
                let down: Vec<Id> = self.down.iter().copied().collect();
                match down.choose(self.rng).copied() {
                    Some(id) => self.restart(at, id),
                    None => _ = self.crash(at),
                }
            }
            8 => self.leave(at),
            9..12 => {
                let ms = self.rng.random_range(50..6_000);
                if let Some(node) = self.anybody() {
                    self.push(at, Fault::Pause { node, ms });
                }
            }
            12..14 => self.join(at),
            _ => {
                // A crash and a restart before anybody can notice.
                if let Some(id) = self.crash(at) {
                    self.restart(at, id);
                }
            }
        }
    }

    fn push(&mut self, at_ms: u64, what: Fault) {
        self.faults.push(Timed { at_ms, what });
    }

    fn standing(&self) -> Vec<Id> {
        let up = self.nodes.keys().filter(|id| !self.down.contains(id));
        up.copied().collect()
    }

    fn anybody(&mut self) -> Option<Id> {
        self.standing().choose(self.rng).copied()
    }

    /// Somebody who may be killed: two thirds stay up.
    fn victim(&mut self) -> Option<Id> {
        let is_enough = self.down.len() * 3 >= self.nodes.len();
        let standing = self.standing();
        let victim = standing.choose(self.rng).copied();
        victim.filter(|_| !is_enough && standing.len() > 1)
    }

    fn crash(&mut self, at: u64) -> Option<Id> {
        let node = self.victim()?;
        let noticed = self.rng.random_ratio(1, 4);
        self.push(at, Fault::Crash { node, noticed });
        self.down.insert(node);
        Some(node)
    }

    fn restart(&mut self, at: u64, node: Id) {
        self.down.remove(&node);
        let memory = match self.rng.random_ratio(1, 3) {
            true => Memory::Kept,
            false => Memory::Boot,
        };
        self.push(at, Fault::Restart { node, memory });
        self.nodes.insert(node, at + 2_000);
    }

    fn leave(&mut self, at: u64) {
        if let Some(node) = self.victim() {
            self.push(at, Fault::Leave { node });
            self.down.insert(node);
        }
    }

    fn join(&mut self, at: u64) {
        let next = self.nodes.keys().last().map_or(0, |last| last + 1);
        let (Some(parent), true) = (self.anybody(), next < self.bounds.nodes * 2) else {
            return;
        };
        let known: Vec<Id> = (0..self.bounds.nodes).collect();
        let seeds = known.choose_multiple(self.rng, 3).copied().collect();
        let node = next;
        self.push(
            at,
            Fault::Join {
                node,
                parent,
                seeds,
            },
        );
        self.nodes.insert(node, at + 2_000);
    }

    /// Messages between these times, by those who are up in the end or by
    /// everybody, some of whom will be dead then.
    fn chatter(&mut self, start: u64, end: u64, per_minute: u64, by_the_living: bool) {
        let count = end.saturating_sub(start) * per_minute / 60_000;
        for _ in 0..count {
            let at_ms = self.rng.random_range(start..end);
            let ready = self.nodes.iter().filter(|(_, since)| **since <= at_ms);
            let ready: Vec<Id> = ready
                .map(|(id, _)| *id)
                .filter(|id| !by_the_living || !self.down.contains(id))
                .collect();
            let Some(from) = ready.choose(self.rng).copied() else {
                continue;
            };
            let to = self.receivers(from);
            let bytes = if self.rng.random_ratio(1, 8) { 5000 } else { 16 };
            let has_deadline = self.rng.random_ratio(1, 8);
            let deadline = self.rng.random_range(1_000..10_000);
            let what = Post {
                from,
                to,
                bytes,
                deadline_ms: has_deadline.then_some(deadline),
            };
            self.messages.push(Timed { at_ms, what });
        }
    }

    /// Three quarters are for all.
    fn receivers(&mut self, from: Id) -> Vec<Id> {
        if self.rng.random_ratio(3, 4) {
            return Vec::new();
        }
        let others: Vec<Id> = (0..self.bounds.nodes).filter(|id| *id != from).collect();
        let count = self.rng.random_range(1..=3);
        others.choose_multiple(self.rng, count).copied().collect()
    }
}
