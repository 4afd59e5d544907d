//! The judge of collective operations, which sees only what callers were told.
//!
//! | rule | holds |
//! |---|---|
//! | one answer for each call, none for others | always |
//! | a living process answers by the deadline, with 6% more for its clock, and 200 ms; if it is stopped then, within 200 ms of going on | always |
//! | no call is refused: all callers give the same terms, and names and generations are few | always |
//! | each arrived member has called, each member is named once, and the end fits the terms | always |
//! | each value in an outcome is one that its member called with (`values`) | always |
//! | a member that is missing as dead or left was called so before; a completed operation has no late member before the first caller's time is nearly over | always |
//! | agreed outcomes of one operation are equal, and so are the values behind them | unless a listed member lost its disk since the first call: it votes again, and no other member can know |
//! | a member that was there and came in time is not missing (`promise`) | see there |
//! | a majority that is up and undisturbed agrees (`promise`) | see there |
//!
//! Liars and corrupted nodes break none of the rules that always hold: they distort the overlay,
//! while the messages of collectives name their senders. The last two rules do not apply while such
//! a fault lasts, as with every other fault.

mod breach;
mod promise;
#[cfg(test)]
mod tests;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh::world::{Id, ReportedEvent, Turn};
use binomesh_routing::collective::{
    Call, CallError, Class, End, Key, OnLoss, Outcome, Terms, Value, Verb,
};
pub use breach::Breach;
use bytes::Bytes;

use crate::command::chaos::violation::Violation;

/// How late an answer may be beyond the error of its process's clock.
const TOLERANCE: Duration = Duration::from_millis(200);
/// The factor by which the slowest clock may prolong a time: clocks are wrong by at most 50,000 of
/// a million.
const CLOCKS: f64 = 1.06;

/// The answer that a caller gets.
type Answer = Result<Box<Outcome<Id>>, CallError>;

/// A call, and its answer.
#[derive(Debug, Clone)]
struct Called {
    id: u64,
    by: Id,
    /// How many processes its node had had by then, this one included. One may end and the next
    /// begin at the same instant, so the time of the call does not tell the process.
    process: usize,
    at: Duration,
    time: Duration,
    value: Bytes,
    answer: Option<(Duration, Answer)>,
}

impl Called {
    fn due(&self) -> Duration {
        self.at + self.time
    }

    fn outcome(&self) -> Option<(Duration, &Outcome<Id>)> {
        match &self.answer {
            Some((at, Ok(outcome))) => Some((*at, outcome)),
            _ => None,
        }
    }

    fn agreed(&self) -> Option<(Duration, &Outcome<Id>)> {
        self.outcome().filter(|(_, outcome)| outcome.agreed)
    }
}

/// The calls of one operation, and its terms.
#[derive(Debug, Clone)]
struct Operation {
    terms: Terms<Id>,
    calls: Vec<Called>,
}

impl Operation {
    fn began(&self) -> Duration {
        let all = self.calls.iter().map(|call| call.at);
        all.min().unwrap_or(Duration::MAX)
    }
}

/// A time in which a process ran, in one life or in several.
#[derive(Debug, Clone, Copy)]
struct Process {
    from: Duration,
    until: Option<Duration>,
}

/// The members that a disturbance concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concerned {
    /// Every member.
    All,
    /// The named members.
    These(BTreeSet<Id>),
    /// No single member: a life begins or ends, which is also recorded for its own member.
    Lives,
}

/// A disturbance of the world.
#[derive(Debug, Clone)]
struct Disturbance {
    from: Duration,
    until: Duration,
    concerned: Concerned,
}

/// The books of one run.
#[derive(Debug, Clone, Default)]
pub struct Collectives {
    operations: BTreeMap<Key, Operation>,
    processes: BTreeMap<Id, Vec<Process>>,
    /// The times at which lives of a member began or ended.
    turns: BTreeMap<Id, Vec<Duration>>,
    pauses: BTreeMap<Id, Vec<(Duration, Duration)>>,
    disturbances: Vec<Disturbance>,
    /// The times at which a process was told that a member is down or has left.
    words: BTreeMap<(Id, Class), Vec<Duration>>,
    /// The members that lost their disks, and when.
    losses: Vec<(Id, Duration)>,
    /// The times in which the graph was exact.
    exact: Vec<(Duration, Option<Duration>)>,
    /// The longest way of a message from any member to any other in an undisturbed world.
    trip: Duration,
    /// Whether the relays have little room.
    is_tight: bool,
    /// Whether the clocks are wrong.
    drifts: bool,
    agreed: u64,
    found: Vec<Violation>,
}

impl Collectives {
    /// A judge for a world in which a message takes at most `trip` between any two members while
    /// there is no disturbance. With `is_tight`, its relays have little room.
    pub fn new(trip: Duration, is_tight: bool) -> Self {
        Self {
            trip,
            is_tight,
            ..Self::default()
        }
    }

    /// A life begins or ends.
    pub fn on_turn(&mut self, turn: &Turn) {
        self.turns.entry(turn.id).or_default().push(turn.at);
        let from = turn.at;
        let processes = self.processes.entry(turn.id).or_default();
        match (turn.begins, processes.last_mut()) {
            (true, Some(last)) if turn.goes_on => last.until = None,
            (true, _) => processes.push(Process { from, until: None }),
            (false, Some(last)) => _ = last.until.get_or_insert(turn.at),
            (false, None) => {}
        }
        self.on_disturbance(turn.at, turn.at, Concerned::Lives);
    }

    /// The world is disturbed for a while.
    pub fn on_disturbance(&mut self, from: Duration, until: Duration, concerned: Concerned) {
        self.disturbances.push(Disturbance {
            from,
            until,
            concerned,
        });
        self.on_graph(from, false);
    }

    /// Disturbances without an end have ended now.
    pub fn on_calm(&mut self, at: Duration) {
        let all = self.disturbances.iter_mut();
        for endless in all.filter(|one| one.until == Duration::MAX) {
            endless.until = at;
        }
    }

    /// Clocks are wrong from now on.
    pub const fn on_drift(&mut self) {
        self.drifts = true;
    }

    /// A process is stopped for a while.
    pub fn on_pause(&mut self, id: Id, from: Duration, until: Duration) {
        self.pauses.entry(id).or_default().push((from, until));
    }

    /// A member has lost its disk.
    pub fn on_loss(&mut self, id: Id, at: Duration) {
        self.losses.push((id, at));
    }

    /// The graph is exact now, or not.
    pub fn on_graph(&mut self, at: Duration, is_exact: bool) {
        let open = self.exact.last_mut().filter(|(_, until)| until.is_none());
        match (open, is_exact) {
            (None, true) => self.exact.push((at, None)),
            (Some((_, until)), false) => *until = Some(at),
            _ => {}
        }
    }

    /// A process was told that a member is down or has left.
    pub fn on_word(&mut self, at: Duration, of: Id, class: Class) {
        self.words.entry((of, class)).or_default().push(at);
    }

    /// A caller joins an operation at a node that is up.
    pub fn on_call(&mut self, at: Duration, by: Id, call: &Call<Id>) {
        let new = || Operation {
            terms: call.terms.clone(),
            calls: Vec::new(),
        };
        let process = self.processes.get(&by).map_or(0, Vec::len);
        let operation = self.operations.entry(call.terms.key.clone());
        operation.or_insert_with(new).calls.push(Called {
            id: call.id,
            by,
            process,
            at,
            time: call.time,
            value: call.value.clone(),
            answer: None,
        });
    }

    /// A caller has its answer.
    pub fn on_answer(&mut self, told: &ReportedEvent, id: u64, answer: &Answer) {
        let all = self.operations.iter_mut();
        let mut calls = all.flat_map(|(key, operation)| {
            let calls = operation.calls.iter_mut();
            calls.map(move |call| (key, call))
        });
        let (by, call) = (told.by, id);
        match calls.find(|(_, call)| call.by == by && call.id == id) {
            Some((_, call)) if call.answer.is_none() => {
                self.agreed += u64::from(matches!(answer, Ok(outcome) if outcome.agreed));
                call.answer = Some((told.at, answer.clone()));
            }
            Some((key, _)) => {
                let key = Some(key.clone());
                self.found.push(broken(key, Breach::Unasked { by, call }));
            }
            None => self.found.push(broken(None, Breach::Unasked { by, call })),
        }
    }

    /// How many calls there were, and how many heard of an agreed outcome.
    pub fn counts(&self) -> (u64, u64) {
        let all = self.operations.values();
        let calls = all.map(|operation| operation.calls.len() as u64);
        (calls.sum(), self.agreed)
    }

    /// All violations, once the run is over.
    pub fn judge(mut self, end: Duration) -> Vec<Violation> {
        let mut found = std::mem::take(&mut self.found);
        for (key, operation) in &self.operations {
            let mut breaches = Vec::new();
            self.judge_answers(operation, end, &mut breaches);
            self.judge_outcomes(operation, &mut breaches);
            if !self.has_lost_disk(operation) {
                judge_agreement(operation, &mut breaches);
            }
            values::judge(operation, !self.has_lost_disk(operation), &mut breaches);
            self.judge_missing(operation, &mut breaches);
            self.judge_promise(operation, end, &mut breaches);
            let breaches = breaches.into_iter();
            found.extend(breaches.map(|breach| broken(Some(key.clone()), breach)));
        }
        found
    }

    /// Whether a listed member lost its disk since the first call.
    fn has_lost_disk(&self, operation: &Operation) -> bool {
        let began = operation.began();
        let mut losses = self.losses.iter();
        losses.any(|(id, at)| operation.terms.members.contains(id) && *at >= began)
    }

    /// Whether one process of a node ran all the time, in whatever lives.
    fn ran(&self, id: Id, from: Duration, until: Duration) -> bool {
        let mut processes = self.processes.get(&id).into_iter().flatten();
        processes.any(|one| one.from <= from && one.until.is_none_or(|end| end > until))
    }

    /// Whether the process of a caller ran until this time.
    fn ran_on(&self, call: &Called, until: Duration) -> bool {
        let processes = self.processes.get(&call.by);
        let number = call.process.checked_sub(1);
        let process = number.and_then(|number| processes?.get(number));
        process.is_some_and(|one| one.until.is_none_or(|end| end > until))
    }

    /// The time by which a caller must have its answer.
    fn limit(&self, call: &Called) -> Duration {
        let mut limit = call.at + call.time.mul_f64(CLOCKS) + TOLERANCE;
        let pauses = self.pauses.get(&call.by).into_iter().flatten();
        for (from, until) in pauses {
            if (*from..=*until).contains(&limit) {
                limit = *until + TOLERANCE;
            }
        }
        limit
    }

    fn judge_answers(&self, operation: &Operation, end: Duration, found: &mut Vec<Breach>) {
        for call in &operation.calls {
            let (by, at) = (call.by, call.at);
            let limit = self.limit(call);
            let answered = call.answer.as_ref().map_or(Duration::MAX, |(at, _)| *at);
            if answered > limit && limit < end && self.ran_on(call, limit) {
                let until = limit;
                found.push(Breach::Unanswered { by, at, until });
            }
            if let Some((_, Err(error))) = &call.answer {
                let error = error.clone();
                found.push(Breach::Refused { by, error });
            }
        }
    }

    /// Check the rules for every outcome, agreed or not.
    fn judge_outcomes(&self, operation: &Operation, found: &mut Vec<Breach>) {
        let terms = &operation.terms;
        for call in &operation.calls {
            let Some((at, outcome)) = call.outcome() else {
                continue;
            };
            let by = call.by;
            let has_called = |id: Id| {
                let mut calls = operation.calls.iter();
                calls.any(|call| call.by == id && call.at <= at)
            };
            let phantom = outcome.arrived.iter().find(|id| !has_called(**id));
            found.extend(phantom.map(|member| Breach::Phantom {
                by,
                member: *member,
            }));
            let missing: Vec<Id> = outcome.missing.iter().map(|(id, _)| *id).collect();
            let is_in = |list: &[Id]| -> Vec<Id> {
                let members = terms.members.iter().copied();
                members.filter(|id| list.contains(id)).collect()
            };
            let is_split = outcome.arrived.len() + missing.len() == terms.members.len()
                && terms
                    .members
                    .iter()
                    .all(|id| outcome.arrived.contains(id) != missing.contains(id));
            let is_ordered =
                is_in(&outcome.arrived) == outcome.arrived && is_in(&missing) == missing;
            if !is_split || !is_ordered {
                found.push(Breach::Miscounted { by });
            }
            match outcome.end {
                Some(end)
                    if !(outcome.agreed || outcome.values.is_empty())
                        || !fits(terms, end, outcome) =>
                {
                    found.push(Breach::WrongEnd { by, end });
                }
                _ => {}
            }
        }
    }
}

/// Whether an operation with these terms can have this end.
fn fits(terms: &Terms<Id>, end: End, outcome: &Outcome<Id>) -> bool {
    let is_lost = |(_, class): &(Id, Class)| *class != Class::Late;
    let has_lost = outcome.missing.iter().any(is_lost);
    match (end, terms.on_loss) {
        (End::RootLost, _) => terms.verb.root().is_some(),
        (End::Aborted, on_loss) => on_loss == OnLoss::Abort && has_lost,
        (End::TooFew, OnLoss::Survivors { at_least }) => outcome.arrived.len() < at_least as usize,
        (End::TooFew, _) => false,
        (End::Completed, OnLoss::Survivors { at_least }) => {
            outcome.arrived.len() >= at_least as usize
        }
        (End::Completed, OnLoss::Abort) => !has_lost,
        (End::Completed, OnLoss::Wait) => true,
    }
}

/// Check that all agreed outcomes of an operation have the same end, and the same members that came
/// and that are missing.
fn judge_agreement(operation: &Operation, found: &mut Vec<Breach>) {
    let mut agreed = operation.calls.iter().filter_map(|call| {
        let (_, outcome) = call.agreed()?;
        Some((call.by, outcome))
    });
    let Some((a, first)) = agreed.next() else {
        return;
    };
    let same = |one: &Outcome<Id>| (one.end, one.arrived.clone(), one.missing.clone());
    let other = agreed.find(|(_, other)| same(other) != same(first));
    found.extend(other.map(|(b, _)| Breach::Disagreement { a, b }));
}

/// Whether values of this length travel beside the proposal.
fn is_long(terms: &Terms<Id>, value: &Bytes) -> bool {
    let is_stored = matches!(Value::of(value, terms.inline_max()), Value::Stored { .. });
    is_stored && terms.verb != Verb::Barrier
}

fn broken(key: Option<Key>, breach: Breach) -> Violation {
    let key = key.map_or_else(|| "no operation".to_owned(), |key| key.to_string());
    Violation::Collective { key, breach }
}
