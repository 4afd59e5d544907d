//! Whom to dial first, and what a node can be called.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A node to dial first: who it must be and where, written `name@address:port`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Seed {
    /// Its name; the dial is refused if another answers.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
}

/// A text that is not `name@address:port`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a node: expected `name@address:port`, such as `node-0@10.0.0.1:7400`")]
pub struct InvalidSeed(String);

impl FromStr for Seed {
    type Err = InvalidSeed;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidSeed(text.chars().take(128).collect());
        let (name, address) = text.split_once('@').ok_or_else(invalid)?;
        check_name(name).map_err(|_| invalid())?;
        Ok(Self {
            name: name.to_owned(),
            address: address.parse().map_err(|_| invalid())?,
        })
    }
}

impl TryFrom<String> for Seed {
    type Error = InvalidSeed;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Seed> for String {
    fn from(seed: Seed) -> Self {
        seed.to_string()
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.address)
    }
}

/// A name that no node can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a name; expected {expected}")]
pub struct InvalidName {
    name: String,
    pub(super) expected: &'static str,
}

/// Whether `name` can name a node: it becomes the last segment of a SPIFFE URI
/// and part of file names.
pub fn check_name(name: &str) -> Result<(), InvalidName> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let fits = (1..=128).contains(&name.len()) && !name.starts_with('.');
    if fits && name.bytes().all(plain) {
        return Ok(());
    }
    Err(InvalidName {
        name: name.chars().take(64).collect(),
        expected: "1 to 128 letters, digits, `-`, `_` and `.`, not starting with `.`",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_round_trip_and_wrong_ones_are_refused() {
        for text in ["node-0@127.0.0.1:7400", "a.b@[::1]:1"] {
            assert_eq!(text.parse::<Seed>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "node-0",
            "@127.0.0.1:1",
            "a@127.0.0.1",
            "a b@127.0.0.1:1",
            "a@@127.0.0.1:1",
        ] {
            assert!(text.parse::<Seed>().is_err(), "{text}");
        }
    }
}
