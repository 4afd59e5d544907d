//! Failure detection: who of the watched neighbours is down.
//!
//! Time is counted in beats. A neighbour that is silent for `suspect_after`
//! beats is suspected: it is pinged, and two others are asked to ping it. Only
//! if nothing comes back within `down_after` further beats is it down. A link
//! that is down makes suspicion immediate and proves nothing. Who is heard of
//! through others only is *cut* after twice that time: alive, but not for us.
//!
//! Not here: verdicts that are shared, refuted and expire; a verdict is local.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Id;
use crate::config::Pace;
use crate::overlay::Out;
use crate::stamp::Mark;

/// How many neighbours are asked to ping a suspect.
const HELPERS: usize = 2;

/// A message of the detector. Any message at all is a sign of life of its
/// sender; these exist for those who have nothing else to say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To a ring neighbour: I am alive, and this is my place.
    Beat {
        /// Where I stand.
        mark: Option<Mark<I>>,
        /// Whether I want to know the same of the receiver.
        reply: bool,
    },
    /// Are you alive? Asked on behalf of another node if `asker` is set.
    Ping {
        /// Who wants to know.
        asker: Option<I>,
    },
    /// Yes; returned by the way the question came.
    Pong {
        /// Who wanted to know.
        asker: Option<I>,
    },
    /// Ping this peer for me.
    PingFor(I),
    /// I have heard this peer answer just now.
    Alive(I),
}

/// What has become of a watched peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Nobody has heard of it.
    Down,
    /// Others have; this node has not for a long time.
    Cut,
}

/// Beats without a sign of life of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Silence {
    /// From itself or through others.
    any: u32,
    /// From itself.
    direct: u32,
}

/// The detector of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Detector<I> {
    /// The silence of each watched peer. Bounded by the number of tree and ring
    /// neighbours.
    silent: BTreeMap<I, Silence>,
    suspect_after: u32,
    down_after: u32,
}

impl<I: Id> Detector<I> {
    /// A detector that watches nobody yet.
    pub const fn new(pace: &Pace) -> Self {
        Self {
            silent: BTreeMap::new(),
            suspect_after: pace.suspect_after,
            down_after: pace.down_after,
        }
    }

    /// Watch exactly these peers; the silence of those watched already goes on.
    pub fn watch(&mut self, peers: &[I]) {
        self.silent.retain(|id, _| peers.contains(id));
        for id in peers {
            self.silent.entry(*id).or_default();
        }
    }

    /// Whether `peer` is suspected.
    pub fn is_suspect(&self, peer: I) -> bool {
        let silent = self.silent.get(&peer);
        silent.is_some_and(|silence| silence.any >= self.suspect_after)
    }

    /// A sign of life.
    pub fn on_heard(&mut self, peer: I) {
        if let Some(silence) = self.silent.get_mut(&peer) {
            *silence = Silence::default();
        }
    }

    /// The link to `peer` is down: suspect it with the next beat.
    pub fn on_link_down(&mut self, peer: I) {
        if let Some(silence) = self.silent.get_mut(&peer) {
            silence.any = silence.any.max(self.suspect_after.saturating_sub(1));
        }
    }

    /// After a pause of this very process nobody's silence means anything.
    pub fn forgive(&mut self) {
        let all = self.silent.values_mut();
        all.for_each(|silence| *silence = Silence::default());
    }

    /// A beat has passed. Returns who is down or cut; `others` may help to find
    /// out.
    pub fn on_beat(&mut self, others: &[I], out: &mut Out<I>) -> Vec<(I, Verdict)> {
        let mut verdicts = Vec::new();
        let down_after = self.suspect_after + self.down_after;
        for (id, silence) in &mut self.silent {
            silence.any = silence.any.saturating_add(1);
            silence.direct = silence.direct.saturating_add(1);
            if silence.any == self.suspect_after {
                out.send(*id, Message::Ping { asker: None });
                let helpers = others.iter().filter(|helper| *helper != id);
                for helper in helpers.take(HELPERS) {
                    out.send(*helper, Message::PingFor(*id));
                }
            } else if silence.any >= down_after {
                verdicts.push((*id, Verdict::Down));
            } else if silence.direct >= 2 * down_after {
                verdicts.push((*id, Verdict::Cut));
            }
        }
        let is_judged = |id: &I| verdicts.iter().any(|(judged, _)| judged == id);
        self.silent.retain(|id, _| !is_judged(id));
        verdicts
    }

    /// Handle a message of this layer.
    pub fn on_message(&mut self, from: I, message: Message<I>, out: &mut Out<I>) {
        match message {
            Message::Beat { .. } => {}
            Message::Ping { asker } => out.send(from, Message::Pong { asker }),
            Message::Pong { asker: None } => {}
            Message::Pong { asker: Some(asker) } => out.send(asker, Message::Alive(from)),
            Message::PingFor(subject) => out.send(subject, Message::Ping { asker: Some(from) }),
            // Believed only while it matters, so that nobody can keep the dead
            // alive for longer than it takes to call them cut.
            Message::Alive(subject) if self.is_suspect(subject) => {
                if let Some(silence) = self.silent.get_mut(&subject) {
                    silence.any = 0;
                }
            }
            Message::Alive(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Effect;

    fn detector() -> Detector<u32> {
        let mut detector = Detector::new(&Pace::default());
        detector.watch(&[1, 2]);
        detector
    }

    fn sent(out: &mut Out<u32>) -> Vec<(u32, crate::Message<u32>)> {
        let sends = out.drain().filter_map(|effect| match effect {
            Effect::Send { to, message } => Some((to, message)),
            _ => None,
        });
        sends.collect()
    }

    #[test]
    fn silence_is_confirmed_through_others_before_a_verdict() {
        let (mut detector, mut out) = (detector(), Out::new());
        let mut verdicts = Vec::new();
        for beat in 1..=5 {
            detector.on_heard(2);
            verdicts.extend(detector.on_beat(&[1, 2, 3], &mut out));
            assert_eq!(
                detector.is_suspect(1),
                (3..5).contains(&beat),
                "beat {beat}"
            );
        }
        assert_eq!(verdicts, [(1, Verdict::Down)]);
        let ask = |message: Message<u32>| crate::Message::Detector(message);
        let expected = [
            (1, ask(Message::Ping { asker: None })),
            (2, ask(Message::PingFor(1))),
            (3, ask(Message::PingFor(1))),
        ];
        assert_eq!(sent(&mut out), expected);
    }

    #[test]
    fn an_answer_through_another_clears_the_suspect() {
        let (mut detector, mut out) = (detector(), Out::new());
        for _ in 0..4 {
            detector.on_heard(2);
            assert!(detector.on_beat(&[1, 2], &mut out).is_empty());
        }
        detector.on_message(2, Message::Alive(1), &mut out);
        assert!(detector.on_beat(&[1, 2], &mut out).is_empty());
        assert!(!detector.is_suspect(1));
    }

    #[test]
    fn who_is_heard_of_through_others_only_is_cut_in_the_end() {
        let (mut detector, mut out) = (detector(), Out::new());
        let mut verdicts = Vec::new();
        for beat in 1..=10 {
            detector.on_heard(2);
            verdicts = detector.on_beat(&[1, 2], &mut out);
            assert!(
                verdicts.is_empty() || beat == 10,
                "beat {beat}: {verdicts:?}"
            );
            detector.on_message(2, Message::Alive(1), &mut out);
        }
        assert_eq!(verdicts, [(1, Verdict::Cut)]);
    }

    #[test]
    fn a_broken_link_only_hastens_suspicion() {
        let (mut detector, mut out) = (detector(), Out::new());
        detector.on_link_down(1);
        assert!(detector.on_beat(&[], &mut out).is_empty());
        assert!(detector.is_suspect(1) && !detector.is_suspect(2));
    }

    #[test]
    fn a_question_for_another_returns_by_the_same_way() {
        let (mut detector, mut out) = (detector(), Out::new());
        detector.on_message(9, Message::PingFor(4), &mut out);
        detector.on_message(9, Message::Ping { asker: Some(8) }, &mut out);
        detector.on_message(4, Message::Pong { asker: Some(9) }, &mut out);
        let ask = |message: Message<u32>| crate::Message::Detector(message);
        let expected = [
            (4, ask(Message::Ping { asker: Some(9) })),
            (9, ask(Message::Pong { asker: Some(8) })),
            (9, ask(Message::Alive(4))),
        ];
        assert_eq!(sent(&mut out), expected);
    }
}
