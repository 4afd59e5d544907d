//! Shortest paths round obstacles, without looking at what cannot matter.
//!
//! A* with the exact distance of the unhurt tree as its estimate goes straight
//! where nobody is in the way. Behind a wall of dead ranks it would still look at
//! everything that is nearer than the way round, which may be all of the tree. So
//! of the many paths of one length only the shallowest is followed, the one whose
//! levels have the least sum:
//!
//! - *along, up* only where the parent of the rank before is an obstacle: else *up,
//!   along* is as short;
//! - *down, along* only where the parent of the rank behind is an obstacle: else
//!   *along, down* is as short. So going down is for the goal and for such places
//!   alone ([`Marks`]);
//! - *along* only as far as *up, along, down* is longer, while the parents live.
//!
//! The search runs from the destination, and ends where one can go straight to the
//! source.
//!
//! Every rule replaces a piece of path by one that is no longer and shallower, so a
//! shortest path that obeys them all exists. The link between the ends of a ragged
//! last level has no parallel above and is exempt.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use binomesh_overlay::Rank;

use super::obstacles::{Marks, Obstacles};
use crate::router::RankSet;
use crate::shape::{Goal, Place, Shape};

/// The first step of a shortest path from one rank to another that enters none of
/// the obstacles, and the length of that path. None if there is no path, or no
/// need of one.
///
/// It looks at each rank a bounded number of times, and beyond the filling of a
/// filter at none but those on the way if nobody is in it.
pub fn first_hop(
    shape: &Shape,
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
        // Backwards: whoever is behind a wall has less to look at than the rest.
        goal: Goal::new(shape, shape.place(from)),
        marks: Marks::default(),
        seen: HashMap::default(),
        paths: Vec::new(),
        open: Vec::new(),
        least: 0,
    };
    search.run(shape.place(to))
}

/// How a path came to a rank, which decides how it may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// From below, or it begins here: anywhere.
    Free,
    /// From above.
    Down,
    /// Along the ring, the last so many steps under parents who live.
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
    arrival: Arrival,
    length: u32,
    /// The rank before its last; for the search runs backwards, that is the first
    /// step on the way to be found.
    before: Rank,
    /// Another path that promises as much.
    next: Option<u32>,
}

struct Search<'a> {
    shape: &'a Shape,
    obstacles: Obstacles<'a>,
    marks: Marks,
    goal: Goal,
    /// The arrivals at each rank, as bits.
    seen: HashMap<u32, u16, BuildHasherDefault<Mix>>,
    /// All paths.
    paths: Vec<Path>,
    /// The last of those that are to be followed, by how much longer than `least`
    /// they promise to become.
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
        self.extend(None, start, Arrival::Free);
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
            // None promises less than this one, so if it can be kept, that is it.
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

    /// The path of this length and straight on to the goal, if that is a shortest way
    /// and nobody is in it.
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
        // Taken out for the loop, which changes nothing of them.
        let marks = std::mem::take(&mut self.marks);
        for child in marks.children_of(self.shape, path.place) {
            self.extend(Some(path), child, Arrival::Down);
        }
        self.marks = marks;
    }

    fn go_up(&mut self, path: &Path) {
        let Place { level, offset } = path.place;
        let parent = offset / self.shape.fanout().get();
        let is_worth_it = match path.arrival {
            _ if level == 0 => false,
            Arrival::Free => true,
            Arrival::Down => false,
            Arrival::Along(side, _) => {
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
            self.extend(Some(path), parent, Arrival::Free);
        }
    }

    fn go_along(&mut self, path: &Path, side: Side) {
        let Place { level, offset } = path.place;
        let size = self.shape.size_of(level);
        // Of two the other is to the right.
        if size < 2 || size == 2 && side == Side::Left {
            return;
        }
        let steps = match path.arrival {
            Arrival::Along(other, _) if other != side => return,
            Arrival::Along(_, steps) => Some(steps),
            Arrival::Free => Some(0),
            Arrival::Down => None,
        };
        let next = self.beside(path.place, side);
        let k = self.shape.fanout().get();
        let (here, there) = (offset / k, next / k);
        let run = if self.is_seam(level, offset, next) {
            0
        } else if self.is_obstacle(level - 1, there) {
            // Under an obstacle: this is what one goes down for.
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
            self.reach(path, next, steps + 1, Arrival::Along(side, 0));
        } else {
            self.extend(Some(path), next, Arrival::Along(side, run));
        }
    }

    /// How far one can only go on along the ring: under obstacles, where nothing is
    /// worth going down for. And how many steps that is.
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
            // Once round is enough, and the seam is looked at from its ends.
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

    /// One step further, unless an obstacle is there.
    fn extend(&mut self, path: Option<&Path>, place: Place, arrival: Arrival) {
        let rank = self.shape.rank(place);
        if self.obstacles.contains(rank) {
            return;
        }
        match path {
            Some(path) => self.reach(path, place, 1, arrival),
            None => self.follow(place, arrival, 0, rank),
        }
    }

    /// So many steps further.
    fn reach(&mut self, path: &Path, place: Place, steps: u32, arrival: Arrival) {
        let before = match arrival {
            _ if steps == 1 => path.place,
            Arrival::Along(Side::Left, _) => self.at(place, Side::Right),
            _ => self.at(place, Side::Left),
        };
        let before = self.shape.rank(before);
        self.follow(place, arrival, path.length + steps, before);
    }

    fn follow(&mut self, place: Place, arrival: Arrival, length: u32, before: Rank) {
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

    /// Whether no path was here that may go on wherever this one may. The estimate
    /// is exact without obstacles, so no later path is shorter.
    fn is_new(&mut self, path: &Path) -> bool {
        const FREE: u16 = 1;
        let (mine, better) = match path.arrival {
            Arrival::Free => (FREE, 0),
            Arrival::Down => (2, 0),
            // Fewer steps under living parents leave more to go.
            Arrival::Along(side, run) => {
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

/// A quick hasher: ranks are nobody's to choose who would gain by collisions, and
/// the order of the map is never seen.
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
