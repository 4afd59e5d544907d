//! This node's place in one epoch, its tables, and the peers it knows by rank.

use std::sync::Arc;

use binomesh_overlay::{Id, Placement, Rank};

use crate::packet::Message;
use crate::relay::{Effects, View};
use crate::roster::Roster;

/// The place, tables and roster of this node in one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::relay) struct EpochView<I> {
    pub(super) view: View<I>,
    pub(super) roster: Roster<I>,
}

impl<I: Id> EpochView<I> {
    pub(in crate::relay) fn placement(&self) -> Placement<I> {
        self.view.placement
    }

    pub(in crate::relay) fn roster(&self) -> &Roster<I> {
        &self.roster
    }

    /// The distance of a rank from this node, clockwise.
    pub(in crate::relay) fn distance_to(&self, rank: Rank) -> u32 {
        let placement = &self.view.placement;
        placement.rank.distance_to(rank, placement.population)
    }

    /// All known fingers, with their ranks. A finger is the peer 2^i ranks ahead of this node or
    /// behind it, as this node's tables have it.
    pub(in crate::relay) fn fingers(&self) -> impl Iterator<Item = (Rank, I)> + '_ {
        let Placement {
            rank, population, ..
        } = self.view.placement;
        let ahead = (0..population.levels()).zip(&self.view.clockwise);
        let behind = (0..population.levels()).zip(&self.view.counterclockwise);
        ahead
            .filter_map(move |(level, peer)| Some((rank.ahead(1 << level, population), (*peer)?)))
            .chain(behind.filter_map(move |(level, peer)| {
                Some((rank.behind(1 << level, population), (*peer)?))
            }))
    }

    /// The peer that counts as the member at a rank. A finger may claim a second rank. In a
    /// complete roster each peer has one rank. Before that, a peer with two claims counts at
    /// neither.
    pub(in crate::relay) fn name_at(&self, rank: Rank) -> Option<I> {
        let heard = self.roster.peer_at(rank);
        if self.roster.is_complete() {
            return heard;
        }
        let claims = [self.finger_at(rank), heard];
        let mut claims = claims.into_iter().flatten();
        claims.find(|peer| !self.is_elsewhere(*peer, rank))
    }

    /// Whether a peer stands at another rank too, or claims it.
    fn is_elsewhere(&self, peer: I, rank: Rank) -> bool {
        let mut claimed = self.fingers().filter(|(_, holder)| *holder == peer);
        self.roster.rank_of(peer).is_some_and(|at| at != rank) || claimed.any(|(at, _)| at != rank)
    }

    /// The rank of a peer. The roster gives each peer one rank; else a finger's rank counts.
    pub(in crate::relay) fn rank_of(&self, peer: I) -> Option<Rank> {
        self.roster.rank_of(peer).or_else(|| {
            let finger = self.fingers().find(|(_, holder)| *holder == peer);
            finger.map(|(rank, _)| rank)
        })
    }

    /// The finger that holds a rank, unless it denied that rank.
    pub(in crate::relay) fn finger_at(&self, rank: Rank) -> Option<I> {
        let holder = self.fingers().find(|(at, _)| *at == rank);
        holder
            .map(|(_, peer)| peer)
            .filter(|_| !self.roster.is_denied(rank))
    }

    /// The known peers by rank, from the roster and the tables.
    pub(in crate::relay) fn names(&self) -> Arc<Vec<Option<I>>> {
        if !self.roster.is_tracked() || self.roster.is_complete() {
            return self.roster.peers();
        }
        let ranks = 0..self.view.placement.population.get();
        Arc::new(ranks.map(|rank| self.name_at(Rank(rank))).collect())
    }

    pub(super) fn learn_from_fingers(&mut self) {
        let fingers: Vec<(Rank, I)> = self.fingers().collect();
        self.roster.extend(|rank| {
            let at = fingers.iter().find(|(at, _)| *at == rank);
            at.map(|(_, peer)| *peer)
        });
    }

    pub(super) fn ask_roster(&self, attempt: u32, out: &mut Effects<I>) {
        let epoch = self.placement().epoch;
        let View {
            clockwise,
            counterclockwise,
            ..
        } = &self.view;
        let next = self.roster.next_ask(clockwise, counterclockwise, attempt);
        if let Some((peer, start, count)) = next {
            let ask = Message::RosterAsk {
                epoch,
                start,
                count,
            };
            out.send(peer, ask);
        }
    }

    /// The peer to send to for a rank: a finger, or the peer in the roster unless that one is
    /// doubted. After a denial of the rank there is none. If several peers claim the rank, the peer
    /// `meant` is preferred.
    pub(in crate::relay) fn hop_at(&self, rank: Rank, meant: Option<I>) -> Option<I> {
        let claims = self.fingers().filter(|(at, _)| *at == rank);
        let claims = claims.filter(|_| !self.roster.is_denied(rank));
        let heard = self.roster.peer_at(rank);
        let heard = heard.filter(|_| !self.roster.is_doubted(rank));
        let mut holders = claims.map(|(_, peer)| peer).chain(heard);
        let first = holders.next();
        if first.is_none() || meant.is_none() || first == meant {
            return first;
        }
        holders.find(|peer| Some(*peer) == meant).or(first)
    }

    /// Doubt the peer at a rank if it is known by hearsay alone. Returns whether the doubt is new.
    pub(in crate::relay) fn doubt_hearsay(&mut self, rank: Rank) -> bool {
        let is_hearsay = self.finger_at(rank).is_none() && !self.roster.is_doubted(rank);
        if is_hearsay {
            self.roster.doubt(rank);
        }
        is_hearsay
    }

    pub(in crate::relay) fn deny(&mut self, rank: Rank) {
        self.roster.deny(rank);
    }

    pub(in crate::relay) fn forget_denials(&mut self) {
        self.roster.forget_denials();
    }
}
