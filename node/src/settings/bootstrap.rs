//! How a node finds its place at the start.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a node finds its place at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bootstrap {
    /// Below the parent that the settings name, or as the root if they name none.
    #[default]
    Tree,
    /// Among peers that can all reach each other.
    Clique,
    /// In a graph of neighbours.
    Graph,
}

impl fmt::Display for Bootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tree => "tree",
            Self::Clique => "clique",
            Self::Graph => "graph",
        })
    }
}

impl FromStr for Bootstrap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = [Self::Tree, Self::Clique, Self::Graph];
        let found = known.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| "expected tree, clique or graph".to_owned())
    }
}
