//! The children: their admission, their places, and their Leads.

use arrayvec::ArrayVec;

use super::{
    Ancestor, AttachRefusal, Child, Claim, Lead, MAX_HEIRS, MAX_WAITING, Message, SiblingOrder,
    Surroundings, Tree,
};
use crate::Id;
use crate::planted::Bug;
use crate::seam::Out;

impl<I: Id> Tree<I> {
    /// A Size or a Check came. Returns whether the children changed. If the sender is not a child,
    /// the message counts as an Attach: the list of children may have lost the sender.
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

    pub(super) fn on_attach(
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
    pub(super) fn announce_heirs(&mut self, out: &mut Out<I>) {
        if !self.is_root() {
            return;
        }
        let heirs: ArrayVec<I, MAX_HEIRS> = self.children().take(MAX_HEIRS).collect();
        if heirs != self.heirs {
            self.heirs = heirs;
            self.tell_children(out);
        }
    }

    pub(super) fn lead_for(&self, child: &Child<I>) -> Lead<I> {
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

    pub(super) fn tell_children(&self, out: &mut Out<I>) {
        for child in &self.children {
            out.send(child.id, Message::Lead(self.lead_for(child)));
        }
    }

    pub(super) fn admit_waiting(&mut self, around: &Surroundings<'_, I>, out: &mut Out<I>) -> bool {
        let mut changed = false;
        for (id, order) in std::mem::take(&mut self.waiting) {
            changed |= self.on_attach(id, Claim::Orphan, order, around, out);
        }
        changed
    }

    pub(super) fn on_detach(&mut self, from: I, out: &mut Out<I>) -> bool {
        self.waiting.retain(|(id, _)| *id != from);
        let before = self.children.len();
        self.children.retain(|child| child.id != from);
        self.announce_heirs(out);
        self.children.len() != before
    }
}
