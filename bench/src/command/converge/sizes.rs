//! Sizes: a number of processes or a range of them.

use std::str::FromStr;

/// Sizes from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// A text that is neither a size nor a range of sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSizes;

impl std::fmt::Display for InvalidSizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("expected a number from 1 to 16777216, or a range such as 2..64")
    }
}

impl std::error::Error for InvalidSizes {}

impl FromStr for Sizes {
    type Err = InvalidSizes;

    fn from_str(text: &str) -> Result<Self, InvalidSizes> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let number = |text: &str| text.parse::<usize>().map_err(|_| InvalidSizes);
        let (first, last) = (number(first)?, number(last)?);
        let most = binomesh_overlay::Population::MAX as usize;
        if first == 0 || first > last || last > most {
            return Err(InvalidSizes);
        }
        Ok(Self { first, last })
    }
}

impl Sizes {
    /// The smallest size.
    pub const fn first(self) -> usize {
        self.first
    }

    /// The greatest size.
    pub const fn last(self) -> usize {
        self.last
    }

    /// The size of the run with this number. The sizes take turns.
    pub const fn turn(self, number: u64) -> usize {
        self.first + (number % (self.last - self.first + 1) as u64) as usize
    }
}
