//! What a layer returns to its owner: whether its state has changed.

use std::ops::{BitOr, BitOrAssign};

/// Whether handling an input changed the state of a layer. The owner passes a
/// change on to the next layer and resets the back-off.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Changed(pub bool);

impl Changed {
    /// The state is the same as before.
    pub const NO: Self = Self(false);
    /// The state has changed.
    pub const YES: Self = Self(true);

    /// Put `value` into `place` and say whether that is a change.
    pub fn set<T: PartialEq>(place: &mut T, value: T) -> Self {
        let changed = *place != value;
        *place = value;
        Self(changed)
    }
}

impl BitOr for Changed {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 || other.0)
    }
}

impl BitOrAssign for Changed {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
