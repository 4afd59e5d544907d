//! The search for a parent: candidates are asked in order, with pauses, and the first that agrees
//! becomes the parent.

use super::{Claim, SiblingOrder};

/// The most candidates that one search holds; further ones are left out.
pub(super) const MAX_CANDIDATES: usize = 24;
/// How many asked candidates a search remembers. The oldest is forgotten first, and its late Lead
/// is then answered with Detach.
const MAX_ASKED: usize = 64;
/// The most redirects that a search follows in one round. The redirects of one candidate lead only
/// downwards, so there are more of them than the greatest depth only if a node lies.
const MAX_REDIRECTS: u8 = 64;

/// A node that may become the parent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Candidate<I> {
    /// The node to ask.
    pub(super) id: I,
    /// The place to ask for among its children.
    pub(super) order: SiblingOrder,
}

/// A search in progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ParentSearch<I> {
    claim: Claim<I>,
    candidates: Vec<Candidate<I>>,
    next: usize,
    asked: Vec<I>,
    redirects: u8,
    /// How many times all candidates have been asked without success.
    pub(super) rounds: u32,
    /// Beats since the last candidate was asked.
    pub(super) silent_beats: u32,
}

impl<I: Copy + Eq> ParentSearch<I> {
    /// A search among `candidates`; only the first [`MAX_CANDIDATES`] different ones count.
    pub(super) fn new(claim: Claim<I>, candidates: impl IntoIterator<Item = Candidate<I>>) -> Self {
        let mut search = Self {
            claim,
            candidates: Vec::new(),
            next: 0,
            asked: Vec::new(),
            redirects: 0,
            rounds: 0,
            silent_beats: 0,
        };
        search.replace(candidates);
        search
    }

    /// Start a round with fresh candidates.
    pub(super) fn replace(&mut self, candidates: impl IntoIterator<Item = Candidate<I>>) {
        self.candidates.clear();
        for candidate in candidates {
            let known = self.candidates.iter().any(|c| c.id == candidate.id);
            if !known && self.candidates.len() < MAX_CANDIDATES {
                self.candidates.push(candidate);
            }
        }
        self.next = 0;
        self.redirects = 0;
    }

    /// Whether all candidates of this round have been asked.
    pub(super) fn is_exhausted(&self) -> bool {
        self.next >= self.candidates.len()
    }

    /// Why the node asks to be attached.
    pub(super) const fn claim(&self) -> Claim<I> {
        self.claim
    }

    /// The next candidate of this round, which now counts as asked.
    pub(super) fn ask_next(&mut self) -> Option<Candidate<I>> {
        let candidate = self.candidates.get(self.next)?.clone();
        self.next += 1;
        self.note_asked(candidate.id);
        Some(candidate)
    }

    fn note_asked(&mut self, id: I) {
        if !self.asked.contains(&id) {
            if self.asked.len() >= MAX_ASKED {
                self.asked.remove(0);
            }
            self.asked.push(id);
        }
    }

    /// A peer that is no candidate, but has shown that it is in a tree; it now counts as asked.
    pub(super) fn ask_also(&mut self, id: I) -> Candidate<I> {
        self.note_asked(id);
        Candidate {
            id,
            order: SiblingOrder::default(),
        }
    }

    /// Whether `id` was asked in this search, so that its Lead counts.
    pub(super) fn has_asked(&self, id: I) -> bool {
        self.asked.contains(&id)
    }

    /// The candidate `to`, to which `from` redirects; it now counts as asked. None if `from` was
    /// not asked, or after too many redirects.
    pub(super) fn follow(&mut self, from: I, to: I) -> Option<Candidate<I>> {
        if !self.has_asked(from) || self.redirects >= MAX_REDIRECTS {
            return None;
        }
        self.redirects += 1;
        self.note_asked(to);
        Some(Candidate {
            id: to,
            order: SiblingOrder::default(),
        })
    }
}
