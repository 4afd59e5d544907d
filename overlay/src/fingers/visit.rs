//! The slow refresh between the rounds of rule 1: one level at a time, because
//! heartbeats do not watch fingers.
//!
//! Departure: [BMG09] has nothing like it; there only rule 1's rounds repair.

use super::Fingers;
use super::message::{Direction, Message};
use crate::change::Changed;
use crate::id::Id;
use crate::outbox::Outbox;
use crate::placement::MAX_LEVELS;
use crate::stamp::{Proof, Stamp};

impl<I: Id, S: Stamp> Fingers<I, S> {
    /// Visit one level: ask both fingers there whether I am theirs, and ask one
    /// level below for a finger that is missing or denied. Called with each level
    /// in turn, from 0, it repairs every link within levels × period.
    pub fn confirm<M, T, E>(&mut self, level: usize, out: &mut Outbox<I, M, T, E>)
    where
        M: From<Message<I, S::Mark>>,
    {
        if !self.population.has_level(level) {
            return;
        }
        for direction in [Direction::Clockwise, Direction::Counterclockwise] {
            self.set_confirmed(level, direction, false);
            let Some(finger) = self.finger(level, direction) else {
                self.seek(level, direction, out);
                continue;
            };
            let (level, mark) = (level as u8, self.stamp.ahead(0));
            out.send(
                finger,
                Message::Confirm {
                    level,
                    direction,
                    mark,
                },
            );
        }
    }

    /// Whether both fingers at this level answered the last
    /// [`Fingers::confirm`] with a yes.
    pub const fn is_confirmed(&self, level: usize) -> bool {
        level < MAX_LEVELS && (self.confirmed[0] & self.confirmed[1]) >> level & 1 == 1
    }

    /// An asker says that I am its finger in `direction`. Without marks it is
    /// believed only where it contradicts nothing.
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
            // It will ask again when we have one epoch.
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

    /// My finger agrees; its own mark must agree too.
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

    /// My finger says that it is not. It knows its own rank; but of another
    /// epoch it may say nothing.
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

    /// One level below me somebody lacks what I have: rule 2 or 3's message once
    /// more, to it alone.
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
        let Some(below) = level.checked_sub(1) else {
            return;
        };
        let back = direction.opposite();
        let is_proved = matches!(self.judge(below, back, mark), Proof::Holds | Proof::Absent);
        let subject = self.finger(below, direction);
        if let Some(subject) = subject.filter(|&subject| is_proved && subject != from) {
            out.send(from, self.introduction(level, back, subject));
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

    /// Ask one level below for a finger that is missing; the ring gives level 0.
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
