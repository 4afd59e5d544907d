//! Look-ups of DNS names by the resolver of the operating system.
//!
//! The resolver blocks, for half a minute if its servers are silent, and cannot be interrupted. So
//! each look-up has a thread of its own, and a runtime that ends waits for none of them.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};

/// Look-ups at once; further ones wait. A guess: a working resolver answers within milliseconds,
/// and a silent one should hold no more threads than these.
const LOOKUPS_MAX: usize = 8;
/// The most addresses of one name that are dialled; further ones are left out. A guess: more than
/// one host has.
pub(super) const RESOLVED_MAX: usize = 16;

/// A resolver.
#[derive(Debug)]
pub(super) struct Resolver {
    free: Arc<Semaphore>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self {
            free: Arc::new(Semaphore::new(LOOKUPS_MAX)),
        }
    }
}

impl Resolver {
    /// The addresses of a name, the best to dial first. If there are none within `limit`, the
    /// reason in words.
    pub(super) async fn look_up(
        &self,
        host: &str,
        port: u16,
        limit: Duration,
    ) -> Result<Vec<SocketAddr>, String> {
        let silent = || "the resolver does not answer".to_owned();
        let looking = async {
            let permit = self.free.clone().acquire_owned().await;
            let permit = permit.map_err(|_| silent())?;
            let (sender, found) = oneshot::channel();
            let host = host.to_owned();
            let look = move || {
                let _ = sender.send(addresses(&host, port));
                drop(permit);
            };
            let thread = std::thread::Builder::new().name("look-up".to_owned());
            thread.spawn(look).map_err(|error| error.to_string())?;
            found.await.map_err(|_| silent())?
        };
        tokio::time::timeout(limit, looking)
            .await
            .unwrap_or_else(|_| Err(silent()))
    }
}

/// The addresses of a name. The resolver puts addresses that this host cannot reach last (RFC
/// 6724).
fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| plain(&error.to_string()))?;
    let mut addresses = Vec::new();
    for address in found {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        if !addresses.contains(&address) && addresses.len() < RESOLVED_MAX {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err("the name has no address".to_owned()),
        false => Ok(addresses),
    }
}

/// The error text of the resolver, without the prefix of the standard library; a general text if
/// that prefix is missing.
fn plain(text: &str) -> String {
    let text = text.strip_prefix("failed to lookup address information: ");
    text.map_or_else(|| "the resolver fails".to_owned(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn the_name_of_this_host_resolves_and_a_reserved_one_does_not() {
        let resolver = Resolver::default();
        let found = resolver.look_up("localhost", 7, LIMIT).await.unwrap();
        assert!(
            found
                .iter()
                .all(|at| at.ip().is_loopback() && at.port() == 7)
        );
        // RFC 6761, 6.4: this name never resolves.
        let error = resolver.look_up("nobody.invalid", 7, LIMIT).await;
        let error = error.unwrap_err();
        assert!(!error.contains("failed to lookup"), "{error}");
    }

    #[tokio::test]
    async fn look_ups_beyond_the_bound_wait_and_end_at_the_limit() {
        let resolver = Resolver::default();
        let all = resolver.free.clone();
        let held = all.acquire_many(LOOKUPS_MAX as u32).await.unwrap();
        let limit = Duration::from_millis(20);
        let waited = resolver.look_up("localhost", 7, limit).await;
        assert!(waited.unwrap_err().contains("does not answer"));
        drop(held);
        assert!(resolver.look_up("localhost", 7, LIMIT).await.is_ok());
    }
}
