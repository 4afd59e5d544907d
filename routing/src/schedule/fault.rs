//! Faulty links and nodes by name: `link:01-10`, `node:11`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most faults of a graph. Guess: with more faults a graph has fallen apart. More faults are
/// refused.
pub const FAULTS_MAX: usize = 4096;

/// A link or node that is permanently out of order ([EVO] §1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Fault {
    /// The link from one node to another; in an undirected graph both directions.
    Link(String, String),
    /// A node with all of its links.
    Node(String),
}

/// Why a fault cannot be read or applied to a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// The text is no fault.
    #[error("{0:?} is no fault; expected link:A-B or node:A with the names of nodes")]
    Syntax(String),
    /// There are more faults than allowed.
    #[error("{0} faults are given; give at most {FAULTS_MAX}")]
    TooMany(usize),
    /// No node has this name.
    #[error("{graph} has no node {node:?}; its nodes have names such as {example:?}")]
    NoNode {
        /// The name of the graph.
        graph: String,
        /// The name that was given.
        node: String,
        /// The name of a node that exists.
        example: String,
    },
    /// The graph has no such link.
    #[error("{graph} has no {fault}{hint}; its links have names such as {example}")]
    NoLink {
        /// The name of the graph.
        graph: String,
        /// The fault that was given.
        fault: String,
        /// A hint if the opposite direction exists.
        hint: &'static str,
        /// The name of a link that exists.
        example: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(from, to) => write!(f, "link:{from}-{to}"),
            Self::Node(node) => write!(f, "node:{node}"),
        }
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let syntax = || FaultError::Syntax(text.chars().take(80).collect());
        match text.split_once(':') {
            Some(("node", name)) if !name.is_empty() => Ok(Self::Node(name.to_owned())),
            Some(("link", ends)) => match ends.split_once('-') {
                Some((from, to)) if !from.is_empty() && !to.is_empty() => {
                    Ok(Self::Link(from.to_owned(), to.to_owned()))
                }
                _ => Err(syntax()),
            },
            _ => Err(syntax()),
        }
    }
}

impl TryFrom<String> for Fault {
    type Error = FaultError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> Self {
        fault.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for text in ["link:01-10", "node:11", "link:10.3-10.4"] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        for text in [
            "", "link", "link:", "link:01", "link:-1", "node:", "arc:0-1", "01-10",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text:?}");
        }
    }
}
