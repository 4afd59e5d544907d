//! A flat arena of ring and finger machines: a million processes in a few arrays, without threads,
//! sockets or clocks.
//!
//! The arena holds the states and runs the rules of one process at a time. A scheduler
//! ([`synchronous`], [`asynchronous`]) decides which process has its turn, and keeps the messages
//! in between.
//!
//! Not here, but in the world of whole peers: trees that change, losses and clocks.

pub mod arbitrary;
pub mod asynchronous;
pub mod clique;
pub mod convergence;
pub mod graph;
pub mod mailbox;
pub mod member;
pub mod repetition;
pub mod single_fault;
pub mod synchronous;
pub mod tree;

use binomesh_overlay::backoff::{Backoff, BackoffLimits};
use binomesh_overlay::fingers::{self, Fingers, Rules};
use binomesh_overlay::ring::{self, Ring};
use binomesh_overlay::stamp::Stamp;
use binomesh_overlay::{Changed, Effect, Outbox, Population, legitimate};
use member::Member;
use tree::Tree;

/// A message of the ring or of the fingers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Message<K> {
    /// A message of the ring.
    Ring(ring::Message<Member>),
    /// A message of the fingers.
    Finger(fingers::Message<Member, K>),
}

impl<K> From<ring::Message<Member>> for Message<K> {
    fn from(message: ring::Message<Member>) -> Self {
        Self::Ring(message)
    }
}

impl<K> From<fingers::Message<Member, K>> for Message<K> {
    fn from(message: fingers::Message<Member, K>) -> Self {
        Self::Finger(message)
    }
}

impl<K> Message<K> {
    /// Whether the message is an UP or DN of [BMG09] Alg. 2.
    pub const fn is_introduction(&self) -> bool {
        matches!(
            self,
            Self::Finger(fingers::Message::Up { .. } | fingers::Message::Down { .. })
        )
    }
}

impl<K> Message<K> {
    /// The slot that the message takes between two processes.
    pub const fn slot(&self) -> (bool, u8, u8) {
        match self {
            Self::Ring(message) => (true, message.slot(), 0),
            Self::Finger(message) => {
                let (kind, level) = message.slot();
                (false, kind, level)
            }
        }
    }
}

/// A message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Letter<K> {
    /// The process that gets the letter.
    pub to: Member,
    /// The process that sent the letter.
    pub from: Member,
    /// The content of the letter.
    pub message: Message<K>,
}

/// When a process applies its spontaneous rules again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetition {
    /// As [BMG09] §4 simulates: the ring's rules in every turn until both neighbours and the first
    /// fingers are known, the fingers' rules when the neighbours changed.
    UntilQuiet,
    /// The ring's rules until the process knows its successor, which these rules look for. A
    /// process with children applies rule 1 once.
    UntilSuccessor,
    /// By the machine's own back-off, one tick per turn. Every `visit_period` turns (0: never) the
    /// process asks the fingers of the next level whether they are right, so levels take turns.
    Backoff {
        /// The shortest and longest wait, in turns.
        limits: BackoffLimits,
        /// The turns between two visits, each to the next level; 0 for no visits.
        visit_period: u32,
    },
}

/// The counts of the messages that one process has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// The number of messages of all kinds.
    pub messages: u64,
    /// The number of UP and DN messages.
    pub introductions: u32,
}

/// The states of all processes, by index.
#[derive(Debug, Clone)]
pub struct Arena<S: Stamp> {
    tree: Tree,
    order: Vec<Member>,
    rings: Vec<Ring<Member>>,
    fingers: Vec<Fingers<Member, S>>,
    backoffs: Vec<Backoff>,
    turns: Vec<u32>,
    /// For each process, whether its ring changed since its fingers were told.
    is_stale: Vec<bool>,
    received: Vec<Received>,
    rules: Rules,
    repetition: Repetition,
    outbox: Outbox<Member, Message<S::Mark>>,
}

impl<S: Stamp> Arena<S> {
    /// A clean start on `tree`: each process knows only its family and N. `stamp` gives the stamp
    /// of the member at a rank.
    pub fn new(tree: Tree, rules: Rules, repetition: Repetition, stamp: impl Fn(u32) -> S) -> Self {
        let population = Population::new(tree.members() as u32).unwrap_or(Population::ONE);
        let processes = tree.processes();
        let all = || (0..processes).map(Member::at);
        Self {
            order: (0..tree.members()).map(Member::at).collect(),
            rings: vec![Ring::default(); processes],
            fingers: all()
                .map(|me| Fingers::new(me, population, stamp(me.index() as u32)))
                .collect(),
            backoffs: (0..processes).map(|i| Backoff::new(i as u16)).collect(),
            turns: vec![0; processes],
            is_stale: vec![false; processes],
            received: vec![Received::default(); processes],
            tree,
            rules,
            repetition,
            outbox: Outbox::new(),
        }
    }

    /// The tree of the start.
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The number of processes, strangers included.
    pub const fn processes(&self) -> usize {
        self.tree.processes()
    }

    /// The number of processes in the tree.
    pub const fn members(&self) -> usize {
        self.tree.members()
    }

    /// The turn of `me` without a message: apply its spontaneous rules that are due.
    pub fn apply_spontaneous(&mut self, me: Member, post: &mut Vec<Letter<S::Mark>>) {
        let i = me.index();
        let family = self.tree.around(me);
        let is_due = match self.repetition {
            Repetition::UntilQuiet => !self.is_quiet(me),
            Repetition::UntilSuccessor => {
                self.tree.members() > 1 && self.rings[i].successor.is_none()
            }
            Repetition::Backoff { limits, .. } => self.backoffs[i].tick(limits, self.rules.planted),
        };
        let mut changed = Changed::NO;
        if is_due {
            changed |= self.rings[i].apply_spontaneous(&family, &mut self.outbox);
        }
        // A stranger has no place in the ring yet, and hence no fingers.
        if i < self.tree.members() {
            changed |= self.apply_finger_rules(me, is_due, changed);
        }
        self.after(me, changed, post);
    }

    /// Let every member repeat [BMG09] Alg. 2, rule 1, whatever its timer says.
    pub fn repeat_introductions(&mut self, post: &mut Vec<Letter<S::Mark>>) {
        for me in (0..self.members()).map(Member::at) {
            self.fingers[me.index()].refresh(self.rules, &mut self.outbox);
            self.after(me, Changed::NO, post);
        }
    }

    /// The turn of the receiver of `letter`: handle it.
    pub fn deliver(&mut self, letter: Letter<S::Mark>, post: &mut Vec<Letter<S::Mark>>) {
        let Letter { to, from, message } = letter;
        let i = to.index();
        self.received[i].messages += 1;
        self.received[i].introductions += u32::from(message.is_introduction());
        let changed = match message {
            Message::Ring(message) => {
                let family = self.tree.around(to);
                let planted = self.rules.planted;
                let ring = &mut self.rings[i];
                let changed = ring.on_message(from, message, &family, planted, &mut self.outbox);
                self.is_stale[i] |= changed.0;
                changed
            }
            Message::Finger(message) if i < self.tree.members() => {
                self.fingers[i].on_message(from, message, self.rules, &mut self.outbox)
            }
            Message::Finger(_) => Changed::NO,
        };
        self.after(to, changed, post);
    }

    /// Whether the ring of [BMG09] definition 3.2 stands.
    pub fn is_ring(&self) -> bool {
        let ring = |member: Member| self.rings[member.index()];
        legitimate::is_ring(&self.order, |m| ring(m).successor, |m| ring(m).predecessor)
    }

    /// Whether the binomial graph of [BMG09] §3.4.1 stands.
    pub fn is_binomial_graph(&self) -> bool {
        legitimate::is_binomial_graph(
            &self.order,
            |m| self.fingers[m.index()].clockwise(),
            |m| self.fingers[m.index()].counterclockwise(),
        )
    }

    /// What each process has received, by index.
    pub fn received(&self) -> &[Received] {
        &self.received
    }

    /// Count received messages from zero again.
    pub fn forget_received(&mut self) {
        self.received.fill(Received::default());
    }

    /// Put any state into one process, as corruption of its memory may do.
    pub fn corrupt(
        &mut self,
        me: Member,
        ring: Ring<Member>,
        fingers: Fingers<Member, S>,
        backoff: Backoff,
    ) {
        self.rings[me.index()] = ring;
        self.fingers[me.index()] = fingers;
        self.backoffs[me.index()] = backoff;
    }

    /// Let `me` know N and its place as if the census had told it, without waking its rules.
    fn know(&mut self, me: Member, stamp: S) {
        let population = Population::new(self.members() as u32).unwrap_or(Population::ONE);
        let backoff = self.backoffs[me.index()];
        self.renumber(me, population, stamp);
        self.backoffs[me.index()] = backoff;
    }

    /// Let the census tell `me` its place.
    pub fn renumber(&mut self, me: Member, population: Population, stamp: S) {
        let changed = self.fingers[me.index()].renumber(population, stamp);
        self.after(me, changed, &mut Vec::new());
    }

    /// Apply finger rules of `me`: level 0 if the ring changed or the process is due. With the
    /// back-off also rule 1 if the process is due and level 0 did not change, and a visit if it is
    /// time.
    fn apply_finger_rules(&mut self, me: Member, is_due: bool, ring_changed: Changed) -> Changed {
        let i = me.index();
        let fingers = &mut self.fingers[i];
        let mut changed = Changed::NO;
        if self.is_stale[i] || ring_changed.0 || is_due {
            let Ring {
                successor,
                predecessor,
            } = self.rings[i];
            changed = fingers.set_ring(successor, predecessor, self.rules, &mut self.outbox);
            self.is_stale[i] = false;
        }
        if let Repetition::Backoff { visit_period, .. } = self.repetition {
            if is_due && !changed.0 {
                fingers.refresh(self.rules, &mut self.outbox);
            }
            self.turns[i] = self.turns[i].wrapping_add(1);
            let levels = fingers.population().levels() as u32;
            if visit_period > 0 && levels > 0 && self.turns[i].is_multiple_of(visit_period) {
                let level = self.turns[i] / visit_period % levels;
                fingers.confirm(level as usize, 0, &[], &mut self.outbox);
            }
        }
        changed
    }

    /// [BMG09] §4: a process is quiet once its ring neighbours and first fingers are set.
    fn is_quiet(&self, me: Member) -> bool {
        let i = me.index();
        let fingers = &self.fingers[i];
        let is_set = |table: &[Option<Member>]| table.first().is_none_or(Option::is_some);
        let is_alone = self.tree.members() == 1;
        is_alone
            || self.rings[i].is_complete()
                && is_set(fingers.clockwise())
                && is_set(fingers.counterclockwise())
    }

    fn after(&mut self, me: Member, changed: Changed, post: &mut Vec<Letter<S::Mark>>) {
        if let (true, Repetition::Backoff { limits, .. }) = (changed.0, self.repetition) {
            self.backoffs[me.index()].reset(limits);
        }
        for effect in self.outbox.drain() {
            if let Effect::Send { to, message } = effect {
                let from = me;
                post.push(Letter { to, from, message });
            }
        }
    }
}
