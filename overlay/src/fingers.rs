//! From a ring whose size is known to a binomial graph: [BMG09] Algorithm 2.
//!
//! ```text
//!   me − 2^i ◀── counterclockwise[i] ── me ── clockwise[i] ──▶ me + 2^i
//!       └── once I know both, I introduce them: they are 2^(i+1) apart ──┘
//! ```
//!
//! Linear forwarding: a message that completes or changes the pair of a level introduces both
//! fingers to each other. A message that only repeats an entry begets one of its own kind, UP of UP
//! and DN of DN. So one round of rule 1 costs every process two messages per level above 0, in a
//! clean start and ever after.
//!
//! Between rounds a process visits one level at a time ([`Fingers::confirm`]). It shows its mark to
//! the clockwise finger of that level, in every fourth round also to the counterclockwise one. The
//! finger adopts the process, agrees or denies. For a missing finger the process asks the finger
//! one level below. A visit causes no further messages.
//!
//! Not here: when the rules are applied, and where N and ranks come from (the census).

mod message;
mod visit;

pub use message::{Direction, Forwarding, Message, Rules};

use crate::change::Changed;
use crate::id::Id;
use crate::outbox::Outbox;
use crate::placement::{MAX_LEVELS, Population};
use crate::planted::{Bug, Planted};
use crate::stamp::{Proof, Stamp, distance};

/// The fingers of one process in one numbering of the members.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fingers<I, S: Stamp> {
    me: I,
    population: Population,
    stamp: S,
    clockwise: [Option<I>; MAX_LEVELS],
    counterclockwise: [Option<I>; MAX_LEVELS],
    /// Bit i: the finger at level i has agreed to my last question. The first word is for the
    /// clockwise fingers, the second for the counterclockwise ones.
    confirmed: [u32; 2],
}

impl<I: Id, S: Stamp> Fingers<I, S> {
    /// A process that knows no finger yet.
    pub const fn new(me: I, population: Population, stamp: S) -> Self {
        Self {
            me,
            population,
            stamp,
            clockwise: [None; MAX_LEVELS],
            counterclockwise: [None; MAX_LEVELS],
            confirmed: [0; 2],
        }
    }

    /// Fingers in an arbitrary state, as memory corruption may leave them.
    pub const fn corrupted(
        me: I,
        population: Population,
        stamp: S,
        clockwise: [Option<I>; MAX_LEVELS],
        counterclockwise: [Option<I>; MAX_LEVELS],
    ) -> Self {
        Self {
            me,
            population,
            stamp,
            clockwise,
            counterclockwise,
            confirmed: [0; 2],
        }
    }

    /// Take over another size of the ring, and clear the levels that it does not have.
    pub fn renumber(&mut self, population: Population, stamp: S) -> Changed {
        let before = self.clone();
        self.population = population;
        self.stamp = stamp;
        self.confirmed = [0; 2];
        for level in population.levels()..MAX_LEVELS {
            self.clockwise[level] = None;
            self.counterclockwise[level] = None;
        }
        Changed(*self != before)
    }

    /// Level 0 is the ring. Rule 1 is applied if level 0 changed. The owner calls this when the
    /// ring changes and, as in the paper, with every repetition of rule 1, since a denied visit may
    /// have cleared level 0. If this returns that nothing changed, the owner repeats the
    /// introductions with [`Fingers::refresh`].
    ///
    /// Departure: a lone process has no fingers, and no process is its own finger.
    pub fn set_ring<M, T, E>(
        &mut self,
        successor: Option<I>,
        predecessor: Option<I>,
        rules: Rules,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        M: From<Message<I, S::Mark>>,
    {
        let other = |known: Option<I>| {
            known.filter(|&peer| peer != self.me && self.population != Population::ONE)
        };
        let (successor, predecessor) = (other(successor), other(predecessor));
        let changed = self.put(0, Direction::Clockwise, successor)
            | self.put(0, Direction::Counterclockwise, predecessor);
        if changed.0 {
            self.refresh(rules, out);
        }
        changed
    }

    /// [BMG09] Alg. 2, rule 1: introduce my two ring neighbours to each other.
    ///
    /// Departure: only if 2 < N and both are known; the paper has no guard.
    pub fn refresh<M, T, E>(&self, rules: Rules, out: &mut Outbox<I, M, T, E>)
    where
        M: From<Message<I, S::Mark>>,
    {
        self.introduce(0, Direction::Clockwise, rules, out);
        self.introduce(0, Direction::Counterclockwise, rules, out);
    }

    /// Apply the rule of one received message.
    pub fn on_message<M, T, E>(
        &mut self,
        from: I,
        message: Message<I, S::Mark>,
        rules: Rules,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        M: From<Message<I, S::Mark>>,
    {
        use Direction::{Clockwise, Counterclockwise};
        let level = usize::from(message.level());
        // Departure: a received level is range-checked; the paper indexes with it.
        if from == self.me || !self.has_level(level, rules.planted) {
            return Changed::NO;
        }
        match message {
            // [BMG09] Alg. 2, rules 2 and 3.
            Message::Up { subject, mark, .. } => {
                self.on_introduction(level, Counterclockwise, subject, mark, rules, out)
            }
            Message::Down { subject, mark, .. } => {
                self.on_introduction(level, Clockwise, subject, mark, rules, out)
            }
            Message::Confirm {
                direction, mark, ..
            } => self.on_confirm(from, level, direction, mark, out),
            Message::Confirmed {
                direction, mark, ..
            } => self.on_confirmed(from, level, direction, mark, out),
            Message::Deny {
                direction, mark, ..
            } => self.on_deny(from, level, direction, mark, out),
            Message::Seek {
                direction, mark, ..
            } => {
                self.on_seek(from, level, direction, mark, out);
                Changed::NO
            }
        }
    }

    /// Forget a process that is gone.
    pub fn forget(&mut self, peer: I) -> Changed {
        let mut changed = Changed::NO;
        for level in 0..MAX_LEVELS {
            for direction in [Direction::Clockwise, Direction::Counterclockwise] {
                if self.finger(level, direction) == Some(peer) {
                    changed |= self.put(level, direction, None);
                }
            }
        }
        changed
    }

    /// How many members the ring has.
    pub const fn population(&self) -> Population {
        self.population
    }

    /// The place of this process in the numbering.
    pub const fn stamp(&self) -> &S {
        &self.stamp
    }

    /// The fingers clockwise, level by level. The slice has one entry per level, and more only if a
    /// corrupted state holds a finger beyond them.
    pub fn clockwise(&self) -> &[Option<I>] {
        used(&self.clockwise, self.population)
    }

    /// The fingers counterclockwise, level by level, as [`Fingers::clockwise`].
    pub fn counterclockwise(&self) -> &[Option<I>] {
        used(&self.counterclockwise, self.population)
    }

    /// Whether every finger of every level is known. Known is not right: see
    /// [`Fingers::is_confirmed`].
    pub fn is_complete(&self) -> bool {
        (0..self.population.levels())
            .all(|level| self.clockwise[level].is_some() && self.counterclockwise[level].is_some())
    }

    /// [BMG09] Alg. 2, rules 2 (UP, counterclockwise) and 3 (DN, clockwise).
    fn on_introduction<M, T, E>(
        &mut self,
        level: usize,
        direction: Direction,
        subject: I,
        mark: S::Mark,
        rules: Rules,
        out: &mut Outbox<I, M, T, E>,
    ) -> Changed
    where
        M: From<Message<I, S::Mark>>,
    {
        let is_proved = matches!(
            self.judge(level, direction, mark),
            Proof::Holds | Proof::Absent
        );
        // As 2^level < N, this process is never its own finger.
        let is_me = subject == self.me && !rules.planted.has(Bug::LevelBound);
        if level == 0 || !is_proved || is_me {
            return Changed::NO;
        }
        let changed = self.put(level, direction, Some(subject));
        if changed.0 || rules.forwarding == Forwarding::Literal {
            self.introduce(level, Direction::Clockwise, rules, out);
            self.introduce(level, Direction::Counterclockwise, rules, out);
        } else {
            // A known finger was repeated: introduce it to the opposite one. So UP begets UP, and
            // DN begets DN.
            self.introduce(level, direction.opposite(), rules, out);
        }
        changed
    }

    /// Introduce the pair at `level`: tell the finger in `towards` about the opposite one.
    ///
    /// Departure: 2^(level+1) < N in both rules ([BMG09] prints ≤ in rule 3),
    /// and nothing is sent while either of the two is unset.
    fn introduce<M, T, E>(
        &self,
        level: usize,
        towards: Direction,
        rules: Rules,
        out: &mut Outbox<I, M, T, E>,
    ) where
        M: From<Message<I, S::Mark>>,
    {
        let next = level + 1;
        let pair = self.finger(level, towards);
        let pair = pair.zip(self.finger(level, towards.opposite()));
        let Some((to, subject)) = pair.filter(|_| self.has_level(next, rules.planted)) else {
            return;
        };
        // The two are equal, or one is this process, only in wrong tables: 2^next is no whole turn.
        if (to == subject || to == self.me) && !rules.planted.has(Bug::LevelBound) {
            return;
        }
        out.send(to, self.introduction(next, towards, subject));
    }

    /// An UP for the clockwise finger, a DN for the counterclockwise finger.
    fn introduction(&self, level: usize, towards: Direction, subject: I) -> Message<I, S::Mark> {
        let mark = self.expected(level - 1, towards.opposite());
        Message::introduction(level as u8, towards, subject, mark)
    }

    /// Whether the level exists: 2^level < N.
    fn has_level(&self, level: usize, planted: Planted) -> bool {
        if planted.has(Bug::LevelBound) {
            return level < MAX_LEVELS && 1 << level <= self.population.get();
        }
        self.population.has_level(level)
    }

    /// The mark that the right finger at this level and direction must have.
    fn expected(&self, level: usize, direction: Direction) -> S::Mark {
        let distance = distance(level, self.population);
        match direction {
            Direction::Clockwise => self.stamp.ahead(distance),
            Direction::Counterclockwise => self.stamp.behind(distance),
        }
    }

    fn judge(&self, level: usize, direction: Direction, mark: S::Mark) -> Proof {
        self.stamp.judge(mark, self.expected(level, direction))
    }

    fn finger(&self, level: usize, direction: Direction) -> Option<I> {
        let table = match direction {
            Direction::Clockwise => &self.clockwise,
            Direction::Counterclockwise => &self.counterclockwise,
        };
        table.get(level).copied().flatten()
    }

    fn put(&mut self, level: usize, direction: Direction, finger: Option<I>) -> Changed {
        let table = match direction {
            Direction::Clockwise => &mut self.clockwise,
            Direction::Counterclockwise => &mut self.counterclockwise,
        };
        let changed = table
            .get_mut(level)
            .map_or(Changed::NO, |entry| Changed::set(entry, finger));
        if changed.0 {
            self.set_confirmed(level, direction, false);
        }
        changed
    }

    fn set_confirmed(&mut self, level: usize, direction: Direction, value: bool) {
        let [clockwise, counterclockwise] = &mut self.confirmed;
        let bits = match direction {
            Direction::Clockwise => clockwise,
            Direction::Counterclockwise => counterclockwise,
        };
        let bit = 1_u32.checked_shl(level as u32).unwrap_or(0);
        *bits = if value { *bits | bit } else { *bits & !bit };
    }
}

/// The part of a table that the population has levels for, and any entries beyond it.
fn used<I>(table: &[Option<I>; MAX_LEVELS], population: Population) -> &[Option<I>] {
    let stray = table.iter().rposition(Option::is_some);
    let length = population.levels().max(stray.map_or(0, |last| last + 1));
    &table[..length.min(MAX_LEVELS)]
}
