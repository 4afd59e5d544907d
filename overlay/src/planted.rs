//! Named bugs that tests switch on to see the tests go red.
//!
//! A machine asks [`Planted::has`] at the line that the bug would break. In a build without the
//! feature `planted` the answer is a constant `false`.

use std::str::FromStr;

use crate::named;

named! {
    /// A bug that can be planted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Bug {
        /// Ring rule 4 takes an Info from any node, not only from a child.
        Rule4Guard = "rule-4-guard",
        /// Finger rules forward while 2^(i+1) ≤ N instead of < N, as printed in
        /// [BMG09] Alg. 2, rule 3.
        LevelBound = "level-bound",
        /// A rule fires once and is never repeated.
        MissingRefresh = "missing-refresh",
        /// Ring rules 4 and 5 set the predecessor but send no B_Connect.
        LostBConnect = "lost-b-connect",
        /// The relay reports a part as done when it takes custody of it.
        DoneBeforeCustody = "done-before-custody",
        /// The relay drops a duplicate together with the larger duty it brings.
        DropDuplicateDuty = "drop-duplicate-duty",
        /// The relay waits until a delegate that has no room has some, even for a copy that
        /// is for the delegate alone.
        WaitForRoom = "wait-for-room",
        /// A node that is called down does not answer the accusation.
        DroppedRefutation = "dropped-refutation",
        /// A silent peer is down after one beat, without a ping.
        VerdictWithoutProbe = "verdict-without-probe",
        /// Ranks are handed on by the newest count instead of the frozen one by which the root
        /// counted.
        UnfrozenOffsets = "unfrozen-offsets",
        /// A node that has lost its parent accepts children all the same.
        OrphansAcceptChildren = "orphans-accept-children",
        /// A node takes a place from any sender and for any count if the number of its epoch is
        /// larger.
        LargerEpoch = "larger-epoch",
        /// A node that has probed without success for a while stops probing.
        ProbingStops = "probing-stops",
        /// Lost peers are never forgotten.
        UnboundedLost = "unbounded-lost",
    }
}

/// A name that no planted bug has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no planted bug is called `{0}`")]
pub struct UnknownBug(String);

impl FromStr for Bug {
    type Err = UnknownBug;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::named(name).ok_or_else(|| UnknownBug(name.chars().take(64).collect()))
    }
}

/// The bug, if any, that a machine runs with. The default is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Planted(#[cfg(feature = "planted")] Option<Bug>);

impl Planted {
    /// Code without a planted bug.
    #[cfg(feature = "planted")]
    pub const NONE: Self = Self(None);
    /// Code without a planted bug.
    #[cfg(not(feature = "planted"))]
    pub const NONE: Self = Self();

    /// A machine that runs with this bug.
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
