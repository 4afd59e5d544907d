//! Shortest paths round obstacles, searching only where it can matter.
//!
//! The search is A* with the exact distance of the tree without obstacles as its estimate, so it
//! goes straight where there are none. Behind a wall of dead ranks, plain A* would look at
//! everything that is nearer than the way round, which may be all of the tree. So of the many paths
//! of one length only the shallowest is followed, the one whose levels have the least sum:
//!
//! - *along, up* only where the parent of the rank before is an obstacle; else *up, along* is as
//!   short;
//! - *down, along* only where the parent of the rank behind is an obstacle; else *along, down* is
//!   as short. So going down is only for the goal and for such places ([`Marks`]);
//! - *along* only as long as *up, along, down* is longer, while the parents live.
//!
//! The search runs from the destination, and ends where a straight path leads to the source. Every
//! rule replaces a piece of a path by a shallower one of at most the same length, so some shortest
//! path obeys all rules. The link between the ends of a ragged last level has no parallel above,
//! and the rules do not apply to it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use binomesh_overlay::Rank;

use super::obstacles::{Marks, Obstacles};
use crate::router::RankSet;
use crate::sibling_tree::{Goal, Place, SiblingTree};

/// The first step of a shortest path from one rank to another that enters none of the obstacles,
/// and the length of that path. None if there is no path, or both ranks are the same.
///
/// The search looks at each rank a bounded number of times. If no obstacle is in the way, it looks
/// only at the ranks on the path, after it has put all obstacles into a filter.
pub fn first_hop(
    shape: &SiblingTree,
    from: Rank,
    to: Rank,
    obstacles: [&RankSet; 2],
) -> Option<(Rank, u32)> {
    let population = shape.population();
    let is_possible = from.is_within(population) && to.is_within(population);
    let obstacles = Obstacles::new(obstacles, from);
    if from == to || !is_possible || obstacles.contains(to) {
        return None;
    }
    let mut search = Search {
        shape,
        obstacles,
        // The search runs backwards: a destination behind a wall of dead ranks has few ranks
        // around it to look at.
        goal: Goal::new(shape, shape.place(from)),
        marks: Marks::default(),
        seen: HashMap::default(),
        paths: Vec::new(),
        open: Vec::new(),
        least: 0,
    };
    search.run(shape.place(to))
}

/// How a path came to a rank. This decides how the path may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryDirection {
    /// From below, or the path begins here: it may go on in any direction.
    Free,
    /// From above: the path came down from the parent.
    Down,
    /// Along the ring, with the number of last steps that were under living parents.
    Along(Side, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// A path to a place.
#[derive(Debug, Clone, Copy)]
struct Path {
    place: Place,
    arrival: EntryDirection,
    length: u32,
    /// The rank before the last one. The search runs backwards, so this is the first step of the
    /// way that it finds.
    before: Rank,
    /// The next path in the list of those that promise the same length.
    next: Option<u32>,
}

struct Search<'a> {
    shape: &'a SiblingTree,
    obstacles: Obstacles<'a>,
    marks: Marks,
    goal: Goal,
    /// For each rank, a bit for each kind of arrival there.
    seen: HashMap<u32, u16, BuildHasherDefault<Mix>>,
    /// All paths that were found so far.
    paths: Vec<Path>,
    /// For each detour, the path that was added last; it is followed next. The detour of a path is
    /// by how much it promises to become longer than `least`.
    open: Vec<Option<u32>>,
    least: u32,
}

impl Search<'_> {
    fn run(&mut self, start: Place) -> Option<(Rank, u32)> {
        if let Some(found) = self.straight(start, 0) {
            return Some(found);
        }
        self.least = self.goal.distance(self.shape, start);
        self.marks = Marks::new(self.shape, &self.obstacles, self.goal.place);
        self.extend(None, start, EntryDirection::Free);
        let mut detour = 0;
        while detour < self.open.len() {
            let Some(path) = self.open[detour].and_then(|at| self.paths.get(at as usize).copied())
            else {
                detour += 1;
                continue;
            };
            self.open[detour] = path.next;
            if path.place == self.goal.place {
                return Some((path.before, path.length));
            }
            if !self.is_new(&path) {
                continue;
            }
            // No other path promises to be shorter than this one. If it can go straight on, it is a
            // shortest path.
            if path.length > 0
                && let Some(found) = self.straight(path.place, path.length)
            {
                return Some(found);
            }
            self.go_up(&path);
            self.go_along(&path, Side::Left);
            self.go_along(&path, Side::Right);
            self.go_down(&path);
        }
        None
    }

    /// Complete a path of this length straight to the goal, if that is a shortest way without
    /// obstacles.
    fn straight(&self, place: Place, length: u32) -> Option<(Rank, u32)> {
        let (onward, places) = self.goal.straight(self.shape, place);
        let mut before = self.shape.rank(place);
        for place in places {
            before = self.shape.rank(place);
            if self.obstacles.contains(before) {
                return None;
            }
        }
        let is_shortest = onward == self.goal.distance(self.shape, place);
        is_shortest.then_some((before, length + onward))
    }

    fn go_down(&mut self, path: &Path) {
        if path.place.level == self.shape.last_level() {
            return;
        }
        // The marks are taken out for the loop only, which does not change them.
        let marks = std::mem::take(&mut self.marks);
        for child in marks.children_of(self.shape, path.place) {
            self.extend(Some(path), child, EntryDirection::Down);
        }
        self.marks = marks;
    }

    fn go_up(&mut self, path: &Path) {
        let Place { level, offset } = path.place;
        let parent = offset / self.shape.fanout().get();
        let is_worth_it = match path.arrival {
            _ if level == 0 => false,
            EntryDirection::Free => true,
            EntryDirection::Down => false,
            EntryDirection::Along(side, _) => {
                let before = match side {
                    Side::Right => self.beside(path.place, Side::Left),
                    Side::Left => self.beside(path.place, Side::Right),
                };
                let beside = before / self.shape.fanout().get();
                self.is_seam(level, before, offset)
                    || beside != parent && self.is_obstacle(level - 1, beside)
            }
        };
        if is_worth_it {
            let parent = Place {
                level: level - 1,
                offset: parent,
            };
            self.extend(Some(path), parent, EntryDirection::Free);
        }
    }

    fn go_along(&mut self, path: &Path, side: Side) {
        let Place { level, offset } = path.place;
        let size = self.shape.size_of(level);
        // On a ring of two, the other rank is to the right.
        if size < 2 || size == 2 && side == Side::Left {
            return;
        }
        let steps = match path.arrival {
            EntryDirection::Along(other, _) if other != side => return,
            EntryDirection::Along(_, steps) => Some(steps),
            EntryDirection::Free => Some(0),
            EntryDirection::Down => None,
        };
        let next = self.beside(path.place, side);
        let k = self.shape.fanout().get();
        let (here, there) = (offset / k, next / k);
        let run = if self.is_seam(level, offset, next) {
            0
        } else if self.is_obstacle(level - 1, there) {
            // The next place is under an obstacle: for such steps a path goes down.
            if steps.is_none() && here == there {
                return;
            }
            0
        } else if let Some(steps) = steps {
            match self.is_obstacle(level - 1, here) {
                true => 0,
                false => steps + 1,
            }
        } else {
            return;
        };
        let start = match side {
            Side::Right => next
                .checked_sub(run.into())
                .unwrap_or_else(|| next + size - u32::from(run)),
            Side::Left => (next + u32::from(run)) % size,
        };
        let above = 2 + self.shape.across(level - 1, start / k, there);
        if run > 0 && u32::from(run) >= above {
            return;
        }
        let next = Place {
            level,
            offset: next,
        };
        let is_under = self.is_obstacle(level - 1, there);
        if is_under && !self.obstacles.contains(self.shape.rank(next)) {
            let (next, steps) = self.slide(next, side);
            self.reach(path, next, steps + 1, EntryDirection::Along(side, 0));
        } else {
            self.extend(Some(path), next, EntryDirection::Along(side, run));
        }
    }

    /// How far a path can only go on along the ring, because it is under obstacles and no mark is
    /// below. Returns the last place and the number of steps.
    fn slide(&self, from: Place, side: Side) -> (Place, u32) {
        let Place { level, offset } = from;
        let (k, size) = (self.shape.fanout().get(), self.shape.size_of(level));
        let (mut at, mut steps) = (offset, 0);
        for _ in 0..self.obstacles.count() {
            let parent = at / k;
            let end = match side {
                Side::Left => parent * k,
                Side::Right => parent.saturating_mul(k).saturating_add(k - 1).min(size - 1),
            };
            let [first, last] = [at.min(end), at.max(end)].map(|offset| Place { level, offset });
            let is_clear = self.is_obstacle(level - 1, parent)
                && self
                    .obstacles
                    .are_free(self.shape.rank(first), self.shape.rank(last))
                && !self.marks.has_any_below(self.shape, first, last);
            if !is_clear {
                break;
            }
            steps += last.offset - first.offset;
            at = end;
            let next = match side {
                Side::Left => at.checked_sub(1),
                Side::Right => Some(at + 1).filter(|next| *next < size),
            };
            // The slide stops at an end of the level. The link from one end to the other is a step
            // of its own, since that of a ragged level has other rules.
            let Some(next) = next else { break };
            let is_free = |offset| !self.is_obstacle(level, offset);
            if !self.is_obstacle(level - 1, next / k) || !is_free(next) {
                break;
            }
            (at, steps) = (next, steps + 1);
        }
        let place = Place { level, offset: at };
        (place, steps)
    }

    /// Extend a path by one step, or begin one if there is none, unless an obstacle is there.
    fn extend(&mut self, path: Option<&Path>, place: Place, arrival: EntryDirection) {
        let rank = self.shape.rank(place);
        if self.obstacles.contains(rank) {
            return;
        }
        match path {
            Some(path) => self.reach(path, place, 1, arrival),
            None => self.follow(place, arrival, 0, rank),
        }
    }

    /// Extend a path by this many steps: one in any direction, or several along a ring.
    fn reach(&mut self, path: &Path, place: Place, steps: u32, arrival: EntryDirection) {
        let before = match arrival {
            _ if steps == 1 => path.place,
            EntryDirection::Along(Side::Left, _) => self.at(place, Side::Right),
            _ => self.at(place, Side::Left),
        };
        let before = self.shape.rank(before);
        self.follow(place, arrival, path.length + steps, before);
    }

    fn follow(&mut self, place: Place, arrival: EntryDirection, length: u32, before: Rank) {
        let promised = length + self.goal.distance(self.shape, place);
        let detour = promised.saturating_sub(self.least) as usize;
        if self.open.len() <= detour {
            self.open.resize(detour + 1, None);
        }
        let next = self.open[detour].replace(self.paths.len() as u32);
        self.paths.push(Path {
            place,
            arrival,
            length,
            before,
            next,
        });
    }

    /// Whether no earlier path at this place could go on in all directions in which this one can.
    /// The estimate is exact without obstacles, so no later path is shorter.
    fn is_new(&mut self, path: &Path) -> bool {
        const FREE: u16 = 1;
        let (mine, better) = match path.arrival {
            EntryDirection::Free => (FREE, 0),
            EntryDirection::Down => (2, 0),
            // A path with fewer steps under living parents may go further along.
            EntryDirection::Along(side, run) => {
                let shift = if side == Side::Left { 2 } else { 9 };
                let bit = 1u16 << run.min(6);
                (bit << shift, (bit - 1) << shift)
            }
        };
        let rank = self.shape.rank(path.place);
        let seen = self.seen.entry(rank.0).or_default();
        let is_new = *seen & (FREE | mine | better) == 0;
        *seen |= mine;
        is_new
    }

    fn is_obstacle(&self, level: u8, offset: u32) -> bool {
        self.obstacles
            .contains(self.shape.rank(Place { level, offset }))
    }

    /// Whether two neighbours are the two ends of a ragged last level.
    fn is_seam(&self, level: u8, one: u32, other: u32) -> bool {
        level == self.shape.last_level() && self.shape.is_ragged() && one.abs_diff(other) > 1
    }

    fn at(&self, place: Place, side: Side) -> Place {
        let offset = self.beside(place, side);
        Place { offset, ..place }
    }

    fn beside(&self, place: Place, side: Side) -> u32 {
        let size = self.shape.size_of(place.level);
        match side {
            Side::Left => place.offset.checked_sub(1).unwrap_or(size - 1),
            Side::Right if place.offset + 1 < size => place.offset + 1,
            Side::Right => 0,
        }
    }
}

/// A quick hasher. No attacker chooses ranks so that they collide, and the order of the map is
/// never used.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        let mixed = (self.0 ^ u64::from(value)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}
