//! Distances: along a ring, by way of the levels above, and over any path.

use binomesh_overlay::Rank;

use super::{Place, SiblingTree};

impl SiblingTree {
    /// The hops along the ring between two ranks of one level; none if they are
    /// not of one level.
    pub fn ring_distance(&self, one: Rank, other: Rank) -> Option<u32> {
        let (one, other) = (self.place(one), self.place(other));
        (one.level == other.level).then(|| self.across(one.level, one.offset, other.offset))
    }

    /// The length of the shortest way up, along one level and down, over all levels ([SFT06] §3.2,
    /// the variant).
    pub fn climbing_distance(&self, one: Rank, other: Rank) -> u32 {
        self.climb(self.place(one), self.place(other), true).length
    }

    /// A neighbour with the least climbing distance to another rank, preferably a child, found
    /// without looking at all neighbours. None if all must be looked at, or if `from` is `to`.
    ///
    /// Every step changes the distance by at most one, so a step along a best way is a best step.
    /// This does not hold where the link between the ends of a ragged last level is used, which the
    /// levels above know nothing of.
    pub(crate) fn climbing_step(&self, from: Rank, to: Rank) -> Option<Rank> {
        let (here, goal) = (self.place(from), self.place(to));
        let Place { level, offset } = here;
        let last = self.size_of(self.last).saturating_sub(1);
        let is_end = level == self.last && (offset == 0 || offset == last);
        let is_above = level + 1 == self.last && goal.level == self.last;
        if from == to || self.is_ragged() && (is_end || is_above) {
            return None;
        }
        let climb = self.climb(here, goal, true);
        if goal.level > level {
            let below = self.above(goal.offset, goal.level - level - 1);
            let first = offset.saturating_mul(self.fanout.get());
            let end = first.saturating_add(self.fanout.get() - 1);
            let nearest = match (first..=end).contains(&below) {
                true => below,
                false
                    if self.across(level + 1, end, below)
                        < self.across(level + 1, first, below) =>
                {
                    end
                }
                false => first,
            };
            let down = u32::from(goal.level - level - 1);
            if down + self.across(level + 1, nearest, below) < climb.length {
                return Some(self.rank(Place {
                    level: level + 1,
                    offset: nearest,
                }));
            }
        }
        if climb.level < level {
            return self.parent(from);
        }
        let beside = self.above(goal.offset, goal.level.saturating_sub(level));
        let left = self.left(from)?;
        let onward = |rank: Rank| self.across(level, self.place(rank).offset, beside);
        let is_left = onward(left) < self.across(level, offset, beside);
        if is_left {
            Some(left)
        } else {
            self.right(from)
        }
    }

    /// The length of a shortest path if no rank is dead.
    ///
    /// To go below both ranks can only be worth while for a ragged last level: its ring leads from
    /// the last rank back to the left end. A shortest path takes that link at most once.
    pub fn distance(&self, one: Rank, other: Rank) -> u32 {
        Goal::new(self, self.place(other)).distance(self, self.place(one))
    }

    /// The hops between two offsets along the ring of a level.
    pub(crate) fn across(&self, level: u8, one: u32, other: u32) -> u32 {
        let direct = one.abs_diff(other);
        direct.min(self.size_of(level).abs_diff(direct))
    }

    /// As [`SiblingTree::climbing_distance`], with the level of the way. Without `with_seam` the
    /// link between the two ends of a ragged last level is not used.
    fn climb(&self, one: Place, other: Place, with_seam: bool) -> Climb {
        let level = one.level.min(other.level);
        let straight = u32::from(one.level.abs_diff(other.level));
        let one = self.above(one.offset, one.level - level);
        let other = self.above(other.offset, other.level - level);
        let direct = one.abs_diff(other);
        let round = self.power(level).abs_diff(direct);
        // Without gaps, the size of the ring is a power of k.
        let mut best = match (level == self.last && self.is_ragged(), with_seam) {
            (false, _) => direct.min(round),
            (true, true) => self.across(level, one, other),
            (true, false) => direct,
        };
        // Where k^up >= distance, the way along the ring is at most one step, and nothing is gained
        // higher up.
        let distance = direct.min(round);
        let (mut turn, mut up) = (level, level);
        while up > 1 && self.power(up - 1) >= distance {
            up -= 1;
        }
        while up > 0 && best > 2 {
            let climbed = 2 * u32::from(up);
            // Levels above another level are full.
            let direct = self.above(one, up).abs_diff(self.above(other, up));
            let across = direct.min(self.power(level - up).abs_diff(direct));
            // One level further down the way along is at least k times as long, except for one step
            // that the division may have rounded up here.
            if across >= 3 && climbed + across > best {
                break;
            }
            if climbed + across < best {
                (best, turn) = (climbed + across, level - up);
            }
            up -= 1;
        }
        Climb {
            length: straight + best,
            level: turn,
        }
    }
}

/// The best way up, along one level and down.
#[derive(Debug, Clone, Copy)]
struct Climb {
    length: u32,
    /// The level along which the way goes.
    level: u8,
}

/// A goal, with the distances to it from the two ends of a ragged last level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) place: Place,
    seam: Option<Seam>,
}

/// The link between the ends of a ragged last level.
#[derive(Debug, Clone, Copy)]
struct Seam {
    ends: [Place; 2],
    /// The distances to the goal, for each end of the link from the other end.
    onward: [u32; 2],
}

impl Goal {
    pub(crate) fn new(shape: &SiblingTree, place: Place) -> Self {
        let level = shape.last_level();
        let size = shape.size_of(level);
        let ends = [0, size.saturating_sub(1)].map(|offset| Place { level, offset });
        let has_seam = shape.is_ragged() && size > 2;
        let seam = has_seam.then(|| Seam {
            ends,
            onward: [ends[1], ends[0]].map(|end| shape.climb(end, place, false).length),
        });
        Self { place, seam }
    }

    /// The length of a shortest path to the goal if no rank is dead.
    pub(crate) fn distance(&self, shape: &SiblingTree, from: Place) -> u32 {
        let mut best = shape.climb(from, self.place, false).length;
        if let Some(seam) = &self.seam {
            for (end, onward) in seam.ends.into_iter().zip(seam.onward) {
                if onward + 1 < best {
                    best = best.min(shape.climb(from, end, false).length + 1 + onward);
                }
            }
        }
        best
    }

    /// A path up, along one level and down: its length, and the places between its ends. It is a
    /// shortest path unless one over the link between the ends of a ragged last level is shorter.
    pub(crate) fn straight(
        &self,
        shape: &SiblingTree,
        from: Place,
    ) -> (u32, impl Iterator<Item = Place>) {
        let Climb { length, level } = shape.climb(from, self.place, false);
        let on = move |place: Place, level: u8| Place {
            level,
            offset: shape.above(place.offset, place.level - level),
        };
        let goal = self.place;
        let (start, end) = (on(from, level).offset, on(goal, level).offset);
        let (size, direct) = (shape.size_of(level), start.abs_diff(end));
        let is_seam = level == shape.last_level() && shape.is_ragged();
        let is_round = !is_seam && size - direct < direct;
        let is_right = (start < end) != is_round;
        let across = if is_round { size - direct } else { direct };
        // On that level from the ancestor of the start to that of the goal.
        let along = (0..=across).map(move |steps| Place {
            level,
            offset: match is_right {
                true => (start + steps) % size,
                false => (start + size - steps) % size,
            },
        });
        let up = (level + 1..from.level).rev();
        let down = level + 1..goal.level;
        let places = up.map(move |level| on(from, level));
        let places = places
            .chain(along)
            .chain(down.map(move |level| on(goal, level)));
        (
            length,
            places.filter(move |place| *place != goal && *place != from),
        )
    }
}
