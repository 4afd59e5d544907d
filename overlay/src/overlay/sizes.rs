//! The lengths of an overlay's lists, for a test that checks their bounds.

use super::acquaintances::MAX_ACQUAINTANCES;
use super::gathering::{Gathering, MAX_LATECOMERS, MAX_STRANGERS};
use super::island::MAX_LOST_MEMBERS;
use super::survey::Survey;
use super::{MAX_BOOTS, Overlay};
use crate::Id;
use crate::clique::Peers;
use crate::detector::MAX_GOODBYES;
use crate::placement::MAX_LEVELS;
use crate::spanning;

/// The slots of finger messages per level, for both ways around the ring.
const FINGER_KINDS: usize = 8;
/// The most links for fingers and ring: two tables of fingers in each of two epochs, and two ring
/// neighbours.
const FINGERS_AND_RING: usize = 4 * MAX_LEVELS + 2;

/// A list of an overlay, its length and its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The name of the list.
    pub name: &'static str,
    /// The length of the list.
    pub length: usize,
    /// The greatest length that the list may have.
    pub bound: usize,
}

impl<I: Id> Overlay<I> {
    /// The lengths of lists of this overlay, and their bounds.
    pub fn sizes(&self) -> [Size; 20] {
        let size = |name, length, bound| Size {
            name,
            length,
            bound,
        };
        let limits = &self.config.limits;
        let children = usize::from(limits.max_children);
        let known = &self.acquaintances;
        let gathering = self.gathering.as_ref();
        let (gathered, questions) = gathering.map_or((0, 0), Gathering::lengths);
        let gather = self.config.gather.as_ref();
        let listed = gather.map_or(0, |gather| gather.peers.len());
        let survey = self.config.survey.as_ref();
        let neighbours = self.survey.as_ref().map_or(0, Survey::length);
        let roots = self.survey.as_ref().map_or(0, Survey::roots);
        let told = self.survey.as_ref().map_or(0, Survey::claims_spent);
        let neighbours_max =
            survey.map_or(0, |survey| survey.peers.len()) + spanning::MAX_STRANGERS;
        let links = FINGERS_AND_RING + children + 1 + gathered + neighbours;
        [
            size("children", self.tree.children().len(), children),
            size("path", self.tree.depth(), limits.max_depth.into()),
            size("infos", self.infos.len(), children),
            size("marks", self.marks.len(), 2),
            size("early", self.early.len(), FINGER_KINDS * MAX_LEVELS),
            size("lost", self.lost.len(), super::rounds::MAX_LOST),
            size("lost members", self.shore.lost.len(), MAX_LOST_MEMBERS),
            size("met", self.shore.met.len(), self.config.seeds.len() + 1),
            size("relayed", self.relayed.len(), links),
            size("vouchers", self.vouchers.len(), links),
            size("unlinked", self.unlinked.len(), MAX_BOOTS + links),
            size("acquaintances", known.members.len(), MAX_ACQUAINTANCES),
            size(
                "former acquaintances",
                known.former.len(),
                MAX_ACQUAINTANCES,
            ),
            size("boots", self.boots.len(), MAX_BOOTS + links),
            size(
                "gathered",
                gathered,
                listed + MAX_STRANGERS + MAX_LATECOMERS,
            ),
            size("neighbours", neighbours, neighbours_max),
            size("roots", roots, spanning::MAX_ROOTS),
            size("claims told", told, spanning::BUDGET.into()),
            size("clique questions", questions, 2 * Peers::<I>::MAX),
            size("goodbyes", self.detector.goodbyes(), MAX_GOODBYES),
        ]
    }
}
