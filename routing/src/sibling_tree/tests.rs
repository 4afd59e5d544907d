use super::*;
use std::collections::{BTreeSet, VecDeque};

fn shape(n: u32, k: u32) -> SiblingTree {
    SiblingTree::new(Population::new(n).unwrap(), Fanout::new(k).unwrap())
}

/// All trees of up to `most` ranks with k = 2 ..= 9.
fn all(most: u32) -> impl Iterator<Item = SiblingTree> {
    (2..=9).flat_map(move |k| (1..=most).map(move |n| shape(n, k)))
}

fn ranks(shape: &SiblingTree) -> impl Iterator<Item = Rank> + use<> {
    (0..shape.population().get()).map(Rank)
}

/// The levels of the tree, laid out one by one.
fn levels(shape: &SiblingTree) -> Vec<Vec<Rank>> {
    let mut levels = vec![vec![Rank(0)]];
    loop {
        let above: Vec<Rank> = levels.last().cloned().unwrap_or_default();
        let below: Vec<Rank> = above
            .iter()
            .flat_map(|rank| shape.children(*rank))
            .collect();
        if below.is_empty() {
            return levels;
        }
        levels.push(below);
    }
}

fn breadth_first(shape: &SiblingTree, from: Rank) -> Vec<u32> {
    let mut depth = vec![u32::MAX; shape.population().get() as usize];
    depth[from.0 as usize] = 0;
    let mut open = VecDeque::from([from]);
    while let Some(rank) = open.pop_front() {
        for next in shape.neighbours(rank, Links::SiblingTree) {
            if depth[next.0 as usize] == u32::MAX {
                depth[next.0 as usize] = depth[rank.0 as usize] + 1;
                open.push_back(next);
            }
        }
    }
    depth
}

#[test]
fn ranks_are_laid_out_level_by_level_with_k_children_each() {
    for shape in all(150) {
        let levels = levels(&shape);
        assert!(
            levels.iter().flatten().copied().eq(ranks(&shape)),
            "{shape:?}"
        );
        assert_eq!(usize::from(shape.last_level()) + 1, levels.len());
        for (level, members) in (0u8..).zip(&levels) {
            assert_eq!(shape.first_of(level), members[0]);
            assert_eq!(shape.size_of(level) as usize, members.len());
            for (offset, rank) in (0..).zip(members) {
                let place = Place { level, offset };
                assert_eq!(shape.level(*rank), level);
                assert_eq!(shape.place(*rank), place);
                assert_eq!(shape.rank(place), *rank);
            }
        }
    }
}

#[test]
fn a_child_has_its_parent_and_no_other() {
    for shape in all(150) {
        assert_eq!(shape.parent(Rank(0)), None);
        let (n, k) = (shape.population().get(), shape.fanout().get());
        for rank in ranks(&shape) {
            let count = (i64::from(n) - i64::from(k * rank.0) - 1).clamp(0, k.into());
            assert_eq!(shape.children(rank).len() as i64, count);
            for child in shape.children(rank) {
                assert_eq!(shape.parent(child), Some(rank));
            }
        }
    }
}

#[test]
fn every_level_is_a_ring_of_the_size_it_has() {
    for shape in all(100) {
        for members in levels(&shape) {
            let size = members.len();
            for (at, rank) in members.iter().enumerate() {
                let left = (size > 1).then(|| members[(at + size - 1) % size]);
                let right = (size > 1).then(|| members[(at + 1) % size]);
                assert_eq!((shape.left(*rank), shape.right(*rank)), (left, right));
                for (there, other) in members.iter().enumerate() {
                    let direct = at.abs_diff(there);
                    let expected = direct.min(size - direct) as u32;
                    assert_eq!(shape.ring_distance(*rank, *other), Some(expected));
                }
            }
        }
    }
    assert_eq!(shape(9, 2).ring_distance(Rank(0), Rank(1)), None);
}

#[test]
fn ancestors_subtrees_and_ways_down_agree_with_the_parents() {
    for shape in all(60) {
        for rank in ranks(&shape) {
            let mut line = vec![rank];
            while let Some(parent) = shape.parent(line[line.len() - 1]) {
                line.push(parent);
            }
            line.reverse();
            for (level, ancestor) in (0..).zip(&line) {
                assert_eq!(shape.ancestor(rank, level), Some(*ancestor));
            }
            assert_eq!(shape.ancestor(rank, line.len() as u8), None);
            for other in ranks(&shape) {
                let at = line.iter().position(|ancestor| *ancestor == other);
                assert_eq!(shape.is_in_subtree(rank, other), at.is_some());
                let way: Vec<Rank> = shape.path_down(other, rank).collect();
                let expected = at.map_or(&[][..], |at| &line[at + 1..]);
                assert_eq!(way, expected, "{other:?} to {rank:?} in {shape:?}");
            }
        }
    }
}

#[test]
fn every_link_is_dialled_from_exactly_one_end() {
    for shape in all(150) {
        let mut links = BTreeSet::new();
        for rank in ranks(&shape) {
            for other in shape.neighbours(rank, Links::SiblingTree) {
                links.insert((rank.min(other), rank.max(other)));
            }
        }
        let dialled: Vec<_> = ranks(&shape)
            .flat_map(|rank| {
                shape
                    .hellos(rank)
                    .map(move |to| (rank.min(to), rank.max(to)))
            })
            .collect();
        assert_eq!(dialled.len(), links.len(), "{shape:?}");
        assert!(dialled.iter().all(|link| links.contains(link)), "{shape:?}");
    }
}

#[test]
fn neighbours_are_mutual_and_named_once() {
    for shape in all(130) {
        for rank in ranks(&shape) {
            for links in [Links::SiblingTree, Links::BinomialGraph] {
                let all: Vec<Rank> = shape.neighbours(rank, links).collect();
                let set: BTreeSet<Rank> = all.iter().copied().collect();
                assert_eq!(all.len(), set.len(), "{rank:?} {links:?} in {shape:?}");
                assert!(!set.contains(&rank));
                for other in all {
                    assert!(shape.neighbours(other, links).any(|back| back == rank));
                }
            }
            let kin = shape.neighbours(rank, Links::SiblingTree).count();
            assert!(kin <= shape.fanout().get() as usize + 3);
        }
    }
}

#[test]
fn the_distance_is_that_of_breadth_first_search() {
    let large = [
        (1000, 2),
        (1023, 2),
        (1025, 2),
        (700, 3),
        (800, 4),
        (900, 8),
    ];
    for shape in all(90).chain(large.map(|(n, k)| shape(n, k))) {
        let sources = ranks(&shape).step_by(1 + shape.population().get() as usize / 100);
        for from in sources {
            for (to, expected) in ranks(&shape).zip(breadth_first(&shape, from)) {
                let found = shape.distance(from, to);
                assert_eq!(found, expected, "{from:?} to {to:?} in {shape:?}");
            }
        }
    }
}

#[test]
fn the_climbing_distance_is_the_least_over_all_levels() {
    for shape in all(90).chain([shape(3000, 2), shape(1500, 3)]) {
        for from in ranks(&shape).step_by(1 + shape.population().get() as usize / 90) {
            for to in ranks(&shape) {
                let (up, down) = (shape.level(from), shape.level(to));
                let over = |level: u8| {
                    let (one, other) = (shape.ancestor(from, level)?, shape.ancestor(to, level)?);
                    let across = shape.ring_distance(one, other)?;
                    Some(u32::from(up - level) + across + u32::from(down - level))
                };
                let expected = (0..=up.min(down)).filter_map(over).min();
                assert_eq!(Some(shape.climbing_distance(from, to)), expected);
            }
        }
    }
}

#[test]
fn the_climbing_step_is_to_a_neighbour_of_least_distance_children_first() {
    for shape in all(90).chain([shape(1023, 2), shape(600, 3)]) {
        let mut found = 0;
        for from in ranks(&shape).step_by(1 + shape.population().get() as usize / 90) {
            for to in ranks(&shape).filter(|to| *to != from) {
                let all = shape.neighbours(from, Links::SiblingTree);
                let distance = |rank| shape.climbing_distance(rank, to);
                let least = all.clone().map(distance).min().unwrap();
                let Some(next) = shape.climbing_step(from, to) else {
                    continue;
                };
                found += 1;
                let context = format!("{from:?} to {to:?} by {next:?} in {shape:?}");
                assert!(all.clone().any(|rank| rank == next), "{context}");
                assert_eq!(distance(next), least, "{context}");
                let mut children = shape.children(from).filter(|rank| distance(*rank) == least);
                let expected = children.next().unwrap_or(next);
                assert_eq!(next, expected, "{context}");
            }
        }
        let n = shape.population().get();
        assert!(n < 40 || found > n, "{found} steps found in {shape:?}");
    }
}

#[test]
fn claimed_ranks_and_huge_fanouts_do_not_panic() {
    for (n, k) in [
        (1, 2),
        (3, 2),
        (1 << 24, 2),
        (1 << 24, 1 << 24),
        (1 << 24, 4097),
    ] {
        let shape = shape(n, k);
        for rank in [Rank(0), Rank(n - 1), Rank(n), Rank(u32::MAX)] {
            assert!(shape.neighbours(rank, Links::SiblingTree).count() <= k as usize + 3);
            assert!(shape.neighbours(rank, Links::BinomialGraph).count() <= 48);
            assert!(shape.hellos(rank).count() <= 3);
            shape.distance(rank, Rank(u32::MAX));
            shape.distance(Rank(u32::MAX), rank);
            shape.climbing_distance(rank, Rank(u32::MAX));
            shape.climbing_step(rank, Rank(u32::MAX));
            shape.climbing_step(Rank(u32::MAX), rank);
            shape.path_down(rank, Rank(u32::MAX)).count();
        }
    }
    assert_eq!(Fanout::new(1), None);
    assert_eq!(Fanout::new(Fanout::MAX + 1), None);
}
