//! The locations that this node advertises to its peers.
//!
//! Names are looked up here rather than by the others: a peer dials only addresses. A name
//! that does not resolve yet is told to nobody; without any address the others dial the
//! address at which they see this node.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::book::{ADDRESSES_MAX, is_dialable};
use super::close::DialError;
use super::location::Location;
use crate::PeerId;

/// The pause between two look-ups of the advertised names. Guess: shorter than the time for
/// which records of hosts that move are kept.
const PAUSE: Duration = Duration::from_secs(10);

/// The advertised locations, and their addresses.
#[derive(Debug, Default)]
pub(super) struct Advertised {
    said: Vec<Location>,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    addresses: Vec<SocketAddr>,
    looked: Option<Instant>,
    /// Whether the log knows that a name does not resolve.
    is_told: bool,
}

impl Advertised {
    pub(super) fn new(said: Vec<Location>) -> Self {
        let addresses = said.iter().filter_map(Location::address).collect();
        let now = Now {
            addresses,
            ..Now::default()
        };
        Self {
            said,
            now: Mutex::new(now),
        }
    }

    /// Whether they can be told: few, each with a host and a port.
    pub(super) fn is_within_bounds(&self) -> bool {
        self.said.len() <= ADDRESSES_MAX && self.said.iter().all(Location::is_dialable)
    }

    /// The addresses to tell.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.now().addresses.clone()
    }

    /// Whether there are names, and it is time to look them up.
    fn is_due(&self, now: Instant) -> bool {
        let mut state = self.now();
        let is_over = |looked: Instant| now.saturating_duration_since(looked) >= PAUSE;
        let has_names = self.said.iter().any(|one| one.address().is_none());
        let is_due = has_names && state.looked.is_none_or(is_over);
        if is_due {
            state.looked = Some(now);
        }
        is_due
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Look up the names that this node advertises, if it is time.
    pub(super) fn look_up_advertised(self: &Arc<Self>) {
        if self.advertised.is_due(self.now()) {
            let shared = self.clone();
            // Not tracked: a transport that stops does not wait for the resolver.
            self.executor.spawn(async move {
                let found = shared.find_advertised().await;
                shared.take_advertised(found);
            });
        }
    }

    async fn find_advertised(&self) -> Result<Vec<SocketAddr>, DialError> {
        let mut addresses = Vec::new();
        let mut failure = None;
        for location in &self.advertised.said {
            match location {
                Location::Address(address) => addresses.push(*address),
                Location::Name { host, port } => match self.look_up(host, *port).await {
                    Ok(found) => addresses.extend(found.into_iter().filter(is_dialable)),
                    Err(error) => failure = Some(error),
                },
            }
        }
        addresses.truncate(ADDRESSES_MAX);
        failure.map_or(Ok(addresses), Err)
    }

    /// While a name does not resolve, others are told what they were told before.
    fn take_advertised(&self, found: Result<Vec<SocketAddr>, DialError>) {
        let mut now = self.advertised.now();
        match found {
            Ok(addresses) => {
                if now.addresses != addresses {
                    tracing::info!(?addresses, "the advertised names have these addresses");
                }
                now.addresses = addresses;
                now.is_told = false;
            }
            Err(reason) if !std::mem::replace(&mut now.is_told, true) => {
                let remedy = reason.remedy();
                tracing::warn!(%reason, remedy, "an advertised name has no address, trying on");
            }
            Err(_) => {}
        }
    }

    /// Look up the configured names of a peer. Addresses that were found before stay if a
    /// name does not resolve any more.
    pub(super) async fn resolve(&self, peer: PeerId) -> Result<(), DialError> {
        let names = self.book().names(peer);
        if names.is_empty() {
            return Ok(());
        }
        let mut addresses = Vec::new();
        let mut failure = Ok(());
        for (host, port) in names {
            match self.look_up(&host, port).await {
                Ok(found) => addresses.extend(found.into_iter().filter(is_dialable)),
                Err(error) => failure = Err(error),
            }
        }
        if !addresses.is_empty() {
            self.book().resolve(peer, addresses);
        }
        failure
    }

    async fn look_up(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
        let limit = self.limits.handshake_timeout;
        let found = self.resolver.look_up(host, port, limit).await;
        found.map_err(|problem| DialError::Unresolved {
            host: host.to_owned(),
            problem,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_now_and_then_and_addresses_never() {
        #[expect(clippy::disallowed_methods, reason = "a place in time to count from")]
        let start = Instant::now();
        let address: Location = "10.0.0.1:1".parse().expect("an address");
        let name: Location = "a.example:1".parse().expect("a name");
        let plain = Advertised::new(vec![address.clone()]);
        assert!(!plain.is_due(start));
        let named = Advertised::new(vec![name, address.clone()]);
        assert_eq!(named.addresses(), [address.address().expect("one")]);
        let at = |seconds| start + Duration::from_secs(seconds);
        let due = [0, 1, 9, 10, 11].map(|seconds| named.is_due(at(seconds)));
        assert_eq!(due, [true, false, false, true, false]);
    }

    #[test]
    fn what_nobody_can_dial_is_not_told() {
        let of = |texts: &[&str]| {
            let said = texts.iter().map(|text| text.parse().expect("a location"));
            Advertised::new(said.collect()).is_within_bounds()
        };
        assert!(of(&[]) && of(&["a:1", "10.0.0.1:1"]));
        assert!(!of(&["0.0.0.0:1"]) && !of(&["a:0"]));
        assert!(!of(&["a:1", "b:1", "c:1", "d:1", "e:1"]));
    }
}
