//! The roster: which peer holds which rank in one epoch.
//!
//! A node gathers it over its clockwise fingers in doubling steps; finger i is the peer 2^i ranks
//! ahead. Let the node know the peers of its first k ranks (itself included), 2^i ≤ k < 2^(i+1).
//! Then it asks its finger i for the next ranks, which are among the finger's own first ranks. So
//! all rosters grow together, in ⌈log2 N⌉ steps while one answer has room for the ranks asked for.
//! A node knows its own fingers without asking. If a finger does not answer, a nearer finger or one
//! behind the node is asked, so silent members do not stop a roster.
//!
//! A roster is hearsay and only good for shortcuts. The receiver of a packet checks its own rank. A
//! peer that denies a rank is not used for it until the tables change or its denials are forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use binomesh_overlay::{Id, Placement, Rank};

use crate::packet::Message;

/// The peers of one epoch, as far as known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Roster<I> {
    placement: Placement<I>,
    /// The peers by rank; empty above the population that rosters are kept for.
    peers: Arc<Vec<Option<I>>>,
    ranks: BTreeMap<I, Rank>,
    /// How many ranks are known without a gap, clockwise from this node's own.
    known: u32,
    /// Ranks that their supposed holders have denied.
    denied: BTreeSet<Rank>,
    /// Ranks whose supposed holder does not answer. It may be dead or paused, or the hearsay may be
    /// wrong. Its name still counts, but nothing is sent to it by this rank.
    doubted: BTreeSet<Rank>,
    /// Peers that asked for ranks that are not known here yet, with their questions. At most
    /// [`MAX_ASKERS`]; further ones ask again by their own timers.
    askers: BTreeMap<I, (Rank, u32)>,
    /// Fingers whose answers contradicted this roster, each with the peers that it has at another
    /// rank.
    contradicted_by: BTreeMap<I, BTreeSet<I>>,
}

const MAX_ASKERS: usize = 64;
/// How many fingers must contradict an incomplete roster before it is corrected: a single one may
/// be a liar. If this node has one finger only, that one suffices.
const CONTRADICTIONS: usize = 2;

impl<I: Id> Roster<I> {
    /// A roster that knows only that `me` stands at this placement. Above `max`
    /// members it stays empty.
    pub fn new(me: I, placement: Placement<I>, max: u32) -> Self {
        let n = placement.population.get();
        let mut roster = Self {
            placement,
            peers: Arc::default(),
            ranks: BTreeMap::new(),
            known: 0,
            denied: BTreeSet::new(),
            doubted: BTreeSet::new(),
            askers: BTreeMap::new(),
            contradicted_by: BTreeMap::new(),
        };
        if n <= max && placement.rank.is_within(placement.population) {
            roster.peers = Arc::new(vec![None; n as usize]);
            roster.note(placement.rank, me);
            roster.known = 1;
        }
        roster
    }

    /// The rank of a peer, if known.
    pub fn rank_of(&self, peer: I) -> Option<Rank> {
        self.ranks.get(&peer).copied()
    }

    /// The peer at a rank, if it is known and did not deny the rank.
    pub fn peer_at(&self, rank: Rank) -> Option<I> {
        if self.denied.contains(&rank) {
            return None;
        }
        self.peers.get(rank.0 as usize).copied().flatten()
    }

    /// Whether the supposed holder of `rank` does not answer.
    pub(crate) fn is_doubted(&self, rank: Rank) -> bool {
        self.doubted.contains(&rank)
    }

    /// Note that the supposed holder of `rank` does not answer.
    pub(crate) fn doubt(&mut self, rank: Rank) {
        if rank.is_within(self.placement.population) {
            self.doubted.insert(rank);
        }
    }

    /// Whether every rank has a known peer.
    pub fn is_complete(&self) -> bool {
        self.is_tracked() && self.known == self.placement.population.get()
    }

    /// Whether a roster is kept for this population at all.
    pub fn is_tracked(&self) -> bool {
        !self.peers.is_empty()
    }

    /// How many ranks are known without a gap, from this node's own.
    pub fn known_count(&self) -> u32 {
        self.known
    }

    /// The peers by rank, shared.
    pub fn peers(&self) -> Arc<Vec<Option<I>>> {
        Arc::clone(&self.peers)
    }

    /// Note that the supposed holder of `rank` has denied it.
    pub(crate) fn deny(&mut self, rank: Rank) {
        if rank.is_within(self.placement.population) {
            self.denied.insert(rank);
        }
    }

    /// Whether the supposed holder of `rank` denied it.
    pub(crate) fn is_denied(&self, rank: Rank) -> bool {
        self.denied.contains(&rank)
    }

    /// Forget all denials: a peer may have lied or been in error, so it is tried again.
    pub(crate) fn forget_denials(&mut self) {
        self.denied.clear();
    }

    /// Forget denials, doubts and contradictions, as the tables have changed.
    pub(crate) fn trust_again(&mut self) {
        self.forget_denials();
        self.doubted.clear();
        self.contradicted_by.clear();
    }

    /// Extend the known ranks: with the fingers at the next ranks, or with peers that are noted
    /// behind a rank that was forgotten.
    pub(crate) fn extend(&mut self, finger_at: impl Fn(Rank) -> Option<I>) {
        while self.is_tracked() && !self.is_complete() {
            let next = self.next_rank();
            let kept = self.peers.get(next.0 as usize).copied().flatten();
            match finger_at(next).or(kept) {
                Some(peer) if self.ranks.get(&peer).is_none_or(|at| *at == next) => {
                    self.note(next, peer);
                    self.known += 1;
                    self.contradicted_by.clear();
                }
                _ => return,
            }
        }
    }

    /// The next question: the peer to ask, the first rank and how many ranks. Each further attempt
    /// asks a nearer finger, and then the fingers behind this node. Their own fingers pass over
    /// dead members that stand before the first unknown rank.
    pub(crate) fn next_ask(
        &self,
        clockwise: &[Option<I>],
        counterclockwise: &[Option<I>],
        attempt: u32,
    ) -> Option<(I, Rank, u32)> {
        let n = self.placement.population.get();
        if !self.is_tracked() || self.known == 0 || self.known >= n {
            return None;
        }
        let level = self.known.ilog2();
        let ahead = clockwise.iter().take(level as usize + 1).rev();
        let able: Vec<I> = ahead.chain(counterclockwise).flatten().copied().collect();
        let turn = attempt.checked_rem(u32::try_from(able.len()).ok()?)?;
        let peer = *able.get(turn as usize)?;
        let end = n.min(2u32.saturating_mul(1 << level));
        let count = (end - self.known).min(Message::<I>::MAX_ROSTER as u32);
        Some((peer, self.next_rank(), count))
    }

    /// The first rank that is not known.
    pub(crate) fn next_rank(&self) -> Rank {
        let placement = &self.placement;
        placement.rank.ahead(self.known, placement.population)
    }

    /// The answer to a question. If there is none yet, the asker is remembered, up to
    /// [`MAX_ASKERS`].
    pub(crate) fn on_ask(&mut self, from: I, start: Rank, count: u32) -> Option<Vec<I>> {
        let answer = self.answer(start, count);
        if answer.is_none() && (self.askers.len() < MAX_ASKERS || self.askers.contains_key(&from)) {
            self.askers.insert(from, (start, count));
        }
        answer
    }

    /// Take in an answer. False if the answer contradicts the roster: it names a peer twice, a peer
    /// in it has another rank already, or `finger_at` has another peer at its rank.
    pub(crate) fn on_tell(
        &mut self,
        start: Rank,
        peers: &[I],
        finger_at: impl Fn(Rank) -> Option<I>,
    ) -> bool {
        if !self.is_tracked() || self.is_complete() || start != self.next_rank() {
            return true;
        }
        let new = self.ranked(start, peers);
        if !is_possible(&new, &finger_at) || new.iter().any(|told| self.is_elsewhere(told)) {
            return false;
        }
        for (rank, peer) in new {
            self.note(rank, peer);
        }
        self.extend(finger_at);
        true
    }

    /// Handle an answer of the finger `from` that contradicts this roster. The roster itself may be
    /// wrong: from a finger before the tables healed, or from an earlier answer. A peer moves to
    /// the rank that this answer gives it if two fingers contradict its rank here, or the only
    /// finger does. A peer stays if it is this node, or if `finger_at` has it at its rank here.
    /// Returns whether a peer has moved.
    pub(crate) fn on_contradiction(
        &mut self,
        from: I,
        fingers: usize,
        (start, peers): (Rank, &[I]),
        finger_at: impl Fn(Rank) -> Option<I>,
    ) -> bool {
        let new = self.ranked(start, peers);
        if !is_possible(&new, &finger_at) {
            return false;
        }
        let is_certain = |peer: I| {
            let at = self.rank_of(peer);
            at == Some(self.placement.rank) || at.is_some_and(|at| finger_at(at) == Some(peer))
        };
        let moved = new.iter().filter(|told| self.is_elsewhere(told));
        let moved = moved.map(|(_, peer)| *peer);
        let moved: BTreeSet<I> = moved.filter(|peer| !is_certain(*peer)).collect();
        self.contradicted_by.insert(from, moved.clone());
        let quorum = fingers.min(CONTRADICTIONS);
        let is_wrong = |peer: &I| {
            let all = self.contradicted_by.values();
            all.filter(|moved| moved.contains(peer)).count() >= quorum
        };
        let wrong: Vec<I> = moved.into_iter().filter(is_wrong).collect();
        if wrong.is_empty() {
            return false;
        }
        self.contradicted_by.clear();
        wrong.into_iter().for_each(|peer| self.forget(peer));
        for (rank, peer) in new {
            if self.rank_of(peer).is_none() {
                self.note(rank, peer);
            }
        }
        self.extend(finger_at);
        true
    }

    /// Each peer of an answer with its rank, as far as the population has room.
    fn ranked(&self, start: Rank, peers: &[I]) -> Vec<(Rank, I)> {
        let population = self.placement.population;
        let room = population.get().saturating_sub(self.known) as usize;
        let ranks = (0u32..).map(|step| start.ahead(step, population));
        ranks.zip(peers.iter().copied()).take(room).collect()
    }

    /// Whether this roster has a peer at another rank.
    fn is_elsewhere(&self, (rank, peer): &(Rank, I)) -> bool {
        self.rank_of(*peer).is_some_and(|at| at != *rank)
    }

    fn forget(&mut self, peer: I) {
        let Some(rank) = self.ranks.remove(&peer) else {
            return;
        };
        if let Some(place) = Arc::make_mut(&mut self.peers).get_mut(rank.0 as usize) {
            *place = None;
        }
        self.denied.remove(&rank);
        self.doubted.remove(&rank);
        let placement = &self.placement;
        let before = placement.rank.distance_to(rank, placement.population);
        self.known = self.known.min(before);
    }

    /// The answers that are possible by now to peers that asked before.
    pub(crate) fn take_answers(&mut self) -> Vec<(I, Rank, Vec<I>)> {
        let asked = std::mem::take(&mut self.askers);
        let mut answers = Vec::new();
        for (asker, (start, count)) in asked {
            match self.answer(start, count) {
                Some(peers) => answers.push((asker, start, peers)),
                None => _ = self.askers.insert(asker, (start, count)),
            }
        }
        answers
    }

    fn answer(&self, start: Rank, count: u32) -> Option<Vec<I>> {
        let population = self.placement.population;
        let from = self.placement.rank.distance_to(start, population);
        if !start.is_within(population) || from >= self.known {
            return None;
        }
        let count = count
            .min(self.known - from)
            .min(Message::<I>::MAX_ROSTER as u32);
        (0..count)
            .map(|step| self.peers.get(start.ahead(step, population).0 as usize))
            .map(|peer| peer.copied().flatten())
            .collect()
    }

    fn note(&mut self, rank: Rank, peer: I) {
        if let Some(place) = Arc::make_mut(&mut self.peers).get_mut(rank.0 as usize) {
            if let Some(former) = place.replace(peer).filter(|former| *former != peer) {
                self.ranks.remove(&former);
                self.denied.remove(&rank);
                self.doubted.remove(&rank);
            }
            self.ranks.insert(peer, rank);
        }
    }
}

/// Whether an answer names no peer twice and agrees with this node's own table.
fn is_possible<I: Id>(told: &[(Rank, I)], finger_at: impl Fn(Rank) -> Option<I>) -> bool {
    let distinct: BTreeSet<I> = told.iter().map(|(_, peer)| *peer).collect();
    let fits = |(rank, peer): &(Rank, I)| finger_at(*rank).is_none_or(|holder| holder == *peer);
    distinct.len() == told.len() && told.iter().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use binomesh_overlay::{Epoch, Population};

    fn placement(n: u32, rank: u32) -> Placement<u32> {
        Placement {
            epoch: Epoch {
                root: 100,
                boot: 1,
                counter: 1,
                nonce: 1,
            },
            population: Population::new(n).unwrap(),
            rank: Rank(rank),
        }
    }

    #[test]
    fn rosters_grow_together_in_logarithmically_many_rounds() {
        for n in [1u32, 2, 3, 5, 8, 12, 33, 64, 100] {
            let mut rosters: Vec<_> = (0..n)
                .map(|rank| Roster::new(rank + 100, placement(n, rank), 4096))
                .collect();
            let population = Population::new(n).unwrap();
            for _ in 0..population.levels() {
                let before = rosters.clone();
                for (rank, roster) in (0..n).zip(&mut rosters) {
                    let clockwise: Vec<_> = (0..population.levels())
                        .map(|level| Some(Rank(rank).ahead(1 << level, population).0 + 100))
                        .collect();
                    if let Some((peer, start, count)) = roster.next_ask(&clockwise, &[], 0) {
                        let told = before[peer as usize - 100].answer(start, count).unwrap();
                        assert!(roster.on_tell(start, &told, |_| None));
                    }
                }
            }
            for roster in &rosters {
                assert!(roster.is_complete(), "N={n}");
                for rank in 0..n {
                    assert_eq!(roster.peer_at(Rank(rank)), Some(rank + 100));
                    assert_eq!(roster.rank_of(rank + 100), Some(Rank(rank)));
                }
            }
        }
    }

    #[test]
    fn contradictions_are_rejected_and_denials_believed() {
        let mut roster = Roster::new(100u32, placement(4, 0), 4096);
        assert!(!roster.on_tell(Rank(1), &[100], |_| None), "my own id");
        assert!(!roster.on_tell(Rank(1), &[5, 5], |_| None), "a duplicate");
        assert!(
            !roster.on_tell(Rank(1), &[5], |_| Some(6)),
            "a finger says otherwise"
        );
        assert!(roster.on_tell(Rank(1), &[5, 6, 7, 8, 9], |_| None));
        assert!(roster.is_complete());
        assert_eq!(roster.rank_of(8), None, "beyond the population");
        roster.deny(Rank(2));
        assert_eq!(roster.peer_at(Rank(2)), None);
    }

    /// Peer 103 was noted at rank 1 for a moment, from a corrupted table. Peer 102 is known.
    fn with_a_wrong_name() -> Roster<u32> {
        let mut roster = Roster::new(100u32, placement(5, 0), 4096);
        roster.extend(|rank| (rank == Rank(1)).then_some(103));
        assert!(roster.on_tell(Rank(2), &[102], |_| None));
        roster
    }

    #[test]
    fn a_name_that_two_fingers_contradict_is_forgotten() {
        let mut roster = with_a_wrong_name();
        let told = (Rank(3), &[103, 104][..]);
        let right = |rank: Rank| (rank.0 == 1).then_some(101);
        assert!(!roster.on_tell(told.0, told.1, right));
        assert!(!roster.on_contradiction(102, 3, told, right), "one may lie");
        assert!(!roster.on_contradiction(102, 3, told, right), "and twice");
        assert_eq!(roster.known_count(), 3);
        assert!(roster.on_contradiction(104, 3, told, right));
        assert_eq!(roster.peer_at(Rank(1)), Some(101));
        assert!(roster.is_complete(), "{roster:?}");
        assert_eq!(roster.rank_of(103), Some(Rank(3)));
    }

    #[test]
    fn names_behind_the_one_that_was_wrong_are_kept() {
        let mut roster = with_a_wrong_name();
        let told = (Rank(3), &[103, 104][..]);
        assert!(!roster.on_contradiction(102, 1, (Rank(3), &[102, 102]), |_| None));
        assert!(
            roster.on_contradiction(102, 1, told, |_| None),
            "the only finger"
        );
        assert_eq!((roster.known_count(), roster.peer_at(Rank(1))), (1, None));
        assert_eq!(roster.peer_at(Rank(2)), Some(102));
        assert!(roster.on_tell(Rank(1), &[101, 102, 103, 104], |_| None));
        assert!(roster.is_complete());
        assert_eq!(roster.rank_of(103), Some(Rank(3)));
    }

    /// Peer 102 lies repeatedly: it claims that 105 is at rank 3.
    #[test]
    fn a_liar_that_repeats_a_wrong_name_holds_nobody_up() {
        let mut roster = Roster::new(100u32, placement(8, 0), 4096);
        let own = |rank: Rank| [1, 2, 4].contains(&rank.0).then_some(100 + rank.0);
        roster.extend(own);
        let lie = (Rank(3), &[105][..]);
        assert!(roster.on_tell(lie.0, lie.1, own));
        roster.extend(own);
        roster.deny(Rank(3));
        let truth = (Rank(5), &[105, 106, 107][..]);
        assert!(!roster.on_contradiction(104, 4, truth, own));
        assert!(!roster.on_contradiction(102, 4, (Rank(5), &[106, 103]), own));
        assert_eq!(roster.known_count(), 5, "of 106 nothing was known");
        assert!(roster.on_contradiction(101, 4, truth, own));
        assert_eq!(roster.known_count(), 3);
        assert!(!roster.on_tell(lie.0, lie.1, own), "105 stands elsewhere");
        assert!(!roster.on_contradiction(102, 4, lie, own));
        assert!(roster.on_tell(Rank(3), &[103], own));
        roster.extend(own);
        assert!(roster.is_complete(), "{roster:?}");
        let names: Vec<_> = (0..8).map(|rank| roster.peer_at(Rank(rank))).collect();
        let true_names: Vec<_> = (100..108).map(Some).collect();
        assert_eq!(names, true_names);
    }

    #[test]
    fn answers_neither_contradict_the_own_table_nor_count_after_a_new_name() {
        let mut roster = with_a_wrong_name();
        let told = (Rank(3), &[103, 104][..]);
        let own = |rank: Rank| (rank.0 == 1).then_some(103);
        for finger in [102, 104, 102, 104] {
            assert!(!roster.on_contradiction(finger, 3, told, own));
        }
        assert_eq!(roster.peer_at(Rank(1)), Some(103));
        let mut roster = with_a_wrong_name();
        assert!(!roster.on_contradiction(102, 3, told, |_| None));
        assert!(roster.on_tell(Rank(3), &[104], |_| None));
        assert!(!roster.on_contradiction(104, 3, (Rank(4), &[103]), |_| None));
        assert_eq!(roster.peer_at(Rank(1)), Some(103));
    }

    #[test]
    fn an_early_question_is_answered_later() {
        let mut roster = Roster::new(100u32, placement(4, 0), 4096);
        assert_eq!(roster.on_ask(103, Rank(1), 1), None);
        assert!(roster.take_answers().is_empty());
        assert!(roster.on_tell(Rank(1), &[101], |_| None));
        assert_eq!(roster.take_answers(), [(103, Rank(1), vec![101])]);
    }
}
