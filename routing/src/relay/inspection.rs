//! Questions to a relay: its members, open messages, counters and memory.

use binomesh_overlay::{Id, Placement};

use super::{Parts, Relay, RelayStats, SlowPeer};
use crate::roster::Roster;

/// The bytes that one store of a relay holds, and their bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Which store: `duties`, `messages`, `kept` or `unknown-epoch`.
    pub name: &'static str,
    /// Bytes that the store holds.
    pub bytes: usize,
    /// The most bytes that the store may hold.
    pub bound: usize,
}

impl<I: Id> Relay<I> {
    /// The peers under a verdict, doubtful verdicts included.
    pub fn down(&self) -> impl Iterator<Item = I> + '_ {
        self.peers.under_verdict()
    }

    /// The peers that have said goodbye, as far as this relay was told.
    pub fn departed(&self) -> impl Iterator<Item = I> + '_ {
        self.peers.gone()
    }

    /// Whether `peer` has left. While that holds, only messages that are to be kept
    /// ([`super::Due::Kept`]) are meant for the peer.
    pub fn is_absent(&self, peer: I) -> bool {
        self.peers.is_absent(peer)
    }

    /// Whether there is a verdict that `peer` is down. A doubtful one, of an earlier epoch, counts
    /// too.
    pub fn is_down(&self, peer: I) -> bool {
        self.peers.has_verdict(peer)
    }

    /// Whether a message that gives up soon ([`super::Due::Soon`]) no longer waits for a peer. The
    /// peer has left, has been called down for `down_pressed`, or is missing from the newest
    /// epoch's complete roster.
    pub fn is_given_up(&self, peer: I) -> bool {
        let roster = self.roster().filter(|roster| roster.is_complete());
        self.peers.is_lost_to(peer, true) || roster.is_some_and(|it| it.rank_of(peer).is_none())
    }

    /// At most `most` peers whose answers are late or for which copies are held, the slowest first.
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

    /// How many packets of own messages are open; at most `config.max_open`. Messages that are kept
    /// for absent members do not count.
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

    /// Set all counters to zero. No decision of a relay depends on its counters. So an exhaustive
    /// search resets them, and states that differ in counters alone become equal.
    pub fn reset_counters(&mut self) {
        self.stats = RelayStats::default();
    }

    /// The bytes in four stores: duties for others, open own messages, those among these that may
    /// be kept for absent members, and packets of an unknown epoch.
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
