//! One scenario, played: a world, faults and messages, then quiet, while every promise is watched.
//!
//! ```text
//!   deploy ── faults and messages ──▶ faults end ──▶ healed? ──▶ receipts ──▶ quiet?
//!                └── quiet for long enough: healed? ──┘
//! ```

mod looks;
mod operations;
mod outcome;
mod reports;
mod watch;

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh::Bootstrap;
use binomesh::peer::Peer;
use binomesh::world::{DeploymentTree, Fault, Id, Memory, Network, World};
use binomesh_overlay::config::Gather;
use binomesh_overlay::noise::Noise;
use binomesh_overlay::{Config, Planted};
use binomesh_routing::packet::Confirmation;
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Destination, Publish, Topic};
use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::checker::collectives::Collectives;
use super::checker::{Accepted, Audience, Checker, Doubt};
use super::scenario::{Post, Scenario, Timed};
use super::violation::Violation;
pub use outcome::Outcome;
use watch::Watch;

/// The number of seed addresses that are drawn for each node, one perhaps twice: the smallest
/// sensible number. In a clique each node knows all addresses.
const SEEDS: usize = 3;
/// The time between two looks at the world.
const GLANCE: Duration = Duration::from_millis(100);
/// The time between two checks of the bounds of all lists.
const WEIGHING: Duration = Duration::from_secs(1);
/// How long the last false message of a fault, a lie for example, may have an effect. Its
/// receiver's tables keep it until the sender repeats everything in full: at most 12 beats later,
/// 7.6 s by the slowest clock. The root then waits up to 2 s before it gives the members new ranks.
const WORDS_STAND: Duration = Duration::from_secs(11);
/// How long after the last receipt everything must have come to rest, and how long the silence is
/// checked at least.
const REST: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(30);
/// How many messages per node and virtual second are a storm, which ends the run: a hundred times
/// the number in a busy second.
const STORM: u64 = 2_000;
/// How many messages are allowed in answer to one forged message: a Lead to each child, and the
/// answers. All forged messages of a paused node arrive in one instant.
const ANSWERS: u64 = 10;
/// The most messages that are published after the last fault, each by another node.
const LAST_MESSAGES: usize = 8;

/// How scenarios are played.
#[derive(Debug, Clone, Copy, Default)]
pub struct Play {
    /// The bug that is planted, if any.
    pub planted: Planted,
    /// Whether all inputs and effects of nodes are hashed: [`Outcome::digest`].
    pub is_hashed: bool,
}

impl From<Planted> for Play {
    fn from(planted: Planted) -> Self {
        let is_hashed = false;
        Self { planted, is_hashed }
    }
}

/// Play a scenario.
pub fn play(scenario: &Scenario, play: Play) -> Outcome {
    let mut trial = Trial::new(scenario, play.planted);
    if play.is_hashed {
        trial.world.keep_digest();
    }
    trial.deploy();
    trial.disturb();
    trial.calm();
    if trial.heal() {
        trial.conclude();
    }
    trial.outcome()
}

struct Trial<'a> {
    scenario: &'a Scenario,
    planted: Planted,
    world: World,
    checker: Checker,
    collectives: Collectives,
    watch: Watch,
    next_glance: Duration,
    next_weighing: Duration,
    faults: u64,
    kinds: BTreeSet<&'static str>,
    published: u64,
    broadcasts: u64,
    /// The number of calls so far, and so of the last call.
    next_call: u64,
    /// The number of reports since the count was last set to 0. The report that a verdict expires
    /// does not count: it follows a minute after the report of the verdict itself.
    told: usize,
    /// The first report that `told` counts.
    first_told: String,
    /// The present second for the storm check, and the number of messages before it.
    second: (Duration, u64),
    /// How many messages relays had refused by the last look because their window was full.
    window_full: u64,
    /// How many messages in a second are a storm.
    storm: u64,
    violations: Vec<Violation>,
}

impl<'a> Trial<'a> {
    fn new(scenario: &'a Scenario, planted: Planted) -> Self {
        let mut world = World::new(scenario.seed, Network::with(scenario.network));
        *world.relay() = scenario.relay(planted);
        Self {
            scenario,
            planted,
            world,
            checker: Checker::default(),
            collectives: Collectives::new(operations::trip(scenario), scenario.tight),
            watch: Watch::default(),
            next_glance: Duration::ZERO,
            next_weighing: Duration::ZERO,
            faults: 0,
            kinds: BTreeSet::new(),
            published: 0,
            broadcasts: 0,
            next_call: 0,
            told: 0,
            first_told: String::new(),
            second: (Duration::ZERO, 0),
            window_full: 0,
            storm: STORM * scenario.crowd() + ANSWERS * scenario.forged(),
            violations: Vec::new(),
        }
    }

    /// Start all nodes. The parent and the seed addresses of each follow from the scenario's seed
    /// and the node's number.
    fn deploy(&mut self) {
        let Scenario {
            seed, nodes, shape, ..
        } = *self.scenario;
        for id in 0..nodes {
            let mut rng = ChaCha8Rng::seed_from_u64(seed ^ u64::from(id) << 40);
            let mut noise = Noise::new(seed.wrapping_add(u64::from(id) << 32));
            let mut config = Config::new(id, super::generator::FIRST_BOOT, noise.next());
            config.parent = shape.parent(id, &mut rng);
            config.slot = Some(id);
            let others: Vec<Id> = (0..nodes).filter(|other| *other != id).collect();
            config.seeds = (0..SEEDS).filter_map(|_| noise.pick(&others)).collect();
            match self.scenario.bootstrap {
                Bootstrap::Tree => {}
                Bootstrap::Clique => {
                    (config.parent, config.slot) = (None, None);
                    config.gather = Some(Gather::new((0..nodes).collect()));
                    config.seeds = others;
                }
                // The edges of the tree, and edges to the seeds.
                Bootstrap::Graph => {
                    config.seeds.extend(config.parent.take());
                    config.slot = None;
                    config.survey = Some(Gather::new(config.seeds.clone()));
                }
            }
            self.adjust(&mut config);
            self.world.start(config);
        }
        self.observe();
    }

    fn adjust(&self, config: &mut Config<Id>) {
        adjust(self.scenario, self.planted, config);
    }

    /// Apply faults, publish messages and make calls at their times, until the faults end.
    fn disturb(&mut self) {
        let scenario = self.scenario;
        let (mut faults, mut messages) = (scenario.faults.iter(), scenario.messages.iter());
        let (mut fault, mut message) = (faults.next(), messages.next());
        let mut calls = operations::Agenda::of(scenario);
        let end = Duration::from_millis(scenario.faulty_ms);
        loop {
            let fault_at = fault.map_or(end, Timed::at).min(end);
            let message_at = message.map_or(end, Timed::at).min(end);
            let call_at = calls.next_at().unwrap_or(end).min(end);
            let next = fault_at.min(message_at).min(call_at);
            self.run_to(next);
            if next >= end || self.has_ended() {
                break;
            }
            if call_at <= next {
                calls.pop().into_iter().for_each(|call| self.call(&call));
            } else if fault_at <= message_at {
                fault.into_iter().for_each(|fault| self.act(&fault.what));
                fault = faults.next();
            } else {
                let post = message.map(|message| &message.what);
                post.into_iter().for_each(|post| self.publish(post));
                message = messages.next();
            }
        }
    }

    fn act(&mut self, fault: &Fault) {
        self.faults += 1;
        self.kinds.insert(fault.kind());
        let (scenario, planted, now) = (self.scenario, self.planted, self.world.now());
        if let Fault::Lie { node, .. } = fault {
            self.checker.on_lie(now, *node);
        }
        if let Fault::Leave { node } = fault {
            self.checker.on_leave(*node, self.world.boot(*node));
        }
        match fault {
            Fault::Lie { lie, .. } if lie.is_of_relay() => {
                self.checker.on_doubt(now, Doubt::Reports);
            }
            Fault::Lie { .. } | Fault::Scramble { .. } | Fault::Flood { .. } => {
                self.checker.on_doubt(now, Doubt::Overlay);
            }
            _ => {}
        }
        let end = fault.lasts().map_or(Duration::MAX, |length| now + length);
        for id in self.hindered_by(fault) {
            self.checker.on_hindered(id, now, end);
        }
        self.note_disturbance(fault, end);
        self.world
            .act(fault, |config| adjust(scenario, planted, config));
        self.observe();
        let limit = self.scenario.heal_limit();
        self.watch.on_fault(&self.world, fault, limit);
    }

    /// The nodes that are harder to reach while a fault lasts.
    fn hindered_by(&self, fault: &Fault) -> Vec<Id> {
        match fault {
            Fault::Pause { node, .. } | Fault::Skew { node, .. } => vec![*node],
            Fault::Cut { from: a, to: b, .. }
            | Fault::Sever { a, b, .. }
            | Fault::Slow { a, b, .. }
            | Fault::Narrow { from: a, to: b, .. } => vec![*a, *b],
            Fault::Partition { groups, .. } => groups.concat(),
            Fault::Weather { .. } => self.world.peers().map(|(id, _)| id).collect(),
            _ => Vec::new(),
        }
    }

    /// End the faults. Deployed nodes that are dead are started again: all of them, or only as many
    /// as the living nodes need to find each other.
    fn calm(&mut self) {
        self.world.calm();
        let now = self.world.now();
        self.collectives.on_calm(now);
        let dead = |world: &World| -> Vec<Id> {
            let all = 0..self.scenario.nodes;
            all.filter(|id| !world.is_up(*id)).collect()
        };
        for id in dead(&self.world) {
            if !self.scenario.all_return && watch::is_connected(&self.world, |_| true) {
                break;
            }
            let memory = Memory::Boot;
            self.world.act(&Fault::Restart { node: id, memory }, |_| {});
        }
        self.observe();
        self.watch.on_calm(&self.world, now);
    }

    /// Wait for the exact graph. Returns false if it does not come in time, or if the run has ended
    /// before.
    fn heal(&mut self) -> bool {
        let end = self.watch.since() + self.scenario.heal_limit() + GLANCE;
        while !self.watch.is_healed() && self.world.now() < end && !self.has_ended() {
            self.run_to((self.world.now() + GLANCE).min(end));
        }
        self.watch.is_healed() && !self.has_ended()
    }

    /// Publish the last messages and make the last calls. Then wait for the remaining receipts, and
    /// for silence.
    fn conclude(&mut self) {
        let up: Vec<Id> = self.world.peers().map(|(id, _)| id).collect();
        for from in up.into_iter().take(LAST_MESSAGES) {
            let post = Post {
                from,
                to: Vec::new(),
                strategy: Strategy::default(),
                bytes: 16,
                deadline_ms: None,
            };
            self.publish(&post);
        }
        self.call_all();
        let end = self.world.now() + self.scenario.heal_limit();
        while self.world.now() < end && !self.has_ended() && self.checker.open_count() > 0 {
            self.run_to(self.world.now() + GLANCE);
        }
        let least = Duration::from_millis(self.scenario.least_ms);
        self.run_to(self.world.now() + REST);
        self.told = 0;
        let start = self.world.now();
        self.run_to((start + SILENCE).max(least));
        let (events, length) = (self.told, self.world.now() - start);
        if events > 0 {
            let first = std::mem::take(&mut self.first_told);
            let broken = Violation::NotQuiet {
                events,
                length,
                first,
            };
            self.violations.push(broken);
        }
        let after = self.world.now() - self.watch.since();
        if let Some(defect) = self.world.defect() {
            self.violations.push(Violation::NotHealed { after, defect });
        }
        let busy = |(id, peer): (Id, &Peer<Id>)| (!peer.relay().is_idle()).then_some(id);
        let end = self.world.now() + operations::ASKING;
        while self.world.now() < end && self.world.peers().find_map(busy).is_some() {
            self.run_to(self.world.now() + GLANCE);
        }
        let busy = self.world.peers().find_map(busy);
        self.violations
            .extend(busy.map(|id| Violation::Retained { id }));
    }

    fn publish(&mut self, post: &Post) {
        let place = |peer: &Peer<Id>| peer.relay().placement();
        let placement = self.world.peer(post.from).and_then(place);
        let (Some(placement), true) = (placement, self.world.is_standing(post.from)) else {
            return;
        };
        let (destination, audience) = match post.to.is_empty() {
            true => (Destination::All, Audience::Members),
            false => {
                let peers = post.to.iter().copied().collect();
                (Destination::Peers(post.to.clone()), Audience::Peers(peers))
            }
        };
        let Ok(topic) = Topic::new("chaos") else {
            return;
        };
        let payload = self.payload(post);
        let publish = Publish {
            topic,
            payloads: payload.clone().into(),
            destination,
            strategy: post.strategy,
            due: post.deadline_ms.map(Duration::from_millis).into(),
            confirmation: Confirmation::Relayed,
            is_ordered: false,
        };
        let act = |peer: &mut Peer<Id>, out: &mut _| peer.publish(publish, out);
        if let Some(Ok(id)) = self.world.with_peer(post.from, act) {
            self.published += 1;
            self.broadcasts += u64::from(post.to.is_empty());
            let accepted = Accepted {
                at: self.world.now(),
                placement,
                audience,
                payload,
            };
            self.checker.on_accepted(id, accepted);
        }
        self.observe();
    }

    /// A payload that differs for each node and each time of publication.
    fn payload(&self, post: &Post) -> Bytes {
        let mut bytes = self.world.now().as_nanos().to_le_bytes().to_vec();
        bytes.extend(post.from.to_le_bytes());
        bytes.resize((post.bytes as usize).max(bytes.len()), 0x5a);
        bytes.into()
    }
}

fn adjust(scenario: &Scenario, planted: Planted, config: &mut Config<Id>) {
    config.planted = planted;
    config.pace = scenario.profile.pace();
    config.pace.grace = Duration::from_millis(scenario.grace_ms);
    let most = match scenario.shape {
        DeploymentTree::Flat => u16::try_from(scenario.nodes).unwrap_or(u16::MAX),
        _ => 0,
    };
    config.limits.max_children = most.max(scenario.max_children);
}
