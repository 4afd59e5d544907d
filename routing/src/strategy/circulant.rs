//! The trees along which the blocks of a [`Circulant`] schedule go.
//!
//! In the schedule a node sends at most one block per round, and each block comes to each node
//! once. So the way of one block is a tree. After ⌈log₂ N⌉ blocks the same trees come again. The
//! last block has a tree of its own. The parts of a block, and the heirs of a lost node, are read
//! off the tree as with every other strategy. The rounds tell which of two copies a node sends
//! first.
//!
//! ```text
//!   N = 4, rounds above the arrows, counted for each block from its first one
//!
//!   an odd number follows      an even number follows      the last block
//!      0     1     2              0     1     2               0     1
//!   0 ──▶ 2 ──▶ 3 ──▶ 1        0 ──▶ 1 ──▶ 3               0 ──▶ 1 ──▶ 3
//!                                    └─────────▶ 2         └────────▶ 2
//! ```
//!
//! A member that is known to be lost hands nothing on: [`lost_members`].

mod lost_members;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use crate::schedule::circulant::Circulant;

/// The most members that the schedule supports: [`Circulant::binomial`].
pub(super) const NODES_MAX: u32 = 1024;
/// How many sets of trees a store remembers: those that were used last. One store is for all
/// members, one for sets with lost members. A guess: a cluster has one or two sets at a time, a
/// simulation a few. If it is too small, sets are computed again for each message.
const REMEMBERED: usize = 16;

/// The sets of trees that are remembered, the last used first.
#[derive(Debug)]
struct Known<K>(VecDeque<(K, Arc<Trees>)>);

impl<K: PartialEq> Known<K> {
    const fn new() -> Self {
        Self(VecDeque::new())
    }

    fn find(&mut self, key: &K) -> Option<Arc<Trees>> {
        let place = self.0.iter().position(|(one, _)| one == key)?;
        let found = self.0.remove(place)?;
        let trees = found.1.clone();
        self.0.push_front(found);
        Some(trees)
    }

    fn put(&mut self, key: K, trees: Arc<Trees>) -> Arc<Trees> {
        self.0.push_front((key, trees.clone()));
        self.0.truncate(REMEMBERED);
        trees
    }
}

/// The trees under a key, computed if they are not remembered. No lock is held during the
/// computation.
fn remembered<K: PartialEq>(
    known: &Mutex<Known<K>>,
    key: K,
    work_out: impl FnOnce(&K) -> Option<Trees>,
) -> Option<Arc<Trees>> {
    let known = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().find(&key);
    found.or_else(|| {
        let trees = work_out(&key)?.into();
        Some(known().put(key, trees))
    })
}

/// All trees of one population.
#[derive(Debug)]
pub(super) struct Trees {
    /// The trees of blocks that other blocks follow. The tree of a block is at the number of blocks
    /// that follow, modulo the number of these trees.
    inner: Vec<Tree>,
    last: Tree,
}

/// The tree of a block. Positions are in preorder, and a node's children are in the order in which
/// it sends to them.
#[derive(Debug)]
pub(super) struct Tree {
    /// For each position, how many ranks it is clockwise of the origin.
    distances: Vec<u32>,
    positions: Vec<u32>,
    /// For each position, the end of its subtree.
    ends: Vec<u32>,
    /// For each position, the round in which it gets the block, from the round in which the origin
    /// first sends it.
    rounds: Vec<u32>,
}

impl Trees {
    /// The trees for this many members; none if there are too many. They take up to 0.2 s to
    /// compute if they are not remembered.
    pub(super) fn of(population: u32) -> Option<Arc<Self>> {
        static KNOWN: Mutex<Known<u32>> = Mutex::new(Known::new());
        remembered(&KNOWN, population, |_| Self::work_out(population))
    }

    /// As [`Trees::of`], but the ranks at the distances `lost` clockwise of the origin, in
    /// ascending order, hand nothing on. To derive such trees takes some 2 ms for 1,024 members and
    /// 0.1 ms for 64. A member can cause that work with each of its blocks.
    pub(super) fn without(population: u32, lost: Vec<u32>) -> Option<Arc<Self>> {
        static KNOWN: Mutex<Known<(u32, Vec<u32>)>> = Mutex::new(Known::new());
        let all = Self::of(population)?;
        if lost.is_empty() {
            return Some(all);
        }
        remembered(&KNOWN, (population, lost), |(_, lost)| {
            lost_members::rewire(&all, lost)
        })
    }

    fn work_out(population: u32) -> Option<Self> {
        if population > NODES_MAX {
            return None;
        }
        let schedule = Circulant::binomial(NonZeroU32::new(population)?)?;
        let phase = schedule.skips().len();
        let receipts = (1..population).map(|rank| schedule.receipts(rank));
        let receipts: Vec<Vec<i64>> = receipts.collect::<Option<_>>()?;
        // `is_it` tells which of the blocks that a rank gets in a phase goes down this tree. The
        // round in which that block comes gives its sender. The number of the block gives the round
        // in which the origin first sends it. The arc counts its round from there.
        let tree = |is_it: &dyn Fn(i64) -> bool, is_last: bool| {
            let mut arcs = Vec::with_capacity(receipts.len());
            for (rank, blocks) in (1..).zip(&receipts) {
                let mut rounds = blocks.iter().zip(schedule.skips()).enumerate();
                let (round, (block, skip)) = rounds.find(|(_, (block, _))| is_it(**block))?;
                let from = (rank + population - skip) % population;
                let first = if is_last { 0 } else { *block };
                arcs.push((from, rank, round as i64 - first));
            }
            Tree::of(population, &arcs)
        };
        let phase = phase as i64;
        let inner =
            (0..phase).map(|left| tree(&|block| (block + left).rem_euclid(phase) == 0, false));
        Some(Self {
            inner: inner.collect::<Option<_>>()?,
            // Every block number beyond the last one means the last block.
            last: tree(&|block| block >= 0, true)?,
        })
    }

    /// The tree of a block that `left` blocks follow.
    pub(super) fn tree(&self, left: u32) -> &Tree {
        let inner = self.inner.get(left as usize % self.inner.len().max(1));
        inner.filter(|_| left > 0).unwrap_or(&self.last)
    }
}

impl Tree {
    /// The tree with these arcs: sender, receiver and round, with ranks counted clockwise from the
    /// origin.
    fn of(population: u32, arcs: &[(u32, u32, i64)]) -> Option<Self> {
        let mut children: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for (from, to, round) in arcs {
            let round = u32::try_from(*round).ok()?;
            children.entry(*from).or_default().push((round, *to));
        }
        let count = population as usize;
        let mut tree = Self {
            distances: Vec::with_capacity(count),
            positions: vec![0; count],
            ends: vec![0; count],
            rounds: Vec::with_capacity(count),
        };
        tree.visit(0, 0, &mut children);
        (tree.distances.len() == count).then_some(tree)
    }

    /// Append a rank and all ranks below it. Each step down is in a later round.
    fn visit(&mut self, rank: u32, round: u32, children: &mut BTreeMap<u32, Vec<(u32, u32)>>) {
        let position = self.distances.len();
        self.distances.push(rank);
        self.rounds.push(round);
        if let Some(place) = self.positions.get_mut(rank as usize) {
            *place = position as u32;
        }
        let mut behind = children.remove(&rank).unwrap_or_default();
        for (later, _) in &mut behind {
            *later = (*later).max(round.saturating_add(u32::from(rank > 0)));
        }
        behind.sort_unstable();
        for (round, child) in behind {
            self.visit(child, round, children);
        }
        if let Some(end) = self.ends.get_mut(position) {
            *end = self.distances.len() as u32;
        }
    }

    pub(super) fn position(&self, distance: u32) -> u32 {
        at(&self.positions, distance)
    }

    pub(super) fn distance(&self, position: u32) -> u32 {
        at(&self.distances, position)
    }

    pub(super) fn round(&self, position: u32) -> u32 {
        at(&self.rounds, position)
    }

    /// The positions of the children of a position.
    pub(super) fn children(&self, position: u32) -> impl Iterator<Item = u32> {
        let end = at(&self.ends, position);
        let first = Some(position + 1).filter(|first| *first < end);
        std::iter::successors(first, move |child| {
            Some(at(&self.ends, *child)).filter(|next| *next < end && next > child)
        })
    }
}

fn at(values: &[u32], index: u32) -> u32 {
    values.get(index as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Carry out a broadcast of this many blocks along the trees, each copy in its round.
    fn carry_out(population: u32, blocks: u32) {
        let trees = Trees::of(population).unwrap();
        let mut copies = Vec::new();
        for block in 0..blocks {
            let tree = trees.tree(blocks - 1 - block);
            for position in 0..population {
                assert_eq!(tree.position(tree.distance(position)), position);
                let children = tree.children(position);
                let rounds: Vec<u32> = children
                    .map(|child| {
                        let arc = (tree.distance(position), tree.distance(child));
                        copies.push((block + tree.round(child), block, arc));
                        tree.round(child)
                    })
                    .collect();
                assert!(rounds.is_sorted(), "{population} {block}");
            }
        }
        copies.sort_unstable();
        let mut has = vec![vec![None; blocks as usize]; population as usize];
        let (mut sends, mut receives) = (BTreeMap::new(), BTreeMap::new());
        for (round, block, (from, to)) in copies {
            let case = format!("{population} nodes, block {block}, round {round}");
            let before: Option<u32> = has[from as usize][block as usize];
            assert!(
                from == 0 || before.is_some_and(|before| before < round),
                "{case}"
            );
            assert_eq!(
                has[to as usize][block as usize].replace(round),
                None,
                "{case}"
            );
            assert_eq!(sends.insert((from, round), block), None, "{case}");
            assert_eq!(receives.insert((to, round), block), None, "{case}");
        }
        assert!(has.iter().skip(1).flatten().all(Option::is_some));
        let last = receives.keys().map(|(_, round)| *round).max();
        let levels = u32::BITS - (population - 1).leading_zeros();
        assert_eq!(
            last,
            Some(blocks + levels - 2),
            "{population} nodes, {blocks} blocks"
        );
    }

    #[test]
    fn the_trees_that_were_used_last_are_remembered() {
        let mut known = Known::new();
        let trees = Trees::of(3).unwrap();
        for population in 0..REMEMBERED as u32 {
            known.put(population, trees.clone());
        }
        assert!(known.find(&0).is_some());
        known.put(99, trees);
        assert!(known.find(&0).is_some() && known.find(&1).is_none());
        assert_eq!(known.0.len(), REMEMBERED);
    }

    #[test]
    fn along_the_trees_all_have_all_blocks_in_the_fewest_rounds() {
        for population in 2..=40 {
            for blocks in [1, 2, 3, 5, 17] {
                carry_out(population, blocks);
            }
        }
        for population in [48, 64, 65, 100, 127, 128, 500, 1024] {
            carry_out(population, 20);
        }
        assert!(Trees::of(NODES_MAX + 1).is_none());
        assert_eq!(Trees::of(1).unwrap().tree(0).children(0).count(), 0);
    }
}
