//! Verdicts that may be out of date: a node may have missed a message, or may have been away when it
//! was sent. So nodes ask each other about peers that are down, and tell new links which are.

use super::silence::Silence;
use super::{Detector, Links, MAX_ASKED_AFTER, REMIND, Verdict};
use crate::Id;
use crate::message::detector::{MAX_TOLD, Message, Rumour};
use crate::seam::Out;

impl<I: Id> Detector<I> {
    /// After a pause of this very process the silence of a peer means nothing, and the rumours and
    /// verdicts from before may be out of date: other nodes are asked about them.
    pub fn forgive(&mut self, links: &Links<'_, I>, out: &mut Out<I>) {
        self.silent.retain(|_, silence| !silence.is_roused);
        let all = self.silent.values_mut();
        all.for_each(Silence::end);
        self.asked.values_mut().for_each(|waited| *waited = false);
        self.rumours.doubt_witnessed();
        self.remind(links, out);
    }

    /// Repeat an accusation to each accused peer that this node has heard after the accusation: the
    /// peer may have missed it. Ask one linked peer about other accused peers and about peers that
    /// have left: this node may have missed an answer.
    pub(super) fn remind(&self, links: &Links<'_, I>, out: &mut Out<I>) {
        for accusation in self.rumours.contradicted().take(MAX_TOLD) {
            if links.claimed.contains(&accusation.peer) {
                out.send(accusation.peer, Message::Rumours(vec![accusation]));
            }
        }
        let turn = (self.beats / REMIND) as usize;
        // A peer that has left may have returned in a later life, unknown to this node.
        let gone = self
            .goodbyes
            .rumours(turn.wrapping_mul(MAX_ASKED_AFTER), MAX_ASKED_AFTER);
        let all: Vec<Rumour<I>> = self.rumours.in_doubt().collect();
        let room = MAX_TOLD - MAX_ASKED_AFTER;
        let first = turn.wrapping_mul(room).checked_rem(all.len()).unwrap_or(0);
        let doubts = all.iter().cycle().skip(first).take(room.min(all.len()));
        self.ask(turn, doubts.copied().chain(gone).collect(), links, out);
    }

    /// Ask one linked peer, in turn, whether it knows better about the peers in `doubts`.
    pub(super) fn ask(
        &self,
        turn: usize,
        doubts: Vec<Rumour<I>>,
        links: &Links<'_, I>,
        out: &mut Out<I>,
    ) {
        if doubts.is_empty() {
            return;
        }
        let up = |peer: &&I| !self.is_down(**peer);
        let able: Vec<I> = links.claimed.iter().filter(up).copied().collect();
        let asked = turn.checked_rem(able.len()).and_then(|turn| able.get(turn));
        if let Some(peer) = asked {
            out.send(*peer, Message::Doubts(doubts));
        }
    }

    /// `from` asks about peers that it takes for down, in case that this node knows better.
    pub(super) fn on_doubts(
        &mut self,
        from: I,
        doubts: Vec<Rumour<I>>,
        links: &Links<'_, I>,
        out: &mut Out<I>,
    ) {
        let mut answers = Vec::new();
        for doubt in doubts.into_iter().take(MAX_TOLD) {
            let peer = doubt.peer;
            if peer == self.me {
                self.answer(from, &doubt, out);
            } else if let Some(goodbye) = self.goodbye_to(&doubt) {
                out.send(from, Message::Goodbye(goodbye));
            } else if let Some(answer) = self.rumours.answer_to(&doubt) {
                answers.push(answer);
            } else if links.claimed.contains(&peer)
                && links.boots.contains_key(&peer)
                && !self.is_down(peer)
            {
                out.send(peer, Message::Rumours(vec![doubt]));
            }
        }
        if !answers.is_empty() {
            out.send(from, Message::Rumours(answers));
        }
    }

    /// Tell a new link which peers are down: its peer may have started after those verdicts.
    pub(super) fn tell_who_is_down(&self, peer: I, out: &mut Out<I>) {
        let told: Vec<(Rumour<I>, u32)> = self.rumours.standing().take(MAX_TOLD).collect();
        if !told.is_empty() {
            out.send(peer, Message::Standing(told));
        }
    }

    pub(super) fn on_standing(
        &mut self,
        from: I,
        standing: Vec<(Rumour<I>, u32)>,
        links: &Links<'_, I>,
        out: &mut Out<I>,
    ) -> Vec<(I, Verdict)> {
        let mut verdicts = Vec::new();
        for (rumour, beats_left) in standing.into_iter().take(MAX_TOLD) {
            // An accusation that this node knows already keeps its own age.
            let was_accused = self.rumours.accuses(rumour.peer);
            verdicts.extend(self.on_rumour(from, rumour, links, out));
            if !was_accused && self.rumours.accuses(rumour.peer) {
                self.rumours.shorten(rumour.peer, beats_left);
            }
        }
        verdicts
    }
}
