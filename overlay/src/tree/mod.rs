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

mod children;
mod parent_search;
mod repair;
mod scramble;
mod upkeep;

use arrayvec::ArrayVec;

pub use crate::message::tree::{
    Ancestor, AttachRefusal, Claim, Lead, MAX_HEIRS, Message, RootKey, SiblingOrder,
};
use parent_search::ParentSearch;

use crate::config::TreeLimits;
use crate::planted::Planted;
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

    /// Tell parent and children that this node leaves, and accept no child any more.
    pub fn leave(&mut self, out: &mut Out<I>) {
        self.leaving = true;
        self.seek = None;
        for peer in self.parent.into_iter().chain(self.children()) {
            out.send(peer, Message::Leave);
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
