//! Own messages that are kept for absent members ([`crate::relay::Due::Kept`]).
//!
//! A kept message is like a letter left with a neighbour: the street has been served and its sheet
//! is signed off, but this letter waits until its addressee is back. Later messages do not wait for
//! it. The mark passes it, each of its copies says `is_kept`, and it does not count among the open
//! packets. A returning member gets its kept messages one by one, in the order in which they were
//! published.

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh_overlay::Id;

use super::message::MemberLocation;
use super::{Origin, is_between_rounds};
use crate::packet::{Reason, State};
use crate::relay::Timer;
use crate::relay::context::Context;
use crate::relay::custody::Custody;

impl<I: Id> Origin<I> {
    /// A broadcast goes out now: peers that get it as members are no longer awaited.
    pub(super) fn await_the_absent(&mut self, sequence: u64, cx: &mut Context<'_, I>) {
        let (Some(newest), Some(message)) = (cx.epochs.newest(), self.open.get_mut(sequence))
        else {
            return;
        };
        message.await_others(|peer| newest.rank_of(peer).is_some());
    }

    /// A round of a message is over: each peer that has the message now gets its next kept one.
    pub(super) fn pass_turn(
        &mut self,
        sequence: u64,
        custody: &Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        let next = self.open.note_backlogs(sequence, cx.epochs);
        self.wake(next, custody, cx);
    }

    /// Issue these messages at once, since their turn has come.
    pub(super) fn wake(&self, next: BTreeSet<u64>, custody: &Custody<I>, cx: &mut Context<'_, I>) {
        for sequence in next {
            let message = self.open.get(sequence);
            if message.is_some_and(|message| is_between_rounds(message, custody)) {
                cx.out.arm(Timer::Reissue(sequence), Duration::ZERO);
            }
        }
    }

    /// Keep a message if every outstanding member is absent or lost, or takes no copy in its
    /// present life.
    pub(super) fn keep_for_the_lost(&mut self, sequence: u64, cx: &mut Context<'_, I>) {
        let (Some(newest), Some(message)) = (cx.epochs.newest(), self.open.get(sequence)) else {
            return;
        };
        let is_away = |at: u32| {
            let peer = message.peer_at(at, cx.epochs);
            let location = message.locate(at, newest, cx.epochs);
            location == MemberLocation::Absent
                || peer.is_some_and(|peer| cx.peers.is_lost(peer))
                || message.is_declined(at, peer.is_some_and(|peer| cx.peers.is_drained(peer)))
        };
        let outstanding = message.outstanding();
        if outstanding.is_empty() || message.is_kept || !outstanding.iter().all(is_away) {
            return;
        }
        self.open.keep(sequence);
        cx.stats.kept += 1;
    }

    /// This node leaves, so no absent member can come back to it: end all kept messages. Messages
    /// that would be kept later end as others do.
    pub(in crate::relay) fn conclude_kept(
        &mut self,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        self.open.keep_no_more();
        for sequence in self.open.kept() {
            let Some(message) = self.open.get(sequence) else {
                continue;
            };
            let mut away = Vec::new();
            for at in message.outstanding().iter() {
                let peer = message.peer_at(at, cx.epochs);
                let doubt = message.doubt_about(at).map(|doubt| doubt.reason);
                let reason = match peer {
                    Some(peer) if cx.peers.has_verdict(peer) || cx.peers.is_lost(peer) => {
                        cx.peers.loss(peer)
                    }
                    _ if message.is_declined(at, true) => doubt.unwrap_or(Reason::Down),
                    peer => peer.map_or(Reason::Down, |peer| cx.peers.loss(peer)),
                };
                away.push((at, peer, reason));
            }
            if let Some(message) = self.open.get_mut(sequence) {
                for (at, peer, reason) in away {
                    message.settle(at, peer, State::Unconfirmed, reason);
                }
            }
            self.conclude(sequence, None, custody, cx);
        }
    }
}
