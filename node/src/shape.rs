//! The shapes of deployment trees of local clusters, as lists of parents.

use std::fmt;
use std::str::FromStr;

/// The shape of a deployment tree: which node starts below which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Shape {
    /// A binomial tree, the largest subtree first: the shape of \[BMG09\] §4 in
    /// which the ring forms in a constant number of phases.
    #[default]
    Binomial,
    /// Every node has up to this many children, level by level.
    Balanced {
        /// The most children of a node; 0 counts as 1.
        fanout: u32,
    },
    /// All nodes are below the root.
    Flat,
    /// Each node is below one drawn at random from the nodes before it.
    Random {
        /// The seed of the draws.
        seed: u64,
    },
}

impl Shape {
    /// The parent of each of `nodes` nodes, by the node's number. A parent has a smaller number
    /// than its children, and the children of one parent are numbered in the order of their places.
    pub fn parents(self, nodes: u32) -> Vec<Option<u32>> {
        match self {
            Self::Binomial => binomial(nodes),
            Self::Balanced { fanout } => {
                let parent = |node: u32| node.checked_sub(1).map(|before| before / fanout.max(1));
                (0..nodes).map(parent).collect()
            }
            Self::Flat => (0..nodes).map(|node| (node > 0).then_some(0)).collect(),
            Self::Random { seed } => {
                let mut state = seed;
                let mut draw = |node: u32| {
                    let drawn = split_mix(&mut state) % u64::from(node.max(1));
                    (node > 0).then(|| u32::try_from(drawn).unwrap_or(0))
                };
                (0..nodes).map(&mut draw).collect()
            }
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binomial => f.write_str("binomial"),
            Self::Balanced { fanout: 2 } => f.write_str("binary"),
            Self::Balanced { fanout } => write!(f, "balanced with fanout {fanout}"),
            Self::Flat => f.write_str("flat"),
            Self::Random { .. } => f.write_str("random"),
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "binomial" => Ok(Self::Binomial),
            "binary" => Ok(Self::Balanced { fanout: 2 }),
            "flat" => Ok(Self::Flat),
            "random" => Ok(Self::Random { seed: 0 }),
            _ => Err("expected binomial, binary, flat or random".to_owned()),
        }
    }
}

/// The most children of one node among `parents`.
pub fn widest(parents: &[Option<u32>]) -> u32 {
    let mut counts = vec![0; parents.len()];
    for parent in parents.iter().flatten() {
        if let Some(count) = counts.get_mut(*parent as usize) {
            *count += 1;
        }
    }
    counts.into_iter().max().unwrap_or(0)
}

/// In the plain numbering the children of i are i + 2^j for every 2^j below i's lowest set bit, and
/// for every 2^j if i is 0. Here the nodes are numbered in preorder, the largest subtree first, so
/// that numbers and ranks agree if the nodes join in order.
fn binomial(nodes: u32) -> Vec<Option<u32>> {
    let mut parents = Vec::with_capacity(nodes as usize);
    let mut waiting = Vec::new();
    if nodes > 0 {
        waiting.push((0u32, None));
    }
    while let Some((plain, parent)) = waiting.pop() {
        let number = u32::try_from(parents.len()).unwrap_or(u32::MAX);
        parents.push(parent);
        let powers = plain.trailing_zeros().min(31);
        let mut children: Vec<(u32, u32)> = (0..powers)
            .filter_map(|power| plain.checked_add(1 << power).map(|child| (child, power)))
            .filter(|(child, _)| *child < nodes)
            .map(|(child, power)| ((nodes - child).min(1 << power), child))
            .collect();
        // The last one pushed is taken first.
        children.sort_unstable();
        waiting.extend(children.into_iter().map(|(_, child)| (child, Some(number))));
    }
    parents
}

/// The next draw of Steele's SplitMix64.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Shape; 5] = [
        Shape::Binomial,
        Shape::Balanced { fanout: 2 },
        Shape::Balanced { fanout: 3 },
        Shape::Flat,
        Shape::Random { seed: 7 },
    ];

    #[test]
    fn every_shape_is_a_tree_with_parents_first() {
        for shape in SHAPES {
            for nodes in 0..70 {
                let parents = shape.parents(nodes);
                assert_eq!(parents.len(), nodes as usize, "{shape}");
                for (node, parent) in parents.iter().enumerate() {
                    assert_eq!(parent.is_none(), node == 0, "{shape} {nodes}");
                    assert!(parent.is_none_or(|parent| (parent as usize) < node));
                }
            }
        }
    }

    #[test]
    fn the_binomial_tree_is_preorder_with_the_largest_subtree_first() {
        let parents = Shape::Binomial.parents(8);
        let expected = [
            None,
            Some(0),
            Some(1),
            Some(2),
            Some(1),
            Some(0),
            Some(5),
            Some(0),
        ];
        assert_eq!(parents, expected);
        for power in 1..8 {
            let parents = Shape::Binomial.parents(1 << power);
            assert_eq!(widest(&parents), power, "the root has log2 N children");
        }
    }

    #[test]
    fn widths_are_as_named() {
        assert_eq!(widest(&Shape::Flat.parents(10)), 9);
        assert_eq!(widest(&Shape::Balanced { fanout: 3 }.parents(40)), 3);
        let seeds = [1, 2].map(|seed| Shape::Random { seed }.parents(30));
        assert_ne!(seeds[0], seeds[1]);
    }
}
