//! Stamps and marks: how a member proves that it belongs at a certain place of the binomial graph.

use std::fmt::Debug;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::placement::{Epoch, Placement, Population, Rank};

/// The result of comparing a mark with the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The marked member has exactly the expected place.
    Holds,
    /// The marked member has another place in the same epoch.
    Fails,
    /// The mark belongs to another epoch and proves nothing about this one.
    Foreign,
    /// Marks are not used: believe the message, as the paper does.
    Absent,
}

/// The place of a process, as far as it can prove it. `()` proves nothing, as in [BMG09]; a
/// [`Placement`] proves epoch and rank.
pub trait Stamp: Clone + Eq + Hash + Debug {
    /// The mark that travels with an identifier.
    type Mark: Copy + Eq + Hash + Debug;

    /// The mark of the member `distance` places clockwise; at 0 the process's own mark.
    fn ahead(&self, distance: u32) -> Self::Mark;

    /// The mark of the member `distance` places counterclockwise.
    fn behind(&self, distance: u32) -> Self::Mark;

    /// The mark `distance` places from `mark`, clockwise or counterclockwise; none if this process
    /// cannot compute it.
    fn from(&self, mark: Self::Mark, distance: u32, is_clockwise: bool) -> Option<Self::Mark>;

    /// Whether `mark` is the one `expected` here.
    fn judge(&self, mark: Self::Mark, expected: Self::Mark) -> Proof;
}

impl Stamp for () {
    type Mark = ();

    fn ahead(&self, _distance: u32) {}

    fn behind(&self, _distance: u32) {}

    fn from(&self, _mark: (), _distance: u32, _is_clockwise: bool) -> Option<()> {
        None
    }

    fn judge(&self, _mark: (), _expected: ()) -> Proof {
        Proof::Absent
    }
}

/// An epoch and the rank of a member in it. A mark is a claim until it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mark<I> {
    /// The epoch of the numbering.
    pub epoch: Epoch<I>,
    /// The rank in that numbering.
    pub rank: Rank,
}

impl<I: Id> Stamp for Placement<I> {
    type Mark = Mark<I>;

    fn ahead(&self, distance: u32) -> Mark<I> {
        Mark {
            epoch: self.epoch,
            rank: self.rank.ahead(distance, self.population),
        }
    }

    fn behind(&self, distance: u32) -> Mark<I> {
        Mark {
            epoch: self.epoch,
            rank: self.rank.behind(distance, self.population),
        }
    }

    fn from(&self, mark: Mark<I>, distance: u32, is_clockwise: bool) -> Option<Mark<I>> {
        let is_here = mark.epoch == self.epoch && mark.rank.is_within(self.population);
        let rank = match is_clockwise {
            true => mark.rank.ahead(distance, self.population),
            false => mark.rank.behind(distance, self.population),
        };
        is_here.then_some(Mark { rank, ..mark })
    }

    fn judge(&self, mark: Mark<I>, expected: Mark<I>) -> Proof {
        if mark.epoch != expected.epoch {
            Proof::Foreign
        } else if mark.rank == expected.rank {
            Proof::Holds
        } else {
            Proof::Fails
        }
    }
}

/// The distance 2^level on a ring of `population`, without any whole turns.
pub(crate) const fn distance(level: usize, population: Population) -> u32 {
    ((1_u64 << level) % population.get() as u64) as u32
}
