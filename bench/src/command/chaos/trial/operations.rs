//! The collective operations of a scenario, played.

use std::time::Duration;

use binomesh::peer::Input;
use binomesh::world::{Fault, Id, Latency, Memory};
use binomesh_overlay::noise::Noise;
use binomesh_routing::collective::{Call, OnLoss, Verb};

use super::Trial;
use crate::command::chaos::checker::collectives::Concerned;
use crate::command::chaos::operation::{Caller, Operation};
use crate::command::chaos::scenario::Scenario;

/// How long a relay may be busy after the silence, since members that have no outcome of a
/// collective ask again.
pub(super) const ASKING: Duration = Duration::from_secs(10);
/// How long a relay keeps a message that may travel with others.
const GATHERED: Duration = Duration::from_millis(10);
/// The name of the operation at the end, and how long its callers wait.
const LAST: (&str, u64) = ("last", 10_000);

/// The longest time that a message travels between any two members while there is no disturbance,
/// along a path of the binomial graph.
pub(super) fn trip(scenario: &Scenario) -> Duration {
    let longest = match scenario.network.latency {
        Latency::Uniform { max_us, .. } | Latency::LongTail { max_us, .. } => max_us,
    };
    let steps = u32::BITS - scenario.nodes.leading_zeros();
    (Duration::from_micros(longest) + GATHERED) * steps
}

/// A call of a scenario, with its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due<'a> {
    at: Duration,
    operation: &'a Operation,
    caller: &'a Caller,
}

/// All calls of a scenario, in the order of their times.
#[derive(Debug)]
pub(super) struct Agenda<'a> {
    calls: std::iter::Peekable<std::vec::IntoIter<Due<'a>>>,
}

impl<'a> Agenda<'a> {
    pub(super) fn of(scenario: &'a Scenario) -> Self {
        let all = scenario.operations.iter().flat_map(|timed| {
            let callers = timed.what.callers.iter();
            callers.map(|caller| Due {
                at: timed.at() + Duration::from_millis(caller.after_ms),
                operation: &timed.what,
                caller,
            })
        });
        let mut calls: Vec<Due<'a>> = all.collect();
        calls.sort_by_key(|call| call.at);
        Self {
            calls: calls.into_iter().peekable(),
        }
    }

    pub(super) fn next_at(&mut self) -> Option<Duration> {
        self.calls.peek().map(|call| call.at)
    }

    pub(super) fn pop(&mut self) -> Option<Due<'a>> {
        self.calls.next()
    }
}

impl Trial<'_> {
    /// Make a call, unless its node is down, paused or leaving.
    pub(super) fn call(&mut self, due: &Due<'_>) {
        let Caller { by, time_ms, .. } = *due.caller;
        if !self.world.is_standing(by) {
            return;
        }
        self.next_call += 1;
        let mut seed = Noise::new(self.world.seed() ^ self.next_call << 24);
        let call = Call {
            id: self.next_call,
            terms: due.operation.terms(),
            value: due.operation.value(seed.next()),
            time: Duration::from_millis(time_ms),
        };
        self.collectives.on_call(self.world.now(), by, &call);
        self.world.feed(by, Input::Call(Box::new(call)));
        self.observe();
    }

    /// All members that are up call a last barrier.
    pub(super) fn call_all(&mut self) {
        let members: Vec<Id> = self.world.peers().map(|(id, _)| id).collect();
        let Ok(name) = LAST.0.parse() else { return };
        let caller = |by: &Id| Caller {
            by: *by,
            after_ms: 0,
            time_ms: LAST.1,
        };
        let operation = Operation {
            name,
            generation: 1,
            verb: Verb::Barrier,
            on_loss: OnLoss::default(),
            bytes: 0,
            callers: members.iter().map(caller).collect(),
            members,
        };
        for caller in &operation.callers {
            let at = self.world.now();
            let operation = &operation;
            self.call(&Due {
                at,
                operation,
                caller,
            });
        }
    }

    /// Tell the records of collectives that a fault begins now: until when it lasts, and which
    /// nodes it concerns.
    pub(super) fn note_disturbance(&mut self, fault: &Fault, end: Duration) {
        let now = self.world.now();
        let concerned = match fault {
            Fault::Crash { .. }
            | Fault::Restart { .. }
            | Fault::Join { .. }
            | Fault::Visit { .. }
            | Fault::Leave { .. } => Concerned::Lives,
            Fault::Pause { .. }
            | Fault::Skew { .. }
            | Fault::Cut { .. }
            | Fault::Sever { .. }
            | Fault::Slow { .. }
            | Fault::Narrow { .. } => {
                Concerned::These(self.hindered_by(fault).into_iter().collect())
            }
            Fault::Partition { .. }
            | Fault::Weather { .. }
            | Fault::Lie { .. }
            | Fault::Scramble { .. }
            | Fault::Flood { .. } => Concerned::All,
            Fault::Drift { .. } => return self.collectives.on_drift(),
        };
        self.collectives.on_disturbance(now, end, concerned);
        match fault {
            Fault::Pause { node, .. } => self.collectives.on_pause(*node, now, end),
            Fault::Restart {
                node,
                memory: Memory::Lost,
            } => self.collectives.on_loss(*node, now),
            _ => {}
        }
    }
}
