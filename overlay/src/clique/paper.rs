//! [FC] steps 1 to 5 as the paper writes them, to study what they do. No node runs them.
//!
//! The first part links nodes at random. It gives one ring in about e/N of all runs, several
//! cycles in most others, and gets stuck when the last node without a neighbour finds only
//! its own place free. The second part, the doubling of distances, stops by a condition that
//! is right for few sizes: see `docs/figures.md`.

use super::message::Body;
use super::peers::Peers;
use crate::id::Id;
use crate::noise::Noise;
use crate::outbox::Outbox;

/// One node's lists of the paper; the last entry of each is the "current neighbour".
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Written<I> {
    me: I,
    clockwise: Vec<I>,
    counterclockwise: Vec<I>,
    /// The identifiers that the two current neighbours sent in this turn of the loop.
    received: [Option<I>; 2],
    has_ended: bool,
}

impl<I: Id> Written<I> {
    /// A node without neighbours.
    pub const fn new(me: I) -> Self {
        Self {
            me,
            clockwise: Vec::new(),
            counterclockwise: Vec::new(),
            received: [None; 2],
            has_ended: false,
        }
    }

    /// [FC] step 1: ask a random node whether its place counterclockwise is free, unless this node
    /// has a neighbour clockwise.
    pub fn request<T, E>(
        &self,
        peers: &Peers<I>,
        noise: &mut Noise,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) {
        let to = peers.other_than(self.me, noise);
        if let Some(to) = to.filter(|_| self.clockwise.is_empty()) {
            out.send(to, Body::Request);
        }
    }

    /// [FC] step 2: the first node that asks becomes the neighbour counterclockwise.
    pub fn on_request<T, E>(&mut self, from: I, out: &mut Outbox<I, Body<I>, T, E>) {
        let current = *self.counterclockwise.first().unwrap_or(&from);
        if self.counterclockwise.is_empty() {
            self.counterclockwise.push(from);
        }
        out.send(from, Body::Current(current));
    }

    /// [FC] step 1: the request was granted if the answer is my own identifier. Otherwise ask
    /// another node.
    pub fn on_current<T, E>(
        &mut self,
        from: I,
        current: I,
        peers: &Peers<I>,
        noise: &mut Noise,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) {
        if current == self.me && self.clockwise.is_empty() {
            self.clockwise.push(from);
        }
        self.request(peers, noise, out);
    }

    /// [FC] step 3: send each current neighbour the identifier of the other.
    pub fn double<T, E>(&self, out: &mut Outbox<I, Body<I>, T, E>) {
        if let (Some(clockwise), Some(counterclockwise), false) = (
            self.clockwise.last().copied(),
            self.counterclockwise.last().copied(),
            self.has_ended,
        ) {
            out.send(counterclockwise, Body::CurrentClockwise(clockwise));
            out.send(clockwise, Body::CurrentCounterclockwise(counterclockwise));
        }
    }

    /// [FC] steps 4 and 5, once both current neighbours have sent. The paper compares with
    /// the neighbours of the turn that ends.
    pub fn on_neighbour<T, E>(
        &mut self,
        is_clockwise: bool,
        peer: I,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) {
        self.received[usize::from(!is_clockwise)] = Some(peer);
        let [Some(ahead), Some(behind)] = self.received else {
            return;
        };
        self.received = [None; 2];
        let current = |list: &[I]| list.last().copied();
        let (clockwise, counterclockwise) =
            (current(&self.clockwise), current(&self.counterclockwise));
        if !self.clockwise.contains(&ahead) && Some(ahead) != counterclockwise {
            self.clockwise.push(ahead);
        } else {
            self.has_ended = true;
        }
        if !self.counterclockwise.contains(&behind) && Some(behind) != clockwise {
            self.counterclockwise.push(behind);
        } else {
            self.has_ended = true;
        }
        self.double(out);
    }

    /// The list CW, in the order of growing distance.
    pub fn clockwise(&self) -> &[I] {
        &self.clockwise
    }

    /// The list CCW, in the order of growing distance.
    pub fn counterclockwise(&self) -> &[I] {
        &self.counterclockwise
    }

    /// Whether the end flag is set.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }
}
