//! The surroundings of one component of a relay, for tests of that component alone.

use binomesh_overlay::{Effect, Epoch, Placement, Population, Rank};
use bytes::Bytes;

use super::context::Context;
use super::epochs::Epochs;
use super::peers::Peers;
use super::{Config, Effects, Event, RelayStats, Timer, View};
use crate::packet::{
    Confirmation, Errand, Header, Message, Packet, PacketId, Part, Payloads, Span, Topic,
};
use crate::strategy::Strategy;

/// The id of the peer at rank 0. The ids of the peers at the next ranks follow.
pub(super) const ORIGIN: u32 = 1000;

/// The shared state of one relay's components, and the effects that they asked for.
pub(super) struct Surroundings {
    me: u32,
    pub(super) config: Config,
    pub(super) epochs: Epochs<u32>,
    pub(super) peers: Peers<u32>,
    pub(super) stats: RelayStats,
    pub(super) out: Effects<u32>,
}

/// The effects that a component has asked for, by kind.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) sent: Vec<(u32, Message<u32>)>,
    pub(super) armed: Vec<Timer>,
    pub(super) events: Vec<Event<u32>>,
}

impl Surroundings {
    /// The surroundings of the member at a rank. There are five members, who all know each other by
    /// their tables.
    pub(super) fn of_rank(rank: u32, config: Config) -> Self {
        let me = ORIGIN + rank;
        let mut epochs = Epochs::new();
        epochs.adopt(me, view_of(rank), &config);
        Self {
            me,
            config,
            epochs,
            peers: Peers::new(),
            stats: RelayStats::default(),
            out: Effects::new(),
        }
    }

    pub(super) fn context(&mut self) -> Context<'_, u32> {
        Context {
            me: self.me,
            config: &self.config,
            epochs: &mut self.epochs,
            peers: &mut self.peers,
            stats: &mut self.stats,
            out: &mut self.out,
            progress: Vec::new(),
            is_draining: false,
        }
    }

    /// The messages, timers and events asked for since the last call; other effects are dropped.
    pub(super) fn asked(&mut self) -> Asked {
        let mut asked = Asked::default();
        for effect in self.out.drain() {
            match effect {
                Effect::Send { to, message } => asked.sent.push((to, message)),
                Effect::Arm { timer, .. } => asked.armed.push(timer),
                Effect::Event(event) => asked.events.push(event),
                _ => {}
            }
        }
        asked
    }
}

impl Asked {
    /// The copies that were sent.
    pub(super) fn copies(&self) -> Vec<(u32, &Packet<u32>)> {
        let copies = self.sent.iter().filter_map(|(to, message)| match message {
            Message::Packet(packet) => Some((*to, &**packet)),
            _ => None,
        });
        copies.collect()
    }
}

fn view_of(rank: u32) -> View<u32> {
    let population = Population::new(5).unwrap();
    let mine = Rank(rank);
    let peer = |at: Rank| Some(ORIGIN + at.0);
    let levels = 0..population.levels();
    View {
        placement: Placement {
            epoch: epoch(),
            population,
            rank: mine,
        },
        clockwise: (levels.clone())
            .map(|level| peer(mine.ahead(1 << level, population)))
            .collect(),
        counterclockwise: levels
            .map(|level| peer(mine.behind(1 << level, population)))
            .collect(),
    }
}

pub(super) const fn epoch() -> Epoch<u32> {
    Epoch {
        root: 7,
        boot: 1,
        counter: 1,
        nonce: 0,
    }
}

/// A copy of a message of the origin. Its receiver, the member at the start of the span, answers
/// for the whole span.
pub(super) fn copy(sequence: u64, span: Span) -> Packet<u32> {
    Packet {
        header: Header {
            errand: Errand {
                id: PacketId {
                    origin: ORIGIN,
                    boot: 1,
                    sequence,
                },
                epoch: epoch(),
                strategy: Strategy::Binomial,
                round: 0,
                part: Part::Range(span),
            },
            origin_rank: Rank(0),
            to: Rank(span.start),
            closed_below: 0,
            is_kept: false,
            confirmation: Confirmation::default(),
            topic: Topic::new("test").unwrap(),
            order: None,
            names: Vec::new(),
            stood: None,
            signature: None,
        },
        payloads: Payloads::from(Bytes::from_static(b"seven b")),
    }
}
