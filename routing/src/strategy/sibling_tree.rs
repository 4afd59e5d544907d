//! Strategy `sibling-tree`: [SFT06] §3.1, `bcast`.
//!
//! ```text
//!        0            origin ──▶ 0 ──▶ down the tree. Child 1 is dead: one packet
//!      /   \          for 3 and 4 goes round it by whatever router, 2 ──▶ 5 ──▶ 4
//!     †1 ── 2         ──▶ 3, and each goes on from there as if 1 had sent it.
//!    / \   / \
//!   3 ─ 4 5 ─ 6
//! ```
//!
//! These functions are pure: they ask which ranks are alive, and [`crate::router`] finds the way
//! round the dead ones. The relay uses [`heirs`] alone, through [`super::Layout`]. The rest of this
//! file serves simulations of the paper.
//!
//! Departure: the paper encapsulates once, for grandchildren, so ranks below a dead grandchild get
//! nothing. With [`Encapsulation::Recursive`] every destination that is lost on the way is replaced
//! by its children, so only unreachable ranks get nothing. Moreover one packet goes to all children
//! of a dead child, not one to each, since their ways have most hops in common.

use binomesh_overlay::Rank;

use crate::sibling_tree::SiblingTree;

/// How often a packet is encapsulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// Once: to the children of a dead child, as in the paper.
    Once,
    /// As often as needed: to the children of any lost destination.
    Recursive,
}

/// A part of a broadcast that a rank hands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Handover {
    /// The broadcast, to this child.
    Child(Rank),
    /// One encapsulated packet to all [`heirs`] of this dead rank.
    Heirs(Rank),
}

/// The rank where a broadcast of the paper begins. The origin sends the broadcast to this rank, in
/// a packet of generation 0. (In the relay the origin serves its own subtree itself.)
pub const ROOT: Rank = Rank(0);

/// The parts that `at` hands on, in the order of sending: its children from left to right.
pub fn sibling_tree(
    shape: &SiblingTree,
    at: Rank,
    mut is_live: impl FnMut(Rank) -> bool,
) -> impl Iterator<Item = Handover> {
    shape.children(at).map(move |child| match is_live(child) {
        true => Handover::Child(child),
        false => Handover::Heirs(child),
    })
}

/// The destinations that replace a lost one. `generation` counts how often a destination of the
/// packet was replaced before: 0 for a packet to a child or to the root.
pub fn heirs(
    shape: &SiblingTree,
    lost: Rank,
    encapsulation: Encapsulation,
    generation: u32,
) -> impl Iterator<Item = Rank> + use<> {
    let has_heirs = encapsulation == Encapsulation::Recursive || generation == 0;
    has_heirs
        .then(|| shape.children(lost))
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sibling_tree::Fanout;
    use binomesh_overlay::Population;
    use std::collections::BTreeSet;

    fn shape(n: u32, k: u32) -> SiblingTree {
        SiblingTree::new(Population::new(n).unwrap(), Fanout::new(k).unwrap())
    }

    /// The ranks that get a broadcast from the root if every packet arrives that can.
    fn reached(
        shape: &SiblingTree,
        dead: &BTreeSet<Rank>,
        encapsulation: Encapsulation,
    ) -> Vec<Rank> {
        let is_live = |rank| !dead.contains(&rank);
        let (mut open, mut reached) = (vec![(ROOT, 0)], Vec::new());
        while let Some((at, generation)) = open.pop() {
            if !is_live(at) {
                let heirs = heirs(shape, at, encapsulation, generation);
                open.extend(heirs.map(|heir| (heir, generation + 1)));
                continue;
            }
            reached.push(at);
            for handover in sibling_tree(shape, at, is_live) {
                match handover {
                    Handover::Child(child) | Handover::Heirs(child) => open.push((child, 0)),
                }
            }
        }
        reached.sort_unstable();
        reached
    }

    #[test]
    fn every_rank_gets_it_once_while_all_live() {
        for k in 2..=8 {
            for n in 1..=200 {
                let all: Vec<Rank> = (0..n).map(Rank).collect();
                let shape = shape(n, k);
                assert_eq!(reached(&shape, &BTreeSet::new(), Encapsulation::Once), all);
            }
        }
    }

    #[test]
    fn a_dead_child_is_one_handover_to_its_heirs() {
        let shape = shape(15, 2);
        let handovers: Vec<_> = sibling_tree(&shape, ROOT, |rank| rank != Rank(1)).collect();
        assert_eq!(
            handovers,
            [Handover::Heirs(Rank(1)), Handover::Child(Rank(2))]
        );
        assert!(heirs(&shape, Rank(1), Encapsulation::Once, 0).eq([Rank(3), Rank(4)]));
    }

    #[test]
    fn once_loses_nodes_behind_a_dead_grandchild_and_recursive_does_not() {
        let shape = shape(31, 2);
        let dead = BTreeSet::from([1, 3].map(Rank));
        let behind: BTreeSet<Rank> = [7, 8, 15, 16, 17, 18].map(Rank).into();
        let live = (0..31).map(Rank).filter(|rank| !dead.contains(rank));
        let all: Vec<Rank> = live.collect();
        assert_eq!(reached(&shape, &dead, Encapsulation::Recursive), all);
        let fewer: Vec<Rank> = all
            .into_iter()
            .filter(|rank| !behind.contains(rank))
            .collect();
        assert_eq!(reached(&shape, &dead, Encapsulation::Once), fewer);
    }

    #[test]
    fn a_dead_root_is_replaced_by_its_children() {
        let shape = shape(15, 2);
        for encapsulation in [Encapsulation::Once, Encapsulation::Recursive] {
            let reached = reached(&shape, &BTreeSet::from([ROOT]), encapsulation);
            assert!(reached.into_iter().eq((1..15).map(Rank)));
        }
    }
}
