//! Arrivals: a member that has come reports to the coordinator, and the coordinator tells the
//! members which others have come.

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh_overlay::Id;
use bytes::Bytes;
use serde::Serialize;

use super::Timer;
use super::context::Ctx;
use super::instance::{Arrival, Instance};
use super::message::{Item, Message};
use super::proposal::Value;

/// With at most this many listed members, each `Arrive` carries the terms. With more, a receiver
/// that knows neither the terms nor those of an earlier generation asks for them. A guess: 16
/// members take a quarter of a kilobyte. A larger number makes each arrival longer; a smaller one
/// costs a question and an answer per operation.
const SHORT_LIST: usize = 16;

/// How many holders of one long value this member remembers: more than are asked to hold it.
const HELD_MAX: usize = 16;

/// The longest time before the earliest deadline that is reserved for the vote.
const MARGIN_MAX: Duration = Duration::from_secs(1);

/// How long before a caller's deadline the members that have not come are given up, so that the
/// others have decided by then: a tenth of the time that the caller gave, but at most
/// [`MARGIN_MAX`].
fn margin(time: Duration) -> Duration {
    (time / 10).min(MARGIN_MAX)
}

impl<I: Id + Serialize> Instance<I> {
    /// A caller at this node, the first or a further one, joins the operation.
    pub(super) fn on_call(&mut self, ctx: &mut Ctx<'_, I>, value: Bytes, time: Duration) {
        if self.own.is_none() {
            let told = Value::of(&value, self.terms.inline_max());
            self.own = Some((value, told));
        }
        if self.decided.is_some() {
            self.fetch_needs(ctx);
            return self.arm_retry(ctx);
        }
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let is_sooner = self.own_time > millis;
        self.own_time = match self.own_time {
            0 => millis,
            before => before.min(millis),
        };
        if is_sooner && self.arrivals.contains_key(&self.me) {
            self.arm_close(ctx, self.me, time);
        }
        self.retries = 0;
        self.arm_retry(ctx);
        self.arrive(ctx, false);
    }

    /// Tell the coordinator, and the members that shall hold a long value, that this member has
    /// come; with `again`, also those that were told before. After many retries further members are
    /// told, too.
    pub(super) fn arrive(&mut self, ctx: &mut Ctx<'_, I>, again: bool) {
        let Some((_, value)) = self.own.clone() else {
            return;
        };
        if self.decided.is_some() {
            return;
        }
        let coordinator = Some(self.coordinator(ctx.gone));
        if self.last_coordinator.is_some() && self.last_coordinator != coordinator {
            // The progress that another coordinator reported does not count any more.
            self.progress.clear();
        }
        self.last_coordinator = coordinator;
        if again {
            self.informed.clear();
        }
        let mut listeners = self.listeners(&value, ctx.gone);
        // Perhaps no member takes itself for the coordinator. After every third retry one more
        // member is told: it may know that those before it in the list are down.
        let further = self.others(ctx.gone).map(|(place, _)| place);
        listeners.extend(further.take(self.retries as usize / 3));
        self.is_told_late |= !self.informed.is_empty() || again;
        let new: BTreeSet<u32> = listeners.difference(&self.informed).copied().collect();
        self.informed.extend(&new);
        let new: Vec<I> = new
            .into_iter()
            .filter(|place| *place != self.me)
            .filter_map(|place| self.member(place))
            .collect();
        self.note_arrival(ctx, self.me, value.clone(), self.own_time);
        let has_terms = self.members() <= SHORT_LIST;
        let message = self.arrival(ctx, value, has_terms);
        match (&new[..], again) {
            ([coordinator], false) => ctx.send_up(*coordinator, message),
            _ => ctx.send_again(new, message),
        }
        self.consider(ctx);
    }

    fn arrival(&self, ctx: &Ctx<'_, I>, value: Value, has_terms: bool) -> Message<I> {
        Message::Arrive {
            key: self.terms.key.clone(),
            digest: self.digest,
            boot: ctx.boot,
            time: match self.is_closed {
                true => 0,
                false => self.own_time,
            },
            value,
            terms: has_terms.then(|| self.terms.as_ref().clone()),
        }
    }

    /// A member asks for the terms of the operation for which this member said that it has come.
    pub(super) fn on_ask_terms(&self, ctx: &mut Ctx<'_, I>, from: I) {
        if let Some((_, value)) = self.own.clone() {
            let message = self.arrival(ctx, value, true);
            ctx.send(vec![from], message);
        }
    }

    /// A member says that it has come. Its first value stands, for all its lives.
    pub(super) fn on_arrive(&mut self, ctx: &mut Ctx<'_, I>, place: u32, left: u64, value: Value) {
        if self.decided.is_some() {
            return self.tell_outcome(ctx, place);
        }
        let is_held = match &value {
            Value::Inline(bytes) if bytes.len() > self.terms.inline_max() => return,
            Value::Inline(_) => true,
            Value::Stored { size, .. } => self.may_hold(place, *size),
        };
        self.note_arrival(ctx, place, value, left);
        if left == 0 {
            self.is_closed = true;
        }
        if is_held {
            self.hold(ctx, place);
        }
        self.consider(ctx);
    }

    fn note_arrival(&mut self, ctx: &mut Ctx<'_, I>, place: u32, value: Value, left: u64) {
        if self.arrivals.contains_key(&place) {
            return;
        }
        if self.arrivals.is_empty() {
            ctx.arm(Timer::Progress(self.serial), Timer::FIRST_PROGRESS);
        }
        let (time, holders) = (Duration::from_millis(left), BTreeSet::from([place]));
        let arrival = Arrival {
            value,
            time,
            holders,
        };
        self.arrivals.insert(place, arrival);
        self.count_holders(place);
        self.arm_close(ctx, place, time);
    }

    fn arm_close(&self, ctx: &mut Ctx<'_, I>, member: u32, time: Duration) {
        let timer = Timer::Close {
            serial: self.serial,
            member,
        };
        ctx.arm(timer, time.saturating_sub(margin(time)));
    }

    /// A life begins in this process: ask again soon for the answers that are missing. The other
    /// timers stay armed.
    pub(super) fn on_start(&mut self, ctx: &mut Ctx<'_, I>) {
        self.retries = 0;
        self.arm_retry(ctx);
    }

    /// Fetch the long value of a member that has come, to be one of its holders. If the value is
    /// here already, say so to the coordinator.
    pub(super) fn hold(&mut self, ctx: &mut Ctx<'_, I>, place: u32) {
        let arrival = self.arrivals.get(&place);
        let is_long = arrival.is_some_and(|a| matches!(a.value, Value::Stored { .. }));
        if !is_long || place == self.me {
            return;
        }
        if self.storage.has(Item::Whole(place)) {
            return self.on_held_here(ctx, place);
        }
        self.want(ctx, Item::Whole(place));
        self.arm_retry(ctx);
    }

    /// The long value of a member is complete here.
    pub(super) fn on_held_here(&mut self, ctx: &mut Ctx<'_, I>, member: u32) {
        let coordinator = self.coordinator(ctx.gone);
        let Some(arrival) = self.arrivals.get_mut(&member) else {
            return;
        };
        arrival.holders.insert(self.me);
        let Value::Stored { hash, .. } = arrival.value else {
            return;
        };
        if coordinator == self.me {
            return self.consider(ctx);
        }
        let message = Message::Held {
            key: self.terms.key.clone(),
            digest: self.digest,
            member,
            hash,
        };
        ctx.send(self.member(coordinator).into_iter().collect(), message);
    }

    /// Another member says that it holds a long value.
    pub(super) fn on_held(
        &mut self,
        ctx: &mut Ctx<'_, I>,
        place: u32,
        member: u32,
        held: super::proposal::Hash,
    ) {
        let known = self.held.range((member, 0)..=(member, u32::MAX)).count();
        if member as usize >= self.members() || known >= HELD_MAX {
            return;
        }
        self.held.insert((member, place), held);
        self.count_holders(member);
        self.consider(ctx);
    }

    /// Count the holders of a member's long value. Their messages may come before the arrival of
    /// that member.
    fn count_holders(&mut self, member: u32) {
        let Some(arrival) = self.arrivals.get_mut(&member) else {
            return;
        };
        let Value::Stored { hash, .. } = arrival.value else {
            return;
        };
        let told = self.held.range((member, 0)..=(member, u32::MAX));
        let same = told.filter(|(_, held)| **held == hash);
        arrival.holders.extend(same.map(|((_, place), _)| *place));
    }

    /// The time that a caller of some arrived member gave is nearly over: propose without the
    /// members that have not come.
    pub(super) fn on_close(&mut self, ctx: &mut Ctx<'_, I>) {
        self.is_closed = true;
        if self.is_told_late && self.decided.is_none() {
            // A new coordinator may have started the clock at a later message of this member, so
            // tell it that the time is nearly over.
            self.arrive(ctx, true);
        }
        self.consider(ctx);
    }

    /// If this member is the coordinator, tell the members that have come which members have come.
    pub(super) fn tell_progress(&mut self, ctx: &mut Ctx<'_, I>) {
        if self.decided.is_some() {
            return;
        }
        ctx.arm(Timer::Progress(self.serial), Timer::NEXT_PROGRESS);
        if self.coordinator(ctx.gone) != self.me {
            return;
        }
        let mut rows: Vec<(u32, u32)> = Vec::new();
        let counting = self.arrivals.iter();
        let counting = counting.filter(|(_, arrival)| self.counts(arrival, ctx.gone));
        for (place, _) in counting {
            match rows.last_mut() {
                Some((_, last)) if *last + 1 == *place => *last = *place,
                _ => rows.push((*place, *place)),
            }
        }
        let others = self.others(ctx.gone);
        let arrived = others.filter(|(place, _)| self.arrivals.contains_key(place));
        let to: Vec<I> = arrived.map(|(_, member)| member).collect();
        let message = Message::Progress {
            key: self.terms.key.clone(),
            digest: self.digest,
            arrived: rows,
        };
        ctx.send(to, message);
    }

    /// The coordinator tells which members have come so far.
    pub(super) fn on_progress(&mut self, ctx: &mut Ctx<'_, I>, arrived: &[(u32, u32)]) {
        let members = self.members() as u32;
        let is_sound = arrived.is_sorted_by(|one, next| one.1 < next.0)
            && arrived
                .iter()
                .all(|(first, last)| first <= last && *last < members);
        if !is_sound {
            return;
        }
        let rows = arrived.iter();
        self.progress = rows.flat_map(|(first, last)| *first..=*last).collect();
        if !self.progress.contains(&self.me) {
            self.arrive(ctx, true);
        }
    }
}
