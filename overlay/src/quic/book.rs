//! The contact book: who can be found where.
//!
//! Trust comes in three steps: what the operator configured, what an
//! authenticated peer said of itself, and hearsay from introductions. Hearsay
//! never overrides the others; it is kept beside them and dialled last. A wrong
//! address costs a refused dial, never a wrong peer: the certificate decides.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use metrics::Counter;
use serde::{Deserialize, Serialize};

use crate::PeerId;

/// The longest name of a peer, in bytes.
pub const NAME_MAX: usize = 128;
/// The most addresses that a contact holds.
pub const ADDRESSES_MAX: usize = 4;

/// Where a peer can be found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Contact {
    /// Who it is.
    pub id: PeerId,
    /// What it is called, at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Where to dial it, the best first, at most [`ADDRESSES_MAX`].
    pub addresses: Vec<SocketAddr>,
}

impl Contact {
    /// Whether name and addresses are within their bounds and can be dialled.
    pub fn is_within_bounds(&self) -> bool {
        self.name.len() <= NAME_MAX
            && self.addresses.len() <= ADDRESSES_MAX
            && self.addresses.iter().all(is_dialable)
    }
}

/// Whether an address names one host and port.
pub(super) fn is_dialable(address: &SocketAddr) -> bool {
    address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast()
}

/// A dial of a peer that this node saw end: (the dialler's boot, its attempt).
pub(super) type EndedDial = (u64, u64);

#[derive(Debug, Clone, Default)]
struct Entry {
    name: String,
    configured: Vec<SocketAddr>,
    authenticated: Vec<SocketAddr>,
    hearsay: Vec<SocketAddr>,
    linked: bool,
    ended: Option<EndedDial>,
    used: u64,
}

impl Entry {
    /// Kept whatever happens.
    fn is_pinned(&self) -> bool {
        self.linked || !self.configured.is_empty()
    }

    fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let lists = [&self.authenticated, &self.configured, &self.hearsay];
        lists.into_iter().flatten().copied()
    }
}

/// Contacts by id. When full, the hearsay used longest ago makes room; when all
/// are configured or linked, newcomers are turned away.
#[derive(Debug)]
pub(super) struct Book {
    entries: BTreeMap<PeerId, Entry>,
    capacity: usize,
    clock: u64,
    /// Counts those that made room.
    forgotten: Counter,
}

impl Book {
    pub(super) fn new(capacity: usize, forgotten: Counter) -> Self {
        Self {
            entries: BTreeMap::new(),
            capacity,
            clock: 0,
            forgotten,
        }
    }

    /// What the operator says. Returns whether there was room.
    pub(super) fn configure(&mut self, contact: Contact) -> bool {
        self.update(contact.id, |entry| {
            if entry.authenticated.is_empty() {
                entry.name = contact.name;
            }
            entry.configured = contact.addresses;
        })
    }

    /// What the peer itself said over an authenticated link that is now up.
    pub(super) fn authenticate(&mut self, contact: Contact) -> bool {
        self.update(contact.id, |entry| {
            entry.name = contact.name;
            entry.authenticated = contact.addresses;
            entry.linked = true;
        })
    }

    /// What somebody else said.
    pub(super) fn hear(&mut self, contact: Contact) -> bool {
        self.update(contact.id, |entry| {
            if entry.name.is_empty() {
                entry.name = contact.name;
            }
            entry.hearsay = contact.addresses;
        })
    }

    /// A link ended. Whether it was the last one, and the peer's own dial behind
    /// it, so that the next greeting can tell the peer.
    pub(super) fn end_link(&mut self, id: PeerId, ended: Option<EndedDial>, last: bool) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.linked &= !last;
            entry.ended = entry.ended.max(ended);
        }
    }

    /// The newest dial of this peer that ended here.
    pub(super) fn ended(&self, id: PeerId) -> Option<EndedDial> {
        self.entries.get(&id).and_then(|entry| entry.ended)
    }

    /// Where to dial, the best known first, without repetition.
    pub(super) fn addresses(&mut self, id: PeerId) -> Vec<SocketAddr> {
        self.clock += 1;
        let Some(entry) = self.entries.get_mut(&id) else {
            return Vec::new();
        };
        entry.used = self.clock;
        let mut addresses = Vec::new();
        for address in entry.addresses() {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// The contact to hand out, `None` if no address is known.
    pub(super) fn contact(&mut self, id: PeerId) -> Option<Contact> {
        let mut addresses = self.addresses(id);
        addresses.truncate(ADDRESSES_MAX);
        let name = self.entries.get(&id)?.name.clone();
        (!addresses.is_empty()).then_some(Contact {
            id,
            name,
            addresses,
        })
    }

    /// Whether there is an address to dial.
    pub(super) fn is_known(&self, id: PeerId) -> bool {
        let entry = self.entries.get(&id);
        entry.is_some_and(|entry| entry.addresses().next().is_some())
    }

    fn update(&mut self, id: PeerId, change: impl FnOnce(&mut Entry)) -> bool {
        self.clock += 1;
        if !self.entries.contains_key(&id) && self.entries.len() >= self.capacity {
            let unpinned = self.entries.iter().filter(|(_, entry)| !entry.is_pinned());
            let oldest = unpinned.min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(id, _)| *id) else {
                return false;
            };
            self.entries.remove(&oldest);
            self.forgotten.increment(1);
        }
        let entry = self.entries.entry(id).or_default();
        entry.used = self.clock;
        change(entry);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(id: u8, port: u16) -> Contact {
        Contact {
            id: PeerId::from_bytes([id; 16]),
            name: format!("node-{id}"),
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], port))],
        }
    }

    fn ports(book: &mut Book, id: u8) -> Vec<u16> {
        let addresses = book.addresses(PeerId::from_bytes([id; 16]));
        addresses.iter().map(SocketAddr::port).collect()
    }

    #[test]
    fn hearsay_comes_after_what_the_peer_said() {
        let mut book = Book::new(4, Counter::noop());
        assert!(book.authenticate(contact(1, 10)));
        assert!(book.hear(contact(1, 66)));
        assert_eq!(ports(&mut book, 1), [10, 66]);
        assert!(book.authenticate(contact(1, 11)));
        assert_eq!(ports(&mut book, 1), [11, 66]);
    }

    #[test]
    fn a_full_book_forgets_old_hearsay_only() {
        let mut book = Book::new(3, Counter::noop());
        assert!(book.configure(contact(1, 1)));
        assert!(book.authenticate(contact(2, 2)));
        assert!(book.hear(contact(3, 3)));
        assert!(book.hear(contact(4, 4)));
        assert_eq!(ports(&mut book, 1), [1]);
        assert_eq!(ports(&mut book, 2), [2]);
        assert!(ports(&mut book, 3).is_empty());
        assert_eq!(ports(&mut book, 4), [4]);
        assert!(book.configure(contact(4, 4)));
        assert!(!book.hear(contact(5, 5)), "all are pinned");
    }
}
