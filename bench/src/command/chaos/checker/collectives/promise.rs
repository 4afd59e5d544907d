//! The members that may be missing, and the members that must hear of an agreed outcome.
//!
//! An operation *closes* when the time of any of its callers is nearly over: a tenth of this time
//! before its end, at most a second before.
//!
//! *Not missing.* A member is there if three things hold from [`SETTLED`] before the first call
//! until the first caller was told of the agreed outcome. The member ran in one life. No
//! disturbance concerned it or all members. No process was told that the member is down or has
//! left. Such a member is missing neither as dead nor as left.
//!
//! Such a member is not missing at all if two more things hold. It called [`NOTICED`] before the
//! operation closed or its outcome was told; with long values, earlier by the time of a decision.
//! From then until the outcome was told the graph was exact, without a disturbance. An exception is
//! an operation that ends early because of others: aborted, too few, no root.
//!
//! *Agreed.* Let there be no disturbance and an exact graph from [`NOTICED`] before the earliest
//! deadline until the last one. Let a majority of the listed members have run from the first call
//! on, each in one process, since members with former processes may not vote again. Then each
//! member of this majority hears of an agreed outcome, if a decision fits in between its call and
//! its own deadline. A decision begins when the operation closes, or when all have come, if all
//! were there as above. With long values all members must have run, as members that are gone may
//! have held them.
//!
//! If relays have little room, long values may not get through in time. Then an operation with long
//! values may miss any member as late or lost, and need not be agreed. In such a world the graph
//! does not count as exact while a relay refuses messages because an earlier one is open. In no
//! world does the graph count as exact while most ranks are vacant, which a liar can bring about.

use std::time::Duration;

use binomesh::world::Id;
use binomesh_routing::collective::voting::majority;
use binomesh_routing::collective::{Class, End};

use super::{Breach, Collectives, Concerned, Operation, is_long};

/// How long after a fault a reachable member may still be called down. A guess, the same as for
/// receipts.
const SETTLED: Duration = Duration::from_secs(30);
/// The time until a loss is noticed, four seconds at the default pace, and two seconds more.
/// Members that wait for an outcome ask again after at most four seconds.
const NOTICED: Duration = Duration::from_secs(6);
/// No member is given up before this share of the first caller's time, whichever clock measures it.
const EARLIEST: f64 = 0.85;

/// The largest and the smallest factor between a time and its measure by a wrong clock.
const DRIFT: (f64, f64) = (1.06, 0.94);
/// The trips of a decision: a caller comes, members are asked, vote and are told. One trip more is
/// for a lost message.
const TRIPS: u32 = 5;
/// The trips with long values: two members also fetch each value and report it, and then all
/// members fetch all values.
const LONG_TRIPS: u32 = 11;
/// For each full group of this many members, the trips for long values take as long again. A guess:
/// if it is too large, slow decisions are called broken promises.
const AT_ONCE: u32 = 16;

/// How long before its deadline a caller gives up members that have not come.
fn margin(time: Duration) -> Duration {
    (time / 10).min(Duration::from_secs(1))
}

impl Operation {
    /// When the operation closes, by a clock that is slow by this factor.
    fn closes(&self, slow: f64) -> Duration {
        let open = |time: Duration| (time - margin(time)).mul_f64(slow);
        let all = self.calls.iter().map(|call| call.at + open(call.time));
        all.min().unwrap_or(Duration::MAX)
    }

    /// No member can have been given up before this time.
    fn open_until(&self) -> Duration {
        let all = self
            .calls
            .iter()
            .map(|call| call.at + call.time.mul_f64(EARLIEST));
        all.min().unwrap_or(Duration::MAX)
    }

    /// The time at which the last member came, if all did.
    fn all_came(&self) -> Option<Duration> {
        let first = |id: &Id| {
            let calls = self.calls.iter().filter(|call| call.by == *id);
            calls.map(|call| call.at).min()
        };
        let all: Option<Vec<Duration>> = self.terms.members.iter().map(first).collect();
        all?.into_iter().max()
    }

    /// Whether values travel beside the proposal.
    fn has_long(&self) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| is_long(&self.terms, &call.value))
    }

    fn first_deadline(&self) -> Duration {
        let all = self.calls.iter().map(|call| call.due());
        all.min().unwrap_or(Duration::MAX)
    }

    fn last_deadline(&self) -> Duration {
        let all = self.calls.iter().map(|call| call.due());
        all.max().unwrap_or(Duration::MAX)
    }
}

impl Collectives {
    /// Whether there was no disturbance, or none that concerned this node.
    fn is_calm(&self, from: Duration, until: Duration, node: Option<Id>) -> bool {
        let concerns = |one: &Concerned| match (node, one) {
            (Some(node), Concerned::These(these)) => these.contains(&node),
            (Some(_), Concerned::Lives) => false,
            (Some(_), Concerned::All) | (None, _) => true,
        };
        let mut meanwhile = self
            .disturbances
            .iter()
            .filter(|one| one.from <= until && one.until >= from);
        !meanwhile.any(|one| concerns(&one.concerned))
    }

    /// Whether relays have too little room for the operation's long values.
    fn is_cramped(&self, operation: &Operation) -> bool {
        self.is_tight && operation.has_long()
    }

    /// The longest time of a decision while there is no disturbance.
    fn decides_within(&self, operation: &Operation) -> Duration {
        let members = operation.terms.members.len() as u32;
        self.trip
            * match operation.has_long() {
                true => LONG_TRIPS * (1 + members / AT_ONCE),
                false => TRIPS,
            }
    }

    fn is_exact(&self, from: Duration, until: Duration) -> bool {
        let mut all = self.exact.iter();
        all.any(|(start, end)| *start <= from && end.is_none_or(|end| end >= until))
    }

    /// Whether a node was there all the time, in one life, and was called neither down nor left.
    fn was_there(&self, id: Id, from: Duration, until: Duration) -> bool {
        let is_within = |at: &Duration| (from..=until).contains(at);
        let mut turns = self.turns.get(&id).into_iter().flatten();
        let mut words = [Class::Dead, Class::Left].into_iter().filter_map(|class| {
            let words = self.words.get(&(id, class));
            words?.iter().find(|at| is_within(at))
        });
        self.ran(id, from, until)
            && !turns.any(is_within)
            && words.next().is_none()
            && self.is_calm(from, until, Some(id))
    }

    pub(super) fn judge_missing(&self, operation: &Operation, found: &mut Vec<Breach>) {
        for call in &operation.calls {
            let Some((at, outcome)) = call.agreed() else {
                continue;
            };
            let by = call.by;
            for (member, class) in outcome.missing.iter().copied() {
                let words = self.words.get(&(member, class)).into_iter().flatten();
                let is_lost = matches!(class, Class::Dead | Class::Left);
                if is_lost && words.filter(|word| **word <= at).count() == 0 {
                    found.push(Breach::Unfounded { by, member, class });
                }
                let is_early = at < operation.open_until();
                if class == Class::Late && is_early && outcome.end == Some(End::Completed) {
                    found.push(Breach::Hasty { by, member });
                }
            }
        }
        let agreed = operation
            .calls
            .iter()
            .filter_map(|call| Some((call.by, call.agreed()?)));
        let Some((by, (at, outcome))) = agreed.min_by_key(|(_, (at, _))| *at) else {
            return;
        };
        for (member, class) in outcome.missing.iter().copied() {
            if self.should_count(operation, member, class, at, outcome.end) {
                found.push(Breach::LeftOut { by, member, class });
            }
        }
    }

    fn should_count(
        &self,
        operation: &Operation,
        member: Id,
        class: Class,
        told: Duration,
        end: Option<End>,
    ) -> bool {
        let from = operation.began().saturating_sub(SETTLED);
        if !self.was_there(member, from, told) {
            return false;
        }
        if matches!(class, Class::Dead | Class::Left) {
            return true;
        }
        let before = match operation.has_long() {
            true => NOTICED + self.decides_within(operation),
            false => NOTICED,
        };
        let since = operation.closes(1.0).min(told).saturating_sub(before);
        let mut calls = operation.calls.iter();
        end == Some(End::Completed)
            && !self.is_cramped(operation)
            && calls.any(|call| call.by == member && call.at <= since)
            && self.is_calm(since, told, None)
            && self.is_exact(since, told)
    }

    pub(super) fn judge_promise(
        &self,
        operation: &Operation,
        end: Duration,
        found: &mut Vec<Breach>,
    ) {
        let members = &operation.terms.members;
        let (began, last) = (operation.began(), operation.last_deadline());
        let since = operation.first_deadline().saturating_sub(NOTICED);
        let ran = |id: &Id| self.ran(*id, began, last);
        let there = members.iter().filter(|id| ran(id)).count();
        let is_any_long = operation.has_long();
        let is_enough = match is_any_long {
            true => there == members.len(),
            false => there >= majority(members.len()),
        };
        let is_undisturbed = self.is_calm(since, last, None) && self.is_exact(since, last);
        if !is_enough || !is_undisturbed || last >= end || self.is_cramped(operation) {
            return;
        }
        let settled = began.saturating_sub(SETTLED);
        let are_all_there = members.iter().all(|id| self.was_there(*id, settled, last));
        let complete = operation.all_came().filter(|_| are_all_there);
        let (slow, fast) = if self.drifts { DRIFT } else { (1.0, 1.0) };
        let closes = operation
            .closes(slow)
            .min(complete.unwrap_or(Duration::MAX));
        for call in &operation.calls {
            let begins = call.at.max(closes);
            let has_time =
                begins + self.decides_within(operation) <= call.at + call.time.mul_f64(fast);
            if has_time && ran(&call.by) && call.agreed().is_none() {
                found.push(Breach::NotAgreed { by: call.by });
            }
        }
    }
}
