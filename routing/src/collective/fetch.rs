//! Fetching long values: a member asks for each value that it lacks, and asks again.

use std::time::Duration;

use binomesh_overlay::Id;
use serde::Serialize;

use super::context::Ctx;
use super::instance::{HOLDERS, Instance};
use super::message::{Item, Message};
use super::proposal::Value;
use super::storage::{Piece, Taken};
use super::{Config, Timer, storage};

/// How long until the first retry. The time doubles with each further retry, up to a bound.
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// How often the time until a retry doubles: to four seconds while a caller here waits, and to 64
/// seconds while none does.
const DOUBLINGS: (u32, u32) = (4, 8);
/// For this many tries only the members that should hold a value are asked; afterwards all members
/// in turn.
const PATIENT_TRIES: u32 = 8;
/// The most pieces that answer one question.
const MAX_PIECES: usize = 256;

impl<I: Id + Serialize> Instance<I> {
    /// Ask for each value of the outcome that the callers here still lack, unless it was asked for
    /// before.
    pub(super) fn fetch_needs(&mut self, ctx: &mut Ctx<'_, I>) {
        let Some(decided) = self.decided.clone() else {
            return;
        };
        for item in self.needs(&decided, ctx.gone) {
            if !self.storage.is_asked(item) {
                self.want(ctx, item);
            }
        }
    }

    /// Ask the next member that may have this value.
    pub(super) fn want(&mut self, ctx: &mut Ctx<'_, I>, item: Item) {
        let Some((from, tries)) = self.storage.ask(item) else {
            return;
        };
        let Some(source) = self.source(ctx, item, tries) else {
            return;
        };
        self.storage.ask_at(item, source);
        self.ask_for(ctx, source, item, from);
    }

    /// Ask the member at a place for a value, from a byte on.
    fn ask_for(&self, ctx: &mut Ctx<'_, I>, source: u32, item: Item, from: u64) {
        let Some(member) = self.member(source) else {
            return;
        };
        let message = Message::Want {
            key: self.terms.key.clone(),
            digest: self.digest,
            item,
            from,
        };
        ctx.send(vec![member], message);
    }

    /// The place of the member to ask: in turn the owner of the value, and a member that may hold
    /// it for others.
    fn source(&self, ctx: &Ctx<'_, I>, item: Item, tries: u32) -> Option<u32> {
        let owner = match item {
            Item::Whole(of) | Item::Part { of, .. } => Some(of),
            Item::Combined => None,
        };
        let is_there = |place: &u32| {
            let member = self.member(*place);
            *place != self.me && member.is_some_and(|member| !ctx.gone.has(member))
        };
        let owner = owner.filter(is_there);
        let others = self.terms.coordinators().filter(|p| Some(*p) != owner);
        let mut others: Vec<u32> = others.filter(is_there).collect();
        if tries < PATIENT_TRIES {
            others.truncate(HOLDERS - 1);
        }
        let turn = match owner {
            Some(_) => tries / 2,
            None => tries,
        };
        let other = others.get(turn as usize % others.len().max(1)).copied();
        match tries % 2 {
            0 => owner.or(other),
            _ => other.or(owner),
        }
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

    /// Other members wait until this one has combined all values: fetch those that it lacks.
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

    pub(super) fn on_piece(&mut self, ctx: &mut Ctx<'_, I>, place: u32, item: Item, piece: Piece) {
        let size = piece.size;
        if size > Config::MAX_HELD_BYTES as u64 {
            return;
        }
        if self
            .expected_size(item)
            .is_some_and(|expected| expected != size)
        {
            return;
        }
        let taken = self.storage.take(place, item, piece);
        if self.retries > 0 {
            // A holder answers, so the next retry comes early again.
            self.retries = 0;
            self.arm_retry(ctx);
        }
        let whole = match taken {
            Taken::Whole(whole) => whole,
            Taken::Nothing => return,
            Taken::Restart => return self.ask_for(ctx, place, item, 0),
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

    /// The length of a whole value, as the arrival or the outcome has it.
    fn expected_size(&self, item: Item) -> Option<u64> {
        let Item::Whole(member) = item else {
            return None;
        };
        let decided = self.decided.as_ref().and_then(|all| all.value(member));
        let expected = decided.or_else(|| Some(&self.arrivals.get(&member)?.value));
        expected.map(Value::size)
    }

    /// The retry timer fired: repeat every question that has no answer yet, and the arrival while
    /// the coordinator has not confirmed it.
    pub(super) fn on_retry(&mut self, ctx: &mut Ctx<'_, I>) {
        self.retries = self.retries.saturating_add(1);
        self.holds_off = false;
        self.answer_own(ctx);
        for item in self.storage.missing() {
            // A value whose pieces still come is not asked for again.
            if !self.storage.has_grown(item) {
                self.want(ctx, item);
            }
        }
        if self.decided.is_some() {
            self.fetch_needs(ctx);
        } else if self.poll.is_some() {
            self.ask(ctx, None);
        } else {
            let coordinator = self.coordinator(ctx.gone);
            if coordinator == self.me {
                // The members that shall hold this member's long value may not have heard of it.
                self.arrive(ctx, true);
                self.consider(ctx);
                return self.arm_retry(ctx);
            }
            self.tell_what_is_held(ctx);
            if self.progress.contains(&self.me) {
                self.ask_outcome(ctx, coordinator);
            } else {
                self.arrive(ctx, true);
            }
        }
        self.arm_retry(ctx);
    }

    /// Arm the retry timer, unless no answer is missing.
    pub(super) fn arm_retry(&self, ctx: &mut Ctx<'_, I>) {
        let is_waiting = match self.decided {
            None => {
                let is_busy = self.poll.is_some() || self.holds_off;
                self.own.is_some() || is_busy || self.storage.bytes() > 0
            }
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
