//! Handing parts on: to the first live rank of a range, directly or hop by hop. The *head* of a
//! range is its first rank. The *heirs* of a range are the smaller ranges that take its place when
//! its head is lost.
//!
//! - Each part of a duty is confirmed, or held by one delegate, or an exception. So when a
//!   delegation ends unconfirmed, its part is handed on again or excepted before the delegation is
//!   forgotten.
//! - A late delegate keeps only its own copy, and the rest of its range goes to the next ranks
//!   ([`lateness`](self)). `results` handles the answers of delegates.
//! - `routes` reads from the tables which peers are on the way to a rank.
//! - Further tries are paid for from budgets that each sent copy fills a little. So lateness alone
//!   does not multiply itself.

mod lateness;
mod results;
mod routes;

use std::collections::BTreeMap;

use binomesh_overlay::{Id, Rank};

use super::delegation::Delegation;
use super::duty::Duty;
use super::exceptions::unconfirmed;
use super::sender::Sender;
use crate::packet::{Errand, Message, Part, Reason, Span};
use crate::relay::Config;
use crate::relay::context::Context;

pub(in crate::relay) use results::Done;

/// Hands parts on, one duty at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Delegator<I> {
    sender: Sender<I>,
    /// The last number that a duty or delegation was given.
    numbered: u64,
}

/// The next peer on the way of a part, with its rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NextHop<I> {
    pub(super) rank: Rank,
    pub(super) peer: I,
}

impl<I: Id> Delegator<I> {
    pub(super) const fn new(config: &Config) -> Self {
        Self {
            sender: Sender::new(config),
            numbered: 0,
        }
    }

    /// The sender of the copies.
    pub(super) const fn sender(&self) -> &Sender<I> {
        &self.sender
    }

    /// The sender of the copies, to report answers and turns to it.
    pub(super) const fn sender_mut(&mut self) -> &mut Sender<I> {
        &mut self.sender
    }

    /// A number for a new duty or delegation.
    pub(super) fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// Hand on a span behind this node, one part for each member that the strategy has this node
    /// send to: with `binomial` its fingers inside the span, and the first rank of the span.
    pub(super) fn assign(
        &mut self,
        duty: &mut Duty<I>,
        span: Span,
        generation: u32,
        cx: &mut Context<'_, I>,
    ) {
        let view = cx.epochs.find(duty.key.epoch);
        let (Some(view), Some(layout)) = (view, duty.layout()) else {
            return duty.except(unconfirmed(span, None, Reason::Epoch), cx);
        };
        let from = layout.position(view.placement().rank);
        for part in layout.parts(from, span) {
            self.delegate(duty, part, generation, cx);
        }
    }

    /// The head of a span is lost or late, or has refused, or has no room: hand the ranks behind it
    /// to the next heads, and route no part over the peer `lost`, which is this head.
    pub(super) fn delegate_rest(
        &mut self,
        duty: &mut Duty<I>,
        span: Span,
        lost: I,
        generation: u32,
        cx: &mut Context<'_, I>,
    ) {
        let heirs = duty.heirs(span).into_iter();
        let heirs = heirs.map(|heir| (heir, RouteChoice::Any)).collect();
        self.hand_all(duty, heirs, &[lost], generation, cx);
    }

    /// Hand a span to its head: directly if the peer there is known, else as a routed part. If the
    /// head is known to be absent, it becomes an exception, and the heirs of the span are handed
    /// on. If the peer at the head is silent, only the head is routed, and the heirs are handed on.
    pub(super) fn delegate(
        &mut self,
        duty: &mut Duty<I>,
        span: Span,
        generation: u32,
        cx: &mut Context<'_, I>,
    ) {
        let open = vec![(span, RouteChoice::Direct)];
        self.hand_all(duty, open, &[], generation, cx);
    }

    /// Hand on several spans as [`Self::delegate`] does. A head that replaces another one in the
    /// tree, and is no neighbour, is routed to: [SFT06]'s encapsulation, one packet for all such
    /// heads on the same way.
    fn hand_all(
        &mut self,
        duty: &mut Duty<I>,
        mut open: Vec<(Span, RouteChoice)>,
        lost: &[I],
        generation: u32,
        cx: &mut Context<'_, I>,
    ) {
        let mut away = Vec::new();
        open.reverse();
        while let Some((span, way)) = open.pop() {
            let Some(head) = cx.head_of(duty, span) else {
                away.extend((!span.is_empty()).then_some(span));
                continue;
            };
            let rest = if let Some(reason) = cx.absence(head.peer) {
                pass_over(duty, span, head.peer, reason, cx)
            } else if cx.peers.is_silent(head.peer) {
                let first = Span::single(span.start);
                self.route(duty, &[first], generation, &[], cx);
                duty.heirs(span)
            } else if way == RouteChoice::Any && cx.is_far(duty, head.rank) {
                away.push(span);
                continue;
            } else {
                let part = Part::Range(span);
                self.hand(duty, head, part, generation, vec![], cx);
                continue;
            };
            open.extend(rest.into_iter().rev().map(|heir| (heir, RouteChoice::Any)));
        }
        if !away.is_empty() {
            away.sort_unstable();
            self.route(duty, &away, generation, lost, cx);
        }
    }

    /// Send spans hop by hop over this node's neighbours, one copy per next hop. A span whose head
    /// is the next hop goes there as a range of its own. Hops are avoided that are in the transit
    /// list, in `tried`, silent or down.
    pub(super) fn route(
        &mut self,
        duty: &mut Duty<I>,
        spans: &[Span],
        generation: u32,
        tried: &[I],
        cx: &mut Context<'_, I>,
    ) {
        let mine = cx.epochs.find(duty.key.epoch);
        let mine = mine.map(|view| view.placement().rank);
        let mut by_hop: BTreeMap<NextHop<I>, Vec<Span>> = BTreeMap::new();
        let mut open: Vec<Span> = spans.iter().copied().rev().collect();
        while let Some(span) = open.pop() {
            if span.is_empty() {
                continue;
            }
            if Some(duty.rank_at_start(span)) == mine {
                // This node takes the place of a lost head, and may not have been meant to deliver:
                // the origin asks it again.
                let head = Span::single(span.start);
                duty.except(unconfirmed(head, Some(cx.me), Reason::NoRoute), cx);
                open.extend(duty.heirs(span).into_iter().rev());
                continue;
            }
            if let Some(NextHop { peer, .. }) = cx.head_of(duty, span)
                && let Some(reason) = obstacle(duty, span, peer, cx)
            {
                let rest = pass_over(duty, span, peer, reason, cx);
                open.extend(rest.into_iter().rev());
                continue;
            }
            match cx.next_hop(duty, span, tried) {
                Some(hop) if hop.rank == duty.rank_at_start(span) => {
                    let part = Part::Range(span);
                    self.hand(duty, hop, part, generation, vec![], cx);
                }
                Some(hop) => by_hop.entry(hop).or_default().push(span),
                None => self.give_up(duty, &[span], generation, cx),
            }
        }
        let visited: Vec<Rank> = duty.visited().iter().copied().chain(mine).collect();
        let dead = cx.dead_ranks(duty);
        for (hop, mut spans) in by_hop {
            spans.sort_unstable();
            for spans in spans.chunks(Part::MAX_SPANS) {
                let part = Part::Routed {
                    spans: spans.to_vec(),
                    visited: visited.clone(),
                    dead: dead.clone(),
                };
                let tried = tried.iter().copied().chain([hop.peer]).collect();
                self.hand(duty, hop, part, generation, tried, cx);
            }
        }
    }

    /// No way to the heads of these spans is known. A hop reports that to its giver, which may know
    /// another hop. A node that answers for a range excepts only the heads while the budget lasts,
    /// and hands the ranks behind each head to the next ones. So one rank without a way hides no
    /// others.
    pub(super) fn give_up(
        &mut self,
        duty: &mut Duty<I>,
        spans: &[Span],
        generation: u32,
        cx: &mut Context<'_, I>,
    ) {
        for span in spans {
            let is_hop = !duty.visited().is_empty();
            if is_hop || span.len() <= 1 || !self.sender.may_skip() {
                duty.except(unconfirmed(*span, None, Reason::NoRoute), cx);
                continue;
            }
            cx.stats.skipped += 1;
            let head = Span::single(span.start);
            duty.except(unconfirmed(head, None, Reason::NoRoute), cx);
            for heir in duty.heirs(*span) {
                self.delegate(duty, heir, generation.saturating_add(1), cx);
            }
        }
    }

    fn hand(
        &mut self,
        duty: &mut Duty<I>,
        to: NextHop<I>,
        part: Part,
        generation: u32,
        tried: Vec<I>,
        cx: &mut Context<'_, I>,
    ) {
        let number = self.number();
        let first_wait = self.sender.first_wait(to.peer);
        let handed = Delegation::new(to, part, generation, first_wait);
        let (round, handed) = (duty.round, handed);
        let handed = Delegation {
            round,
            tried,
            ..handed
        };
        duty.delegations.insert(number, handed);
        self.sender.send_first(duty, number, cx);
    }
}

/// The way on which a part may go to its head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RouteChoice {
    /// Over a link to the head, which is made if there is none.
    Direct,
    /// Over neighbours, if the head is no neighbour itself.
    Any,
}

/// The reason why a span cannot go from here to the peer at its start; none if it can.
fn obstacle<I: Id>(duty: &Duty<I>, span: Span, peer: I, cx: &mut Context<'_, I>) -> Option<Reason> {
    let absence = cx.absence(peer);
    if absence.is_some() || !cx.peers.is_silent(peer) {
        return absence;
    }
    // Ask the silent peer: any answer shows that it can be reached again.
    let errand = Errand {
        id: duty.key.id,
        epoch: duty.key.epoch,
        strategy: duty.key.strategy,
        round: duty.round,
        part: Part::Range(Span::single(span.start)),
    };
    let name = duty.name_at(span.start);
    cx.out.send(peer, Message::Inquire { errand, name });
    // The giver of a routed part tries another neighbour of that peer.
    Some(Reason::NoRoute).filter(|_| !duty.visited().is_empty())
}

/// Except the head of a span, and return the parts that take the place of the span.
fn pass_over<I: Id>(
    duty: &mut Duty<I>,
    span: Span,
    peer: I,
    reason: Reason,
    cx: &mut Context<'_, I>,
) -> Vec<Span> {
    duty.except(
        unconfirmed(Span::single(span.start), Some(peer), reason),
        cx,
    );
    if span.len() > 1 {
        duty.replace(peer);
    }
    duty.heirs(span)
}
