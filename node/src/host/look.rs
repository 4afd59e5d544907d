//! The looks at who is silent: what is known before them, and when one can wait.
//!
//! A node looks at the beginning and in the middle of each beat. In a quiet cluster
//! the one in the middle finds nobody, and waking for it alone would be a seventh of
//! all that an idle node does. So the host hears of acknowledgements when they come,
//! and once nobody owes one the look waits for whatever happens next, or the beat. The
//! peer sees the same inputs in the same order.

use std::time::Duration;

use binomesh_overlay::{self as overlay, PeerId};

use super::{Host, after, now};
use crate::peer::{Input, Timer};

const LOOK: Timer = Timer::Overlay(overlay::Timer::Watch);

impl Host {
    pub(super) fn arm(&mut self, timer: Timer, length: Duration) {
        if timer == LOOK {
            self.half_beat = length;
        }
        self.timers.arm(timer, after(length), timer.slack(length));
    }

    /// Before the host sleeps: have the look wait if it can.
    pub(super) fn attend_look(&mut self) {
        if self.peer.overlay().awaits_acknowledgement() {
            self.tell_acknowledged();
        }
        let slack = match self.peer.overlay().look_can_wait() {
            true => Timer::slack_of_look(self.half_beat),
            false => Duration::ZERO,
        };
        self.timers.set_slack(LOOK, slack);
    }

    /// Timers that waited come before what the host was woken by.
    pub(super) fn fire_waiting(&mut self) {
        let now = now();
        while let Some((timer, late)) = self.timers.pop_waiting(now) {
            self.fire(timer, late, now);
        }
    }

    /// A neighbour whose transport answers lives, and hears this node.
    pub(super) fn tell_acknowledged(&mut self) {
        let silent: Vec<PeerId> = self.peer.overlay().silent_neighbours().collect();
        self.acknowledged.retain(|peer, _| silent.contains(peer));
        for peer in silent {
            let Some(count) = self.transport.acknowledgements(peer) else {
                continue;
            };
            let before = self.acknowledged.insert(peer, count);
            if before.unwrap_or(0) != count {
                self.feed(Input::Acknowledged { peer });
            }
        }
    }
}
