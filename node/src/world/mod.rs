//! A seeded world of whole peers in virtual time.
//!
//! Like a model railway: every peer is the shipped machine, only rails and clock are toys. The same
//! seed replays the same run, message by message, so users can test their own applications against
//! crashes and losses.
//!
//! ```text
//!   fault ──▶ World ──▶ Input ──▶ Peer ──▶ Effect ──▶ Network ──▶ agenda ──▶ …
//! ```
//!
//! Not here: the search for defects of a cluster (`legitimacy`).

mod agenda;
mod deployment;
mod fault;
mod legitimacy;
mod lie;
mod life;
mod line;
mod network;
mod transit;
mod uplink;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use binomesh_overlay::digest::Digest;
use binomesh_overlay::{Config, Effect, Outbox};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::peer::{Event, Input, Message, Out, Peer, Timer};
use agenda::Agenda;
pub use deployment::DeploymentTree;
pub use fault::{Fault, Layer};
pub use legitimacy::{Defect, Snapshot};
pub use lie::Lie;
use life::Host;
pub use life::Memory;
pub use network::{Conditions, Latency, Network};

/// A peer's identity in a world.
pub type Id = u32;

/// A world of peers, a network and a clock.
pub struct World {
    seed: u64,
    rng: ChaCha8Rng,
    now: Duration,
    network: Network,
    hosts: BTreeMap<Id, Box<Host>>,
    agenda: Agenda<Happening>,
    /// The number of timers armed so far.
    armed: u64,
    events: Vec<ReportedEvent>,
    turns: Vec<Turn>,
    sent: u64,
    /// The number of links asked for whose other end was alive and did not claim them yet.
    dialled: u64,
    /// The diallers and dialled peers of these links; at most [`World::DIALS`].
    dials: Vec<(Id, Id)>,
    /// The first peer that took a child while its own path reached no root, with time and child.
    orphan_with_child: Option<(Duration, Id, Id)>,
    /// The lives that have said goodbye: no goodbye of another life is believed.
    goodbyes: BTreeSet<(Id, u64)>,
    relay: binomesh_routing::Config,
    uplinks: Option<uplink::Uplinks>,
    digest: Option<Digest>,
    /// The buffer for the effects of a peer before they are performed.
    out: Out<Id>,
}

/// An event that a process reported to its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedEvent {
    /// The virtual time of the report.
    pub at: Duration,
    /// The process that reported it.
    pub by: Id,
    /// The boot of that process.
    pub boot: u64,
    /// The event itself.
    pub event: Event<Id>,
}

/// The beginning or the end of a process's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The virtual time of the beginning or end.
    pub at: Duration,
    /// The process's id.
    pub id: Id,
    /// The boot of the life.
    pub boot: u64,
    /// Whether the life begins. A life that leaves ends twice: when it begins to leave, and when
    /// its process ends.
    pub begins: bool,
    /// Whether the life begins without a restart, in the process that had the former life.
    pub goes_on: bool,
}

/// A future event of a world.
enum Happening {
    /// A message reaches a process, in the life of the first boot. The second boot is the one that
    /// the sender claims.
    Arrival {
        to: Id,
        from: Id,
        boots: (u64, u64),
        message: Message<Id>,
    },
    /// A timer fires, unless it was armed again or disarmed.
    Alarm {
        at: Id,
        boot: u64,
        timer: Timer,
        armed: u64,
    },
    /// A greeting, the handshake of a new link, is over at one end.
    LinkUp {
        at: Id,
        peer: Id,
        boots: (u64, u64),
        number: u64,
    },
    /// A link has broken, and this end notices.
    LinkDown {
        at: Id,
        peer: Id,
        boot: u64,
        number: u64,
    },
    /// A link may have been silent for its idle timeout.
    Silence {
        from: Id,
        to: Id,
        number: u64,
        since: Duration,
    },
    /// A narrow line can take the next message.
    Room { from: Id, to: Id },
    /// A process sends a message that its machine would not send.
    Forged {
        from: Id,
        to: Id,
        message: Message<Id>,
    },
    /// A process is shown a newer life of its identity by a peer that it greeted.
    Shown { at: Id, boot: u64, newest: u64 },
    /// A leaving process has no open message any more, or has waited long enough.
    Go { at: Id, boot: u64 },
    /// A visitor's process ends.
    End { at: Id, boot: u64 },
}

impl World {
    /// An empty world.
    pub fn new(seed: u64, network: Network) -> Self {
        Self {
            seed,
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: Duration::ZERO,
            network,
            hosts: BTreeMap::new(),
            agenda: Agenda::new(),
            armed: 0,
            events: Vec::new(),
            turns: Vec::new(),
            sent: 0,
            dialled: 0,
            dials: Vec::new(),
            orphan_with_child: None,
            goodbyes: BTreeSet::new(),
            relay: binomesh_routing::Config::default(),
            uplinks: None,
            digest: None,
            out: Outbox::new(),
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

    /// The source of chance for scripts that draw as they go. The fate of messages is drawn
    /// elsewhere.
    pub const fn rng(&mut self) -> &mut ChaCha8Rng {
        &mut self.rng
    }

    /// The number of messages that the peers' machines have sent so far.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// From now on every process sends at most this many bytes a second, one message after another.
    /// Without a rate the bytes are only counted.
    pub fn set_uplinks(&mut self, bytes_per_second: Option<u64>) {
        self.uplinks = Some(uplink::Uplinks::new(bytes_per_second));
    }

    /// The number of bytes sent since [`World::set_uplinks`]; 0 before.
    pub fn bytes_sent(&self) -> u64 {
        self.uplinks.as_ref().map_or(0, uplink::Uplinks::bytes)
    }

    /// From now on hash all inputs and effects of all peers, in their order.
    pub fn keep_digest(&mut self) {
        self.digest.get_or_insert_default();
    }

    /// The hash of all inputs and effects of peers since [`World::keep_digest`]. Two builds with
    /// the same digest for the same seed behave the same. The hash depends on the order of enum
    /// variants and struct fields, but not on names.
    pub fn digest(&self) -> Option<u64> {
        self.digest.map(|digest| digest.finish())
    }

    fn note(&mut self, id: Id, what: &impl Hash) {
        if let Some(digest) = &mut self.digest {
            (self.now, id, what).hash(digest);
        }
    }

    /// The number of links dialled so far: links that one end claimed while the other end was alive
    /// and did not. A real host ends links that neither end claims.
    pub const fn dialled(&self) -> u64 {
        self.dialled
    }

    /// Take the pairs of dialler and dialled peer since the last call; if there are more than
    /// [`World::DIALS`], the first ones.
    pub fn take_dials(&mut self) -> Vec<(Id, Id)> {
        std::mem::take(&mut self.dials)
    }

    /// The most dials that are kept for [`World::take_dials`].
    pub const DIALS: usize = 65_536;

    /// The number of future events, such as messages on their way and timers. A timer that was
    /// disarmed or armed again still counts until its former time.
    pub fn pending(&self) -> usize {
        self.agenda.len()
    }

    /// The relay's parameters for processes that start from now on.
    pub const fn relay(&mut self) -> &mut binomesh_routing::Config {
        &mut self.relay
    }

    /// The network, to change its faults.
    pub const fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The live peers, smallest id first.
    pub fn peers(&self) -> impl Iterator<Item = (Id, &Peer<Id>)> {
        let all = self.hosts.iter();
        all.filter_map(|(id, host)| Some((*id, host.peer.as_ref()?)))
    }

    /// The peer with this id, if it is alive.
    pub fn peer(&self, id: Id) -> Option<&Peer<Id>> {
        self.hosts.get(&id)?.peer.as_ref()
    }

    /// The configuration of a process's last start.
    pub fn config(&self, id: Id) -> Option<&Config<Id>> {
        Some(&self.hosts.get(&id)?.config)
    }

    /// Take the events that peers have reported since the last call.
    pub fn take_events(&mut self) -> Vec<ReportedEvent> {
        std::mem::take(&mut self.events)
    }

    /// Take the beginnings and ends of lives since the last call.
    pub fn take_turns(&mut self) -> Vec<Turn> {
        std::mem::take(&mut self.turns)
    }

    /// The first time that a peer took a child while its own path reached no root: the time, the
    /// peer and the child. Two such adoptions can form a cycle.
    pub const fn orphan_with_child(&self) -> Option<(Duration, Id, Id)> {
        self.orphan_with_child
    }

    /// Give an input to a live peer, and perform its effects.
    pub fn feed(&mut self, id: Id, input: Input<Id>) {
        self.note(id, &input);
        let adopted = self.with_peer(id, |peer, out| {
            let tree = peer.overlay().tree();
            let children: Option<Vec<Id>> =
                (!tree.is_anchored()).then(|| tree.children().collect());
            peer.handle(input, out);
            let tree = peer.overlay().tree();
            let before = children.filter(|_| !tree.is_anchored())?;
            tree.children().find(|child| !before.contains(child))
        });
        if let Some(child) = adopted.flatten() {
            self.orphan_with_child.get_or_insert((self.now, id, child));
        }
    }

    /// Run `act` on a live peer, and perform the effects.
    pub fn with_peer<T>(
        &mut self,
        id: Id,
        act: impl FnOnce(&mut Peer<Id>, &mut Out<Id>) -> T,
    ) -> Option<T> {
        let peer = self.hosts.get_mut(&id)?.peer.as_mut()?;
        let mut out = std::mem::take(&mut self.out);
        let result = act(peer, &mut out);
        self.note(id, &out);
        for effect in out.drain() {
            self.perform(id, effect);
        }
        // The votes are recorded by now, so the messages about them may go.
        if let Some(peer) = self.hosts.get_mut(&id).and_then(|host| host.peer.as_mut()) {
            peer.post(|_| Ok(None), &mut out);
        }
        self.note(id, &out);
        for effect in out.drain() {
            self.perform(id, effect);
        }
        self.out = out;
        Some(result)
    }

    /// Let time pass until `end` or until `done` holds, checked at first and after every event.
    /// Returns whether it held.
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

    /// Let the next event happen, unless it is later than `end`. Otherwise time passes until `end`,
    /// and the answer is false.
    pub fn step(&mut self, end: Duration) -> bool {
        let next = self.agenda.pop(end);
        let is_any = next.is_some();
        match next {
            Some((at, happening)) => {
                self.now = at;
                self.happen(happening);
            }
            None => self.now = end.max(self.now),
        }
        is_any
    }

    /// Let this much time pass.
    pub fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        while self.step(end) {}
    }

    fn later(&mut self, after: Duration, happening: Happening) {
        self.agenda.insert(self.now + after, happening);
    }

    fn happen(&mut self, happening: Happening) {
        let (at, boot) = match &happening {
            Happening::Arrival { to, boots, .. } => (*to, boots.0),
            Happening::LinkUp { at, boots, .. } => (*at, boots.0),
            Happening::Alarm { at, boot, .. }
            | Happening::LinkDown { at, boot, .. }
            | Happening::Shown { at, boot, .. }
            | Happening::Go { at, boot }
            | Happening::End { at, boot } => (*at, *boot),
            Happening::Silence {
                from,
                to,
                number,
                since,
            } => return self.on_silence(*from, *to, *number, *since),
            Happening::Room { from, to } => return self.on_room(*from, *to),
            Happening::Forged { from, .. } => (*from, self.boot(*from)),
        };
        let Some(host) = self.hosts.get_mut(&at) else {
            return;
        };
        if host.peer.is_none() || host.config.boot != boot {
            return;
        }
        if host.paused_until > self.now {
            let until = host.paused_until;
            self.agenda.insert(until, happening);
            return;
        }
        let input = match happening {
            Happening::Arrival {
                from,
                boots,
                message,
                ..
            } => {
                // A message of another life than the one at the other end of the link does not
                // count.
                let linked = host.linked.get(&from);
                if linked.is_some_and(|(_, boot)| *boot != boots.1) {
                    return;
                }
                self.acknowledge(at, from, boots.1);
                let message = self.verified(message);
                if let Some(newest) = self.later_life(at, &message) {
                    return self.on_shown(at, newest);
                }
                Input::Message { from, message }
            }
            Happening::LinkUp {
                peer,
                boots,
                number,
                ..
            } => return self.on_link_up(at, peer, boots.1, number),
            Happening::LinkDown { peer, number, .. } => {
                if host.linked.get(&peer).is_none_or(|(n, _)| *n != number) {
                    return;
                }
                host.linked.remove(&peer);
                host.stale.remove(&peer);
                host.doubted.remove(&peer);
                Input::LinkDown { peer }
            }
            Happening::Alarm { timer, armed, .. } => match host.timers.get(&timer) {
                Some((due, same)) if *same == armed => {
                    let late = self.now.saturating_sub(*due);
                    host.timers.remove(&timer);
                    if timer.is_look() {
                        self.tell_acknowledged(at);
                    }
                    Input::Timer { timer, late }
                }
                _ => return,
            },
            Happening::Forged { from, to, message } => return self.post(from, to, message),
            Happening::Shown { newest, .. } => return self.on_shown(at, newest),
            Happening::Go { .. } => return self.go(at),
            Happening::End { .. } => return self.crash(at),
            Happening::Silence { .. } | Happening::Room { .. } => return,
        };
        self.feed(at, input);
    }

    fn perform(&mut self, id: Id, effect: Effect<Id, Message<Id>, Timer, Event<Id>>) {
        match effect {
            Effect::Send { to, message } => self.send(id, to, message),
            Effect::Arm { timer, after } => self.arm(id, timer, after),
            Effect::Disarm { timer } => {
                if let Some(host) = self.hosts.get_mut(&id) {
                    host.timers.remove(&timer);
                }
            }
            Effect::Event(Event::Record(key)) => {
                if let Some(host) = self.hosts.get_mut(&id) {
                    let greatest = host.votes.entry(key.name).or_default();
                    *greatest = key.generation.max(*greatest);
                }
            }
            Effect::Event(event) => {
                let (at, boot) = (self.now, self.boot(id));
                if matches!(event, Event::Relay(binomesh_routing::Event::Drained)) {
                    self.later(Duration::ZERO, Happening::Go { at: id, boot });
                }
                self.events.push(ReportedEvent {
                    at,
                    by: id,
                    boot,
                    event,
                });
            }
            Effect::Connect(peer) => self.claim(id, peer),
            Effect::Disconnect(peer) => {
                if let Some(host) = self.hosts.get_mut(&id) {
                    host.claimed.remove(&peer);
                }
            }
            Effect::Doubt(peer) => self.doubt(id, peer),
        }
    }

    fn arm(&mut self, id: Id, timer: Timer, after: Duration) {
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        let due = self.now + host.by_own_clock(after);
        self.arm_at(id, timer, due);
    }

    fn arm_at(&mut self, id: Id, timer: Timer, due: Duration) {
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        self.armed += 1;
        let armed = self.armed;
        host.timers.insert(timer, (due, armed));
        let (at, boot) = (id, host.config.boot);
        let alarm = Happening::Alarm {
            at,
            boot,
            timer,
            armed,
        };
        self.agenda.insert(due, alarm);
    }
}
