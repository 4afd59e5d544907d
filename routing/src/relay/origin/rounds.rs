//! The rounds of own messages: their first issue, and re-issues for outstanding members.

use std::collections::BTreeMap;

use binomesh_overlay::{Id, Rank};

use super::message::{MemberLocation, OpenMessage};
use super::{Origin, is_between_rounds};
use crate::packet::{Errand, Header, Packet, Part, Reason, Span, State};
use crate::relay::Config;
use crate::relay::Timer;
use crate::relay::context::Context;
use crate::relay::custody::{Custody, Round, RoundEnd};
use crate::relay::epochs::EpochView;
use crate::runs::Runs;
use crate::strategy::Strategy;

/// The outstanding members of a message when it is issued again.
struct Left<I> {
    /// The members with a known present place, as pairs of distances: in the newest epoch, and in
    /// that of acceptance.
    here: Vec<(u32, u32)>,
    /// If the members are meant by name: the names of those in `here`, by their distance in the
    /// epoch of acceptance.
    names: BTreeMap<u32, I>,
    /// The expected members that are no members any more, or cannot be found: by the distance in
    /// the epoch of acceptance, with the peer, if known, and the reason.
    gone: Vec<(u32, Option<I>, Reason)>,
    /// A member has to get an earlier kept message first.
    has_to_wait: bool,
}

impl<I: Id> Origin<I> {
    /// The first round of a message to all members.
    pub(super) fn issue_to_all(
        &mut self,
        sequence: u64,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        self.await_the_absent(sequence, cx);
        self.heed_names(sequence, cx);
        let message = self.open.get(sequence);
        let n = message.map_or(1, |message| message.accepted.population.get());
        let all = Runs::from_iter([Span::new(1, n)]);
        let is_for_nobody = message.is_none_or(|message| message.outstanding().is_empty());
        if all.is_empty() || is_for_nobody {
            self.end_unissued(sequence, custody, cx);
        } else {
            self.issue(sequence, &all, BTreeMap::new(), false, custody, cx);
        }
    }

    /// No member is left to issue the message to: end it if no line is outstanding, or try again
    /// later.
    pub(super) fn end_unissued(
        &mut self,
        sequence: u64,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        self.pass_turn(sequence, custody, cx);
        self.give_up_the_lost(sequence, cx);
        self.conclude_or_wait(sequence, Config::REISSUE_FIRST, custody, cx);
    }

    /// The first round of a message to some members.
    pub(super) fn issue_to(
        &mut self,
        sequence: u64,
        mut names: BTreeMap<u32, I>,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        let all: Vec<(u32, u32)> = names.keys().map(|at| (*at, *at)).collect();
        let message = self.open.get_mut(sequence);
        let issued = message.map(|message| message.take_turns(&all, true));
        let issued = issued.unwrap_or_default();
        names.retain(|at, _| issued.contains_key(at));
        self.issue(sequence, &singles(&issued), names, true, custody, cx);
    }

    /// A round ended: emit the receipt if no member is outstanding, or issue the message again
    /// later.
    pub(super) fn on_round_done(
        &mut self,
        end: &RoundEnd<I>,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        let sequence = end.id.sequence;
        let Some(message) = self.open.get_mut(sequence) else {
            return;
        };
        message.redelegated = message.redelegated.saturating_add(end.redelegated);
        for peer in &end.replaced {
            message.replace(*peer);
        }
        message.end_round(end.epoch, &end.exceptions);
        // Members that have had no turn yet get it after the shortest wait.
        let wait = if message.has_postponed() {
            Config::REISSUE_FIRST
        } else {
            message.wait
        };
        self.give_up_the_lost(sequence, cx);
        self.pass_turn(sequence, custody, cx);
        self.conclude_or_wait(sequence, wait, custody, cx);
    }

    /// Issue a message again, at their places in the newest epoch, to those outstanding members
    /// that have a turn and are not down. The wait before the next re-issue is usually longer.
    /// While a round is open, nothing is issued.
    pub(in crate::relay) fn reissue(
        &mut self,
        sequence: u64,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        self.heed_names(sequence, cx);
        let (Some(newest), Some(message)) = (cx.epochs.newest(), self.open.get(sequence)) else {
            return;
        };
        if !is_between_rounds(message, custody) {
            return;
        }
        let by_name = is_by_name(message, newest, cx);
        let left = self.left_of(message, newest, by_name, cx);
        let cap = Config::REISSUE_CAP;
        let epoch = newest.placement().epoch;
        // The tables may never change again, and a wrong denial would then stand for ever.
        let is_desperate = message.wait >= cap;
        if let Some(newest) = cx.epochs.find_mut(epoch).filter(|_| is_desperate) {
            newest.forget_denials();
        }
        let Some(message) = self.open.get_mut(sequence) else {
            return;
        };
        let is_less = !left.gone.is_empty();
        for (at, peer, reason) in left.gone {
            message.settle(at, peer, State::Unconfirmed, reason);
        }
        if is_less {
            self.pass_turn(sequence, custody, cx);
        }
        let Some(message) = self.open.get_mut(sequence) else {
            return;
        };
        let issued = message.take_turns(&left.here, by_name);
        // A wait for other messages or members is no failed try.
        if !message.has_postponed() && !left.has_to_wait {
            message.wait = message.wait.saturating_mul(2).min(cap);
        }
        let wait = message.wait;
        if issued.is_empty() {
            self.give_up_the_lost(sequence, cx);
            self.conclude_or_wait(sequence, wait, custody, cx);
        } else {
            cx.out.arm(Timer::Reissue(sequence), wait);
            let spans = singles(&issued);
            let named = issued.iter();
            let named = named.filter_map(|(now, at)| Some((*now, *left.names.get(at)?)));
            let named = named.collect();
            message.begin_round(epoch, issued);
            cx.stats.reissues += 1;
            custody.grant_search();
            self.issue(sequence, &spans, named, false, custody, cx);
        }
    }

    /// The present places of the outstanding members of a message.
    fn left_of(
        &self,
        message: &OpenMessage<I>,
        newest: &EpochView<I>,
        by_name: bool,
        cx: &Context<'_, I>,
    ) -> Left<I> {
        let sequence = message.id.sequence;
        let has_backlog = |peer| message.keeps && self.open.has_backlog_before(peer, sequence);
        let mut left = Left {
            here: Vec::new(),
            names: BTreeMap::new(),
            gone: Vec::new(),
            has_to_wait: false,
        };
        // At the longest wait, the old epoch has been silent for a while.
        let is_over = message.wait >= Config::REISSUE_CAP && message.accepted != newest.placement();
        for at in message.outstanding().iter() {
            let peer = message.peer_at(at, cx.epochs);
            let is_down = peer.is_some_and(|peer| cx.peers.is_down(peer));
            match message.locate(at, newest, cx.epochs) {
                // A verdict does not end the member's line at once, since it may be withdrawn.
                MemberLocation::At(_) if is_down => {}
                // Earlier messages that are kept for this peer come first.
                MemberLocation::At(_) if peer.is_some_and(&has_backlog) => left.has_to_wait = true,
                // An awaited peer can only be named, and this round names no members.
                MemberLocation::At(_) if message.is_awaited(at) && !by_name => {}
                MemberLocation::At(now) => {
                    left.here.push((now, at));
                    left.names
                        .extend(peer.filter(|_| by_name).map(|peer| (at, peer)));
                }
                MemberLocation::Absent if message.keeps => {}
                MemberLocation::NotFound if !is_down => left.gone.push((at, peer, Reason::Epoch)),
                MemberLocation::Absent | MemberLocation::NotFound => {
                    let reason = peer.map_or(Reason::Down, |peer| cx.peers.loss(peer));
                    left.gone.push((at, peer, reason));
                }
                MemberLocation::Nameless if is_over => left.gone.push((at, peer, Reason::Epoch)),
                MemberLocation::Unknown | MemberLocation::Nameless => {}
            }
        }
        left
    }

    /// Something changed for the better: issue the open messages again soon.
    pub(in crate::relay) fn hasten_reissues(
        &mut self,
        custody: &Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        let first = Config::REISSUE_FIRST;
        for sequence in self.open.sequences() {
            let Some(message) = self.open.get_mut(sequence) else {
                continue;
            };
            if message.awaits_roster {
                continue;
            }
            // If a round is open, the message is issued again after it.
            message.wait = first;
            if !custody.is_open(message.id) {
                cx.out.arm(Timer::Reissue(sequence), first);
            }
        }
    }

    /// Hand out one round of a message in the newest epoch. `names` has the member that is meant at
    /// each distance. If it is empty, the holders of the ranks are meant.
    fn issue(
        &mut self,
        sequence: u64,
        spans: &Runs,
        names: BTreeMap<u32, I>,
        is_routed: bool,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        let (Some(view), Some(message)) = (cx.epochs.newest(), self.open.get(sequence)) else {
            return;
        };
        let placement = view.placement();
        // Positions are distances, except in the first round to all members, which is for all
        // positions.
        let is_first = message.round == 0 && names.is_empty();
        let strategy = if is_first {
            let down = cx.peers.down().filter_map(|peer| view.rank_of(peer));
            message.strategy.among(placement.population).without(down)
        } else {
            Strategy::Binomial
        };
        let errand = Errand {
            id: message.id,
            epoch: placement.epoch,
            strategy,
            round: message.round,
            part: Part::Range(Span::new(0, placement.population.get())),
        };
        let packet = Packet {
            header: Header {
                errand,
                origin_rank: placement.rank,
                to: placement.rank,
                closed_below: self.open.closed_below().min(sequence),
                is_kept: message.is_kept,
                confirmation: message.confirmation,
                topic: message.topic.clone(),
                order: message.order,
                names: Vec::new(),
                stood: None,
                signature: message.signature.clone(),
            },
            payloads: message.payloads.clone(),
        };
        let stood_at = |at: &u32| Some((*at, message.stood_at(*at)?));
        let stood: BTreeMap<u32, Rank> = names.keys().filter_map(stood_at).collect();
        let stood_in = Some(message.accepted.epoch).filter(|_| !stood.is_empty());
        let round = Round {
            packet,
            spans: spans.clone(),
            names,
            stood,
            stood_in,
            is_routed,
        };
        custody.begin_round(round, cx);
        self.heed(custody, cx);
    }
}

/// Whether a re-issue names its members. An awaited peer can only be meant by name, and a packet
/// names all of its members or none.
fn is_by_name<I: Id>(message: &OpenMessage<I>, newest: &EpochView<I>, cx: &Context<'_, I>) -> bool {
    if message.is_by_name(&newest.placement()) {
        return true;
    }
    let outstanding = message.outstanding();
    let mut here = outstanding.iter().filter(|at| {
        let is_here = message.locate(*at, newest, cx.epochs);
        matches!(is_here, MemberLocation::At(_))
    });
    let has_awaited = outstanding.iter().any(|at| message.is_awaited(at));
    has_awaited && here.all(|at| message.peer_at(at, cx.epochs).is_some())
}

/// The distances as spans of one member each.
pub(super) fn singles<T>(by_distance: &BTreeMap<u32, T>) -> Runs {
    by_distance.keys().map(|at| Span::single(*at)).collect()
}
