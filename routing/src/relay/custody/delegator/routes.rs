//! The next hops of routed parts: the router's choice among the usable neighbours.
//!
//! A packet does not carry its way back. The giver of a part keeps it, is told that there is no
//! route, and tries another neighbour (see `results`).

use binomesh_overlay::{Id, Rank};

use super::NextHop;
use crate::packet::{Part, Span};
use crate::relay::Config;
use crate::relay::context::Context;
use crate::relay::custody::delegation::Delegation;
use crate::relay::custody::duty::Duty;
use crate::relay::epochs::EpochView;
use crate::router::{RankSet, Reserve, Step, binomial, pick};
use crate::sibling_tree::{Links, SiblingTree};

impl<I: Id> Context<'_, I> {
    /// The neighbour to which a span goes next. It is not in the transit list, not in `tried`, not
    /// silent and not known to be down. `None` if there is none, or if the part has taken too many
    /// hops.
    pub(in crate::relay::custody) fn next_hop(
        &self,
        duty: &Duty<I>,
        span: Span,
        tried: &[I],
    ) -> Option<NextHop<I>> {
        let view = self.epochs.find(duty.key.epoch)?;
        let shape = SiblingTree::new(duty.population, self.config.fanout);
        let router = self.config.router.get();
        let here = view.placement().rank;
        let to = duty.rank_at_start(span);
        let start = duty.visited().first().copied().unwrap_or(here);
        let distance = start.distance_to(to, duty.population);
        let over_fingers = binomial::hops(distance, duty.population);
        let shortest = over_fingers.max(router.cost(&shape, start, to));
        let longest = shortest.saturating_add(Config::ROUTE_DETOURS) as usize;
        if duty.visited().len() >= longest.min(Part::MAX_VISITED) {
            return None;
        }
        let origin = [duty.origin_rank];
        let visited: RankSet = duty.visited().iter().copied().chain(origin).collect();
        let useless = self.useless(view, &shape, tried);
        // For the head of the span itself neither a report that it is dead counts, nor its
        // lateness.
        let told = duty.dead().iter().copied().filter(|rank| *rank != to);
        let late = duty
            .ranks_without_custody()
            .filter(|rank| *rank != to && !tried.is_empty());
        let told: RankSet = told.chain(late).chain(useless.iter()).collect();
        // Ranks that other nodes report as dead are a hint. So are peers that have not answered
        // this node, once another hop was tried. If these leave no way, the hints are ignored.
        [told, useless].iter().find_map(|dead| {
            let step = Step {
                shape: &shape,
                here,
                to,
                links: router.links(),
                visited: &visited,
                closed: &visited,
                sender: None,
                dead,
            };
            let next = pick(router, &step, Reserve::BinomialGraph)?;
            Some(NextHop {
                rank: next,
                peer: view.hop_at(next, None)?,
            })
        })
    }

    /// The neighbouring ranks that are unusable as a hop now, and all ranks known here to be dead.
    fn useless(&self, view: &EpochView<I>, shape: &SiblingTree, tried: &[I]) -> RankSet {
        let here = view.placement().rank;
        let is_usable = |rank: Rank| {
            let peer = view.hop_at(rank, None);
            peer.is_some_and(|peer| {
                self.absence(peer).is_none()
                    && !self.peers.is_silent(peer)
                    && !tried.contains(&peer)
                    && peer != self.me
            })
        };
        let all = [Links::SiblingTree, Links::BinomialGraph];
        let beside = all.iter().flat_map(|links| shape.neighbours(here, *links));
        let beside = beside.filter(|rank| !is_usable(*rank));
        beside.chain(self.dead_in(view)).collect()
    }

    /// The ranks of the peers that are called down. Silent peers are not among them.
    fn dead_in<'a>(&'a self, view: &'a EpochView<I>) -> impl Iterator<Item = Rank> + 'a {
        let down = self.peers.down();
        down.filter_map(|peer| view.roster().rank_of(peer))
    }

    /// The dead ranks that a routed part carries on: those it came with, and those known here.
    pub(in crate::relay::custody) fn dead_ranks(&self, duty: &Duty<I>) -> Vec<Rank> {
        let Some(view) = self.epochs.find(duty.key.epoch) else {
            return Vec::new();
        };
        let dead: RankSet = (duty.dead().iter().copied())
            .chain(self.dead_in(view))
            .collect();
        dead.iter().take(Part::MAX_DEAD).collect()
    }

    /// Whether a part goes by strategy `sibling-tree`, and its head is neither a neighbour of this
    /// node in that tree nor a finger of this node.
    pub(in crate::relay::custody) fn is_far(&self, duty: &Duty<I>, head: Rank) -> bool {
        let (Some(view), Some(layout)) = (self.epochs.find(duty.key.epoch), duty.layout()) else {
            return false;
        };
        let here = view.placement().rank;
        layout.is_far(here, head) && view.finger_at(head).is_none()
    }

    /// Whether the peers at the starts of all spans are known.
    pub(in crate::relay::custody) fn knows_heads(&self, duty: &Duty<I>, spans: &[Span]) -> bool {
        spans.iter().all(|span| self.head_of(duty, *span).is_some())
    }

    /// Whether all spans can be handed directly to the peers at their starts, without a detour.
    pub(in crate::relay::custody) fn reaches_heads(&self, duty: &Duty<I>, spans: &[Span]) -> bool {
        let is_silent = |peer: I| self.peers.is_silent(peer);
        let mut heads = spans.iter().map(|span| self.head_of(duty, *span));
        heads.all(|head| head.is_some_and(|head| !is_silent(head.peer)))
    }

    /// The first rank of a span, with its peer. None if the span is empty, the epoch is not kept,
    /// or the peer is unknown or this node itself.
    pub(in crate::relay::custody) fn head_of(
        &self,
        duty: &Duty<I>,
        span: Span,
    ) -> Option<NextHop<I>> {
        if span.is_empty() {
            return None;
        }
        let rank = duty.rank_at_start(span);
        let view = self.epochs.find(duty.key.epoch)?;
        let peer = view.hop_at(rank, duty.name_at(span.start))?;
        Some(NextHop { rank, peer }).filter(|_| peer != self.me)
    }

    /// Whether another next hop exists for the first span of a routed part, and may be tried.
    pub(in crate::relay::custody) fn has_detour(
        &self,
        duty: &Duty<I>,
        delegation: &Delegation<I>,
    ) -> bool {
        let first = delegation.part.spans().first();
        delegation.tried.len() < Config::ROUTE_TRIES
            && first.is_some_and(|span| self.next_hop(duty, *span, &delegation.tried).is_some())
    }
}
