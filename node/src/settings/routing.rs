//! How messages find their way: routers and strategies by the names users know.

use std::fmt;
use std::str::FromStr;

use binomesh_routing::router::{self, Chosen};
use serde::{Deserialize, Serialize};

/// How what is routed finds its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Router {
    /// The best that there is: `binomial`, see docs/routing.md.
    #[default]
    Auto,
    /// Over the fingers of the binomial graph.
    Binomial,
    /// Over the sibling tree, the rule of its paper as it is written.
    Basic,
    /// Over the sibling tree, to the neighbour that the rule says is nearest.
    BasicLeast,
    /// Over the sibling tree, up, along a ring, and down.
    Variant,
    /// Over the sibling tree, the shortest way round the known dead.
    Aware,
}

impl Router {
    /// The router.
    pub fn chosen(self) -> Chosen {
        match self {
            Self::Auto | Self::Binomial => Chosen::new(&router::Binomial),
            Self::Basic => Chosen::new(&router::Basic),
            Self::BasicLeast => Chosen::new(&router::BasicLeast),
            Self::Variant => Chosen::new(&router::Variant),
            Self::Aware => Chosen::new(&router::Aware),
        }
    }
}

impl fmt::Display for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            other => other.chosen().get().name(),
        })
    }
}

/// In which order a message goes to all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Strategy {
    /// The best for what is sent: messages go by `binomial`, files as `push` says.
    #[default]
    Auto,
    /// Over the fingers of the binomial graph: no link is needed besides.
    Binomial,
    /// From rank 0 down the sibling tree.
    SiblingTree,
    /// As `binomial`, and each passes it on to all its neighbours: members agree
    /// even if the sender dies. Dear.
    Flood,
    /// Each to the next one: for much data where the uplinks are the limit, and few
    /// members.
    Chain,
    /// For much data where the uplinks are the limit: each message takes another way, so
    /// that every uplink is busy all the time. Up to 1,024 members; above that `binomial`.
    Circulant,
}

impl Strategy {
    /// Up to so many members [`Strategy::Circulant`] is what it says.
    #[cfg(feature = "push")]
    pub(crate) const CIRCULANT_MAX: u32 = binomesh_routing::strategy::Strategy::CIRCULANT_MAX;

    /// As the relay knows it: `fanout` is that of a tree, and `left` how many blocks follow by
    /// `circulant`.
    pub(crate) const fn of(self, fanout: u32, left: u32) -> binomesh_routing::strategy::Strategy {
        use binomesh_routing::strategy::Strategy as Known;
        match self {
            Self::Auto | Self::Binomial => Known::Binomial,
            Self::SiblingTree => Known::SiblingTree { fanout },
            Self::Flood => Known::Flood,
            Self::Chain => Known::Chain,
            Self::Circulant => Known::circulant(left),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            other => other.of(2, 0).name(),
        })
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = [
            Self::Auto,
            Self::Binomial,
            Self::SiblingTree,
            Self::Flood,
            Self::Chain,
            Self::Circulant,
        ];
        let found = known.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| UnknownStrategy(text.chars().take(64).collect()))
    }
}

/// A strategy that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no strategy {0:?}; known are auto, binomial, sibling-tree, flood, chain and circulant"
)]
pub struct UnknownStrategy(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_router_and_strategy_has_the_name_by_which_it_is_chosen() {
        for router in [
            Router::Auto,
            Router::Binomial,
            Router::Basic,
            Router::BasicLeast,
            Router::Variant,
            Router::Aware,
        ] {
            let written = serde_json::to_value(router).unwrap();
            assert_eq!(written, router.to_string());
        }
        for name in [
            "auto",
            "binomial",
            "sibling-tree",
            "flood",
            "chain",
            "circulant",
        ] {
            assert_eq!(name.parse::<Strategy>().unwrap().to_string(), name);
        }
        let error = "star".parse::<Strategy>().unwrap_err().to_string();
        assert!(error.contains("star") && error.contains("flood"), "{error}");
    }
}
