//! Runs the world, and looks at it meanwhile: whether it is healed, within its bounds, and without a
//! storm of messages.

use std::time::Duration;

use super::super::violation::Violation;
use super::{GLANCE, Trial, WEIGHING, WORDS_STAND};

impl Trial<'_> {
    pub(super) fn run_to(&mut self, end: Duration) {
        loop {
            let stop = end.min(self.next_glance);
            while !self.is_storm() && self.world.step(stop) {
                self.observe();
            }
            if self.is_storm() {
                let at = self.second.0;
                return self.violations.push(Violation::Storm { at });
            }
            if self.world.now() >= self.next_glance {
                self.next_glance = self.world.now() + GLANCE;
                self.glance();
            }
            if stop == end || self.has_ended() {
                return;
            }
        }
    }

    fn glance(&mut self) {
        let now = self.world.now();
        if now - self.second.0 >= Duration::from_secs(1) {
            self.second = (now, self.world.sent());
        }
        let limit = self.scenario.heal_limit();
        self.watch.glance(&self.world, limit);
        let is_exact = self.watch.is_exact(&self.world);
        let is_full = self.is_window_full();
        self.collectives.on_graph(now, is_exact && !is_full);
        let is_settled = self.watch.is_healed() && now >= self.watch.since() + WORDS_STAND;
        if is_settled && self.checker.is_doubtful(now) && self.world.defect().is_none() {
            self.checker.on_exact(now);
        }
        if self.world.now() >= self.next_weighing {
            self.next_weighing = self.world.now() + WEIGHING;
            self.weigh();
        }
    }

    /// Whether relays with little room have refused a message since the last look because an
    /// earlier one is open. Then messages of collectives wait too.
    fn is_window_full(&mut self) -> bool {
        let peers = self.world.peers();
        let refused = peers
            .map(|(_, peer)| peer.relay().stats().window_full)
            .sum();
        let is_new = std::mem::replace(&mut self.window_full, refused) != refused;
        self.scenario.tight && is_new
    }

    /// Check that every list is within its bound.
    fn weigh(&mut self) {
        let at = self.world.now();
        // Corruption may give a node more children than it would accept.
        let is_doubtful = self.checker.is_doubtful(at);
        let bounds = *self.world.relay();
        for (id, peer) in self.world.peers() {
            let stats = peer.relay().stats();
            let relay = [
                (
                    "open messages",
                    stats.open_messages,
                    bounds.max_open + bounds.max_kept,
                ),
                ("open duties", stats.open_duties, bounds.max_duties),
                ("held packets", stats.held_packets, bounds.max_held),
                ("bytes of duties", stats.duty_bytes, bounds.max_duty_bytes),
                (
                    "bytes of messages",
                    stats.message_bytes,
                    bounds.max_message_bytes,
                ),
                (
                    "bytes of held packets",
                    stats.held_bytes,
                    bounds.max_held_bytes,
                ),
            ];
            let overlay = peer.overlay().sizes();
            let overlay = overlay.map(|size| (size.name, size.length, size.bound));
            let all = relay.into_iter().chain(overlay);
            let beyond = all.filter(|(name, length, bound)| {
                length > bound && !(is_doubtful && ["children", "infos"].contains(name))
            });
            for (name, length, bound) in beyond {
                self.violations.push(Violation::Unbounded {
                    at,
                    id,
                    name,
                    length,
                    bound,
                });
            }
        }
    }

    /// Whether there is no point in continuing.
    pub(super) fn has_ended(&self) -> bool {
        let storm = |found: &Violation| {
            matches!(found, Violation::Storm { .. } | Violation::Unbounded { .. })
        };
        self.watch.has_ended() || self.violations.iter().any(storm)
    }

    /// Whether far more messages are sent than any work needs. The world does not go on then.
    fn is_storm(&self) -> bool {
        self.world.sent() - self.second.1 > self.storm
    }
}
