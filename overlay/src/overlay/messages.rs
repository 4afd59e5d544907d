//! Messages of other nodes: each goes to its layer.

use super::{Moved, Overlay, PlacedFingers};
use crate::census::InForce;
use crate::detector::{self, Links};
use crate::placement::MAX_LEVELS;
use crate::planted::Bug;
use crate::seam::Out;
use crate::stamp::Mark;
use crate::{Id, Message, census, fingers, ring, tree};

impl<I: Id> Overlay<I> {
    pub(super) fn on_message(
        &mut self,
        from: I,
        message: Message<I>,
        moved: &mut Moved,
        out: &mut Out<I>,
    ) {
        // Messages that were sent before the goodbye may arrive for a few beats after it.
        // Later ones count as contact.
        if self.detector.is_late(from) {
            return;
        }
        self.on_heard(from, out);
        self.take(from, message, moved, out);
    }

    /// Take a message, received directly or carried.
    pub(super) fn take(
        &mut self,
        from: I,
        message: Message<I>,
        moved: &mut Moved,
        out: &mut Out<I>,
    ) {
        match message {
            Message::Relayed(message) => self.on_relayed(from, message, moved, out),
            Message::Tree(tree::Message::Together) => moved.count |= self.on_together(from),
            Message::Tree(tree::Message::Leave) => self.on_leave(from, moved, out),
            Message::Tree(message) => {
                let is_lead = matches!(message, tree::Message::Lead(_));
                moved.lead |= is_lead && self.tree.parent() == Some(from);
                moved.family |= self.with_tree(out, |tree, around, out| {
                    tree.on_message(from, message, around, out)
                });
            }
            Message::Clique(message) => self.on_clique(from, message, moved, out),
            Message::Spanning(message) => self.on_spanning(from, message, moved, out),
            Message::Ring(message) => self.on_ring(from, message, moved, out),
            Message::Census(message) => self.on_census(from, message, moved, out),
            Message::Fingers(message) => self.on_fingers(from, message, moved, out),
            Message::Detector(detector::Message::Beat { mark, reply }) => {
                self.on_mark(from, mark, moved);
                if reply {
                    let (mark, reply) = (self.mark(), false);
                    out.send(from, detector::Message::Beat { mark, reply });
                }
            }
            Message::Detector(message) => {
                self.note_voucher(from, &message);
                let links = Links {
                    boots: &self.boots,
                    claimed: &self.claimed,
                };
                let verdicts = self.detector.on_message(from, message, &links, out);
                self.on_verdicts(verdicts, moved, out);
            }
        }
    }

    fn on_ring(&mut self, from: I, message: ring::Message<I>, moved: &mut Moved, out: &mut Out<I>) {
        if let ring::Message::Info(leaf) = message
            && self.tree.has_child(from)
        {
            self.infos.insert(from, leaf);
        }
        let planted = self.config.planted;
        let changed = self
            .ring
            .on_message(from, message, &self.tree, planted, out);
        moved.ring |= changed.0;
    }

    fn on_census(
        &mut self,
        from: I,
        message: census::Message<I>,
        moved: &mut Moved,
        out: &mut Out<I>,
    ) {
        match message {
            census::Message::Size {
                version,
                size,
                standing,
                returning,
                evidence,
            } => {
                moved.family |=
                    self.with_tree(out, |tree, around, out| tree.on_report(from, around, out));
                if self.tree.has_child(from) {
                    let census = &mut self.census;
                    if census.on_size(from, version, size, standing, returning, evidence) {
                        census.beat(&[from], out);
                    }
                    moved.count = true;
                }
            }
            census::Message::Place {
                placement,
                version,
                belongs,
            } => {
                let planted = self.config.planted;
                let mine = self.placement().map(|mine| mine.epoch.counter);
                let is_larger = mine.is_some_and(|mine| mine < placement.epoch.counter);
                let is_taken = is_larger && planted.has(Bug::LargerEpoch);
                if self.tree.parent() == Some(from) || is_taken {
                    self.parentless_beats = 0;
                    let version = match planted.has(Bug::UnfrozenOffsets) || is_taken {
                        true => self.census.version(),
                        false => version,
                    };
                    let children: Vec<I> = self.tree.children().collect();
                    let census = &mut self.census;
                    moved.place |= census.on_place(placement, version, belongs, &children, out);
                }
            }
            census::Message::InForce {
                epoch,
                population,
                belongs,
            } => {
                if self.tree.parent() == Some(from) {
                    self.parentless_beats = 0;
                    let in_force = InForce {
                        epoch,
                        population,
                        belongs,
                    };
                    let children: Vec<I> = self.tree.children().collect();
                    self.census.on_in_force(in_force, &children, out);
                }
            }
        }
    }

    pub(super) fn on_fingers(
        &mut self,
        from: I,
        message: fingers::Message<I, Mark<I>>,
        moved: &mut Moved,
        out: &mut Out<I>,
    ) {
        let epoch = message.mark().epoch;
        let rules = self.rules();
        let is_of = |fingers: &PlacedFingers<I>| fingers.stamp().epoch == epoch;
        if let Some(current) = self.current.as_mut().filter(|f| is_of(f)) {
            moved.fingers |= current.on_message(from, message, rules, out).0;
        } else if let Some(previous) = self.previous.as_mut().filter(|f| is_of(f)) {
            let _ = previous.on_message(from, message, rules, out);
        } else if usize::from(message.level()) < MAX_LEVELS {
            let slot = Message::Fingers(message).slot();
            self.early.insert((slot.kind, slot.level), (from, message));
        }
    }

    fn on_mark(&mut self, from: I, mark: Option<Mark<I>>, moved: &mut Moved) {
        let ring = &self.ring;
        let is_neighbour = ring.successor == Some(from) || ring.predecessor == Some(from);
        if let Some(mark) = mark.filter(|_| is_neighbour) {
            moved.marks |= self.marks.insert(from, mark) != Some(mark);
        }
    }
}
