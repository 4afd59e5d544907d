//! The slow refresh between the rounds of rule 1, one level at a time. It is needed because
//! heartbeats do not watch fingers.
//!
//! Departure: [BMG09] has nothing like it; there only rule 1's rounds repair.

use super::Fingers;
use super::message::{Direction, Message};
use crate::change::Changed;
use crate::id::Id;
use crate::outbox::Outbox;
use crate::placement::MAX_LEVELS;
use crate::stamp::{Proof, Stamp, distance};

/// In one of this many rounds of visits the counterclockwise fingers are asked too. A round visits
/// each level once.
const BACKWARDS: u32 = 4;

impl<I: Id, S: Stamp> Fingers<I, S> {
    /// Visit one level. The process asks its clockwise finger whether it is that finger's
    /// counterclockwise one, and the answer mends either end. It also asks for a finger that is
    /// missing or denied: the finger one level below, or, without a live one, all other fingers,
    /// one per `turn`. With each level visited in turn, from 0, every link is repaired within
    /// levels × period. A link whose asker is gone would never be visited, so in one round of four
    /// the counterclockwise finger is asked too. Fingers that are `down` are not asked.
    pub fn confirm<M, T, E>(
        &mut self,
        level: usize,
        turn: u32,
        down: &[I],
        out: &mut Outbox<I, M, T, E>,
    ) where
        M: From<Message<I, S::Mark>>,
    {
        if !self.population.has_level(level) {
            return;
        }
        let is_backwards =
            (turn / self.population.levels().max(1) as u32).is_multiple_of(BACKWARDS);
        for direction in [Direction::Clockwise, Direction::Counterclockwise] {
            let Some(finger) = self.finger(level, direction) else {
                let below = level.checked_sub(1);
                let below = below.and_then(|below| self.finger(below, direction));
                match below.filter(|id| !down.contains(id)) {
                    Some(_) => self.seek(level, direction, out),
                    None => self.seek_elsewhere(level, direction, turn, down, out),
                }
                continue;
            };
            let is_asked = direction == Direction::Clockwise || is_backwards;
            if is_asked && !down.contains(&finger) {
                self.set_confirmed(level, direction, false);
                out.send(finger, self.question(level, direction));
            }
        }
    }

    /// Ask `peer` about every place that it has in the tables.
    pub fn greet<M, T, E>(&mut self, peer: I, out: &mut Outbox<I, M, T, E>)
    where
        M: From<Message<I, S::Mark>>,
    {
        for level in 0..self.population.levels() {
            for direction in [Direction::Clockwise, Direction::Counterclockwise] {
                if self.finger(level, direction) == Some(peer) {
                    self.set_confirmed(level, direction, false);
                    out.send(peer, self.question(level, direction));
                }
            }
        }
    }

    fn question(&self, level: usize, direction: Direction) -> Message<I, S::Mark> {
        Message::Confirm {
            level: level as u8,
            direction,
            mark: self.stamp.ahead(0),
        }
    }

    /// Whether both fingers at this level have agreed to the last question that each was asked.
    pub const fn is_confirmed(&self, level: usize) -> bool {
        level < MAX_LEVELS && (self.confirmed[0] & self.confirmed[1]) >> level & 1 == 1
    }

    /// The sender says that this process is its finger in `direction`. Without marks the sender is
    /// believed only where it contradicts no entry.
    pub(super) fn on_confirm<M, T, E>(
        &mut self,
        from: I,
        level: usize,
        direction: Direction,
        mark: S::Mark,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        M: From<Message<I, S::Mark>>,
    {
        let back = direction.opposite();
        let agrees = match self.judge(level, back, mark) {
            Proof::Holds => true,
            Proof::Absent => self.finger(level, back).is_none_or(|known| known == from),
            Proof::Fails => false,
            // The sender asks again once both have the same epoch.
            Proof::Foreign => return Changed::NO,
        };
        let mine = self.stamp.ahead(0);
        let answered = level as u8;
        if agrees {
            out.send(
                from,
                Message::Confirmed {
                    level: answered,
                    direction,
                    mark: mine,
                },
            );
            return self.put(level, back, Some(from));
        }
        out.send(
            from,
            Message::Deny {
                level: answered,
                direction,
                mark: mine,
            },
        );
        Changed::NO
    }

    /// A finger agrees; its own mark must agree too.
    pub(super) fn on_confirmed<M, T, E>(
        &mut self,
        from: I,
        level: usize,
        direction: Direction,
        mark: S::Mark,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        M: From<Message<I, S::Mark>>,
    {
        if self.finger(level, direction) != Some(from) {
            return Changed::NO;
        }
        match self.judge(level, direction, mark) {
            Proof::Holds | Proof::Absent => {
                self.set_confirmed(level, direction, true);
                Changed::NO
            }
            Proof::Fails => self.replace(level, direction, out),
            Proof::Foreign => Changed::NO,
        }
    }

    /// A finger says that it is not this process's finger. It is believed, as it knows its own
    /// rank, unless its mark is of another epoch.
    pub(super) fn on_deny<M, T, E>(
        &mut self,
        from: I,
        level: usize,
        direction: Direction,
        mark: S::Mark,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        M: From<Message<I, S::Mark>>,
    {
        let is_mine = self.finger(level, direction) == Some(from);
        if !is_mine || self.judge(level, direction, mark) == Proof::Foreign {
            return Changed::NO;
        }
        self.replace(level, direction, out)
    }

    /// The sender lacks a finger. If this process knows that finger, or is it, repeat the message
    /// of rule 2 or 3 for the sender alone. Without marks this process takes itself for the
    /// sender's finger one level below, and introduces its own finger of that level.
    pub(super) fn on_seek<M, T, E>(
        &self,
        from: I,
        level: usize,
        direction: Direction,
        mark: S::Mark,
        out: &mut Outbox<I, M, T, E>,
    ) where
        M: From<Message<I, S::Mark>>,
    {
        let back = direction.opposite();
        let span = distance(level, self.population);
        let is_clockwise = direction == Direction::Clockwise;
        if let Some(wanted) = self.stamp.from(mark, span, is_clockwise) {
            if let Some(subject) = self.holder(wanted).filter(|subject| *subject != from) {
                let level = level as u8;
                out.send(from, Message::introduction(level, back, subject, wanted));
            }
            return;
        }
        let Some(below) = level.checked_sub(1) else {
            return;
        };
        let is_proved = matches!(self.judge(below, back, mark), Proof::Holds | Proof::Absent);
        let subject = self.finger(below, direction);
        if let Some(subject) = subject.filter(|&subject| is_proved && subject != from) {
            out.send(from, self.introduction(level, back, subject));
        }
    }

    /// The process that holds a mark, as far as the tables show.
    fn holder(&self, wanted: S::Mark) -> Option<I> {
        if self.stamp.ahead(0) == wanted {
            return Some(self.me);
        }
        let ways = [Direction::Clockwise, Direction::Counterclockwise];
        let mut places = (0..self.population.levels())
            .flat_map(|level| ways.map(|direction| (level, direction)));
        let place = places.find(|(level, way)| self.expected(*level, *way) == wanted);
        place.and_then(|(level, way)| self.finger(level, way))
    }

    /// Ask a finger of any level for a missing one, at each turn another: the finger of the level
    /// below is missing or down.
    fn seek_elsewhere<M, T, E>(
        &self,
        level: usize,
        direction: Direction,
        turn: u32,
        down: &[I],
        out: &mut Outbox<I, M, T, E>,
    ) where
        M: From<Message<I, S::Mark>>,
    {
        let ways = [Direction::Clockwise, Direction::Counterclockwise];
        let fingers =
            (0..self.population.levels()).flat_map(|level| ways.map(|way| self.finger(level, way)));
        let known: Vec<I> = fingers.flatten().filter(|id| !down.contains(id)).collect();
        let next = known.get(turn as usize % known.len().max(1));
        // Level 0 is the ring's alone.
        if let Some(next) = next.filter(|_| level > 0) {
            let (level, mark) = (level as u8, self.stamp.ahead(0));
            out.send(
                *next,
                Message::Seek {
                    level,
                    direction,
                    mark,
                },
            );
        }
    }

    /// Clear a wrong finger and ask for the right one: one question per answer,
    /// so that a liar gains nothing by denying.
    fn replace<M, T, E>(
        &mut self,
        level: usize,
        direction: Direction,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        M: From<Message<I, S::Mark>>,
    {
        let changed = self.put(level, direction, None);
        self.seek(level, direction, out);
        changed
    }

    /// Ask the finger one level below for a missing finger; the ring gives level 0.
    fn seek<M, T, E>(&self, level: usize, direction: Direction, out: &mut Outbox<I, M, T, E>)
    where
        M: From<Message<I, S::Mark>>,
    {
        let below = level.checked_sub(1);
        if let Some(next) = below.and_then(|below| self.finger(below, direction)) {
            let (level, mark) = (level as u8, self.stamp.ahead(0));
            out.send(
                next,
                Message::Seek {
                    level,
                    direction,
                    mark,
                },
            );
        }
    }
}
