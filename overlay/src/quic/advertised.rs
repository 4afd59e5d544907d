//! The locations that this node advertises to its peers.
//!
//! This node looks its names up itself, since a peer dials only addresses. A name that does not
//! resolve yet is not advertised. If this node advertises no address, peers dial the address at
//! which they see it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Shared;
use super::book::{ADDRESSES_MAX, is_dialable};
use super::close::DialError;
use super::location::Location;
use crate::PeerId;

/// The pause between two look-ups of the advertised names. A guess: if it is longer than the time
/// for which resolvers keep records of moving hosts, peers dial an old address for longer.
const PAUSE: Duration = Duration::from_secs(10);

/// How long a dial with known addresses waits for the resolver. A guess: a working resolver answers
/// sooner, and even an urgent dial can wait so long.
const MOMENT: Duration = Duration::from_millis(200);

/// The advertised locations, and their addresses.
#[derive(Debug, Default)]
pub(super) struct Advertised {
    said: Vec<Location>,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    /// The addresses of each location; for a name the addresses that were found last.
    found: Vec<Vec<SocketAddr>>,
    looked: Option<Instant>,
    /// Whether the log has reported that a name does not resolve.
    is_told: bool,
}

impl Advertised {
    pub(super) fn new(said: Vec<Location>) -> Self {
        let of = |location: &Location| location.address().into_iter().collect();
        let now = Now {
            found: said.iter().map(of).collect(),
            ..Now::default()
        };
        Self {
            said,
            now: Mutex::new(now),
        }
    }

    /// Whether the locations can be advertised: few, each with a host and a port.
    pub(super) fn is_within_bounds(&self) -> bool {
        self.said.len() <= ADDRESSES_MAX && self.said.iter().all(Location::is_dialable)
    }

    /// The addresses that this node advertises.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.now().addresses()
    }

    /// Take the addresses that were found for each location. A name that does not resolve keeps its
    /// former addresses.
    fn take(&self, found: Vec<Result<Vec<SocketAddr>, DialError>>) {
        let mut now = self.now();
        let before = now.addresses();
        let mut failure = None;
        for (last, found) in now.found.iter_mut().zip(found) {
            match found {
                Ok(addresses) => *last = addresses,
                Err(reason) => failure = Some(reason),
            }
        }
        let addresses = now.addresses();
        if addresses != before {
            tracing::info!(?addresses, "the advertised names have these addresses");
        }
        let was_told = std::mem::replace(&mut now.is_told, failure.is_some());
        if let Some(reason) = failure.filter(|_| !was_told) {
            let remedy = reason.remedy();
            tracing::warn!(%reason, remedy, "an advertised name has no address; the node keeps \
                                             looking it up");
        }
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

impl Now {
    fn addresses(&self) -> Vec<SocketAddr> {
        let all = self.found.iter().flatten();
        all.copied().take(ADDRESSES_MAX).collect()
    }
}

impl Shared {
    /// Look up the names that this node advertises, if it is time.
    pub(super) fn look_up_advertised(self: &Arc<Self>) {
        if self.advertised.is_due(self.now()) {
            let shared = self.clone();
            // The task is not tracked: a transport that stops does not wait for the resolver.
            self.spawn_untracked(async move {
                let found = shared.find_advertised().await;
                shared.advertised.take(found);
            });
        }
    }

    async fn find_advertised(&self) -> Vec<Result<Vec<SocketAddr>, DialError>> {
        let mut all = Vec::new();
        for location in &self.advertised.said {
            all.push(match location {
                Location::Address(address) => Ok(vec![*address]),
                Location::Name { host, port } => self
                    .look_up(host, *port)
                    .await
                    .map(|found| found.into_iter().filter(is_dialable).collect()),
            });
        }
        all
    }

    /// Look up the configured names of a peer. If an address is known already, the dialler waits
    /// for the resolver only for [`MOMENT`]; a later answer is for the next dial.
    pub(super) async fn refresh(self: &Arc<Self>, peer: PeerId) -> Result<(), DialError> {
        if self.book().names(peer).is_empty() {
            return Ok(());
        }
        let has_addresses = !self.book().addresses(peer).is_empty();
        let (sender, found) = oneshot::channel();
        let shared = self.clone();
        self.spawn_untracked(async move {
            let _ = sender.send(shared.resolve(peer).await);
        });
        answered(found, has_addresses.then_some(MOMENT)).await
    }

    /// Look up the configured names of a peer. Addresses that were found earlier stay only if no
    /// name resolves now.
    async fn resolve(&self, peer: PeerId) -> Result<(), DialError> {
        let names = self.book().names(peer);
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

/// The answer of the resolver, or success if there is none within `limit`.
async fn answered(
    found: oneshot::Receiver<Result<(), DialError>>,
    limit: Option<Duration>,
) -> Result<(), DialError> {
    let in_time = match limit {
        Some(limit) => tokio::time::timeout(limit, found).await.ok(),
        None => Some(found.await),
    };
    in_time.and_then(Result::ok).unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_silent_resolver_holds_up_only_a_dial_without_a_known_address() {
        let failure = || {
            Err(DialError::Unresolved {
                host: "a.example".to_owned(),
                problem: "it has no address".to_owned(),
            })
        };
        let (held, silent) = oneshot::channel();
        assert_eq!(answered(silent, Some(Duration::ZERO)).await, Ok(()));
        assert!(held.is_closed(), "what comes later is for the next dial");
        for limit in [Some(Duration::from_secs(60)), None] {
            let (sender, found) = oneshot::channel();
            sender.send(failure()).expect("somebody waits");
            assert_eq!(answered(found, limit).await, failure());
        }
    }

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
    fn a_name_that_does_not_resolve_keeps_its_addresses_and_holds_up_no_other() {
        let said = ["a.example:1", "b.example:1"].map(|text| text.parse().expect("a name"));
        let advertised = Advertised::new(said.to_vec());
        let [first, second, third] = [1, 2, 3].map(|host| SocketAddr::from(([10, 0, 0, host], 1)));
        let silent = || {
            Err(DialError::Unresolved {
                host: "b.example".to_owned(),
                problem: "the resolver does not answer".to_owned(),
            })
        };
        advertised.take(vec![Ok(vec![first]), silent()]);
        assert_eq!(advertised.addresses(), [first]);
        advertised.take(vec![Ok(vec![second]), Ok(vec![third])]);
        assert_eq!(advertised.addresses(), [second, third]);
        advertised.take(vec![Ok(vec![first]), silent()]);
        assert_eq!(advertised.addresses(), [first, third]);
    }

    #[test]
    fn locations_that_nobody_can_dial_are_out_of_bounds() {
        let of = |texts: &[&str]| {
            let said = texts.iter().map(|text| text.parse().expect("a location"));
            Advertised::new(said.collect()).is_within_bounds()
        };
        assert!(of(&[]) && of(&["a:1", "10.0.0.1:1"]));
        assert!(!of(&["0.0.0.0:1"]) && !of(&["a:0"]));
        assert!(!of(&["a:1", "b:1", "c:1", "d:1", "e:1"]));
    }
}
