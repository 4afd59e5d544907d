//! This node's own addresses: whether the addresses that its links use still exist.
//!
//! A link that this node has accepted sends from the address at which it was dialled. Once that
//! address is gone, nothing can be sent over the link, and nothing closes the link. A link that
//! this node has dialled sends from whatever address the kernel chooses, and the peer follows.
//!
//! Peers that advertise nothing are known by the addresses at which they are seen. These are noted
//! as well, so that other nodes can learn where such a peer is now.
//!
//! Nothing here wakes the process: the host looks when it is awake for its beat.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::book::Contact;
use super::handshake::seen;
use super::peer::Link;

/// How long an address must be missing until it counts as gone. An interface that flaps, or a lease
/// that is renewed, thus costs no link.
const PATIENCE: Duration = Duration::from_secs(1);
/// The shortest pause between two looks. Each is a system call or two per address.
const PAUSE: Duration = Duration::from_millis(500);

/// The results of the looks. Each set has at most one entry per address that a link uses or that is
/// advertised.
#[derive(Debug, Default)]
pub(super) struct OwnAddresses {
    looked: Option<Instant>,
    /// The missing addresses, each with the time since which it is missing.
    missing: BTreeMap<IpAddr, Instant>,
    /// The addresses that were there at some look, or that a link has used.
    once: BTreeSet<IpAddr>,
    /// The addresses that the log has reported as gone.
    reported_gone: BTreeSet<IpAddr>,
    /// Addresses that a link has come to while they were missing. No interface has them and they
    /// work all the same, as behind a transparent proxy, so they are not missed.
    foreign: BTreeSet<IpAddr>,
}

impl OwnAddresses {
    /// Whether it is time for a look.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self
            .looked
            .is_none_or(|looked| now.saturating_duration_since(looked) >= PAUSE);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }

    /// Look at the addresses that links use (`used`, each with the time when its newest link came
    /// up) and at the advertised ones (`said`). Returns the addresses that were there once and have
    /// been missing for [`PATIENCE`].
    fn look(
        &mut self,
        now: Instant,
        used: &BTreeMap<IpAddr, Instant>,
        said: &BTreeSet<IpAddr>,
        is_there: impl Fn(IpAddr) -> bool,
    ) -> BTreeSet<IpAddr> {
        let addresses: BTreeSet<IpAddr> = used.keys().chain(said).copied().collect();
        self.missing.retain(|ip, _| addresses.contains(ip));
        self.once.retain(|ip| addresses.contains(ip));
        self.foreign.retain(|ip| addresses.contains(ip));
        // An address that a link has come to was there, even if it went before the first look.
        self.once.extend(used.keys());
        let works_all_the_same = |(ip, up): &(&IpAddr, &Instant)| {
            let missing = self.missing.get(ip);
            missing.is_some_and(|since| up.saturating_duration_since(*since) >= PATIENCE)
        };
        let foreign = used.iter().filter(works_all_the_same);
        self.foreign.extend(foreign.map(|(ip, _)| *ip));
        let mut gone = BTreeSet::new();
        for ip in &addresses {
            if is_there(*ip) {
                self.missing.remove(ip);
                self.foreign.remove(ip);
                self.once.insert(*ip);
                continue;
            }
            if self.foreign.contains(ip) {
                continue;
            }
            let since = *self.missing.entry(*ip).or_insert(now);
            let is_over = now.saturating_duration_since(since) >= PATIENCE;
            if is_over && self.once.contains(ip) {
                gone.insert(*ip);
            }
        }
        gone
    }

    /// The advertised addresses that are gone. Behind an address translator an advertised address
    /// was never there, and is not missed.
    pub(super) fn gone_of(&self, advertised: &[SocketAddr]) -> Vec<SocketAddr> {
        let is_gone = |at: &&SocketAddr| self.reported_gone.contains(&at.ip().to_canonical());
        advertised.iter().filter(is_gone).copied().collect()
    }
}

impl Shared {
    /// Look whether the addresses of this node are still there, and dial beside the links whose
    /// addresses are gone. Also look up the names that this node advertises.
    pub(super) fn look_at_addresses(self: &Arc<Self>) {
        self.look_up_advertised();
        let own = self.own_addresses.lock();
        let mut own = own.unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        if !own.is_due(now) {
            return;
        }
        let linked: Vec<_> = self
            .table
            .all()
            .into_iter()
            .filter_map(|peer| {
                let link = peer.current()?;
                self.note_address(&link);
                let at = link.connection.local_ip()?.to_canonical();
                Some((peer, at, link.up))
            })
            .collect();
        let mut used = BTreeMap::new();
        for (_, at, up) in &linked {
            let newest = used.entry(*at).or_insert(*up);
            *newest = (*newest).max(*up);
        }
        let advertised = self.advertised.addresses();
        let said = advertised.iter().map(|at| at.ip().to_canonical());
        let gone = own.look(now, &used, &said.collect(), is_own);
        for ip in gone.difference(&own.reported_gone) {
            let is_advertised = advertised.iter().any(|at| at.ip().to_canonical() == *ip);
            match is_advertised {
                true => tracing::warn!(
                    address = %ip,
                    remedy = "correct `advertise` or `bind`, or assign the address to this host \
                              again",
                    "no interface has the advertised address any longer"
                ),
                false => tracing::info!(address = %ip, "no interface has this address any longer"),
            }
        }
        for (peer, at, _) in &linked {
            if gone.contains(at) {
                self.doubt(peer);
            }
        }
        own.reported_gone = gone;
    }

    /// If the peer advertises no address, note the address at which it is seen over its current
    /// link: it may have moved, and other nodes are told where it is now.
    pub(super) fn note_address(&self, link: &Link) {
        if !link.is_seen_only {
            return;
        }
        let addresses = vec![seen(&link.connection)];
        let mut book = self.book();
        if !book.is_authenticated(link.peer, &addresses) {
            let metrics = book.metrics(link.peer);
            book.authenticate(Contact {
                id: link.peer,
                name: link.name.clone(),
                addresses,
                metrics,
            });
        }
    }
}

/// Whether this host has this address. In doubt the answer is yes.
fn is_own(ip: IpAddr) -> bool {
    match UdpSocket::bind((ip, 0)) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::AddrNotAvailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const NAT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[expect(clippy::disallowed_methods, reason = "a place in time to count from")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn an_address_is_gone_after_a_second_and_only_if_it_was_there() {
        let (mut own, start) = (OwnAddresses::default(), start());
        let said = BTreeSet::from([HERE, NAT]);
        for (ms, is_here, is_gone) in [
            (0, true, false),
            // The address flaps.
            (500, false, false),
            (1400, false, false),
            (1500, true, false),
            (2000, false, false),
            (2900, false, false),
            (3000, false, true),
            (3500, false, true),
            (4000, true, false),
        ] {
            let now = start + Duration::from_millis(ms);
            let gone = own.look(now, &BTreeMap::new(), &said, |ip| ip == HERE && is_here);
            assert_eq!(gone.contains(&HERE), is_gone, "{ms}");
            assert!(!gone.contains(&NAT), "it never was there");
        }
    }

    #[test]
    fn the_address_of_a_link_was_there_though_it_is_gone_at_the_first_look() {
        let (mut own, start) = (OwnAddresses::default(), start());
        let (used, said) = (BTreeMap::from([(HERE, start)]), BTreeSet::from([HERE, NAT]));
        assert_eq!(own.look(start, &used, &said, |_| false), BTreeSet::new());
        let later = start + PATIENCE;
        let gone = own.look(later, &used, &said, |_| false);
        assert_eq!(gone, BTreeSet::from([HERE]));
    }

    #[test]
    fn an_address_that_links_come_to_while_it_is_gone_is_not_missed() {
        let (mut own, start) = (OwnAddresses::default(), start());
        let said = BTreeSet::new();
        let mut used = BTreeMap::from([(NAT, start)]);
        assert!(own.look(start, &used, &said, |_| false).is_empty());
        let later = start + PATIENCE;
        assert!(own.look(later, &used, &said, |_| false).contains(&NAT));
        // A link was dialled beside the old one, and has come to that address too.
        used.insert(NAT, later);
        assert!(own.look(later, &used, &said, |_| false).is_empty());
        assert!(
            own.look(later + PATIENCE, &used, &said, |_| false)
                .is_empty()
        );
        // Once an interface has the address, it can be missed again.
        assert!(own.look(later, &used, &said, |_| true).is_empty());
        own.look(later, &used, &said, |_| false);
        let gone = own.look(later + PATIENCE, &used, &said, |_| false);
        assert!(gone.contains(&NAT));
    }

    #[test]
    fn looks_have_a_pause_between_them() {
        let (mut own, start) = (OwnAddresses::default(), start());
        for (ms, is_due) in [
            (0, true),
            (120, false),
            (499, false),
            (500, true),
            (600, false),
        ] {
            let now = start + Duration::from_millis(ms);
            assert_eq!(own.is_due(now), is_due, "{ms}");
        }
    }

    #[test]
    fn this_host_has_its_loopback_address_and_not_that_of_a_document() {
        assert!(is_own([127, 0, 0, 1].into()));
        assert!(!is_own(NAT));
    }
}
