//! Legitimate configurations: the definitions of [BMG09] over the tables of all nodes, for a judge
//! that sees all of them. No protocol here.
//!
//! Each predicate takes `nodes` and looks tables up through closures, so that the same code judges
//! an arena, a checker, a simulated world and the topology of a real cluster.

use std::collections::BTreeSet;

use crate::id::Id;
use crate::placement::{Population, Rank};

/// Whether parents and children agree and form one tree over `nodes`
/// ([BMG09] §3.3.1).
pub fn is_tree<I: Id, C: IntoIterator<Item = I>>(
    nodes: &[I],
    parent: impl Fn(I) -> Option<I>,
    children: impl Fn(I) -> C,
) -> bool {
    let mut roots = nodes.iter().filter(|&&node| parent(node).is_none());
    let (Some(&root), None) = (roots.next(), roots.next()) else {
        return false;
    };
    let all: BTreeSet<I> = nodes.iter().copied().collect();
    let mut seen = BTreeSet::from([root]);
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        for child in children(node) {
            let is_new = all.contains(&child) && seen.insert(child);
            if !is_new || parent(child) != Some(node) {
                return false;
            }
            waiting.push(child);
        }
    }
    seen.len() == nodes.len()
}

/// The preorder of a tree, parents before children: the ring that [BMG09] Alg. 1 builds on the
/// tree. At most `limit` nodes, in case that the walk has a cycle.
pub fn preorder<I: Id, C: IntoIterator<Item = I>>(
    root: I,
    limit: usize,
    children: impl Fn(I) -> C,
) -> Vec<I> {
    let mut order = Vec::new();
    let mut waiting = vec![root];
    let mut siblings = Vec::new();
    while let Some(node) = waiting.pop() {
        if order.len() == limit {
            break;
        }
        order.push(node);
        siblings.extend(children(node));
        waiting.extend(siblings.drain(..).rev());
    }
    order
}

/// Whether successors lead once around all `nodes`, and predecessors back the same way ([BMG09]
/// definition 3.2). A lone node has neither neighbour. For a process that is none of `nodes`, both
/// functions must answer `None`.
pub fn is_ring<I: Id>(
    nodes: &[I],
    successor: impl Fn(I) -> Option<I>,
    predecessor: impl Fn(I) -> Option<I>,
) -> bool {
    let (&[start] | &[start, ..]) = nodes else {
        return true;
    };
    if nodes.len() == 1 {
        return successor(start).is_none() && predecessor(start).is_none();
    }
    let mut node = start;
    for walked in 1..=nodes.len() {
        let Some(next) = successor(node).filter(|&next| predecessor(next) == Some(node)) else {
            return false;
        };
        // Back at the start after exactly N steps: no node was seen twice.
        if (next == start) != (walked == nodes.len()) {
            return false;
        }
        node = next;
    }
    true
}

/// Whether the tables are those of the binomial graph over `order`, the members
/// by rank: level i holds rank ± 2^i mod N for every 2^i < N, and nothing else
/// ([BMG09] §3.4.1).
pub fn is_binomial_graph<I: Id, T: AsRef<[Option<I>]>>(
    order: &[I],
    clockwise: impl Fn(I) -> T,
    counterclockwise: impl Fn(I) -> T,
) -> bool {
    (0..order.len()).all(|rank| has_right_fingers(order, rank, &clockwise, &counterclockwise))
}

/// Whether the member at `rank` of `order` has exactly the fingers of the
/// binomial graph.
pub fn has_right_fingers<I: Id, T: AsRef<[Option<I>]>>(
    order: &[I],
    rank: usize,
    clockwise: impl Fn(I) -> T,
    counterclockwise: impl Fn(I) -> T,
) -> bool {
    let population = u32::try_from(order.len()).ok().and_then(Population::new);
    let (Some(population), Some(&node)) = (population, order.get(rank)) else {
        return false;
    };
    let place = Rank(rank as u32);
    let is_right = |finger: Option<I>, there: Rank| {
        finger.is_some() && finger == order.get(there.0 as usize).copied()
    };
    fits(population, place, clockwise(node), true, is_right)
        && fits(population, place, counterclockwise(node), false, is_right)
}

/// [`has_right_fingers`] while ranks are vacant: `order` holds the live members. An entry for a
/// vacant rank may be empty, or name any process that is not a live member.
pub fn has_right_fingers_but_vacant<I: Id, T: AsRef<[Option<I>]>>(
    order: &[Option<I>],
    rank: usize,
    clockwise: impl Fn(I) -> T,
    counterclockwise: impl Fn(I) -> T,
) -> bool {
    let population = u32::try_from(order.len()).ok().and_then(Population::new);
    let (Some(population), Some(&Some(node))) = (population, order.get(rank)) else {
        return false;
    };
    let place = Rank(rank as u32);
    let is_right = |finger: Option<I>, there: Rank| match order.get(there.0 as usize) {
        Some(Some(holder)) => finger == Some(*holder),
        _ => finger.is_none_or(|named| !order.contains(&Some(named))),
    };
    fits(population, place, clockwise(node), true, is_right)
        && fits(population, place, counterclockwise(node), false, is_right)
}

/// Whether a table has the right number of levels, and each entry is right for the rank of its
/// level.
fn fits<I: Id, T: AsRef<[Option<I>]>>(
    population: Population,
    rank: Rank,
    table: T,
    is_clockwise: bool,
    is_right: impl Fn(Option<I>, Rank) -> bool,
) -> bool {
    let table = table.as_ref();
    let there = |level: usize| match is_clockwise {
        true => rank.ahead(1 << level, population),
        false => rank.behind(1 << level, population),
    };
    let mut entries = table.iter().enumerate();
    table.len() == population.levels()
        && entries.all(|(level, &finger)| is_right(finger, there(level)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [u8; 4] = [10, 11, 12, 13];

    fn next(node: u8) -> Option<u8> {
        Some(if node == 13 { 10 } else { node + 1 })
    }

    fn previous(node: u8) -> Option<u8> {
        Some(if node == 10 { 13 } else { node - 1 })
    }

    #[test]
    fn a_tree_is_one_tree_on_whose_edges_both_ends_agree() {
        let parent = |node: u8| (node != 10).then_some(if node == 13 { 11 } else { 10 });
        let children = |node: u8| match node {
            10 => vec![11, 12],
            11 => vec![13],
            _ => vec![],
        };
        assert!(is_tree(&NODES, parent, children));
        assert_eq!(preorder(10, 9, children), [10, 11, 13, 12]);
        // Two roots; an unlisted child; a child listed twice; a parent cycle.
        assert!(!is_tree(
            &NODES,
            |n| parent(n).filter(|_| n != 12),
            children
        ));
        assert!(!is_tree(&NODES, parent, |n| children(n)[..n as usize % 2].to_vec()));
        assert!(!is_tree(&NODES, parent, |n| [children(n), children(n)].concat()));
        assert!(!is_tree(&NODES, |n| Some(n ^ 1), |n| [n ^ 1]));
    }

    #[test]
    fn a_ring_passes_every_node_once_both_ways() {
        assert!(is_ring(&NODES, next, previous));
        assert!(is_ring(&[7_u8], |_| None, |_| None));
        assert!(!is_ring(&[7_u8], |_| Some(7), |_| Some(7)));
        let pairs = |node: u8| Some(node ^ 1);
        assert!(!is_ring(&NODES, pairs, pairs), "two rings of two");
        assert!(!is_ring(&NODES, next, |n| previous(n).filter(|_| n != 12)));
        assert!(!is_ring(&NODES, |n| next(n).filter(|_| n != 12), previous));
        assert!(!is_ring(&NODES[..3], next, previous), "a stranger in it");
    }

    #[test]
    fn a_vacant_rank_is_anybodys_but_the_living() {
        let order = [Some(10), Some(11), None, Some(13)];
        let right = |clockwise: [Option<u8>; 2]| {
            let back = [Some(13), None];
            has_right_fingers_but_vacant(&order, 0, |_| clockwise, |_| back)
        };
        assert!(right([Some(11), None]) && right([Some(11), Some(12)]));
        assert!(!right([Some(11), Some(13)]), "a live member elsewhere");
        assert!(!right([None, None]), "a member that is missed");
    }

    #[test]
    fn a_binomial_graph_has_exactly_the_levels_below_n() {
        let at = |rank: u8| Some(10 + rank % 4);
        let clockwise = |node: u8| vec![at(node - 10 + 1), at(node - 10 + 2)];
        let counterclockwise = |node: u8| vec![at(node - 10 + 3), at(node - 10 + 2)];
        assert!(is_binomial_graph(&NODES, clockwise, counterclockwise));
        assert!(!is_binomial_graph(&NODES, counterclockwise, clockwise));
        let stray = |node: u8| [clockwise(node), vec![Some(node)]].concat();
        assert!(!is_binomial_graph(&NODES, stray, counterclockwise));
        let short = |node: u8| vec![at(node - 10 + 1)];
        assert!(!is_binomial_graph(&NODES, short, counterclockwise));
        assert!(is_binomial_graph(&[7_u8], |_| vec![], |_| vec![]));
    }
}
