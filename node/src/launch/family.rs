//! The parent and the contacts of each node of a list, by arithmetic.

use super::NODES_MAX;
use crate::shape::Shape;

/// How many of its nearest ancestors a node knows, including its parent.
const ANCESTORS: usize = 5;
/// How many of the smallest ordinals a node knows: if ordinal 0 is absent, another of these becomes
/// root, if one is present.
const LOW: u32 = 6;
/// The most rounds of asking, which take some 25 s: as many as a node takes without a list.
const PATIENCE_ROUNDS_MAX: u32 = 8;
/// The most contacts besides the parent. A guess: an orphan asks them all within two seconds.
const SEEDS_MAX: usize = 14;

/// The parent and the contacts of a node, as ordinals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// The parent; none at ordinal 0.
    pub parent: Option<u32>,
    /// Further contacts, in the order in which they are asked. First the next ancestors, which
    /// stand in for an absent parent; then the smallest ordinals; then ordinals at distances of
    /// powers of two, which keep the list connected when many nodes are absent.
    pub seeds: Vec<u32>,
    /// The most children of one node in the tree.
    pub widest: u32,
    /// How often the node asks all its contacts before it becomes a root by itself. The number
    /// grows with the ordinal up to 8, so of the first ordinals the smallest that is present
    /// becomes root first.
    pub patience_rounds: u32,
}

/// The family of `ordinal` among `size` nodes.
pub fn family(shape: Shape, size: u32, ordinal: u32) -> Family {
    let size = size.min(NODES_MAX);
    let parents = shape.parents(size);
    let parent_of = |node: u32| parents.get(node as usize).copied().flatten();
    let parent = parent_of(ordinal);
    let above = std::iter::successors(parent, |node| parent_of(*node));
    let near = above.take(ANCESTORS).skip(1);
    let powers = (0..u32::BITS - 1).map(|power| 1_u32 << power);
    let around = powers
        .take_while(|distance| *distance < size)
        .flat_map(|distance| {
            let after = (ordinal + distance) % size;
            [after, (ordinal + size - distance) % size]
        });
    let mut seeds = Vec::new();
    for other in near.chain(0..LOW.min(size)).chain(around) {
        let is_new = other != ordinal && Some(other) != parent && !seeds.contains(&other);
        if is_new && seeds.len() < SEEDS_MAX {
            seeds.push(other);
        }
    }
    Family {
        parent,
        seeds,
        widest: crate::shape::widest(&parents),
        patience_rounds: ordinal.saturating_add(2).min(PATIENCE_ROUNDS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SHAPES: [Shape; 4] = [
        Shape::Binomial,
        Shape::Balanced { fanout: 2 },
        Shape::Balanced { fanout: 1 },
        Shape::Flat,
    ];

    #[test]
    fn the_next_ancestors_come_first() {
        let binary = Shape::Balanced { fanout: 2 };
        let deep = family(binary, 128, 127);
        assert_eq!(deep.parent, Some(63));
        assert_eq!(deep.seeds[..5], [31, 15, 7, 3, 0]);
        let root = family(binary, 4, 0);
        assert_eq!((root.parent, root.seeds), (None, vec![1, 2, 3]));
        assert!(family(Shape::Binomial, 1, 0).seeds.is_empty());
        assert_eq!(family(Shape::Flat, 9, 8).widest, 8);
    }

    #[test]
    fn contacts_differ_and_are_in_the_list() {
        for shape in SHAPES {
            for size in 1..80 {
                for ordinal in 0..size {
                    let Family { parent, seeds, .. } = family(shape, size, ordinal);
                    assert_eq!(parent.is_none(), ordinal == 0);
                    let all: BTreeSet<u32> = seeds.iter().copied().chain(parent).collect();
                    assert_eq!(all.len(), seeds.len() + usize::from(parent.is_some()));
                    assert!(all.iter().all(|other| *other != ordinal && *other < size));
                    assert_eq!(all.is_empty(), size == 1);
                    assert!(seeds.len() <= SEEDS_MAX);
                }
            }
        }
    }

    /// The first ordinals are missing; the contacts of the others still form one component.
    #[test]
    fn the_nodes_that_came_are_connected_by_their_contacts() {
        for shape in SHAPES {
            for (size, missing) in [(8, 1), (8, 4), (33, 1), (33, 5), (100, 6)] {
                let mut found = BTreeSet::from([missing]);
                loop {
                    let before = found.len();
                    for node in missing..size {
                        let Family { parent, seeds, .. } = family(shape, size, node);
                        let known: Vec<u32> = seeds.into_iter().chain(parent).collect();
                        let known = known.into_iter().filter(|other| *other >= missing);
                        for other in known {
                            if found.contains(&node) || found.contains(&other) {
                                found.extend([node, other]);
                            }
                        }
                    }
                    if found.len() == before {
                        break;
                    }
                }
                assert_eq!(
                    found.len() as u32,
                    size - missing,
                    "{shape} {size} {missing}"
                );
            }
        }
    }
}
