//! The location of a node, as an operator writes it: an address, or a DNS name and a port.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::book::{is_dialable, is_link_local};

/// An address, or a DNS name and a port: `10.0.0.1:7400`, `[fd00::1]:7400`,
/// `node-0.mesh.svc:7400`. A name is resolved again for each dial, and may have several
/// addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Location {
    /// An IP address and a port.
    Address(SocketAddr),
    /// A name and a port.
    Name {
        /// The name, at most [`Location::NAME_MAX`] bytes.
        host: String,
        /// The UDP port.
        port: u16,
    },
}

/// A text that is not a location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no location: {problem}; expected an address or a name and a port, such as \
     10.0.0.1:7400, [fd00::1]:7400 or node-0.example:7400"
)]
pub struct InvalidLocation {
    text: String,
    problem: &'static str,
}

impl Location {
    /// The longest name, in bytes, as in DNS.
    pub const NAME_MAX: usize = 253;

    /// The location of `host`, an address or a name, and `port`.
    pub fn new(host: &str, port: u16) -> Result<Self, InvalidLocation> {
        let invalid = |problem| InvalidLocation {
            text: host.chars().take(128).collect(),
            problem,
        };
        let inside = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        if let Some(inside) = inside {
            let address: Ipv6Addr = inside
                .parse()
                .map_err(|_| invalid("the text between the brackets is no IPv6 address"))?;
            return Ok(Self::Address(SocketAddr::from((address, port))));
        }
        if let Ok(address) = host.parse() {
            return Ok(Self::Address(SocketAddr::new(address, port)));
        }
        check_host(host).map_err(invalid)?;
        Ok(Self::Name {
            host: host.to_owned(),
            port,
        })
    }

    /// The name, or the address without the port.
    pub fn host(&self) -> String {
        match self {
            Self::Address(address) => address.ip().to_string(),
            Self::Name { host, .. } => host.clone(),
        }
    }

    /// The UDP port.
    pub const fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name { port, .. } => *port,
        }
    }

    /// The address; none for a name.
    pub const fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name { .. } => None,
        }
    }

    /// Whether the location is an address that is unique only on one network link, such as
    /// `fe80::1`. Which link is meant depends on an interface of the host that uses it.
    pub fn is_link_local(&self) -> bool {
        matches!(self, Self::Address(address) if is_link_local(address))
    }

    /// Whether the location names one host and port.
    pub fn is_dialable(&self) -> bool {
        match self {
            Self::Address(address) => is_dialable(address),
            Self::Name { port, .. } => *port != 0,
        }
    }
}

/// Check a host name: about RFC 1123, 2.1, but a hyphen may stand anywhere, and so may an
/// underscore, which some resolvers accept. A last part of digits is refused, as it would be a
/// mistyped address.
fn check_host(host: &str) -> Result<(), &'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let is_part = |part: &str| (1..=63).contains(&part.len()) && part.bytes().all(plain);
    // A full name may end with a dot.
    let parts = host.strip_suffix('.').unwrap_or(host);
    if parts.is_empty() {
        return Err("the name is empty");
    }
    if host.len() > Location::NAME_MAX || !parts.split('.').all(is_part) {
        return Err("the text is no DNS name");
    }
    let last = parts.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the text is no address, and a name does not end with a number");
    }
    Ok(())
}

impl FromStr for Location {
    type Err = InvalidLocation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |problem| InvalidLocation {
            text: text.chars().take(128).collect(),
            problem,
        };
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (host, port) = text
            .rsplit_once(':')
            .ok_or_else(|| invalid("the text has no port"))?;
        let port = port
            .parse()
            .map_err(|_| invalid("the port is no number from 1 to 65535"))?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(invalid("an IPv6 address with a port needs brackets"));
        }
        Self::new(host, port).map_err(|error| invalid(error.problem))
    }
}

impl TryFrom<String> for Location {
    type Error = InvalidLocation;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Location> for String {
    fn from(location: Location) -> Self {
        location.to_string()
    }
}

impl From<SocketAddr> for Location {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_round_trip() {
        for (text, is_name) in [
            ("10.0.0.1:7400", false),
            ("[fd00::1]:7400", false),
            ("localhost:1", true),
            ("node-0.mesh.svc.cluster.local.:65535", true),
            ("c_1:7400", true),
        ] {
            let location: Location = text.parse().expect(text);
            assert_eq!(location.to_string(), text);
            assert_eq!(location.address().is_none(), is_name, "{text}");
            assert!(location.is_dialable());
        }
        let bare = Location::new("fd00::1", 7).expect("an address");
        assert_eq!(bare.to_string(), "[fd00::1]:7");
        assert!(!"0.0.0.0:1".parse::<Location>().unwrap().is_dialable());
        assert!(!"a:0".parse::<Location>().unwrap().is_dialable());
    }

    #[test]
    fn an_error_says_why_a_text_is_no_location() {
        let long = format!("{}.x:1", "a".repeat(64));
        for (text, problem) in [
            ("localhost", "no port"),
            ("localhost:", "port is no number"),
            ("localhost:70000", "port is no number"),
            (":7400", "name is empty"),
            ("fd00::1:7400:", "port is no number"),
            ("fd00::zz:7400", "brackets"),
            ("[fd00::zz]:7400", "no IPv6 address"),
            ("10.0.0.300:7400", "no address, and a name"),
            ("a b:1", "no DNS name"),
            ("a..b:1", "no DNS name"),
            (&long, "no DNS name"),
        ] {
            let error = text.parse::<Location>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
