//! What the parts of a relay share while one input is handled.

use binomesh_overlay::{Id, Population};

use super::custody::Progress;
use super::epochs::Epochs;
use super::peers::Peers;
use super::{Config, Effects, RelayStats};
use crate::packet::{Errand, Message, Reason, Refusal};
use crate::roster::Roster;

/// The node's own name, its bounds, its tables, and where effects go. Each part of the relay
/// is given it with each input. No part holds another's state.
pub(super) struct Context<'a, I> {
    pub(super) me: I,
    pub(super) config: &'a Config,
    pub(super) epochs: &'a mut Epochs<I>,
    pub(super) peers: &'a mut Peers<I>,
    pub(super) stats: &'a mut RelayStats,
    pub(super) out: &'a mut Effects<I>,
    /// What custody has found out about own messages, for their origin.
    pub(super) progress: Vec<Progress<I>>,
    /// This node leaves: it takes no new message.
    pub(super) is_draining: bool,
}

impl<I: Id> Context<'_, I> {
    /// Tell a peer that what it asked is not done, and why.
    pub(super) fn refuse(&mut self, to: I, errand: Errand<I>, reason: Refusal) {
        self.stats.count_refusal(reason);
        self.out.send(to, Message::Refused { errand, reason });
    }

    /// Why nothing should be handed to a peer: a verdict, or it is no member any
    /// more, whether or not a verdict said so.
    pub(super) fn absence(&self, peer: I) -> Option<Reason> {
        let roster = self.epochs.newest().map(|view| view.roster());
        let is_without =
            |roster: &Roster<I>| roster.is_complete() && roster.rank_of(peer).is_none();
        let is_absent = self.peers.is_down(peer) || roster.is_some_and(is_without);
        is_absent.then(|| self.peers.loss(peer))
    }

    /// How many members a kept epoch has.
    pub(super) fn population_of(&self, epoch: binomesh_overlay::Epoch<I>) -> Population {
        let view = self.epochs.find(epoch);
        view.map_or(Population::ONE, |view| view.placement().population)
    }
}
