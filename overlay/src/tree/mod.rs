//! The tree: one parent, ordered children, the path to the root.
//!
//! A node is a *root*, a *child*, or an *orphan* that looks for a parent:
//!
//! ```text
//!            parent lost / refused / on a cycle as its smallest id
//!   child ────────────────────────────────────────────────▶ orphan
//!     ▲   ◀────────────────── Lead from an asked candidate ──┘ │
//!     │                                                        │ nobody left to ask
//!     └──── Lead from a tree that beats mine ──── root ◀───────┘
//! ```
//!
//! Parent and child repeat with the beat what they are to each other, so forged or lost state
//! heals. A node answers a Lead with Detach if the sender is neither its parent nor a node that it
//! has asked. It takes a Size or Check of a node that is not its child as an Attach.
//!
//! Not here: which peers are down (`detector`), sizes and ranks (`census`).

mod parent_search;
mod repair;
mod scramble;

use std::collections::BTreeSet;

use arrayvec::ArrayVec;

pub use crate::message::tree::{
    Ancestor, AttachRefusal, Claim, Lead, MAX_HEIRS, Message, RootKey, SiblingOrder,
};
use parent_search::ParentSearch;

use crate::config::TreeLimits;
use crate::digest::digest_of;
use crate::planted::{Bug, Planted};
use crate::ring::Family;
use crate::seam::Out;
use crate::{Id, noise::Noise};

/// How many askers an orphan remembers until it is anchored. Further ones ask again by themselves.
const MAX_WAITING: usize = 64;

/// The tree layer of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tree<I> {
    me: I,
    limits: TreeLimits,
    /// The place that this node asks for among the children of `deployed`.
    slot: SiblingOrder,
    /// The parent that this node starts with: configured, or found by a gathering or survey.
    deployed: Option<I>,
    parent: Option<I>,
    order: SiblingOrder,
    /// The parent that was lost last, and this node's place there.
    former: Option<(I, SiblingOrder)>,
    /// The parent that has restarted, during the first round of asking.
    restarted: Option<I>,
    anchored: bool,
    path: Vec<Ancestor<I>>,
    /// This node's own key, for the case that it is a root.
    key: RootKey<I>,
    root: RootKey<I>,
    heirs: ArrayVec<I, MAX_HEIRS>,
    children: Vec<Child<I>>,
    seek: Option<ParentSearch<I>>,
    /// Orphans that asked for a place before this node was anchored.
    waiting: Vec<(I, SiblingOrder)>,
    established: bool,
    leaving: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Child<I> {
    id: I,
    order: SiblingOrder,
}

/// The data of other layers that a tree needs to handle an input.
pub struct Surroundings<'a, I> {
    /// The size of a child's subtree, as far as it is known.
    pub size_of: &'a dyn Fn(I) -> u32,
    /// Peers to ask for a place after parent, ancestors and heirs, the nearest first.
    pub contacts: &'a [I],
    /// Whether a peer is taken for down.
    pub is_down: &'a dyn Fn(I) -> bool,
    /// The root that was lately found gone. Nodes that have not noticed yet still name it as the
    /// root of their tree.
    pub fallen: Option<I>,
    /// The source of jitter.
    pub noise: &'a mut Noise,
    /// The bug, if any, that the node runs with.
    pub planted: Planted,
}

impl<I: Id> Tree<I> {
    /// The tree of a node that is alone.
    pub fn new(me: I, limits: TreeLimits, priority: u32, slot: Option<u32>) -> Self {
        let key = RootKey {
            weight: 0,
            priority,
            id: me,
        };
        Self {
            me,
            limits,
            slot: slot.map(SiblingOrder::deployed).unwrap_or_default(),
            deployed: None,
            parent: None,
            order: SiblingOrder::default(),
            former: None,
            restarted: None,
            anchored: true,
            path: Vec::new(),
            key,
            root: key,
            heirs: ArrayVec::new(),
            children: Vec::new(),
            seek: None,
            waiting: Vec::new(),
            established: false,
            leaving: false,
        }
    }

    /// Stay without a place, and only remember askers, until [`Tree::start`] has led to one.
    pub const fn hold(&mut self) {
        self.anchored = false;
    }

    /// Set the slot to ask for under the parent that this node starts with.
    pub fn deploy(&mut self, slot: u32) {
        self.slot = SiblingOrder::deployed(slot);
    }

    /// Become a root after this number of unsuccessful rounds at the start, unless that happens
    /// sooner.
    pub fn wait_at_most(&mut self, rounds: u32) {
        self.limits.starting_rounds = self.limits.starting_rounds.min(rounds);
    }

    /// The parent of this node.
    pub const fn parent(&self) -> Option<I> {
        self.parent
    }

    /// The children, in order.
    pub fn children(&self) -> impl ExactSizeIterator<Item = I> + '_ {
        self.children.iter().map(|child| child.id)
    }

    /// Whether `id` is a child.
    pub fn has_child(&self, id: I) -> bool {
        self.children.iter().any(|child| child.id == id)
    }

    /// Whether the path reaches a root.
    pub const fn is_anchored(&self) -> bool {
        self.anchored
    }

    /// Whether this node is the root of its tree.
    pub const fn is_root(&self) -> bool {
        self.parent.is_none() && self.anchored
    }

    /// How many ancestors this node has.
    pub fn depth(&self) -> usize {
        self.path.len()
    }

    /// The ancestors, root first.
    pub fn ancestors(&self) -> impl DoubleEndedIterator<Item = I> + '_ {
        self.path.iter().map(|step| step.id)
    }

    /// The key of the tree's root, as last told.
    pub const fn root(&self) -> RootKey<I> {
        self.root
    }

    /// Handle a message of this layer. Returns whether parent or children
    /// changed.
    pub fn on_message(
        &mut self,
        from: I,
        message: Message<I>,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        match message {
            Message::Attach { claim, order } => self.on_attach(from, claim, order, around, out),
            Message::Lead(lead) => self.on_lead(from, lead, around, out),
            Message::Digest(digest) => self.on_digest(from, digest, out),
            Message::Check(digest) => self.on_check(from, digest, around, out),
            Message::AskLead => self.on_ask_lead(from, out),
            Message::Redirect(to) => self.on_redirect(from, to, around, out),
            Message::Refuse(_) => self.on_refuse(from, around, out),
            Message::Detach => self.on_detach(from, out),
            Message::Leave => self.on_gone(from, around, out),
            Message::Probe(key) => self.on_probe(from, key, around, out),
            Message::Together => false,
            Message::Offer { root, via } => self.on_offer(root, via, around, out),
        }
    }

    /// A Size or a Check came. Returns whether the children changed. From a node that is not a
    /// child either counts as an Attach, which repairs a list of children that has lost the sender.
    pub fn on_report(
        &mut self,
        from: I,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        if self.has_child(from) {
            return false;
        }
        if !self.anchored {
            // The sender must not be kept waiting: it might stay on a cycle that no node can see,
            // as no Lead travels to a node that is in no list of children.
            out.send(from, Message::Refuse(AttachRefusal::Unanchored));
            return false;
        }
        self.on_attach(from, Claim::Orphan, SiblingOrder::default(), around, out)
    }

    /// With the beat: repair contradictions, continue a search that has stalled, and, with
    /// `to_children`, send each child the digest of its Lead. Returns whether parent or children
    /// changed.
    pub fn beat(
        &mut self,
        beats_to_stall: u32,
        to_children: bool,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        let changed = self.mend(out) | self.restart_stalled_seek(beats_to_stall, around, out);
        for child in self.children.iter().filter(|_| to_children) {
            out.send(child.id, Message::Digest(digest_of(&self.lead_for(child))));
        }
        changed
    }

    /// Send `child` the digest of its Lead; nothing if it is no child.
    pub fn tell_digest(&self, child: I, out: &mut Out<I>) {
        if let Some(child) = self.children.iter().find(|known| known.id == child) {
            out.send(child.id, Message::Digest(digest_of(&self.lead_for(child))));
        }
    }

    /// Tell the parent the digest of the Lead that this node goes by.
    pub fn check(&self, parent: I, out: &mut Out<I>) {
        out.send(parent, Message::Check(digest_of(&self.lead_as_told())));
    }

    /// Repair states that no message would ever correct, as a transient fault may leave them.
    fn mend(&mut self, out: &mut Out<I>) -> bool {
        let before = (self.parent, self.children.len());
        self.parent = self.parent.filter(|id| *id != self.me);
        if self.parent.is_some() {
            self.end_seek(out);
        }
        let (me, parent) = (self.me, self.parent);
        self.children
            .retain(|child| child.id != me && Some(child.id) != parent);
        self.children
            .sort_by(|a, b| (&a.order, a.id).cmp(&(&b.order, b.id)));
        let mut seen = BTreeSet::new();
        self.children.retain(|child| seen.insert(child.id));
        self.key.id = self.me;
        if self.is_root() {
            self.path.clear();
            self.order = SiblingOrder::default();
            self.root = self.key;
            self.announce_heirs(out);
        }
        before != (self.parent, self.children.len())
    }

    /// Take the size of this node's subtree. If the node is a root, ⌊log2⌋ of that size is the
    /// weight of its tree.
    pub fn set_size(&mut self, size: u32, out: &mut Out<I>) {
        let weight = size.max(1).ilog2() as u8;
        if self.key.weight != weight {
            self.key.weight = weight;
            if self.is_root() {
                self.root = self.key;
                self.tell_children(out);
            }
        }
    }

    /// Tell parent and children that this node leaves, and accept no child any more.
    pub fn leave(&mut self, out: &mut Out<I>) {
        self.leaving = true;
        self.seek = None;
        for peer in self.parent.into_iter().chain(self.children()) {
            out.send(peer, Message::Leave);
        }
    }

    fn on_attach(
        &mut self,
        from: I,
        claim: Claim<I>,
        order: SiblingOrder,
        around: &Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        let refuse = |reason, out: &mut Out<I>| {
            out.send(from, Message::Refuse(reason));
            false
        };
        if from == self.me {
            return false;
        }
        if self.leaving {
            return refuse(AttachRefusal::Leaving, out);
        }
        if self.parent == Some(from) || self.ancestors().any(|id| id == from) {
            return refuse(AttachRefusal::Descendant, out);
        }
        if !self.anchored && !around.planted.has(Bug::OrphansAcceptChildren) {
            self.remember(from, claim, order);
            return false;
        }
        if matches!(claim, Claim::Root(key) if !key.is_possible() || !self.root.beats(&key)) {
            return refuse(AttachRefusal::Precedence, out);
        }
        if self.path.len() + 1 >= usize::from(self.limits.max_depth) {
            return refuse(AttachRefusal::Depth, out);
        }
        if let Some(at) = self.children.iter().position(|child| child.id == from) {
            let child = &self.children[at];
            if order.is_unset() || child.order == order {
                out.send(from, Message::Lead(self.lead_for(child)));
                return false;
            }
            // The child asks for another place among its siblings: it has learned which one suits
            // its rank.
            self.children.remove(at);
            self.adopt(from, order, out);
            return true;
        }
        if self.children.len() >= usize::from(self.limits.max_children) {
            let smallest = self.children().min_by_key(|id| (around.size_of)(*id));
            smallest
                .into_iter()
                .for_each(|to| out.send(from, Message::Redirect(to)));
            return false;
        }
        self.adopt(from, order, out);
        true
    }

    fn remember(&mut self, from: I, claim: Claim<I>, order: SiblingOrder) {
        let known = self.waiting.iter().any(|(id, _)| *id == from);
        if matches!(claim, Claim::Orphan) && !known && self.waiting.len() < MAX_WAITING {
            self.waiting.push((from, order));
        }
    }

    fn adopt(&mut self, from: I, claimed: SiblingOrder, out: &mut Out<I>) {
        let order = if claimed.is_unset() {
            SiblingOrder::after(self.children.iter().map(|child| &child.order))
        } else {
            claimed
        };
        let child = Child { id: from, order };
        out.send(from, Message::Lead(self.lead_for(&child)));
        self.children.push(child);
        self.children
            .sort_by(|a, b| (&a.order, a.id).cmp(&(&b.order, b.id)));
        self.announce_heirs(out);
    }

    /// If this node is a root, announce its heirs, the first children, when they have changed.
    fn announce_heirs(&mut self, out: &mut Out<I>) {
        if !self.is_root() {
            return;
        }
        let heirs: ArrayVec<I, MAX_HEIRS> = self.children().take(MAX_HEIRS).collect();
        if heirs != self.heirs {
            self.heirs = heirs;
            self.tell_children(out);
        }
    }

    fn lead_for(&self, child: &Child<I>) -> Lead<I> {
        let mut path = self.path.clone();
        path.push(Ancestor {
            id: self.me,
            order: self.order.clone(),
        });
        Lead {
            path,
            order: child.order.clone(),
            root: self.root,
            heirs: self.heirs.clone(),
            anchored: self.anchored,
        }
    }

    fn tell_children(&self, out: &mut Out<I>) {
        for child in &self.children {
            out.send(child.id, Message::Lead(self.lead_for(child)));
        }
    }

    fn on_lead(
        &mut self,
        from: I,
        lead: Lead<I>,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        if self.parent == Some(from) {
            return self.follow_lead(lead, around, out);
        }
        let asked = self.seek.as_ref().is_some_and(|seek| seek.has_asked(from));
        let below_me = lead.path.iter().any(|step| step.id == self.me);
        // A Lead that still names a fallen root is of no use, with two exceptions. An heir of that
        // root becomes root itself as soon as it notices. A root that is back may name itself.
        let is_fallen = around.fallen == Some(lead.root.id)
            && lead.root.id != from
            && !self.heirs.contains(&from);
        // A better place must be in this tree; only roots merge trees.
        let is_other = self.parent.is_some() && lead.root.id != self.root.id;
        // A parent that has restarted as a root of its own has no tree yet.
        let is_new = self.restarted == Some(from) && lead.root.id == from;
        let is_rooted = lead.root.is_possible() && !is_fallen && !is_other && !is_new;
        let is_usable = lead.anchored && !below_me && is_rooted;
        if !asked || !is_usable || self.leaving {
            out.send(from, Message::Detach);
            return false;
        }
        self.end_seek(out);
        self.restarted = None;
        // A better place was found. The former parent must not count this node as well.
        if let Some(left) = self.parent.replace(from) {
            out.send(left, Message::Detach);
        }
        self.established = true;
        self.children.retain(|child| child.id != from);
        self.follow_lead(lead, around, out);
        true
    }

    /// Take over the place in the tree that the parent tells: this node's path from the root, its
    /// order, root and heirs. If this node is on that path, the parents form a cycle. Then the node
    /// with the smallest id leaves its parent; the others stay, and are not anchored. A node whose
    /// path is too long leaves its parent, too.
    fn follow_lead(
        &mut self,
        lead: Lead<I>,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        let Lead {
            mut path,
            order,
            root,
            heirs,
            mut anchored,
        } = lead;
        if let Some(mine) = path.iter().rposition(|step| step.id == self.me) {
            let cycle = &path[mine..];
            if cycle.iter().all(|step| self.me <= step.id) {
                return self.orphan(None, around, out);
            }
            path.drain(..=mine);
            path.truncate(usize::from(self.limits.max_depth));
            anchored = false;
        } else if path.len() >= usize::from(self.limits.max_depth) {
            return self.orphan(None, around, out);
        }
        let changed = self.path != path
            || self.order != order
            || self.root != root
            || self.heirs != heirs
            || self.anchored != anchored;
        if changed {
            (self.path, self.order, self.root, self.heirs) = (path, order, root, heirs);
            self.anchored = anchored;
            self.tell_children(out);
        }
        anchored && self.admit_waiting(around, out)
    }

    fn admit_waiting(&mut self, around: &Surroundings<'_, I>, out: &mut Out<I>) -> bool {
        let mut changed = false;
        for (id, order) in std::mem::take(&mut self.waiting) {
            changed |= self.on_attach(id, Claim::Orphan, order, around, out);
        }
        changed
    }

    fn on_digest(&self, from: I, digest: u64, out: &mut Out<I>) -> bool {
        if self.parent != Some(from) {
            out.send(from, Message::Detach);
        } else if digest != digest_of(&self.lead_as_told()) {
            out.send(from, Message::AskLead);
        }
        false
    }

    /// A child tells the digest of the Lead that it goes by: if it is wrong, send the Lead. A
    /// sender that is not a child is treated as one that sends a Size.
    fn on_check(
        &mut self,
        from: I,
        digest: u64,
        around: &mut Surroundings<'_, I>,
        out: &mut Out<I>,
    ) -> bool {
        match self.children.iter().find(|child| child.id == from) {
            Some(child) => {
                let lead = self.lead_for(child);
                if digest != digest_of(&lead) {
                    out.send(from, Message::Lead(lead));
                }
                false
            }
            None => self.on_report(from, around, out),
        }
    }

    /// The Lead that the parent must have sent if this node's state is right.
    fn lead_as_told(&self) -> Lead<I> {
        Lead {
            path: self.path.clone(),
            order: self.order.clone(),
            root: self.root,
            heirs: self.heirs.clone(),
            anchored: self.anchored,
        }
    }

    fn on_ask_lead(&self, from: I, out: &mut Out<I>) -> bool {
        if let Some(child) = self.children.iter().find(|child| child.id == from) {
            out.send(from, Message::Lead(self.lead_for(child)));
        }
        false
    }

    fn on_detach(&mut self, from: I, out: &mut Out<I>) -> bool {
        self.waiting.retain(|(id, _)| *id != from);
        let before = self.children.len();
        self.children.retain(|child| child.id != from);
        self.announce_heirs(out);
        self.children.len() != before
    }
}

impl<I: Id> Family<I> for Tree<I> {
    fn me(&self) -> I {
        self.me
    }

    fn parent(&self) -> Option<I> {
        self.parent
    }

    fn first_child(&self) -> Option<I> {
        self.children.first().map(|child| child.id)
    }

    fn next_sibling_of(&self, child: I) -> Option<Option<I>> {
        let place = self.children.iter().position(|c| c.id == child)?;
        Some(self.children.get(place + 1).map(|c| c.id))
    }
}
