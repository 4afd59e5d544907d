//! The timers of a node, and the peers that it remembers: beats, repetition, visits, probes.

use std::time::Duration;

use super::{Event, Moved, Out, Overlay, Timer};
use crate::config::{PROBE_MAX, RETRY_MAX, beats};
use crate::detector::{self, Links, Verdict};
use crate::planted::Bug;
use crate::{Id, backoff};

/// How many lost peers a node remembers to probe; the oldest is forgotten.
pub(super) const MAX_LOST: usize = 32;
/// At every multiple of this number of beats one end of a tree edge sends the digest of the Lead
/// (the child's place in the tree) instead of a mere beat. So wrong paths are mended one step at a
/// time.
const BY_LEAD: u32 = 2;
/// Every so many beats parents and children repeat places, counts and ranks in full, in case that
/// they were corrupted.
pub(super) const IN_FULL: u32 = 12;
/// For how many beats this node remembers that its root is gone. Nodes that have not noticed yet
/// may still offer places under that root; meanwhile such offers are ignored.
const FALLEN: u32 = 24;
/// Within how many rounds of probes each peer that may be in another tree is probed once. A round
/// probes several of them, since the list may be full of dead peers, and of peers that never
/// existed.
const TURNS: usize = 6;
/// After the loss of a neighbour a node that is no root probes its configured peers in this many
/// rounds of probes, about a minute. Then it does so only in one round of this many.
const PROBES_PER_SEED: u32 = 12;

impl<I: Id> Overlay<I> {
    /// Look for silent peers, twice a beat: at its beginning and its middle. No peer is blamed for
    /// silence that this node's own lateness may explain: see [`super::lateness`].
    pub(super) fn look(&mut self, late: Duration, moved: &mut Moved, out: &mut Out<I>) {
        let beat = self.config.pace.beat;
        let links = Links {
            boots: &self.boots,
            claimed: &self.claimed,
        };
        if self.was_paused(late) {
            self.detector.forgive(&links, out);
        }
        if self.lateness.counts_look(late, beat) {
            let (ring, current) = (&self.ring, &self.current);
            // The other ring neighbour of the suspect, and a node two steps away from the suspect.
            let linked_to = |suspect: I| match current {
                Some(fingers) if ring.predecessor == Some(suspect) => {
                    let two_back = fingers.counterclockwise().get(1).copied().flatten();
                    [two_back, ring.successor]
                }
                Some(fingers) if ring.successor == Some(suspect) => {
                    let two_ahead = fingers.clockwise().get(1).copied().flatten();
                    [two_ahead, ring.predecessor]
                }
                _ => [None; 2],
            };
            let verdicts = self.detector.on_half_beat(&links, linked_to, out);
            self.on_verdicts(verdicts, moved, out);
        }
    }

    /// Check whether the peers that others accused have answered.
    pub(super) fn judge(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        let beat = self.config.pace.beat;
        let counts = self.lateness.counts_judgement(beat);
        let verdicts = self.detector.on_judge_timer(counts, out);
        self.on_verdicts(verdicts, moved, out);
    }

    /// Whether this process was paused: one of its timers is more than a beat late.
    fn was_paused(&self, late: Duration) -> bool {
        late > self.config.pace.beat
    }

    /// A beat of this node. After a pause the node repeats its state in full: others may have
    /// called it down, and its parent may have dropped it.
    pub(super) fn on_beat(&mut self, late: Duration, moved: &mut Moved, out: &mut Out<I>) {
        let links = Links {
            boots: &self.boots,
            claimed: &self.claimed,
        };
        let verdicts = self.detector.on_beat(&links, out);
        self.on_verdicts(verdicts, moved, out);
        self.parentless_beats = self.parentless_beats.saturating_add(1);
        self.fallen = self
            .fallen
            .and_then(|(root, left)| Some((root, left.min(FALLEN).checked_sub(1)?)));
        let stalled = beats(RETRY_MAX, self.config.pace.beat);
        self.beats = self.beats.wrapping_add(1);
        let is_in_full = self.was_paused(late) || self.beats.is_multiple_of(IN_FULL);
        self.count_vain_beats();
        moved.family |= self.with_tree(out, |tree, around, out| {
            tree.beat(stalled, is_in_full, around, out)
        });
        self.census.mend();
        self.watch_vacancy();
        self.look_for_place(out);
        self.mend_epoch(moved, out);
        if is_in_full {
            let children: Vec<I> = self.tree.children().collect();
            self.census.beat(&children, out);
        }
        self.report_with_beat(is_in_full, out);
        self.beat_on_edges(is_in_full, out);
        self.await_acknowledgements();
        self.try_unreached(out);
        self.on_level_zero(moved, out);
        moved.count = true;
        moved.links = true;
        let period = self.noise.slight_jitter(self.config.pace.beat);
        out.arm(Timer::Watch, period / detector::HALVES);
        out.arm(Timer::Beat, period);
    }

    /// Send one sign of life on each edge of tree and ring; the other end's sign of life is its
    /// acknowledgement.
    fn beat_on_edges(&self, is_in_full: bool, out: &mut Out<I>) {
        let (ring, parent) = (&self.ring, self.tree.parent());
        let is_by_lead = self.beats.is_multiple_of(BY_LEAD);
        if let Some(parent) = parent.filter(|_| !is_in_full) {
            let is_in_ring = [ring.predecessor, ring.successor].contains(&Some(parent));
            if is_by_lead && ring.predecessor != Some(parent) {
                self.tree.check(parent, out);
            } else if !is_in_ring {
                let (mark, reply) = (None, false);
                out.send(parent, detector::Message::Beat { mark, reply });
            }
        }
        let Some(successor) = ring.successor else {
            return;
        };
        let reply = !self.is_proved(successor);
        let mark = self.mark().filter(|_| reply || is_in_full);
        if mark.is_none() && !reply && is_by_lead && self.tree.has_child(successor) {
            self.tree.tell_digest(successor, out);
        } else if mark.is_some() || reply || !is_by_lead || parent != Some(successor) {
            out.send(successor, detector::Message::Beat { mark, reply });
        }
    }

    /// Note the neighbours whose transports must acknowledge the beat that was just sent.
    fn await_acknowledgements(&mut self) {
        let silent: Vec<I> = self.silent_neighbours().collect();
        let (boots, unlinked) = (&self.boots, &self.unlinked);
        let is_linked = |id: &I| boots.contains_key(id) && !unlinked.contains(id);
        self.detector
            .await_acknowledgement(silent.into_iter().filter(is_linked));
    }

    pub(super) fn on_verdicts(
        &mut self,
        verdicts: Vec<(I, Verdict)>,
        moved: &mut Moved,
        out: &mut Out<I>,
    ) {
        for (peer, verdict) in verdicts {
            match verdict {
                Verdict::Down => {
                    out.doubt(peer);
                    self.lose(peer, moved, out);
                }
                // No doubt of the link here: the accuser may lie, or have lost its own way to that
                // peer.
                Verdict::ToldDown => self.lose(peer, moved, out),
                Verdict::Left(boot) => {
                    out.event(Event::Left { peer, boot });
                    self.let_go(peer, moved, out);
                }
                // The peer lives, but this node cannot reach it, and a tree edge needs a link.
                Verdict::Cut => {
                    out.doubt(peer);
                    moved.family |=
                        self.with_tree(out, |tree, around, out| tree.on_gone(peer, around, out));
                    self.note_unlinked(peer);
                    self.relay_to(peer);
                }
                Verdict::Up => self.regain(peer, out),
                // Only a message of the peer itself undoes this node's own verdict.
                Verdict::Denied => self.tree.probe(peer, out),
                Verdict::Forgotten => {
                    // The peer left and was not lost.
                    self.shore.lost.remove(&peer);
                    out.event(Event::Expired(peer));
                }
                Verdict::Expired => {
                    out.event(Event::Expired(peer));
                    self.greet(peer, out);
                }
            }
        }
    }

    /// A neighbour in the tree says that it leaves. The news travels to all members like a verdict,
    /// since no other node watches the leaver any more and its rank stays vacant. From other nodes
    /// the message is ignored: a node that has left must attach again before it can leave a second
    /// time.
    pub(super) fn on_leave(&mut self, peer: I, moved: &mut Moved, out: &mut Out<I>) {
        if self.tree.parent() != Some(peer) && !self.tree.has_child(peer) {
            return;
        }
        self.note_fallen(peer);
        moved.family |= self.with_tree(out, |tree, around, out| tree.on_gone(peer, around, out));
        if let Some(boot) = self.boots.get(&peer).copied()
            && self.detector.on_leave(peer, boot, out)
        {
            self.on_verdicts(vec![(peer, Verdict::ToldDown)], moved, out);
        }
    }

    pub(super) fn on_heard(&mut self, peer: I, out: &mut Out<I>) {
        self.relayed.remove(&peer);
        self.unlinked.remove(&peer);
        self.note_contact(peer);
        if self.detector.on_heard(peer, out) {
            self.regain(peer, out);
        }
    }

    /// A peer that was taken for down is up.
    fn regain(&mut self, peer: I, out: &mut Out<I>) {
        out.event(Event::Up(peer));
        self.greet(peer, out);
    }

    /// A peer is gone. If this node claims a link to it, repair tree and ring without it, and
    /// remember to probe for it.
    pub(super) fn lose(&mut self, peer: I, moved: &mut Moved, out: &mut Out<I>) {
        out.event(Event::Down(peer));
        self.let_go(peer, moved, out);
    }

    fn let_go(&mut self, peer: I, moved: &mut Moved, out: &mut Out<I>) {
        self.note_fallen(peer);
        if !self.claimed.contains(&peer) {
            return;
        }
        self.relayed
            .retain(|unreached, by| *unreached != peer && *by != peer);
        self.remember(peer);
        self.shore.note_lost(peer);
        (self.probes, self.has_lost) = (0, true);
        self.boots.remove(&peer);
        self.unlinked.remove(&peer);
        moved.family |= self.with_tree(out, |tree, around, out| tree.on_gone(peer, around, out));
        moved.ring |= self.ring.forget(peer).0;
    }

    /// If the peer that is gone is the root of this tree, note that: see [`FALLEN`].
    fn note_fallen(&mut self, peer: I) {
        if peer == self.tree.root().id {
            self.fallen = Some((peer, FALLEN));
        }
    }

    pub(super) fn on_link_up(&mut self, peer: I, boot: u64, moved: &mut Moved, out: &mut Out<I>) {
        let before = self.boots.insert(peer, boot);
        self.unlinked.remove(&peer);
        // A restarted neighbour has forgotten its relation to this node.
        if before.is_some_and(|old| old != boot) && self.claimed.contains(&peer) {
            self.note_fallen(peer);
            moved.family |= self.with_tree(out, |tree, around, out| {
                tree.on_restarted(peer, around, out)
            });
            self.lose(peer, moved, out);
            self.boots.insert(peer, boot);
            self.regain(peer, out);
        }
        self.note_contact(peer);
        if self.detector.on_link_up(peer, boot, out) {
            self.regain(peer, out);
        }
    }

    /// Remember a peer, to probe for it.
    pub(super) fn remember(&mut self, peer: I) {
        if peer == self.config.me {
            return;
        }
        self.lost.retain(|id| *id != peer);
        if self.lost.len() >= MAX_LOST && !self.config.planted.has(Bug::UnboundedLost) {
            self.lost.remove(0);
        }
        self.lost.push(peer);
    }

    pub(super) fn on_refresh(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        let planted = self.config.planted;
        if self.refresh.fire(self.backoff(), planted) {
            moved.ring |= self.ring.apply_spontaneous(&self.tree, out).0;
            // The confirming of a finger may have cleared level 0; setting that level again applies
            // [BMG09] Alg. 2, rule 1.
            self.on_level_zero(moved, out);
            if let Some(fingers) = self.current.as_ref().filter(|_| !moved.fingers) {
                fingers.refresh(self.rules(), out);
            }
            self.arm_refresh(out);
        }
    }

    pub(super) fn on_confirm(&mut self, out: &mut Out<I>) {
        if self.config.planted.has(Bug::MissingRefresh) {
            return;
        }
        if let Some(fingers) = &mut self.current {
            let levels = fingers.population().levels();
            self.visiting = (self.visiting + 1) % levels.max(1);
            self.visits = self.visits.wrapping_add(1);
            let down: Vec<I> = self.detector.down().collect();
            fingers.confirm(self.visiting, self.visits, &down, out);
        }
        out.arm(Timer::Confirm, self.noise.jitter(self.config.pace.confirm));
    }

    /// Probe some peers that may be in another tree, in turn: lost peers and configured peers. A
    /// node that is no root and has lost no neighbour lately probes the configured ones only now
    /// and then. A root probes acquaintances too: often if it has lost a neighbour lately, as it
    /// may lead a few survivors that know no other members, and otherwise now and then. A node on
    /// an island that has met none of its contacts probes all of them each time.
    pub(super) fn on_probe_timer(&mut self, out: &mut Out<I>) {
        let mut targets = self.lost.clone();
        self.has_lost &= self.probes < PROBES_PER_SEED;
        if self.tree.is_root() || self.has_lost || self.probes.is_multiple_of(PROBES_PER_SEED) {
            targets.extend(self.config.seeds.iter().chain(&self.config.parent));
        }
        if self.tree.is_root() && (self.has_lost || self.probes.is_multiple_of(PROBES_PER_SEED)) {
            targets.extend(self.acquaintances.iter());
        }
        let tree = &self.tree;
        let is_near = |id: I| tree.parent() == Some(id) || tree.has_child(id);
        targets.retain(|id| *id != self.config.me && !is_near(*id));
        if self.seeks_contacts() {
            for contact in self.own_contacts().filter(|id| !is_near(*id)) {
                tree.probe(contact, out);
            }
        }
        for _ in 0..targets.len().div_ceil(TURNS) {
            self.next_probe = (self.next_probe + 1) % targets.len();
            self.tree.probe(targets[self.next_probe], out);
        }
        let pace = self.config.pace;
        let pause = (pace.probe * 2u32.saturating_pow(self.probes.min(16))).min(PROBE_MAX);
        self.probes = self.probes.saturating_add(1);
        if self.probes > 4 && self.config.planted.has(Bug::ProbingStops) {
            return;
        }
        out.arm(Timer::Probe, self.noise.jitter(pause));
    }

    pub(super) fn backoff(&self) -> backoff::BackoffLimits {
        backoff::BackoffLimits {
            minimum: 1,
            maximum: 2u32.saturating_pow(self.config.pace.refresh_doublings.min(16)),
        }
    }

    pub(super) fn arm_refresh(&mut self, out: &mut Out<I>) {
        let ticks = self.refresh.remaining();
        out.arm(
            Timer::Refresh,
            self.noise.jitter(self.config.pace.refresh * ticks.max(1)),
        );
    }

    /// Peers that may be alive: ring neighbours and fingers, the deployment parent, seeds, lost
    /// peers.
    pub(super) fn contacts(&self) -> Vec<I> {
        let ring = self.ring.successor.into_iter().chain(self.ring.predecessor);
        let fingers = self.current.iter().flat_map(|fingers| {
            let tables = fingers.clockwise().iter().chain(fingers.counterclockwise());
            tables.copied().flatten()
        });
        let configured = self.config.parent.iter().chain(&self.config.seeds);
        let told = configured.chain(&self.lost).copied();
        ring.chain(fingers).chain(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::overlay::Input;
    use crate::{Effect, tree};

    #[test]
    fn silence_behind_a_late_timer_is_not_held_against_anybody() {
        let mut node = Overlay::new(Config::new(0, 1, 1));
        let mut out = Out::new();
        node.detector.watch(&[1].into());
        let beat = node.config.pace.beat;
        let timer = Timer::Watch;
        for _ in 0..99 {
            let late = beat / 4;
            node.handle(Input::Timer { timer, late }, &mut out);
        }
        assert!(!node.detector.is_suspect(1));
        let late = Duration::ZERO;
        // At the first three looks its lateness still counts, and lets only one in four count.
        for _ in 0..7 {
            node.handle(Input::Timer { timer, late }, &mut out);
        }
        assert!(node.detector.is_suspect(1), "the rule is not idle");
        let late = beat * 2;
        node.handle(Input::Timer { timer, late }, &mut out);
        assert!(!node.detector.is_suspect(1), "a pause forgives all");
    }

    /// The peers that the node calls down at this input, and the peers whose links it doubts.
    fn verdicts_at(node: &mut Overlay<u32>, input: Input<u32>) -> (Vec<u32>, Vec<u32>) {
        let mut out = Out::new();
        node.handle(input, &mut out);
        let (mut down, mut doubted) = (Vec::new(), Vec::new());
        for effect in out {
            match effect {
                Effect::Event(Event::Down(peer)) => down.push(peer),
                Effect::Doubt(peer) => doubted.push(peer),
                _ => {}
            }
        }
        (down, doubted)
    }

    fn accusation_of(peer: u32) -> Input<u32> {
        let accusation = detector::Rumour {
            peer,
            boot: 10,
            incarnation: 0,
            mark: None,
            is_up: false,
        };
        let message = detector::Message::Rumours(vec![accusation]).into();
        Input::Message { from: 2, message }
    }

    fn fired(timer: Timer) -> Input<u32> {
        let late = Duration::ZERO;
        Input::Timer { timer, late }
    }

    #[test]
    fn an_own_verdict_makes_a_node_dial_beside_the_link() {
        let mut node = Overlay::new(Config::new(0, 1, 1));
        node.detector.watch(&[1].into());
        let mut looks = (0..10).map(|_| verdicts_at(&mut node, fired(Timer::Watch)));
        let found = looks.find(|(down, _)| !down.is_empty());
        assert_eq!(found, Some((vec![1], vec![1])));
        // The peer was accused by another, was asked, and has not answered here either.
        let mut node = Overlay::new(Config::new(0, 1, 1));
        node.boots.insert(3, 10);
        node.claimed.insert(3);
        assert_eq!(verdicts_at(&mut node, accusation_of(3)), (vec![], vec![]));
        assert_eq!(
            verdicts_at(&mut node, fired(Timer::Judge)),
            (vec![], vec![])
        );
        assert_eq!(
            verdicts_at(&mut node, fired(Timer::Judge)),
            (vec![3], vec![3])
        );
    }

    #[test]
    fn a_told_verdict_and_a_goodbye_make_a_node_dial_nobody() {
        let mut node = Overlay::new(Config::new(0, 1, 1));
        assert_eq!(verdicts_at(&mut node, accusation_of(3)), (vec![3], vec![]));
        let mut config = Config::new(0, 1, 1);
        config.parent = Some(9);
        let mut node = Overlay::new(config);
        verdicts_at(&mut node, Input::Start);
        verdicts_at(&mut node, Input::LinkUp { peer: 9, boot: 1 });
        let lead = tree::Lead {
            path: [tree::Ancestor {
                id: 9,
                order: tree::SiblingOrder::default(),
            }]
            .into_iter()
            .collect(),
            order: tree::SiblingOrder::slot(1),
            root: tree::RootKey {
                weight: 1,
                priority: 100,
                id: 9,
            },
            heirs: [0].into_iter().collect(),
            anchored: true,
        };
        for (message, down) in [
            (tree::Message::Lead(lead), vec![]),
            (tree::Message::Leave, vec![9]),
        ] {
            let message = message.into();
            let input = Input::Message { from: 9, message };
            assert_eq!(verdicts_at(&mut node, input), (down, vec![]));
        }
    }

    #[test]
    fn a_late_node_gives_the_accused_four_times_as_long() {
        let firings = |late| {
            let mut node = Overlay::new(Config::new(0, 1, 1));
            let mut out = Out::new();
            let links = Links {
                boots: &[(3, 10)].into(),
                claimed: &[3].into(),
            };
            let accusation = detector::Rumour {
                peer: 3,
                boot: 10,
                incarnation: 0,
                mark: None,
                is_up: false,
            };
            let said = detector::Message::Rumours(vec![accusation]);
            node.detector.on_message(2, said, &links, &mut out);
            let timer = Timer::Judge;
            let is_judged = |_: &u32| {
                node.handle(Input::Timer { timer, late }, &mut out);
                node.detector.is_down(3)
            };
            (1..100).find(is_judged)
        };
        assert_eq!(firings(Duration::ZERO), Some(2));
        assert_eq!(firings(Duration::from_millis(50)), Some(8));
    }
}
