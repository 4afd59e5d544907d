//! One seed of a chaos run: a world, faults and messages, then quiet.
//!
//! ```text
//!   deploy ── faults and messages ──▶ faults end ──▶ healed? ──▶ receipts ──▶ quiet?
//! ```
//!
//! Every choice is drawn from the seed, so that it replays the same run.

mod faults;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh::peer::Event;
use binomesh::world::{Id, Network, Shape, Told, World};
use binomesh_overlay::{self as overlay, Config, Planted};
use binomesh_routing::{self as routing, Destination, Publish, Topic};
use bytes::Bytes;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::checker::{Accepted, Audience, Checker};
use super::violation::Violation;

/// How many seeds each node knows, DESIGN's smallest sensible number.
const SEEDS: usize = 3;
/// How long a leaving node waits for its open messages.
const DRAIN: Duration = Duration::from_secs(5);
/// How often healing is looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// How long after the last receipt everything must have come to rest, and how
/// long the silence is listened to.
const REST: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(30);
/// How many messages per deployed node and virtual second are a storm, which
/// ends the run: hundreds of times what a busy second takes.
const STORM: u64 = 10_000;

/// What all seeds of a run share.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How many nodes are deployed.
    pub nodes: u32,
    /// How long faults and messages go on.
    pub faulty: Duration,
    /// The most that is lost while they do.
    pub loss_per_million: u32,
    /// The longest allowed time from the last fault to the exact binomial graph,
    /// and from there to the last receipt.
    pub heal_limit: Duration,
    /// A bug to run with.
    pub planted: Planted,
}

/// What one seed showed.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Which seed.
    pub seed: u64,
    /// What was broken, empty if nothing.
    pub violations: Vec<Violation>,
    /// Crashes, restarts, pauses, leaves and joins.
    pub faults: u64,
    /// Accepted messages.
    pub published: u64,
    /// Deliveries, counted at the receivers.
    pub deliveries: u64,
    /// Members that stayed and were given up for want of their names.
    pub unnamed: u64,
    /// From the last fault to the exact graph.
    pub healed_after: Option<Duration>,
    /// How long the world lived.
    pub lived: Duration,
}

/// Run one seed.
pub fn run(seed: u64, settings: Settings) -> Outcome {
    let mut trial = Trial::new(seed, settings);
    trial.disturb();
    trial.calm();
    let healed_after = trial.heal();
    if healed_after.is_some() {
        trial.conclude();
    }
    trial.outcome(healed_after)
}

struct Trial {
    settings: Settings,
    rng: ChaCha8Rng,
    world: World,
    checker: Checker,
    /// The deployment, for contacts.
    configs: BTreeMap<Id, Config<Id>>,
    down: BTreeSet<Id>,
    /// Who is draining, and until when.
    leaving: BTreeMap<Id, Duration>,
    faults: u64,
    published: u64,
    events: usize,
    /// The second that is measured for storms, and the messages before it.
    second: (Duration, u64),
    violations: Vec<Violation>,
}

impl Trial {
    fn new(seed: u64, settings: Settings) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let slowest = [1, 5, 20, 80].choose(&mut rng).copied().unwrap_or(1);
        let loss = rng.random_range(0..=settings.loss_per_million);
        let fastest = Duration::from_micros(50);
        let network = Network::new(fastest, Duration::from_millis(slowest), loss);
        let mut world = World::new(seed, network);
        world.relay().planted = settings.planted;
        let mut trial = Self {
            settings,
            rng,
            world,
            checker: Checker::default(),
            configs: BTreeMap::new(),
            down: BTreeSet::new(),
            leaving: BTreeMap::new(),
            faults: 0,
            published: 0,
            events: 0,
            second: (Duration::ZERO, 0),
            violations: Vec::new(),
        };
        trial.deploy();
        trial
    }

    fn deploy(&mut self) {
        use Shape::{Binary, Binomial, Chain, Flat, Random};
        let shapes = [Flat, Binary, Binomial, Random, Chain];
        let shape = shapes.choose(&mut self.rng).copied().unwrap_or(Random);
        let count = self.settings.nodes;
        for index in 0..count {
            let parent = shape.parent(index, &mut self.rng);
            let mut config = self.config(index, parent);
            config.slot = Some(index);
            if shape == Flat {
                config.limits.max_children = u16::try_from(count).unwrap_or(u16::MAX);
            }
            self.start(config);
        }
    }

    fn config(&mut self, id: Id, parent: Option<Id>) -> Config<Id> {
        let mut config = Config::new(id, 1, self.rng.random());
        config.parent = parent;
        let others: Vec<Id> = (0..self.settings.nodes).filter(|at| *at != id).collect();
        config.seeds = others
            .choose_multiple(&mut self.rng, SEEDS)
            .copied()
            .collect();
        config.planted = self.settings.planted;
        config
    }

    fn start(&mut self, config: Config<Id>) {
        let (id, boot) = (config.me, config.boot);
        self.checker.on_start(self.world.now(), id, boot);
        self.configs.insert(id, config.clone());
        self.world.start(config);
        self.observe();
    }

    /// Faults and messages until their time is over.
    fn disturb(&mut self) {
        let end = self.world.now() + self.settings.faulty;
        while self.world.now() < end && !self.is_storm() {
            let pause = Duration::from_millis(self.rng.random_range(1..400));
            self.run_to((self.world.now() + pause).min(end));
            match self.rng.random_range(0..100) {
                0..82 => self.publish(),
                82..86 => (0..self.rng.random_range(1..=3)).for_each(|_| self.crash()),
                86..91 => self.restart(),
                91..96 => self.pause(),
                96..98 => self.leave(),
                98..99 => self.join(),
                _ => self.bounce(),
            }
            let now = self.world.now();
            let overdue = self.leaving.iter().find(|(_, until)| **until <= now);
            if let Some((id, _)) = overdue {
                self.go(*id);
            }
        }
    }

    /// The faults end. In half of the runs everybody comes back; otherwise only
    /// as many as it takes for the living to know a way to each other.
    fn calm(&mut self) {
        self.world.network().loss_per_million = 0;
        for id in self.leaving.keys().copied().collect::<Vec<_>>() {
            self.go(id);
        }
        let everybody = self.rng.random_bool(0.5);
        while let Some(id) = self.down.first().copied() {
            if !everybody && self.is_connected() {
                break;
            }
            self.start_again(id);
        }
    }

    fn heal(&mut self) -> Option<Duration> {
        let start = self.world.now();
        let end = start + self.settings.heal_limit;
        while self.world.now() < end && !self.is_storm() {
            if self.world.defect().is_none() {
                return Some(self.world.now() - start);
            }
            self.run_to(self.world.now() + GLANCE);
        }
        let defect = self.world.defect()?;
        let after = self.settings.heal_limit;
        self.violations.push(Violation::NotHealed { after, defect });
        None
    }

    /// The rest of the receipts, and silence.
    fn conclude(&mut self) {
        (0..8).for_each(|_| self.publish());
        let end = self.world.now() + self.settings.heal_limit;
        while self.world.now() < end && !self.is_storm() && self.checker.open_count() > 0 {
            self.run_to(self.world.now() + GLANCE);
        }
        self.run_to(self.world.now() + REST);
        self.events = 0;
        self.run_to(self.world.now() + SILENCE);
        let (events, length) = (self.events, SILENCE);
        if events > 0 {
            self.violations.push(Violation::NotQuiet { events, length });
        }
        if let Some(defect) = self.world.defect() {
            let after = REST + SILENCE;
            self.violations.push(Violation::NotHealed { after, defect });
        }
    }

    fn outcome(self, healed_after: Option<Duration>) -> Outcome {
        let deliveries = self.checker.deliveries();
        let (mut violations, unnamed) = self.checker.judge();
        if healed_after.is_none() {
            // Without an overlay there is no end to a broadcast either.
            violations.retain(|found| !matches!(found, Violation::NoReceipt { .. }));
        }
        violations.extend(self.violations);
        Outcome {
            seed: self.world.seed(),
            violations,
            faults: self.faults,
            published: self.published,
            deliveries,
            unnamed,
            healed_after,
            lived: self.world.now(),
        }
    }

    fn run_to(&mut self, end: Duration) {
        while !self.is_storm() && self.world.step(end) {
            self.observe();
        }
    }

    /// Whether more is sent than anything could need. Time stands still then.
    fn is_storm(&mut self) -> bool {
        let (now, sent) = (self.world.now(), self.world.sent());
        let (since, before) = self.second;
        if sent - before > STORM * u64::from(self.settings.nodes) {
            let storm = Violation::Storm { at: since };
            if !self.violations.contains(&storm) {
                self.violations.push(storm);
            }
            return true;
        }
        if now - since >= Duration::from_secs(1) {
            self.second = (now, sent);
        }
        false
    }

    /// Enter in the books what the processes told since the last time.
    fn observe(&mut self) {
        for told in self.world.take_events() {
            self.events += 1;
            match &told.event {
                Event::Overlay(overlay::overlay::Event::View) => self.on_view(&told),
                Event::Overlay(_) => {}
                Event::Relay(routing::Event::Deliver { id, payload, .. }) => {
                    self.checker.on_delivery(&told, *id, payload);
                }
                Event::Relay(routing::Event::Receipt(receipt)) => {
                    self.checker.on_receipt(&told, receipt);
                }
                Event::Relay(routing::Event::RosterComplete(_)) => {}
                Event::Relay(routing::Event::Drained) => {
                    self.checker.on_drained(&told);
                    if self.leaving.contains_key(&told.by) {
                        self.go(told.by);
                    }
                }
            }
        }
    }

    fn on_view(&mut self, told: &Told) {
        let peer = self.world.peer(told.by);
        if let Some(placement) = peer.and_then(|peer| peer.overlay().placement()) {
            let (at, id, boot) = (told.at, told.by, told.boot);
            self.checker.on_place(at, id, boot, placement);
        }
        if let Some((_, rank, a, b)) = self.world.double_rank() {
            self.checker.on_double_rank(told.at, rank, a, b);
        }
    }

    fn publish(&mut self) {
        let placed = |id: &Id| {
            let peer = self.world.peer(*id);
            peer.is_some_and(|peer| peer.overlay().placement().is_some())
        };
        let ready: Vec<Id> = self.standing().into_iter().filter(placed).collect();
        let Some(origin) = ready.choose(&mut self.rng).copied() else {
            return;
        };
        let place = |peer: &binomesh::peer::Peer<Id>| peer.relay().placement();
        let Some(placement) = self.world.peer(origin).and_then(place) else {
            return;
        };
        let (destination, audience) = self.destination(origin);
        let length = if self.rng.random_ratio(1, 8) {
            5000
        } else {
            16
        };
        let payload: Bytes = (0..length).map(|_| self.rng.random::<u8>()).collect();
        let seconds = self.rng.random_range(1..10);
        let has_deadline = self.rng.random_ratio(1, 8);
        let Ok(topic) = Topic::new("chaos") else {
            return;
        };
        let publish = Publish {
            topic,
            payload: payload.clone(),
            destination,
            deadline: has_deadline.then(|| Duration::from_secs(seconds)),
        };
        let act = |peer: &mut binomesh::peer::Peer<Id>, out: &mut _| peer.publish(publish, out);
        if let Some(Ok(id)) = self.world.with_peer(origin, act) {
            self.published += 1;
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

    fn destination(&mut self, origin: Id) -> (Destination<Id>, Audience) {
        if self.rng.random_ratio(3, 4) {
            return (Destination::All, Audience::Members);
        }
        let count = self.rng.random_range(1..=3);
        let others: Vec<Id> = (0..self.settings.nodes)
            .filter(|id| *id != origin)
            .collect();
        let peers: Vec<Id> = others
            .choose_multiple(&mut self.rng, count)
            .copied()
            .collect();
        let audience = Audience::Peers(peers.iter().copied().collect());
        (Destination::Peers(peers), audience)
    }
}
