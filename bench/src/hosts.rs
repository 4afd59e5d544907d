//! Hosts on one machine: network namespaces on a bridge, each with an address of its own,
//! and the faults of a network between them.
//!
//! ```text
//!   host 0 ── uplink ═ host0 ┐
//!   host 1 ── uplink ═ host1 ┤ bridge "hosts", in the namespace of this process,
//!   host 2 ── uplink ═ host2 ┘ and the UDP relay, for delay and duplicates
//! ```
//!
//! All namespaces are held by child processes of this one, and none has a name. So the namespaces
//! and everything in them end with this process, however it ends. Nothing here touches the network
//! of the machine: [`namespace::enter`] comes first.
//!
//! | fault | by |
//! |---|---|
//! | a cut | the bridge's end of the host's link is down |
//! | a rate | a token bucket at the uplink (`tc`, `tbf`) |
//! | losses | rules at the bridge (`nft`) |
//! | delay, duplicates | the UDP relay |
//! | another address | `ip addr`, while the node runs |

pub mod address;
pub mod fault;
pub mod namespace;
pub mod network;
pub mod rules;
pub mod testbed;
pub mod udp_relay;

use std::io;

/// The most hosts of a testbed.
pub const HOSTS_MAX: u32 = 254;

/// Why a testbed was not made, or a fault was not applied.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A program of the system is missing.
    #[error(
        "`{program}`, which simulates hosts on one machine, is not installed; install the package {package}"
    )]
    NotInstalled {
        /// The program that is missing.
        program: &'static str,
        /// The package that has the program.
        package: &'static str,
    },
    /// A program did not start, or its output could not be read.
    #[error("cannot run `{line}`: {source}")]
    NotRun {
        /// The command line of the program.
        line: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A program failed.
    #[error("`{line}` failed: {said}")]
    Failed {
        /// The command line of the program.
        line: String,
        /// The error that the program printed.
        said: String,
    },
    /// No network namespace could be made.
    #[error("{0}; run as root, or allow user namespaces")]
    NoNamespace(String),
    /// The relay has no socket.
    #[error("the relay cannot bind {address}: {source}")]
    NoSocket {
        /// The address of the socket.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There are more hosts than addresses.
    #[error("too many hosts; give at most {HOSTS_MAX}")]
    TooMany,
    /// A fault names a host that is not there.
    #[error("host {host} does not exist; the hosts are 0 to {last}", last = .count.saturating_sub(1))]
    NoSuchHost {
        /// The host that was named.
        host: u32,
        /// The number of hosts.
        count: u32,
    },
    /// A fault needs the relay.
    #[error("only the relay can delay or duplicate datagrams; start with --relay")]
    NoRelay,
    /// With the relay, other hosts know the relay's addresses and not those of the hosts.
    #[error("the address of a host cannot change behind the relay; start without --relay")]
    Relayed,
    /// An address that a host cannot have.
    #[error("{address} cannot be the address of a host: {reason}")]
    Address {
        /// The address that was named.
        address: std::net::IpAddr,
        /// The reason why a host cannot have it.
        reason: &'static str,
    },
}

impl HostError {
    /// Whether the request was impossible, so that nothing was done.
    pub const fn is_usage(&self) -> bool {
        use HostError::{Address, NoRelay, NoSuchHost, Relayed, TooMany};
        matches!(
            self,
            TooMany | NoSuchHost { .. } | NoRelay | Relayed | Address { .. }
        )
    }
}
