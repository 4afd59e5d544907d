//! The hosts that are expected to be members, written as host lists.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{check_name, host_list};

/// The names of expected hosts, each once and sorted; at most [`Inventory::MAX`]. Its text is a
/// host list with ranges, such as `c[001-300],login-[1,3-4]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Texts", into = "Vec<String>")]
pub struct Inventory(BTreeSet<String>);

/// A text that is no host list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no host list: {problem}; expected names such as c[001-300],login-1")]
pub struct InvalidInventory {
    text: String,
    problem: String,
}

/// One host list, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

impl Inventory {
    /// The most hosts: as many as a roster names.
    pub const MAX: usize = 4096;

    /// Whether no host is expected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of hosts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The names of the hosts, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn take(&mut self, text: &str) -> Result<(), InvalidInventory> {
        let invalid = |problem: String| InvalidInventory {
            text: text.chars().take(64).collect(),
            problem,
        };
        for name in host_list::expand(text, Self::MAX).map_err(invalid)? {
            check_name(&name).map_err(|error| invalid(error.to_string()))?;
            self.0.insert(name);
        }
        match self.0.len() > Self::MAX {
            true => Err(invalid(format!(
                "the list has more than {} hosts",
                Self::MAX
            ))),
            false => Ok(()),
        }
    }
}

impl FromStr for Inventory {
    type Err = InvalidInventory;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut inventory = Self::default();
        inventory.take(text)?;
        Ok(inventory)
    }
}

impl TryFrom<Texts> for Inventory {
    type Error = InvalidInventory;

    fn try_from(texts: Texts) -> Result<Self, Self::Error> {
        let mut inventory = Self::default();
        match texts {
            Texts::One(text) => inventory.take(&text)?,
            Texts::Several(texts) => {
                for text in texts {
                    inventory.take(&text)?;
                }
            }
        }
        Ok(inventory)
    }
}

impl From<Inventory> for Vec<String> {
    fn from(inventory: Inventory) -> Self {
        inventory.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Vec<String> {
        text.parse::<Inventory>().unwrap().into()
    }

    #[test]
    fn host_lists_are_expanded() {
        for (text, names) in [
            ("", &[][..]),
            ("a", &["a"]),
            ("b, a,b", &["a", "b"]),
            ("c[1-3]", &["c1", "c2", "c3"]),
            ("c[008-011]", &["c008", "c009", "c010", "c011"]),
            ("c[1,3-4]-ib,x", &["c1-ib", "c3-ib", "c4-ib", "x"]),
            ("r[1-2]n[0-1]", &["r1n0", "r1n1", "r2n0", "r2n1"]),
        ] {
            assert_eq!(expanded(text), names, "{text}");
        }
        assert_eq!(expanded("c[1-4096]").len(), Inventory::MAX);
    }

    #[test]
    fn an_error_says_why_a_text_is_no_host_list() {
        for (text, problem) in [
            ("c[1-3", "brackets"),
            ("c1]", "brackets"),
            ("c[[1]]", "brackets"),
            ("c[3-1]", "backwards"),
            ("c[]", "no number"),
            ("c[1-]", "no number"),
            ("c[+1]", "no number"),
            ("c[99999999999]", "no number"),
            ("c[0-4294967295]", "more than 4096"),
            ("c[1-4096],d", "more than 4096"),
            ("a[1-99]b[1-99]c[1-99]", "more than 4096"),
            ("no name", "no name"),
        ] {
            let error = text.parse::<Inventory>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn settings_may_give_one_text_or_several() {
        let of = |text: &str| serde_json::from_str::<Inventory>(text);
        assert_eq!(of(r#""c[1-2]""#).unwrap(), of(r#"["c1", "c[2]"]"#).unwrap());
        assert!(of(r#"["c[1-"]"#).is_err());
    }
}
