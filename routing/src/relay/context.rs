//! The state that the components of a relay share while one input is handled.

use binomesh_overlay::{Id, Population};

use super::custody::Progress;
use super::epochs::Epochs;
use super::peers::Peers;
use super::{Config, Effects, RelayStats};
use crate::packet::{CustodyRefusal, Errand, Message, Reason};
use crate::roster::Roster;

/// The node's own name, its bounds, its tables, and the outbox for effects. Each component of the
/// relay is given this context with each input. No component holds the state of another.
pub(super) struct Context<'a, I> {
    pub(super) me: I,
    pub(super) config: &'a Config,
    pub(super) epochs: &'a mut Epochs<I>,
    pub(super) peers: &'a mut Peers<I>,
    pub(super) stats: &'a mut RelayStats,
    pub(super) out: &'a mut Effects<I>,
    /// Findings of custody about own messages, for the origin.
    pub(super) progress: Vec<Progress<I>>,
    /// This node is leaving: it takes no new message.
    pub(super) is_draining: bool,
}

impl<I: Id> Context<'_, I> {
    /// Refuse an errand of a peer, with the reason.
    pub(super) fn refuse(&mut self, to: I, errand: Errand<I>, reason: CustodyRefusal) {
        self.stats.count_refusal(reason);
        self.out.send(to, Message::Refused { errand, reason });
    }

    /// The reason not to hand any part to a peer; none if the peer may get one. There is a reason
    /// if a verdict that is not doubtful calls the peer down, or if the roster of the newest epoch
    /// is complete and does not list it.
    pub(super) fn absence(&self, peer: I) -> Option<Reason> {
        let roster = self.epochs.newest().map(|view| view.roster());
        let is_without =
            |roster: &Roster<I>| roster.is_complete() && roster.rank_of(peer).is_none();
        let is_absent = self.peers.is_down(peer) || roster.is_some_and(is_without);
        is_absent.then(|| self.peers.loss(peer))
    }

    /// How many members an epoch has; 1 if the epoch is not kept.
    pub(super) fn population_of(&self, epoch: binomesh_overlay::Epoch<I>) -> Population {
        let view = self.epochs.find(epoch);
        view.map_or(Population::ONE, |view| view.placement().population)
    }
}
