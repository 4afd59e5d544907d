//! Neighbours that this node cannot reach while others can: a firewall stands
//! between the two, or a route is broken. What ring and fingers have to say to
//! them is carried by whoever vouched for them.

use super::{Moved, Out, Overlay};
use crate::relayed::{Carried, Message};
use crate::{Id, detector};

impl<I: Id> Overlay<I> {
    /// The peers that this node cannot reach though it should, and who carries
    /// its words to them.
    pub fn relayed(&self) -> impl Iterator<Item = (I, I)> + '_ {
        self.relayed.iter().map(|(peer, by)| (*peer, *by))
    }

    /// Somebody has heard a silent neighbour.
    pub(super) fn note_voucher(&mut self, from: I, message: &detector::Message<I>) {
        if let detector::Message::Alive(peer) = message
            && self.claimed.contains(peer)
            && self.detector.is_suspect(*peer)
        {
            self.vouchers.insert(*peer, from);
        }
    }

    /// This neighbour lives, but not for this node.
    pub(super) fn relay_to(&mut self, peer: I) {
        if let Some(by) = self.vouchers.remove(&peer) {
            self.relayed.insert(peer, by);
        }
    }

    /// Whether words from this peer come over a link of its own.
    fn has_link(&self, peer: I) -> bool {
        self.boots.contains_key(&peer) && !self.unlinked.contains(&peer)
    }

    /// The link to this peer is down, or as good as that.
    pub(super) fn note_unlinked(&mut self, peer: I) {
        if self.boots.contains_key(&peer) {
            self.unlinked.insert(peer);
        }
    }

    /// Carry a word on, or take one that was carried.
    pub(super) fn on_relayed(
        &mut self,
        by: I,
        message: Message<I>,
        moved: &mut Moved,
        out: &mut Out<I>,
    ) {
        match message {
            Message::To { to, carried } => {
                if to != self.config.me && to != by && self.has_link(to) {
                    out.send(to, Message::From { from: by, carried });
                }
            }
            Message::From { from, carried } => {
                // Who has a link to the speaker hears it itself.
                if from == self.config.me || from == by || self.has_link(from) {
                    return;
                }
                self.detector.on_carried(from);
                self.take(from, carried.into(), moved, out);
                self.relayed.insert(from, by);
                moved.links = true;
            }
        }
    }

    /// Ask directly, too: the way may be open again.
    pub(super) fn try_unreached(&self, out: &mut Out<I>) {
        for peer in self.relayed.keys() {
            out.send(*peer, detector::Message::Ping { asker: None });
        }
    }

    /// What is said to those that cannot be reached goes round.
    pub(super) fn go_round(&self, out: &mut Out<I>) {
        if self.relayed.is_empty() {
            return;
        }
        out.reroute(|to, message| {
            if let Some(by) = self.relayed.get(to)
                && let Some(carried) = Carried::of(message)
            {
                let unreached = std::mem::replace(to, *by);
                *message = Message::To {
                    to: unreached,
                    carried,
                }
                .into();
            }
        });
    }
}
