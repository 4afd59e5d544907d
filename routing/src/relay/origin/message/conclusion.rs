//! The receipt of a message.

use binomesh_overlay::{Id, Rank};

use super::OpenMessage;
use crate::packet::{Exception, Reason, Span, State};
use crate::relay::epochs::Epochs;
use crate::relay::{RankRun, Receipt, Unreached};
use crate::runs::Runs;

impl<I: Id> OpenMessage<I> {
    /// The receipt of the present state. Outstanding members are unconfirmed, for `reason`, or else
    /// for the reason that the last round gave.
    pub(in crate::relay::origin) fn receipt(
        &self,
        reason: Option<Reason>,
        epochs: &Epochs<I>,
    ) -> Receipt<I> {
        let population = self.accepted.population;
        let rank_at = |at: u32| {
            let rank = self.accepted.rank.ahead(at, population);
            Some(rank).filter(|_| !self.is_awaited(at))
        };
        let doubt = |at: u32| {
            let covers = |doubt: &&Exception<I>| doubt.span.covers(Span::single(at));
            self.doubts
                .iter()
                .rev()
                .find(covers)
                .map(|doubt| doubt.reason)
        };
        let mut unreached: Vec<Unreached<I>> = self
            .outstanding()
            .iter()
            .map(|at| Unreached {
                rank: rank_at(at),
                peer: self.peer_at(at, epochs),
                state: State::Unconfirmed,
                reason: reason.or_else(|| doubt(at)).unwrap_or(Reason::NoRoute),
            })
            .collect();
        for (at, (peer, state, reason)) in &self.settled {
            if !self.reached.contains(*at) {
                unreached.push(Unreached {
                    rank: rank_at(*at),
                    peer: peer.or_else(|| self.peer_at(*at, epochs)),
                    state: *state,
                    reason: *reason,
                });
            }
        }
        unreached.sort_by_key(|member| member.rank);
        let reached_ranks = self.reached.iter().filter_map(rank_at);
        let ranks: Runs = reached_ranks.map(|rank| Span::single(rank.0)).collect();
        let returned = self.reached.iter().filter(|at| self.is_awaited(*at));
        let returned = returned.filter_map(|at| self.peer_at(at, epochs));
        let peer_of = |rank: u32| {
            let at = self.accepted.rank.distance_to(Rank(rank), population);
            self.peer_at(at, epochs)
        };
        Receipt {
            id: self.id,
            count: self.payloads.count(),
            epoch: self.accepted.epoch,
            origin_rank: self.accepted.rank,
            population,
            expected_count: self.expected.len(),
            reached_count: self.reached.len(),
            reached_peers: ranks.iter().filter_map(peer_of).chain(returned).collect(),
            reached: ranks
                .spans()
                .iter()
                .map(|run| RankRun {
                    first: Rank(run.start),
                    last: Rank(run.end - 1),
                })
                .collect(),
            unreached,
            redelegated: self.redelegated,
            replaced: self.replaced.iter().copied().collect(),
        }
    }
}
