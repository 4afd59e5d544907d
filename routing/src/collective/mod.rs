//! Collective operations among listed members, with an outcome that is decided: barrier,
//! agree, gather, scatter, reduce and all-to-all.
//!
//! ```text
//!   callers ──arrive──▶ who coordinates ──propose──▶ members ──vote──▶ decided
//!                           (who has come with what,              │
//!                            who is missing and why)              ▼
//!   callers ◀─────────────────── outcome ◀───── values fetched, if they are long
//! ```
//!
//! A majority of all listed members votes for each outcome, so no two members ever report
//! different ones as agreed ([`voting`], [`lives`]). Members are named by identity, not by
//! rank: a new epoch changes nothing here.
//!
//! Not here: how messages travel (the relay carries them by name), clocks, user functions.
//! A store of keys and values for rendezvous would be another machine beside this one, on
//! [`voting`] and [`lives`]: its operations are decided one by one in the same way.

mod arrive;
mod ballots;
mod fetch;
mod instance;
pub mod lives;
mod message;
mod names;
mod outcome;
mod proposal;
mod reduce;
mod storage;
mod terms;
mod tree;
pub mod voting;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::Id;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::relay::View;
use instance::Instance;
use lives::{Lives, Record};
pub use message::{Item, Lives as LivesAmong, Message, Refusal};
use names::Names;
pub use outcome::{CallError, Outcome, Waiting};
pub use proposal::{Class, End, Hash as ValueHash, Proposal, Value};
pub use reduce::{Number, Op, Operator, ReduceError, UnknownOp};
pub use storage::join_parts;
pub use terms::{Digest, InvalidName, InvalidTerms, Key, Name, OnLoss, PIECE_BYTES, Terms, Verb};
pub use tree::{Frame, Letter};
use tree::{Step, Tree};

/// The bounds of what a member keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Config {
    /// How many names are kept. Full: operations of further names are refused, here and at
    /// those who wanted this member to coordinate.
    pub max_names: usize,
    /// How many of them one peer may have brought up. Full: as above.
    pub max_names_per_peer: usize,
    /// How many operations of a name are kept, from the latest on. Full: the oldest for
    /// which no caller waits here is forgotten, and all before it.
    pub max_generations: usize,
    /// How many callers wait here. Full: [`CallError::Busy`].
    pub max_calls: usize,
    /// How many bytes operations hold. Full: operations that no caller waits for are
    /// forgotten, oldest first; if none is left, [`CallError::Busy`].
    pub max_bytes: usize,
    /// How many bytes the long values of one operation have, for who holds them. What is
    /// beyond is not fetched, and its member is missing as lost.
    pub max_held_bytes: usize,
    /// Whether short messages go from neighbour to neighbour first, unsigned and in the
    /// names of others, see [`Frame`].
    pub takes_quick_ways: bool,
    /// The largest outcome; who calls for a larger one gets [`CallError::TooLarge`].
    pub max_outcome_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_names: 1024,
            max_names_per_peer: 256,
            max_generations: 16,
            max_calls: 1024,
            max_bytes: 512 << 20,
            max_held_bytes: 256 << 20,
            takes_quick_ways: true,
            max_outcome_bytes: 64 << 20,
        }
    }
}

/// A timer of the machine; arming an equal one replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The time of a caller here is over.
    Deadline(u64),
    /// The time of a member that has come is nearly over.
    Close {
        /// Of which operation.
        serial: u64,
        /// The place of the member.
        member: u32,
    },
    /// Missing answers about the operation with this serial are asked for again.
    Retry(u64),
    /// Members that have come to the operation with this serial are told who has.
    Progress(u64),
    /// What waits on its way through this member goes on.
    Flush,
}

impl Timer {
    const FIRST_PROGRESS: Duration = Duration::from_secs(1);
    /// A guess: well below what callers notice, and longer than messages of members that
    /// call together are apart.
    const HOLD: Duration = Duration::from_millis(2);
    const NEXT_PROGRESS: Duration = Duration::from_secs(5);
}

/// A caller of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Call<I> {
    /// By which the outcome is told; unique in this life.
    pub id: u64,
    /// The operation.
    pub terms: Terms<I>,
    /// What this member comes with.
    pub value: Bytes,
    /// When the outcome is wanted at the latest.
    pub time: Duration,
}

/// What the machine is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// A life begins. What an earlier one in the same process knew is known.
    Start,
    /// This life ends: callers hear what is known by now.
    Conclude,
    /// A caller here.
    Call(Call<I>),
    /// The caller with this number waits no more. Its member has come all the same.
    Cancel(u64),
    /// A message from another member.
    Message {
        /// Who sent it.
        from: I,
        /// What it says.
        message: Message<I>,
    },
    /// A frame from a neighbour in the graph.
    Frame(Frame<I>),
    /// Who is in the epoch. Who is listed and not among these is waited for, and does not
    /// coordinate: it may never have been started.
    Members(Arc<BTreeSet<I>>),
    /// This member's tables are these, and the names of its epoch's members if all are
    /// known.
    View {
        /// The tables.
        view: View<I>,
        /// By rank.
        members: Arc<Vec<Option<I>>>,
    },
    /// An armed timer fired.
    Timer(Timer),
    /// A member is called down.
    Down(I),
    /// A member has said goodbye.
    Left(I),
    /// A member is there after all, or again.
    Up(I),
}

/// What the machine asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect<I> {
    /// Send `message` to these members, by name.
    Send {
        /// To whom; at least one, never this member itself.
        to: Vec<I>,
        /// What.
        message: Message<I>,
    },
    /// Send `frame` to a neighbour in the graph, if it is linked.
    Frame {
        /// To whom.
        to: I,
        /// What.
        frame: Frame<I>,
    },
    /// Fire `timer` once, `after` from now.
    Arm {
        /// Which.
        timer: Timer,
        /// How long from now.
        after: Duration,
    },
    /// Forget `timer`.
    Disarm(Timer),
    /// Record, before anything that is asked for after it, that this life takes part in the
    /// vote about this operation: a later life needs it as [`Record::Kept`].
    Record(Key),
    /// Tell a caller.
    Answer {
        /// Which caller.
        call: u64,
        /// The outcome, or why there is none.
        outcome: Result<Box<Outcome<I>>, CallError>,
    },
}

/// Who is called down or has left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Gone<I> {
    down: BTreeSet<I>,
    left: BTreeSet<I>,
    /// The members of the epoch, if all are known.
    members: Arc<BTreeSet<I>>,
}

impl<I: Id> Gone<I> {
    fn has(&self, member: I) -> bool {
        self.down.contains(&member) || self.left.contains(&member)
    }

    /// Whether it is no member of the epoch: it cannot be sent anything. It may still come.
    fn is_absent(&self, member: I) -> bool {
        !self.members.is_empty() && !self.members.contains(&member)
    }

    /// Whether nothing can be asked of it now.
    fn is_away(&self, member: I) -> bool {
        self.has(member) || self.is_absent(member)
    }

    fn has_left(&self, member: I) -> bool {
        self.left.contains(&member)
    }

    /// Whether that was news. More peers than rosters hold are not remembered.
    fn add(&mut self, member: I, has_left: bool) -> bool {
        let set = match has_left {
            true => &mut self.left,
            false => &mut self.down,
        };
        set.len() < Terms::<I>::MAX_MEMBERS && set.insert(member)
    }

    fn remove(&mut self, member: I) -> bool {
        let was_down = self.down.remove(&member);
        self.left.remove(&member) || was_down
    }
}

/// What an operation needs of its member.
struct Ctx<'a, I> {
    me: I,
    boot: u64,
    config: &'a Config,
    gone: &'a Gone<I>,
    lives: &'a mut Lives<I>,
    tree: &'a mut Tree<I>,
    out: &'a mut Vec<Effect<I>>,
}

impl<I: Id + Serialize> Ctx<'_, I> {
    fn send(&mut self, to: Vec<I>, message: Message<I>) {
        if !to.is_empty() {
            self.out.push(Effect::Send { to, message });
        }
    }

    /// Send a short message for the first time, by the quick way if there is one.
    fn send_up(&mut self, to: I, message: Message<I>) {
        if !self.config.takes_quick_ways || self.gone.has(to) {
            return self.send(vec![to], message);
        }
        let letter = Letter::new(self.me, &message);
        match letter.map(|letter| self.tree.up(to, letter)) {
            Some(Step::Frames(frames)) => self.frames(frames),
            Some(Step::Waits { is_first: true }) => self.arm(Timer::Flush, Timer::HOLD),
            Some(Step::Waits { .. }) => {}
            Some(Step::NoWay) | None => self.send(vec![to], message),
        }
    }

    /// The same to all other members of an operation.
    fn send_down(&mut self, members: &[I], to: Vec<I>, message: Message<I>) {
        let is_quick = self.config.takes_quick_ways
            && to.len() + 1 == members.len()
            && self.tree.is_all(members);
        let body = is_quick.then(|| tree::body_of(&message)).flatten();
        let frames = body.and_then(|body| self.tree.down(self.me, &body));
        match frames {
            Some(frames) => self.frames(frames),
            None => self.send(to, message),
        }
    }

    fn frames(&mut self, frames: Vec<(I, Frame<I>)>) {
        let frames = frames.into_iter();
        self.out
            .extend(frames.map(|(to, frame)| Effect::Frame { to, frame }));
    }

    fn arm(&mut self, timer: Timer, after: Duration) {
        self.out.push(Effect::Arm { timer, after });
    }

    fn disarm(&mut self, timer: Timer) {
        self.out.push(Effect::Disarm(timer));
    }
}

/// One member's part in all collective operations: a pure machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collectives<I> {
    me: I,
    boot: u64,
    config: Config,
    lives: Lives<I>,
    gone: Gone<I>,
    names: Names<I>,
    tree: Tree<I>,
    /// Callers that wait, and for what.
    calls: BTreeMap<u64, Key>,
}

impl<I: Id + Serialize + DeserializeOwned> Collectives<I> {
    /// In a life of `me`, with what is recorded of former ones.
    pub fn new(me: I, boot: u64, record: Record, config: Config) -> Self {
        Self {
            me,
            boot,
            config,
            lives: Lives::new(record),
            gone: Gone {
                down: BTreeSet::new(),
                left: BTreeSet::new(),
                members: Arc::default(),
            },
            names: Names::new(),
            tree: Tree::new(Arc::default()),
            calls: BTreeMap::new(),
        }
    }

    /// Go on as another life of the same process, which remembers everything.
    pub const fn begin_life(&mut self, boot: u64) {
        self.boot = boot;
    }

    /// This member.
    pub const fn me(&self) -> I {
        self.me
    }

    /// Take part in no vote any more in this life.
    pub const fn stop_voting(&mut self) {
        self.lives.bar();
    }

    /// Whether it takes part in no vote any more in this life.
    pub const fn is_barred(&self) -> bool {
        self.lives.is_barred()
    }

    /// Send everything by the relay, which has it signed.
    pub const fn leave_quick_ways(&mut self) {
        self.config.takes_quick_ways = false;
    }

    /// Who is called down or has left, as far as it was told here.
    pub fn gone(&self) -> impl Iterator<Item = I> + '_ {
        self.gone.down.union(&self.gone.left).copied()
    }

    /// Handle one input; what is to be done goes to `out`, in order.
    pub fn handle(&mut self, input: Input<I>, out: &mut Vec<Effect<I>>) {
        match input {
            Input::Start => self.on_start(out),
            Input::Conclude => {
                for call in self.calls.keys().copied().collect::<Vec<u64>>() {
                    out.push(Effect::Disarm(Timer::Deadline(call)));
                    self.on_deadline(call, out);
                }
            }
            Input::Call(call) => self.on_call(call, out),
            Input::Cancel(call) => self.withdraw(call, out),
            Input::Message { from, message } if from != self.me => {
                self.on_message(from, message, out);
            }
            Input::Message { .. } => {}
            Input::Frame(frame) => self.on_frame(frame, out),
            Input::View { view, members } => self.tree.set(view, members),
            Input::Members(members) => self.on_members(members, out),
            Input::Timer(timer) => self.on_timer(timer, out),
            Input::Down(member) => self.on_gone(member, false, out),
            Input::Left(member) => self.on_gone(member, true, out),
            Input::Up(member) => self.on_up(member, out),
        }
    }

    /// Do something with an operation that is kept, and answer its callers if they have
    /// what they wait for.
    fn with(
        &mut self,
        key: &Key,
        out: &mut Vec<Effect<I>>,
        work: impl FnOnce(&mut Instance<I>, &mut Ctx<'_, I>),
    ) {
        let Some(instance) = self.names.get_mut(key) else {
            return;
        };
        let mut ctx = Ctx {
            me: self.me,
            boot: self.boot,
            config: &self.config,
            gone: &self.gone,
            lives: &mut self.lives,
            tree: &mut self.tree,
            out,
        };
        work(instance, &mut ctx);
        if let Some(outcome) = instance.outcome(&self.gone) {
            for call in std::mem::take(&mut instance.calls) {
                self.calls.remove(&call);
                out.push(Effect::Disarm(Timer::Deadline(call)));
                let outcome = Ok(Box::new(outcome.clone()));
                out.push(Effect::Answer { call, outcome });
            }
        }
        self.names.recount(key);
        self.names.forget_beyond(&self.config, Some(key));
    }

    fn on_call(&mut self, call: Call<I>, out: &mut Vec<Effect<I>>) {
        let key = call.terms.key.clone();
        match self.admit(&call) {
            Err(error) => {
                let outcome = Err(error);
                out.push(Effect::Answer {
                    call: call.id,
                    outcome,
                });
            }
            Ok(()) => {
                self.calls.insert(call.id, key.clone());
                out.push(Effect::Arm {
                    timer: Timer::Deadline(call.id),
                    after: call.time,
                });
                self.with(&key, out, |instance, ctx| {
                    instance.calls.push(call.id);
                    instance.on_call(ctx, call.value, call.time);
                });
            }
        }
    }

    fn admit(&mut self, call: &Call<I>) -> Result<(), CallError> {
        call.terms.check().map_err(CallError::Terms)?;
        let Some(me) = call.terms.place(self.me) else {
            return Err(CallError::NotAMember);
        };
        outcome::check_size(call, self.config.max_outcome_bytes)?;
        self.names.make_room(call.value.len(), &self.config);
        let is_held = self.names.bytes() + call.value.len() > self.config.max_bytes;
        if self.calls.len() >= self.config.max_calls || is_held {
            return Err(CallError::Busy);
        }
        if let Some(known) = self.names.get(&call.terms.key) {
            return match known.terms.difference(&call.terms) {
                None => Ok(()),
                Some(what) => Err(CallError::Differs(what)),
            };
        }
        let terms = Arc::new(call.terms.clone());
        let opened = self.names.open(self.me, terms, me, &self.config);
        opened.map_err(|refusal| match refusal {
            Refusal::TooOld { floor } => CallError::TooOld(floor),
            Refusal::Full => CallError::TooManyNames,
        })
    }

    fn withdraw(&mut self, call: u64, out: &mut Vec<Effect<I>>) {
        let Some(key) = self.calls.remove(&call) else {
            return;
        };
        out.push(Effect::Disarm(Timer::Deadline(call)));
        self.with(&key, out, |instance, _| {
            instance.calls.retain(|other| *other != call);
        });
    }

    fn on_start(&mut self, out: &mut Vec<Effect<I>>) {
        for key in self.names.undecided() {
            self.with(&key, out, |instance, ctx| instance.on_start(ctx));
        }
    }

    fn on_timer(&mut self, timer: Timer, out: &mut Vec<Effect<I>>) {
        let serial = match timer {
            Timer::Deadline(call) => return self.on_deadline(call, out),
            Timer::Flush => {
                let frames = self.tree.flush_all().into_iter();
                return out.extend(frames.map(|(to, frame)| Effect::Frame { to, frame }));
            }
            Timer::Close { serial, .. } | Timer::Retry(serial) | Timer::Progress(serial) => serial,
        };
        let Some(key) = self.names.key_of(serial).cloned() else {
            return;
        };
        self.with(&key, out, |instance, ctx| match timer {
            Timer::Close { .. } => instance.on_close(ctx),
            Timer::Retry(_) => instance.on_retry(ctx),
            Timer::Progress(_) | Timer::Deadline(_) | Timer::Flush => instance.tell_progress(ctx),
        });
    }

    /// The caller hears what this member knows by now.
    fn on_deadline(&mut self, call: u64, out: &mut Vec<Effect<I>>) {
        let Some(key) = self.calls.remove(&call) else {
            return;
        };
        if let Some(instance) = self.names.get_mut(&key) {
            instance.calls.retain(|other| *other != call);
            let outcome = Ok(Box::new(instance.own_view(&self.gone)));
            out.push(Effect::Answer { call, outcome });
        }
    }

    fn on_members(&mut self, members: Arc<BTreeSet<I>>, out: &mut Vec<Effect<I>>) {
        if self.gone.members == members {
            return;
        }
        self.gone.members = members;
        for key in self.names.undecided() {
            self.with(&key, out, |instance, ctx| instance.on_members(ctx));
        }
    }

    fn on_gone(&mut self, member: I, has_left: bool, out: &mut Vec<Effect<I>>) {
        if !self.gone.add(member, has_left) {
            return;
        }
        for key in self.names.undecided_with(member) {
            self.with(&key, out, |instance, ctx| instance.on_loss(ctx));
        }
    }

    fn on_up(&mut self, member: I, out: &mut Vec<Effect<I>>) {
        if !self.gone.remove(member) {
            return;
        }
        for key in self.names.undecided_with(member) {
            self.with(&key, out, |instance, ctx| instance.on_return(ctx, member));
        }
    }

    /// A frame has come: what is for this member is handled, the rest goes on.
    fn on_frame(&mut self, frame: Frame<I>, out: &mut Vec<Effect<I>>) {
        if !self.config.takes_quick_ways {
            return;
        }
        match frame {
            Frame::Up { to, letters } if to == self.me => {
                for letter in letters {
                    let message = tree::message_of(&letter.body);
                    if let Some(message) = message.filter(Message::goes_up) {
                        let from = letter.from;
                        self.handle(Input::Message { from, message }, out);
                    }
                }
            }
            Frame::Up { to, letters } => {
                for letter in letters {
                    match self.tree.up(to, letter) {
                        Step::Waits { is_first: false } => {}
                        Step::Waits { .. } => out.push(Effect::Arm {
                            timer: Timer::Flush,
                            after: Timer::HOLD,
                        }),
                        Step::Frames(frames) => {
                            let frames = frames.into_iter();
                            out.extend(frames.map(|(to, frame)| Effect::Frame { to, frame }));
                        }
                        // Its sender asks again.
                        Step::NoWay => {}
                    }
                }
            }
            Frame::Down {
                epoch,
                origin,
                rank,
                end,
                body,
            } => {
                let passed = self.tree.pass_down(&epoch, (origin, rank), end, &body);
                let Some(frames) = passed else { return };
                let frames = frames.into_iter();
                out.extend(frames.map(|(to, frame)| Effect::Frame { to, frame }));
                let message = tree::message_of(&body);
                if let Some(message) = message.filter(Message::goes_down) {
                    let from = origin;
                    self.handle(Input::Message { from, message }, out);
                }
            }
        }
    }

    fn on_message(&mut self, from: I, message: Message<I>, out: &mut Vec<Effect<I>>) {
        match message {
            Message::Introduce { boot, members } => self.on_introduce(from, boot, &members, out),
            Message::Known {
                boot,
                list,
                is_sure,
                touched,
            } if boot == self.boot => {
                self.lives.on_known(from, &list, is_sure, touched);
            }
            Message::Known { .. } => {}
            Message::AskTerms { key } => {
                self.with(&key, out, |instance, ctx| instance.on_ask_terms(ctx, from));
            }
            Message::Differs { terms } => self.on_differs(from, &terms, out),
            Message::Refused { key, reason } => self.on_refused(from, &key, reason, out),
            Message::Prepare { terms, ballot } => {
                self.about(from, terms, out, |instance, ctx, place| {
                    instance.on_prepare(ctx, place, ballot);
                });
            }
            Message::Propose {
                terms,
                ballot,
                proposal,
            } => self.about(from, terms, out, |instance, ctx, place| {
                instance.on_propose(ctx, place, ballot, &proposal);
            }),
            Message::Outcome { terms, proposal } => {
                self.about(from, terms, out, |instance, ctx, _| {
                    instance.on_outcome(ctx, proposal);
                });
            }
            Message::Arrive {
                key,
                digest,
                time,
                value,
                terms,
                ..
            } => self.on_arrive(from, (key, digest), (time, value), terms, out),
            other => self.on_known_message(from, other, out),
        }
    }

    /// What concerns an operation that has to be known here.
    fn on_known_message(&mut self, from: I, message: Message<I>, out: &mut Vec<Effect<I>>) {
        let Some((key, digest)) = message.subject() else {
            return;
        };
        let (key, digest) = (key.clone(), *digest);
        let is_question = matches!(message, Message::Ask { .. });
        if is_question
            && self.names.get(&key).is_none()
            && self.names.floor(&key.name) < Some(key.generation)
        {
            // Its sender has come, and this member has forgotten it with a former life.
            let message = Message::AskTerms { key };
            return out.push(Effect::Send {
                to: vec![from],
                message,
            });
        }
        if is_question && Some(key.generation) <= self.names.floor(&key.name) {
            return self.refuse_old(from, key, out);
        }
        self.with(&key, out, |instance, ctx| {
            let place = instance.terms.place(from);
            let (Some(place), true) = (place, instance.digest == digest) else {
                return;
            };
            instance.on_message(ctx, place, message);
        });
    }

    fn on_arrive(
        &mut self,
        from: I,
        (key, digest): (Key, Digest),
        (left, value): (u64, Value),
        terms: Option<Terms<I>>,
        out: &mut Vec<Effect<I>>,
    ) {
        if let Some(terms) = terms
            && self.names.get(&key).is_none()
        {
            self.about(from, terms, out, |_, _, _| {});
        }
        if self.names.get(&key).is_none()
            && let Some(terms) = self.names.next_terms(&key, &digest)
        {
            self.about(from, terms, out, |_, _, _| {});
        }
        let Some(instance) = self.names.get(&key) else {
            if Some(key.generation) <= self.names.floor(&key.name) {
                return self.refuse_old(from, key, out);
            }
            out.push(Effect::Send {
                to: vec![from],
                message: Message::AskTerms { key },
            });
            return;
        };
        if instance.digest != digest {
            let message = Message::Differs {
                terms: instance.terms.as_ref().clone(),
            };
            let to = vec![from];
            return out.push(Effect::Send { to, message });
        }
        self.with(&key, out, |instance, ctx| {
            if let Some(place) = instance.terms.place(from) {
                instance.on_arrive(ctx, place, left, value);
            }
        });
    }

    fn refuse_old(&self, to: I, key: Key, out: &mut Vec<Effect<I>>) {
        let Some(floor) = self.names.floor(&key.name) else {
            return;
        };
        let reason = Refusal::TooOld { floor };
        out.push(Effect::Send {
            to: vec![to],
            message: Message::Refused { key, reason },
        });
    }

    /// A message that brings the terms of its operation with it.
    fn about(
        &mut self,
        from: I,
        terms: Terms<I>,
        out: &mut Vec<Effect<I>>,
        work: impl FnOnce(&mut Instance<I>, &mut Ctx<'_, I>, u32),
    ) {
        let (Some(me), Some(place)) = (terms.place(self.me), terms.place(from)) else {
            return;
        };
        let key = terms.key.clone();
        match self.names.get(&key) {
            Some(known) if *known.terms != terms => return,
            Some(_) => {}
            None => {
                if terms.check().is_err() {
                    return;
                }
                let opened = self.names.open(from, Arc::new(terms), me, &self.config);
                if let Err(reason) = opened {
                    return out.push(Effect::Send {
                        to: vec![from],
                        message: Message::Refused { key, reason },
                    });
                }
            }
        }
        self.with(&key, out, |instance, ctx| work(instance, ctx, place));
    }

    fn on_introduce(&mut self, from: I, boot: u64, members: &[I], out: &mut Vec<Effect<I>>) {
        let is_member = members.len() <= Terms::<I>::MAX_MEMBERS
            && members.contains(&self.me)
            && members.contains(&from);
        if !is_member || !self.lives.meet(from, boot) {
            return;
        }
        let list = terms::list_digest(members);
        let touched = self.names.touched_with(from).chain(self.names.floors());
        let touched = touched.chain(self.lives.floors());
        let message = Message::Known {
            boot,
            list,
            is_sure: self.lives.is_sure(&list, members.len()),
            touched: lives::greatest(touched),
        };
        let to = vec![from];
        out.push(Effect::Send { to, message });
    }

    /// Others have called the same operation otherwise.
    fn on_differs(&mut self, from: I, terms: &Terms<I>, out: &mut Vec<Effect<I>>) {
        let Some(instance) = self.names.get(&terms.key) else {
            return;
        };
        let coordinator = instance.member(instance.coordinator(&self.gone));
        let is_of = coordinator == Some(from) && instance.decided.is_none();
        let what = instance.terms.difference(terms);
        if let (true, Some(what)) = (is_of, what) {
            self.fail(&terms.key, &CallError::Differs(what), out);
            self.names.close_if_untouched(&terms.key);
        }
    }

    /// Who coordinates takes no part.
    fn on_refused(&mut self, from: I, key: &Key, reason: Refusal, out: &mut Vec<Effect<I>>) {
        let Some(instance) = self.names.get(key) else {
            return;
        };
        let coordinator = instance.member(instance.coordinator(&self.gone));
        if coordinator != Some(from) || instance.decided.is_some() {
            return;
        }
        let error = match reason {
            Refusal::TooOld { floor } => CallError::TooOld(floor),
            Refusal::Full => CallError::TooManyNames,
        };
        self.fail(key, &error, out);
    }

    fn fail(&mut self, key: &Key, error: &CallError, out: &mut Vec<Effect<I>>) {
        let Some(instance) = self.names.get_mut(key) else {
            return;
        };
        for call in std::mem::take(&mut instance.calls) {
            self.calls.remove(&call);
            out.push(Effect::Disarm(Timer::Deadline(call)));
            let outcome = Err(error.clone());
            out.push(Effect::Answer { call, outcome });
        }
    }

    /// The operations that callers here wait for or others have told of, undecided ones
    /// first: who has come, and who has not.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting<I>> + '_ {
        self.names
            .all()
            .map(|instance| instance.waiting(&self.gone))
    }
}
