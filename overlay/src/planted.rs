//! Named bugs that tests switch on to see the tests go red.
//!
//! A machine asks [`Planted::has`] at the one line that a bug would break. In a
//! build without the feature `planted` the answer is a constant `false`.

use std::fmt;
use std::str::FromStr;

/// A bug that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// Ring rule 4 takes an Info from anybody, not only from a child.
    Rule4Guard,
    /// Finger rules forward while 2^(i+1) ≤ N instead of < N, as printed in
    /// [BMG09] Alg. 2, rule 3.
    LevelBound,
    /// Nothing is repeated: a rule fires once and never again.
    MissingRefresh,
    /// Ring rules 4 and 5 set the predecessor but send no B_Connect.
    LostBConnect,
    /// The relay reports a part as done when it takes custody of it.
    DoneBeforeCustody,
    /// The relay drops a duplicate together with the larger duty it brings.
    DropDuplicateDuty,
    /// The relay waits until a delegate that has no room has some, even for a copy that
    /// is for the delegate alone.
    WaitForRoom,
    /// A node that is called down does not answer.
    DroppedRefutation,
    /// Silence alone makes a peer down, after one beat and unasked.
    VerdictWithoutProbe,
    /// Ranks are handed on by the newest count and not by the one that the root
    /// counted with.
    UnfrozenOffsets,
    /// A node that has lost its parent takes children all the same.
    OrphansAcceptChildren,
    /// A place is taken from anybody and for any count, if the number of its epoch
    /// is larger.
    LargerEpoch,
    /// A node that has probed in vain for a while stops.
    ProbingStops,
    /// Lost peers are never forgotten.
    UnboundedLost,
}

impl Bug {
    /// Every bug, in the order of their declaration.
    pub const ALL: [Self; 14] = [
        Self::Rule4Guard,
        Self::LevelBound,
        Self::MissingRefresh,
        Self::LostBConnect,
        Self::DoneBeforeCustody,
        Self::DropDuplicateDuty,
        Self::WaitForRoom,
        Self::DroppedRefutation,
        Self::VerdictWithoutProbe,
        Self::UnfrozenOffsets,
        Self::OrphansAcceptChildren,
        Self::LargerEpoch,
        Self::ProbingStops,
        Self::UnboundedLost,
    ];

    /// The name used on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rule4Guard => "rule-4-guard",
            Self::LevelBound => "level-bound",
            Self::MissingRefresh => "missing-refresh",
            Self::LostBConnect => "lost-b-connect",
            Self::DoneBeforeCustody => "done-before-custody",
            Self::DropDuplicateDuty => "drop-duplicate-duty",
            Self::WaitForRoom => "wait-for-room",
            Self::DroppedRefutation => "dropped-refutation",
            Self::VerdictWithoutProbe => "verdict-without-probe",
            Self::UnfrozenOffsets => "unfrozen-offsets",
            Self::OrphansAcceptChildren => "orphans-accept-children",
            Self::LargerEpoch => "larger-epoch",
            Self::ProbingStops => "probing-stops",
            Self::UnboundedLost => "unbounded-lost",
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no planted bug has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no planted bug is called `{0}`")]
pub struct UnknownBug(String);

impl FromStr for Bug {
    type Err = UnknownBug;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|bug| bug.name() == name);
        found.ok_or_else(|| UnknownBug(name.chars().take(64).collect()))
    }
}

/// Which bug, if any, a machine runs with. The default is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Planted(#[cfg(feature = "planted")] Option<Bug>);

impl Planted {
    /// No bug.
    #[cfg(feature = "planted")]
    pub const NONE: Self = Self(None);
    /// No bug.
    #[cfg(not(feature = "planted"))]
    pub const NONE: Self = Self();

    /// Run with this bug.
    #[cfg(feature = "planted")]
    pub const fn new(bug: Bug) -> Self {
        Self(Some(bug))
    }

    /// Whether `bug` is planted.
    #[cfg(feature = "planted")]
    pub fn has(self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }

    /// Whether `bug` is planted: never in this build.
    #[cfg(not(feature = "planted"))]
    pub const fn has(self, _bug: Bug) -> bool {
        false
    }
}
