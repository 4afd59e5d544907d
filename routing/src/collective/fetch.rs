//! Long values: members ask for what they lack, and try again.

use std::time::Duration;

use binomesh_overlay::Id;
use bytes::Bytes;

use super::instance::Instance;
use super::message::{Item, Message};
use super::proposal::Value;
use super::{Ctx, Timer, storage};

/// How long until the first retry; it doubles.
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// How often it doubles while a caller waits, to four seconds, and if none does.
const DOUBLINGS: (u32, u32) = (4, 8);
/// The most pieces that are sent for one question.
const MAX_PIECES: usize = 256;

impl<I: Id> Instance<I> {
    /// Ask for what the callers here lack of the outcome.
    pub(super) fn fetch_needs(&mut self, ctx: &mut Ctx<'_, I>) {
        let Some(decided) = self.decided.clone() else {
            return;
        };
        for item in self.needs(&decided, ctx.gone) {
            self.want(ctx, item);
        }
    }

    /// Ask the next one who may have it.
    pub(super) fn want(&mut self, ctx: &mut Ctx<'_, I>, item: Item) {
        let Some((from, tries)) = self.storage.ask(item) else {
            return;
        };
        let Some(source) = self.source(ctx, item, tries) else {
            return;
        };
        let message = Message::Want {
            key: self.terms.key.clone(),
            digest: self.digest,
            item,
            from,
        };
        ctx.send(vec![source], message);
    }

    /// Whom to ask: whose value it is, then those that hold values for others.
    fn source(&self, ctx: &Ctx<'_, I>, item: Item, tries: u32) -> Option<I> {
        let owner = match item {
            Item::Whole(of) | Item::Part { of, .. } => Some(of),
            Item::Combined => None,
        };
        let others = self.terms.coordinators().filter(|p| Some(*p) != owner);
        let all = owner.into_iter().chain(others);
        let there = all.filter(|place| *place != self.me);
        let there = there.filter_map(|place| self.member(place));
        let there: Vec<I> = there.filter(|member| ctx.gone.is_there(*member)).collect();
        there.get(tries as usize % there.len().max(1)).copied()
    }

    pub(super) fn on_want(&mut self, ctx: &mut Ctx<'_, I>, place: u32, item: Item, from: u64) {
        let Some(to) = self.member(place) else {
            return;
        };
        let may_have = match item {
            Item::Part { to, .. } => to == place,
            Item::Whole(_) | Item::Combined => true,
        };
        if !may_have {
            return;
        }
        let Some(whole) = self.bytes_of(item) else {
            if item == Item::Combined {
                self.gather_to_combine(ctx);
            }
            return;
        };
        for (offset, bytes) in storage::pieces(&whole, from).take(MAX_PIECES) {
            let message = Message::Piece {
                key: self.terms.key.clone(),
                digest: self.digest,
                item,
                size: whole.len() as u64,
                offset,
                bytes,
            };
            ctx.send(vec![to], message);
        }
        if item == Item::Combined {
            self.storage.put(item, whole);
        }
    }

    /// Others wait for this member to combine all values.
    fn gather_to_combine(&mut self, ctx: &mut Ctx<'_, I>) {
        let Some(decided) = self.decided.clone() else {
            return;
        };
        for (member, _) in &decided.arrived {
            let item = Item::Whole(*member);
            if self.bytes_of(item).is_none() {
                self.want(ctx, item);
            }
        }
        self.arm_retry(ctx);
    }

    pub(super) fn on_piece(
        &mut self,
        ctx: &mut Ctx<'_, I>,
        item: Item,
        size: u64,
        (offset, bytes): (u64, Bytes),
    ) {
        if size > ctx.config.max_held_bytes as u64 {
            return;
        }
        let Some(whole) = self.storage.take(item, size, offset, bytes) else {
            return;
        };
        let Item::Whole(member) = item else {
            return self.storage.put(item, whole);
        };
        let decided = self.decided.as_ref().and_then(|all| all.value(member));
        let expected = decided.or_else(|| Some(&self.arrivals.get(&member)?.value));
        let found = Value::of(&whole, 0);
        match expected {
            Some(Value::Stored { .. }) if expected == Some(&found) => {
                self.storage.put(item, whole);
                self.on_held_here(ctx, member);
            }
            _ => self.storage.reject(item),
        }
    }

    /// What was not answered is asked again.
    pub(super) fn on_retry(&mut self, ctx: &mut Ctx<'_, I>) {
        self.retries = self.retries.saturating_add(1);
        self.holds_off = false;
        for item in self.storage.missing() {
            self.want(ctx, item);
        }
        if self.decided.is_some() {
            self.fetch_needs(ctx);
        } else if self.poll.is_some() {
            self.ask(ctx, None);
        } else {
            let coordinator = self.coordinator(ctx.gone);
            if coordinator == self.me {
                self.consider(ctx);
            } else if self.progress.contains(&self.me) {
                self.ask_outcome(ctx, coordinator);
            } else {
                self.arrive(ctx, true);
            }
        }
        self.arm_retry(ctx);
    }

    /// Set the retry timer, unless nothing is waited for.
    pub(super) fn arm_retry(&self, ctx: &mut Ctx<'_, I>) {
        let is_waiting = match self.decided {
            None => self.own.is_some() || self.poll.is_some() || self.holds_off,
            Some(_) => !self.calls.is_empty(),
        };
        if !is_waiting && self.storage.missing().is_empty() {
            return;
        }
        let most = match self.calls.is_empty() {
            false => DOUBLINGS.0,
            true => DOUBLINGS.1,
        };
        let after = FIRST_RETRY * (1 << self.retries.min(most));
        ctx.arm(Timer::Retry(self.serial), after);
    }
}
