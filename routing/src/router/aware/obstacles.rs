//! The ranks that are in the way, and the places where a way round them can begin.

use binomesh_overlay::Rank;

use crate::router::RankSet;
use crate::sibling_tree::{Place, SiblingTree};

/// The ranks that a path must not enter. A small bit filter answers most questions before the lists
/// are searched.
pub(super) struct Obstacles<'a> {
    lists: [&'a RankSet; 2],
    except: Rank,
    filter: [u64; 16],
}

impl<'a> Obstacles<'a> {
    /// The ranks of both lists as obstacles, except one.
    pub(super) fn new(lists: [&'a RankSet; 2], except: Rank) -> Self {
        let mut filter = [0; 16];
        for rank in lists.into_iter().flat_map(RankSet::iter) {
            let (word, bit) = Self::slot(rank);
            filter[word] |= bit;
        }
        Self {
            lists,
            except,
            filter,
        }
    }

    pub(super) fn contains(&self, rank: Rank) -> bool {
        let (word, bit) = Self::slot(rank);
        self.filter[word] & bit != 0
            && rank != self.except
            && self.lists.iter().any(|list| list.contains(rank))
    }

    /// Whether neither list has a rank from `first` to `last`, both included. The excepted rank
    /// counts here too.
    pub(super) fn are_free(&self, first: Rank, last: Rank) -> bool {
        let has = |list: &RankSet| list.first_from(first).is_some_and(|rank| rank <= last);
        !self.lists.into_iter().any(has)
    }

    /// An upper bound on the number of obstacles.
    pub(super) fn count(&self) -> usize {
        self.lists.iter().map(|list| list.len()).sum()
    }

    fn all(&self) -> impl Iterator<Item = Rank> {
        let all = self.lists.into_iter().flat_map(RankSet::iter);
        all.filter(|rank| *rank != self.except)
    }

    fn slot(rank: Rank) -> (usize, u64) {
        // The upper bits of a product with 2^32 / golden ratio are well mixed.
        let mixed = rank.0.wrapping_mul(0x9E37_79B1) >> 22;
        ((mixed >> 6) as usize, 1 << (mixed & 63))
    }
}

/// The marks: places for which it is worth going down, in preorder.
///
/// A shortest path that has gone down turns along a ring only to pass under an obstacle: from the
/// edge child of the obstacle's neighbour to a child of the obstacle. Otherwise it could have gone
/// along one level higher just as well. The marks are these edge children, the goal, and both ends
/// of a ragged last level, whose ring links places that are far apart above.
#[derive(Default)]
pub(super) struct Marks {
    /// For each mark, where its subtree begins on a full last level, and then its level.
    keys: Vec<u64>,
}

const LEVEL_BITS: u32 = 5;

impl Marks {
    pub(super) fn new(shape: &SiblingTree, obstacles: &Obstacles<'_>, goal: Place) -> Self {
        let mut marks = Self {
            keys: Vec::with_capacity(2 * obstacles.count() + 3),
        };
        marks.add(shape, goal);
        let level = shape.last_level();
        if shape.is_ragged() && shape.size_of(level) > 2 {
            for offset in [0, shape.size_of(level) - 1] {
                marks.add(shape, Place { level, offset });
            }
        }
        for rank in obstacles.all() {
            let place = shape.place(rank);
            marks.beside(shape, obstacles, place);
        }
        marks.keys.sort_unstable();
        marks
    }

    /// Mark the edge children of both neighbours of an obstacle.
    fn beside(&mut self, shape: &SiblingTree, obstacles: &Obstacles<'_>, place: Place) {
        let (k, size) = (shape.fanout().get(), shape.size_of(place.level));
        let level = place.level + 1;
        let below = shape.size_of(level);
        if size < 2 || below == 0 {
            return;
        }
        let left = place.offset.checked_sub(1).unwrap_or(size - 1);
        let right = if place.offset + 1 < size {
            place.offset + 1
        } else {
            0
        };
        for (beside, edge) in [(left, k - 1), (right, 0)] {
            let offset = u64::from(beside) * u64::from(k) + u64::from(edge);
            let neighbour = shape.rank(Place {
                offset: beside,
                ..place
            });
            if offset < u64::from(below) && !obstacles.contains(neighbour) {
                let offset = offset as u32;
                self.add(shape, Place { level, offset });
            }
        }
    }

    fn add(&mut self, shape: &SiblingTree, place: Place) {
        self.keys
            .push(Self::start(shape, place) << LEVEL_BITS | u64::from(place.level));
    }

    /// The children of a place with a mark in their subtree.
    pub(super) fn children_of<'a>(
        &'a self,
        shape: &'a SiblingTree,
        place: Place,
    ) -> impl Iterator<Item = Place> + 'a {
        let level = place.level + 1;
        let end = match place.level {
            0 => u64::MAX,
            _ => {
                Self::start(
                    shape,
                    Place {
                        offset: place.offset + 1,
                        ..place
                    },
                ) << LEVEL_BITS
            }
        };
        let from = Self::start(shape, place) << LEVEL_BITS | u64::from(level);
        let mut at = self.keys.partition_point(|key| *key < from);
        let width = u64::from(shape.power(shape.last_level().saturating_sub(level)));
        std::iter::from_fn(move || {
            let key = *self.keys.get(at).filter(|key| **key < end)?;
            let offset = (key >> LEVEL_BITS) / width;
            let behind = ((offset + 1) * width) << LEVEL_BITS;
            while self.keys.get(at).is_some_and(|key| *key < behind) {
                at += 1;
            }
            Some(Place {
                level,
                offset: offset as u32,
            })
        })
    }

    /// Whether a mark is at or below one of the places from `first` to `last` of one
    /// level.
    pub(super) fn has_any_below(&self, shape: &SiblingTree, first: Place, last: Place) -> bool {
        let behind = Place {
            offset: last.offset + 1,
            ..last
        };
        let from = Self::start(shape, first) << LEVEL_BITS | u64::from(first.level);
        let end = Self::start(shape, behind) << LEVEL_BITS;
        let at = self.keys.partition_point(|key| *key < from);
        self.keys.get(at).is_some_and(|key| *key < end)
    }

    fn start(shape: &SiblingTree, place: Place) -> u64 {
        let down = shape.last_level() - place.level;
        u64::from(place.offset) * u64::from(shape.power(down))
    }
}
