//! The links of the sibling tree, for routers that use them.
//!
//! [SFT06] §3.1: a node says `hello` to its parent and to its left neighbour, and the rightmost
//! node of a level says it to the leftmost, too. The sender of a `hello` holds the link. The
//! roster, gathered over the binomial graph, tells which peer stands at which rank; there is no
//! directory.

use std::collections::BTreeSet;

use binomesh_overlay::{Epoch, Id, Rank};

use super::context::Context;
use crate::packet::Message;
use crate::sibling_tree::{Fanout, Links, SiblingTree};
use crate::strategy::Strategy;

/// The peers to which this node holds a link of the sibling tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TreeLinks<I> {
    greeted: BTreeSet<I>,
}

impl<I: Id> TreeLinks<I> {
    pub(super) const fn new() -> Self {
        Self {
            greeted: BTreeSet::new(),
        }
    }

    /// The newest roster is complete: hold the links of its epoch's tree, and drop those of an
    /// earlier tree.
    pub(super) fn greet_all(&mut self, cx: &mut Context<'_, I>) {
        if cx.config.router.get().links() != Links::SiblingTree {
            return;
        }
        let Some(view) = cx
            .epochs
            .newest()
            .filter(|view| view.roster().is_complete())
        else {
            return;
        };
        let placement = view.placement();
        let shape = SiblingTree::new(placement.population, cx.config.fanout);
        let peers = shape.hellos(placement.rank);
        let wanted: BTreeSet<I> = peers
            .filter_map(|rank| view.roster().peer_at(rank))
            .filter(|peer| *peer != cx.me)
            .collect();
        for peer in wanted.difference(&self.greeted) {
            cx.out.connect(*peer);
        }
        for peer in self.greeted.difference(&wanted) {
            cx.out.disconnect(*peer);
        }
        self.greeted = wanted;
        for peer in self.greeted.clone() {
            self.greet(peer, cx);
        }
    }

    /// Say `hello` to a peer to which this node holds a link of the tree.
    pub(super) fn greet(&self, peer: I, cx: &mut Context<'_, I>) {
        // Until the newest roster is complete, the held links are those of another epoch.
        let view = cx.epochs.newest();
        let view = view.filter(|view| view.roster().is_complete());
        if let Some(view) = view.filter(|_| self.greeted.contains(&peer)) {
            let placement = view.placement();
            let hello = Message::Hello {
                epoch: placement.epoch,
                rank: placement.rank,
                fanout: cx.config.fanout.get(),
            };
            cx.out.send(peer, hello);
        }
    }

    /// Count the hello of a peer that claims to be a neighbour in the tree. A hello changes nothing
    /// else: its sender holds the link, and a rank is looked up where it is needed. A hello that
    /// does not fit comes from a liar, or from a node with another fanout.
    pub(super) fn on_hello(
        &self,
        from: I,
        epoch: Epoch<I>,
        rank: Rank,
        fanout: u32,
        cx: &mut Context<'_, I>,
    ) {
        let Some(view) = cx.epochs.find(epoch) else {
            return;
        };
        let placement = view.placement();
        let fanout = Some(fanout).filter(|fanout| *fanout <= Strategy::MAX_FANOUT);
        let is_beside = fanout.and_then(Fanout::new).is_some_and(|fanout| {
            let shape = SiblingTree::new(placement.population, fanout);
            rank.is_within(placement.population)
                && shape.hellos(rank).any(|other| other == placement.rank)
        });
        let is_there = view
            .roster()
            .rank_of(from)
            .is_none_or(|known| known == rank);
        if is_beside && is_there {
            cx.stats.hellos += 1;
        } else {
            cx.stats.hellos_rejected += 1;
        }
    }
}
