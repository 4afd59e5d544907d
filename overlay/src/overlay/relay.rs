//! Neighbours that this node cannot reach while others can: a firewall stands between the two, or a
//! route is broken. Beats and messages of ring and fingers to such a neighbour are carried by the
//! peer that *vouched* for it: the peer that said that the neighbour is alive.

use super::{Moved, Out, Overlay};
use crate::relayed::{Carried, Message};
use crate::{Id, detector};

impl<I: Id> Overlay<I> {
    /// The neighbours that this node cannot reach, each with the peer that carries messages to it.
    pub fn relayed(&self) -> impl Iterator<Item = (I, I)> + '_ {
        self.relayed.iter().map(|(peer, by)| (*peer, *by))
    }

    /// Note that `from` has heard a silent neighbour.
    pub(super) fn note_voucher(&mut self, from: I, message: &detector::Message<I>) {
        if let detector::Message::Alive(peer) = message
            && self.claimed.contains(peer)
            && self.detector.is_suspect(*peer)
        {
            self.vouchers.insert(*peer, from);
        }
    }

    /// This neighbour lives, but this node cannot reach it: if a peer has vouched for it, that peer
    /// carries messages to it from now on.
    pub(super) fn relay_to(&mut self, peer: I) {
        if let Some(by) = self.vouchers.remove(&peer) {
            self.relayed.insert(peer, by);
        }
    }

    /// Whether messages of this peer come over a link between the peer and this node.
    fn has_link(&self, peer: I) -> bool {
        self.boots.contains_key(&peer) && !self.unlinked.contains(&peer)
    }

    /// The link to this peer is down, or brings no messages.
    pub(super) fn note_unlinked(&mut self, peer: I) {
        if self.boots.contains_key(&peer) {
            self.unlinked.insert(peer);
        }
    }

    /// Carry a message on, or take one that was carried.
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
                // A node with a link to the sender hears the sender itself.
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

    /// Ping the unreached peers directly, too: the way may be open again.
    pub(super) fn try_unreached(&self, out: &mut Out<I>) {
        for peer in self.relayed.keys() {
            out.send(*peer, detector::Message::Ping { asker: None });
        }
    }

    /// Redirect messages to unreached peers, if they can be carried, to the peers that carry them.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::overlay::{Input, Timer};
    use crate::tree::{Ancestor, Lead, RootKey, SiblingOrder};
    use crate::{Effect, Overlay, ring, tree};

    /// Node 0, a leaf under root 9.
    struct Bed {
        node: Overlay<u32>,
        out: Out<u32>,
    }

    impl Bed {
        fn new() -> Self {
            let mut config = Config::new(0, 1, 1);
            config.parent = Some(9);
            let mut bed = Self {
                node: Overlay::new(config),
                out: Out::new(),
            };
            bed.give(Input::Start);
            let order = SiblingOrder::default();
            let root = RootKey {
                weight: 1,
                priority: 100,
                id: 9,
            };
            let lead = Lead {
                path: [Ancestor { id: 9, order }].into_iter().collect(),
                order: SiblingOrder::slot(1),
                root,
                heirs: [0].into_iter().collect(),
                anchored: true,
            };
            let message = tree::Message::Lead(lead).into();
            bed.give(Input::Message { from: 9, message });
            bed
        }

        fn give(&mut self, input: Input<u32>) -> Vec<(u32, crate::Message<u32>)> {
            self.node.handle(input, &mut self.out);
            let sends = self.out.drain().filter_map(|effect| match effect {
                Effect::Send { to, message } => Some((to, message)),
                _ => None,
            });
            sends.collect()
        }

        fn hear(&mut self, from: u32, message: Message<u32>) -> Vec<(u32, crate::Message<u32>)> {
            let message = message.into();
            self.give(Input::Message { from, message })
        }
    }

    fn word() -> Carried<u32> {
        Carried::Ring(ring::Message::BConnect)
    }

    #[test]
    fn a_word_is_carried_over_a_link_and_to_nobody_else() {
        let mut bed = Bed::new();
        bed.give(Input::LinkUp { peer: 2, boot: 1 });
        let to = |to| Message::To {
            to,
            carried: word(),
        };
        let carried = Message::From {
            from: 1,
            carried: word(),
        };
        assert_eq!(bed.hear(1, to(2)), [(2, carried.into())]);
        for nobody in [0, 1, 3] {
            assert_eq!(bed.hear(1, to(nobody)), [], "{nobody}");
        }
        bed.give(Input::LinkDown { peer: 2 });
        assert_eq!(bed.hear(1, to(2)), []);
    }

    #[test]
    fn a_carried_word_is_taken_only_without_a_link_to_its_speaker() {
        let mut bed = Bed::new();
        let from = |from| Message::From {
            from,
            carried: word(),
        };
        bed.give(Input::LinkUp { peer: 1, boot: 1 });
        bed.hear(5, from(1));
        bed.hear(5, from(5));
        bed.hear(5, from(0));
        assert_eq!(
            bed.node.ring().predecessor.or(bed.node.ring().successor),
            None
        );
        bed.hear(5, from(7));
        assert_eq!(
            bed.node.ring().predecessor.or(bed.node.ring().successor),
            Some(7)
        );
        assert!(bed.node.relayed().eq([(7, 5)]));
    }

    #[test]
    fn words_go_round_until_the_peer_is_heard_itself() {
        let mut bed = Bed::new();
        bed.hear(
            5,
            Message::From {
                from: 7,
                carried: word(),
            },
        );
        let beat = Input::Timer {
            timer: Timer::Beat,
            late: std::time::Duration::ZERO,
        };
        let said = bed.give(beat.clone());
        let ping = detector::Message::Ping { asker: None };
        assert!(said.contains(&(7, ping.clone().into())), "{said:?}");
        let round = |(to, message): &(u32, crate::Message<u32>)| {
            let is_for_seven =
                matches!(message, crate::Message::Relayed(Message::To { to: 7, .. }));
            *to == 5 && is_for_seven
        };
        assert!(said.iter().any(round), "{said:?}");
        bed.give(Input::Message {
            from: 7,
            message: ping.into(),
        });
        assert_eq!(bed.node.relayed().count(), 0);
        assert!(!bed.give(beat).iter().any(round));
    }
}
