//! The callers of collective operations at this node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_routing::collective::{
    Call, CallError, Class, Key, OperationState, Outcome, Terms, Verb, join_parts,
};
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Host, now};
use crate::catalogue;
use crate::command::Destination;
use crate::command::collective::{
    Action, CollectiveError, CollectiveOutcome, CollectiveView, Contribution, MissingMember,
    Request,
};
use crate::peer::Input;
use crate::report::epoch_name;
use crate::scrape::Scrape;

/// The time after which the log names the members that a caller still waits for.
const NOTICE: Duration = Duration::from_secs(10);
/// The most missing members that one line of the log names.
const NAMED_MAX: usize = 64;

/// The callers that wait for outcomes of collective operations.
#[derive(Default)]
pub(super) struct Callers {
    next: u64,
    pending: BTreeMap<u64, Caller>,
}

/// Members, and their names as the caller or the setting `expect` lists them.
type Members = (Vec<PeerId>, BTreeMap<PeerId, String>);
/// The terms of the operation, the names of its members, and the caller's value.
type Prepared = (Terms<PeerId>, BTreeMap<PeerId, String>, Bytes);

struct Caller {
    key: Key,
    verb: &'static str,
    /// The members' names as the caller or the setting `expect` lists them; empty without a list.
    names: BTreeMap<PeerId, String>,
    since: Instant,
    is_logged: bool,
    reply: oneshot::Sender<Result<CollectiveOutcome, CollectiveError>>,
}

impl Host {
    /// A user calls a collective operation.
    pub(super) fn call(&mut self, request: Request) {
        match self.prepare(&request) {
            Err(error) => {
                let _ = request.reply.send(Err(error));
            }
            Ok((terms, names, value)) => {
                let id = self.callers.next;
                self.callers.next += 1;
                let caller = Caller {
                    key: terms.key.clone(),
                    verb: terms.verb.name(),
                    names,
                    since: now(),
                    is_logged: false,
                    reply: request.reply,
                };
                self.callers.pending.insert(id, caller);
                let time = request.time;
                let call = Call {
                    id,
                    terms,
                    value,
                    time,
                };
                self.feed(Input::Call(Box::new(call)));
            }
        }
    }

    /// The terms of the operation that a request asks for, the names of its members, and the value.
    fn prepare(&self, request: &Request) -> Result<Prepared, CollectiveError> {
        let (members, names) = self.members_of(request)?;
        let place = |destination: &Destination| {
            let id = self.id_of(destination);
            let place = members.iter().position(|member| *member == id);
            place.map(|place| place as u32)
        };
        let root = |destination: &Destination| {
            let none = || CollectiveError::NoMember(destination.to_string());
            place(destination).ok_or_else(none)
        };
        let verb = match &request.action {
            Action::Barrier => Verb::Barrier,
            Action::Agree => Verb::Agree,
            Action::AllGather => Verb::AllGather,
            Action::Gather(to) => Verb::Gather { root: root(to)? },
            Action::Scatter(from) => Verb::Scatter { root: root(from)? },
            Action::Reduce(to, op) => Verb::Reduce {
                root: root(to)?,
                op: op.clone(),
            },
            Action::AllReduce(op) => Verb::AllReduce { op: op.clone() },
            Action::AllToAll => Verb::AllToAll,
        };
        let value = match &request.given {
            Contribution::Bytes(bytes) => bytes.clone(),
            Contribution::Parts(parts) => join_parts(&placed(parts.clone(), place)?),
        };
        let terms = Terms {
            key: Key {
                name: request.name.clone(),
                generation: request.generation,
            },
            members,
            verb,
            on_loss: request.on_loss,
        };
        Ok((terms, names, value))
    }

    /// The members of a request: the listed ones, else the hosts of the setting `expect`, else the
    /// members of the roster. The names come from the list; the roster gives none.
    fn members_of(&self, request: &Request) -> Result<Members, CollectiveError> {
        let named = |names: Vec<String>| {
            let id = |name: &String| self.id_of(&Destination::Name(name.clone()));
            let ids: Vec<PeerId> = names.iter().map(id).collect();
            let names = ids.iter().copied().zip(names).collect();
            (ids, names)
        };
        if let Some(members) = &request.members {
            let ids = members.iter().map(|member| self.id_of(member));
            let names = members.iter().map(ToString::to_string);
            let names = ids.clone().zip(names).collect();
            return Ok((ids.collect(), names));
        }
        if !self.config.expect.is_empty() {
            let names = self.config.expect.names();
            return Ok(named(names.map(str::to_owned).collect()));
        }
        let roster = self.peer.relay().roster();
        let roster = roster.filter(|roster| roster.is_complete());
        let peers = roster.ok_or(CollectiveError::NotReady)?.peers();
        let known = peers.iter().copied().flatten();
        Ok((known.collect(), BTreeMap::new()))
    }

    /// Pass the machine's answer to the caller.
    pub(super) fn answer_call(
        &mut self,
        call: u64,
        outcome: Result<Box<Outcome<PeerId>>, CallError>,
    ) {
        let Some(caller) = self.callers.pending.remove(&call) else {
            return;
        };
        let answer = match outcome {
            Ok(outcome) => self.shown(*outcome, &caller),
            Err(error) => Err(error.into()),
        };
        let result = match &answer {
            Ok(outcome) if !outcome.agreed => "undecided",
            Ok(outcome) if outcome.missing.is_empty() => "all",
            Ok(_) => "missing",
            Err(_) => "refused",
        };
        let answers = catalogue::COLLECTIVES.with([caller.verb, result]);
        answers.increment(1);
        let waited = now().saturating_duration_since(caller.since).as_secs_f64();
        catalogue::COLLECTIVE_SECONDS
            .with([caller.verb])
            .record(waited);
        let _ = caller.reply.send(answer);
    }

    fn shown(
        &self,
        outcome: Outcome<PeerId>,
        caller: &Caller,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let name = |id: PeerId| {
            let known = caller.names.get(&id);
            known.cloned().unwrap_or_else(|| self.name_of(id))
        };
        let combined = match outcome.combined {
            // The caller combines the values itself.
            Some(Err(binomesh_routing::collective::ReduceError::User)) | None => None,
            Some(combined) => Some(combined?),
        };
        let placement = self.peer.overlay().placement();
        let values = outcome.values.into_iter();
        Ok(CollectiveOutcome {
            name: outcome.key.name.to_string(),
            generation: outcome.key.generation,
            epoch: placement.map(|placement| epoch_name(&placement.epoch)),
            agreed: outcome.agreed,
            end: outcome.end,
            arrived_count: outcome.arrived.len(),
            values: values.map(|(id, bytes)| (name(id), bytes)).collect(),
            combined,
            missing: missing(&outcome.missing, name),
            elapsed_seconds: now().saturating_duration_since(caller.since).as_secs_f64(),
        })
    }

    /// The operations that this node knows.
    pub(super) fn collective_views(&self) -> Vec<CollectiveView> {
        let views = self.peer.collectives().operations();
        let mut views: Vec<CollectiveView> =
            views.map(|operation| self.view_of(&operation)).collect();
        views.sort_by(|a, b| b.state.cmp(&a.state));
        views
    }

    fn view_of(&self, operation: &OperationState<PeerId>) -> CollectiveView {
        let state = match operation.is_decided {
            true => "decided",
            false => "open",
        };
        CollectiveView {
            name: operation.key.name.to_string(),
            generation: operation.key.generation,
            verb: operation.verb.to_owned(),
            state: state.to_owned(),
            coordinator: operation.coordinator.map(|peer| self.name_of(peer)),
            callers_count: operation.callers,
            members_count: operation.members,
            arrived_count: operation.arrived.len(),
            missing: missing(&operation.missing, |id| self.called(&operation.key, id)),
        }
    }

    /// The name of a member as a caller of that operation gave it: the node may know no other.
    fn called(&self, key: &Key, id: PeerId) -> String {
        let mut callers = self.callers.pending.values();
        let given = callers.find(|caller| caller.key == *key);
        let given = given.and_then(|caller| caller.names.get(&id).cloned());
        given.unwrap_or_else(|| self.name_of(id))
    }

    /// Cancel the calls of callers that have gone. For a long wait, log which members are missing.
    pub(super) fn attend_callers(&mut self) {
        let gone = self.callers.pending.iter();
        let gone: Vec<u64> = gone
            .filter(|(_, caller)| caller.reply.is_closed())
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            self.callers.pending.remove(&id);
            self.feed(Input::CancelCall(id));
        }
        let now = now();
        let late = self.callers.pending.values_mut().filter(|caller| {
            !caller.is_logged && now.saturating_duration_since(caller.since) >= NOTICE
        });
        let mut keys = BTreeSet::new();
        for caller in late {
            caller.is_logged = true;
            keys.insert(caller.key.clone());
        }
        for key in keys {
            self.log_missing(&key);
        }
    }

    fn log_missing(&self, key: &Key) {
        let mut all = self.peer.collectives().operations();
        let Some(operation) = all.find(|operation| operation.key == *key && !operation.is_decided)
        else {
            return;
        };
        let view = self.view_of(&operation);
        let missing: Vec<String> = view
            .missing
            .iter()
            .take(NAMED_MAX)
            .map(|missing| format!("{} ({})", missing.name, missing.state))
            .collect();
        tracing::warn!(
            name = view.name,
            generation = view.generation,
            verb = view.verb,
            arrived = view.arrived_count,
            members = view.members_count,
            missing = missing.join(", "),
            "a collective still waits for members that have not called it"
        );
    }

    /// Record the metrics of collectives.
    pub(super) fn record_collectives(&mut self) {
        let callers = self.callers.pending.len();
        catalogue::COLLECTIVE_CALLERS.get().set(callers as f64);
        catalogue::COLLECTIVE_MESSAGES_DROPPED
            .get()
            .absolute(self.peer.mail_dropped());
        let unnamed = self.missed().len().saturating_sub(Scrape::NAMED_MAX);
        catalogue::COLLECTIVE_MISSING_UNNAMED
            .get()
            .set(unnamed as f64);
    }

    /// The members that callers here wait for, each with the name of the operation.
    pub(super) fn missed(&self) -> BTreeSet<(String, String)> {
        let mut missed = BTreeSet::new();
        let open = self.peer.collectives().operations();
        for operation in open.filter(|operation| operation.callers > 0 && !operation.is_decided) {
            for (id, _) in &operation.missing {
                missed.insert((
                    operation.key.name.to_string(),
                    self.called(&operation.key, *id),
                ));
            }
        }
        missed
    }

    /// Record a vote on disk before it is sent.
    pub(super) fn record_vote(&mut self, key: &Key) {
        if let Err(error) = self.votes.record(key) {
            tracing::error!(
                %error,
                "votes of collectives cannot be recorded; this node does not vote until it is \
                 started again"
            );
            catalogue::VOTES_UNRECORDED.get().increment(1);
            self.peer.stop_voting();
        }
    }
}

fn missing(all: &[(PeerId, Class)], name: impl Fn(PeerId) -> String) -> Vec<MissingMember> {
    let missing = all.iter().map(|(id, class)| MissingMember {
        name: name(*id),
        state: class.name().to_owned(),
    });
    missing.collect()
}

/// The parts that a caller contributes, by the places of their receivers in the list.
fn placed(
    parts: Vec<(Destination, Bytes)>,
    place: impl Fn(&Destination) -> Option<u32>,
) -> Result<BTreeMap<u32, Bytes>, CollectiveError> {
    let placed = parts.into_iter().map(|(to, part)| match place(&to) {
        Some(place) => Ok((place, part)),
        None => Err(CollectiveError::NoMember(to.to_string())),
    });
    placed.collect()
}
