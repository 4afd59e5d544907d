//! Failure detection: which peers are down, and how the others learn of it.
//!
//! Time is counted in beats, silence in half beats. Beats vary by a sixteenth and their phases
//! drift, so that with whole beats a peer that is a moment late would be suspected. A neighbour in
//! tree or ring that is silent for `SUSPECT_AFTER` half beats is suspected. The node pings the
//! suspect and asks two other peers to do the same, preferably peers with a link to the suspect.
//! The suspect is down if no answer comes within `DOWN_AFTER` further half beats. A peer that was
//! sent a beat and still *owes* the acknowledgement at the next look is suspected at that look. A
//! broken link makes its peer a suspect at the next look and proves nothing. A peer that only
//! others hear is *cut* after twice the time after which a silent one is down: it is alive, but
//! cannot be a neighbour.
//!
//! When several peers die together, all watchers of a peer may be among them. So after two
//! accusations in short order a node pings all its links, fingers too. It watches the peers that do
//! not answer as if they were neighbours.
//!
//! A verdict of a node travels to all members as a [`Rumour`]. A node with a link to the accused
//! asks it before it believes the rumour; the accused answers; contact settles the matter. Rumours
//! help routers and speed up repair. They do not decide membership: only the census does.

mod accusations;
mod departure;
mod doubts;
mod goodbye;
mod rumour;
mod silence;

use std::collections::{BTreeMap, BTreeSet};

use crate::Id;
use crate::config::{Config, LONGEST, Pace, beats};
pub use crate::message::detector::{Goodbye, MAX_RUMOURS, MAX_TOLD, Message, Rumour, union};
use crate::noise::Noise;
use crate::planted::Planted;
use crate::seam::{Out, Timer};
pub use goodbye::MAX_GOODBYES;
use goodbye::{Goodbyes, LATE};
use rumour::Rumours;
pub use silence::HALVES;
use silence::{ALARM, CALM, Silence};

/// How many accused peers are asked at a time. A further one is asked when it is accused again.
const MAX_ASKED: usize = 64;
/// The most goodbyes in one question, since each may be answered with its proof. The next question
/// asks about the goodbyes that follow.
const MAX_ASKED_AFTER: usize = 8;
/// Every so many beats this node repeats an accusation to the accused peer, if it has heard that
/// peer since. About the other accused peers it asks one linked peer. A message that is sent only
/// once may be lost.
const REMIND: u32 = 8;

/// A verdict: the new state of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The peer is down: this node has found that out itself.
    Down,
    /// The peer is down, by a rumour or by its own unsigned Leave.
    ToldDown,
    /// This life of the peer has said goodbye.
    Left(u64),
    /// The goodbye of the peer has expired, or was displaced by another peer's goodbye.
    Forgotten,
    /// Other nodes have heard the peer, but this node has not for a long time.
    Cut,
    /// The peer was taken for down and no longer is.
    Up,
    /// The peer is down by this node's own verdict, but up by the word of others.
    Denied,
    /// The rumour has expired: nobody has spoken of the peer for so long that it no longer counts
    /// as down.
    Expired,
}

/// The links of a node, as far as the detector needs them.
pub struct Links<'a, I> {
    /// The last known life of each peer that the node has a link to, or had one.
    pub boots: &'a BTreeMap<I, u64>,
    /// The peers that this node claims a link to.
    pub claimed: &'a BTreeSet<I>,
}

/// The detector of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Detector<I> {
    me: I,
    boot: u64,
    planted: Planted,
    pace: Pace,
    /// The silence of each watched peer. Bounded by the number of claimed links.
    silent: BTreeMap<I, Silence>,
    /// The accused peers that were pinged, each with whether [`Timer::Judge`] has fired since, and
    /// that firing counted.
    asked: BTreeMap<I, bool>,
    rumours: Rumours<I>,
    goodbyes: Goodbyes<I>,
    /// Whether the timer runs after which other nodes are told the news.
    is_sharing: bool,
    beats: u32,
    /// The number of recent accusations; each beat takes one away.
    accused: u32,
    /// How many beats must pass before the next alarm.
    calm: u32,
}

impl<I: Id> Detector<I> {
    /// A detector that watches no peer yet.
    pub fn new(config: &Config<I>) -> Self {
        Self {
            me: config.me,
            boot: config.boot,
            planted: config.planted,
            pace: config.pace,
            silent: BTreeMap::new(),
            asked: BTreeMap::new(),
            rumours: Rumours::new(life_of_rumours(&config.pace)),
            goodbyes: no_goodbyes(&config.pace),
            is_sharing: false,
            beats: 0,
            accused: 0,
            calm: 0,
        }
    }

    /// Whether `peer` is taken for down.
    pub fn is_down(&self, peer: I) -> bool {
        self.goodbyes.has(peer) || self.rumours.is_down(peer)
    }

    /// The peers that are taken for down: first those that have left, then the others.
    pub fn down(&self) -> impl Iterator<Item = I> + '_ {
        let others = self.rumours.down();
        let others = others.filter(|peer| !self.goodbyes.has(*peer));
        self.goodbyes.peers().chain(others)
    }

    /// The peers that have said goodbye and have not returned.
    pub fn left(&self) -> impl Iterator<Item = I> + '_ {
        self.goodbyes.peers()
    }

    /// How many goodbyes are kept, expired ones among them.
    pub fn goodbyes(&self) -> usize {
        self.goodbyes.len()
    }

    /// Whether the peer has said goodbye and has not returned.
    pub fn has_left(&self, peer: I) -> bool {
        self.goodbyes.has(peer)
    }

    /// Whether a message that comes from the peer now may have been sent before it left.
    pub fn is_late(&self, peer: I) -> bool {
        self.goodbyes.is_late(peer)
    }

    /// Take a sign of life, unless it is late. Returns whether the peer was taken for down and no
    /// longer is.
    pub fn on_heard(&mut self, peer: I, out: &mut Out<I>) -> bool {
        if self.goodbyes.is_late(peer) {
            return false;
        }
        self.end_silence(peer);
        self.asked.remove(&peer);
        if self.goodbyes.remove(peer) {
            return true;
        }
        let was_down = self.rumours.is_down(peer);
        if let Some(accusation) = self.rumours.contradict(peer) {
            // The peer can then answer the accusation where others believe it.
            out.send(peer, Message::Rumours(vec![accusation]));
        }
        was_down
    }

    /// The transport of this peer has acknowledged a packet: its process lives and hears this node.
    /// An accused peer has to do more, since its loop may hang while its transport works on.
    pub fn on_acknowledged(&mut self, peer: I) {
        if self.asked.contains_key(&peer) || self.is_down(peer) {
            return;
        }
        self.end_silence(peer);
    }

    /// A link to this life of `peer` is up. If this very life has left, do nothing but expect late
    /// messages. Otherwise tell the peer which members have left and, unless the peer itself had
    /// left or is accused, which are down. Returns whether the peer was taken for down and no
    /// longer is.
    pub fn on_link_up(&mut self, peer: I, boot: u64, out: &mut Out<I>) -> bool {
        if self.goodbyes.boot(peer) == Some(boot) {
            // The link was dialled as the peer left: its earlier messages arrive after its goodbye.
            self.goodbyes.expect_late(peer);
            return false;
        }
        self.asked.remove(&peer);
        if let Some(later) = self.goodbyes.later(peer, boot) {
            out.send(peer, Message::Goodbye(later));
        }
        let has_returned = self.goodbyes.remove(peer);
        for goodbye in self.goodbyes.recent() {
            out.send(peer, Message::Goodbye(goodbye));
        }
        if has_returned {
            self.rumours.clear(peer, boot, 0);
            self.share(out);
            return true;
        }
        let was_down = self.rumours.is_down(peer);
        match self.rumours.contradict(peer) {
            Some(accusation) if accusation.boot >= boot => {
                out.send(peer, Message::Rumours(vec![accusation]));
            }
            Some(_) => {
                self.rumours.clear(peer, boot, 0);
                self.share(out);
            }
            None => self.tell_who_is_down(peer, out),
        }
        was_down
    }

    /// Count a beat. Returns the peers whose rumour or goodbye has expired.
    pub fn on_beat(&mut self, links: &Links<'_, I>, out: &mut Out<I>) -> Vec<(I, Verdict)> {
        let forgotten = self.goodbyes.on_beat().into_iter();
        let forgotten = forgotten.map(|id| (id, Verdict::Forgotten));
        let yellowed = self.rumours.on_beat().into_iter();
        let yellowed = yellowed.map(|id| (id, Verdict::Expired));
        let verdicts = yellowed.chain(forgotten).collect();
        // The timer may have been lost.
        self.is_sharing = false;
        self.share(out);
        self.await_answers(out);
        self.beats = self.beats.wrapping_add(1);
        if self.beats.is_multiple_of(REMIND) {
            self.remind(links, out);
        } else {
            let fresh = self.goodbyes.fresh(MAX_ASKED_AFTER);
            self.ask(self.beats as usize, fresh, links, out);
        }
        // A corrupted counter must not suppress the alarm for longer than a valid one.
        self.calm = self.calm.min(CALM).saturating_sub(1);
        self.accused = self.accused.min(ALARM).saturating_sub(1);
        verdicts
    }

    /// Judge the accused peers that were pinged before the previous firing and have not answered:
    /// they are down. A firing that does not count, by `counts`, only starts the timer again.
    pub fn on_judge_timer(&mut self, counts: bool, out: &mut Out<I>) -> Vec<(I, Verdict)> {
        let mut verdicts = Vec::new();
        if !counts {
            self.await_answers(out);
            return verdicts;
        }
        for (id, waited) in std::mem::take(&mut self.asked) {
            if waited {
                if self.rumours.witness(id) {
                    self.silent.remove(&id);
                    verdicts.push((id, Verdict::Down));
                }
            } else {
                self.asked.insert(id, true);
            }
        }
        self.await_answers(out);
        verdicts
    }

    /// Tell the linked peers what is new.
    pub fn on_share_timer(&mut self, links: &Links<'_, I>, out: &mut Out<I>) {
        self.is_sharing = false;
        let (told, goodbyes) = (self.rumours.tell(), self.goodbyes.tell());
        let up = |peer: &&I| !self.is_down(**peer);
        for peer in links.claimed.iter().filter(up) {
            if !told.is_empty() {
                out.send(*peer, Message::Rumours(told.clone()));
            }
            for goodbye in &goodbyes {
                out.send(*peer, Message::Goodbye(goodbye.clone()));
            }
        }
        self.share(out);
    }

    /// Handle a message of this layer. Returns the new verdicts.
    pub fn on_message(
        &mut self,
        from: I,
        message: Message<I>,
        links: &Links<'_, I>,
        out: &mut Out<I>,
    ) -> Vec<(I, Verdict)> {
        match message {
            Message::Beat { .. } | Message::Pong { asker: None } => {}
            Message::Ping { asker } => out.send(from, Message::Pong { asker }),
            Message::Pong { asker: Some(asker) } => out.send(asker, Message::Alive(from)),
            Message::PingFor(subject) => out.send(subject, Message::Ping { asker: Some(from) }),
            // Believed only while the subject is suspected, so that a liar cannot keep a dead peer
            // alive for longer than it takes to call it cut.
            Message::Alive(subject) if self.is_suspect(subject) => {
                if let Some(silence) = self.silent.get_mut(&subject) {
                    silence.any = 0;
                    silence.is_asked = false;
                }
            }
            Message::Alive(_) => {}
            Message::Rumours(rumours) => {
                let heard = rumours.into_iter().take(MAX_RUMOURS);
                let verdicts = heard.filter_map(|rumour| self.on_rumour(from, rumour, links, out));
                return verdicts.collect();
            }
            Message::Doubts(doubts) => self.on_doubts(from, doubts, links, out),
            Message::Standing(standing) => return self.on_standing(from, standing, links, out),
            // The goodbye of an earlier life counts as an accusation of that life: it is answered
            // with the later life.
            Message::Goodbye(goodbye) if self.is_outdated(&goodbye, links) => {
                let verdict = self.on_rumour(from, goodbye.rumour(), links, out);
                return verdict.into_iter().collect();
            }
            Message::Goodbye(goodbye) => return self.on_goodbye(from, goodbye, links, out),
        }
        Vec::new()
    }

    /// Set an arbitrary state, as a transient fault may leave it.
    pub(crate) fn scramble(&mut self, noise: &mut Noise, peers: &[I]) {
        self.silent.clear();
        self.asked.clear();
        self.rumours = Rumours::new(life_of_rumours(&self.pace));
        self.goodbyes = no_goodbyes(&self.pace);
        self.is_sharing = noise.one_in(2);
        self.beats = noise.next() as u32;
        self.accused = noise.next() as u32;
        self.calm = noise.next() as u32;
        for _ in 0..noise.next() % 4 {
            let Some(peer) = noise.pick(peers).filter(|peer| *peer != self.me) else {
                continue;
            };
            let any = noise.next() as u32;
            let direct = noise.next() as u32;
            let silence = Silence {
                any,
                direct,
                owes: noise.one_in(2),
                is_asked: noise.one_in(2),
                is_roused: noise.one_in(2),
            };
            self.silent.insert(peer, silence);
            self.asked.insert(peer, noise.one_in(2));
            let boot = noise.next() % 3;
            match noise.one_in(2) {
                true => self.rumours.accuse(peer, boot, None),
                false => self.rumours.clear(peer, boot, noise.next() as u32 % 9),
            }
            if noise.one_in(4) {
                self.goodbyes.corrupt(peer, noise.next());
            }
        }
    }

    /// Tell other nodes soon; news within one wait travels together.
    fn share(&mut self, out: &mut Out<I>) {
        let has_untold = self.rumours.has_untold() || self.goodbyes.has_untold();
        if !self.is_sharing && has_untold {
            self.is_sharing = true;
            out.arm(Timer::Share, self.pace.share);
        }
    }

    fn await_answers(&self, out: &mut Out<I>) {
        if !self.asked.is_empty() {
            // An accused peer is judged at the second firing after its question.
            out.arm(Timer::Judge, self.pace.beat / 6);
        }
    }
}

/// The life of a rumour, in beats: routers avoid a dead member for longer than the grace, during
/// which its rank is vacant.
fn life_of_rumours(pace: &Pace) -> u32 {
    beats(pace.rumour.saturating_add(pace.grace), pace.beat)
}

/// The life of a goodbye, in beats. For as long as the rank may be vacant, a new link tells the
/// goodbye to a node that has missed it.
fn life_of_goodbyes(pace: &Pace) -> u32 {
    let longest = pace.grace.saturating_mul(LONGEST);
    beats(pace.rumour.saturating_add(longest), pace.beat)
}

fn no_goodbyes<I: Id>(pace: &Pace) -> Goodbyes<I> {
    Goodbyes::new(life_of_goodbyes(pace), beats(LATE, pace.beat))
}

#[cfg(test)]
mod tests;
