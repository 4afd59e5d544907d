//! The ranks of the members of a closed ring, by list ranking (Wyllie's pointer jumping).
//!
//! ```text
//!   me ──1──▶ a ──1──▶ b ──1──▶ c ──1──▶ root
//!   me ───────2──────▶ b ───────2──────▶ root      me asked a, b asked c
//!   me ────────────────4───────────────▶ root      me asked b
//! ```
//!
//! Each member has a pointer to a member ahead of it, at first to its successor. It asks this
//! member for that member's own pointer, adds the two distances, and goes on until it points at the
//! root. Its rank is N less that distance. As the ring is final, every answer is true at any time,
//! so members need not keep step. If they do keep step, each answer doubles the distance until the
//! root is reached: ⌈log2 N⌉ rounds.
//!
//! The first question of a member goes to its successor. So the successor learns which member is
//! its predecessor.

use super::message::Body;
use super::peers::Neighbours;
use crate::id::Id;
use crate::outbox::Outbox;

/// One member's place in the ring.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Ranking<I> {
    root: I,
    members: u32,
    successor: I,
    predecessor: Option<I>,
    /// A member ahead. The member itself if it is the root, or has its rank from the order of the
    /// list.
    pointer: I,
    /// How many places ahead the pointer is.
    distance: u32,
    /// Whether the successor has answered.
    has_answer: bool,
    rank: Option<u32>,
    /// In a ring by the order of a list: the only node that may be the predecessor.
    expected: Option<I>,
}

impl<I: Id> Ranking<I> {
    /// Begin as the member `me` of a ring with this number of `members`: ask the `successor`.
    pub(super) fn new<T, E>(
        me: I,
        successor: I,
        root: I,
        members: u32,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) -> Self {
        let is_alone = successor == me;
        let is_root = root == me;
        if !is_alone {
            let distance = 1;
            out.send(successor, Body::Ahead { distance, members });
        }
        Self {
            root,
            members,
            successor,
            predecessor: is_alone.then_some(me),
            pointer: if is_root { me } else { successor },
            distance: u32::from(!is_root),
            has_answer: is_alone,
            rank: is_root.then_some(0),
            expected: None,
        }
    }

    /// The ring is the order of a list: the ranks are known, and the first question asks
    /// whether the lists of two neighbours agree.
    pub(super) fn sorted<T, E>(
        me: I,
        around: Neighbours<I>,
        members: u32,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) -> Self {
        // Which root is given does not matter, since no distance is asked for.
        let ranking = Self::new(me, around.after, me, members, out);
        Self {
            rank: Some(around.place as u32),
            expected: Some(around.before),
            ..ranking
        }
    }

    /// `from` asks for this member's pointer. Returns whether `from` gets the pointer, not the
    /// answer that the lists or the counts differ.
    pub(super) fn on_ahead<T, E>(
        &mut self,
        from: I,
        distance: u32,
        members: u32,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) -> bool {
        let is_other = self.expected.is_some_and(|expected| expected != from);
        if is_other || members != self.members {
            out.send(from, Body::Differs);
            return false;
        }
        if distance == 1 {
            self.predecessor = Some(from);
        }
        let answer = Body::AheadIs {
            peer: self.pointer,
            distance: self.distance,
        };
        out.send(from, answer);
        true
    }

    /// A member that this one asked answers. Returns whether the answer was due and can be right.
    pub(super) fn on_ahead_is<T, E>(
        &mut self,
        from: I,
        peer: I,
        distance: u32,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) -> bool {
        if !self.awaits(from) {
            return false;
        }
        self.has_answer = true;
        if self.rank.is_some() {
            return true;
        }
        if self.pointer != self.root {
            // Only the root has no pointer to a member ahead of it, so this answer is wrong.
            if distance == 0 {
                return false;
            }
            self.pointer = peer;
            self.distance = self.distance.saturating_add(distance);
        }
        if self.pointer == self.root {
            // A distance longer than the ring comes from a wrong answer: the member gets no rank.
            self.rank = self.members.checked_sub(self.distance);
        } else if self.distance < self.members {
            let Self {
                distance, members, ..
            } = *self;
            out.send(self.pointer, Body::Ahead { distance, members });
        }
        true
    }

    /// Whether `from` owes an answer.
    pub(super) fn awaits(&self, from: I) -> bool {
        let is_first = !self.has_answer && from == self.successor;
        is_first || self.rank.is_none() && from == self.pointer
    }

    /// The number of members of the ring.
    pub(super) const fn members(&self) -> u32 {
        self.members
    }

    /// The neighbour clockwise.
    pub(super) const fn successor(&self) -> I {
        self.successor
    }

    /// Both neighbours, once each has spoken to this member about the final ring.
    pub(super) const fn ring(&self) -> Option<(I, I)> {
        match self.predecessor {
            Some(predecessor) if self.has_answer => Some((predecessor, self.successor)),
            _ => None,
        }
    }

    /// The neighbour counterclockwise, once it has asked.
    pub(super) const fn predecessor(&self) -> Option<I> {
        self.predecessor
    }

    /// The number of places from the root, once known.
    pub(super) const fn rank(&self) -> Option<u32> {
        self.rank
    }
}
