//! Whether this node's overlay is the cluster or an island beside it.
//!
//! The tables of an overlay do not tell the cluster from a few nodes that have never met it. So a
//! root takes its overlay for the cluster only with evidence. It is enough that one member
//!
//! * has been a member of the cluster in this life, as its root told it;
//! * sees more than half of the expected peers ([`Config::expect`]);
//! * has no contacts, so that it is the first;
//! * or may be alone ([`Config::alone`]) and has tried its contacts for [`TRIED`].
//!
//! After a power cut no process remembers the cluster. Then every member must have met one of its
//! own contacts. An island does not pass: the node at which its chain of contacts ends has only
//! dead contacts, whichever node is the root.
//!
//! What speaks for the cluster is a member's *evidence*. The census carries it up to the root, and
//! carries the root's word down. Each node decides for itself whether it is *deserted*: alone,
//! while another member has gone without a goodbye.
//!
//! [`Config::alone`]: crate::Config::alone
//! [`Config::expect`]: crate::Config::expect

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use super::{Out, Overlay};
use crate::Id;
use crate::census::Evidence;
use crate::config::beats;

/// How long a node with [`Config::alone`](crate::Config::alone) tries its contacts. 10 s is a
/// guess: if it is shorter than the restart of a contact, the node takes itself for the cluster too
/// early.
const TRIED: Duration = Duration::from_secs(10);
/// The most former members that a node counts as lost: as many as a roster names. Further ones are
/// not counted.
pub const MAX_LOST_MEMBERS: usize = 4096;

/// Why a node's overlay is not taken for the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Island {
    /// A node of the overlay has met none of its contacts, and no node of the overlay has been a
    /// member of the cluster.
    Unmet,
    /// This node is alone, and another member has gone without a goodbye.
    Deserted,
}

impl fmt::Display for Island {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unmet => "the node is on an island: it has not met the cluster",
            Self::Deserted => "the node is cut off: all other members are lost",
        })
    }
}

/// The knowledge of a node about the cluster besides its tables.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Shore<I> {
    /// For how many beats this node has tried its contacts in vain: since the start, or since the
    /// last message of a contact. 0 once a contact is met or the overlay is the cluster.
    pub(super) vain_beats: u32,
    /// Contacts that are known to be in this overlay and are neither parent nor child.
    pub(super) met: BTreeSet<I>,
    /// Members that went and have not returned, including those that have said goodbye.
    pub(super) lost: BTreeSet<I>,
}

impl<I: Id> Shore<I> {
    /// The knowledge of a node that starts.
    pub(super) const fn new() -> Self {
        Self {
            vain_beats: 0,
            met: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Note that a member went.
    pub(super) fn note_lost(&mut self, peer: I) {
        self.met.remove(&peer);
        if self.lost.len() < MAX_LOST_MEMBERS {
            self.lost.insert(peer);
        }
    }
}

impl<I: Id> Overlay<I> {
    /// Why this node's overlay is not taken for the cluster; none if it is.
    pub fn island(&self) -> Option<Island> {
        let is_alone = self.tree.is_root() && self.tree.children().len() == 0;
        if is_alone && self.lost_members().next().is_some() {
            return Some(Island::Deserted);
        }
        (!self.census.belongs()).then_some(Island::Unmet)
    }

    /// The former members that went without a goodbye and have not returned, as far as this node
    /// knows; at most [`MAX_LOST_MEMBERS`].
    pub fn lost_members(&self) -> impl Iterator<Item = I> + '_ {
        let lost = self.shore.lost.iter().copied();
        lost.filter(|peer| !self.has_left(*peer))
    }

    /// Take a complete roster: `before` were members, and `is_member` tells whether a peer is one
    /// now.
    pub fn note_members(&mut self, before: impl Iterator<Item = I>, is_member: impl Fn(I) -> bool) {
        self.shore.lost.retain(|peer| !is_member(*peer));
        let me = self.config.me;
        for peer in before.filter(|peer| *peer != me && !is_member(*peer)) {
            self.shore.note_lost(peer);
        }
        let expected = &self.config.expect;
        let present = expected
            .iter()
            .filter(|peer| **peer == me || is_member(**peer));
        if present.count() * 2 > expected.len() {
            self.census.find(Evidence::Member);
        }
        self.shore.met = self.own_contacts().filter(|id| is_member(*id)).collect();
    }

    /// Update this node's own evidence. A root also decides what the overlay is and tells its
    /// children.
    pub(super) fn decide_belonging(&mut self, out: &mut Out<I>) {
        self.census
            .find(match (self.may_be_first(), self.has_met()) {
                (true, _) => Evidence::Member,
                (false, true) => Evidence::Met,
                (false, false) => Evidence::Unmet,
            });
        if self.tree.is_root() {
            let belongs = self.census.evidence() != Evidence::Unmet;
            let children: Vec<I> = self.tree.children().collect();
            self.census.set_belongs(belongs, &children, out);
        }
    }

    /// Note that a peer was heard: it is not lost. If it is a contact, the count of vain beats
    /// starts again.
    pub(super) fn note_contact(&mut self, peer: I) {
        self.shore.lost.remove(&peer);
        let is_counting = self.shore.vain_beats > 0;
        if is_counting && self.own_contacts().any(|contact| contact == peer) {
            self.shore.vain_beats = 0;
        }
    }

    /// A peer says that it is in this overlay. Returns whether it is a contact that was not met
    /// before.
    pub(super) fn on_together(&mut self, from: I) -> bool {
        self.lost.retain(|id| *id != from);
        let contacts: Vec<I> = self.own_contacts().collect();
        // A transient fault may have left other peers in the set.
        self.shore.met.retain(|id| contacts.contains(id));
        contacts.contains(&from) && self.shore.met.insert(from)
    }

    /// Count the beats in which this node has tried its contacts without success.
    pub(super) fn count_vain_beats(&mut self) {
        self.shore.vain_beats = match self.seeks_contacts() {
            true => self.shore.vain_beats.saturating_add(1),
            false => 0,
        };
    }

    /// Whether this overlay is not the cluster by the word of its root, and, besides, this node has
    /// met none of its contacts or has no path to a root.
    pub(super) fn seeks_contacts(&self) -> bool {
        !self.census.belongs() && !self.has_met()
    }

    /// Whether the path reaches a root, and a contact is the parent, a child, or known to be in
    /// this overlay.
    fn has_met(&self) -> bool {
        let is_beside = |contact: I| {
            let is_near = self.tree.parent() == Some(contact) || self.tree.has_child(contact);
            let is_far = self.shore.met.contains(&contact) && !self.detector.is_down(contact);
            is_near || is_far
        };
        self.tree.is_anchored() && self.own_contacts().any(is_beside)
    }

    fn may_be_first(&self) -> bool {
        let tried = self.shore.vain_beats > beats(TRIED, self.config.pace.beat);
        self.own_contacts().next().is_none() || self.config.alone && tried
    }

    /// The parent and the seeds that this node was configured with.
    pub(super) fn own_contacts(&self) -> impl Iterator<Item = I> + '_ {
        let configured = self.config.seeds.iter().chain(&self.config.parent);
        configured.copied().filter(|id| *id != self.config.me)
    }
}
