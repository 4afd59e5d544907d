//! The standing of a subtree: which ranks its members hold.

use serde::{Deserialize, Serialize};

use crate::{Epoch, Id, Placement, Population, Rank};

/// The members of a subtree that hold a rank in one epoch, in preorder. Like the pages of a
/// chapter, they are described by the first, the last and their number; the ranks of dead members
/// are missing in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Standing<I> {
    /// The epoch of the numbering.
    pub epoch: Epoch<I>,
    /// How many ranks the numbering has.
    pub population: Population,
    /// The rank of the first member in preorder.
    pub first: Rank,
    /// The rank of the last member in preorder.
    pub last: Rank,
    /// How many members hold a rank.
    pub count: u32,
    /// Whether the ranks rise in preorder, once round the ring at most.
    pub is_ordered: bool,
}

impl<I: Id> Standing<I> {
    /// The standing of one member.
    pub(crate) const fn of(placement: &Placement<I>) -> Self {
        Self {
            epoch: placement.epoch,
            population: placement.population,
            first: placement.rank,
            last: placement.rank,
            count: 1,
            is_ordered: true,
        }
    }

    /// Whether a subtree of `size` can have this standing: a check for standings that come from
    /// other nodes.
    pub(crate) fn is_possible(&self, size: Population) -> bool {
        let are_ranks =
            self.first.is_within(self.population) && self.last.is_within(self.population);
        are_ranks && self.count >= 1 && self.count <= size.get()
    }

    /// Append the standing of the next subtree in preorder. A subtree of another numbering holds no
    /// rank of this one and adds nothing.
    pub(crate) fn append(&mut self, next: &Self) {
        if (next.epoch, next.population) != (self.epoch, self.population) {
            return;
        }
        let from_start = |rank| self.first.distance_to(rank, self.population);
        let (last, first) = (from_start(self.last), from_start(next.first));
        self.is_ordered &= next.is_ordered && last < first && first <= from_start(next.last);
        self.last = next.last;
        self.count = self.count.saturating_add(next.count);
    }

    /// How many ranks of the numbering no member of this subtree holds.
    pub const fn vacant(&self) -> u32 {
        self.population.get().saturating_sub(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rank: u32) -> Standing<u32> {
        let epoch = Epoch {
            root: 0,
            boot: 1,
            counter: 1,
            nonce: 1,
        };
        let population = Population::new(8).unwrap();
        Standing::of(&Placement {
            epoch,
            population,
            rank: Rank(rank),
        })
    }

    fn all(ranks: &[u32]) -> Standing<u32> {
        let mut standing = at(ranks[0]);
        ranks[1..]
            .iter()
            .for_each(|rank| standing.append(&at(*rank)));
        standing
    }

    #[test]
    fn ranks_may_be_missing_and_may_start_anywhere() {
        assert!(all(&[0, 1, 2, 5, 7]).is_ordered);
        assert!(all(&[6, 7, 0, 1, 4]).is_ordered);
        assert_eq!(all(&[0, 1, 2, 5, 7]).vacant(), 3);
    }

    #[test]
    fn a_rank_twice_or_out_of_order_is_seen() {
        for wrong in [&[0, 1, 1][..], &[0, 2, 1], &[3, 5, 1, 4], &[3, 7, 3]] {
            assert!(!all(wrong).is_ordered, "{wrong:?}");
        }
        let mut outer = at(0);
        outer.append(&all(&[1, 3]));
        outer.append(&all(&[2, 4]));
        assert!(!outer.is_ordered, "interleaved subtrees");
    }

    #[test]
    fn a_member_of_another_epoch_holds_no_rank() {
        let mut standing = at(0);
        let mut stranger = at(1);
        stranger.epoch.nonce = 9;
        standing.append(&stranger);
        assert_eq!((standing.count, standing.is_ordered), (1, true));
    }

    #[test]
    fn impossible_claims_are_refused() {
        let size = Population::new(2).unwrap();
        assert!(all(&[1, 2]).is_possible(size));
        assert!(!all(&[1, 2, 3]).is_possible(size));
        let beyond = Standing {
            last: Rank(8),
            ..at(1)
        };
        assert!(!beyond.is_possible(size));
    }
}
