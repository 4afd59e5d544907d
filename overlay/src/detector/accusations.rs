//! Rumours from others: which are believed. If this node itself is called down, it answers.

use super::rumour::News;
use super::{Detector, Links, MAX_ASKED, Verdict};
use crate::Id;
use crate::message::detector::{Message, Rumour};
use crate::planted::Bug;
use crate::seam::Out;

impl<I: Id> Detector<I> {
    pub(super) fn on_rumour(
        &mut self,
        from: I,
        rumour: Rumour<I>,
        links: &Links<'_, I>,
        out: &mut Out<I>,
    ) -> Option<(I, Verdict)> {
        let peer = rumour.peer;
        if peer == self.me {
            self.answer(from, &rumour, out);
            return None;
        }
        if peer == from && !rumour.is_up {
            return None;
        }
        let gone = self.goodbyes.boot(peer);
        // A link to the life that has left does not count as a link.
        let is_live = |boot: &&u64| gone.is_none_or(|gone| gone < **boot);
        let link = links.boots.get(&peer).filter(is_live);
        let link = link.filter(|_| links.claimed.contains(&peer));
        let rumour = rumour.of_linked(link.copied());
        match link.filter(|_| !rumour.is_up) {
            // The accused life is over. A node without a link cannot know of the next one.
            Some(boot) if *boot > rumour.boot => self.rumours.outdate(&rumour, *boot),
            Some(boot) if *boot < rumour.boot => self.ask_about_life(from, rumour, out),
            _ => {}
        }
        if gone.is_some_and(|gone| gone >= rumour.boot) {
            // This node knows more about that life: its goodbye.
            let is_asked = !rumour.is_up && self.rumours.may_bring(&rumour);
            if let Some(goodbye) = self.goodbye_to(&rumour).filter(|_| is_asked) {
                out.send(from, Message::Goodbye(goodbye));
            }
            return None;
        }
        if gone.is_some() && !rumour.is_up && link.is_none() {
            // An accusation is no proof that the peer has returned.
            return None;
        }
        let news = self.rumours.hear(rumour, link.copied(), from == peer);
        let has_returned = gone.is_some() && self.rumours.knows(&rumour);
        if has_returned {
            self.goodbyes.remove(peer);
        }
        self.share(out);
        if news == News::Accused {
            self.note_accusation(links, out);
        }
        match (news, link) {
            // This node has already pinged the peer because of its silence, and got no answer.
            (News::Accused, Some(_))
                if self.was_asked_after(peer) && self.rumours.witness(peer) =>
            {
                self.silent.remove(&peer);
                Some((peer, Verdict::Down))
            }
            (News::Accused, Some(_)) => {
                if self.asked.len() < MAX_ASKED {
                    out.send(peer, Message::Ping { asker: None });
                    if self.asked.is_empty() {
                        self.asked.insert(peer, false);
                        self.await_answers(out);
                    }
                    self.asked.entry(peer).or_insert(false);
                }
                None
            }
            (News::Accused, None) => Some((peer, Verdict::ToldDown)),
            (News::Cleared, _) => Some((peer, Verdict::Up)),
            (News::Denied, _) => Some((peer, Verdict::Denied)),
            (News::Stale, _) => has_returned.then_some((peer, Verdict::Up)),
        }
    }

    /// The accused life is later than the life of this node's link. Only the accused can answer, so
    /// bring the accusation to it.
    fn ask_about_life(&mut self, from: I, accusation: Rumour<I>, out: &mut Out<I>) {
        if let Some(answer) = self.rumours.answer_to(&accusation) {
            out.send(from, Message::Rumours(vec![answer]));
        } else if self.rumours.may_bring(&accusation) {
            out.send(accusation.peer, Message::Rumours(vec![accusation]));
        }
    }

    /// This node itself is called down: it answers.
    pub(super) fn answer(&mut self, from: I, accusation: &Rumour<I>, out: &mut Out<I>) {
        if accusation.is_up || self.planted.has(Bug::DroppedRefutation) {
            return;
        }
        if let Some(answer) = self.rumours.answer_to(accusation) {
            // The answer is on its way already, but has not reached `from`.
            return out.send(from, Message::Rumours(vec![answer]));
        }
        if !self.rumours.is_credible(accusation) {
            // An answer would be as incredible. It would also outdo the answers to credible
            // accusations.
            return;
        }
        let (boot, incarnation) = match accusation.boot < self.boot {
            true => (self.boot, 0),
            false => (accusation.boot, accusation.incarnation.saturating_add(1)),
        };
        self.rumours.clear(self.me, boot, incarnation);
        self.share(out);
    }

    /// Tell all members that this life of the node is up: the node has a place again, and an
    /// earlier life of it may have said goodbye.
    pub fn announce(&mut self, out: &mut Out<I>) {
        self.rumours.clear(self.me, self.boot, 0);
        self.share(out);
    }
}
