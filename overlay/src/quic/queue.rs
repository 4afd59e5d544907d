//! The queue of frames that wait for one peer.
//!
//! Maintenance frames wait in slots. A newer frame with the same key replaces the older one, or is
//! merged with it, and takes over its place in the queue. So no key starves behind another that is
//! sent more often. Control and packet frames wait in two bounded FIFOs.

use std::collections::{BTreeMap, VecDeque};

use super::frame::{Class, Frame, PlainClass, SlotKey};

/// The bounds of the queue to one peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueLimits {
    pub(super) slots: usize,
    pub(super) control_frames: usize,
    pub(super) packet_frames: usize,
    /// Bytes of packets. A packet always fits into an empty queue of packets.
    pub(super) bytes: usize,
}

/// The error when a queue has no room now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The frames that wait for one peer.
#[derive(Debug)]
pub(super) struct Queue {
    limits: QueueLimits,
    slots: BTreeMap<SlotKey, Frame>,
    places: VecDeque<SlotKey>,
    control: VecDeque<Frame>,
    packets: VecDeque<Frame>,
    bytes: [usize; 3],
    /// Whether a FIFO turned a frame away and its sender has not been told of room yet.
    owes_writable: bool,
}

impl Queue {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            slots: BTreeMap::new(),
            places: VecDeque::new(),
            control: VecDeque::new(),
            packets: VecDeque::new(),
            bytes: [0; 3],
            owes_writable: false,
        }
    }

    /// Queue a frame. A full FIFO remembers that it owes a `Writable`. A full set of slots does
    /// not, since its senders repeat their state anyway.
    pub(super) fn push(&mut self, frame: Frame) -> Result<(), Full> {
        let length = frame.len();
        let class = frame.class.plain();
        match frame.class {
            Class::Maintenance(key) => {
                if let Some(older) = self.slots.get_mut(&key) {
                    let frame = frame.in_place_of(older);
                    self.bytes[0] = self.bytes[0] - older.len() + frame.len();
                    *older = frame;
                    return Ok(());
                }
                if self.slots.len() >= self.limits.slots {
                    return Err(Full);
                }
                self.slots.insert(key, frame);
                self.places.push_back(key);
            }
            Class::Control if self.control.len() < self.limits.control_frames => {
                self.control.push_back(frame);
            }
            // The limit of bytes is for packets alone. The other classes have few and short frames,
            // and must not starve behind a full packet queue.
            Class::Packet if self.has_packet_room(length) => self.packets.push_back(frame),
            Class::Control | Class::Packet => {
                self.owes_writable = true;
                return Err(Full);
            }
        }
        self.bytes[class.index()] += length;
        Ok(())
    }

    /// Take the next frames of a class: at least one if any waits, and at most `frames`. Together
    /// they have at most `bytes`, unless the first alone has more.
    pub(super) fn take(&mut self, class: PlainClass, frames: usize, bytes: usize) -> Vec<Frame> {
        let mut batch = Vec::new();
        let mut taken = 0;
        while batch.len() < frames {
            let next = self.peek_len(class);
            if next.is_none_or(|length| !batch.is_empty() && taken + length > bytes) {
                break;
            }
            let Some(frame) = self.pop(class) else { break };
            taken += frame.len();
            batch.push(frame);
        }
        self.bytes[class.index()] -= taken;
        batch
    }

    /// Whether the sender has to be told now that there is room again: once, when both FIFOs are at
    /// most half full.
    pub(super) fn take_writable(&mut self) -> bool {
        let roomy = self.control.len() <= self.limits.control_frames / 2
            && self.packets.len() <= self.limits.packet_frames / 2
            && self.bytes[PlainClass::Packet.index()] <= self.limits.bytes / 2;
        roomy && std::mem::take(&mut self.owes_writable)
    }

    /// Drop all frames. Returns how many there were.
    pub(super) fn clear(&mut self) -> usize {
        let dropped = self.len();
        self.slots.clear();
        self.places.clear();
        self.control.clear();
        self.packets.clear();
        self.bytes = [0; 3];
        dropped
    }

    pub(super) fn len(&self) -> usize {
        self.depths().iter().sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of waiting frames by class.
    pub(super) fn depths(&self) -> [usize; 3] {
        [self.slots.len(), self.control.len(), self.packets.len()]
    }

    /// The bytes of all waiting frames.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.iter().sum()
    }

    fn has_packet_room(&self, length: usize) -> bool {
        let waiting = self.bytes[PlainClass::Packet.index()];
        self.packets.len() < self.limits.packet_frames
            && (self.packets.is_empty() || waiting + length <= self.limits.bytes)
    }

    fn peek_len(&self, class: PlainClass) -> Option<usize> {
        match class {
            PlainClass::Maintenance => {
                let key = self.places.front()?;
                self.slots.get(key).map(Frame::len)
            }
            PlainClass::Control => self.control.front().map(Frame::len),
            PlainClass::Packet => self.packets.front().map(Frame::len),
        }
    }

    fn pop(&mut self, class: PlainClass) -> Option<Frame> {
        match class {
            PlainClass::Maintenance => {
                let key = self.places.pop_front()?;
                self.slots.remove(&key)
            }
            PlainClass::Control => self.control.pop_front(),
            PlainClass::Packet => self.packets.pop_front(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const LIMITS: QueueLimits = QueueLimits {
        slots: 3,
        control_frames: 2,
        packet_frames: 4,
        bytes: 100,
    };

    fn slot(kind: u8, body: &'static str) -> Frame {
        let key = SlotKey {
            kind,
            level: 0,
            subject: None,
        };
        frame(Class::Maintenance(key), body.as_bytes())
    }

    fn frame(class: Class, body: &'static [u8]) -> Frame {
        Frame {
            class,
            head: Bytes::from_static(body),
            payload: Bytes::new(),
            introduces: Vec::new(),
            merge: None,
        }
    }

    fn heads(frames: &[Frame]) -> Vec<&[u8]> {
        frames.iter().map(|frame| frame.head.as_ref()).collect()
    }

    #[test]
    fn the_newest_of_a_slot_wins_and_keeps_its_place() {
        let mut queue = Queue::new(LIMITS);
        for frame in [slot(1, "old"), slot(2, "two"), slot(1, "newer")] {
            assert_eq!(queue.push(frame), Ok(()));
        }
        assert_eq!(queue.bytes(), 8);
        let batch = queue.take(PlainClass::Maintenance, 9, 99);
        assert_eq!(heads(&batch), [b"newer".as_slice(), b"two"]);
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
    }

    #[test]
    fn mergeable_frames_are_merged_in_their_slot() {
        let both = |older: &Bytes, newer: &Bytes| Some([&older[..], &newer[..]].concat().into());
        let mut queue = Queue::new(LIMITS);
        for body in ["one", "two"] {
            let mut frame = slot(1, body);
            frame.merge = Some(both);
            assert_eq!(queue.push(frame), Ok(()));
        }
        assert_eq!((queue.len(), queue.bytes()), (1, 6));
        let batch = queue.take(PlainClass::Maintenance, 9, 99);
        assert_eq!(heads(&batch), [b"onetwo".as_slice()]);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn slots_are_bounded_and_owe_nothing() {
        let mut queue = Queue::new(LIMITS);
        for kind in 0..3 {
            assert_eq!(queue.push(slot(kind, "x")), Ok(()));
        }
        assert_eq!(queue.push(slot(3, "x")), Err(Full));
        assert_eq!(queue.push(slot(2, "y")), Ok(()));
        queue.clear();
        assert!(!queue.take_writable());
    }

    #[test]
    fn a_full_fifo_is_writable_once_when_half_empty() {
        let mut queue = Queue::new(LIMITS);
        for _ in 0..4 {
            assert_eq!(queue.push(frame(Class::Packet, b"p")), Ok(()));
        }
        assert_eq!(queue.push(frame(Class::Packet, b"p")), Err(Full));
        queue.take(PlainClass::Packet, 1, 99);
        assert!(!queue.take_writable());
        queue.take(PlainClass::Packet, 1, 99);
        assert!(queue.take_writable());
        assert!(!queue.take_writable());
    }

    #[test]
    fn bytes_bound_packets_but_one_always_fits() {
        let mut queue = Queue::new(LIMITS);
        assert_eq!(queue.push(frame(Class::Packet, &[0; 200])), Ok(()));
        assert_eq!(queue.push(frame(Class::Packet, b"p")), Err(Full));
        assert_eq!(queue.push(frame(Class::Control, b"c")), Ok(()));
        assert_eq!(queue.take(PlainClass::Packet, 9, 10).len(), 1);
    }
}
