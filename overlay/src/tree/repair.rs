//! Repair and merging: what a node does without a parent, and when it meets another tree.

use super::parent_search::Candidate;
use super::{Claim, Message, ParentSearch, RootKey, SiblingOrder, Surroundings, Tree};
use crate::Id;
use crate::config::{RETRY_MAX, STAGGER};
use crate::seam::{Event, Out, Timer};

/// How many of its nearest ancestors an orphan asks.
const ANCESTORS: usize = 3;
/// After how many rounds of asking an orphan that once had a place becomes its own root; an heir
/// directly below the root waits for one round.
const PATIENCE: u32 = 3;

impl<I: Id> Tree<I> {
    /// Start to ask `parent` for a place, or be a root if there is none.
    pub fn start(&mut self, parent: Option<I>, around: &mut Surroundings<'_, I>, out: &mut Out<I>) {
        let Some(parent) = parent.filter(|id| *id != self.me) else {
            if !self.anchored {
                self.become_root(around, out);
            }
            return;
        };
        self.anchored = false;
        self.deployed = Some(parent);
        let first = self.deployed_place();
        let rest = contacts(around.contacts, self.me);
        self.seek(Claim::Orphan, first.into_iter().chain(rest), around, out);
    }

    /// The parent and slot that this node starts with, while it has never had a place: that parent
    /// may start later than the node.
    fn deployed_place(&self) -> Option<Candidate<I>> {
        let parent = self.deployed.filter(|_| !self.established);
        let order = self.slot.clone();
        parent.map(|id| Candidate { id, order })
    }

    /// Ask `peer`, whose rank is `distance` below this node's, for the place next to it in
    /// preorder. The node keeps its parent until `peer` agrees. A node does not ask if it has no
    /// parent, searches already, leaves, has that place, or is the parent of `peer`.
    pub fn move_under(
        &mut self,
        peer: I,
        distance: u32,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) {
        let order = SiblingOrder::next_to(distance);
        let is_there = self.parent == Some(peer) && self.order == order;
        let is_free = self.parent.is_some() && self.seek.is_none() && !self.leaving;
        if is_free && !is_there && !self.has_child(peer) {
            self.seek(Claim::Orphan, [Candidate { id: peer, order }], around, out);
        }
    }

    /// A peer is parent or child no more: it left, was found dead, has restarted, or is out of
    /// reach. Returns whether parent or children changed.
    pub fn on_gone(&mut self, peer: I, around: &mut Surroundings<'_, I>, out: &mut Out<I>) -> bool {
        if self.parent == Some(peer) {
            return self.orphan(Some(peer), around, out);
        }
        self.on_detach(peer, out)
    }

    /// A peer has restarted and forgotten its relation to this node. A restarted parent is asked
    /// first for the old place, which costs no further link. A restarted root has forgotten the
    /// epoch too, which its heir still knows, so it counts as gone.
    pub fn on_restarted(
        &mut self,
        peer: I,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        match self.parent == Some(peer) && self.root.id != peer {
            true => {
                self.restarted = Some(peer);
                self.orphan(None, around, out)
            }
            false => self.on_gone(peer, around, out),
        }
    }

    /// Continue the search: ask the next candidate, or end a round.
    pub fn on_seek_timer(&mut self, around: &mut Surroundings<'_, I>, out: &mut Out<I>) -> bool {
        if self.parent.is_some() {
            // The search was for a better place, and has not found one.
            self.seek = None;
        }
        let Some(seek) = &mut self.seek else {
            return false;
        };
        if seek.is_exhausted() {
            seek.rounds += 1;
            self.restarted = None;
            let rounds = seek.rounds;
            if matches!(seek.claim(), Claim::Root(_)) {
                self.seek = None;
                return false;
            }
            out.event(Event::Seeking { rounds });
            if rounds >= self.patience() {
                self.become_root(around, out);
                return true;
            }
            let mut first = self.first_candidates(None, around);
            first.extend(self.deployed_place());
            let rest = contacts(around.contacts, self.me);
            let candidates = first.into_iter().chain(rest);
            if let Some(seek) = &mut self.seek {
                seek.replace(candidates);
            }
        }
        self.ask_next(around, out);
        false
    }

    /// An orphan searches again if it has no search, or if the timer of its search was lost.
    pub(super) fn restart_stalled_seek(
        &mut self,
        beats_to_stall: u32,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        match &mut self.seek {
            None if self.parent.is_none() && !self.anchored => self.orphan(None, around, out),
            None => false,
            Some(seek) if seek.silent_beats < beats_to_stall => {
                seek.silent_beats += 1;
                false
            }
            Some(_) => self.on_seek_timer(around, out),
        }
    }

    fn ask_next(&mut self, around: &mut Surroundings<'_, I>, out: &mut Out<I>) {
        let Some(seek) = &mut self.seek else {
            return;
        };
        seek.silent_beats = 0;
        if let Some(Candidate { id, order }) = seek.ask_next() {
            let claim = seek.claim();
            out.send(id, Message::Attach { claim, order });
        }
        let pause = if seek.is_exhausted() {
            (STAGGER * (4 << seek.rounds.min(10))).min(RETRY_MAX)
        } else {
            STAGGER
        };
        out.arm(Timer::Seek, around.noise.jitter(pause));
    }

    /// Tell a peer which tree this is, as the peer may be in another one. A node that is not
    /// anchored, or leaves, tells nothing.
    pub fn probe(&self, contact: I, out: &mut Out<I>) {
        if self.anchored && !self.leaving {
            out.send(contact, Message::Probe(self.root));
        }
    }

    pub(super) fn on_redirect(
        &mut self,
        from: I,
        to: I,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        if self.parent == Some(from) {
            // The sender is full, and this node is not its child.
            return self.orphan(None, around, out);
        }
        let Some(seek) = &mut self.seek else {
            return false;
        };
        if to != self.me
            && let Some(Candidate { id, order }) = seek.follow(from, to)
        {
            let claim = seek.claim();
            out.send(id, Message::Attach { claim, order });
        }
        false
    }

    pub(super) fn on_refuse(
        &mut self,
        from: I,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        if self.parent == Some(from) {
            return self.orphan(None, around, out);
        }
        let more = |seek: &ParentSearch<I>| seek.has_asked(from) && !seek.is_exhausted();
        if self.seek.as_ref().is_some_and(more) {
            self.ask_next(around, out);
        }
        false
    }

    /// Lose the parent, if there is one, and look for another. `lost` is the parent if it is gone,
    /// not only unwilling. The first heir of a lost root becomes the root at once.
    pub(super) fn orphan(
        &mut self,
        lost: Option<I>,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        if let Some(parent) = self.parent.take() {
            self.former = Some((parent, self.order.clone()));
        }
        self.anchored = false;
        if self.leaving {
            return true;
        }
        let first = self.first_candidates(lost, around);
        let root_lost = lost.is_some_and(|id| id == self.root.id);
        if root_lost && self.heirs.first() == Some(&self.me) {
            self.become_root(around, out);
            return true;
        }
        self.tell_children(out);
        let rest = contacts(around.contacts, self.me);
        let candidates = first.into_iter().chain(rest);
        let candidates: Vec<_> = candidates.filter(|c| Some(c.id) != lost).collect();
        self.seek(Claim::Orphan, candidates, around, out);
        true
    }

    /// The candidates to ask first. These are the nearest ancestors and the root, without the lost
    /// parent and those known to be down, each with the place that this subtree had there: all of
    /// them stand before this node in the ring. Then the root's heirs, for an heir only those
    /// before itself; under an heir the place is behind the heir's own children, in the old order.
    fn first_candidates(&self, lost: Option<I>, around: &Surroundings<'_, I>) -> Vec<Candidate<I>> {
        let mut candidates = Vec::new();
        let mut order = self.order.clone();
        let mut steps = self.path.iter().rev().peekable();
        while let Some(step) = steps.next() {
            let is_root = steps.peek().is_none();
            let is_gone = Some(step.id) == lost || (around.is_down)(step.id);
            if !is_gone && (is_root || candidates.len() < ANCESTORS) {
                candidates.push(Candidate {
                    id: step.id,
                    order: order.clone(),
                });
            }
            if steps.peek().is_some() {
                order = step.order.joined(&order);
            }
        }
        let before_me = self.heirs.iter().take_while(|id| **id != self.me);
        for id in before_me.copied().filter(|id| Some(*id) != lost) {
            let order = order.behind();
            candidates.push(Candidate { id, order });
        }
        candidates
    }

    fn patience(&self) -> u32 {
        let below_root = self.path.len() == 1;
        match self.established {
            true if below_root && self.heirs.contains(&self.me) => 1,
            true => PATIENCE,
            false => self.limits.starting_rounds,
        }
    }

    fn become_root(&mut self, around: &Surroundings<'_, I>, out: &mut Out<I>) {
        self.end_seek(out);
        self.parent = None;
        self.anchored = true;
        self.path.clear();
        self.order = SiblingOrder::default();
        self.root = self.key;
        self.established = true;
        self.heirs = self.children().take(super::MAX_HEIRS).collect();
        self.tell_children(out);
        self.admit_waiting(around, out);
    }

    fn seek(
        &mut self,
        claim: Claim<I>,
        candidates: impl IntoIterator<Item = Candidate<I>>,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) {
        self.seek = Some(ParentSearch::new(claim, candidates));
        self.ask_next(around, out);
    }

    pub(super) fn end_seek(&mut self, out: &mut Out<I>) {
        if self.seek.take().is_some() {
            out.disarm(Timer::Seek);
        }
    }

    /// A node that may be in another tree asks which tree this is. If its tree is the same, it is
    /// told so. If its tree yields, it is told to come here; if this tree yields, the root of this
    /// tree is told and goes there.
    pub(super) fn on_probe(
        &mut self,
        from: I,
        key: RootKey<I>,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        if self.leaving || !key.is_possible() {
            return false;
        }
        if !self.anchored {
            self.ask_prober(from, key, around, out);
            return false;
        }
        if key.id == self.root.id {
            out.send(from, Message::Together);
            return false;
        }
        if self.root.beats(&key) {
            let (root, via) = (self.root, self.me);
            out.send(from, Message::Offer { root, via });
            return false;
        }
        self.on_offer(key, from, around, out)
    }

    /// All candidates of an orphan may be dead. After all were asked without success, the orphan
    /// also asks a peer that probes it, since probes come from members of a tree. A probe that
    /// names a fallen root counts only if that root itself has sent it.
    fn ask_prober(
        &mut self,
        from: I,
        key: RootKey<I>,
        around: &Surroundings<'_, I>,
        out: &mut Out<I>,
    ) {
        let is_fallen = around.fallen == Some(key.id) && from != key.id;
        if let Some(seek) = &mut self.seek
            && self.parent.is_none()
            && (seek.rounds > 0 || seek.is_exhausted())
            && !is_fallen
        {
            let Candidate { id, order } = seek.ask_also(from);
            let claim = seek.claim();
            out.send(id, Message::Attach { claim, order });
        }
    }

    /// A tree that beats this one is offered: the root goes there, and every other node passes the
    /// offer to its parent.
    pub(super) fn on_offer(
        &mut self,
        root: RootKey<I>,
        via: I,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        let is_other = root.id != self.root.id && root.is_possible();
        let yields = is_other && root.beats(&self.root);
        if !self.anchored || self.leaving || !yields {
            return false;
        }
        if let Some(parent) = self.parent {
            out.send(parent, Message::Offer { root, via });
            return false;
        }
        // An offer of a fallen root counts only if that root itself has sent it.
        let is_fallen = around.fallen == Some(root.id) && via != root.id;
        if self.seek.is_none() && via != self.me && !is_fallen {
            let order = SiblingOrder::default();
            let ask = |id| Candidate {
                id,
                order: order.clone(),
            };
            // First ask for the place that this root had before it had to become one.
            let former = self
                .former
                .clone()
                .map(|(id, order)| Candidate { id, order });
            let former = former.filter(|former| !self.has_child(former.id));
            let others = [ask(root.id), ask(via)];
            let candidates = former.into_iter().chain(others);
            self.seek(Claim::Root(self.key), candidates, around, out);
        }
        false
    }
}

fn contacts<I: Id>(contacts: &[I], me: I) -> Vec<Candidate<I>> {
    let others = contacts.iter().copied().filter(|id| *id != me);
    let ask = |id| Candidate {
        id,
        order: SiblingOrder::default(),
    };
    others.map(ask).collect()
}
