//! Departures: the words of a peer that leaves, and their effect here. Its parent and children get
//! an unsigned Leave, and all links a signed goodbye. Which goodbyes are kept: see `goodbye`.

use super::{Detector, Links, Verdict};
use crate::Id;
use crate::message::detector::{Goodbye, Message, Rumour};
use crate::seam::Out;

impl<I: Id> Detector<I> {
    /// This life of a peer tells its neighbours that it ends: it is down, and other nodes are told.
    /// Returns whether that is news.
    pub fn on_leave(&mut self, peer: I, boot: u64, out: &mut Out<I>) -> bool {
        if self.is_down(peer) {
            return false;
        }
        self.silent.remove(&peer);
        self.asked.remove(&peer);
        self.rumours.accuse(peer, boot, None);
        self.share(out);
        true
    }

    /// This node leaves: it tells all its claimed links, and they tell all others.
    pub fn leave(&self, proof: &[u8], links: &Links<'_, I>, out: &mut Out<I>) {
        for peer in links.claimed {
            let (me, boot, proof) = (self.me, self.boot, proof.to_vec());
            let goodbye = Goodbye {
                peer: me,
                boot,
                proof,
            };
            out.send(*peer, Message::Goodbye(goodbye));
        }
    }

    /// Whether this node may believe the goodbye if it is proven. `link` is the last known life of
    /// the peer, if this node has or had a link to it.
    pub fn is_news(&self, goodbye: &Goodbye<I>, link: Option<u64>) -> bool {
        let Goodbye { peer, boot, .. } = *goodbye;
        // A goodbye says nothing about a later life.
        peer != self.me && link <= Some(boot) && self.goodbyes.is_news(peer, boot)
    }

    /// Whether the goodbye is of an earlier life: of this node itself, or of a peer with a claimed
    /// link.
    pub fn is_outdated(&self, goodbye: &Goodbye<I>, links: &Links<'_, I>) -> bool {
        let Goodbye { peer, boot, .. } = *goodbye;
        let linked = links.boots.get(&peer);
        let linked = linked.filter(|_| links.claimed.contains(&peer));
        let is_mine = peer == self.me && boot < self.boot;
        is_mine || linked.is_some_and(|linked| *linked > boot)
    }

    pub(super) fn on_goodbye(
        &mut self,
        from: I,
        goodbye: Goodbye<I>,
        links: &Links<'_, I>,
        out: &mut Out<I>,
    ) -> Vec<(I, Verdict)> {
        let Goodbye { peer, boot, .. } = goodbye;
        let link = links.boots.get(&peer).copied();
        if !self.is_news(&goodbye, link) {
            return Vec::new();
        }
        if !self.rumours.end(peer, boot) {
            // The sender may have missed the return of that peer.
            let answer = self.rumours.answer_to(&goodbye.rumour());
            if let Some(answer) = answer {
                out.send(from, Message::Rumours(vec![answer]));
            }
            return Vec::new();
        }
        self.silent.remove(&peer);
        self.asked.remove(&peer);
        if link.is_some_and(|link| link < boot) && links.claimed.contains(&peer) {
            // The process at that link may not know of its own later life.
            out.send(peer, Message::Goodbye(goodbye.clone()));
        }
        // The life behind a claimed link may be unknown, after a false verdict for example.
        let is_linked = link.map_or(links.claimed.contains(&peer), |link| link == boot);
        let displaced = self.goodbyes.enter(goodbye, is_linked);
        self.share(out);
        let displaced = displaced.map(|peer| (peer, Verdict::Forgotten));
        displaced
            .into_iter()
            .chain([(peer, Verdict::Left(boot))])
            .collect()
    }

    /// The answer to an accusation of a peer that has left in that life, or later: its goodbye.
    pub(super) fn goodbye_to(&self, accusation: &Rumour<I>) -> Option<Goodbye<I>> {
        let goodbye = self.goodbyes.proven(accusation.peer)?;
        (goodbye.boot >= accusation.boot).then_some(goodbye)
    }

    /// Ask about all goodbyes again: this node has joined other nodes, which may have heard of a
    /// return earlier.
    pub fn doubt_goodbyes(&mut self) {
        self.goodbyes.doubt_all();
    }
}
