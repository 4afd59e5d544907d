//! The hosts that ought to be there, written as host lists.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::check_name;

/// Names of hosts, each once, in order; at most [`Inventory::MAX`]. As text a host list
/// with ranges, such as `c[001-300],login-[1,3-4]`.
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

/// One host list or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

impl Inventory {
    /// The most hosts: as many as a roster names.
    pub const MAX: usize = 4096;

    /// Whether nobody is expected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many hosts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn take(&mut self, text: &str) -> Result<(), InvalidInventory> {
        let invalid = |problem: String| InvalidInventory {
            text: text.chars().take(64).collect(),
            problem,
        };
        for item in items(text).map_err(invalid)? {
            let mut names = vec![String::new()];
            for piece in pieces(item).map_err(invalid)? {
                let all = names.len().saturating_mul(piece.count());
                if self.0.len().saturating_add(all) > Self::MAX {
                    return Err(invalid(format!("more than {} hosts", Self::MAX)));
                }
                let with = |name: &String| piece.texts(name).collect::<Vec<String>>();
                names = names.iter().flat_map(with).collect();
            }
            for name in names {
                check_name(&name).map_err(|error| invalid(error.to_string()))?;
                self.0.insert(name);
            }
        }
        Ok(())
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

/// What stands between the commas outside brackets.
fn items(text: &str) -> Result<Vec<&str>, String> {
    let mut is_inside = false;
    for bracket in text.chars().filter(|c| matches!(c, '[' | ']')) {
        if is_inside == (bracket == '[') {
            return Err("its brackets do not match".to_owned());
        }
        is_inside = !is_inside;
    }
    if is_inside {
        return Err("its brackets do not match".to_owned());
    }
    let outside = text.split(|c| {
        match c {
            '[' => is_inside = true,
            ']' => is_inside = false,
            _ => {}
        }
        c == ',' && !is_inside
    });
    Ok(outside
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .collect())
}

/// A piece of a name: a text, or ranges of numbers.
enum Piece<'a> {
    Text(&'a str),
    Ranges(Vec<Range>),
}

/// Numbers from the first to the last, with so many digits.
struct Range {
    first: u32,
    last: u32,
    width: usize,
}

impl Piece<'_> {
    fn count(&self) -> usize {
        let Self::Ranges(ranges) = self else { return 1 };
        let counts = ranges
            .iter()
            .map(|range| (range.last - range.first) as usize + 1);
        counts.fold(0, usize::saturating_add)
    }

    /// A name with this piece behind it, in every way.
    fn texts(&self, name: &str) -> Box<dyn Iterator<Item = String> + '_> {
        let name = name.to_owned();
        match self {
            Self::Text(text) => Box::new(std::iter::once(name + text)),
            Self::Ranges(ranges) => Box::new(ranges.iter().flat_map(move |range| {
                let (name, width) = (name.clone(), range.width);
                (range.first..=range.last).map(move |number| format!("{name}{number:0width$}"))
            })),
        }
    }
}

fn pieces(item: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    for part in item.split_inclusive(']') {
        let (text, ranges) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((text, ranges)) => (text, Some(ranges)),
            None => (part, None),
        };
        pieces.push(Piece::Text(text));
        if let Some(ranges) = ranges {
            let ranges: Result<Vec<Range>, String> = ranges.split(',').map(range).collect();
            pieces.push(Piece::Ranges(ranges?));
        }
    }
    Ok(pieces)
}

fn range(text: &str) -> Result<Range, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = text.parse::<u32>().ok().filter(|_| is_number);
        parsed.ok_or_else(|| format!("{text:?} is no number"))
    };
    let range = Range {
        first: number(first)?,
        last: number(last)?,
        width: if first.starts_with('0') {
            first.len()
        } else {
            1
        },
    };
    if range.first > range.last {
        return Err(format!("{text:?} goes backwards"));
    }
    Ok(range)
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
    fn what_is_no_host_list_is_said_with_its_reason() {
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
