//! Silence of peers: the counts, the looks at them, and the alarm after several deaths.

use std::collections::BTreeSet;

use super::{Detector, Links, Message, Verdict};
use crate::Id;
use crate::config::{DOWN_AFTER, SUSPECT_AFTER};
use crate::planted::Bug;
use crate::seam::Out;

/// How many peers, at most, are asked to ping a suspect.
pub(super) const HELPERS: usize = 2;
/// How many times in a beat a node looks at the silence of its peers.
pub const HALVES: u32 = 2;
/// How many accusations, less one per beat, make a node ping all its links. A single death concerns
/// only the neighbours of the dead.
pub(super) const ALARM: u32 = 2;
/// How many beats pass from one alarm to the next, however many accusations come.
pub(super) const CALM: u32 = 3;

/// The silence of a peer, counted in half beats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Silence {
    /// Half beats without a sign of life from the peer itself or through others; set to more if
    /// there is another reason for suspicion.
    pub(super) any: u32,
    /// Half beats without a sign of life from the peer itself.
    pub(super) direct: u32,
    /// Whether the peer was sent a beat over a link that is up, and has not acknowledged it.
    pub(super) owes: bool,
    /// Whether others were asked to ping the peer.
    pub(super) is_asked: bool,
    /// Whether the peer is watched only because of an alarm, until it is heard.
    pub(super) is_roused: bool,
}

impl Silence {
    /// The peer was heard.
    pub(super) const fn end(&mut self) {
        (self.any, self.direct) = (0, 0);
        (self.owes, self.is_asked) = (false, false);
    }

    /// The peer was not heard until this look.
    fn go_on(&mut self) {
        self.any = self.any.saturating_add(1);
        self.direct = self.direct.saturating_add(1);
        if std::mem::take(&mut self.owes) {
            self.any = self.any.max(SUSPECT_AFTER);
        }
    }
}

impl<I: Id> Detector<I> {
    /// Watch exactly these peers, and those that an alarm is about. The silence of peers that are
    /// watched already goes on.
    pub fn watch(&mut self, peers: &BTreeSet<I>) {
        self.silent
            .retain(|id, silence| silence.is_roused || peers.contains(id));
        for id in peers {
            self.silent.entry(*id).or_default().is_roused = false;
        }
    }

    /// The peers whose silence is watched.
    pub fn watched(&self) -> impl Iterator<Item = I> + '_ {
        self.silent.keys().copied()
    }

    /// These peers were sent a beat over links that are up.
    pub fn await_acknowledgement(&mut self, peers: impl Iterator<Item = I>) {
        for peer in peers {
            if let Some(silence) = self.silent.get_mut(&peer) {
                silence.owes = true;
            }
        }
    }

    /// Whether others were asked to ping `peer`, and it has not been heard since.
    pub(super) fn was_asked_after(&self, peer: I) -> bool {
        self.silent
            .get(&peer)
            .is_some_and(|silence| silence.is_asked)
    }

    /// Whether a peer that was sent a beat has not answered yet, and
    /// [`Self::on_acknowledged`] would be believed.
    pub fn awaits_acknowledgement(&self) -> bool {
        let mut owing = self.silent.iter().filter(|(_, silence)| silence.owes);
        owing.any(|(id, _)| !self.asked.contains_key(id) && !self.rumours.is_down(*id))
    }

    /// Whether the next look would only count. Such a look may be delayed until the one after it,
    /// or until just before another input, without any other effect.
    pub fn look_can_wait(&self) -> bool {
        let is_short = |count: u32| count.saturating_add(1) < SUSPECT_AFTER;
        self.silent.values().all(|silence| {
            let is_quiet = !silence.owes && !silence.is_asked && !silence.is_roused;
            is_quiet && is_short(silence.any) && is_short(silence.direct)
        })
    }

    /// Whether `peer` is suspected.
    pub fn is_suspect(&self, peer: I) -> bool {
        let silent = self.silent.get(&peer);
        silent.is_some_and(|silence| silence.any >= SUSPECT_AFTER)
    }

    /// The peer was heard, or its transport has acknowledged a packet.
    pub(super) fn end_silence(&mut self, peer: I) {
        if let Some(silence) = self.silent.get_mut(&peer) {
            silence.end();
            if silence.is_roused {
                self.silent.remove(&peer);
            }
        }
    }

    /// A message of this peer came by way of a carrier. The peer is not down, but nodes that must
    /// hear it directly still miss it. So a liar cannot keep a dead peer in the tree.
    pub fn on_carried(&mut self, peer: I) {
        if let Some(silence) = self.silent.get_mut(&peer) {
            silence.any = 0;
        }
    }

    /// The link to `peer` is down: suspect the peer at the next half beat.
    pub fn on_link_down(&mut self, peer: I) {
        let almost = SUSPECT_AFTER.saturating_sub(1);
        if let Some(silence) = self.silent.get_mut(&peer) {
            silence.any = silence.any.max(almost);
        }
    }

    /// Half a beat has passed. Returns the peers that are down or cut. `linked_to` names peers that
    /// probably have a link to a suspect: such a peer can ping it without a new connection, which
    /// would come too late.
    pub fn on_half_beat(
        &mut self,
        links: &Links<'_, I>,
        linked_to: impl Fn(I) -> [Option<I>; HELPERS],
        out: &mut Out<I>,
    ) -> Vec<(I, Verdict)> {
        let all_after = match self.planted.has(Bug::VerdictWithoutProbe) {
            true => HALVES,
            false => SUSPECT_AFTER + DOWN_AFTER,
        };
        self.silent
            .retain(|id, silence| !silence.is_roused || links.claimed.contains(id));
        let (mut suspects, mut verdicts) = (Vec::new(), Vec::new());
        for (id, silence) in &mut self.silent {
            let is_asked = silence.is_asked || self.planted.has(Bug::VerdictWithoutProbe);
            silence.go_on();
            if silence.any >= all_after && is_asked {
                verdicts.push((*id, Verdict::Down));
            } else if silence.direct >= 2 * all_after && !silence.is_roused {
                verdicts.push((*id, Verdict::Cut));
            } else if silence.any >= SUSPECT_AFTER && !silence.is_asked {
                silence.is_asked = true;
                suspects.push(*id);
            }
        }
        for suspect in suspects {
            self.ask_after(suspect, linked_to(suspect), links, out);
        }
        for (id, verdict) in &verdicts {
            self.silent.remove(id);
            if *verdict == Verdict::Down && !self.is_down(*id) {
                let boot = links.boots.get(id).copied().unwrap_or(0);
                self.rumours.accuse(*id, boot, None);
                self.share(out);
                self.note_accusation(links, out);
            }
        }
        verdicts
    }

    /// Ping a suspect, and ask other peers to ping it.
    fn ask_after(
        &self,
        suspect: I,
        linked: [Option<I>; HELPERS],
        links: &Links<'_, I>,
        out: &mut Out<I>,
    ) {
        out.send(suspect, Message::Ping { asker: None });
        let linked = linked.into_iter().flatten();
        let others = links.claimed.iter().copied();
        let mut helpers = Vec::new();
        for helper in linked.chain(others) {
            let is_able = helper != suspect && helper != self.me && !self.is_down(helper);
            if is_able && helpers.len() < HELPERS && !helpers.contains(&helper) {
                helpers.push(helper);
                out.send(helper, Message::PingFor(suspect));
            }
        }
    }

    /// A peer was found dead, here or elsewhere. If several were, the peers that would have noticed
    /// further deaths may be among the dead: ping all links.
    pub(super) fn note_accusation(&mut self, links: &Links<'_, I>, out: &mut Out<I>) {
        self.accused = self.accused.saturating_add(1);
        if self.accused < ALARM || self.calm > 0 {
            return;
        }
        (self.accused, self.calm) = (0, CALM);
        for peer in links.claimed {
            if *peer == self.me || self.is_down(*peer) || !links.boots.contains_key(peer) {
                continue;
            }
            out.send(*peer, Message::Ping { asker: None });
            let is_roused = !self.silent.contains_key(peer);
            let silence = self.silent.entry(*peer).or_default();
            silence.any = silence.any.max(SUSPECT_AFTER);
            silence.is_roused = is_roused || silence.is_roused;
        }
    }
}
