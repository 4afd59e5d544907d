//! Handing parts on: to a range's first live rank, or hop by hop to it.

use std::collections::BTreeMap;

use binomesh_overlay::{Id, Rank};

use super::duty::{Copies, Delegation, Duty, Phase};
use super::exceptions::unconfirmed;
use super::{Effects, Relay};
use crate::packet::{Errand, Exception, Message, Part, Reason, Span};
use crate::roster::Roster;

impl<I: Id> Relay<I> {
    /// Hand on a span behind this node, one part per finger inside it.
    pub(super) fn assign(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        span: Span,
        generation: u32,
        out: &mut Effects<I>,
    ) {
        let view = self.epochs.find(duty.key.epoch);
        let (Some(view), Some(layout)) = (view, duty.layout()) else {
            return self.except(duty, unconfirmed(span, None, Reason::Epoch));
        };
        let from = layout.position(view.placement().rank);
        for part in layout.parts(from, span) {
            self.delegate(number, duty, part, generation, out);
        }
    }

    /// The head of a span is lost, or has no room: hand what is behind it to those
    /// in its place, and not over it.
    pub(super) fn delegate_rest(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        (span, lost): (Span, I),
        generation: u32,
        out: &mut Effects<I>,
    ) {
        let heirs = heirs(duty, span).into_iter();
        let heirs = heirs.map(|heir| (heir, Way::Any)).collect();
        self.hand_all(number, duty, (heirs, &[lost]), generation, out);
    }

    /// Hand a span to its first rank that is not known to be down: directly if that
    /// peer is known, else as a routed part.
    pub(super) fn delegate(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        span: Span,
        generation: u32,
        out: &mut Effects<I>,
    ) {
        let open = vec![(span, Way::Direct)];
        self.hand_all(number, duty, (open, &[]), generation, out);
    }

    /// As [`Self::delegate`], but whoever comes in another's place in the tree is
    /// routed to unless it is a neighbour: [SFT06]'s encapsulation, one packet for
    /// all of them.
    fn hand_all(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        (mut open, lost): (Vec<(Span, Way)>, &[I]),
        generation: u32,
        out: &mut Effects<I>,
    ) {
        let mut away = Vec::new();
        open.reverse();
        while let Some((span, way)) = open.pop() {
            let Some((rank, peer)) = self.head_of(duty, span) else {
                away.extend((!span.is_empty()).then_some(span));
                continue;
            };
            let rest = if let Some(reason) = self.absence(peer) {
                self.pass_over(duty, span, peer, reason)
            } else if self.silent.contains(&peer) {
                let head = Span::single(span.start);
                self.route(number, duty, &[head], generation, &[], out);
                heirs(duty, span)
            } else if way == Way::Any && self.is_far(duty, rank) {
                away.push(span);
                continue;
            } else {
                let part = Part::Range(span);
                self.hand(number, duty, (rank, peer), part, generation, vec![], out);
                continue;
            };
            open.extend(rest.into_iter().rev().map(|heir| (heir, Way::Any)));
        }
        if !away.is_empty() {
            away.sort_unstable();
            self.route(number, duty, &away, generation, lost, out);
        }
    }

    /// Send spans on their way over the fingers, one copy per next hop. Hops in
    /// the transit list, in `tried`, and those that are down are avoided.
    pub(super) fn route(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        spans: &[Span],
        generation: u32,
        tried: &[I],
        out: &mut Effects<I>,
    ) {
        let mine = self.epochs.find(duty.key.epoch);
        let mine = mine.map(|view| view.placement().rank);
        let mut by_hop: BTreeMap<(Rank, I), Vec<Span>> = BTreeMap::new();
        let mut open: Vec<Span> = spans.iter().copied().rev().collect();
        while let Some(span) = open.pop() {
            if span.is_empty() {
                continue;
            }
            if Some(self.rank_of_start(duty, span)) == mine {
                // I come in the place of somebody lost, and may not have been meant to
                // deliver: the origin asks me again.
                let head = Span::single(span.start);
                self.except(duty, unconfirmed(head, Some(self.me), Reason::NoRoute));
                open.extend(heirs(duty, span).into_iter().rev());
                continue;
            }
            if let Some((_, peer)) = self.head_of(duty, span)
                && let Some(reason) = self.obstacle(duty, span, peer, out)
            {
                let rest = self.pass_over(duty, span, peer, reason);
                open.extend(rest.into_iter().rev());
                continue;
            }
            match self.next_hop(duty, span, tried) {
                Some((rank, peer)) if rank == self.rank_of_start(duty, span) => {
                    let part = Part::Range(span);
                    self.hand(number, duty, (rank, peer), part, generation, vec![], out);
                }
                Some(hop) => by_hop.entry(hop).or_default().push(span),
                None => self.give_up(number, duty, &[span], generation, out),
            }
        }
        let visited: Vec<Rank> = duty.visited().iter().copied().chain(mine).collect();
        let dead = self.dead_ranks(duty);
        for (hop, mut spans) in by_hop {
            spans.sort_unstable();
            for spans in spans.chunks(Part::MAX_SPANS) {
                let part = Part::Routed {
                    spans: spans.to_vec(),
                    visited: visited.clone(),
                    dead: dead.clone(),
                };
                let tried = tried.iter().copied().chain([hop.1]).collect();
                self.hand(number, duty, hop, part, generation, tried, out);
            }
        }
    }

    /// Why a span cannot be brought to the peer at its start from here.
    fn obstacle(
        &self,
        duty: &Duty<I>,
        span: Span,
        peer: I,
        out: &mut Effects<I>,
    ) -> Option<Reason> {
        let absence = self.absence(peer);
        if absence.is_some() || !self.silent.contains(&peer) {
            return absence;
        }
        // Any answer says that it can be reached again.
        let errand = Errand {
            id: duty.key.id,
            epoch: duty.key.epoch,
            strategy: duty.key.strategy,
            round: duty.round,
            part: Part::Range(Span::single(span.start)),
        };
        let name = duty.name_at(span.start);
        out.send(peer, Message::Inquire { errand, name });
        // Whoever came here to reach it tries another neighbour of it.
        Some(Reason::NoRoute).filter(|_| !duty.visited().is_empty())
    }

    /// Except the head of a span, and give what goes to those in its place.
    fn pass_over(&mut self, duty: &mut Duty<I>, span: Span, peer: I, reason: Reason) -> Vec<Span> {
        self.except(
            duty,
            unconfirmed(Span::single(span.start), Some(peer), reason),
        );
        if span.len() > 1 {
            duty.replace(peer);
        }
        heirs(duty, span)
    }

    /// Whether a routed part would find another next hop for its first span.
    pub(super) fn has_detour(&self, duty: &Duty<I>, delegation: &Delegation<I>) -> bool {
        let first = delegation.part.spans().first();
        delegation.tried.len() < self.config.route_tries
            && first.is_some_and(|span| self.next_hop(duty, *span, &delegation.tried).is_some())
    }

    /// No way to the heads of these spans is known. A hop reports that to its giver, which
    /// may know another hop. A node that answers for a range reports the heads alone as not
    /// reached. It hands the ranks behind a head to the next ones in its place, so that one
    /// rank without a way hides no others.
    pub(super) fn give_up(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        spans: &[Span],
        generation: u32,
        out: &mut Effects<I>,
    ) {
        for span in spans {
            let is_hop = !duty.visited().is_empty();
            if is_hop || span.len() <= 1 || !self.skips.take() {
                self.except(duty, unconfirmed(*span, None, Reason::NoRoute));
                continue;
            }
            self.stats.skipped += 1;
            let head = Span::single(span.start);
            self.except(duty, unconfirmed(head, None, Reason::NoRoute));
            for heir in heirs(duty, *span) {
                self.delegate(number, duty, heir, generation.saturating_add(1), out);
            }
        }
    }

    /// Note an exception.
    pub(super) fn except(&mut self, duty: &mut Duty<I>, exception: Exception<I>) {
        let summarised = duty.exceptions.add(exception, self.config.max_exceptions);
        self.stats.summarised += u64::from(summarised);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call site's worth of facts about a delegation"
    )]
    fn hand(
        &mut self,
        number: u64,
        duty: &mut Duty<I>,
        (rank, to): (Rank, I),
        part: Part,
        generation: u32,
        tried: Vec<I>,
        out: &mut Effects<I>,
    ) {
        // It may be there already, or soon, by the first way.
        let is_offer = generation > 0;
        let delegation = self.duties.number();
        let sent_end = match &part {
            Part::Range(span) => span.end,
            Part::Routed { .. } => 0,
        };
        let handed = Delegation {
            to,
            rank,
            sent_end,
            pending: part.spans().iter().copied().collect(),
            part,
            round: duty.round,
            phase: if is_offer {
                Phase::Offered
            } else {
                Phase::Sent
            },
            copies: Copies::None,
            attempts: 0,
            first_wait: self.pace.wait(to, 0, &self.config),
            unanswered: 0,
            generation,
            asked_at: 0,
            is_excused: false,
            tried,
            answers: 0,
            overtaken: 0,
            quiet_looks: 0,
        };
        duty.delegations.insert(delegation, handed);
        self.send_first(number, duty, delegation, out);
    }

    /// Why nothing should be handed to a peer: a verdict, or it is no member any
    /// more, whether or not a verdict said so.
    pub(super) fn absence(&self, peer: I) -> Option<Reason> {
        let roster = self.epochs.newest().map(|view| view.roster());
        let is_without =
            |roster: &Roster<I>| roster.is_complete() && roster.rank_of(peer).is_none();
        let is_absent = self.verdicts.is_down(peer) || roster.is_some_and(is_without);
        is_absent.then(|| self.loss(peer))
    }

    /// Whether the peers at the starts of all spans are known.
    pub(super) fn knows_heads(&self, duty: &Duty<I>, spans: &[Span]) -> bool {
        spans.iter().all(|span| self.head_of(duty, *span).is_some())
    }

    /// Whether all spans can be handed to the peers at their starts without a
    /// detour.
    pub(super) fn reaches_heads(&self, duty: &Duty<I>, spans: &[Span]) -> bool {
        let is_silent = |peer: I| self.silent.contains(&peer);
        let mut heads = spans.iter().map(|span| self.head_of(duty, *span));
        heads.all(|head| head.is_some_and(|(_, peer)| !is_silent(peer)))
    }

    /// The first rank of a span and its peer, if the span is not empty and the
    /// peer is known.
    pub(super) fn head_of(&self, duty: &Duty<I>, span: Span) -> Option<(Rank, I)> {
        if span.is_empty() {
            return None;
        }
        let rank = self.rank_of_start(duty, span);
        let view = self.epochs.find(duty.key.epoch)?;
        let peer = view.hop_at(rank, duty.name_at(span.start))?;
        Some((rank, peer)).filter(|_| peer != self.me)
    }

    pub(super) fn rank_of_start(&self, duty: &Duty<I>, span: Span) -> Rank {
        let layout = duty.layout();
        layout.map_or(duty.origin_rank, |layout| layout.rank(span.start))
    }
}

/// How a part may go to its head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Over the link to it, which is made if there is none.
    Direct,
    /// Over neighbours, if it is none.
    Any,
}

/// The parts in the place of a span whose head is lost.
fn heirs<I: Id>(duty: &Duty<I>, span: Span) -> Vec<Span> {
    let rest = Span::new(span.start.saturating_add(1), span.end);
    let layout = duty.layout();
    layout.map_or_else(Vec::new, |layout| layout.heirs(span.start, rest))
}
