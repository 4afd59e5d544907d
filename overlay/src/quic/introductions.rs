//! The contacts that a stream has told, so that each is told once.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::book::Contact;
use crate::PeerId;

/// The contacts told on one stream; the one unused for longest is forgotten first. The memory is
/// per stream, since streams overtake each other: a contact must not come later than the frame that
/// needs it.
pub(super) struct Introductions {
    contacts: BTreeMap<PeerId, (u64, u64)>,
    uses: BTreeSet<(u64, PeerId)>,
    clock: u64,
    capacity: usize,
}

impl Introductions {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            contacts: BTreeMap::new(),
            uses: BTreeSet::new(),
            clock: 0,
            capacity,
        }
    }

    /// Whether exactly this contact is remembered as told. If so, it counts as used now.
    pub(super) fn has(&mut self, contact: &Contact) -> bool {
        let digest = digest(contact);
        let known = self.contacts.get(&contact.id);
        let has = known.is_some_and(|(introduced, _)| *introduced == digest);
        if has {
            self.note(contact);
        }
        has
    }

    /// Note that the contact is told now.
    pub(super) fn note(&mut self, contact: &Contact) {
        self.clock += 1;
        let entry = (digest(contact), self.clock);
        if let Some((_, used)) = self.contacts.insert(contact.id, entry) {
            self.uses.remove(&(used, contact.id));
        }
        self.uses.insert((self.clock, contact.id));
        while self.uses.len() > self.capacity {
            if let Some((_, oldest)) = self.uses.pop_first() {
                self.contacts.remove(&oldest);
            }
        }
    }
}

fn digest(contact: &Contact) -> u64 {
    let mut hasher = DefaultHasher::new();
    contact.hash(&mut hasher);
    hasher.finish()
}
