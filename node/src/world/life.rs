//! The processes of a world: how they start, end, pause and return.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh_overlay::Config;
use binomesh_overlay::lives::{Consequence, Greeter, Lives, consequence, next_boot};
use binomesh_overlay::noise::Noise;
use binomesh_routing::collective::Name;
use binomesh_routing::collective::lives::Record;
use serde::{Deserialize, Serialize};

use super::fault::Layer;
use super::lie::Liar;
use super::line::Line;
use super::{Happening, Id, Turn, World};
use crate::peer::{Input, Message, Peer, Timer};

/// The most former contacts with which a process starts again that kept its memory, besides the
/// configured ones.
const KEPT_CONTACTS: usize = 16;

/// A member begins another life of the same process at most once in this time, as in the QUIC node.
const LIFE_PERIOD: Duration = Duration::from_secs(60);

/// The memory of a process of its former life, when the process starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// The number of its life, and the peers that it was linked to.
    Kept,
    /// The number of its life, and otherwise only its configuration.
    #[default]
    Boot,
    /// Nothing. The disk is new and the clock was set back, so the new boot is lower than the
    /// former one.
    Lost,
}

/// A process, and the state that its host keeps for it.
pub(super) struct Host {
    pub(super) config: Config<Id>,
    pub(super) peer: Option<Peer<Id>>,
    pub(super) paused_until: Duration,
    pub(super) timers: BTreeMap<Timer, (Duration, u64)>,
    /// The links that the process knows to be up: their number and the boot at
    /// the other end.
    pub(super) linked: BTreeMap<Id, (u64, u64)>,
    /// Linked peers that have lost their memory and started again: their present life lacks the
    /// secret to reset the link of the former one. All messages over such a link are lost.
    pub(super) stale: BTreeSet<Id>,
    /// The peers that it dials beside a link that it believes dead.
    pub(super) doubted: BTreeSet<Id>,
    /// The peers that have acknowledged a message since the last look.
    pub(super) acknowledged: BTreeSet<Id>,
    /// The peers that it wants links to.
    pub(super) claimed: BTreeSet<Id>,
    /// The lines on which it sends, by receiver.
    pub(super) lines: BTreeMap<Id, Line>,
    /// How much its clock is slow; negative if it is fast.
    pub(super) drift_per_million: i32,
    pub(super) liar: Option<Liar>,
    /// The layer of its messages that no peer understands, and until when.
    pub(super) mute: Option<(Layer, Duration)>,
    /// The newest lives of the peers that it has met.
    pub(super) lives: Lives<Id, ()>,
    /// Whether it has been counted with other members in this life.
    pub(super) is_member: bool,
    /// When it last began another life as a member.
    begun: Option<Duration>,
    is_leaving: bool,
    /// The votes of collectives in which its lives have taken part, as on its disk.
    pub(super) votes: BTreeMap<Name, u64>,
    /// The greatest and the smallest boot of its lives.
    boots: (u64, u64),
}

impl Host {
    fn new(config: Config<Id>) -> Self {
        Self {
            boots: (config.boot, config.boot),
            config,
            peer: None,
            paused_until: Duration::ZERO,
            timers: BTreeMap::new(),
            linked: BTreeMap::new(),
            stale: BTreeSet::new(),
            doubted: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            claimed: BTreeSet::new(),
            lines: BTreeMap::new(),
            drift_per_million: 0,
            liar: None,
            mute: None,
            lives: Lives::new(),
            is_member: false,
            begun: None,
            is_leaving: false,
            votes: BTreeMap::new(),
        }
    }

    /// The statements of the process about itself in a greeting. A boot that a liar invents is not
    /// proven.
    pub(super) fn greeter(&self, now: Duration) -> Greeter {
        let liar = self.liar.as_ref().filter(|liar| liar.is_lying(now));
        let claimed = liar.and_then(Liar::boot);
        Greeter {
            boot: claimed.unwrap_or(self.config.boot),
            is_proven: claimed.is_none(),
            is_member: self.is_member,
        }
    }

    /// Note whether the process is counted with others.
    pub(super) fn note_membership(&mut self) {
        let peer = self.peer.as_ref();
        let placement = peer.and_then(|peer| peer.overlay().placement());
        self.is_member |= placement.is_some_and(|placement| placement.population.get() > 1);
    }

    /// The true length of a time that this host's clock measures.
    pub(super) fn by_own_clock(&self, length: Duration) -> Duration {
        if self.drift_per_million == 0 {
            return length;
        }
        let rate = 1_000_000_i64 + i64::from(self.drift_per_million);
        let nanos = length.as_nanos() * rate.max(1) as u128 / 1_000_000;
        Duration::from_nanos(nanos as u64)
    }

    /// The configuration of the process's next life, with this memory of the present one.
    fn reborn(&self, memory: Memory) -> Config<Id> {
        let mut config = self.config.clone();
        config.returns = memory != Memory::Lost;
        config.boot = match memory {
            Memory::Kept | Memory::Boot => self.boots.0 + 1,
            Memory::Lost => self.boots.1.saturating_sub(1),
        };
        if memory == Memory::Kept {
            let known = self.linked.keys().copied();
            let new = known.filter(|id| !config.seeds.contains(id));
            let new: Vec<Id> = new.take(KEPT_CONTACTS).collect();
            config.seeds.extend(new);
        }
        config.seed = config.seed.wrapping_add(config.boot);
        config
    }
}

impl World {
    /// Start a process; one that runs already is restarted.
    pub fn start(&mut self, config: Config<Id>) {
        self.begin(config, None);
    }

    /// Start a process, or continue `former` in another life of the same process.
    fn begin(&mut self, config: Config<Id>, former: Option<Peer<Id>>) {
        let goes_on = former.is_some();
        let (id, relay) = (config.me, self.relay);
        self.crash(id);
        let host = self
            .hosts
            .entry(id)
            .or_insert_with(|| Box::new(Host::new(config.clone())));
        host.boots.0 = host.boots.0.max(config.boot);
        host.boots.1 = host.boots.1.min(config.boot);
        host.peer = Some(match former {
            Some(mut peer) => {
                peer.begin_life(config.clone(), relay);
                peer
            }
            None => {
                let record = Record::Kept(host.votes.clone());
                Peer::remembering(config.clone(), relay, record)
            }
        });
        host.config = config;
        host.paused_until = Duration::ZERO;
        host.is_leaving = false;
        host.lives = Lives::new();
        host.is_member = false;
        host.begun = None;
        host.linked.clear();
        host.stale.clear();
        host.doubted.clear();
        host.acknowledged.clear();
        self.turn(id, true, goes_on);
        self.feed(id, Input::Start);
    }

    /// Start a process again, with its old configuration and a new boot.
    pub fn restart(&mut self, id: Id) {
        self.restart_with(id, Memory::Boot);
    }

    /// Start a process again with this memory of its former life.
    pub fn restart_with(&mut self, id: Id, memory: Memory) {
        if let Some(host) = self.hosts.get(&id) {
            let config = host.reborn(memory);
            if memory == Memory::Lost {
                if let Some(host) = self.hosts.get_mut(&id) {
                    host.votes.clear();
                }
                for host in self.hosts.values_mut() {
                    if host.linked.contains_key(&id) {
                        host.stale.insert(id);
                    }
                }
            }
            self.start(config);
        }
    }

    /// A process is shown a newer life of its identity. It begins another life above that
    /// one. A process that is leaving does not, nor a member that did so less than [`LIFE_PERIOD`]
    /// ago.
    pub(super) fn on_shown(&mut self, id: Id, newest: u64) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        host.note_membership();
        let own = host.greeter(now);
        let was_begun = host.begun.is_some_and(|begun| now - begun < LIFE_PERIOD);
        let Consequence::NewLife { least } = consequence(own, newest, false) else {
            return;
        };
        if host.is_leaving || own.is_member && was_begun {
            return;
        }
        let begun = if own.is_member { Some(now) } else { host.begun };
        let mut config = host.config.clone();
        // Time 0, as if its clock were behind: the boot follows from the life that it was shown.
        let noise = Noise::new(config.seed).next();
        config.boot = next_boot(least, 0, noise);
        config.returns = true;
        config.seed = config.seed.wrapping_add(config.boot);
        // The process closes its links itself, and still knows the lives of its peers. Collectives
        // go on.
        self.with_peer(id, |peer, out| peer.conclude(out));
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        let lives = std::mem::take(&mut host.lives);
        let former = host.peer.clone();
        let timers = std::mem::take(&mut host.timers);
        self.crash_noticed(id);
        self.begin(config, former);
        for (timer, (due, _)) in timers {
            if matches!(timer, Timer::Collective(_)) {
                self.arm_at(id, timer, due);
            }
        }
        if let Some(host) = self.hosts.get_mut(&id) {
            (host.lives, host.begun) = (lives, begun);
        }
    }

    /// Kill a process without warning: its neighbours hear nothing, and their
    /// links break after the idle timeout.
    pub fn crash(&mut self, id: Id) {
        let after = self.network.idle_timeout;
        self.end(id, after);
    }

    /// Kill a process whose host says at once that it is gone.
    pub fn crash_noticed(&mut self, id: Id) {
        let after = self.network.latency.draw(0);
        self.end(id, after);
    }

    fn end(&mut self, id: Id, noticed_after: Duration) {
        if let Some(host) = self.hosts.get_mut(&id) {
            host.timers.clear();
            host.claimed.clear();
            if host.peer.take().is_some() {
                self.turn(id, false, false);
            }
        }
        // The peers' claims on links to the process end with it.
        for host in self.hosts.values_mut() {
            host.claimed.remove(&id);
        }
        for (peer, link) in self.network.links_of(id) {
            self.network.disconnect(id, peer, link.number);
            let down = Happening::LinkDown {
                at: peer,
                peer: id,
                boot: self.boot(peer),
                number: link.number,
            };
            self.later(noticed_after, down);
        }
    }

    /// Stop a process for a while; after that it handles all that has come meanwhile. Its links
    /// survive only if the pause is not longer than the idle timeout.
    pub fn pause(&mut self, id: Id, length: Duration) {
        let (now, until) = (self.now, self.now + length);
        if let Some(host) = self.hosts.get_mut(&id) {
            host.paused_until = host.paused_until.max(until);
        }
        if length <= self.network.idle_timeout {
            return;
        }
        let timeout = self.network.idle_timeout;
        for (peer, link) in self.network.links_of(id) {
            self.network.note(id, peer, Some(now));
            let silence = Happening::Silence {
                from: id,
                to: peer,
                number: link.number,
                since: now,
            };
            self.later(timeout, silence);
        }
    }

    /// Let a process leave: it finishes its open messages, or gives them up after `patience`, says
    /// goodbye and ends.
    pub fn leave(&mut self, id: Id, patience: Duration) {
        let Some(host) = self.hosts.get_mut(&id).filter(|host| host.peer.is_some()) else {
            return;
        };
        host.is_leaving = true;
        let boot = host.config.boot;
        self.later(patience, Happening::Go { at: id, boot });
        self.turn(id, false, false);
        self.feed(id, Input::Drain);
    }

    fn turn(&mut self, id: Id, begins: bool, goes_on: bool) {
        let (at, boot) = (self.now, self.boot(id));
        self.turns.push(Turn {
            at,
            id,
            boot,
            begins,
            goes_on,
        });
    }

    /// End a leaving process that is drained or has waited long enough.
    pub(super) fn go(&mut self, id: Id) {
        if self.hosts.get(&id).is_some_and(|host| host.is_leaving) {
            let boot = self.boot(id);
            self.goodbyes.insert((id, boot));
            let proof = Some(proof_of(id, boot));
            self.feed(id, Input::Leave { proof });
            self.crash(id);
        }
    }

    /// A message as a receiver's host passes it on: a goodbye in the name of a life that never said
    /// it becomes a mere rumour.
    pub(super) fn verified(&self, message: Message<Id>) -> Message<Id> {
        let Some(goodbye) = message.goodbye() else {
            return message;
        };
        let (peer, boot) = (goodbye.peer, goodbye.boot);
        let is_proven = goodbye.proof == proof_of(peer, boot);
        match is_proven && self.goodbyes.contains(&(peer, boot)) {
            true => message,
            false => Message::unproven(goodbye),
        }
    }

    /// The life that a verified goodbye names, if that is a later life of the receiver itself.
    pub(super) fn later_life(&self, at: Id, message: &Message<Id>) -> Option<u64> {
        let goodbye = message.goodbye()?;
        let is_later = goodbye.peer == at && goodbye.boot > self.boot(at);
        is_later.then_some(goodbye.boot)
    }

    /// The boot of a peer's present or last life; 0 before its first.
    pub fn boot(&self, id: Id) -> u64 {
        self.hosts.get(&id).map_or(0, |host| host.config.boot)
    }

    /// Whether a process runs.
    pub fn is_up(&self, id: Id) -> bool {
        self.peer(id).is_some()
    }

    /// Whether a process runs, is not paused and is not leaving.
    pub fn is_standing(&self, id: Id) -> bool {
        let host = self.hosts.get(&id);
        host.is_some_and(|host| {
            host.peer.is_some() && !host.is_leaving && host.paused_until <= self.now
        })
    }
}

/// The stand-in of a world for a signature of a goodbye.
fn proof_of(id: Id, boot: u64) -> Vec<u8> {
    [&b"goodbye"[..], &id.to_be_bytes(), &boot.to_be_bytes()].concat()
}
