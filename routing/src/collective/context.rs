//! The context of an operation: the services of the member that it runs in.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::Id;
use serde::Serialize;

use super::lives::Lives;
use super::tree::{self, Frame, Letter, Step, Tree};
use super::{Config, Effect, Message, Terms, Timer};

/// The members that are called down or have left, and the members of the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Gone<I> {
    pub(super) down: BTreeSet<I>,
    pub(super) left: BTreeSet<I>,
    /// The members of the epoch, if all are known; else empty.
    pub(super) members: Arc<BTreeSet<I>>,
}

impl<I> Default for Gone<I> {
    fn default() -> Self {
        Self {
            down: BTreeSet::new(),
            left: BTreeSet::new(),
            members: Arc::default(),
        }
    }
}

impl<I: Id> Gone<I> {
    pub(super) fn has(&self, member: I) -> bool {
        self.down.contains(&member) || self.left.contains(&member)
    }

    /// Whether the epoch is without this member: no message can be sent to it, but it may still
    /// come.
    pub(super) fn is_absent(&self, member: I) -> bool {
        !self.members.is_empty() && !self.members.contains(&member)
    }

    /// Whether the member cannot be asked anything now: it is down, has left or is not in the
    /// epoch.
    pub(super) fn is_away(&self, member: I) -> bool {
        self.has(member) || self.is_absent(member)
    }

    pub(super) fn has_left(&self, member: I) -> bool {
        self.left.contains(&member)
    }

    /// Note that a member is down or has left; returns whether that was new. Of each kind at most
    /// [`Terms::MAX_MEMBERS`] members are remembered; a further one does not count as new.
    pub(super) fn add(&mut self, member: I, has_left: bool) -> bool {
        let set = match has_left {
            true => &mut self.left,
            false => &mut self.down,
        };
        set.len() < Terms::<I>::MAX_MEMBERS && set.insert(member)
    }

    pub(super) fn remove(&mut self, member: I) -> bool {
        let was_down = self.down.remove(&member);
        self.left.remove(&member) || was_down
    }
}

/// The most bytes that the letters of one message have together at their sender. A letter is a
/// message on its way to one member over the links of the graph ([`tree`]).
const LETTERS_BYTES: usize = 64 << 10;

/// The context that a member gives to one of its operations.
pub(super) struct Ctx<'a, I> {
    pub(super) me: I,
    pub(super) boot: u64,
    pub(super) config: &'a Config,
    pub(super) gone: &'a Gone<I>,
    pub(super) lives: &'a mut Lives<I>,
    pub(super) tree: &'a mut Tree<I>,
    pub(super) out: &'a mut Vec<Effect<I>>,
}

impl<I: Id + Serialize> Ctx<'_, I> {
    pub(super) fn send(&mut self, to: Vec<I>, message: Message<I>) {
        if !to.is_empty() {
            self.out.push(Effect::Send { to, message });
        }
    }

    /// Send a short message for the first time: by the quick way, over the links of the graph, if
    /// there is one, else by the relay.
    pub(super) fn send_up(&mut self, to: I, message: Message<I>) {
        let letter = Letter::new(self.me, &message);
        if !letter.is_some_and(|letter| self.send_letter(to, letter)) {
            self.send(vec![to], message);
        }
    }

    /// Send a short message again, by the relay and by the quick way. The quick way may lose it
    /// again, and the relay accepts nothing while the window of this node's own messages is full.
    pub(super) fn send_again(&mut self, to: Vec<I>, message: Message<I>) {
        self.send_letters(&to, &message);
        self.send(to, message);
    }

    /// Send a letter to each of these members, unless the letters have more than `LETTERS_BYTES`
    /// together. Returns whether all were sent.
    fn send_letters(&mut self, to: &[I], message: &Message<I>) -> bool {
        let letter = Letter::new(self.me, message).map(Letter::at_once);
        let Some(letter) = letter.filter(|one| one.body.len() * to.len() <= LETTERS_BYTES) else {
            return false;
        };
        let mut went = true;
        for member in to {
            went &= self.send_letter(*member, letter.clone());
        }
        went
    }

    fn send_letter(&mut self, to: I, letter: Letter<I>) -> bool {
        if !self.config.takes_quick_ways || self.gone.has(to) {
            return false;
        }
        match self.tree.up(to, letter, self.gone) {
            Step::Frames(frames) => self.frames(frames),
            Step::Waits { is_first: true } => self.arm(Timer::Flush, Timer::HOLD),
            Step::Waits { .. } => {}
            Step::NoWay => return false,
        }
        true
    }

    /// Send a message to the members `to` of an operation. If these are all its other members, and
    /// all other members of the epoch too, the message goes down the tree if possible.
    pub(super) fn send_down(&mut self, members: &[I], to: Vec<I>, message: Message<I>) {
        let is_quick = self.config.takes_quick_ways
            && to.len() + 1 == members.len()
            && self.tree.is_all(members);
        let body = is_quick.then(|| tree::body_of(&message)).flatten();
        let frames = body.and_then(|body| self.tree.down(self.me, &body));
        match frames {
            Some(frames) => self.frames(frames),
            // A frame down the tree reaches exactly the members of the epoch, and has a limited
            // size. If it cannot be used, each member gets a letter of its own. If not all letters
            // can be sent, the relay takes the message to each member.
            None if self.send_letters(&to, &message) => {}
            None => self.send(to, message),
        }
    }

    pub(super) fn frames(&mut self, frames: Vec<(I, Frame<I>)>) {
        let frames = frames.into_iter();
        self.out
            .extend(frames.map(|(to, frame)| Effect::Frame { to, frame }));
    }

    pub(super) fn arm(&mut self, timer: Timer, after: Duration) {
        self.out.push(Effect::Arm { timer, after });
    }

    pub(super) fn disarm(&mut self, timer: Timer) {
        self.out.push(Effect::Disarm(timer));
    }
}
