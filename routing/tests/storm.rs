//! Everything at once: loss, pauses, crashes, wrong verdicts, joins, new epochs,
//! small bounds, large payloads, broadcasts and multicasts by many.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::network::{Conditions, Id, Network, seeds};
use binomesh_routing::router::{Chosen, ROUTERS};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination, Input};
use rand::Rng;

struct Storm {
    network: Network,
    everybody: Vec<u32>,
    /// Members of the first epoch that have not crashed.
    steady: BTreeSet<u32>,
    crashed: BTreeSet<u32>,
    ids: Vec<Id>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let conditions = Conditions {
            loss: if seed.is_multiple_of(3) { 0.05 } else { 0.0 },
            ..Conditions::default()
        };
        let config = Config {
            max_duties: if seed.is_multiple_of(2) { 3 } else { 100 },
            max_exceptions: if seed.is_multiple_of(5) { 2 } else { 64 },
            max_waiters: 2,
            max_finished: if seed.is_multiple_of(7) { 4 } else { 1000 },
            max_held: 4,
            router: Chosen::new(ROUTERS[seed as usize % ROUTERS.len()]),
            ..Config::default()
        };
        let mut network = Network::unplaced(30, seed, conditions, config);
        let everybody = network.members.clone();
        network.place(&everybody[..22]);
        network.run_for(3_000_000);
        Self {
            steady: everybody[..22].iter().copied().collect(),
            crashed: BTreeSet::new(),
            ids: Vec::new(),
            everybody,
            network,
        }
    }

    fn pick(&mut self) -> u32 {
        let at = self.network.rng.random_range(0..self.network.members.len());
        self.network.members[at]
    }

    fn act(&mut self) {
        let node = self.pick();
        match self.network.rng.random_range(0..20) {
            0..=8 => self.publish(node),
            9..=12 if !self.network.is_paused(node) && self.network.is_alive(node) => {
                let pause = self.network.rng.random_range(10_000..500_000);
                self.network.pause(node, pause);
            }
            13 if self.steady.len() > 14 && self.network.is_alive(node) => {
                self.network.crash(node);
                self.steady.remove(&node);
                self.crashed.insert(node);
            }
            14 if self.network.is_alive(node) => self.accuse(node),
            15..=17 => self.renumber(),
            _ => {}
        }
        let delay = self.network.rng.random_range(0..120_000);
        self.network.run_for(delay);
    }

    fn publish(&mut self, from: u32) {
        if !self.network.is_alive(from) || self.network.is_paused(from) {
            return;
        }
        let payload = [10, 10_000][self.network.rng.random_range(0..2)];
        let destination = if self.network.rng.random_bool(0.7) {
            Destination::All
        } else {
            let peers: BTreeSet<u32> = (0..4)
                .map(|_| self.pick())
                .filter(|id| *id != from)
                .collect();
            Destination::Peers(peers.into_iter().collect())
        };
        // The strategy is not drawn, so the storm of each seed stays the same.
        self.network.strategy = match self.ids.len() % 6 {
            0 => Strategy::SiblingTree { fanout: 2 },
            1 => Strategy::SiblingTree { fanout: 5 },
            2 => Strategy::Flood,
            3 => Strategy::Chain,
            4 => Strategy::circulant(self.ids.len() as u32 / 6),
            _ => Strategy::Binomial,
        };
        let sent = self.network.publish_to(from, destination, payload, None);
        self.ids.extend(sent);
    }

    /// Gives all other members a wrong verdict on a node, and withdraws it after a while.
    fn accuse(&mut self, node: u32) {
        for judge in self.network.members.clone() {
            if judge != node {
                self.network.input_after(judge, 0, Input::PeerDown(node));
                self.network
                    .input_after(judge, 400_000, Input::PeerUp(node));
            }
        }
    }

    /// Removes the dead members, may add one member, and assigns the ranks again.
    fn renumber(&mut self) {
        let mut members = self.network.members.clone();
        members.retain(|id| self.network.is_alive(*id));
        let joining = self
            .everybody
            .iter()
            .copied()
            .find(|id| !members.contains(id) && !self.crashed.contains(id));
        if self.network.rng.random_bool(0.5) {
            members.extend(joining);
        }
        let turn = self.network.rng.random_range(0..members.len());
        members.rotate_left(turn);
        let other = self.network.rng.random_range(0..members.len());
        members.swap(0, other);
        self.network.place(&members);
        self.network.run_for(150_000);
    }
}

#[test]
fn in_a_storm_receipts_are_true_and_steady_members_get_everything() {
    for seed in seeds(1500) {
        let mut storm = Storm::new(seed);
        for _ in 0..40 {
            storm.act();
        }
        storm.renumber();
        storm.network.run_until_receipts(300_000_000);
        storm.network.run_for(5_000_000);
        storm.network.assert_sound();
        let network = &storm.network;
        for id in &storm.ids {
            for receipt in network.receipts.get(id).into_iter().flatten() {
                for unreached in &receipt.unreached {
                    let by_rank = &network.history[&receipt.epoch.counter];
                    let peer = by_rank[unreached.rank.unwrap().0 as usize];
                    assert!(
                        !storm.steady.contains(&peer),
                        "seed {seed}: {unreached:?} of {id:?}"
                    );
                }
            }
        }
        for member in network.members.iter().filter(|id| network.is_alive(**id)) {
            let stats = network.stats(*member);
            assert_eq!(
                (stats.open_messages, stats.held_packets),
                (0, 0),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn with_deadlines_every_receipt_comes_in_time_and_is_true() {
    for seed in seeds(500) {
        let mut storm = Storm::new(seed);
        for _ in 0..20 {
            storm.act();
            let origin = storm.pick();
            if storm.network.is_alive(origin) && !storm.network.is_paused(origin) {
                let deadline = Some(Duration::from_millis(700));
                let sent = storm
                    .network
                    .publish_to(origin, Destination::All, 10, deadline);
                let deadline_us = storm.network.now_us + 700_000;
                if let Ok(id) = sent {
                    while !storm.network.receipts.contains_key(&id)
                        && storm.network.is_alive(origin)
                    {
                        let in_time = storm.network.now_us <= deadline_us + 10_000;
                        assert!(in_time, "seed {seed}: {id:?} is late");
                        storm.network.run_for(10_000);
                    }
                }
            }
        }
        storm.network.assert_sound();
    }
}
