//! Receipts compared with the books: ranks that are called delivered, lines, and members that
//! stayed and were given up.

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh::world::Id;
use binomesh_overlay::{Placement, Rank};
use binomesh_routing::Receipt;
use binomesh_routing::packet::{Reason, State};

use super::{Accepted, Audience, Checker};
use crate::command::chaos::violation::{Name, Violation};

impl Checker {
    /// Check that a holder of each rank that the receipt of a broadcast calls delivered has
    /// delivered. A rank that no peer ever held needs one of the peers of `named_alone` instead, a
    /// different one for each such rank. With `with_names`, and always for a message to some
    /// members, also check that each peer that is named as reached has delivered.
    pub(super) fn judge_reached(
        &self,
        accepted: &Accepted,
        receipt: &Receipt<Id>,
        with_names: bool,
        found: &mut Vec<Violation>,
    ) {
        let message = Name(receipt.id);
        let mut named_alone = self.named_alone(accepted, receipt);
        // A message to some members goes by their names. The ranks in its receipt come from the
        // origin's roster and may be hearsay.
        let by_rank = accepted.audience == Audience::Members;
        for rank in reached(receipt).filter(|_| by_rank) {
            let holders: Vec<Id> = self.at(receipt.epoch, rank, accepted.at).collect();
            let is_true = match holders.is_empty() {
                true => named_alone.next().is_some(),
                false => holders.iter().any(|id| self.has_delivered(receipt.id, *id)),
            };
            if !is_true {
                let (rank, peer) = (rank.0, holders.first().copied());
                found.push(Violation::FalselyDelivered {
                    message,
                    rank,
                    peer,
                });
            }
        }
        let with_names = with_names || !by_rank;
        for peer in receipt.reached_peers.iter().filter(|_| with_names) {
            if !self.has_delivered(receipt.id, *peer) {
                let (peer, rank) = (Some(*peer), 0);
                found.push(Violation::FalselyDelivered {
                    message,
                    rank,
                    peer,
                });
            }
        }
    }

    /// The peers that a receipt rightly names as reached, but that held none of its reached ranks.
    /// Each may stand for a rank that no peer ever held. In an epoch that corruption made up, the
    /// origin means the peers that its corrupted tables name.
    fn named_alone(
        &self,
        accepted: &Accepted,
        receipt: &Receipt<Id>,
    ) -> impl Iterator<Item = Id> + '_ {
        let holders = reached(receipt).flat_map(|rank| self.at(receipt.epoch, rank, accepted.at));
        let holders: BTreeSet<Id> = holders.collect();
        let named: BTreeSet<Id> = receipt.reached_peers.iter().copied().collect();
        let alone: Vec<Id> = named.difference(&holders).copied().collect();
        let message = receipt.id;
        let has_delivered = move |id: &Id| self.has_delivered(message, *id);
        alone.into_iter().filter(has_delivered)
    }

    /// Remove from `wrong` the ranks falsely called delivered that liars explain. Each liar that
    /// has delivered may stand for one member that was not there all the time. In a broadcast that
    /// was issued by name in a later epoch (docs/relay.md, *Limits*), a liar that was started again
    /// since its lie may also stand for a member that was there. This liar had claimed the rank,
    /// and takes the copy because it has forgotten its place.
    pub(super) fn excuse_liars(
        &self,
        accepted: &Accepted,
        closed: Duration,
        receipt: &Receipt<Id>,
        wrong: &mut Vec<Violation>,
    ) {
        if accepted.audience != Audience::Members {
            // By name no peer stands for another.
            return;
        }
        let has_lied = |since: Duration| since <= closed;
        let liars = self.liars.iter().filter(|(_, since)| has_lied(**since));
        let liars = liars.filter(|(id, _)| self.has_delivered(receipt.id, **id));
        let stood = self.stood(receipt.id, accepted.at, closed);
        let mut stood = stood.skip_while(|placement| placement.epoch != receipt.epoch);
        let has_moved = stood.any(|placement| placement.epoch != receipt.epoch);
        let (forgetful, others): (Vec<_>, Vec<_>) =
            liars.partition(|(id, since)| has_moved && self.delivered_anew(**id, **since, receipt));
        let (mut forgetful, mut others) = (forgetful.len(), others.len());
        wrong.retain(|violation| {
            let Violation::FalselyDelivered { rank, .. } = violation else {
                return true;
            };
            let mut holders = self.at(receipt.epoch, Rank(*rank), accepted.at);
            let is_there = holders
                .any(|id| self.was_up(id, accepted.at, closed) && self.had_place(id, accepted));
            let left = match !is_there && others > 0 {
                true => &mut others,
                false => &mut forgetful,
            };
            let is_excused = *left > 0;
            *left -= usize::from(is_excused);
            !is_excused
        });
    }

    /// Check the lines of a receipt. Each expected member has exactly one. No line of a broadcast
    /// has a wrong name. No member that has delivered is called refused.
    pub(super) fn judge_lines(
        &self,
        accepted: &Accepted,
        closed: Duration,
        receipt: &Receipt<Id>,
        found: &mut Vec<Violation>,
    ) {
        match &accepted.audience {
            Audience::Members => self.judge_ranks(accepted, closed, receipt, found),
            Audience::Peers(peers) => self.judge_names(accepted, peers, receipt, found),
        }
    }

    /// Check the lines of a message to some members, by names.
    fn judge_names(
        &self,
        accepted: &Accepted,
        peers: &BTreeSet<Id>,
        receipt: &Receipt<Id>,
        found: &mut Vec<Violation>,
    ) {
        let message = Name(receipt.id);
        let placement = accepted.placement;
        let is_member = |id: &&Id| {
            let first = self.firsts.get(&(placement.epoch, **id));
            first.is_some_and(|rank| *rank != placement.rank)
        };
        let expected: BTreeSet<Id> = peers.iter().filter(is_member).copied().collect();
        let unreached = receipt.unreached.iter().filter_map(|line| line.peer);
        let named: Vec<Id> = receipt
            .reached_peers
            .iter()
            .copied()
            .chain(unreached)
            .collect();
        let lines = receipt.reached_count as usize + receipt.unreached.len();
        let is_exact = named.iter().copied().collect::<BTreeSet<Id>>() == expected
            && [named.len(), lines, receipt.expected_count as usize] == [expected.len(); 3]
            && (receipt.epoch, receipt.origin_rank) == (placement.epoch, placement.rank);
        if !is_exact {
            found.push(Violation::WrongLines {
                message,
                expected: expected.len(),
                named: named.len(),
            });
        }
        for line in receipt
            .unreached
            .iter()
            .filter(|line| line.state == State::Refused)
        {
            let delivered = |peer: Id| self.has_delivered(receipt.id, peer);
            if let (Some(rank), true) = (line.rank, line.peer.is_some_and(delivered)) {
                let rank = rank.0;
                found.push(Violation::FalselyRefused { message, rank });
            }
        }
    }

    /// Check the lines of a broadcast, by ranks.
    fn judge_ranks(
        &self,
        accepted: &Accepted,
        closed: Duration,
        receipt: &Receipt<Id>,
        found: &mut Vec<Violation>,
    ) {
        let (message, epoch) = (Name(receipt.id), receipt.epoch);
        let mut named = BTreeSet::new();
        let reached: Vec<Rank> = reached(receipt).collect();
        for rank in &reached {
            if !named.insert(*rank) {
                let rank = rank.0;
                found.push(Violation::NamedTwice { message, rank });
            }
        }
        for line in &receipt.unreached {
            let Some(at) = line.rank else {
                let peer = line.peer;
                found.push(Violation::NotExpected { message, peer });
                continue;
            };
            let rank = at.0;
            if !named.insert(at) {
                found.push(Violation::NamedTwice { message, rank });
            }
            let mut holders = self.at(epoch, at, accepted.at);
            if line.state == State::Refused && holders.any(|id| self.has_delivered(receipt.id, id))
            {
                found.push(Violation::FalselyRefused { message, rank });
            }
            let is_wrong = |peer: Id| !self.at(epoch, at, accepted.at).any(|id| id == peer);
            if let Some(peer) = line.peer.filter(|peer| is_wrong(*peer)) {
                found.push(Violation::WrongName {
                    message,
                    rank,
                    peer,
                });
            }
        }
        let placement = self.issued_in(accepted, closed, receipt);
        let Placement {
            population, rank, ..
        } = placement.unwrap_or(accepted.placement);
        let others = (0..population.get()).map(Rank);
        let mut expected: BTreeSet<Rank> = others.filter(|other| *other != rank).collect();
        let counted = receipt.expected_count as usize;
        self.judge_goodbyes(accepted, closed, receipt, &named, found);
        let may_lack = |rank: &Rank| self.had_left(accepted, closed, receipt, *rank);
        expected.retain(|rank| named.contains(rank) || !may_lack(rank));
        let is_exact = named == expected
            && counted == expected.len()
            && receipt.reached_count as usize == reached.len()
            && placement.is_some();
        if !is_exact {
            found.push(Violation::WrongLines {
                message,
                expected: expected.len(),
                named: named.len(),
            });
        }
    }

    /// A member that stayed up from the publication to the receipt must be reached. Exceptions: the
    /// deadline came before; the member is called down, and was hard to reach or had just been
    /// started again; or an epoch of the origin left the member out, as the origin was not
    /// connected with it. Returns how many members were given up because their names were not
    /// learnt, which is no violation.
    pub(super) fn judge_reach(
        &self,
        accepted: &Accepted,
        closed: Duration,
        receipt: &Receipt<Id>,
        found: &mut Vec<Violation>,
    ) -> u64 {
        let mut unnamed = 0;
        for line in &receipt.unreached {
            let Some(rank) = line.rank.filter(|_| line.reason != Reason::Deadline) else {
                continue;
            };
            let stayed = self.at(receipt.epoch, rank, accepted.at).find(|id| {
                let was_away =
                    self.was_hindered(*id, accepted.at, closed) || !self.had_place(*id, accepted);
                let may_be_down = line.reason == Reason::Down && was_away;
                !may_be_down
                    && self.was_up(*id, accepted.at, closed)
                    && self.was_member(*id, receipt.id, accepted.at, closed)
            });
            if line.peer.is_none() && line.reason == Reason::Epoch {
                unnamed += u64::from(stayed.is_some());
            } else if let Some(peer) = stayed {
                found.push(Violation::Forsaken {
                    message: Name(receipt.id),
                    peer,
                    state: line.state,
                    reason: line.reason,
                });
            }
        }
        unnamed
    }
}

/// The ranks that a receipt calls delivered.
fn reached(receipt: &Receipt<Id>) -> impl Iterator<Item = Rank> + '_ {
    let runs = receipt.reached.iter();
    runs.flat_map(|run| (run.first.0..=run.last.0).map(Rank))
}
