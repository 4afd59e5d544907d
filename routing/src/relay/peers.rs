//! The state of each peer: called down, leaving, or silent towards this node.
//!
//! - The overlay says of a peer *under a verdict* that it is down. A new epoch makes the verdict
//!   doubtful: the peer is tried again.
//! - A peer that *drains* takes no new message in this life. One that is *gone* has said goodbye,
//!   and no message waits for it.
//! - A *silent* peer is under no verdict and leaves many copies or questions of this node
//!   unanswered. Perhaps only this pair is cut, so others may reach it. An answer, a link or new
//!   tables end the silence.
//!
//! Verdicts and departures grow older by timers. The origin asks how long they have stood to decide
//! when it gives a member up. Each of the three lists has at most `config.max_peers` entries;
//! further peers are not remembered.

mod departures;
mod verdicts;

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh_overlay::Id;

use super::{Config, Effects, Timer};
use crate::packet::Reason;
use crate::roster::Roster;
use departures::Departures;
use verdicts::{Age, Verdicts};

/// The peers that are down, leaving or silent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Peers<I> {
    verdicts: Verdicts<I>,
    departures: Departures<I>,
    silent: BTreeSet<I>,
    /// Own messages find no room, so peers are given up after `down_pressed` already.
    is_pressed: bool,
}

impl<I: Id> Peers<I> {
    pub(super) const fn new() -> Self {
        Self {
            verdicts: Verdicts::new(),
            departures: Departures::new(),
            silent: BTreeSet::new(),
            is_pressed: false,
        }
    }

    /// The overlay calls a peer down. A verdict on a peer that had left is about its next life.
    pub(super) fn on_verdict(&mut self, peer: I) {
        if self.departures.is_gone(peer) {
            self.departures.withdraw(peer);
            self.verdicts.withdraw(peer);
        }
    }

    /// A peer is called down. If there was no verdict, the timer is armed that counts how long the
    /// new one stands: the *patience* of messages with this peer.
    pub(super) fn call_down(&mut self, peer: I, config: &Config, out: &mut Effects<I>) {
        if let Some(number) = self.verdicts.give(peer, config.max_peers) {
            out.arm(Timer::Patience(number), first_patience(config));
        }
    }

    /// A peer has said goodbye, which acts as a verdict without patience. `next` is the sequence of
    /// the next own message.
    pub(super) fn on_left(&mut self, peer: I, next: u64, config: &Config, out: &mut Effects<I>) {
        let verdict = self.verdicts.give(peer, config.max_peers);
        if let Some(number) = self.departures.leave(peer, next, config.max_peers) {
            out.disarm(Timer::Drain(number));
        }
        // A remembered goodbye needs no patience timer.
        if let Some(number) = verdict.filter(|_| !self.departures.is_gone(peer)) {
            out.arm(Timer::Patience(number), first_patience(config));
        }
    }

    /// A member has told this origin that it drains.
    pub(super) fn on_draining(&mut self, peer: I, config: &Config, out: &mut Effects<I>) {
        if let Some(number) = self.departures.drain(peer, config.max_peers) {
            out.arm(Timer::Drain(number), first_patience(config));
        }
    }

    /// The timer of a verdict has fired: the verdict has stood for `down_pressed`, or for all of
    /// `down_patience`. Returns whether it still exists.
    pub(super) fn on_patience_timer(
        &mut self,
        number: u64,
        config: &Config,
        out: &mut Effects<I>,
    ) -> bool {
        let age = self.verdicts.ripen(number);
        if age == Some(Age::Firm) {
            out.arm(Timer::Patience(number), rest_of_patience(config));
        }
        age.is_some()
    }

    /// The timer of a draining member has fired: it has been draining for `down_pressed`, or for
    /// all of `down_patience`. Returns whether it still drains.
    pub(super) fn on_drain_timer(
        &mut self,
        number: u64,
        config: &Config,
        out: &mut Effects<I>,
    ) -> bool {
        let age = self.departures.ripen(number);
        if age == Some(Age::Firm) {
            out.arm(Timer::Drain(number), rest_of_patience(config));
        }
        age.is_some()
    }

    /// A peer is up, perhaps in its next life. Returns whether it was draining or had left.
    pub(super) fn on_return(&mut self, peer: I, out: &mut Effects<I>) -> bool {
        let departure = self.departures.withdraw(peer);
        if let Some(Some(number)) = departure {
            out.disarm(Timer::Drain(number));
        }
        departure.is_some()
    }

    /// There was contact with a peer, so a verdict on it is over. Returns whether there was one. A
    /// message from a peer that has left was sent before its goodbye: the overlay tells if the peer
    /// is back.
    pub(super) fn on_contact(&mut self, peer: I, out: &mut Effects<I>) -> bool {
        if self.departures.is_gone(peer) {
            return false;
        }
        let verdict = self.verdicts.withdraw(peer);
        if let Some(number) = verdict {
            out.disarm(Timer::Patience(number));
        }
        verdict.is_some()
    }

    /// A peer answers, so it receives what this node sends. Returns whether that is news.
    pub(super) fn on_answer(&mut self, peer: I) -> bool {
        self.silent.remove(&peer)
    }

    /// A peer leaves many copies or questions unanswered. If there is a doubtful verdict on it, the
    /// verdict is certain again; else the peer is silent.
    pub(super) fn on_silence(&mut self, peer: I, config: &Config) {
        if self.verdicts.has(peer) {
            self.verdicts.give(peer, config.max_peers);
        } else if self.silent.len() < config.max_peers {
            self.silent.insert(peer);
        }
    }

    /// New tables have come: this node tries the silent peers again.
    pub(super) fn forget_silence(&mut self) {
        self.silent.clear();
    }

    /// A new epoch has come, so verdicts become doubtful. A peer that the census counts now may be
    /// back, and have contact with others alone. Without the doubt a message would wait for ever
    /// for contact with a member that has no reason to talk to this node. A goodbye stands. The new
    /// epoch may be older than the goodbye, as for a node that was started again or joins a greater
    /// tree, and word of a return goes to all nodes.
    pub(super) fn doubt_verdicts(&mut self, roster: Option<&Roster<I>>, out: &mut Effects<I>) {
        let departures = &self.departures;
        self.verdicts.doubt_all(|peer| departures.is_gone(peer));
        if !roster.is_some_and(Roster::is_tracked) {
            // Without a roster this node never learns that a peer is no member any more, and
            // verdicts must not pile up. Goodbyes stay: the overlay lets them expire.
            let gone = self.verdicts.retain(|peer| departures.is_gone(peer));
            gone.into_iter()
                .for_each(|number| out.disarm(Timer::Patience(number)));
            let departed = self.departures.retain(|_| false).into_iter();
            departed.for_each(|number| out.disarm(Timer::Drain(number)));
        }
    }

    /// All members are known: forget the verdicts and the draining of all other peers, but keep
    /// goodbyes. An epoch without a peer that said goodbye may be that of an island, which ends.
    pub(super) fn retain_members(&mut self, roster: &Roster<I>, out: &mut Effects<I>) {
        let is_member = |peer| roster.rank_of(peer).is_some();
        let departures = &self.departures;
        let stays = |peer| is_member(peer) || departures.is_gone(peer);
        let gone = self.verdicts.retain(stays);
        gone.into_iter()
            .for_each(|number| out.disarm(Timer::Patience(number)));
        let departed = self.departures.retain(is_member).into_iter();
        departed.for_each(|number| out.disarm(Timer::Drain(number)));
    }

    /// An own message finds no room. Returns whether that is news.
    pub(super) const fn press(&mut self) -> bool {
        !std::mem::replace(&mut self.is_pressed, true)
    }

    /// Own messages find room again: the pressure ends, unless room `is_scarce`.
    pub(super) const fn ease(&mut self, is_scarce: bool) {
        self.is_pressed &= is_scarce;
    }

    /// The peers under a verdict, doubtful ones included.
    pub(super) fn under_verdict(&self) -> impl Iterator<Item = I> + '_ {
        self.verdicts.peers()
    }

    /// The peers under a verdict that is not doubtful, to which nothing is sent.
    pub(super) fn down(&self) -> impl Iterator<Item = I> + '_ {
        self.verdicts.down()
    }

    /// The peers that have said goodbye.
    pub(super) fn gone(&self) -> impl Iterator<Item = I> + '_ {
        self.departures.gone()
    }

    /// Whether there is a verdict on a peer, doubtful or not.
    pub(super) fn has_verdict(&self, peer: I) -> bool {
        self.verdicts.has(peer)
    }

    /// Whether a peer is under a verdict that is not doubtful, so that nothing is sent to it.
    pub(super) fn is_down(&self, peer: I) -> bool {
        self.verdicts.is_down(peer)
    }

    /// Whether a peer is silent, so that it is reached over others.
    pub(super) fn is_silent(&self, peer: I) -> bool {
        self.silent.contains(&peer)
    }

    /// Whether a peer had said goodbye when this own message was accepted, and is not back.
    pub(super) fn was_gone(&self, peer: I, sequence: u64) -> bool {
        self.departures.was_gone(peer, sequence) && self.verdicts.is_down(peer)
    }

    /// Whether a peer has left. While that holds, only messages that are to be kept are meant for
    /// it.
    pub(super) fn is_absent(&self, peer: I) -> bool {
        self.departures.is_gone(peer) && self.verdicts.is_down(peer)
    }

    /// Whether no message waits for a peer any more: it has left, or has been called down
    /// for long. While the origin has no room for further messages a shorter patience is
    /// enough, so that a dead member does not stop the publisher.
    pub(super) fn is_lost(&self, peer: I) -> bool {
        self.departures.is_gone(peer) || self.verdicts.has_stood(peer, self.patient_age())
    }

    /// Whether one message no longer waits for a peer. If the message `is_soon`, `down_pressed` is
    /// enough.
    pub(super) fn is_lost_to(&self, peer: I, is_soon: bool) -> bool {
        self.is_lost(peer) || is_soon && self.verdicts.has_stood(peer, Age::Firm)
    }

    /// Whether a peer has left, or has been draining for so long that no message waits for it any
    /// more.
    pub(super) fn is_drained(&self, peer: I) -> bool {
        self.departures.has_stood(peer, self.patient_age())
    }

    /// The reason why no message waits for a lost peer.
    pub(super) fn loss(&self, peer: I) -> Reason {
        if self.departures.is_gone(peer) {
            Reason::Left
        } else {
            Reason::Down
        }
    }

    const fn patient_age(&self) -> Age {
        if self.is_pressed { Age::Firm } else { Age::Old }
    }
}

/// How long a peer is waited for while own messages find no room.
fn first_patience(config: &Config) -> Duration {
    config.down_pressed.min(config.down_patience)
}

/// How much longer a peer is waited for otherwise.
const fn rest_of_patience(config: &Config) -> Duration {
    config.down_patience.saturating_sub(config.down_pressed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers() -> (Peers<u32>, Config, Effects<u32>) {
        (Peers::new(), Config::default(), Effects::new())
    }

    #[test]
    fn silence_is_remembered_up_to_the_bound_and_ends_with_an_answer() {
        let (mut peers, mut config, _) = peers();
        config.max_peers = 1;
        peers.on_silence(1, &config);
        peers.on_silence(2, &config);
        assert_eq!([1, 2].map(|peer| peers.is_silent(peer)), [true, false]);
        assert!(peers.on_answer(1) && !peers.on_answer(1));
    }

    #[test]
    fn silence_under_a_doubtful_verdict_makes_it_certain() {
        let (mut peers, config, mut out) = peers();
        peers.call_down(1, &config, &mut out);
        peers.verdicts.doubt_all(|_| false);
        assert!(!peers.is_down(1) && peers.has_verdict(1));
        peers.on_silence(1, &config);
        assert!(peers.is_down(1) && !peers.is_silent(1));
    }

    #[test]
    fn without_room_a_peer_is_lost_at_its_first_timer_and_else_at_its_second() {
        let (mut peers, config, mut out) = peers();
        peers.call_down(1, &config, &mut out);
        assert!(peers.on_patience_timer(1, &config, &mut out));
        assert!(!peers.is_lost(1) && peers.is_lost_to(1, true));
        assert!(peers.press() && peers.is_lost(1));
        peers.ease(false);
        assert!(!peers.is_lost(1));
        assert!(peers.on_patience_timer(1, &config, &mut out) && peers.is_lost(1));
    }

    #[test]
    fn no_message_waits_for_a_peer_that_has_left_and_its_late_messages_change_nothing() {
        let (mut peers, config, mut out) = peers();
        peers.on_left(1, 5, &config, &mut out);
        assert!(peers.is_lost(1) && peers.is_absent(1));
        assert_eq!(peers.loss(1), Reason::Left);
        assert!(!peers.on_contact(1, &mut out) && peers.is_absent(1));
        assert!(peers.was_gone(1, 5) && !peers.was_gone(1, 4));
        assert!(peers.on_return(1, &mut out));
        assert!(peers.on_contact(1, &mut out) && !peers.is_lost(1));
    }
}
