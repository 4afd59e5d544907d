//! The faults of a world, as data.
//!
//! A fault carries all that it needs: the nodes, the duration, and a seed if anything is drawn. A
//! fault does not depend on earlier ones, so a script keeps its meaning when some of its faults are
//! left out. A fault that has become impossible, such as the crash of a dead process, has no
//! effect.

use std::time::Duration;

use binomesh_overlay::noise::Noise;
use binomesh_overlay::overlay::garbage;
use binomesh_overlay::{self as overlay, Config};
use serde::{Deserialize, Serialize};

use super::lie::Liar;
use super::line::{Narrow, Stream};
use super::network::FOREVER;
use super::{Conditions, Happening, Id, Lie, Memory, World};
use crate::peer::Message;

/// How long a leaving process waits for its open messages.
const PATIENCE: Duration = Duration::from_secs(5);

/// A fault, or another change, of a world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields are named alike and explained here")]
pub enum Fault {
    /// Kill `node`. If `noticed`, its host closes the links at once; otherwise
    /// they break after the idle timeout.
    Crash { node: Id, noticed: bool },
    /// Start `node` again after it was killed or has left; one that runs is
    /// killed first.
    Restart { node: Id, memory: Memory },
    /// Stop `node` for `ms`; after that it handles all that has come meanwhile.
    Pause { node: Id, ms: u64 },
    /// Let `node` leave gracefully, within five seconds.
    Leave { node: Id },
    /// Start a new `node` under `parent`.
    Join {
        node: Id,
        parent: Id,
        seeds: Vec<Id>,
    },
    /// Start `count` new nodes at once under `parent`, numbered from `first` on, and kill them
    /// after `ms`.
    Visit {
        parent: Id,
        first: Id,
        count: u32,
        ms: u64,
    },
    /// Lose all messages from `from` to `to`, for `ms` or until [`World::calm`].
    Cut { from: Id, to: Id, ms: Option<u64> },
    /// Lose all messages between `a` and `b`, for `ms` or until [`World::calm`].
    Sever { a: Id, b: Id, ms: Option<u64> },
    /// Lose all messages between different `groups` for `ms`.
    Partition { groups: Vec<Vec<Id>>, ms: u64 },
    /// Change the conditions of the whole network for `ms`.
    Weather { conditions: Conditions, ms: u64 },
    /// Delay every message between `a` and `b` by `extra_ms`, for `ms`.
    Slow {
        a: Id,
        b: Id,
        extra_ms: u64,
        ms: u64,
    },
    /// For `ms`, the line from `from` to `to` carries `per_second` messages, and at most `room`
    /// packets wait for it. Of a line that is narrow already, only the end changes.
    Narrow {
        from: Id,
        to: Id,
        per_second: u32,
        room: usize,
        ms: u64,
    },
    /// The clock of `node` is slow by this share; it is fast if the share is negative.
    Drift { node: Id, per_million: i32 },
    /// Overwrite the state of these nodes with noise.
    Scramble { nodes: Vec<Id>, seed: u64 },
    /// Send `count` messages from `from` to `to` that the sender's machine would not send, spread
    /// over `ms`. They may name strangers: this many ids that no node has.
    Flood {
        from: Id,
        to: Id,
        count: u32,
        strangers: u32,
        ms: u64,
        seed: u64,
    },
    /// For `ms`, `node` tells this kind of lie.
    Lie {
        node: Id,
        lie: Lie,
        ms: u64,
        seed: u64,
    },
    /// For `ms`, no peer understands one layer of the messages of `node`, as if their version were
    /// too new.
    Skew { node: Id, layer: Layer, ms: u64 },
}

/// A layer of the messages between peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "named after the layers")]
pub enum Layer {
    Tree,
    Ring,
    Census,
    Fingers,
    Detector,
    Control,
    Packet,
}

impl Layer {
    /// All layers.
    pub const ALL: [Self; 7] = [
        Self::Tree,
        Self::Ring,
        Self::Census,
        Self::Fingers,
        Self::Detector,
        Self::Control,
        Self::Packet,
    ];

    /// Whether a message belongs to this layer.
    pub(super) const fn has(self, message: &Message<Id>) -> bool {
        matches!(
            (self, message),
            (Self::Tree, Message::Overlay(overlay::Message::Tree(_)))
                | (Self::Ring, Message::Overlay(overlay::Message::Ring(_)))
                | (Self::Census, Message::Overlay(overlay::Message::Census(_)))
                | (
                    Self::Fingers,
                    Message::Overlay(overlay::Message::Fingers(_))
                )
                | (
                    Self::Detector,
                    Message::Overlay(overlay::Message::Detector(_))
                )
        ) || matches!(
            (self, Stream::of(message)),
            (Self::Control, Stream::Control) | (Self::Packet, Stream::Packet)
        )
    }
}

impl Fault {
    /// The fault's name.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Crash { .. } => "crash",
            Self::Restart { .. } => "restart",
            Self::Pause { .. } => "pause",
            Self::Leave { .. } => "leave",
            Self::Join { .. } => "join",
            Self::Visit { .. } => "visit",
            Self::Cut { .. } => "cut",
            Self::Sever { .. } => "sever",
            Self::Partition { .. } => "partition",
            Self::Weather { .. } => "weather",
            Self::Slow { .. } => "slow",
            Self::Narrow { .. } => "narrow",
            Self::Drift { .. } => "drift",
            Self::Scramble { .. } => "scramble",
            Self::Flood { .. } => "flood",
            Self::Lie { .. } => "lie",
            Self::Skew { .. } => "skew",
        }
    }

    /// How long the fault lasts; `None` for a cut without an end, which goes on until
    /// [`World::calm`]. Zero for `Drift`, although it goes on until then too, and for faults that
    /// happen at one moment.
    pub const fn lasts(&self) -> Option<Duration> {
        let ms = match self {
            Self::Pause { ms, .. }
            | Self::Visit { ms, .. }
            | Self::Partition { ms, .. }
            | Self::Weather { ms, .. }
            | Self::Slow { ms, .. }
            | Self::Narrow { ms, .. }
            | Self::Flood { ms, .. }
            | Self::Lie { ms, .. }
            | Self::Skew { ms, .. } => *ms,
            Self::Cut { ms, .. } | Self::Sever { ms, .. } => match ms {
                Some(ms) => *ms,
                None => return None,
            },
            Self::Leave { .. } => return Some(PATIENCE),
            Self::Crash { .. }
            | Self::Restart { .. }
            | Self::Join { .. }
            | Self::Drift { .. }
            | Self::Scramble { .. } => 0,
        };
        Some(Duration::from_millis(ms))
    }
}

impl World {
    /// Apply a fault. `adjust` may change the configuration of a new node before it starts.
    pub fn act(&mut self, fault: &Fault, mut adjust: impl FnMut(&mut Config<Id>)) {
        let now = self.now;
        let until = fault.lasts().map_or(FOREVER, |length| now + length);
        match fault {
            Fault::Crash { node, noticed } if self.is_up(*node) => match noticed {
                true => self.crash_noticed(*node),
                false => self.crash(*node),
            },
            Fault::Restart { node, memory } => self.restart_with(*node, *memory),
            Fault::Pause { node, .. } => self.pause(*node, until - now),
            Fault::Leave { node } => self.leave(*node, PATIENCE),
            Fault::Join {
                node,
                parent,
                seeds,
            } => self.join(*node, *parent, seeds.clone(), &mut adjust),
            Fault::Visit {
                parent,
                first,
                count,
                ..
            } => self.visit(
                *parent,
                *first..first.saturating_add(*count),
                until,
                &mut adjust,
            ),
            Fault::Cut { from, to, .. } => self.network.cut_until(*from, *to, until),
            Fault::Sever { a, b, .. } => {
                self.network.cut_until(*a, *b, until);
                self.network.cut_until(*b, *a, until);
            }
            Fault::Partition { groups, .. } => self.network.partition_until(groups, until),
            Fault::Weather { conditions, .. } => self.network.spell_until(*conditions, until),
            Fault::Slow { a, b, extra_ms, .. } => {
                let extra = Duration::from_millis(*extra_ms);
                self.network.slow_until(*a, *b, extra, until);
            }
            Fault::Narrow {
                from,
                to,
                per_second,
                room,
                ..
            } => {
                let pause = Duration::from_secs(1) / (*per_second).max(1);
                if let Some(line) = self.line(*from, *to) {
                    let narrow = || Box::new(Narrow::new(pause, *room, until));
                    line.narrow.get_or_insert_with(narrow).until = until;
                }
            }
            Fault::Drift { node, per_million } => {
                if let Some(host) = self.hosts.get_mut(node) {
                    host.drift_per_million = *per_million;
                }
            }
            Fault::Scramble { nodes, seed } => self.scramble(nodes, *seed),
            Fault::Flood {
                from,
                to,
                count,
                strangers,
                seed,
                ..
            } => self.flood(*from, *to, *count, *strangers, until, *seed),
            Fault::Lie {
                node, lie, seed, ..
            } => {
                let everybody = self.everybody();
                if let Some(host) = self.hosts.get_mut(node) {
                    host.liar = Some(Liar::new(*lie, everybody, until, *seed));
                }
            }
            Fault::Skew { node, layer, .. } => {
                if let Some(host) = self.hosts.get_mut(node) {
                    host.mute = Some((*layer, until));
                }
            }
            Fault::Crash { .. } => {}
        }
    }

    /// End the lasting faults: cuts, partitions, weather, slow and narrow links, lies, layers that
    /// are not understood, and drift. Pauses, floods and visits end by themselves, and dead
    /// processes stay dead.
    pub fn calm(&mut self) {
        self.network.mend();
        let now = self.now;
        for host in self.hosts.values_mut() {
            host.drift_per_million = 0;
            host.liar = None;
            host.mute = None;
            let narrow = host.lines.values_mut();
            for narrow in narrow.filter_map(|line| line.narrow.as_mut()) {
                narrow.until = now;
            }
        }
    }

    fn everybody(&self) -> Vec<Id> {
        self.hosts.keys().copied().collect()
    }

    fn join(
        &mut self,
        node: Id,
        parent: Id,
        seeds: Vec<Id>,
        adjust: &mut impl FnMut(&mut Config<Id>),
    ) {
        if self.hosts.contains_key(&node) {
            return;
        }
        let mut noise = Noise::new(self.seed ^ u64::from(node));
        let mut config = Config::new(node, super::deployment::FIRST_BOOT, noise.next());
        config.parent = Some(parent);
        config.seeds = seeds;
        adjust(&mut config);
        self.start(config);
    }

    fn visit(
        &mut self,
        parent: Id,
        visitors: std::ops::Range<Id>,
        until: Duration,
        adjust: &mut impl FnMut(&mut Config<Id>),
    ) {
        for visitor in visitors {
            if self.hosts.contains_key(&visitor) {
                continue;
            }
            self.join(visitor, parent, vec![parent], adjust);
            let boot = self.boot(visitor);
            self.agenda
                .insert(until, Happening::End { at: visitor, boot });
        }
    }

    fn scramble(&mut self, nodes: &[Id], seed: u64) {
        let everybody = self.everybody();
        let mut noise = Noise::new(seed);
        for node in nodes {
            self.with_peer(*node, |peer, _| peer.scramble(&mut noise, &everybody));
        }
    }

    fn flood(&mut self, from: Id, to: Id, count: u32, strangers: u32, until: Duration, seed: u64) {
        let mut noise = Noise::new(seed);
        let mut peers = self.everybody();
        let first = peers
            .last()
            .map_or(0, |last| last.saturating_add(1_000_000));
        peers.extend((0..strangers).map(|number| first.saturating_add(number)));
        let pause = until.saturating_sub(self.now) / count.max(1);
        for number in 0..count {
            let Some(message) = garbage(&mut noise, &peers) else {
                return;
            };
            let message = Message::Overlay(message);
            let forged = Happening::Forged { from, to, message };
            self.later(pause * number, forged);
        }
    }
}
