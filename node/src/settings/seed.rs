//! The nodes to dial first, and the names that a node may have.

use std::fmt;
use std::str::FromStr;

use binomesh_overlay::quic::{InvalidLocation, Location, is_name};
use serde::{Deserialize, Serialize};

/// A node to dial first, written `name@host:port`: the name that it must have, and its address. The
/// host is an IP address or a DNS name, which is resolved again for each dial.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Seed {
    /// The node's name; the dial fails if another node answers.
    pub name: String,
    /// The node's address.
    pub address: Location,
}

/// A text that is not `name@host:port`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a node: {problem}; expected `name@address:port`, such as \
     `node-0@10.0.0.1:7400` or `node-0@node-0.example:7400`"
)]
pub struct InvalidSeed {
    text: String,
    problem: String,
}

impl FromStr for Seed {
    type Err = InvalidSeed;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |problem: String| InvalidSeed {
            text: text.chars().take(128).collect(),
            problem,
        };
        let halves = text.split_once('@');
        let (name, address) = halves.ok_or_else(|| invalid("the text has no `@`".to_owned()))?;
        check_name(name).map_err(|error| invalid(error.to_string()))?;
        let problem = |error: InvalidLocation| invalid(error.to_string());
        Ok(Self {
            name: name.to_owned(),
            address: address.parse().map_err(problem)?,
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
    if is_name(name) && !name.starts_with('.') {
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
        for text in [
            "node-0@127.0.0.1:7400",
            "a.b@[::1]:1",
            "node-0@node-0.mesh.svc:7400",
        ] {
            assert_eq!(text.parse::<Seed>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "node-0",
            "@127.0.0.1:1",
            "a@127.0.0.1",
            "a@somewhere",
            "a@somewhere:x",
            "a b@127.0.0.1:1",
            "a@@127.0.0.1:1",
        ] {
            assert!(text.parse::<Seed>().is_err(), "{text}");
        }
    }
}
