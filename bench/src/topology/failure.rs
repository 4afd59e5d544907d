//! How many nodes can fail at random before the others are not connected any more.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::Topology;
use crate::parallel;

/// The number of chunks that threads take in turn.
const CHUNKS: u64 = 50;

/// Random sets of nodes that fail. In each trial the set of f nodes is part of the set of f + 1.
#[derive(Debug, Clone, Copy)]
pub struct Trials {
    /// The number of trials.
    pub count: u64,
    /// The seed of the random sets.
    pub seed: u64,
    /// The number of threads.
    pub threads: u8,
}

impl Trials {
    /// A number f of failures after which, in at least `share` of the trials, the other nodes all
    /// reach each other, while after f + 1 they do not. `tell` is called with each number tried.
    ///
    /// The search goes up from 0 by an eighth at a time until there are too many failures, and then
    /// looks for the exact number. It does not come from above, since there the share rises again:
    /// the last remaining node is connected.
    pub fn survived(self, topology: &Topology, share: f64, tell: impl Fn(u32)) -> u32 {
        let most = topology.nodes() as u32 - 1;
        let is_enough = |failures: u32| {
            tell(failures);
            self.connected_share(topology, failures) >= share
        };
        let next = |good: u32| (good < most).then(|| (good + 1 + good / 8).min(most));
        let mut good = 0;
        let mut bad = loop {
            match next(good) {
                Some(failures) if is_enough(failures) => good = failures,
                Some(failures) => break failures,
                None => return most,
            }
        };
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            match is_enough(middle) {
                true => good = middle,
                false => bad = middle,
            }
        }
        good
    }

    /// The share of trials in which the other nodes all reach each other after `failures` nodes
    /// have failed, which must be fewer than all.
    pub fn connected_share(self, topology: &Topology, failures: u32) -> f64 {
        let counts = parallel::map(
            CHUNKS,
            self.threads,
            |chunk| {
                let mut trial = Trial::new(topology);
                let numbers = (chunk..self.count).step_by(CHUNKS as usize);
                let connected = |number: &u64| {
                    trial.draw(self.seed, *number, failures);
                    trial.is_connected(topology)
                };
                numbers.filter(connected).count()
            },
            |_| false,
            |_| {},
        );
        counts.into_values().sum::<usize>() as f64 / self.count.max(1) as f64
    }
}

/// One trial: the nodes that failed, and the memory for a search among the others.
struct Trial {
    /// All nodes in random order. The first `failures` of them have failed.
    order: Vec<u32>,
    failures: usize,
    /// For each node, whether it has failed or the search has seen it.
    is_closed: Vec<bool>,
    open: Vec<u32>,
}

impl Trial {
    fn new(topology: &Topology) -> Self {
        Self {
            order: Vec::new(),
            is_closed: vec![false; topology.nodes()],
            open: Vec::new(),
            failures: 0,
        }
    }

    fn draw(&mut self, seed: u64, number: u64, failures: u32) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number);
        self.failures = failures as usize;
        self.order.clear();
        self.order.extend(0..self.is_closed.len() as u32);
        // Shuffle all nodes, so that one more failure adds a node to the same set.
        self.order.shuffle(&mut random);
    }

    fn is_connected(&mut self, topology: &Topology) -> bool {
        self.reaches_all(|node| topology.neighbours(node))
            && (!topology.is_directed() || self.reaches_all(|node| topology.senders(node)))
    }

    /// Whether the first live node reaches all live nodes.
    fn reaches_all<'a>(&mut self, ends: impl Fn(u32) -> &'a [u32]) -> bool {
        let (failed, live) = self.order.split_at(self.failures);
        self.is_closed.fill(false);
        self.open.clear();
        self.open.extend(live.first());
        for &node in failed.iter().chain(&self.open) {
            self.is_closed[node as usize] = true;
        }
        let mut seen = self.open.len();
        while let Some(node) = self.open.pop() {
            if seen == live.len() {
                return true;
            }
            for &end in ends(node) {
                if !std::mem::replace(&mut self.is_closed[end as usize], true) {
                    seen += 1;
                    self.open.push(end);
                }
            }
        }
        seen == live.len()
    }
}
