//! The looks for silent neighbours: what the host finds out before a look, and when a look can
//! wait.
//!
//! A node looks at the beginning and in the middle of each beat. In a quiet cluster the look in the
//! middle finds no silent neighbour. The transport does not tell the host when an acknowledgement
//! has come. So the host asks for it with each look, and whenever it is awake while a neighbour
//! owes an acknowledgement. Once no neighbour owes one, the look waits for the next event or the
//! beat. The detector gets the same inputs in the same order as without this wait, except that it
//! hears of some acknowledgements before the look. While a neighbour owes an acknowledgement, or is
//! near suspicion, neither look nor beat waits.

use std::time::Duration;

use binomesh_overlay::{self as overlay, PeerId};

use super::{Host, after, now};
use crate::peer::{Input, Timer};

const LOOK: Timer = Timer::Overlay(overlay::Timer::Watch);
const BEAT: Timer = Timer::Overlay(overlay::Timer::Beat);

impl Host {
    pub(super) fn arm(&mut self, timer: Timer, length: Duration) {
        if timer == BEAT {
            self.beat = length;
        }
        if timer == BEAT || timer == LOOK {
            self.may_look_wait = None;
        }
        self.timers.arm(timer, after(length), timer.slack(length));
    }

    /// Before the host sleeps: let the looks wait if they can.
    pub(super) fn attend_look(&mut self) {
        if self.peer.overlay().awaits_acknowledgement() {
            self.tell_acknowledged();
        }
        let may_wait = self.peer.overlay().look_can_wait();
        if self.may_look_wait == Some(may_wait) {
            return;
        }
        self.may_look_wait = Some(may_wait);
        let (look, beat) = match may_wait {
            true => (Timer::slack_of_look(self.beat), BEAT.slack(self.beat)),
            false => (Duration::ZERO, Duration::ZERO),
        };
        self.timers.set_slack(LOOK, look);
        self.timers.set_slack(BEAT, beat);
    }

    /// Fire the timers that waited, before the event that woke the host.
    pub(super) fn fire_waiting(&mut self) {
        let now = now();
        while let Some((timer, late)) = self.timers.pop_waiting(now) {
            self.fire(timer, late, now);
        }
    }

    /// Tell the peer which silent neighbours have acknowledged a packet since the host last asked:
    /// such a neighbour is alive and hears this node.
    pub(super) fn tell_acknowledged(&mut self) {
        let silent: Vec<PeerId> = self.peer.overlay().silent_neighbours().collect();
        self.acknowledged.retain(|peer, _| silent.contains(peer));
        for peer in silent {
            let Some(count) = self.transport.acknowledgements(peer) else {
                continue;
            };
            let before = self.acknowledged.insert(peer, count);
            if before.is_some_and(|before| before != count) {
                self.outages.on_heard(peer, now());
                self.feed(Input::Acknowledged { peer });
            }
        }
    }
}
