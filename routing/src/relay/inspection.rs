//! What can be asked of a relay: whom it has, what is open, what it counts and holds.

use binomesh_overlay::{Id, Placement};

use super::{Parts, Relay, RelayStats, SlowPeer};
use crate::roster::Roster;

/// The bytes that wait in one place of a relay, and their bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Which place: `duties`, `messages`, `kept` or `unknown-epoch`.
    pub name: &'static str,
    /// Bytes that wait in this place.
    pub bytes: usize,
    /// The most bytes that may wait in it.
    pub bound: usize,
}

impl<I: Id> Relay<I> {
    /// The peers under a verdict, as this relay was told.
    pub fn down(&self) -> impl Iterator<Item = I> + '_ {
        self.peers.under_verdict()
    }

    /// The peers that have said goodbye, as this relay was told.
    pub fn departed(&self) -> impl Iterator<Item = I> + '_ {
        self.peers.gone()
    }

    /// Whether `peer` has left and no message that is accepted now is meant for it.
    pub fn is_absent(&self, peer: I) -> bool {
        self.peers.is_absent(peer)
    }

    /// Whether a verdict says that `peer` is down.
    pub fn is_down(&self, peer: I) -> bool {
        self.peers.has_verdict(peer)
    }

    /// Whether a message that gives up soon ([`super::Due::Soon`]) expects nothing of a peer any
    /// more: it has been called down for `down_pressed`, or is no member of the newest epoch.
    pub fn is_given_up(&self, peer: I) -> bool {
        let roster = self.roster().filter(|roster| roster.is_complete());
        self.peers.is_lost_to(peer, true) || roster.is_some_and(|it| it.rank_of(peer).is_none())
    }

    /// The peers that keep something waiting, who keeps most first; at most so many.
    pub fn slow_peers(&self, most: usize) -> Vec<SlowPeer<I>> {
        self.parts.custody.slow_peers(most)
    }

    /// Whether no duty and no own message is open.
    pub fn is_idle(&self) -> bool {
        self.parts.custody.is_idle() && self.parts.origin.is_idle()
    }

    /// The roster of the newest epoch, once there is one.
    pub fn roster(&self) -> Option<&Roster<I>> {
        self.epochs.newest().map(|view| view.roster())
    }

    /// The newest placement.
    pub fn placement(&self) -> Option<Placement<I>> {
        self.epochs.newest().map(|view| view.placement())
    }

    /// How many packets of own messages are open, of which `config.max_open` may be, those
    /// aside that are kept for members that are away.
    pub fn open_packets(&self) -> usize {
        self.parts.origin.open_packets()
    }

    /// Counters and gauges.
    pub fn stats(&self) -> RelayStats {
        let mut stats = self.stats;
        self.parts.receiver.measure(&mut stats);
        self.parts.custody.measure(&mut stats);
        self.parts.origin.measure(&mut stats);
        stats
    }

    /// Count from zero again. Nothing that a relay does depends on what it counted, so who
    /// searches all that it can do need not tell apart what differs in that alone.
    pub fn reset_counters(&mut self) {
        self.stats = RelayStats::default();
    }

    /// The bytes in four places: duties for others, own open messages, the part of these that
    /// is kept for absent members, and packets of an unknown epoch.
    pub fn memory(&self) -> [Memory; 4] {
        let memory = |name, bytes, bound| Memory { name, bytes, bound };
        let config = &self.config;
        let Parts {
            receiver,
            custody,
            origin,
            ..
        } = &self.parts;
        [
            memory("duties", custody.bytes(), config.max_duty_bytes),
            memory("messages", origin.bytes(), config.max_message_bytes),
            memory("kept", origin.kept_bytes(), config.max_kept_bytes),
            memory(
                "unknown-epoch",
                receiver.held_bytes(),
                config.max_held_bytes,
            ),
        ]
    }
}
