//! The operations that a member keeps, within bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use binomesh_overlay::Id;
use serde::Serialize;

use super::Config;
use super::instance::Instance;
use super::message::OperationRefusal;
use super::terms::{Digest, Key, Name, Terms};

/// A name and its latest operations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Named<I> {
    /// The member that brought the name up: a peer, or this member itself.
    by: I,
    /// The greatest forgotten generation. This member votes in no generation up to it.
    floor: Option<u64>,
    generations: BTreeMap<u64, Instance<I>>,
}

/// The operations that a member keeps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Names<I> {
    names: BTreeMap<Name, Named<I>>,
    /// The key of each operation by its serial number, which timers have.
    serials: BTreeMap<u64, Key>,
    next_serial: u64,
    bytes: usize,
}

impl<I> Names<I> {
    pub(super) const fn new() -> Self {
        Self {
            names: BTreeMap::new(),
            serials: BTreeMap::new(),
            next_serial: 0,
            bytes: 0,
        }
    }
}

impl<I: Id> Names<I> {
    pub(super) fn get(&self, key: &Key) -> Option<&Instance<I>> {
        self.names.get(&key.name)?.generations.get(&key.generation)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Instance<I>> {
        let named = self.names.get_mut(&key.name)?;
        named.generations.get_mut(&key.generation)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Instance<I>> {
        self.names.values().flat_map(|n| n.generations.values())
    }

    pub(super) fn key_of(&self, serial: u64) -> Option<&Key> {
        self.serials.get(&serial)
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The greatest forgotten generation of a name.
    pub(super) fn floor(&self, name: &Name) -> Option<u64> {
        self.names.get(name)?.floor
    }

    pub(super) fn floors(&self) -> impl Iterator<Item = Key> + '_ {
        let forgotten = self.names.iter();
        forgotten.filter_map(|(name, named)| {
            Some(Key {
                name: name.clone(),
                generation: named.floor?,
            })
        })
    }

    /// The undecided operations that list `member`.
    pub(super) fn undecided_with(&self, member: I) -> Vec<Key> {
        let open = self.all().filter(|instance| instance.decided.is_none());
        let with = open.filter(|instance| instance.terms.members.contains(&member));
        with.map(|instance| instance.terms.key.clone()).collect()
    }

    /// All undecided operations.
    pub(super) fn undecided(&self) -> Vec<Key> {
        let open = self.all().filter(|instance| instance.decided.is_none());
        open.map(|instance| instance.terms.key.clone()).collect()
    }

    /// The operations that list `member` and in which this member has promised, voted, started a
    /// ballot, or learnt the outcome.
    pub(super) fn touched_with(&self, member: I) -> impl Iterator<Item = Key> + '_ {
        let touched = self.all().filter(|instance| {
            !instance.acceptor.is_untouched() || instance.has_polled || instance.decided.is_some()
        });
        let with = touched.filter(move |instance| instance.terms.members.contains(&member));
        with.map(|instance| instance.terms.key.clone())
    }

    /// Close an operation that was called by mistake, if this member has neither promised nor voted
    /// nor started a ballot in it, and no caller here waits for it.
    pub(super) fn close_if_untouched(&mut self, key: &Key) {
        let is_untouched = |instance: &Instance<I>| {
            instance.acceptor.is_untouched() && !instance.has_polled && instance.calls.is_empty()
        };
        if self.get(key).is_some_and(is_untouched) {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(named) = self.names.get_mut(&key.name) else {
            return;
        };
        if let Some(instance) = named.generations.remove(&key.generation) {
            self.serials.remove(&instance.serial);
            self.bytes -= instance.counted_bytes;
        }
    }

    /// Count again how many bytes an operation holds.
    pub(super) fn recount(&mut self, key: &Key) {
        let Some(instance) = self.get_mut(key) else {
            return;
        };
        let (before, now) = (instance.counted_bytes, instance.bytes());
        instance.counted_bytes = now;
        self.bytes = self.bytes + now - before;
    }

    /// Forget operations until the bounds hold: the bound of bytes, and that of generations for the
    /// name of `kept`. The operation `kept` stays. So does each operation with a caller here, with
    /// the later ones of its name. So a bound may be exceeded.
    pub(super) fn forget_beyond(&mut self, config: &Config, kept: Option<&Key>) {
        if let Some(key) = kept {
            while let Some(named) = self.names.get(&key.name)
                && named.generations.len() > Config::MAX_GENERATIONS
                && self.forget_oldest_of(&key.name, kept)
            {}
        }
        self.forget_down_to(config.max_bytes, kept);
    }

    /// Forget operations without a caller here until `bytes` more have room, if possible.
    pub(super) fn make_room(&mut self, bytes: usize, config: &Config) {
        self.forget_down_to(config.max_bytes.saturating_sub(bytes), None);
    }

    fn forget_down_to(&mut self, bytes: usize, kept: Option<&Key>) {
        if self.bytes <= bytes {
            return;
        }
        let all = self
            .all()
            .map(|instance| (instance.serial, &instance.terms.key.name));
        let mut all: Vec<(u64, Name)> = all.map(|(serial, name)| (serial, name.clone())).collect();
        all.sort_unstable();
        for (_, name) in all {
            if self.bytes <= bytes {
                return;
            }
            self.forget_oldest_of(&name, kept);
        }
    }

    /// Forget the smallest generation of a name. Returns false if there is none, or if it must stay
    /// because a caller waits for it or it is `kept`; then all later ones stay too.
    fn forget_oldest_of(&mut self, name: &Name, kept: Option<&Key>) -> bool {
        let Some(named) = self.names.get_mut(name) else {
            return false;
        };
        let Some((&generation, instance)) = named.generations.first_key_value() else {
            return false;
        };
        let key = instance.terms.key.clone();
        if !instance.calls.is_empty() || Some(&key) == kept {
            return false;
        }
        named.floor = named.floor.max(Some(generation));
        self.remove(&key);
        true
    }
}

impl<I: Id + Serialize> Names<I> {
    /// The terms of an unknown operation, if they equal those of the latest one of its name in all
    /// but the generation.
    pub(super) fn next_terms(&self, key: &Key, digest: &Digest) -> Option<Terms<I>> {
        let named = self.names.get(&key.name)?;
        let (_, latest) = named.generations.last_key_value()?;
        let mut terms = latest.terms.as_ref().clone();
        terms.key.generation = key.generation;
        (terms.digest() == *digest).then_some(terms)
    }

    /// Open another operation, which the member `by` brought up.
    pub(super) fn open(
        &mut self,
        by: I,
        terms: Arc<Terms<I>>,
        me: u32,
        config: &Config,
    ) -> Result<(), OperationRefusal> {
        let key = terms.key.clone();
        let is_own = terms.members.get(me as usize) == Some(&by);
        if let Some(floor) = self.floor(&key.name)
            && key.generation <= floor
        {
            return Err(OperationRefusal::TooOld { floor });
        }
        if !self.names.contains_key(&key.name) {
            let of_peer = self.names.values().filter(|named| named.by == by).count();
            let is_greedy = !is_own && of_peer >= config.max_names_per_peer;
            if self.names.len() >= config.max_names || is_greedy {
                return Err(OperationRefusal::Full);
            }
        }
        let new = || Named {
            by,
            floor: None,
            generations: BTreeMap::new(),
        };
        let named = self.names.entry(key.name.clone()).or_insert_with(new);
        // If the name is full: a generation older than all that are kept would be the next to be
        // forgotten. A newer one must not push out a generation that has a caller here.
        let first = named.generations.first_key_value();
        let is_old = first.is_some_and(|(first, _)| key.generation < *first);
        let is_full = named.generations.len() >= Config::MAX_GENERATIONS;
        if is_full && is_old {
            let floor = key.generation;
            return Err(OperationRefusal::TooOld { floor });
        }
        if is_full && first.is_some_and(|(_, instance)| !instance.calls.is_empty()) {
            return Err(OperationRefusal::Full);
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        let digest = terms.digest();
        let instance = Instance::new(serial, terms, digest, me);
        named.generations.insert(key.generation, instance);
        self.serials.insert(serial, key);
        Ok(())
    }
}
