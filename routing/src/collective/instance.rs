//! One operation, as one of its members knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::Id;
use bytes::Bytes;
use serde::Serialize;

use super::Config;
use super::context::Gone;
use super::message::Item;
use super::proposal::{Class, End, Hash, Proposal, Value};
use super::storage::{self, Storage};
use super::terms::{Digest, OnLoss, Terms, Verb, list_digest};
use super::voting::{Acceptor, Poll};

/// A long value counts once this many members hold it, its owner included. Members that are down or
/// have left do not count. If fewer members are there, all of them have to hold the value.
pub(super) const HOLDERS: usize = 3;

/// A member that has come, with its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Arrival {
    pub(super) value: Value,
    /// The time that its caller gave, as the member says.
    pub(super) time: Duration,
    /// The places of the members that hold the value, if it is a long one.
    pub(super) holders: BTreeSet<u32>,
}

/// One operation, as one of its members knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Instance<I> {
    pub(super) serial: u64,
    pub(super) terms: Arc<Terms<I>>,
    pub(super) digest: Digest,
    /// The digest of the list of members alone.
    pub(super) list: Digest,
    /// The place of this member in the list.
    pub(super) me: u32,
    /// The callers here that wait for the outcome.
    pub(super) calls: Vec<u64>,
    /// The value of the first caller here, in full and as other members are told of it.
    pub(super) own: Option<(Bytes, Value)>,
    /// Milliseconds from the call to the deadline: the least of all callers here.
    pub(super) own_time: u64,
    /// The members that have come, by place, as far as this member has heard.
    pub(super) arrivals: BTreeMap<u32, Arrival>,
    /// The holders of long values, as they say: for each owner and holder, the hash of the owner's
    /// value.
    pub(super) held: BTreeMap<(u32, u32), Hash>,
    /// The places of the members that have come, as the coordinator last reported.
    pub(super) progress: BTreeSet<u32>,
    /// The places of the members that this one has told of its arrival.
    pub(super) informed: BTreeSet<u32>,
    /// The time that a caller of some arrived member gave is nearly over, as far as this member has
    /// heard.
    pub(super) is_closed: bool,
    pub(super) acceptor: Acceptor<Proposal>,
    pub(super) poll: Option<Poll<Proposal>>,
    /// Whether this member has ever started a ballot about this operation.
    pub(super) has_polled: bool,
    /// The greatest round of a ballot that this member has met.
    pub(super) round: u32,
    /// Another ballot has overruled this member's. This member tries again when the retry timer
    /// fires.
    pub(super) holds_off: bool,
    pub(super) decided: Option<Arc<Proposal>>,
    pub(super) storage: Storage,
    /// The place of the coordinator when this member last said that it has come.
    pub(super) last_coordinator: Option<u32>,
    /// This member has told its arrival again, or to further members. Each such message has the
    /// caller's whole time, so its receiver may close too late.
    pub(super) is_told_late: bool,
    /// How often in a row the retry timer has fired.
    pub(super) retries: u32,
    /// The bytes of this operation that `Names` has counted.
    pub(super) counted_bytes: usize,
}

impl<I: Id + Serialize> Instance<I> {
    pub(super) fn new(serial: u64, terms: Arc<Terms<I>>, digest: Digest, me: u32) -> Self {
        Self {
            serial,
            list: list_digest(&terms.members),
            terms,
            digest,
            me,
            calls: Vec::new(),
            own: None,
            own_time: 0,
            arrivals: BTreeMap::new(),
            held: BTreeMap::new(),
            progress: BTreeSet::new(),
            informed: BTreeSet::new(),
            is_closed: false,
            acceptor: Acceptor::default(),
            poll: None,
            has_polled: false,
            round: 0,
            holds_off: false,
            decided: None,
            storage: Storage::default(),
            last_coordinator: None,
            is_told_late: false,
            retries: 0,
            counted_bytes: 0,
        }
    }
}

impl<I: Id> Instance<I> {
    pub(super) fn members(&self) -> usize {
        self.terms.members.len()
    }

    pub(super) fn member(&self, place: u32) -> Option<I> {
        self.terms.members.get(place as usize).copied()
    }

    /// All other members that can be asked now: not down, not left, and in the epoch.
    pub(super) fn others<'a>(&'a self, gone: &'a Gone<I>) -> impl Iterator<Item = (u32, I)> + 'a {
        let all = (0..).zip(self.terms.members.iter().copied());
        all.filter(move |(place, member)| *place != self.me && !gone.is_away(*member))
    }

    /// The place of the coordinator: of the members that can be asked now, the first in the order
    /// of [`Terms::coordinators`]. This member itself always counts.
    pub(super) fn coordinator(&self, gone: &Gone<I>) -> u32 {
        self.coordinators(gone).next().unwrap_or(self.me)
    }

    fn coordinators<'a>(&'a self, gone: &'a Gone<I>) -> impl Iterator<Item = u32> + 'a {
        let is_there = move |place: &u32| {
            *place == self.me
                || self
                    .member(*place)
                    .is_some_and(|member| !gone.is_away(member))
        };
        self.terms.coordinators().filter(is_there)
    }

    /// The places of the members that are told of this one's arrival: the coordinator, or, for a
    /// long value, the first other members in the order of coordination, so many that the value
    /// counts once they hold it.
    pub(super) fn listeners(&self, value: &Value, gone: &Gone<I>) -> BTreeSet<u32> {
        let others = self.coordinators(gone).filter(|place| *place != self.me);
        match value {
            Value::Inline(_) => {
                let coordinator = self.coordinator(gone);
                BTreeSet::from([coordinator])
            }
            Value::Stored { .. } => others.take(HOLDERS - 1).collect(),
        }
    }

    /// Whether enough members hold the value of an arrival.
    pub(super) fn counts(&self, arrival: &Arrival, gone: &Gone<I>) -> bool {
        match arrival.value {
            Value::Inline(_) => true,
            Value::Stored { .. } => {
                let there = self.others(gone).count() + 1;
                let is_there = |place: &&u32| {
                    **place == self.me || self.member(**place).is_some_and(|m| !gone.has(m))
                };
                let holders = arrival.holders.iter().filter(is_there).count();
                holders >= HOLDERS.min(there)
            }
        }
    }

    /// Why a member that does not count is missing at this moment.
    fn class(&self, place: u32, gone: &Gone<I>) -> Class {
        let member = self.member(place);
        match member {
            _ if self.arrivals.contains_key(&place) => Class::Lost,
            Some(member) if gone.has_left(member) => Class::Left,
            Some(member) if gone.has(member) => Class::Dead,
            _ => Class::Late,
        }
    }

    /// The proposal that this member would make now.
    pub(super) fn proposal(&self, gone: &Gone<I>) -> Proposal {
        let mut proposal = Proposal {
            end: End::Completed,
            arrived: Vec::new(),
            missing: Vec::new(),
        };
        for place in 0..self.members() as u32 {
            match self.arrivals.get(&place) {
                Some(arrival) if self.counts(arrival, gone) => {
                    proposal.arrived.push((place, arrival.value.clone()));
                }
                _ => proposal.missing.push((place, self.class(place, gone))),
            }
        }
        proposal.end = self.end_of(&proposal, gone);
        proposal
    }

    fn end_of(&self, proposal: &Proposal, gone: &Gone<I>) -> End {
        let is_lost = |class: &Class| *class != Class::Late;
        match self.terms.on_loss {
            _ if self.has_lost_root(proposal, gone) => End::RootLost,
            OnLoss::Abort if proposal.missing.iter().any(|(_, class)| is_lost(class)) => {
                End::Aborted
            }
            OnLoss::Survivors { at_least } if proposal.arrived.len() < at_least as usize => {
                End::TooFew
            }
            _ => End::Completed,
        }
    }

    /// Whether the root is lost, so that the operation has no purpose: a scatter without the root's
    /// value, or a root that is gone and would get the values.
    fn has_lost_root(&self, proposal: &Proposal, gone: &Gone<I>) -> bool {
        let Some(root) = self.terms.verb.root() else {
            return false;
        };
        match self.terms.verb {
            Verb::Scatter { .. } => proposal.value(root).is_none(),
            _ => root != self.me && self.member(root).is_some_and(|root| gone.has(root)),
        }
    }

    /// Whether it is time to propose: the time of a caller is nearly over, no member is waited for
    /// any more, or waiting makes no difference.
    pub(super) fn is_ready(&self, gone: &Gone<I>) -> bool {
        if self.is_closed {
            return true;
        }
        let (mut pending, mut lost, mut is_root_lost) = (0, 0, false);
        for (place, member) in (0..).zip(self.terms.members.iter()) {
            let is_gone = place != self.me && gone.has(*member);
            let is_root = self.terms.verb.root() == Some(place);
            let arrival = self.arrivals.get(&place);
            let does_count = arrival.is_some_and(|arrival| self.counts(arrival, gone));
            let is_needed = !matches!(self.terms.verb, Verb::Scatter { .. }) || !does_count;
            is_root_lost |= is_root && is_gone && is_needed;
            match (does_count, is_gone) {
                (true, _) => {}
                (false, true) => lost += 1,
                (false, false) => pending += 1,
            }
        }
        let left = self.members() - lost;
        match self.terms.on_loss {
            OnLoss::Wait => pending + lost == 0,
            _ if is_root_lost => true,
            OnLoss::Abort => pending == 0 || lost > 0,
            OnLoss::Survivors { at_least } => pending == 0 || left < at_least as usize,
        }
    }

    /// The values that this member still has to fetch before its callers can go on.
    pub(super) fn needs(&self, proposal: &Proposal, gone: &Gone<I>) -> Vec<Item> {
        let me = self.me;
        let all_long = || -> Vec<Item> {
            let long = proposal.arrived.iter().filter(|(_, value)| is_long(value));
            long.map(|(member, _)| Item::Whole(*member)).collect()
        };
        let needed = match &self.terms.verb {
            _ if proposal.end != End::Completed => Vec::new(),
            Verb::Barrier => Vec::new(),
            Verb::Agree => {
                let first = proposal.arrived.iter().take(1);
                let long = first.filter(|(_, value)| is_long(value));
                long.map(|(member, _)| Item::Whole(*member)).collect()
            }
            Verb::AllGather => all_long(),
            Verb::Gather { root } | Verb::Reduce { root, .. } if *root == me => all_long(),
            Verb::Gather { .. } | Verb::Reduce { .. } => Vec::new(),
            Verb::Scatter { root } => match proposal.value(*root) {
                Some(value) if is_long(value) => vec![Item::Part { of: *root, to: me }],
                _ => Vec::new(),
            },
            Verb::AllToAll => {
                let long = proposal.arrived.iter().filter(|(_, value)| is_long(value));
                long.map(|(of, _)| Item::Part { of: *of, to: me }).collect()
            }
            Verb::AllReduce { op } => match op {
                _ if all_long().is_empty() || cannot_combine(proposal).is_some() => Vec::new(),
                super::reduce::Op::Numbers(..) if self.coordinator(gone) != me => {
                    vec![Item::Combined]
                }
                _ => all_long(),
            },
        };
        let is_here = |item: &Item| self.bytes_of(*item).is_none();
        needed.into_iter().filter(is_here).collect()
    }

    /// A value, if this member has it, as its own or from others.
    pub(super) fn bytes_of(&self, item: Item) -> Option<Bytes> {
        if let Some(bytes) = self.storage.get(item) {
            return Some(bytes.clone());
        }
        match item {
            Item::Whole(member) if member == self.me => self.own_counted(),
            Item::Whole(member) => {
                let decided = self.decided.as_ref().and_then(|all| all.value(member));
                let arrived = || Some(&self.arrivals.get(&member)?.value);
                match decided.or_else(arrived)? {
                    Value::Inline(bytes) => Some(bytes.clone()),
                    Value::Stored { .. } => None,
                }
            }
            Item::Part { of, to } => {
                let whole = self.bytes_of(Item::Whole(of))?;
                Some(storage::part_of(&whole, to))
            }
            Item::Combined => self.combine()?.ok(),
        }
    }

    /// The value of this member that counts, if it is here. A long value of a former life is not.
    fn own_counted(&self) -> Option<Bytes> {
        let decided = self.decided.as_ref().and_then(|all| all.value(self.me));
        let counted = decided.or_else(|| Some(&self.arrivals.get(&self.me)?.value));
        match (counted, &self.own) {
            (Some(Value::Inline(bytes)), _) => Some(bytes.clone()),
            (Some(value), Some((own, told))) if value == told => Some(own.clone()),
            _ => None,
        }
    }

    /// All values of the decided outcome combined, in the order of the list, if they are all here.
    /// If their lengths alone rule it out, the error is told without them.
    pub(super) fn combine(&self) -> Option<Result<Bytes, super::reduce::ReduceError>> {
        let (Verb::Reduce { op, .. } | Verb::AllReduce { op }) = &self.terms.verb else {
            return None;
        };
        let decided = self.decided.as_ref()?;
        if let (super::reduce::Op::Numbers(..), Some(error)) = (op, cannot_combine(decided)) {
            return Some(Err(error));
        }
        let mut all: Option<Vec<u8>> = None;
        for (member, _) in &decided.arrived {
            let value = self.bytes_of(Item::Whole(*member))?;
            match &mut all {
                None => all = Some(value.to_vec()),
                Some(all) => {
                    if let Err(error) = op.combine(all, &value) {
                        return Some(Err(error));
                    }
                }
            }
        }
        all.map(|all| Ok(all.into()))
    }

    /// How many bytes this operation holds.
    pub(super) fn bytes(&self) -> usize {
        let own = self.own.as_ref().map_or(0, |(own, _)| own.len());
        let voted = self
            .acceptor
            .voted()
            .map_or(0, |(_, proposal)| proposal.bytes());
        let decided = self.decided.as_ref().map_or(0, |proposal| proposal.bytes());
        let list = size_of_val(self.terms.members.as_slice());
        let arrivals = self.arrivals.values().map(|arrival| match &arrival.value {
            Value::Inline(bytes) => bytes.len() + 64,
            Value::Stored { .. } => 128,
        });
        own + voted + decided + list + arrivals.sum::<usize>() + self.storage.bytes() + 512
    }

    /// Whether the bounds allow this member to hold `size` bytes for the member at `place`, beside
    /// the values of all others that have come.
    pub(super) fn may_hold(&self, place: u32, size: u64) -> bool {
        let others = self.arrivals.iter().filter(|(other, _)| **other != place);
        let sizes = others.map(|(_, arrival)| arrival.value.size());
        let held = sizes.fold(0, u64::saturating_add);
        held.saturating_add(size) <= Config::MAX_HELD_BYTES as u64
    }
}

/// Why the values cannot be combined, by their lengths alone: all must be rows of equally many
/// numbers.
fn cannot_combine(proposal: &Proposal) -> Option<super::reduce::ReduceError> {
    use super::reduce::ReduceError;
    let sizes = proposal
        .arrived
        .iter()
        .map(|(_, value)| value.size() as usize);
    let first = sizes.clone().next()?;
    match sizes.clone().find(|size| *size != first) {
        Some(other) => Some(ReduceError::Lengths(first, other)),
        None => (first % 8 != 0).then_some(ReduceError::NotNumbers(first)),
    }
}

fn is_long(value: &Value) -> bool {
    matches!(value, Value::Stored { .. })
}
