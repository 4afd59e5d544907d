//! A scenario under construction: it knows which nodes are up, and draws each kind of fault.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use binomesh::world::{Conditions, Fault, Id, Latency, Layer, Lie, Memory};
use binomesh_routing::strategy::Strategy;
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::Bounds;
use crate::command::chaos::scenario::{Post, Timed};

/// Lies against which a promise is not kept yet. The reasons, in the order of the list: A receipt
/// names every member that a census counts. A round that cannot be surpassed is never answered. A
/// routed part without its transit list circulates for ever. A false name stays in a roster as long
/// as its epoch. A false finger answers for others.
const NOT_DRAWN: [Lie; 5] = [
    Lie::Multitudes,
    Lie::Rounds,
    Lie::Transit,
    Lie::Rosters,
    Lie::Fingers,
];
/// The number of the first visitor.
const FIRST_VISITOR: Id = 100_000;

/// A scenario under construction.
pub(super) struct Script<'a> {
    pub(super) bounds: Bounds,
    pub(super) rng: &'a mut ChaCha8Rng,
    /// All nodes so far, without visitors, and the time before which each of them sends nothing.
    nodes: BTreeMap<Id, u64>,
    down: BTreeSet<Id>,
    next_visitor: Id,
    pub(super) faults: Vec<Timed<Fault>>,
    pub(super) messages: Vec<Timed<Post>>,
}

impl<'a> Script<'a> {
    pub(super) fn new(bounds: Bounds, rng: &'a mut ChaCha8Rng) -> Self {
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

    fn push(&mut self, at_ms: u64, what: Fault) {
        self.faults.push(Timed { at_ms, what });
    }

    fn standing(&self) -> Vec<Id> {
        let up = self.nodes.keys().filter(|id| !self.down.contains(id));
        up.copied().collect()
    }

    fn anybody(&mut self) -> Id {
        self.standing().choose(self.rng).copied().unwrap_or(0)
    }

    fn pair(&mut self) -> (Id, Id) {
        let standing = self.standing();
        let mut two = standing.choose_multiple(self.rng, 2).copied();
        (two.next().unwrap_or(0), two.next().unwrap_or(1))
    }

    /// A node that may be killed. `None` if a third of the nodes are down already, or only one is
    /// up.
    fn victim(&mut self) -> Option<Id> {
        let is_enough = self.down.len() * 3 >= self.nodes.len();
        let standing = self.standing();
        let victim = standing.choose(self.rng).copied();
        victim.filter(|_| !is_enough && standing.len() > 1)
    }

    pub(super) fn crash(&mut self, at: u64) {
        if let Some(node) = self.victim() {
            let noticed = self.rng.random_ratio(1, 4);
            self.push(at, Fault::Crash { node, noticed });
            self.down.insert(node);
        }
    }

    /// Start a node again that is down; if none is down, kill one.
    pub(super) fn restart_any(&mut self, at: u64) {
        let down: Vec<Id> = self.down.iter().copied().collect();
        match down.choose(self.rng).copied() {
            Some(id) => self.restart(at, id),
            None => self.crash(at),
        }
    }

    pub(super) fn restart_all(&mut self, at: u64) {
        while let Some(id) = self.down.first().copied() {
            self.restart(at, id);
        }
    }

    fn restart(&mut self, at: u64, node: Id) {
        self.down.remove(&node);
        let memory = match self.rng.random_range(0..12) {
            0..4 => Memory::Kept,
            4 => Memory::Lost,
            _ => Memory::Boot,
        };
        self.push(at, Fault::Restart { node, memory });
        self.nodes.insert(node, at + 2_000);
    }

    /// Crash a node and start it again before another one can notice.
    pub(super) fn bounce(&mut self, at: u64) {
        if let Some(node) = self.victim() {
            let noticed = false;
            self.push(at, Fault::Crash { node, noticed });
            self.restart(at, node);
        }
    }

    pub(super) fn pause(&mut self, at: u64) {
        let most = if self.rng.random_ratio(1, 8) {
            20_000
        } else {
            6_000
        };
        let ms = self.rng.random_range(50..most);
        let node = self.anybody();
        self.push(at, Fault::Pause { node, ms });
    }

    pub(super) fn leave(&mut self, at: u64) {
        if let Some(node) = self.victim() {
            self.push(at, Fault::Leave { node });
            self.down.insert(node);
        }
    }

    pub(super) fn join(&mut self, at: u64) {
        let node = self.nodes.keys().last().map_or(0, |last| last + 1);
        if node >= self.bounds.nodes * 2 {
            return;
        }
        let parent = self.anybody();
        let known: Vec<Id> = (0..self.bounds.nodes).collect();
        let seeds = known.choose_multiple(self.rng, 3).copied().collect();
        let join = Fault::Join {
            node,
            parent,
            seeds,
        };
        self.push(at, join);
        self.nodes.insert(node, at + 2_000);
    }

    /// Let many visitors come at once, and go at once.
    pub(super) fn visit(&mut self, at: u64, ms: u64) {
        let count = self.rng.random_range(4..=14);
        let first = self.next_visitor;
        self.next_visitor += count;
        let parent = self.anybody();
        self.push(
            at,
            Fault::Visit {
                parent,
                first,
                count,
                ms,
            },
        );
    }

    pub(super) fn cut(&mut self, at: u64, ms: u64) {
        let (from, to) = self.pair();
        let ms = Some(ms);
        self.push(at, Fault::Cut { from, to, ms });
    }

    pub(super) fn sever(&mut self, at: u64, ms: u64) {
        let (a, b) = self.pair();
        let ms = Some(ms);
        self.push(at, Fault::Sever { a, b, ms });
    }

    /// Divide all nodes at random into two or three groups, of which some may be empty.
    pub(super) fn partition(&mut self, at: u64, ms: u64) {
        let count = self.rng.random_range(2..=3);
        let mut groups = vec![Vec::new(); count];
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            let group = self.rng.random_range(0..count);
            groups[group].push(id);
        }
        groups.retain(|group| !group.is_empty());
        self.push(at, Fault::Partition { groups, ms });
    }

    pub(super) fn weather(&mut self, at: u64, ms: u64) {
        let max_us = [2_000, 20_000, 100_000, 500_000];
        let max_us = max_us.choose(self.rng).copied().unwrap_or(2_000);
        let latency = match self.rng.random_bool(0.5) {
            true => Latency::Uniform { min_us: 50, max_us },
            false => Latency::LongTail {
                min_us: 200,
                max_us: max_us * 2,
            },
        };
        let conditions = Conditions {
            latency,
            loss_per_million: self.rng.random_range(0..=self.bounds.loss_per_million),
            duplicated_per_million: self.rng.random_range(0..20_000),
            reordered_per_million: self.rng.random_range(0..100_000),
        };
        self.push(at, Fault::Weather { conditions, ms });
    }

    pub(super) fn slow(&mut self, at: u64, ms: u64) {
        let (a, b) = self.pair();
        let extra_ms = self.rng.random_range(20..2_000);
        self.push(at, Fault::Slow { a, b, extra_ms, ms });
    }

    pub(super) fn narrow(&mut self, at: u64, ms: u64) {
        let (from, to) = self.pair();
        let per_second = self.rng.random_range(3..60);
        let room = self.rng.random_range(1..16);
        let narrow = Fault::Narrow {
            from,
            to,
            per_second,
            room,
            ms,
        };
        self.push(at, narrow);
    }

    /// Set the clock of each node that is up wrong, by at most 5%.
    pub(super) fn drift(&mut self, at: u64) {
        for node in self.standing() {
            let per_million = self.rng.random_range(-50_000..=50_000);
            self.push(at, Fault::Drift { node, per_million });
        }
    }

    /// Corrupt the state of one node, of some or of all.
    pub(super) fn scramble(&mut self, at: u64) {
        let standing = self.standing();
        let most = match self.rng.random_range(0..4) {
            0 => standing.len(),
            1 => standing.len() / 3,
            _ => 1,
        };
        let nodes = standing.choose_multiple(self.rng, most.max(1));
        let nodes = nodes.copied().collect();
        let seed = self.rng.random();
        self.push(at, Fault::Scramble { nodes, seed });
    }

    pub(super) fn flood(&mut self, at: u64, ms: u64) {
        let (from, to) = self.pair();
        let most = if self.rng.random_ratio(1, 4) {
            3_000
        } else {
            60
        };
        let flood = Fault::Flood {
            from,
            to,
            count: self.rng.random_range(1..most),
            strangers: self.rng.random_range(0..3) * 20,
            ms,
            seed: self.rng.random(),
        };
        self.push(at, flood);
    }

    pub(super) fn lie(&mut self, at: u64, ms: u64) {
        let node = self.anybody();
        let lies: Vec<Lie> = (Lie::ALL.into_iter())
            .filter(|lie| !NOT_DRAWN.contains(lie))
            .collect();
        if let Some(lie) = lies.choose(self.rng).copied() {
            let seed = self.rng.random();
            let lie = Fault::Lie {
                node,
                lie,
                ms,
                seed,
            };
            self.push(at, lie);
        }
    }

    pub(super) fn skew(&mut self, at: u64, ms: u64) {
        let node = self.anybody();
        if let Some(layer) = Layer::ALL.choose(self.rng).copied() {
            self.push(at, Fault::Skew { node, layer, ms });
        }
    }

    /// Add messages between these times. A node that was restarted or has joined sends nothing
    /// before 2 s after that. With `by_the_living`, the origins are nodes that are up after all
    /// faults so far; otherwise all nodes, some of which are dead when they should send.
    pub(super) fn chatter(&mut self, times: Range<u64>, per_minute: u64, by_the_living: bool) {
        let count = times.end.saturating_sub(times.start) * per_minute / 60_000;
        for _ in 0..count {
            let at_ms = self.rng.random_range(times.clone());
            let ready = self.nodes.iter().filter(|(_, since)| **since <= at_ms);
            let ready: Vec<Id> = ready
                .map(|(id, _)| *id)
                .filter(|id| !by_the_living || !self.down.contains(id))
                .collect();
            let Some(from) = ready.choose(self.rng).copied() else {
                continue;
            };
            let to = self.receivers(from);
            let bytes = if self.rng.random_ratio(1, 8) {
                5000
            } else {
                16
            };
            let has_deadline = self.rng.random_ratio(1, 8);
            let deadline = self.rng.random_range(1_000..10_000);
            let what = Post {
                from,
                to,
                strategy: strategy_at(at_ms),
                bytes,
                deadline_ms: has_deadline.then_some(deadline),
            };
            self.messages.push(Timed { at_ms, what });
        }
    }

    /// The receivers of a message: an empty list, which means all members, in three of four cases,
    /// and otherwise one to three deployed nodes.
    fn receivers(&mut self, from: Id) -> Vec<Id> {
        if self.rng.random_ratio(3, 4) {
            return Vec::new();
        }
        let others: Vec<Id> = (0..self.bounds.nodes).filter(|id| *id != from).collect();
        let count = self.rng.random_range(1..=3);
        others.choose_multiple(self.rng, count).copied().collect()
    }
}

/// The strategy of a message. Of sixteen messages five go down a sibling tree, one floods, which is
/// expensive, one goes along a chain, and one goes like one of several blocks. The strategy follows
/// from the time instead of being drawn, so that the scripts of seeds do not change.
fn strategy_at(at_ms: u64) -> Strategy {
    match at_ms % 16 {
        at @ 0..5 => Strategy::SiblingTree {
            fanout: 2 + at as u32,
        },
        5 => Strategy::Flood,
        6 => Strategy::Chain,
        7 => Strategy::circulant(at_ms as u32 % 5),
        _ => Strategy::Binomial,
    }
}
