//! The line from one peer to another: keeps messages in order, and queues them while the line is
//! narrow.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use binomesh_overlay::noise::Noise;
use binomesh_overlay::{self as overlay, Slot};
use binomesh_routing::{self as routing, packet};

use super::Id;
use crate::peer::Message;

/// The most maintenance slots that wait, as in the transport.
const SLOTS: usize = 1024;
/// The most control messages that wait, as a multiple of the room for packets; also as in the
/// transport.
const CONTROL_PER_PACKET: usize = 4;

/// A stream of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Maintenance,
    Control,
    Packet,
}

impl Stream {
    pub(super) const fn of(message: &Message<Id>) -> Self {
        match message {
            Message::Overlay(_) => Self::Maintenance,
            Message::Collective(_) => Self::Control,
            Message::Relay(message) => match message.class() {
                packet::Class::Control => Self::Control,
                packet::Class::Packet => Self::Packet,
            },
        }
    }
}

/// One direction between two peers.
pub(super) struct Line {
    /// Fixes all chance on this line, message by message, so that events elsewhere change nothing
    /// here.
    key: u64,
    sent: u64,
    last: [Duration; 3],
    pub(super) narrow: Option<Box<Narrow>>,
}

impl Line {
    pub(super) fn new(seed: u64, from: Id, to: Id) -> Self {
        let mut noise = Noise::new(seed ^ u64::from(from) << 32 ^ u64::from(to));
        Self {
            key: noise.next(),
            sent: 0,
            last: [Duration::ZERO; 3],
            narrow: None,
        }
    }

    /// The random numbers of the next message or greeting.
    pub(super) const fn chance(&mut self) -> Noise {
        self.sent += 1;
        Noise::new(self.key ^ self.sent.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// When a message arrives that could arrive at `earliest`: not before earlier messages of its
    /// stream.
    pub(super) fn in_order(&mut self, stream: Stream, earliest: Duration) -> Duration {
        let last = &mut self.last[stream as usize];
        *last = earliest.max(*last);
        *last
    }
}

/// A line that carries few messages, with the transport's queue but less room.
pub(super) struct Narrow {
    /// The time between two messages.
    pub(super) pause: Duration,
    /// When the line is wide again.
    pub(super) until: Duration,
    /// The most packets that wait.
    room: usize,
    slots: BTreeMap<Slot<Id>, overlay::Message<Id>>,
    places: VecDeque<Slot<Id>>,
    control: VecDeque<Message<Id>>,
    packets: VecDeque<routing::Message<Id>>,
    owes_writable: bool,
    /// Whether the next turn of the line, `Happening::Room`, is on the agenda.
    pub(super) is_busy: bool,
}

impl Narrow {
    pub(super) const fn new(pause: Duration, room: usize, until: Duration) -> Self {
        Self {
            pause,
            until,
            room,
            slots: BTreeMap::new(),
            places: VecDeque::new(),
            control: VecDeque::new(),
            packets: VecDeque::new(),
            owes_writable: false,
            is_busy: false,
        }
    }

    /// Queue a message. In a slot it replaces the older message, or is merged with it. If its queue
    /// is full, it is dropped. The sender of a dropped packet or control message is told later when
    /// there is room.
    pub(super) fn push(&mut self, message: Message<Id>) {
        match (Stream::of(&message), message) {
            (_, Message::Overlay(message)) => {
                let slot = message.slot();
                let waits = match self.slots.remove(&slot) {
                    Some(older) => message.merge(older).0,
                    None if self.slots.len() >= SLOTS => return,
                    None => {
                        self.places.push_back(slot);
                        message
                    }
                };
                self.slots.insert(slot, waits);
            }
            (Stream::Packet, Message::Relay(message)) if self.packets.len() < self.room => {
                self.packets.push_back(message);
            }
            (Stream::Control, message) if self.control.len() < self.room * CONTROL_PER_PACKET => {
                self.control.push_back(message);
            }
            _ => self.owes_writable = true,
        }
    }

    /// Take the next message: maintenance first, then control messages, then packets.
    pub(super) fn pop(&mut self) -> Option<Message<Id>> {
        let slot = self.places.pop_front();
        if let Some(message) = slot.and_then(|slot| self.slots.remove(&slot)) {
            return Some(Message::Overlay(message));
        }
        let next = self.control.pop_front();
        next.or_else(|| self.packets.pop_front().map(Message::Relay))
    }

    /// Whether the sender must be told now that there is room.
    pub(super) fn take_writable(&mut self) -> bool {
        let is_roomy = self.packets.len() <= self.room / 2
            && self.control.len() <= self.room * CONTROL_PER_PACKET / 2;
        is_roomy && std::mem::take(&mut self.owes_writable)
    }
}
