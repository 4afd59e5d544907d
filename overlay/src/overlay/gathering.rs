//! A node of a fully connected system until it has its place in the tree.
//!
//! ```text
//!   start ──▶ meet the listed peers ──▶ clique ──▶ place: root, or child of its parent
//!                    └── one of them has its place ──▶ child of that one, or of its subtree
//! ```
//!
//! Peers that look for their place say so to each other: they have *met*. Members say that they
//! have their place. The node waits until each listed peer has said one or the other, until no
//! further peer has for [`Gather::quiet`], or until [`Gather::latest`] is over. If more peers have
//! their place than the node has met, it is a latecomer: it becomes a child of one that has its
//! place. So a single liar keeps no node from meeting the others.
//!
//! If the lists of all peers that it has met equal its own, the order of the list decides the
//! places; otherwise the corrected procedure of the clique does. A node that gets no place there
//! asks for one as any node without a parent does: first the node that it asked in the clique, then
//! its contacts. Probing and merging bring all nodes together.
//!
//! Not here: how nodes make the ring ([`clique`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Moved, Out, Overlay, Timer};
use crate::Id;
use crate::clique::{self, Body, Clique, Outcome, Peers, Procedure};
use crate::config::Gather;
use crate::digest::digest_of;
use crate::noise::Noise;

/// The most latecomers that a node remembers. They are told once this node has a place. Further
/// latecomers are not told, and come to the tree by probing.
pub(super) const MAX_LATECOMERS: usize = 1024;
/// The most peers outside its list that a node meets; further ones are ignored until the meeting is
/// over.
pub(super) const MAX_STRANGERS: usize = 1024;
/// How long a node waits for an answer in the clique: others may begin that much later than it
/// does.
const PATIENCE: Duration = Duration::from_secs(3);
/// If the clique gives a node no place, the node remembers this many of the met peers with smaller
/// identifiers than its own, the smallest first, to ask them for a place.
const HEIRS: usize = 8;
/// A ring that is not made within [`Gather::latest`], or within this time if it is longer, is given
/// up. That holds whatever progress is made meanwhile, since a liar could pretend progress for
/// ever.
const LINKING: Duration = Duration::from_secs(10);

/// The gathering of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Gathering<I> {
    gather: Gather<I>,
    digest: u64,
    /// The listed peers that have not answered yet: neither as a peer without a place nor with one.
    unheard: BTreeSet<I>,
    /// The peers that look for their place too, each with the digest of its list.
    met: BTreeMap<I, u64>,
    /// The peers that have their place.
    placed: BTreeSet<I>,
    /// The peers that came after the clique had begun. They are told when this node has its place.
    latecomers: BTreeSet<I>,
    clique: Clique<I>,
    stage: Stage,
}

/// The stage of the gathering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// The node meets peers.
    Meeting,
    /// The nodes make the ring.
    Linking,
    /// This node is in the tree, or looks for a parent there; it still answers peers that look for
    /// their place.
    Over,
}

impl<I: Id> Gathering<I> {
    pub(super) fn new(me: I, gather: Gather<I>, noise: &mut Noise) -> Self {
        Self {
            digest: digest_of(&gather.peers),
            unheard: gather
                .peers
                .iter()
                .copied()
                .filter(|peer| *peer != me)
                .collect(),
            met: BTreeMap::new(),
            placed: BTreeSet::new(),
            latecomers: BTreeSet::new(),
            clique: Clique::new(me, noise.next()),
            stage: Stage::Meeting,
            gather,
        }
    }

    /// The peers that this node needs links to until it is in the tree.
    pub(super) fn links(&self) -> impl Iterator<Item = I> + '_ {
        let is_on = self.stage != Stage::Over;
        let listed = self.gather.peers.iter().copied();
        let all = listed.chain(self.met.keys().copied());
        all.filter(move |_| is_on)
    }

    /// How many peers the gathering remembers, and how many questions wait in the clique.
    pub(super) fn lengths(&self) -> (usize, usize) {
        let peers = self.met.len() + self.placed.len() + self.latecomers.len();
        (peers, self.clique.waiting_count())
    }

    /// Whether one more unlisted peer fits in, besides the listed ones that may still come.
    fn has_room(&self) -> bool {
        let all = self.met.len() + self.placed.len() + self.unheard.len();
        all < self.gather.peers.len() + MAX_STRANGERS
    }

    /// The peers for the clique: the list without the absent peers, then the unlisted peers that
    /// were met.
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
        if gathering.unheard.is_empty() {
            self.end_meeting(moved, out);
        }
    }

    /// During the meeting, tell a peer with a link that this node looks for its place.
    pub(super) fn tell_list(&self, peer: I, out: &mut Out<I>) {
        let is_meeting = |one: &&Gathering<I>| one.stage == Stage::Meeting;
        if let Some(gathering) = self.gathering.as_ref().filter(is_meeting) {
            out.send(peer, clique::Message::listed(gathering.digest));
        }
    }

    /// Handle a message of another node of the fully connected system.
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
                self.on_met(from, Some(digest), moved, out);
            }
            (Some(Stage::Meeting), Body::Closed) => self.on_met(from, None, moved, out),
            (Some(Stage::Linking), Body::Listed { .. }) => {
                let gathering = self.gathering.as_mut();
                let has_room = |one: &&mut Gathering<I>| {
                    one.latecomers.len() < MAX_LATECOMERS && !one.met.contains_key(&from)
                };
                if let Some(gathering) = gathering.filter(has_room) {
                    gathering.latecomers.insert(from);
                }
            }
            // This also holds while the node has no path to a root: until it has one, its tree
            // remembers the peers that ask for a place.
            (Some(Stage::Over), Body::Listed { .. }) => out.send(from, clique::Message::CLOSED),
            (None, Body::Listed { .. } | Body::Exchange { .. }) if self.tree.is_anchored() => {
                out.send(from, clique::Message::CLOSED);
            }
            (Some(_), _) => self.hand(clique::Input::Message { from, message }, moved, out),
            (None, _) => {}
        }
    }

    /// A peer without a place has answered, with the digest of its list. Without a digest the peer
    /// has a place.
    fn on_met(&mut self, from: I, digest: Option<u64>, moved: &mut Moved, out: &mut Out<I>) {
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        let is_known = gathering.met.contains_key(&from) || gathering.placed.contains(&from);
        let is_listed = gathering.unheard.remove(&from);
        if !is_known && !is_listed && !gathering.has_room() {
            return;
        }
        match digest {
            Some(digest) => {
                gathering.placed.remove(&from);
                gathering.met.insert(from, digest);
            }
            None => {
                gathering.met.remove(&from);
                gathering.placed.insert(from);
            }
        }
        let has_heard_all = gathering.unheard.is_empty();
        if !is_known {
            out.arm(Timer::GatherQuiet, gathering.gather.quiet);
            // A listed peer has its link already.
            moved.links |= !is_listed;
        }
        if !is_known && digest.is_some() {
            // This node's first message may have come before that peer listened.
            self.tell_list(from, out);
        }
        if has_heard_all {
            self.end_meeting(moved, out);
        }
    }

    /// The link to a peer is down: during the meeting, forget what the peer has said.
    pub(super) fn unmeet(&mut self, peer: I) {
        let is_meeting = |one: &&mut Gathering<I>| one.stage == Stage::Meeting;
        if let Some(gathering) = self.gathering.as_mut().filter(is_meeting) {
            gathering.met.remove(&peer);
            gathering.placed.remove(&peer);
            if gathering.gather.peers.contains(&peer) {
                gathering.unheard.insert(peer);
            }
        }
    }

    /// For a while no further peer has come, or no progress was made.
    pub(super) fn on_gather_quiet(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        match self.gathering.as_ref().map(|gathering| gathering.stage) {
            Some(Stage::Meeting) => self.end_meeting(moved, out),
            Some(Stage::Linking) => {
                self.await_answers(out);
                self.hand(clique::Input::Silence, moved, out);
            }
            Some(Stage::Over) | None => {}
        }
    }

    /// The time for the present stage is over: for the meeting, the making of the ring, or the
    /// answers to latecomers.
    pub(super) fn on_gather_latest(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        match self.gathering.as_ref().map(|gathering| gathering.stage) {
            Some(Stage::Meeting) => self.end_meeting(moved, out),
            Some(Stage::Linking) => self.hand(clique::Input::GiveUp, moved, out),
            Some(Stage::Over) => self.gathering = None,
            None => {}
        }
    }

    /// Make the ring with the peers that were met. If more peers have their place than were met,
    /// become a child of one that has its place instead.
    fn end_meeting(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        if gathering.placed.len() <= gathering.met.len() {
            return self.begin_clique(moved, out);
        }
        let member = gathering.placed.first().copied();
        let _ = gathering.clique.handle(clique::Input::GiveUp, out);
        self.end_gathering(member, moved, out);
    }

    fn begin_clique(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        let me = self.config.me;
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        gathering.stage = Stage::Linking;
        let (procedure, peers) = (gathering.procedure(), gathering.present(me));
        out.arm(Timer::GatherLatest, gathering.gather.latest.max(LINKING));
        self.await_answers(out);
        let peers = &peers;
        self.hand(clique::Input::Start { procedure, peers }, moved, out);
    }

    /// Hand an input to the clique.
    fn hand(&mut self, input: clique::Input<'_, I>, moved: &mut Moved, out: &mut Out<I>) {
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        let is_linking = gathering.stage == Stage::Linking;
        let outcome = gathering.clique.handle(input, out);
        if is_linking {
            self.on_outcome(outcome, moved, out);
        }
    }

    fn on_outcome(&mut self, outcome: Outcome<I>, moved: &mut Moved, out: &mut Out<I>) {
        match outcome {
            Outcome::Nothing => {}
            Outcome::Progress => self.await_answers(out),
            Outcome::Formed(place) => {
                self.tree.deploy(u32::from(place.slot));
                self.end_gathering(place.parent, moved, out);
            }
            // The node that asked no other becomes the root above all that asked it. If it is dead,
            // the node with the next smallest identifier becomes a root before the others do: it
            // waits for the fewest rounds. The others remember it and ask it.
            Outcome::Failed(asked) => {
                let me = self.config.me;
                let met = self
                    .gathering
                    .iter()
                    .flat_map(|one| one.met.keys().copied());
                let smaller: Vec<I> = met.filter(|peer| *peer < me).collect();
                let before = u32::try_from(smaller.len()).unwrap_or(u32::MAX);
                self.tree.wait_at_most(before.saturating_add(1));
                let heirs = smaller.into_iter().take(HEIRS);
                heirs.for_each(|peer| self.remember(peer));
                self.end_gathering(asked, moved, out);
            }
        }
    }

    fn await_answers(&self, out: &mut Out<I>) {
        if self.gathering.is_some() {
            out.arm(Timer::GatherQuiet, PATIENCE);
        }
    }

    /// Enter the tree, under `parent` or as a root.
    fn end_gathering(&mut self, parent: Option<I>, moved: &mut Moved, out: &mut Out<I>) {
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        gathering.stage = Stage::Over;
        for late in std::mem::take(&mut gathering.latecomers) {
            out.send(late, clique::Message::CLOSED);
        }
        out.disarm(Timer::GatherQuiet);
        out.arm(Timer::GatherLatest, gathering.gather.latest);
        moved.links = true;
        self.start_tree(parent, moved, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::Input;
    use crate::{Config, Effect, Message};

    /// Node 2 of four; the links to the other three are up, and a link to node 9.
    fn linked() -> (Overlay<u32>, Out<u32>) {
        let mut config = Config::new(2, 1, 1);
        config.gather = Some(Gather::new(vec![1, 2, 3, 4]));
        let (mut node, mut out) = (Overlay::new(config), Out::new());
        node.handle(Input::Start, &mut out);
        for peer in [1, 3, 4, 9] {
            node.handle(Input::LinkUp { peer, boot: 1 }, &mut out);
        }
        (node, out)
    }

    fn hand(node: &mut Overlay<u32>, from: u32, message: clique::Message<u32>, out: &mut Out<u32>) {
        let message = message.into();
        node.handle(Input::Message { from, message }, out);
    }

    fn has_sent(out: Out<u32>, is_it: impl Fn(u32, &Message<u32>) -> bool) -> bool {
        let mut effects = out.into_iter();
        effects.any(|effect| matches!(&effect, Effect::Send { to, message } if is_it(*to, message)))
    }

    /// Whether node 2 has asked `next` about the order of a list of `members` members.
    fn has_asked(out: Out<u32>, next: u32, members: u32) -> bool {
        let expected = Body::Ahead {
            distance: 1,
            members,
        };
        has_sent(out, |to, message| {
            to == next && matches!(message, Message::Clique(one) if one.body == expected)
        })
    }

    fn is_attach(message: &Message<u32>) -> bool {
        matches!(message, Message::Tree(crate::tree::Message::Attach { .. }))
    }

    #[test]
    fn one_that_calls_the_ring_closed_keeps_nobody_from_meeting_the_others() {
        let (mut node, mut out) = linked();
        hand(&mut node, 9, clique::Message::CLOSED, &mut out);
        let digest = digest_of(&vec![1_u32, 2, 3, 4]);
        for peer in [1, 3, 4] {
            hand(&mut node, peer, clique::Message::listed(digest), &mut out);
        }
        assert!(has_asked(out, 3, 4));
    }

    #[test]
    fn a_latecomer_asks_one_of_the_many_that_have_their_places() {
        let (mut node, mut out) = linked();
        for peer in [1, 3, 4] {
            hand(&mut node, peer, clique::Message::CLOSED, &mut out);
        }
        assert!(has_sent(out, |to, message| to == 1 && is_attach(message)));
    }

    #[test]
    fn a_peer_that_is_gone_before_the_ring_is_made_is_not_counted_on() {
        let (mut node, mut out) = linked();
        let digest = digest_of(&vec![1_u32, 2, 3, 4]);
        hand(&mut node, 3, clique::Message::listed(digest), &mut out);
        hand(&mut node, 4, clique::Message::listed(digest), &mut out);
        node.handle(Input::LinkDown { peer: 3 }, &mut out);
        let (timer, late) = (Timer::GatherQuiet, Duration::ZERO);
        node.handle(Input::Timer { timer, late }, &mut out);
        assert!(has_asked(out, 4, 2));
    }

    #[test]
    fn gathering_ends_at_its_latest_time_though_a_peer_does_not_answer() {
        let (mut node, mut out) = linked();
        for peer in [1, 3, 4] {
            hand(&mut node, peer, clique::Message::listed(7), &mut out);
        }
        // Lists differ: node 2 has asked node 1, which does not answer.
        let (timer, late) = (Timer::GatherLatest, Duration::ZERO);
        node.handle(Input::Timer { timer, late }, &mut out);
        assert!(has_sent(out, |to, message| to == 1 && is_attach(message)));
    }

    #[test]
    fn strangers_without_end_are_not_all_remembered() {
        let (mut node, mut out) = linked();
        for stranger in 100..100 + MAX_STRANGERS as u32 + 10 {
            hand(&mut node, stranger, clique::Message::listed(7), &mut out);
        }
        // The listed peers are met all the same, and are the last that node 2 waits for.
        for listed in [1, 3, 4] {
            hand(&mut node, listed, clique::Message::listed(7), &mut out);
        }
        for stranger in 0..MAX_LATECOMERS as u32 + 10 {
            let stranger = 1_000_000 + stranger;
            hand(&mut node, stranger, clique::Message::listed(7), &mut out);
        }
        for size in node.sizes() {
            assert!(size.length <= size.bound, "{size:?}");
        }
        let sizes = node.sizes();
        let gathered = sizes.iter().find(|size| size.name == "gathered");
        let most = 4 + MAX_STRANGERS + MAX_LATECOMERS;
        assert_eq!(
            gathered.map(|size| (size.length, size.bound)),
            Some((most, most))
        );
    }
}
