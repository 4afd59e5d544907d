//! Deployment trees of many shapes, flat in memory.
//!
//! Processes are numbered in preorder, so the ring that [BMG09] Alg. 1 builds is 0, 1, 2, … Neither
//! Algorithm 1 nor Algorithm 2 compares identifiers, so this numbering helps neither.

use binomesh_overlay::ring::Family;
use clap::ValueEnum;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::member::Member;

/// The shape of a deployment tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TreeShape {
    /// Binomial, the child with the largest subtree first.
    Binomial,
    /// Binomial, the child with the smallest subtree first.
    BinomialSmallestFirst,
    /// Balanced binary, filled level by level.
    Binary,
    /// A root and its children.
    Flat,
    /// Every process has one child.
    Chain,
    /// Every process joins under a random one.
    Random,
    /// Random, every leaf at the depth limit and every level a like factor larger
    /// than the one above: the random trees of [BMG09] §4.
    RandomLevelled,
}

/// The seed and the bounds of a random tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Randomness {
    /// The seed of the random tree.
    pub seed: u64,
    /// The most edges between the root and a leaf.
    pub depth: u32,
    /// The most children of a process. If depth and degree leave too little room, some have more.
    pub degree: u32,
}

/// A tree, and strangers: processes with a parent that does not know them, like a process that was
/// just redirected.
#[derive(Debug, Clone)]
pub struct Tree {
    parent: Vec<Option<Member>>,
    first_child: Vec<Option<Member>>,
    next_sibling: Vec<Option<Member>>,
    members: usize,
}

impl Tree {
    /// A tree of this shape over `nodes` processes, at least one.
    pub fn new(shape: TreeShape, nodes: usize, randomness: Randomness) -> Self {
        let nodes = nodes.max(1);
        let parents: Vec<u32> = match shape {
            TreeShape::Binomial | TreeShape::BinomialSmallestFirst => {
                (0..nodes as u32).map(|i| i & i.wrapping_sub(1)).collect()
            }
            TreeShape::Binary => (0..nodes as u32).map(|i| i.saturating_sub(1) / 2).collect(),
            TreeShape::Flat => vec![0; nodes],
            TreeShape::Chain => (0..nodes as u32).map(|i| i.saturating_sub(1)).collect(),
            TreeShape::Random => random_parents(nodes, randomness),
            TreeShape::RandomLevelled => levelled_parents(nodes, randomness),
        };
        Self::from_parents(&parents, shape == TreeShape::Binomial)
    }

    /// The tree in which process i > 0 is a child of `parents[i]` < i, renumbered in preorder.
    /// Siblings are in the order of their numbers or the reverse.
    pub fn from_parents(parents: &[u32], is_reversed: bool) -> Self {
        let nodes = parents.len();
        let mut first = vec![u32::MAX; nodes];
        let mut next = vec![u32::MAX; nodes];
        let mut link = |child: usize| {
            let parent = parents[child] as usize;
            next[child] = first[parent];
            first[parent] = child as u32;
        };
        // Each child becomes the first child of its parent.
        if is_reversed {
            (1..nodes).for_each(&mut link);
        } else {
            (1..nodes).rev().for_each(&mut link);
        }
        let mut tree = Self {
            parent: vec![None; nodes],
            first_child: vec![None; nodes],
            next_sibling: vec![None; nodes],
            members: nodes,
        };
        // (old number, new parent, new elder sibling), in preorder.
        let mut waiting = vec![(0_u32, None, None)];
        let mut count = 0;
        while let Some((old, parent, elder)) = waiting.pop() {
            let new = Member::at(count);
            count += 1;
            tree.parent[new.index()] = parent;
            match (parent, elder) {
                (_, Some(elder)) => tree.next_sibling[Member::index(elder)] = Some(new),
                (Some(parent), None) => tree.first_child[Member::index(parent)] = Some(new),
                (None, None) => {}
            }
            if next[old as usize] != u32::MAX {
                waiting.push((next[old as usize], parent, Some(new)));
            }
            if first[old as usize] != u32::MAX {
                waiting.push((first[old as usize], Some(new), None));
            }
        }
        tree
    }

    /// Add a stranger that believes in `parent`.
    pub fn add_stranger(&mut self, parent: Member) -> Member {
        let stranger = Member::at(self.parent.len());
        self.parent.push(Some(parent));
        self.first_child.push(None);
        self.next_sibling.push(None);
        stranger
    }

    /// The number of processes in the tree.
    pub const fn members(&self) -> usize {
        self.members
    }

    /// The number of processes, strangers included.
    pub const fn processes(&self) -> usize {
        self.parent.len()
    }

    /// The parent that a process believes in.
    pub fn parent(&self, child: Member) -> Option<Member> {
        self.parent[child.index()]
    }

    /// The children of a process, in order.
    pub fn children(&self, parent: Member) -> impl Iterator<Item = Member> + '_ {
        let first = self.first_child[parent.index()];
        std::iter::successors(first, |child| self.next_sibling[child.index()])
    }

    /// How many edges lie between the root and the farthest leaf.
    pub fn depth(&self) -> u32 {
        let mut depths = vec![0; self.members];
        for child in 1..self.members {
            // Parents have smaller numbers, so their depths are known already.
            let parent = self.parent[child].map_or(0, Member::index);
            depths[child] = depths[parent] + 1;
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// The most children that a process has.
    pub fn degree(&self) -> u32 {
        let mut children = vec![0; self.members];
        for parent in self.parent[..self.members].iter().flatten() {
            children[parent.index()] += 1;
        }
        children.into_iter().max().unwrap_or(0)
    }

    /// The tree as seen by one process.
    pub const fn around(&self, me: Member) -> Around<'_> {
        Around { tree: self, me }
    }
}

/// The tree as one process sees it.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    tree: &'a Tree,
    me: Member,
}

impl Family<Member> for Around<'_> {
    fn me(&self) -> Member {
        self.me
    }

    fn parent(&self) -> Option<Member> {
        self.tree.parent[self.me.index()]
    }

    fn first_child(&self) -> Option<Member> {
        self.tree.first_child[self.me.index()]
    }

    fn next_sibling_of(&self, child: Member) -> Option<Option<Member>> {
        let is_listed =
            child.index() < self.tree.members && self.tree.parent[child.index()] == Some(self.me);
        is_listed.then(|| self.tree.next_sibling[child.index()])
    }
}

fn random_parents(nodes: usize, randomness: Randomness) -> Vec<u32> {
    let mut random = ChaCha8Rng::seed_from_u64(randomness.seed);
    let mut parents = vec![0_u32];
    let mut depth = vec![0_u32];
    let mut degree = vec![0_u32];
    let mut open = vec![0_u32];
    for child in 1..nodes as u32 {
        // If depth and degree leave no room, the root takes the remaining processes.
        let place = random.random_range(0..open.len().max(1));
        let parent = open.get(place).copied().unwrap_or(0);
        let level = depth[parent as usize] + 1;
        parents.push(parent);
        depth.push(level);
        degree.push(0);
        degree[parent as usize] += 1;
        if degree[parent as usize] >= randomness.degree && !open.is_empty() {
            open.swap_remove(place);
        }
        if level < randomness.depth && randomness.degree > 0 {
            open.push(child);
        }
    }
    parents
}

/// Every process above the last level has a child. Further children are given at random to
/// processes that have room; if none has room, to any process.
fn levelled_parents(nodes: usize, randomness: Randomness) -> Vec<u32> {
    let mut random = ChaCha8Rng::seed_from_u64(randomness.seed);
    let (mut parents, mut first) = (vec![0_u32], 0);
    for size in level_sizes(nodes, randomness.depth) {
        let level: Vec<u32> = (first..parents.len() as u32).collect();
        first = parents.len() as u32;
        let mut degree = vec![1; level.len()];
        let mut open: Vec<usize> = (0..level.len()).collect();
        open.retain(|_| randomness.degree > 1);
        for _ in level.len()..size {
            let Some(place) = random_place(&open, &mut random) else {
                degree[random.random_range(0..level.len())] += 1;
                continue;
            };
            let parent = open[place];
            degree[parent] += 1;
            if degree[parent] >= randomness.degree {
                open.swap_remove(place);
            }
        }
        for (parent, degree) in level.into_iter().zip(degree) {
            parents.extend((0..degree).map(|_| parent));
        }
    }
    parents
}

fn random_place(open: &[usize], random: &mut ChaCha8Rng) -> Option<usize> {
    (!open.is_empty()).then(|| random.random_range(0..open.len()))
}

/// The sizes of the levels below the root. Each level is at least as large as the one above, and
/// larger by as nearly as possible the same factor.
fn level_sizes(nodes: usize, depth: u32) -> Vec<usize> {
    let depth = (depth as usize).max(1).min(nodes - 1);
    if depth == 0 {
        return Vec::new();
    }
    let sum = |factor: f64| {
        (0..=depth)
            .map(|level| factor.powi(level as i32))
            .sum::<f64>()
    };
    let (mut low, mut high) = (1.0, nodes as f64);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if sum(middle) > nodes as f64 {
            high = middle;
        } else {
            low = middle;
        }
    }
    let mut sizes: Vec<usize> = (1..=depth)
        .map(|level| low.powi(level as i32) as usize)
        .collect();
    // Rounding leaves some processes. Each of the last levels gets one of them.
    let rest = nodes - 1 - sizes.iter().sum::<usize>();
    for place in 0..rest {
        sizes[depth - 1 - place % depth] += 1;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use binomesh_overlay::legitimate::{is_tree, preorder};

    const ANY: Randomness = Randomness {
        seed: 7,
        depth: 9,
        degree: 4,
    };

    #[test]
    fn every_shape_is_a_tree_numbered_in_preorder() {
        for &shape in TreeShape::value_variants() {
            for nodes in [1, 2, 3, 8, 31, 100] {
                let tree = Tree::new(shape, nodes, ANY);
                let all: Vec<Member> = (0..nodes).map(Member::at).collect();
                let children = |node| tree.children(node).collect::<Vec<_>>();
                assert!(
                    is_tree(&all, |n| tree.parent(n), children),
                    "{shape:?} {nodes}"
                );
                assert_eq!(preorder(Member::at(0), nodes, children), all, "{shape:?}");
            }
        }
    }

    #[test]
    fn a_binomial_tree_has_the_largest_subtree_first_or_last() {
        let firsts = |shape| {
            let tree = Tree::new(shape, 16, ANY);
            tree.children(Member::at(0))
                .map(Member::index)
                .collect::<Vec<_>>()
        };
        assert_eq!(firsts(TreeShape::Binomial), [1, 9, 13, 15]);
        assert_eq!(firsts(TreeShape::BinomialSmallestFirst), [1, 2, 4, 8]);
    }

    #[test]
    fn a_random_tree_keeps_its_limits() {
        let tree = Tree::new(TreeShape::Random, 300, ANY);
        for node in (0..300).map(Member::at) {
            assert!(tree.children(node).count() <= 4);
            let depth = std::iter::successors(Some(node), |&n| tree.parent(n)).count() - 1;
            assert!(depth <= 9);
        }
    }

    #[test]
    fn a_levelled_tree_has_all_leaves_at_its_depth() {
        for (nodes, depth, degree) in [
            (300, 3, 20),
            (300, 9, 4),
            (16, 10, 2),
            (4096, 6, 8),
            (11, 10, 2),
        ] {
            let limits = Randomness {
                seed: 3,
                depth,
                degree,
            };
            let tree = Tree::new(TreeShape::RandomLevelled, nodes, limits);
            assert_eq!((tree.members(), tree.depth()), (nodes, depth));
            assert!(
                tree.degree() <= degree,
                "{nodes} {depth}: {}",
                tree.degree()
            );
            for node in (0..nodes).map(Member::at) {
                let above = std::iter::successors(Some(node), |&n| tree.parent(n)).count() - 1;
                let is_leaf = tree.children(node).next().is_none();
                assert_eq!(is_leaf, above == depth as usize, "{nodes} {depth}");
            }
        }
    }

    #[test]
    fn depth_and_degree_are_those_of_known_trees() {
        let known = [
            (TreeShape::Binomial, 16, 4, 4),
            (TreeShape::Binary, 15, 3, 2),
            (TreeShape::Flat, 10, 1, 9),
            (TreeShape::Chain, 10, 9, 1),
            (TreeShape::Flat, 1, 0, 0),
        ];
        for (shape, nodes, depth, degree) in known {
            let tree = Tree::new(shape, nodes, ANY);
            assert_eq!((tree.depth(), tree.degree()), (depth, degree), "{shape:?}");
        }
    }
}
