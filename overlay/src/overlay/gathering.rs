//! A node of a fully connected system until it has its place in the tree.
//!
//! ```text
//!   start ──▶ meet the listed peers ──▶ clique ──▶ place: root, or child of its parent
//!                    └── one of them has its place ──▶ child of that one, or of its subtree
//! ```
//!
//! A node meets a peer when the peer says that it looks for its place too. It waits until it
//! has met all that it lists, until no further one has come for [`Gather::quiet`], or until
//! [`Gather::latest`] is over. If all lists that it has heard of are the same, the order of
//! the list decides; otherwise the corrected procedure does. Without a place it asks those
//! it has met, as any orphan does, and probing and merging bring everybody together.
//!
//! Not here: how the ring is made ([`clique`]).

use std::collections::{BTreeMap, BTreeSet};

use super::{Moved, Out, Overlay, Timer};
use crate::Id;
use crate::clique::{self, Body, Clique, Outcome, Peers, Procedure};
use crate::config::Gather;
use crate::digest::digest_of;
use crate::noise::Noise;

/// How many latecomers a node tells that it has its place; the others ask again by themselves.
pub(super) const MAX_LATE: usize = 1024;
/// How many times [`Gather::quiet`] a node waits for an answer: others may begin that much
/// later than it does.
const PATIENCE: u32 = 3;

/// The gathering of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Gathering<I> {
    gather: Gather<I>,
    digest: u64,
    /// Who looks for its place too, with the digest of its list.
    met: BTreeMap<I, u64>,
    /// Who came when the clique had begun; told once this node has its place.
    late: BTreeSet<I>,
    clique: Clique<I>,
    stage: Stage,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// Peers are met.
    Meeting,
    /// The ring is made.
    Linking,
    /// This node is in the tree; it still answers those that are not.
    Over,
}

impl<I: Id> Gathering<I> {
    pub(super) fn new(me: I, gather: Gather<I>, noise: &mut Noise) -> Self {
        Self {
            digest: digest_of(&gather.peers),
            met: BTreeMap::new(),
            late: BTreeSet::new(),
            clique: Clique::new(me, noise.next()),
            stage: Stage::Meeting,
            gather,
        }
    }

    /// The peers that this node needs links to meanwhile.
    pub(super) fn links(&self) -> impl Iterator<Item = I> + '_ {
        let is_on = self.stage != Stage::Over;
        let listed = self.gather.peers.iter().copied();
        let all = listed.chain(self.met.keys().copied());
        all.filter(move |_| is_on)
    }

    /// How many peers it remembers, and how many questions wait.
    pub(super) fn lengths(&self) -> (usize, usize) {
        let peers = self.met.len() + self.late.len();
        (peers, self.clique.waiting_count())
    }

    fn has_met_all(&self, me: I) -> bool {
        let mut others = self.gather.peers.iter().filter(|peer| **peer != me);
        others.all(|peer| self.met.contains_key(peer))
    }

    /// The list, without those that were not met, and with those that it lacks at its end.
    fn present(&self, me: I) -> Peers<I> {
        let listed = self.gather.peers.iter().copied();
        let is_here = |peer: &I| *peer == me || self.met.contains_key(peer);
        Peers::new(me, listed.filter(is_here).chain(self.met.keys().copied()))
    }

    fn procedure(&self) -> Procedure {
        match self.met.values().all(|digest| *digest == self.digest) {
            true => Procedure::Sorted,
            false => Procedure::Corrected,
        }
    }
}

impl<I: Id> Overlay<I> {
    /// Begin to meet the listed peers.
    pub(super) fn start_gathering(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        let Some(gathering) = &self.gathering else {
            return;
        };
        self.tree.hold();
        out.arm(Timer::GatherLatest, gathering.gather.latest);
        moved.links = true;
        if gathering.has_met_all(self.config.me) {
            self.begin_clique(moved, out);
        }
    }

    /// A link is up: say what this node looks for.
    pub(super) fn tell_list(&self, peer: I, out: &mut Out<I>) {
        let is_meeting = |one: &&Gathering<I>| one.stage == Stage::Meeting;
        if let Some(gathering) = self.gathering.as_ref().filter(is_meeting) {
            out.send(peer, clique::Message::listed(gathering.digest));
        }
    }

    /// A message of the clique.
    pub(super) fn on_clique(
        &mut self,
        from: I,
        message: clique::Message<I>,
        moved: &mut Moved,
        out: &mut Out<I>,
    ) {
        let stage = self.gathering.as_ref().map(|gathering| gathering.stage);
        match (stage, message.body) {
            (Some(Stage::Meeting), Body::Listed { digest }) => {
                self.on_met(from, digest, moved, out);
            }
            (Some(Stage::Linking), Body::Listed { .. }) => {
                if let Some(one) = self
                    .gathering
                    .as_mut()
                    .filter(|one| one.late.len() < MAX_LATE)
                {
                    one.late.insert(from);
                }
            }
            (Some(Stage::Meeting), Body::Closed) => self.end_gathering(Some(from), moved, out),
            (None | Some(Stage::Over), Body::Listed { .. }) | (None, Body::Exchange { .. }) => {
                if self.tree.is_anchored() {
                    out.send(from, clique::Message::CLOSED);
                }
            }
            (Some(_), _) => self.hand(clique::Input::Message { from, message }, moved, out),
            (None, _) => {}
        }
    }

    /// A peer looks for its place too.
    fn on_met(&mut self, from: I, digest: u64, moved: &mut Moved, out: &mut Out<I>) {
        let me = self.config.me;
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        if gathering.met.len() >= Peers::<I>::MAX {
            return;
        }
        let is_new = gathering.met.insert(from, digest).is_none();
        let has_met_all = gathering.has_met_all(me);
        if is_new {
            out.arm(Timer::GatherQuiet, gathering.gather.quiet);
            moved.links = true;
            // The first word of this node may have come before that one listened.
            self.tell_list(from, out);
        }
        if has_met_all {
            self.begin_clique(moved, out);
        }
    }

    /// Nobody further has come, or nothing that helps.
    pub(super) fn on_gather_quiet(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        match self.gathering.as_ref().map(|gathering| gathering.stage) {
            Some(Stage::Meeting) => self.begin_clique(moved, out),
            Some(Stage::Linking) => {
                self.await_answers(out);
                self.hand(clique::Input::Silence, moved, out);
            }
            Some(Stage::Over) | None => {}
        }
    }

    /// The time for meeting, or for answering latecomers, is over.
    pub(super) fn on_gather_latest(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        match self.gathering.as_ref().map(|gathering| gathering.stage) {
            Some(Stage::Meeting) => self.begin_clique(moved, out),
            Some(Stage::Over) => self.gathering = None,
            Some(Stage::Linking) | None => {}
        }
    }

    fn begin_clique(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        let me = self.config.me;
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        gathering.stage = Stage::Linking;
        let (procedure, peers) = (gathering.procedure(), gathering.present(me));
        out.disarm(Timer::GatherLatest);
        self.await_answers(out);
        let peers = &peers;
        self.hand(clique::Input::Start { procedure, peers }, moved, out);
    }

    /// Hand an input to the clique.
    fn hand(&mut self, input: clique::Input<'_, I>, moved: &mut Moved, out: &mut Out<I>) {
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        let outcome = gathering.clique.handle(input, out);
        if gathering.stage != Stage::Linking {
            return;
        }
        match outcome {
            Outcome::Nothing => {}
            Outcome::Progress => self.await_answers(out),
            Outcome::Formed(place) => {
                self.tree.deploy(u32::from(place.slot));
                self.end_gathering(place.parent, moved, out);
            }
            Outcome::Failed(contact) => {
                let smallest = gathering.met.keys().next().copied();
                let smallest = smallest.filter(|peer| *peer < self.config.me);
                self.end_gathering(contact.or(smallest), moved, out);
            }
        }
    }

    fn await_answers(&self, out: &mut Out<I>) {
        if let Some(gathering) = &self.gathering {
            out.arm(Timer::GatherQuiet, gathering.gather.quiet * PATIENCE);
        }
    }

    /// Go into the tree, under `parent` or as a root.
    fn end_gathering(&mut self, parent: Option<I>, moved: &mut Moved, out: &mut Out<I>) {
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        gathering.stage = Stage::Over;
        for late in std::mem::take(&mut gathering.late) {
            out.send(late, clique::Message::CLOSED);
        }
        out.disarm(Timer::GatherQuiet);
        out.arm(Timer::GatherLatest, gathering.gather.latest);
        moved.links = true;
        self.start_tree(parent, moved, out);
    }
}
