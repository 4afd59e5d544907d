//! Intervals of the members of a broadcast, by their distances from its origin. A distance counts
//! places in the order that the strategy of the broadcast gives to the members: with `binomial`,
//! ranks clockwise of the origin.

use serde::{Deserialize, Serialize};

/// The distances `start .. end`, never empty in a message that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The first distance.
    pub start: u32,
    /// One past the last distance.
    pub end: u32,
}

impl Span {
    /// The distances `start .. end`.
    pub const fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }

    /// The one distance `at`.
    pub const fn single(at: u32) -> Self {
        Self::new(at, at.saturating_add(1))
    }

    /// How many distances the span has.
    pub const fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether the span is empty.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The distances that both spans have.
    pub fn clip(self, other: Self) -> Self {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Whether this span has all distances of `other`.
    pub const fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}
