//! The address at which a peer says that its metrics are served. Nodes list it as a target for
//! Prometheus.
//!
//! The address travels in greetings and, as hearsay, with contacts. Nothing here connects to it.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::book::{Contact, is_dialable, is_link_local};

/// The address of a peer's metrics, as the peer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MetricsAddress {
    /// The host; none means the host where the peer can be dialled.
    pub ip: Option<IpAddr>,
    /// The TCP port.
    pub port: u16,
    /// Whether the metrics are served over TLS.
    pub is_tls: bool,
}

/// The word on a peer's metrics in one of its lives. Hearsay about a newer life replaces the known
/// word while the peer is not linked; the peer's own word over a link always replaces it. So a
/// restart can move or withdraw the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MetricsWord {
    /// The life that the word is about.
    pub boot: u64,
    /// The address of the metrics in that life; none if other nodes cannot use it.
    pub at: Option<MetricsAddress>,
}

impl MetricsAddress {
    /// The address to advertise for a server bound to `bound`; none if no other node could use it.
    /// `is_local` says that the nodes are linked over the loopback and so share one host.
    pub fn of(bound: SocketAddr, is_tls: bool, is_local: bool) -> Option<Self> {
        let (ip, port) = (bound.ip().to_canonical(), bound.port());
        let told = Self {
            ip: (!ip.is_unspecified()).then_some(ip),
            port,
            is_tls,
        };
        let is_of_use = is_local || !ip.is_loopback();
        (is_of_use && told.is_possible()).then_some(told)
    }

    /// Whether the address names a port, and a usable host if it names one.
    pub(super) fn is_possible(&self) -> bool {
        self.is_possible_at(self.ip.unwrap_or(IpAddr::from([127, 0, 0, 1])))
    }

    /// Whether metrics can be served at this host. An address that is only valid with an interface
    /// names no host for others; cloud services have such addresses too, and are no nodes.
    fn is_possible_at(&self, host: IpAddr) -> bool {
        let at = SocketAddr::new(host.to_canonical(), self.port);
        let goes_with_an_interface = match at.ip() {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(_) => is_link_local(&at),
        };
        is_dialable(&at) && !goes_with_an_interface
    }
}

impl Contact {
    /// The address of the peer's metrics, as far as it is known and plausible, and whether it uses
    /// TLS. A peer on another host has none on this host's loopback. Nodes serve plain HTTP only on
    /// the loopback: a scraper that believed any other address would send its token to whatever
    /// listens there.
    pub fn metrics_at(&self) -> Option<(SocketAddr, bool)> {
        let said = self.metrics?.at?;
        let home = self.addresses.first()?.ip().to_canonical();
        let ip = said.ip.unwrap_or(home).to_canonical();
        let is_of_its_host = !ip.is_loopback() || home.is_loopback();
        let is_guarded = said.is_tls || ip.is_loopback();
        (said.is_possible_at(ip) && is_of_its_host && is_guarded)
            .then_some((SocketAddr::new(ip, said.port), said.is_tls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeerId;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn shown(home: &str, metrics: MetricsAddress) -> Option<(SocketAddr, bool)> {
        let contact = Contact {
            id: PeerId::of_uri("x"),
            name: "x".to_owned(),
            addresses: vec![at(home)],
            metrics: Some(MetricsWord {
                boot: 1,
                at: Some(metrics),
            }),
        };
        contact.metrics_at()
    }

    #[test]
    fn a_server_that_others_cannot_use_is_not_told() {
        let of = |bound, is_local| MetricsAddress::of(at(bound), true, is_local);
        let told = of("10.0.0.1:1", false).expect("told");
        assert_eq!((told.ip, told.port), (Some([10, 0, 0, 1].into()), 1));
        assert_eq!(of("[::]:1", false).expect("told").ip, None);
        for bound in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(of(bound, false), None, "{bound}");
            assert!(of(bound, true).is_some(), "{bound}");
        }
        assert_eq!(of("[fe80::1]:1", false), None, "it goes with an interface");
        assert_eq!(of("169.254.1.1:1", false), None, "so does it");
        assert_eq!(of("10.0.0.1:0", false), None);
    }

    #[test]
    fn a_metrics_address_that_a_peer_tells_is_shown_only_if_it_is_plausible() {
        let port = 9;
        let told = |ip: Option<&str>, is_tls| MetricsAddress {
            ip: ip.map(|ip| ip.parse().expect("an address")),
            port,
            is_tls,
        };
        for (home, ip, expected) in [
            ("10.0.0.1:1", None, Some("10.0.0.1:9")),
            ("10.0.0.1:1", Some("10.0.0.2"), Some("10.0.0.2:9")),
            ("[fd00::1]:1", None, Some("[fd00::1]:9")),
            ("127.0.0.1:1", Some("127.0.0.1"), Some("127.0.0.1:9")),
            ("10.0.0.1:1", Some("127.0.0.1"), None),
            ("10.0.0.1:1", Some("::ffff:127.0.0.1"), None),
            ("10.0.0.1:1", Some("0.0.0.0"), None),
            ("10.0.0.1:1", Some("224.0.0.1"), None),
            ("10.0.0.1:1", Some("::ffff:0.0.0.0"), None),
            ("10.0.0.1:1", Some("fe80::1"), None),
            ("10.0.0.1:1", Some("169.254.169.254"), None),
            ("10.0.0.1:1", Some("::ffff:169.254.169.254"), None),
            ("169.254.0.1:1", None, None),
            ("[fe80::1]:1", None, None),
        ] {
            let expected = expected.map(|text| (at(text), true));
            assert_eq!(shown(home, told(ip, true)), expected, "{home} {ip:?}");
            // Over plain HTTP the address is shown only on the loopback.
            let expected = expected.filter(|(at, _)| at.ip().is_loopback());
            let expected = expected.map(|(at, _)| (at, false));
            assert_eq!(shown(home, told(ip, false)), expected, "{home} {ip:?}");
        }
        let none = MetricsAddress {
            port: 0,
            ..told(None, true)
        };
        assert_eq!(shown("10.0.0.1:1", none), None);
    }
}
