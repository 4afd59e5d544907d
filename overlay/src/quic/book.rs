//! The contact book: the addresses and names of peers.
//!
//! Trust comes in three steps: the configuration of the operator, the word of an authenticated peer
//! about itself, and hearsay from introductions. Hearsay never overrides the other two: it is kept
//! beside them and dialled last. Nor does hearsay replace the [`ADDRESSES_MAX`] addresses that were
//! heard first: only later ones displace each other. A wrong address costs a refused dial, never a
//! wrong peer: the certificate decides.
//!
//! The address of a peer's metrics is kept by life: while the peer has no link here, hearsay about
//! a newer life replaces all words about an older one. The word of the peer itself over a link
//! replaces all hearsay.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use metrics::Counter;
use serde::{Deserialize, Serialize};

use super::location::Location;
use super::lookup::RESOLVED_MAX;
use super::metrics_address::MetricsWord;
use crate::PeerId;
use crate::lives::BOOT_MAX;

/// The longest name of a peer, in bytes.
pub const NAME_MAX: usize = 128;
/// The most addresses that a contact holds.
pub const ADDRESSES_MAX: usize = 4;
/// The most hearsay addresses that are kept of a peer: half of them are the first heard, half the
/// last heard.
const HEARSAY_MAX: usize = 2 * ADDRESSES_MAX;

/// The identity, name and addresses of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Contact {
    /// The identity of the peer.
    pub id: PeerId,
    /// The name of the peer, at most [`NAME_MAX`] bytes.
    pub name: String,
    /// The addresses to dial, the best first: at least one, at most [`ADDRESSES_MAX`].
    pub addresses: Vec<SocketAddr>,
    /// The last known statement about the address of the peer's metrics: its own, or hearsay.
    pub metrics: Option<MetricsWord>,
}

impl Contact {
    /// Whether the name, the life in the word about metrics, and the addresses are within their
    /// bounds, and the addresses can be dialled.
    pub fn is_within_bounds(&self) -> bool {
        self.name.len() <= NAME_MAX
            && self.metrics.is_none_or(|word| word.boot <= BOOT_MAX)
            && (1..=ADDRESSES_MAX).contains(&self.addresses.len())
            && self.addresses.iter().all(is_dialable)
    }
}

/// Whether the told word about metrics is of a newer life than the known one; no if there is no
/// told word.
fn is_newer(told: Option<MetricsWord>, known: Option<MetricsWord>) -> bool {
    told.map(|word| word.boot) > known.map(|word| word.boot)
}

/// Whether an address names one host and port.
pub(super) fn is_dialable(address: &SocketAddr) -> bool {
    address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast()
}

/// Whether an address is complete only together with an interface of the host that uses it.
pub(super) fn is_link_local(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(address) if address.ip().is_unicast_link_local())
}

/// A dial by a peer that this node saw end: (the dialler's boot, its attempt).
pub(super) type EndedDial = (u64, u64);

#[derive(Debug, Clone, Default)]
struct Entry {
    name: String,
    configured: Vec<Location>,
    /// The addresses of the configured names, as last looked up.
    resolved: Vec<SocketAddr>,
    authenticated: Vec<SocketAddr>,
    /// Hearsay addresses, the last heard first.
    hearsay: Vec<SocketAddr>,
    /// The word of the peer itself over the last link, or hearsay of a life newer than all before.
    metrics: Option<MetricsWord>,
    linked: bool,
    ended: Option<EndedDial>,
    used: u64,
}

impl Entry {
    /// Whether the entry is kept whatever happens.
    fn is_pinned(&self) -> bool {
        self.linked || !self.configured.is_empty()
    }

    /// The turn of the entry among those that may have to make room, the smallest first: hearsay
    /// before the word of a peer about itself, then by last use.
    fn turn(&self, id: PeerId) -> Option<Turn> {
        let is_verified = !self.authenticated.is_empty();
        (!self.is_pinned()).then_some((is_verified, self.used, id))
    }

    /// New addresses displace each other, never the addresses that were heard first.
    fn hear(&mut self, address: SocketAddr) {
        if self.hearsay.contains(&address) {
            return;
        }
        if self.hearsay.len() >= HEARSAY_MAX {
            self.hearsay.remove(HEARSAY_MAX - ADDRESSES_MAX - 1);
        }
        self.hearsay.insert(0, address);
    }

    /// The addresses of the peer, the best first. A name that was just looked up is more reliable
    /// than the peer's own word, which may be older than a change of address. Of several resolved
    /// addresses those that the peer itself has named are the best.
    fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let is_resolved = |address: &&SocketAddr| self.resolved.contains(address);
        let confirmed = self.authenticated.iter().filter(is_resolved).copied();
        let resolved = self.resolved.iter().copied();
        let said = self.authenticated.iter().copied();
        let configured = self.configured.iter().filter_map(Location::address);
        let heard = self.hearsay.iter().copied();
        confirmed
            .chain(resolved)
            .chain(said)
            .chain(configured)
            .chain(heard)
    }
}

/// The turn of an entry: whether it is verified, its last use, its id.
type Turn = (bool, u64, PeerId);

/// Contacts by id. When the book is full, the hearsay used longest ago makes room; without hearsay,
/// the verified contact used longest ago. When all contacts are configured or linked, newcomers are
/// turned away.
#[derive(Debug)]
pub(super) struct Book {
    entries: BTreeMap<PeerId, Entry>,
    /// The turns of all entries that are not pinned. With them no search is needed to make room,
    /// since every send waits for this book.
    turns: BTreeSet<Turn>,
    capacity: usize,
    /// The prefix of all members' URIs.
    form: String,
    clock: u64,
    /// The counter of contacts that had to make room.
    forgotten: Counter,
}

impl Book {
    pub(super) fn new(capacity: usize, form: &str, forgotten: Counter) -> Self {
        Self {
            entries: BTreeMap::new(),
            turns: BTreeSet::new(),
            capacity,
            form: form.to_owned(),
            clock: 0,
            forgotten,
        }
    }

    /// Take the locations that the operator configured. Returns whether there was room.
    pub(super) fn configure(&mut self, id: PeerId, name: String, at: Vec<Location>) -> bool {
        self.update(id, |entry| {
            if entry.authenticated.is_empty() {
                entry.name = name;
            }
            entry.configured = at;
            entry.resolved.clear();
        })
    }

    /// The configured host names of a peer, which are looked up before a dial.
    pub(super) fn names(&self, id: PeerId) -> Vec<(String, u16)> {
        let entry = self.entries.get(&id);
        let configured = entry.into_iter().flat_map(|entry| &entry.configured);
        let name = |location: &Location| match location {
            Location::Name { host, port } => Some((host.clone(), *port)),
            Location::Address(_) => None,
        };
        configured.filter_map(name).collect()
    }

    /// Take the addresses that a peer's configured names have.
    pub(super) fn resolve(&mut self, id: PeerId, mut addresses: Vec<SocketAddr>) {
        addresses.truncate(RESOLVED_MAX);
        self.change(id, |entry| entry.resolved = addresses);
    }

    /// Take the word of the peer about itself, over an authenticated link that is now up. Returns
    /// whether there was room.
    pub(super) fn authenticate(&mut self, contact: Contact) -> bool {
        self.update(contact.id, |entry| {
            entry.name = contact.name;
            entry.authenticated = contact.addresses;
            entry.metrics = contact.metrics;
            entry.linked = true;
        })
    }

    /// Take hearsay about a peer. Returns whether there was room. The id is the hash of the URI
    /// that ends in the name, so a wrong name is recognized and not believed.
    pub(super) fn hear(&mut self, contact: Contact) -> bool {
        let is_right = PeerId::of_uri(&format!("{}{}", self.form, contact.name)) == contact.id;
        self.update(contact.id, |entry| {
            if entry.name.is_empty() && is_right {
                entry.name = contact.name;
            }
            // Of a peer far away there is no other word. A linked peer speaks for itself.
            if !entry.linked && is_newer(contact.metrics, entry.metrics) {
                entry.metrics = contact.metrics;
            }
            // The best address goes in last, to be dialled first.
            contact
                .addresses
                .into_iter()
                .rev()
                .for_each(|a| entry.hear(a));
        })
    }

    /// A link ended; `last` says whether the peer now has no current link. If the peer dialled the
    /// link, `ended` is that dial, to be told to the peer in the next greeting.
    pub(super) fn end_link(&mut self, id: PeerId, ended: Option<EndedDial>, last: bool) {
        self.change(id, |entry| {
            entry.linked &= !last;
            entry.ended = match (entry.ended, ended) {
                (Some((life, before)), Some((same, attempt))) if life == same => {
                    Some((life, before.max(attempt)))
                }
                (before, ended) => ended.or(before),
            };
        });
    }

    /// The newest dial of this peer that ended here.
    pub(super) fn ended(&self, id: PeerId) -> Option<EndedDial> {
        self.entries.get(&id).and_then(|entry| entry.ended)
    }

    /// The addresses to dial, the best first, without repetition.
    pub(super) fn addresses(&mut self, id: PeerId) -> Vec<SocketAddr> {
        self.clock += 1;
        let clock = self.clock;
        let mut addresses = Vec::new();
        self.change(id, |entry| {
            entry.used = clock;
            for address in entry.addresses() {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        });
        addresses
    }

    /// The contact to tell other nodes, `None` if no address is known.
    pub(super) fn contact(&mut self, id: PeerId) -> Option<Contact> {
        let mut addresses = self.addresses(id);
        addresses.truncate(ADDRESSES_MAX);
        let entry = self.entries.get(&id)?;
        let (name, metrics) = (entry.name.clone(), entry.metrics);
        (!addresses.is_empty()).then_some(Contact {
            id,
            name,
            addresses,
            metrics,
        })
    }

    /// The known word about this peer's metrics, by itself or by hearsay.
    pub(super) fn metrics(&self, id: PeerId) -> Option<MetricsWord> {
        self.entries.get(&id)?.metrics
    }

    /// Whether the operator has named this peer.
    pub(super) fn is_configured(&self, id: PeerId) -> bool {
        let entry = self.entries.get(&id);
        entry.is_some_and(|entry| !entry.configured.is_empty())
    }

    /// The name of this peer.
    pub(super) fn name(&self, id: PeerId) -> Option<String> {
        let entry = self.entries.get(&id).filter(|entry| !entry.name.is_empty());
        entry.map(|entry| entry.name.clone())
    }

    /// The name of the peer at this address, as the peer itself or the operator has said. If no
    /// peer is known at this port, the name of the only peer at this host.
    pub(super) fn name_at(&self, at: SocketAddr) -> Option<String> {
        let only = |is_it: &dyn Fn(&SocketAddr) -> bool| {
            let is_there = |entry: &&Entry| {
                let said = entry.authenticated.iter().chain(&entry.resolved).copied();
                let configured = entry.configured.iter().filter_map(Location::address);
                said.chain(configured).any(|address| is_it(&address))
            };
            let mut there = self.entries.values().filter(is_there);
            let first = there.next()?;
            there.next().is_none().then(|| first.name.clone())
        };
        only(&|address| *address == at).or_else(|| only(&|address| address.ip() == at.ip()))
    }

    /// Whether the peer itself last named exactly these addresses.
    pub(super) fn is_authenticated(&self, id: PeerId, addresses: &[SocketAddr]) -> bool {
        let entry = self.entries.get(&id);
        entry.is_some_and(|entry| entry.authenticated == addresses)
    }

    /// Whether an address to dial or a name to look up is known.
    pub(super) fn is_known(&self, id: PeerId) -> bool {
        let is_known =
            |entry: &Entry| !entry.configured.is_empty() || entry.addresses().next().is_some();
        self.entries.get(&id).is_some_and(is_known)
    }

    fn update(&mut self, id: PeerId, change: impl FnOnce(&mut Entry)) -> bool {
        if !self.entries.contains_key(&id) {
            if self.entries.len() >= self.capacity && !self.make_room() {
                return false;
            }
            self.entries.insert(id, Entry::default());
        }
        self.clock += 1;
        let clock = self.clock;
        self.change(id, |entry| {
            entry.used = clock;
            change(entry);
        });
        true
    }

    fn make_room(&mut self) -> bool {
        let Some((.., oldest)) = self.turns.pop_first() else {
            return false;
        };
        self.entries.remove(&oldest);
        self.forgotten.increment(1);
        true
    }

    /// Change an entry, if it exists, and update its turn.
    fn change(&mut self, id: PeerId, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(&id) {
            if let Some(turn) = entry.turn(id) {
                self.turns.remove(&turn);
            }
            change(entry);
            self.turns.extend(entry.turn(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics_address::MetricsAddress;
    use super::*;

    const FORM: &str = "spiffe://test/node/";

    fn contact(id: u8, port: u16) -> Contact {
        Contact {
            id: PeerId::from_bytes([id; 16]),
            name: format!("node-{id}"),
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], port))],
            metrics: None,
        }
    }

    fn configured(book: &mut Book, contact: Contact) -> bool {
        let at = contact.addresses.into_iter().map(Location::Address);
        book.configure(contact.id, contact.name, at.collect())
    }

    fn ports(book: &mut Book, id: u8) -> Vec<u16> {
        let addresses = book.addresses(PeerId::from_bytes([id; 16]));
        addresses.iter().map(SocketAddr::port).collect()
    }

    #[test]
    fn a_stranger_is_likely_the_one_peer_at_its_address() {
        let mut book = Book::new(4, FORM, Counter::noop());
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert!(book.hear(contact(3, 30)));
        assert_eq!(book.name_at(at(30)), None, "hearsay says nothing");
        assert!(book.authenticate(contact(1, 10)));
        assert_eq!(book.name_at(at(99)).as_deref(), Some("node-1"));
        assert_eq!(book.name_at(([127, 0, 0, 2], 10).into()), None);
        assert!(configured(&mut book, contact(2, 20)));
        assert_eq!(book.name_at(at(20)).as_deref(), Some("node-2"));
        assert_eq!(book.name_at(at(99)), None, "two are there");
        assert!(book.is_configured(contact(2, 20).id));
        assert!(!book.is_configured(contact(1, 10).id));
    }

    #[test]
    fn a_name_that_somebody_else_says_is_checked_against_the_id() {
        let mut book = Book::new(4, FORM, Counter::noop());
        let id = PeerId::of_uri(&format!("{FORM}node-1"));
        let said = |book: &mut Book, name: &str| {
            let name = name.to_owned();
            assert!(book.hear(Contact {
                id,
                name,
                ..contact(1, 10)
            }));
            book.name(id)
        };
        for false_name in ["node-0", "", "node-1\nnode-2", "../node-1"] {
            assert_eq!(said(&mut book, false_name), None, "{false_name}");
        }
        assert_eq!(said(&mut book, "node-1").as_deref(), Some("node-1"));
        assert_eq!(said(&mut book, "node-0").as_deref(), Some("node-1"));
        assert_eq!(
            book.addresses(id).len(),
            1,
            "addresses are kept all the same"
        );
    }

    #[test]
    fn hearsay_comes_after_the_addresses_that_the_peer_itself_told() {
        let mut book = Book::new(4, FORM, Counter::noop());
        assert!(book.authenticate(contact(1, 10)));
        assert!(book.hear(contact(1, 66)));
        assert_eq!(ports(&mut book, 1), [10, 66]);
        assert!(book.authenticate(contact(1, 11)));
        assert_eq!(ports(&mut book, 1), [11, 66]);
    }

    #[test]
    fn a_word_on_metrics_gives_way_to_one_of_a_newer_life_and_to_the_peers_own() {
        let mut book = Book::new(4, FORM, Counter::noop());
        let said = |boot, port: Option<u16>| Contact {
            metrics: Some(MetricsWord {
                boot,
                at: port.map(|port| MetricsAddress {
                    ip: None,
                    port,
                    is_tls: false,
                }),
            }),
            ..contact(1, 10)
        };
        let id = contact(1, 10).id;
        let port = |book: &mut Book| {
            let contact = book.contact(id).expect("known");
            contact.metrics.and_then(|word| word.at).map(|at| at.port)
        };
        let after_hearing = |book: &mut Book, boot, told| {
            assert!(book.hear(said(boot, told)));
            port(book)
        };
        assert_eq!(after_hearing(&mut book, 5, Some(1)), Some(1));
        assert_eq!(after_hearing(&mut book, 5, Some(2)), Some(1), "same life");
        assert_eq!(after_hearing(&mut book, 4, None), Some(1), "an older one");
        assert!(book.hear(contact(1, 10)));
        assert_eq!(port(&mut book), Some(1), "who knows nothing says nothing");
        assert_eq!(after_hearing(&mut book, 6, None), None, "it is withdrawn");
        assert_eq!(after_hearing(&mut book, 7, Some(3)), Some(3));

        // The peer's own word ends all lies, even a lie about a life that never was.
        assert_eq!(after_hearing(&mut book, BOOT_MAX, Some(66)), Some(66));
        assert!(book.authenticate(said(8, Some(4))));
        assert_eq!(port(&mut book), Some(4));
        assert_eq!(after_hearing(&mut book, 9, Some(66)), Some(4), "linked");
        book.end_link(id, None, true);
        assert_eq!(after_hearing(&mut book, 8, Some(66)), Some(4), "its word");
        assert_eq!(after_hearing(&mut book, 8, None), Some(4), "its word");
        assert_eq!(after_hearing(&mut book, 9, Some(5)), Some(5));
        assert!(book.authenticate(said(10, None)));
        assert_eq!(port(&mut book), None, "it serves none any more");

        assert!(said(BOOT_MAX, None).is_within_bounds());
        assert!(!said(BOOT_MAX + 1, None).is_within_bounds());
    }

    #[test]
    fn a_name_is_known_before_it_resolves_and_its_addresses_come_first_then() {
        let mut book = Book::new(4, FORM, Counter::noop());
        let id = contact(1, 1).id;
        let named = Location::new("node-1.example", 7).expect("a name");
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert!(book.configure(id, "node-1".to_owned(), vec![named, at(9).into()]));
        assert!(book.is_known(id) && book.is_configured(id));
        assert_eq!(book.names(id), [("node-1.example".to_owned(), 7)]);
        assert_eq!(ports(&mut book, 1), [9]);
        assert!(book.authenticate(contact(1, 10)));
        assert!(book.hear(contact(1, 66)));
        book.resolve(id, vec![at(7), at(8)]);
        assert_eq!(ports(&mut book, 1), [7, 8, 10, 9, 66], "it has moved");
        assert_eq!(book.name_at(at(8)).as_deref(), Some("node-1"));
        assert!(book.authenticate(contact(1, 8)));
        assert_eq!(ports(&mut book, 1), [8, 7, 9, 66], "it is still there");
        book.resolve(id, (0..99).map(at).collect());
        assert!(ports(&mut book, 1).len() <= RESOLVED_MAX + 3);
    }

    #[test]
    fn a_full_book_forgets_old_hearsay_only() {
        let mut book = Book::new(3, FORM, Counter::noop());
        assert!(configured(&mut book, contact(1, 1)));
        assert!(book.authenticate(contact(2, 2)));
        assert!(book.hear(contact(3, 3)));
        assert!(book.hear(contact(4, 4)));
        assert_eq!(ports(&mut book, 1), [1]);
        assert_eq!(ports(&mut book, 2), [2]);
        assert!(ports(&mut book, 3).is_empty());
        assert_eq!(ports(&mut book, 4), [4]);
        assert!(configured(&mut book, contact(4, 4)));
        assert!(!book.hear(contact(5, 5)), "all are pinned");
    }

    #[test]
    fn new_hearsay_neither_empties_nor_displaces_the_oldest_hearsay() {
        let empty = Contact {
            addresses: Vec::new(),
            ..contact(1, 1)
        };
        assert!(!empty.is_within_bounds());
        let mut book = Book::new(4, FORM, Counter::noop());
        assert!(book.hear(contact(1, 10)));
        for lie in 0..100 {
            assert!(book.hear(contact(1, 1000 + lie)));
        }
        let heard = ports(&mut book, 1);
        assert_eq!(heard, [1099, 1098, 1097, 1096, 1002, 1001, 1000, 10]);
        assert!(book.hear(contact(1, 10)));
        assert_eq!(ports(&mut book, 1), heard);
    }

    #[test]
    fn the_name_in_the_certificate_stands_against_all_others() {
        let mut book = Book::new(4, FORM, Counter::noop());
        let named = |name: &str| Contact {
            name: name.to_owned(),
            ..contact(1, 1)
        };
        let name = |book: &mut Book| book.contact(contact(1, 1).id).expect("known").name;
        assert!(book.hear(named("heard")));
        assert!(configured(&mut book, named("configured")));
        assert_eq!(name(&mut book), "configured");
        assert!(book.authenticate(named("verified")));
        assert!(book.hear(named("heard")) && configured(&mut book, named("configured")));
        assert_eq!(name(&mut book), "verified");
    }

    #[test]
    fn a_flood_of_hearsay_forgets_hearsay_before_verified_contacts() {
        let mut book = Book::new(3, FORM, Counter::noop());
        assert!(book.authenticate(contact(1, 1)));
        book.end_link(contact(1, 1).id, None, true);
        for id in 2..200 {
            assert!(book.hear(contact(id, 7)));
        }
        assert_eq!(ports(&mut book, 1), [1]);
        for id in 2..4 {
            assert!(book.authenticate(contact(id, 7)));
        }
        assert!(book.hear(contact(9, 9)), "the verified one makes room");
        assert!(ports(&mut book, 1).is_empty());
    }

    #[test]
    fn turns_are_those_of_the_entries_that_are_not_pinned() {
        let mut book = Book::new(16, FORM, Counter::noop());
        for step in 0..2000_u32 {
            let id = (step.wrapping_mul(2_654_435_761) >> 24) as u8 % 40;
            let peer = contact(id, 7);
            match step % 7 {
                0 if id < 4 => drop(configured(&mut book, peer)),
                1 | 2 => drop(book.authenticate(peer)),
                3 | 4 => book.end_link(peer.id, None, true),
                5 => drop(book.addresses(peer.id)),
                _ => drop(book.hear(peer)),
            }
            let entries = book.entries.iter();
            let turns: BTreeSet<_> = entries.filter_map(|(id, e)| e.turn(*id)).collect();
            assert_eq!(book.turns, turns, "step {step}");
            assert!(book.entries.len() <= 16);
        }
    }
}
