//! With the beats parent and child tell each other a digest of what they are to each other, and mend
//! what differs. The size of the subtree, on which the root's key depends, is kept here too.

use std::collections::BTreeSet;

use super::{Lead, Message, SiblingOrder, Surroundings, Tree};
use crate::Id;
use crate::digest::digest_of;
use crate::seam::Out;

impl<I: Id> Tree<I> {
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

    pub(super) fn on_digest(&self, from: I, digest: u64, out: &mut Out<I>) -> bool {
        if self.parent != Some(from) {
            out.send(from, Message::Detach);
        } else if digest != digest_of(&self.lead_as_told()) {
            out.send(from, Message::AskLead);
        }
        false
    }

    /// A child tells the digest of the Lead that it goes by: if it is wrong, send the Lead. A
    /// sender that is not a child is treated as one that sends a Size.
    pub(super) fn on_check(
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

    pub(super) fn on_ask_lead(&self, from: I, out: &mut Out<I>) -> bool {
        if let Some(child) = self.children.iter().find(|child| child.id == from) {
            out.send(from, Message::Lead(self.lead_for(child)));
        }
        false
    }
}
