//! One member in all its operations: callers, timers, and which members are there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use binomesh_overlay::Id;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::{Ctx, Gone};
use super::instance::Instance;
use super::lives::{Lives, Record};
use super::names::Names;
use super::outcome;
use super::tree::Tree;
use super::{
    Call, CallError, Collectives, Config, Effect, Input, Key, OperationRefusal, OperationState,
    Timer,
};

impl<I: Id + Serialize + DeserializeOwned> Collectives<I> {
    /// A machine for this life of `me`, with the record of the former lives.
    pub fn new(me: I, boot: u64, record: Record, config: Config) -> Self {
        Self {
            me,
            boot,
            config,
            lives: Lives::new(record),
            gone: Gone::default(),
            names: Names::new(),
            tree: Tree::new(Arc::default()),
            calls: BTreeMap::new(),
        }
    }

    /// Go on as another life of the same process, which remembers everything. Timers stay armed and
    /// callers go on waiting. Links end.
    pub fn begin_life(&mut self, boot: u64) {
        self.boot = boot;
        self.tree.forget_links();
    }

    /// The id of this member.
    pub const fn me(&self) -> I {
        self.me
    }

    /// Take part in no vote any more, in this life and later ones of this process.
    pub const fn stop_voting(&mut self) {
        self.lives.bar();
    }

    /// Whether this process takes part in no vote any more.
    pub const fn is_barred(&self) -> bool {
        self.lives.is_barred()
    }

    /// Send every message by the relay, where it is signed, and none by the quick way.
    pub const fn leave_quick_ways(&mut self) {
        self.config.takes_quick_ways = false;
    }

    /// The members that are called down or have left, as far as this member has heard.
    pub fn gone(&self) -> impl Iterator<Item = I> + '_ {
        self.gone.down.union(&self.gone.left).copied()
    }

    /// Handle one input. The effects go to `out`, in order.
    pub fn handle(&mut self, input: Input<I>, out: &mut Vec<Effect<I>>) {
        match input {
            Input::Start => self.on_start(out),
            Input::Call(call) => self.on_call(call, out),
            Input::Cancel(call) => self.withdraw(call, out),
            Input::Message { from, message } if from != self.me => {
                self.on_message(from, message, out);
            }
            Input::Message { .. } => {}
            Input::Frame(frame) => self.on_frame(frame, out),
            Input::View { view, members } => self.tree.set(view, members),
            Input::LinkUp(peer) => self.tree.link_up(peer),
            Input::LinkDown(peer) => self.tree.link_down(peer),
            Input::Members(members) => self.on_members(members, out),
            Input::Timer(timer) => self.on_timer(timer, out),
            Input::Down(member) => self.on_gone(member, false, out),
            Input::Left(member) => self.on_gone(member, true, out),
            Input::Up(member) => self.on_up(member, out),
        }
    }

    /// Run `work` on an operation that is kept; then answer its callers if they have everything
    /// that they wait for.
    pub(super) fn with(
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
        outcome::check_size(call, Config::MAX_OUTCOME_BYTES)?;
        self.names.make_room(call.value.len(), &self.config);
        let is_held = self.names.bytes() + call.value.len() > self.config.max_bytes;
        if self.calls.len() >= Config::MAX_CALLS || is_held {
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
            OperationRefusal::TooOld { floor } => CallError::TooOld(floor),
            OperationRefusal::Full => CallError::TooManyNames,
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
                let frames = self.tree.flush_all(&self.gone).into_iter();
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

    /// The deadline of a caller has come: the caller gets what this member knows by now.
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

    pub(super) fn on_up(&mut self, member: I, out: &mut Vec<Effect<I>>) {
        if !self.gone.remove(member) {
            return;
        }
        for key in self.names.undecided_with(member) {
            self.with(&key, out, |instance, ctx| instance.on_return(ctx, member));
        }
    }

    /// The operations that this member keeps. Each names the arrived members and the missing ones.
    pub fn operations(&self) -> impl Iterator<Item = OperationState<I>> + '_ {
        self.names.all().map(|instance| instance.state(&self.gone))
    }
}
