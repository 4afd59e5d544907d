//! The addresses of the hosts of a testbed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{HOSTS_MAX, HostError};

/// The family of the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Hosts have only IPv4 addresses.
    #[default]
    V4,
    /// Hosts have only IPv6 addresses.
    V6,
    /// Each host has an address of each family. Hosts with even numbers are known by their IPv4
    /// address, the others by their IPv6 address.
    Mixed,
}

/// The networks of the hosts are 10.77.0.0/24 and fd77::/112. Those of the relay are 10.77.1.0/24
/// and fd77::1:0/112. All are on one bridge.
const V4: [u8; 2] = [10, 77];
const V6: u16 = 0xfd77;
const HOSTS: u8 = 0;
const RELAY: u8 = 1;

impl Family {
    /// The addresses of a host. Other hosts know it by the first one.
    pub fn of_host(self, host: u32) -> Result<Vec<IpAddr>, HostError> {
        self.all(HOSTS, host)
    }

    /// The address at which the relay stands in for a host.
    pub fn of_relay(self, host: u32) -> Result<IpAddr, HostError> {
        let all = self.all(RELAY, host)?;
        all.first().copied().ok_or(HostError::TooMany)
    }

    fn all(self, network: u8, host: u32) -> Result<Vec<IpAddr>, HostError> {
        if host >= HOSTS_MAX {
            return Err(HostError::TooMany);
        }
        let number = u8::try_from(host + 1).map_err(|_| HostError::TooMany)?;
        let v4 = IpAddr::from([V4[0], V4[1], network, number]);
        let v6 = [V6, 0, 0, 0, 0, 0, network.into(), number.into()];
        let v6 = IpAddr::from(v6);
        Ok(match self {
            Self::V4 => vec![v4],
            Self::V6 => vec![v6],
            Self::Mixed if host.is_multiple_of(2) => vec![v4, v6],
            Self::Mixed => vec![v6, v4],
        })
    }

    /// The address by which a node listens at all addresses of its host.
    pub const fn any(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::V6 | Self::Mixed => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }
}

/// Why no host can have this address, or `None`. Another host may still have it.
pub(super) fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(it) => match it.octets() {
            [10, 77, HOSTS, 1..=254] => None,
            _ => Some("take one of 10.77.0.1 to 10.77.0.254"),
        },
        IpAddr::V6(it) => match it.segments() {
            [V6, 0, 0, 0, 0, 0, 0, number] if number > 0 => None,
            _ => Some("take one of fd77::1 to fd77::ffff"),
        },
    }
}

/// An address as `ip addr` takes it, with the length of the prefix that hosts and relay share.
pub(super) fn with_prefix(address: IpAddr) -> String {
    match address {
        IpAddr::V4(_) => format!("{address}/16"),
        IpAddr::V6(_) => format!("{address}/64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_host_has_addresses_of_its_own_and_the_relay_others() {
        for family in [Family::V4, Family::V6, Family::Mixed] {
            let mut all = std::collections::BTreeSet::new();
            let mut count = 0;
            for host in 0..HOSTS_MAX {
                let addresses = family.of_host(host).unwrap();
                assert!(addresses.iter().all(|it| refusal(*it).is_none()));
                assert!(refusal(family.of_relay(host).unwrap()).is_some());
                count += addresses.len() + 1;
                all.extend(addresses);
                all.extend([family.of_relay(host).unwrap()]);
            }
            assert_eq!(all.len(), count);
            assert!(matches!(family.of_host(HOSTS_MAX), Err(HostError::TooMany)));
        }
        assert_eq!(Family::V4.of_host(0).unwrap(), [at("10.77.0.1")]);
        let mixed = Family::Mixed.of_host(1).unwrap();
        assert_eq!(mixed, [at("fd77::2"), at("10.77.0.2")]);
    }

    #[test]
    fn an_address_of_another_network_is_refused() {
        for (text, is_fine) in [
            ("10.77.0.99", true),
            ("10.77.0.0", false),
            ("10.77.0.255", false),
            ("10.77.1.3", false),
            ("192.0.2.1", false),
            ("fd77::99", true),
            ("fd77::", false),
            ("fd77::1:3", false),
            ("::1", false),
        ] {
            assert_eq!(refusal(at(text)).is_none(), is_fine, "{text}");
        }
    }
}
