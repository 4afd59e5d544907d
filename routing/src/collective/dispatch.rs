//! Incoming messages: to which operation each belongs, and whether this member heeds it.

use std::sync::Arc;

use binomesh_overlay::Id;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Ctx;
use super::instance::Instance;
use super::tree::{self, Frame, Step};
use super::{
    CallError, Collectives, Digest, Effect, Input, Key, Message, OperationRefusal, Terms, Timer,
    Value, lives, terms,
};

/// The arrival of a member, as its message says.
struct ArrivalReport {
    key: Key,
    digest: Digest,
    /// The milliseconds from call to deadline at that member; 0 if the time of a caller at any
    /// member is nearly over.
    left: u64,
    value: Value,
}

impl<I: Id + Serialize + DeserializeOwned> Collectives<I> {
    /// A frame has come. Letters to this member are handled; letters to another member are passed
    /// on towards it. A message down is handled and passed on. Without quick ways every frame is
    /// dropped.
    pub(super) fn on_frame(&mut self, frame: Frame<I>, out: &mut Vec<Effect<I>>) {
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
                    match self.tree.up(to, letter, &self.gone) {
                        Step::Waits { is_first: false } => {}
                        Step::Waits { .. } => out.push(Effect::Arm {
                            timer: Timer::Flush,
                            after: Timer::HOLD,
                        }),
                        Step::Frames(frames) => {
                            let frames = frames.into_iter();
                            out.extend(frames.map(|(to, frame)| Effect::Frame { to, frame }));
                        }
                        // The letter is dropped here, as if it were lost. If it is a question, its
                        // sender gets no answer and asks again; if it is an answer, the member that
                        // waits for it asks again. Repeated messages go by the relay too.
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

    pub(super) fn on_message(&mut self, from: I, message: Message<I>, out: &mut Vec<Effect<I>>) {
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
            } => {
                let arrival = ArrivalReport {
                    key,
                    digest,
                    left: time,
                    value,
                };
                self.on_arrive(from, arrival, terms, out);
            }
            other => self.on_known_message(from, other, out),
        }
    }

    /// A message about an operation that must be known here already.
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
            // The sender has told a former life of this member that it has come, and this life does
            // not know the operation. Ask for the terms, so that the sender says again that it has
            // come.
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
        arrival: ArrivalReport,
        terms: Option<Terms<I>>,
        out: &mut Vec<Effect<I>>,
    ) {
        let ArrivalReport {
            key,
            digest,
            left,
            value,
        } = arrival;
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
        let reason = OperationRefusal::TooOld { floor };
        out.push(Effect::Send {
            to: vec![to],
            message: Message::Refused { key, reason },
        });
    }

    /// Handle a message that brings the terms of its operation. An unknown operation is opened.
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

    /// The coordinator says that others have called the same operation with other terms.
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

    /// The coordinator says that it takes no part.
    fn on_refused(
        &mut self,
        from: I,
        key: &Key,
        reason: OperationRefusal,
        out: &mut Vec<Effect<I>>,
    ) {
        let Some(instance) = self.names.get(key) else {
            return;
        };
        let coordinator = instance.member(instance.coordinator(&self.gone));
        if coordinator != Some(from) || instance.decided.is_some() {
            return;
        }
        let error = match reason {
            OperationRefusal::TooOld { floor } => CallError::TooOld(floor),
            OperationRefusal::Full => CallError::TooManyNames,
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
}
