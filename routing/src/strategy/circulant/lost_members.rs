//! Trees in which lost members hand nothing on.
//!
//! The rank of a dead member stays vacant for a while, and with it a place in the schedule. If the
//! dead member's parent in each tree sent to the dead member's children instead, the parent would
//! have several copies to send in one round, most of them over a further node. So each of these
//! children gets the block from another of its own neighbours in the binomial graph. Over all trees
//! but the last, the children are spread so that no neighbour sends many more copies than others.

use super::{Tree, Trees};

/// The sender from which a rank gets the block, and the earliest round.
#[derive(Debug, Clone, Copy, Default)]
struct Arc {
    from: u32,
    round: u32,
}

/// The same trees, changed so that the ranks in `lost`, in ascending order, hand nothing on. Each
/// lost rank becomes a leaf, unless the ranks behind it have no other neighbour.
pub(super) fn rewire(trees: &Trees, lost: &[u32]) -> Option<Trees> {
    let population = trees.last.distances.len() as u32;
    let mut wiring = Wiring {
        population,
        lost,
        sends: vec![0; population as usize],
    };
    let mut inner: Vec<Vec<Arc>> = trees.inner.iter().map(arcs).collect();
    inner.iter().for_each(|arcs| wiring.count(arcs));
    let most = wiring.most();
    inner.iter_mut().for_each(|arcs| wiring.rewire(arcs));
    while inner.iter_mut().any(|arcs| wiring.relieve(arcs, most)) {}
    let mut last = arcs(&trees.last);
    wiring.rewire(&mut last);
    let tree = |arcs: &Vec<Arc>| {
        let arcs = (1..).zip(arcs.iter().skip(1));
        let arcs: Vec<_> = arcs
            .map(|(to, arc)| (arc.from, to, arc.round.into()))
            .collect();
        Tree::of(population, &arcs)
    };
    Some(Trees {
        inner: inner.iter().map(tree).collect::<Option<_>>()?,
        last: tree(&last)?,
    })
}

/// The arcs of a tree, by the rank that gets the block.
fn arcs(tree: &Tree) -> Vec<Arc> {
    let mut arcs = vec![Arc::default(); tree.distances.len()];
    for (position, from) in (0..).zip(&tree.distances) {
        for child in tree.children(position) {
            let arc = Arc {
                from: *from,
                round: tree.round(child),
            };
            if let Some(place) = arcs.get_mut(tree.distance(child) as usize) {
                *place = arc;
            }
        }
    }
    arcs
}

struct Wiring<'a> {
    population: u32,
    lost: &'a [u32],
    /// How many copies each rank sends while one block goes down each tree but the last.
    sends: Vec<u32>,
}

impl Wiring<'_> {
    fn is_lost(&self, rank: u32) -> bool {
        self.lost.binary_search(&rank).is_ok()
    }

    fn count(&mut self, arcs: &[Arc]) {
        for (to, arc) in (1..).zip(arcs.iter().skip(1)) {
            self.count_one(arc.from, to);
        }
    }

    /// Count a copy, unless its receiver is lost: nothing is sent to lost ranks.
    fn count_one(&mut self, from: u32, to: u32) {
        let is_sent = !self.is_lost(to);
        if let Some(sends) = self.sends.get_mut(from as usize) {
            *sends += u32::from(is_sent);
        }
    }

    /// The most copies that any rank sends, lost ranks left aside.
    fn most(&self) -> u32 {
        let all = (0..).zip(&self.sends);
        let living = all.filter(|(rank, _)| !self.is_lost(*rank));
        living.map(|(_, sends)| *sends).max().unwrap_or_default()
    }

    /// Take a child from a rank that sends more than `most` copies, if another possible parent of
    /// that child sends at least two fewer. Returns whether there was such a child. Each time the
    /// numbers become more even, so the loop of the caller ends.
    fn relieve(&mut self, arcs: &mut [Arc], most: u32) -> bool {
        let sends = |wiring: &Self, rank: u32| wiring.sends.get(rank as usize).copied();
        for rank in 1..self.population {
            let busy = arcs.get(rank as usize).map(|arc| arc.from);
            let Some(busy) = busy.filter(|_| !self.is_lost(rank)) else {
                continue;
            };
            let Some(before) = sends(self, busy).filter(|sends| *sends > most) else {
                continue;
            };
            let Some(from) = self.parent(arcs, rank) else {
                continue;
            };
            if sends(self, from).is_some_and(|sends| sends + 1 < before) {
                if let Some(place) = self.sends.get_mut(busy as usize) {
                    *place -= 1;
                }
                self.put(arcs, rank, from);
                return true;
            }
        }
        false
    }

    fn put(&mut self, arcs: &mut [Arc], rank: u32, from: u32) {
        self.count_one(from, rank);
        if let Some(arc) = arcs.get_mut(rank as usize) {
            arc.from = from;
        }
    }

    fn rewire(&mut self, arcs: &mut [Arc]) {
        let mut left: Vec<(u32, u32)> = (1..)
            .zip(arcs.iter().skip(1))
            .filter(|(rank, _)| !self.is_reached(arcs, *rank))
            .map(|(rank, arc)| (arc.round, rank))
            .collect();
        left.sort_unstable();
        while let Some((rank, from)) = self.next(arcs, &left) {
            self.put(arcs, rank, from);
            left.retain(|(_, rank)| !self.is_reached(arcs, *rank));
        }
    }

    /// The next rank to get a new parent, and that parent. Children of lost ranks come first. If
    /// no such child has a neighbour that can be its parent, a rank below such a child is next.
    fn next(&self, arcs: &[Arc], left: &[(u32, u32)]) -> Option<(u32, u32)> {
        let is_orphan = |rank: u32| {
            let arc = arcs.get(rank as usize);
            arc.is_some_and(|arc| self.is_lost(arc.from))
        };
        let all = left.iter().map(|(_, rank)| *rank);
        let orphans = all.clone().filter(|rank| is_orphan(*rank));
        let mut pairs = orphans
            .chain(all)
            .filter_map(|rank| Some((rank, self.parent(arcs, rank)?)));
        pairs.next()
    }

    /// The neighbour that becomes the parent: one that is reached, not lost and not behind this
    /// rank, with the fewest copies to send. Among several, it is the one that has the block first.
    fn parent(&self, arcs: &[Arc], rank: u32) -> Option<u32> {
        let n = self.population;
        let skips = std::iter::successors(Some(1), |skip| Some(skip * 2));
        let neighbours = skips
            .take_while(|skip| *skip < n)
            .flat_map(|skip| [(rank + skip) % n, (rank + n - skip) % n]);
        let may = |from: &u32| {
            let mut way = std::iter::once(*from).chain(above(arcs, *from));
            !way.any(|one| one == rank || self.is_lost(one))
        };
        neighbours.filter(may).min_by_key(|from| {
            let sends = self.sends.get(*from as usize);
            let arc = arcs.get(*from as usize);
            (sends.copied(), arc.map(|arc| arc.round), *from)
        })
    }

    /// Whether a rank gets the block without passing a lost rank.
    fn is_reached(&self, arcs: &[Arc], rank: u32) -> bool {
        !above(arcs, rank).any(|rank| self.is_lost(rank))
    }
}

/// The ranks over which a rank gets the block, up to the origin.
fn above(arcs: &[Arc], rank: u32) -> impl Iterator<Item = u32> {
    let up = |rank: &u32| {
        let arc = arcs.get(*rank as usize).filter(|_| *rank > 0);
        arc.map(|arc| arc.from)
    };
    std::iter::successors(up(&rank), up)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over all trees but the last, the most copies that one living rank sends.
    fn most_sends(trees: &Trees, lost: &[u32]) -> u32 {
        let population = trees.last.distances.len() as u32;
        let mut wiring = Wiring {
            population,
            lost,
            sends: vec![0; population as usize],
        };
        for tree in &trees.inner {
            wiring.count(&arcs(tree));
        }
        wiring.most()
    }

    /// Check the trees without the lost members. Returns whether the busiest rank sends more copies
    /// than before, at most one more, while one block goes down each tree but the last.
    fn check(population: u32, lost: &[u32]) -> bool {
        let case = format!("{population} members without {lost:?}");
        let all = Trees::of(population).unwrap();
        let trees = rewire(&all, lost).unwrap();
        for tree in trees.inner.iter().chain([&trees.last]) {
            let mut has = vec![None; population as usize];
            has[0] = Some(0);
            for position in 0..population {
                let from = tree.distance(position);
                let round = has[from as usize].expect(&case);
                for child in tree.children(position) {
                    assert!(!lost.contains(&from), "{case}: {from} hands on");
                    let to = tree.distance(child);
                    let apart = (to + population - from) % population;
                    let is_link = |apart: u32| apart.is_power_of_two();
                    assert!(is_link(apart) || is_link(population - apart), "{case}");
                    assert!(from == 0 || tree.round(child) > round, "{case}");
                    assert_eq!(has[to as usize].replace(tree.round(child)), None, "{case}");
                }
            }
            assert!(has.iter().all(Option::is_some), "{case}");
        }
        let (before, now) = (most_sends(&all, &[]), most_sends(&trees, lost));
        assert!(now <= before + 1, "{case}: {now} copies, not {before}");
        now > before
    }

    #[test]
    fn without_one_member_all_have_all_blocks_over_links_and_nobody_sends_much_more() {
        let few = (5..=40).flat_map(|n| (1..n).map(move |lost| (n, lost)));
        let many = [48, 64, 65, 100, 127, 128, 500, 1024];
        let many = many.into_iter();
        let many = many.flat_map(|n| (1..n).step_by(7).map(move |lost| (n, lost)));
        let cases: Vec<_> = few.chain(many).collect();
        let more = cases.iter().filter(|(n, lost)| check(*n, &[*lost]));
        let more = more.count();
        assert!(more * 20 < cases.len(), "{more} of {}", cases.len());
    }

    #[test]
    fn without_four_members_all_have_all_blocks_over_links() {
        for population in 13..=40 {
            for first in 1..population - 4 {
                let apart = (population - 1 - first) / 4;
                let lost = [0, 1, 2, 3].map(|number| first + number * apart.max(1));
                check(population, &lost);
            }
        }
    }
}
