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

mod goodbye;
mod rumour;
mod silence;

use std::collections::{BTreeMap, BTreeSet};

use crate::Id;
use crate::config::{Config, LONGEST, Pace, beats};
pub use crate::message::detector::{Goodbye, MAX_RUMOURS, MAX_TOLD, Message, Rumour, union};
use crate::noise::Noise;
use crate::planted::{Bug, Planted};
use crate::seam::{Out, Timer};
pub use goodbye::MAX_GOODBYES;
use goodbye::{Goodbyes, LATE};
use rumour::{News, Rumours};
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

    fn on_goodbye(
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
        let displaced = self.goodbyes.enter(goodbye, link == Some(boot));
        self.share(out);
        let displaced = displaced.map(|peer| (peer, Verdict::Forgotten));
        displaced
            .into_iter()
            .chain([(peer, Verdict::Left(boot))])
            .collect()
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

    /// Tell a new link which peers are down: its peer may have started after those verdicts.
    fn tell_who_is_down(&self, peer: I, out: &mut Out<I>) {
        let told: Vec<(Rumour<I>, u32)> = self.rumours.standing().take(MAX_TOLD).collect();
        if !told.is_empty() {
            out.send(peer, Message::Standing(told));
        }
    }

    fn on_standing(
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

    /// Repeat the accusations to the accused peers that this node has heard since, as they may have
    /// missed them. Ask one linked peer about other accused peers and about peers that have left,
    /// as this node may have missed an answer.
    fn remind(&self, links: &Links<'_, I>, out: &mut Out<I>) {
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
    fn ask(&self, turn: usize, doubts: Vec<Rumour<I>>, links: &Links<'_, I>, out: &mut Out<I>) {
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
    fn on_doubts(
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

    fn on_rumour(
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

    /// The answer to an accusation of a peer that has left in that life, or later: its goodbye.
    fn goodbye_to(&self, accusation: &Rumour<I>) -> Option<Goodbye<I>> {
        let goodbye = self.goodbyes.proven(accusation.peer)?;
        (goodbye.boot >= accusation.boot).then_some(goodbye)
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
    fn answer(&mut self, from: I, accusation: &Rumour<I>, out: &mut Out<I>) {
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

    /// Ask about all goodbyes again: this node has joined other nodes, which may have heard of a
    /// return earlier.
    pub fn doubt_goodbyes(&mut self) {
        self.goodbyes.doubt_all();
    }

    /// Tell all members that this life of the node is up: the node has a place again, and an
    /// earlier life of it may have said goodbye.
    pub fn announce(&mut self, out: &mut Out<I>) {
        self.rumours.clear(self.me, self.boot, 0);
        self.share(out);
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
