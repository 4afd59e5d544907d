//! The identifier of a process in the arena.

use std::fmt;
use std::num::NonZeroU32;

/// A process of the arena. Numbers start at 1, so that `Option<Member>` has only four bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(NonZeroU32);

impl Member {
    /// The process at `index`, counted from 0.
    pub const fn at(index: usize) -> Self {
        match NonZeroU32::new(index as u32 + 1) {
            Some(number) => Self(number),
            None => Self(NonZeroU32::MAX),
        }
    }

    /// The index of the process, counted from 0.
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.index())
    }
}
