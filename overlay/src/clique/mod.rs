//! A binomial graph without a deployment tree: [FC], for systems in which every node can
//! reach every other.
//!
//! ```text
//!   peers ──▶ one ring ──▶ N and ranks ──▶ fingers      corrected (`joining`, `ranking`)
//!   list  ──▶ one ring with ranks ──────▶ fingers      sorted
//!   peers ──▶ cycles, or stuck ──▶ doubled distances   as written (`paper`)
//! ```
//!
//! Unless the lists are known to differ, a node tries the order of its list first: it asks the next
//! node of the list whether their lists agree. If the lists differ, or no answer comes, the node
//! goes on with the corrected procedure. The fingers above level 0 are those of [BMG09] Algorithm
//! 2, except in the procedure as written.
//!
//! The result is the place where a node starts in the overlay: the member of rank r becomes a child
//! of the member whose rank is r without its lowest set bit. The overlay then counts its members
//! itself, so that a wrong rank here costs time, not correctness.
//!
//! Not here: which peers are in reach (the owner meets the peers first), and latecomers (any member
//! of the overlay admits them).

mod joining;
mod message;
mod paper;
mod peers;
mod ranking;
mod seam;

pub use message::{Body, Message};
pub use paper::Written;
pub use peers::Peers;
pub use seam::{Input, Outcome, Place, Procedure};

use std::collections::BTreeSet;

use crate::fingers::{Fingers, Rules};
use crate::id::Id;
use crate::noise::Noise;
use crate::outbox::{Effect, Outbox};
use crate::placement::Population;
use joining::{Joining, Step};
use ranking::Ranking;

/// One node of a fully connected system.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Clique<I> {
    me: I,
    procedure: Procedure,
    peers: Peers<I>,
    noise: Noise,
    /// 0 while the ring is made by the order of the list, 1 while it is made by exchanges.
    attempt: u32,
    joining: Joining<I>,
    ranking: Option<Ranking<I>>,
    /// Questions of list ranking that came before this node could answer: at most one per
    /// peer.
    early: Vec<EarlyQuestion<I>>,
    fingers: Fingers<I, ()>,
    written: Written<I>,
    is_over: bool,
}

/// A question of list ranking that came before this node could answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct EarlyQuestion<I> {
    from: I,
    attempt: u32,
    distance: u32,
    members: u32,
}

type Out<I> = Outbox<I, Body<I>>;

impl<I: Id> Clique<I> {
    /// A node that has met no peer. It keeps the questions that come before it starts. `seed`
    /// determines which nodes it asks.
    pub fn new(me: I, seed: u64) -> Self {
        Self {
            me,
            procedure: Procedure::Sorted,
            peers: Peers::new(me, []),
            noise: Noise::new(seed),
            attempt: 0,
            joining: Joining::new(me),
            ranking: None,
            early: Vec::new(),
            fingers: Fingers::new(me, Population::ONE, ()),
            written: Written::new(me),
            is_over: false,
        }
    }

    /// Handle one input of the machine.
    pub fn handle<M, T, E>(
        &mut self,
        input: Input<'_, I>,
        out: &mut Outbox<I, M, T, E>,
    ) -> Outcome<I>
    where
        M: From<Message<I>>,
    {
        let mut inner = Out::new();
        let outcome = match input {
            Input::Start { procedure, peers } => {
                self.procedure = procedure;
                self.peers = peers.clone();
                self.start(&mut inner)
            }
            Input::Message { from, message } => self.on_message(from, message, &mut inner),
            Input::Silence => self.on_silence(&mut inner),
            Input::GiveUp => self.fail(&mut inner),
            Input::Double => {
                self.written.double(&mut inner);
                Outcome::Progress
            }
        };
        for effect in inner.drain() {
            if let Effect::Send { to, message: body } = effect {
                let attempt = body.attempt().unwrap_or(self.attempt);
                out.send(to, Message { attempt, body });
            }
        }
        outcome
    }

    /// How many questions wait until this node can answer them.
    pub fn waiting_count(&self) -> usize {
        self.early.len() + self.joining.offered_successors().count()
    }

    /// The neighbour clockwise; none while it is being exchanged.
    pub fn successor(&self) -> Option<I> {
        match (&self.ranking, self.procedure) {
            (_, Procedure::AsWritten) => self.written.clockwise().first().copied(),
            (Some(ranking), _) => Some(ranking.successor()),
            (None, _) => self.joining.successor(),
        }
    }

    /// The successors of nodes that asked for an exchange and wait for the answer.
    pub fn offered_successors(&self) -> impl Iterator<Item = I> + '_ {
        self.joining.offered_successors()
    }

    /// The neighbour counterclockwise, once known.
    pub fn predecessor(&self) -> Option<I> {
        match self.procedure {
            Procedure::AsWritten => self.written.counterclockwise().first().copied(),
            _ => self.ranking.as_ref().and_then(Ranking::predecessor),
        }
    }

    /// The rank and the number of members, once both are known.
    pub fn numbers(&self) -> Option<(u32, u32)> {
        let ranking = self.ranking.as_ref()?;
        Some((ranking.rank()?, ranking.members()))
    }

    /// The fingers of [BMG09] Algorithm 2.
    pub const fn fingers(&self) -> &Fingers<I, ()> {
        &self.fingers
    }

    /// The lists of the procedure as written.
    pub const fn written(&self) -> &Written<I> {
        &self.written
    }

    fn start(&mut self, out: &mut Out<I>) -> Outcome<I> {
        match self.procedure {
            Procedure::Sorted if self.ranking.is_none() => self.start_sorted(out),
            Procedure::Sorted => Outcome::Nothing,
            Procedure::Corrected => {
                self.attempt = 1;
                self.start_joining(out)
            }
            Procedure::AsWritten => {
                self.attempt = 1;
                self.written.request(&self.peers, &mut self.noise, out);
                Outcome::Progress
            }
        }
    }

    fn start_joining(&mut self, out: &mut Out<I>) -> Outcome<I> {
        let step = self.joining.start(&self.peers, &mut self.noise, out);
        self.after(step, out)
    }

    /// The order of the list is the ring, so the ranks are known from the start.
    fn start_sorted(&mut self, out: &mut Out<I>) -> Outcome<I> {
        let members = self.peers.count() as u32;
        let around = self.peers.neighbours_of(self.me);
        let population = around.zip(Population::new(members));
        let Some((around, population)) = population else {
            return self.fail(out);
        };
        let ranking = Ranking::sorted(self.me, around, members, out);
        self.rank(ranking, population, out)
    }

    fn on_message(&mut self, from: I, message: Message<I>, out: &mut Out<I>) -> Outcome<I> {
        if from == self.me {
            return Outcome::Nothing;
        }
        let is_written = self.procedure == Procedure::AsWritten;
        let is_current = message.attempt == self.attempt;
        let has_failed = self.is_over && self.ranking.is_none();
        match message.body {
            Body::Exchange { .. } if self.is_over => {
                out.send(from, Body::Closed);
                Outcome::Nothing
            }
            Body::Exchange { successor } => self.on_exchange(from, successor, out),
            Body::Ahead { .. } if has_failed => {
                out.send(from, Body::Closed);
                Outcome::Nothing
            }
            Body::Ahead { .. } if message.attempt < self.attempt => {
                out.send(from, Body::Unsorted);
                Outcome::Nothing
            }
            Body::Ahead { distance, members } => {
                let question = EarlyQuestion {
                    from,
                    attempt: message.attempt,
                    distance,
                    members,
                };
                self.on_ahead(question, out)
            }
            Body::Unsorted if self.is_sorting() => self.on_silence(out),
            // A `Closed` counts in every attempt.
            Body::Closed => self.on_closed(from, out),
            body if body.is_written() && is_written => {
                self.on_written(from, body, out);
                Outcome::Progress
            }
            body if is_current && !body.is_written() => self.on_current(from, body, out),
            _ => Outcome::Nothing,
        }
    }

    /// Whether the node makes the ring by the order of the list.
    const fn is_sorting(&self) -> bool {
        self.attempt == 0 && self.ranking.is_some() && !self.is_over
    }

    /// `from` asks for an exchange: it has given up the order of the list, and so does this node.
    fn on_exchange(&mut self, from: I, successor: I, out: &mut Out<I>) -> Outcome<I> {
        let fallback = match self.is_sorting() {
            true => self.on_silence(out),
            false => Outcome::Nothing,
        };
        let step = self.joining.on_exchange(from, successor, out);
        match self.after(step, out) {
            Outcome::Nothing => fallback,
            outcome => outcome,
        }
    }

    /// A message of the present attempt that `on_message` does not handle itself.
    fn on_current(&mut self, from: I, body: Body<I>, out: &mut Out<I>) -> Outcome<I> {
        let expected = self.peers.count();
        let step = match body {
            Body::Exchanged { successor, root } => {
                self.joining.on_exchanged(from, successor, root, out)
            }
            Body::Joined { nodes } => self.joining.on_joined(from, nodes, expected, out),
            Body::Complete { members } => self.joining.on_complete(from, members, out),
            Body::AheadIs { peer, distance } => return self.on_ahead_is(from, peer, distance, out),
            Body::Differs => return self.on_no_answer(from, out),
            Body::Finger(message) => {
                let changed = self
                    .fingers
                    .on_message(from, message, Rules::default(), out);
                return self.formed_if(changed.0);
            }
            // `Listed` is for the owner, and `on_message` handles the others.
            _ => Step::Nothing,
        };
        self.after(step, out)
    }

    fn on_written(&mut self, from: I, body: Body<I>, out: &mut Out<I>) {
        match body {
            Body::Request => self.written.on_request(from, out),
            Body::Current(current) => {
                let (peers, noise) = (&self.peers, &mut self.noise);
                self.written.on_current(from, current, peers, noise, out);
            }
            Body::CurrentClockwise(peer) => self.written.on_neighbour(true, peer, out),
            Body::CurrentCounterclockwise(peer) => self.written.on_neighbour(false, peer, out),
            _ => {}
        }
    }

    fn on_ahead(&mut self, question: EarlyQuestion<I>, out: &mut Out<I>) -> Outcome<I> {
        let EarlyQuestion {
            from,
            attempt,
            distance,
            members,
        } = question;
        let ranking = self.ranking.as_mut().filter(|_| attempt == self.attempt);
        let Some(ranking) = ranking else {
            self.early.retain(|earlier| earlier.from != from);
            if !self.is_over && self.early.len() < Peers::<I>::MAX {
                self.early.push(question);
            }
            return Outcome::Nothing;
        };
        let before = ranking.predecessor();
        if !ranking.on_ahead(from, distance, members, out) {
            return Outcome::Nothing;
        }
        match ranking.predecessor() == before {
            true => Outcome::Nothing,
            false => self.set_ring(out),
        }
    }

    fn on_ahead_is(&mut self, from: I, peer: I, distance: u32, out: &mut Out<I>) -> Outcome<I> {
        let ranking = self.ranking.as_mut();
        match ranking.is_some_and(|ranking| ranking.on_ahead_is(from, peer, distance, out)) {
            true => self.set_ring(out),
            false => Outcome::Nothing,
        }
    }

    /// `from` has its place, or will have none in this ring.
    fn on_closed(&mut self, from: I, out: &mut Out<I>) -> Outcome<I> {
        match self.joining.is_waiting_for(from) && !self.is_over {
            true => self.fail(out),
            false => self.on_no_answer(from, out),
        }
    }

    /// No answer that helps will come from `from`.
    fn on_no_answer(&mut self, from: I, out: &mut Out<I>) -> Outcome<I> {
        let ranking = self.ranking.as_ref();
        match ranking.is_some_and(|ranking| ranking.awaits(from)) {
            true => self.on_silence(out),
            false => Outcome::Nothing,
        }
    }

    /// The answer that the node waits for does not come.
    fn on_silence(&mut self, out: &mut Out<I>) -> Outcome<I> {
        if self.is_over {
            return Outcome::Nothing;
        }
        if self.is_sorting() {
            self.tell_unsorted(out);
            self.attempt = 1;
            self.ranking = None;
            self.fingers = Fingers::new(self.me, Population::ONE, ());
            return self.start_joining(out);
        }
        // The root goes on with the nodes that have joined; any other node fails.
        match self.joining.close(out) {
            Step::Complete => self.after(Step::Complete, out),
            _ => self.fail(out),
        }
    }

    /// Tell ring neighbours and fingers that this node gives up the order of the list. So the nodes
    /// that wait for its answer need not wait until a silence shows it.
    fn tell_unsorted(&self, out: &mut Out<I>) {
        let ranking = self.ranking.iter();
        let ring = ranking.flat_map(|one| one.predecessor().into_iter().chain([one.successor()]));
        let tables = [self.fingers.clockwise(), self.fingers.counterclockwise()];
        let fingers = tables.into_iter().flatten().copied().flatten();
        let near: BTreeSet<I> = ring.chain(fingers).collect();
        for peer in near.into_iter().filter(|peer| *peer != self.me) {
            out.send(peer, Body::Unsorted);
        }
    }

    fn after(&mut self, step: Step, out: &mut Out<I>) -> Outcome<I> {
        match step {
            Step::Nothing => Outcome::Nothing,
            Step::Progress => Outcome::Progress,
            Step::Complete => {
                let members = self.joining.members().and_then(Population::new);
                let all = members.zip(self.joining.successor().zip(self.joining.root()));
                let Some((population, (successor, root))) = all else {
                    return self.fail(out);
                };
                let members = population.get();
                let ranking = Ranking::new(self.me, successor, root, members, out);
                self.rank(ranking, population, out)
            }
        }
    }

    /// The ring is final: find the rank and the fingers, and answer the questions that came early.
    fn rank(
        &mut self,
        ranking: Ranking<I>,
        population: Population,
        out: &mut Out<I>,
    ) -> Outcome<I> {
        self.ranking = Some(ranking);
        let _ = self.fingers.renumber(population, ());
        for question in std::mem::take(&mut self.early) {
            let _ = self.on_ahead(question, out);
        }
        self.set_ring(out)
    }

    /// Level 0 of the fingers is the ring once both neighbours have spoken. Every node that is
    /// introduced from then on knows N, so no introduction is lost.
    fn set_ring(&mut self, out: &mut Out<I>) -> Outcome<I> {
        if let Some((predecessor, successor)) = self.ranking.as_ref().and_then(Ranking::ring) {
            let (ahead, behind) = (Some(successor), Some(predecessor));
            let _ = self.fingers.set_ring(ahead, behind, Rules::default(), out);
        }
        self.formed_if(true)
    }

    fn formed_if(&mut self, has_changed: bool) -> Outcome<I> {
        let numbers = self.numbers().filter(|_| has_changed && !self.is_over);
        let Some((rank, members)) = numbers.filter(|_| self.fingers.is_complete()) else {
            return match has_changed {
                true => Outcome::Progress,
                false => Outcome::Nothing,
            };
        };
        self.is_over = true;
        let slot = rank.trailing_zeros();
        let parent = self.fingers.counterclockwise().get(slot as usize);
        Outcome::Formed(Place {
            rank,
            members,
            parent: parent.copied().flatten().filter(|_| rank > 0),
            slot: slot as u8,
        })
    }

    /// This node gets no place in this ring, and the nodes that wait for it are told. The outcome
    /// names the node that it asked, through which it can find a place. The questions form a tree,
    /// so no two nodes wait for each other, and the root has asked no node.
    fn fail(&mut self, out: &mut Out<I>) -> Outcome<I> {
        if self.is_over {
            return Outcome::Nothing;
        }
        self.is_over = true;
        self.ranking = None;
        self.joining.turn_away(out);
        for question in std::mem::take(&mut self.early) {
            out.send(question.from, Body::Closed);
        }
        Outcome::Failed(self.joining.asked())
    }
}
