//! Routers by the names that users know.

use std::fmt;
use std::sync::LazyLock;

use binomesh_routing::router::{Chosen, ROUTERS};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The router of a node: how routed messages find their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Router {
    /// The best of the built-in routers: `binomial`, see docs/routing.md.
    #[default]
    Auto,
    /// This router: one of [`ROUTERS`], or a user's own, which cannot be named in a text.
    Of(Chosen),
}

/// `auto` and the names of all built-in routers.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let names = ROUTERS.iter().map(|router| router.name());
    std::iter::once(AUTO).chain(names).collect()
});
const AUTO: &str = "auto";

impl Router {
    /// The router of this name, if the name is `auto` or that of a built-in router.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            AUTO => Some(Self::Auto),
            _ => Chosen::named(name).map(Self::Of),
        }
    }

    /// The router that is used.
    pub fn chosen(self) -> Chosen {
        match self {
            Self::Auto => Chosen::default(),
            Self::Of(chosen) => chosen,
        }
    }

    /// The router's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => AUTO,
            Self::Of(chosen) => chosen.get().name(),
        }
    }
}

impl fmt::Display for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Router {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Router {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| D::Error::unknown_variant(&name, &NAMES))
    }
}

#[cfg(feature = "cli")]
impl clap::ValueEnum for Router {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Router>> = LazyLock::new(|| {
            NAMES
                .iter()
                .filter_map(|name| Router::named(name))
                .collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let about = match self {
            Self::Auto => "The best router, which is `binomial`; see docs/routing.md",
            Self::Of(chosen) => chosen.get().about().trim_end_matches('.'),
        };
        Some(clap::builder::PossibleValue::new(self.name()).help(about))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_router_is_read_by_the_name_that_is_written() {
        assert_eq!(NAMES.len(), ROUTERS.len() + 1);
        for name in NAMES.iter() {
            let router = Router::named(name).unwrap();
            let written = serde_json::to_value(router).unwrap();
            assert_eq!(written, *name);
            assert_eq!(serde_json::from_value::<Router>(written).unwrap(), router);
        }
        let error = serde_json::from_str::<Router>("\"star\"").unwrap_err();
        assert!(error.to_string().contains("`basic-least`"), "{error}");
    }
}
