//! The ranks of a sibling tree in preorder: each rank comes before all ranks below it, so a subtree
//! is an interval.

use binomesh_overlay::Rank;

use super::SiblingTree;

impl SiblingTree {
    /// How many ranks come before this one in preorder.
    pub fn preorder(&self, rank: Rank) -> u32 {
        let place = self.place(rank);
        let above = (0..place.level).map(|level| {
            // The ancestor on that level, and all ranks to its left.
            self.above(place.offset, place.level - level)
                .saturating_add(1)
        });
        let above: u32 = above.fold(0, u32::saturating_add);
        let below = self.count_below(place.level, place.offset);
        above.saturating_add(place.offset).saturating_add(below)
    }

    /// How many ranks the subtree of a rank has, the rank itself included.
    pub fn subtree_size(&self, rank: Rank) -> u32 {
        let place = self.place(rank);
        let left = self.count_below(place.level, place.offset);
        let both = self.count_below(place.level, place.offset.saturating_add(1));
        1 + (both - left)
    }

    /// The rank at this index in preorder; none if the index is too large.
    pub fn at_preorder(&self, index: u32) -> Option<Rank> {
        if index >= self.population().get() {
            return None;
        }
        let mut at = Rank(0);
        // Every turn of the loop goes one level down.
        while self.preorder(at) != index {
            let children = self.children(at);
            let (mut low, mut high) = (0, children.len());
            while low < high {
                let middle = low.midpoint(high);
                let child = children.clone().nth(middle)?;
                if self.preorder(child) <= index {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            at = children.clone().nth(low.checked_sub(1)?)?;
        }
        Some(at)
    }

    /// How many descendants the first `offset` ranks of a level have.
    fn count_below(&self, level: u8, offset: u32) -> u32 {
        let deeper = level.saturating_add(1)..=self.last_level();
        let counts = deeper.map(|deeper| {
            let full = u64::from(offset) * u64::from(self.power(deeper - level));
            full.min(u64::from(self.size_of(deeper))) as u32
        });
        counts.fold(0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sibling_tree::Fanout;
    use binomesh_overlay::Population;

    fn walk(shape: &SiblingTree, rank: Rank, order: &mut Vec<Rank>) {
        order.push(rank);
        for child in shape.children(rank) {
            walk(shape, child, order);
        }
    }

    #[test]
    fn preorder_is_that_of_a_walk_and_subtrees_are_intervals() {
        for k in 2..=9 {
            for n in 1..=150 {
                let shape = SiblingTree::new(Population::new(n).unwrap(), Fanout::new(k).unwrap());
                let mut order = Vec::new();
                walk(&shape, Rank(0), &mut order);
                for (index, rank) in (0..).zip(&order) {
                    let context = format!("N={n} k={k} {rank:?}");
                    assert_eq!(shape.preorder(*rank), index, "{context}");
                    assert_eq!(shape.at_preorder(index), Some(*rank), "{context}");
                    let mut below = Vec::new();
                    walk(&shape, *rank, &mut below);
                    assert_eq!(shape.subtree_size(*rank) as usize, below.len(), "{context}");
                }
                assert_eq!(shape.at_preorder(n), None);
            }
        }
    }

    #[test]
    fn stars_and_large_trees_neither_overflow_nor_take_long() {
        let population = Population::new(Population::MAX).unwrap();
        for k in [2, 3, 1000, Fanout::MAX] {
            let shape = SiblingTree::new(population, Fanout::new(k).unwrap());
            for index in [0, 1, 2, 77, Population::MAX / 2, Population::MAX - 1] {
                let rank = shape.at_preorder(index).unwrap();
                assert_eq!(shape.preorder(rank), index, "k={k}");
            }
            assert_eq!(shape.subtree_size(Rank(0)), Population::MAX);
        }
    }
}
