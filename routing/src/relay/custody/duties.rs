//! The duties of a node, counted, and found by number, message or epoch.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use binomesh_overlay::{Epoch, Id};

use super::duty::{Duty, DutyKey};
use crate::packet::PacketId;
use crate::relay::Config;

/// The duties of a node by number, which timers name. The caller checks the bounds with
/// [`Duties::has_room`] before it adds a duty that needs room.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Duties<I> {
    duties: BTreeMap<u64, DutySlot<I>>,
    /// The numbers of each message's duties, in all epochs; usually few.
    index: BTreeMap<PacketId<I>, Vec<u64>>,
    open: BTreeSet<u64>,
    finished: BTreeSet<u64>,
    /// How many open duties are taken out.
    taken: usize,
    /// How many open duties are for others, those that are taken out not counted.
    relayed: usize,
    /// How many parts the duties that `relayed` counts have handed on.
    delegations: usize,
    bytes: usize,
}

/// The place of a duty in the list. It stays while the duty is taken out, so that no list changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DutySlot<I> {
    /// The duty; none while it is taken out.
    duty: Option<Box<Duty<I>>>,
    /// Whether the duty is in the list of open duties, and not of finished ones.
    is_open: bool,
}

impl<I: Id> Duties<I> {
    pub(super) const fn new() -> Self {
        Self {
            duties: BTreeMap::new(),
            index: BTreeMap::new(),
            open: BTreeSet::new(),
            finished: BTreeSet::new(),
            taken: 0,
            relayed: 0,
            delegations: 0,
            bytes: 0,
        }
    }

    /// How many duties are open and not taken out, own ones included.
    pub(super) fn open_count(&self) -> usize {
        self.open.len() - self.taken
    }

    /// How many duties for others are open.
    pub(super) fn relayed_count(&self) -> usize {
        self.relayed
    }

    /// Bytes of payloads, names and signatures that open duties for others hold. Own messages have
    /// a bound of their own, since they must not keep a node from serving others.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many parts the open duties for others have handed on.
    pub(super) fn delegations(&self) -> usize {
        self.delegations
    }

    pub(super) fn has_room(&self, bytes: usize, config: &Config) -> bool {
        self.relayed < config.max_duties
            && self.delegations < config.max_delegations
            && self.may_grow(bytes, config)
    }

    /// Whether the open duties may hold this many bytes more.
    pub(super) fn may_grow(&self, bytes: usize, config: &Config) -> bool {
        bytes == 0 || self.bytes.saturating_add(bytes) <= config.max_duty_bytes
    }

    pub(super) fn find(&self, key: &DutyKey<I>) -> Option<u64> {
        let of_id = self.index.get(&key.id).into_iter().flatten().copied();
        let has_key = |number: &u64| self.get(*number).is_some_and(|duty| duty.key == *key);
        of_id.into_iter().find(has_key)
    }

    /// The numbers of a message's duties in an epoch.
    pub(super) fn of_message(&self, id: PacketId<I>, epoch: Epoch<I>) -> Vec<u64> {
        let in_epoch = |number: &u64| {
            self.get(*number)
                .is_some_and(|duty| duty.key.epoch == epoch)
        };
        let of_id = self.index.get(&id).into_iter().flatten().copied();
        of_id.filter(in_epoch).collect()
    }

    /// The numbers of a message's duties in all epochs.
    pub(super) fn of_id(&self, id: PacketId<I>) -> Vec<u64> {
        self.index.get(&id).cloned().unwrap_or_default()
    }

    /// Whether a duty of this message is open in any epoch.
    pub(super) fn is_open(&self, id: PacketId<I>) -> bool {
        let of_id = self.index.get(&id).into_iter().flatten();
        let is_open = |number: &u64| self.get(*number).is_some_and(|duty| !duty.is_finished);
        of_id.into_iter().any(is_open)
    }

    /// The numbers of the open duties, including those that are taken out.
    pub(super) fn open_numbers(&self) -> Vec<u64> {
        self.open.iter().copied().collect()
    }

    /// The numbers of all duties of an epoch.
    pub(super) fn of_epoch(&self, epoch: Epoch<I>) -> Vec<u64> {
        let is_of = |place: &DutySlot<I>| {
            let duty = place.duty.as_ref();
            duty.is_some_and(|duty| duty.key.epoch == epoch)
        };
        let kept = self.duties.iter().filter(|(_, place)| is_of(place));
        kept.map(|(number, _)| *number).collect()
    }

    /// The numbers of the duties for messages of the origin and boot in `id` below the sequence
    /// `closed_below`, except for kept messages.
    pub(super) fn below(&self, id: PacketId<I>, closed_below: u64) -> Vec<u64> {
        let at = |sequence| PacketId { sequence, ..id };
        let closed = self.index.range(at(0)..at(closed_below));
        let closed = closed.flat_map(|(_, numbers)| numbers).copied();
        let is_kept = |number| self.get(number).is_some_and(|duty| duty.is_kept);
        closed.filter(|number| !is_kept(*number)).collect()
    }

    /// The origins of all messages with an open duty.
    pub(super) fn open_origins(&self) -> BTreeSet<I> {
        let open = self.open.iter().filter_map(|number| self.get(*number));
        open.map(|duty| duty.key.id.origin).collect()
    }

    pub(super) fn get(&self, number: u64) -> Option<&Duty<I>> {
        self.duties.get(&number)?.duty.as_deref()
    }

    /// Take a duty out to work on it; [`Duties::put`] brings it back.
    pub(super) fn take(&mut self, number: u64) -> Option<Box<Duty<I>>> {
        let place = self.duties.get_mut(&number)?;
        let duty = place.duty.take()?;
        if place.is_open {
            self.taken += 1;
            if !duty.is_own {
                self.relayed -= 1;
                self.delegations -= duty.delegations.len();
                self.bytes -= duty.bytes();
            }
        }
        Some(duty)
    }

    /// Put a duty in or back. Beyond `max_finished` finished duties the oldest is forgotten.
    pub(super) fn put(&mut self, duty: Box<Duty<I>>, config: &Config) {
        let (number, id, is_open) = (duty.number, duty.key.id, !duty.is_finished);
        if is_open && !duty.is_own {
            self.relayed += 1;
            self.delegations += duty.delegations.len();
            self.bytes += duty.bytes();
        }
        let duty = Some(duty);
        let former = match self.duties.entry(number) {
            Entry::Occupied(mut place) => Some(place.insert(DutySlot { duty, is_open })),
            Entry::Vacant(place) => {
                place.insert(DutySlot { duty, is_open });
                self.index.entry(id).or_default().push(number);
                None
            }
        };
        if let Some(place) = &former
            && place.is_open
            && place.duty.is_none()
        {
            self.taken -= 1;
        }
        let was_open = former.map(|place| place.is_open);
        if was_open != Some(is_open) {
            self.move_to(number, is_open);
        }
        while self.finished.len() > config.max_finished {
            let oldest = self.finished.pop_first();
            oldest.map(|number| self.forget(number));
        }
    }

    /// Move a duty to the list of open duties, or of finished ones.
    fn move_to(&mut self, number: u64, is_open: bool) {
        let (from, to) = match is_open {
            true => (&mut self.finished, &mut self.open),
            false => (&mut self.open, &mut self.finished),
        };
        from.remove(&number);
        to.insert(number);
    }

    /// Forget a duty. The caller disarms its timers.
    pub(super) fn forget(&mut self, number: u64) -> Option<Box<Duty<I>>> {
        let duty = self.take(number)?;
        let place = self.duties.remove(&number);
        if place.is_some_and(|place| place.is_open) {
            self.taken -= 1;
            self.open.remove(&number);
        } else {
            self.finished.remove(&number);
        }
        if let Some(of_id) = self.index.get_mut(&duty.key.id) {
            of_id.retain(|other| *other != number);
            if of_id.is_empty() {
                self.index.remove(&duty.key.id);
            }
        }
        Some(duty)
    }
}
