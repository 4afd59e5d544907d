//! A seeded world of whole peers in virtual time.
//!
//! Like a model railway: every peer is the shipped machine, only rails and clock
//! are toys. The same seed replays the same run, message by message, so users
//! can test their own applications against crashes and losses.
//!
//! Not here: what is wrong with a cluster (`judge`).

mod judge;
mod network;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh_overlay::{Config, Effect, Outbox};
pub use judge::{Defect, Snapshot};
pub use network::Network;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
pub use script::{Shape, Step};

use crate::peer::{Event, Input, Message, Out, Peer, Timer};

/// A peer's identity in a world.
pub type Id = u32;

/// A world of peers, a network and a clock.
pub struct World {
    seed: u64,
    rng: ChaCha8Rng,
    now: Duration,
    sequence: u64,
    network: Network,
    hosts: BTreeMap<Id, Host>,
    queue: BTreeMap<(Duration, u64), Happening>,
    events: Vec<Told>,
    sent: u64,
    relay: binomesh_routing::Config,
}

/// What a process told its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// When.
    pub at: Duration,
    /// Who.
    pub by: Id,
    /// In which life of its process.
    pub boot: u64,
    /// What.
    pub event: Event<Id>,
}

/// A process and what its host keeps for it.
struct Host {
    config: Config<Id>,
    peer: Option<Peer<Id>>,
    paused_until: Duration,
    timers: BTreeMap<Timer, (Duration, u64)>,
}

/// Something that will happen.
enum Happening {
    Arrival {
        to: Id,
        from: Id,
        boots: (u64, u64),
        message: Message<Id>,
    },
    Alarm {
        at: Id,
        boot: u64,
        timer: Timer,
    },
    LinkUp {
        at: Id,
        peer: Id,
        boots: (u64, u64),
    },
    LinkDown {
        at: Id,
        peer: Id,
        boots: (u64, u64),
    },
}

impl World {
    /// An empty world.
    pub fn new(seed: u64, network: Network) -> Self {
        Self {
            seed,
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: Duration::ZERO,
            sequence: 0,
            network,
            hosts: BTreeMap::new(),
            queue: BTreeMap::new(),
            events: Vec::new(),
            sent: 0,
            relay: binomesh_routing::Config::default(),
        }
    }

    /// The virtual time since the world began.
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// The seed that replays this world.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The source of chance, for scripts that must replay with the world.
    pub const fn rng(&mut self) -> &mut ChaCha8Rng {
        &mut self.rng
    }

    /// How many messages were sent so far.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// The relays' parameters of processes that start from now on.
    pub const fn relay(&mut self) -> &mut binomesh_routing::Config {
        &mut self.relay
    }

    /// The network, to change its faults.
    pub const fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The live peers, smallest id first.
    pub fn peers(&self) -> impl Iterator<Item = (Id, &Peer<Id>)> {
        let live = |(id, host): (&Id, &'_ Host)| (*id, host.peer.is_some());
        let ids: Vec<Id> = self
            .hosts
            .iter()
            .map(live)
            .filter(|(_, up)| *up)
            .map(|(id, _)| id)
            .collect();
        ids.into_iter().filter_map(|id| Some((id, self.peer(id)?)))
    }

    /// A live peer.
    pub fn peer(&self, id: Id) -> Option<&Peer<Id>> {
        self.hosts.get(&id)?.peer.as_ref()
    }

    /// Take what the peers told their hosts since the last call.
    pub fn take_events(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.events)
    }

    /// Start a process; one that runs already is restarted.
    pub fn start(&mut self, config: Config<Id>) {
        let id = config.me;
        self.crash(id);
        let host = Host {
            peer: Some(Peer::new(config.clone(), self.relay)),
            config,
            paused_until: Duration::ZERO,
            timers: BTreeMap::new(),
        };
        self.hosts.insert(id, host);
        self.feed(id, Input::Start);
    }

    /// Start a crashed process again, with its old configuration and a new boot.
    pub fn restart(&mut self, id: Id) {
        let Some(host) = self.hosts.get(&id) else {
            return;
        };
        let mut config = host.config.clone();
        config.boot += 1;
        config.seed = config.seed.wrapping_add(config.boot);
        self.start(config);
    }

    /// Kill a process without warning: its neighbours hear nothing.
    pub fn crash(&mut self, id: Id) {
        if let Some(host) = self.hosts.get_mut(&id) {
            host.peer = None;
            host.timers.clear();
        }
        let broken = self.network.forget(id);
        for peer in broken {
            let boots = (self.boot(peer), self.boot(id));
            let after = self.network.idle_timeout;
            self.later(
                after,
                Happening::LinkDown {
                    at: peer,
                    peer: id,
                    boots,
                },
            );
        }
    }

    /// Stop a process for a while: it handles nothing, and then everything.
    pub fn pause(&mut self, id: Id, length: Duration) {
        let until = self.now + length;
        if let Some(host) = self.hosts.get_mut(&id) {
            host.paused_until = host.paused_until.max(until);
        }
    }

    /// Give an input to a live peer and perform what it asks for.
    pub fn feed(&mut self, id: Id, input: Input<Id>) {
        self.with_peer(id, |peer, out| peer.handle(input, out));
    }

    /// Run `act` on a live peer and perform what it asks for.
    pub fn with_peer<T>(
        &mut self,
        id: Id,
        act: impl FnOnce(&mut Peer<Id>, &mut Out<Id>) -> T,
    ) -> Option<T> {
        let mut out = Outbox::new();
        let peer = self.hosts.get_mut(&id)?.peer.as_mut()?;
        let result = act(peer, &mut out);
        for effect in out.drain() {
            self.perform(id, effect);
        }
        Some(result)
    }

    /// Let time pass until `end` or until `done` holds, checked after every
    /// happening. Returns whether it held.
    pub fn run_until(&mut self, end: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            if !self.step(end) {
                return done(self);
            }
        }
    }

    /// Let the next thing happen, if it does not happen after `end`; otherwise
    /// time passes until then, and the answer is false.
    pub fn step(&mut self, end: Duration) -> bool {
        match self.queue.first_entry() {
            Some(entry) if entry.key().0 <= end => {
                let ((at, _), happening) = entry.remove_entry();
                self.now = at;
                self.happen(happening);
                true
            }
            _ => {
                self.now = end.max(self.now);
                false
            }
        }
    }

    /// Let time pass.
    pub fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        self.run_until(end, |_| false);
    }

    /// Which life of its process a peer is in, or was in last; 0 before the
    /// first.
    pub fn boot(&self, id: Id) -> u64 {
        self.hosts.get(&id).map_or(0, |host| host.config.boot)
    }

    fn later(&mut self, after: Duration, happening: Happening) {
        self.later_at(self.now + after, happening);
    }

    fn later_at(&mut self, at: Duration, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }

    fn happen(&mut self, happening: Happening) {
        let (at, boot) = match &happening {
            Happening::Arrival { to, boots, .. } => (*to, boots.0),
            Happening::Alarm { at, boot, .. } => (*at, *boot),
            Happening::LinkUp { at, boots, .. } | Happening::LinkDown { at, boots, .. } => {
                (*at, boots.0)
            }
        };
        let Some(host) = self.hosts.get_mut(&at) else {
            return;
        };
        if host.peer.is_none() || host.config.boot != boot {
            return;
        }
        if host.paused_until > self.now {
            let until = host.paused_until;
            self.later_at(until, happening);
            return;
        }
        let input = match happening {
            Happening::Arrival { from, message, .. } => Input::Message { from, message },
            Happening::LinkUp { peer, boots, .. } => Input::LinkUp {
                peer,
                boot: boots.1,
            },
            Happening::LinkDown { peer, .. } => Input::LinkDown { peer },
            Happening::Alarm { timer, .. } => {
                let Some((due, _)) = host.timers.remove(&timer) else {
                    return;
                };
                let late = self.now.saturating_sub(due);
                Input::Timer { timer, late }
            }
        };
        self.feed(at, input);
    }

    fn perform(&mut self, id: Id, effect: Effect<Id, Message<Id>, Timer, Event<Id>>) {
        match effect {
            Effect::Send { to, message } => self.send(id, to, message),
            Effect::Arm { timer, after } => {
                self.disarm(id, timer);
                let (due, boot) = (self.now + after, self.boot(id));
                self.later_at(
                    due,
                    Happening::Alarm {
                        at: id,
                        boot,
                        timer,
                    },
                );
                let key = (due, self.sequence);
                if let Some(host) = self.hosts.get_mut(&id) {
                    host.timers.insert(timer, key);
                }
            }
            Effect::Disarm { timer } => self.disarm(id, timer),
            Effect::Event(event) => self.events.push(Told {
                at: self.now,
                by: id,
                boot: self.boot(id),
                event,
            }),
            Effect::Connect(peer) => self.link(id, peer),
            Effect::Disconnect(_) => {}
        }
    }

    fn disarm(&mut self, id: Id, timer: Timer) {
        let host = self.hosts.get_mut(&id);
        if let Some(key) = host.and_then(|host| host.timers.remove(&timer)) {
            self.queue.remove(&key);
        }
    }

    /// Make a link to a live peer, if there is none.
    fn link(&mut self, from: Id, to: Id) {
        let is_live = self.peer(to).is_some();
        if from == to || !is_live || !self.network.connect(from, to) {
            return;
        }
        let (mine, theirs) = (self.boot(from), self.boot(to));
        let handshake = self.network.latency(&mut self.rng) * 2;
        let up = |at, peer, boots| Happening::LinkUp { at, peer, boots };
        self.later(handshake, up(from, to, (mine, theirs)));
        self.later(handshake, up(to, from, (theirs, mine)));
    }

    fn send(&mut self, from: Id, to: Id, message: Message<Id>) {
        self.sent += 1;
        self.link(from, to);
        if self.network.loses(from, to, &mut self.rng) {
            return;
        }
        let arrival = self.network.arrival(self.now, from, to, &mut self.rng);
        let boots = (self.boot(to), self.boot(from));
        self.later_at(
            arrival,
            Happening::Arrival {
                to,
                from,
                boots,
                message,
            },
        );
    }

    fn live(&self) -> BTreeSet<Id> {
        self.peers().map(|(id, _)| id).collect()
    }
}
