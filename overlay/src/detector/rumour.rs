//! Rumours: the accusations of peers that are down, and the answers of the accused.
//!
//! Like a lost-property notice: a rumour names exactly one thing, every reader passes it on once,
//! it ends when the owner shows up, and it yellows after a while. An accusation names an
//! incarnation of the accused, and the accused answers with the next one. The numbers only order
//! the rumours of honest peers. An accusation of an incarnation too far ahead is ignored, and a
//! node that is in contact with the accused needs no number to decide.

use std::collections::{BTreeMap, BTreeSet};

use crate::Id;
use crate::message::detector::{MAX_RUMOURS, MAX_TOLD, Rumour};
use crate::stamp::Mark;

/// How far the incarnation of an accusation may be ahead of the known one; a greater number is a
/// lie. An answer may be one further ahead.
const MAX_AHEAD: u32 = 8;
/// How many accusations are brought to the accused per beat.
const MAX_BROUGHT: usize = 64;
/// How many peers per beat this node probes because others call them up against its own verdict.
/// Further ones have their turn in the next beats.
const MAX_DENIED: u32 = 8;
/// How many new rumours a node believes per beat. Further ones are ignored and not passed on, so
/// that one liar cannot keep all nodes busy.
const MAX_PER_BEAT: u32 = 128;

/// How far this node believes an accusation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Belief {
    /// Believed: the node has no link to the accused and no reason to doubt.
    Hearsay,
    /// Not yet believed: the node has a link to the accused and asks it.
    Asking,
    /// Not believed: the node has heard the accused since, which does not seem to know the
    /// accusation yet.
    Contradicted,
    /// Certain: the node has found out itself.
    Witnessed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry<I> {
    rumour: Rumour<I>,
    belief: Belief,
    beats_left: u32,
    /// Whether the rumour has been passed on, or need not be.
    is_told: bool,
    /// Whether the peer itself said this, about a life that its link here may not have. The peer
    /// answers for that life, so from now on it is accused in that life.
    is_own: bool,
    /// Whether others have lately called the peer up, although this node found it down.
    is_denied: bool,
}

/// The rumours that a node has heard or started.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Rumours<I> {
    entries: BTreeMap<I, Entry<I>>,
    new_in_beat: u32,
    denied_in_beat: u32,
    /// The accusations, by peer, life and incarnation, that were brought to the accused in this
    /// beat.
    brought: BTreeSet<(I, u64, u32)>,
    life: u32,
}

/// The effect of a rumour on what this node believes about the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// Whether the peer is taken for down does not change.
    Stale,
    /// The peer is newly called down, whether that is believed yet or not.
    Accused,
    /// The peer was taken for down, and is called up.
    Cleared,
    /// Others call the peer up, but it is down by this node's own verdict.
    Denied,
}

impl<I: Id> Rumours<I> {
    /// No rumours yet; each lives for `life` beats.
    pub(super) const fn new(life: u32) -> Self {
        Self {
            entries: BTreeMap::new(),
            new_in_beat: 0,
            denied_in_beat: 0,
            brought: BTreeSet::new(),
            life,
        }
    }

    /// Whether `peer` is taken for down.
    pub(super) fn is_down(&self, peer: I) -> bool {
        self.entries.get(&peer).is_some_and(Entry::is_down)
    }

    /// The peers that are taken for down.
    pub(super) fn down(&self) -> impl Iterator<Item = I> + '_ {
        let down = self.entries.values().filter(|entry| entry.is_down());
        down.map(|entry| entry.rumour.peer)
    }

    /// This node knows at first hand that `peer` is down: by the peer's silence, or because the
    /// peer has said that it leaves.
    pub(super) fn accuse(&mut self, peer: I, boot: u64, mark: Option<Mark<I>>) {
        let said = self.entries.get(&peer).filter(|entry| entry.is_own);
        let said = said.map(|entry| (entry.rumour.boot, entry.rumour.incarnation));
        let linked = (boot, self.incarnation(peer, boot));
        let (boot, incarnation) = said.map_or(linked, |said| said.max(linked));
        let rumour = Rumour {
            peer,
            boot,
            incarnation,
            mark,
            is_up: false,
        };
        self.enter(rumour, Belief::Witnessed);
    }

    /// The accused, to which this node has a link, did not answer. Returns whether it is still
    /// accused.
    pub(super) fn witness(&mut self, peer: I) -> bool {
        let entry = self.entries.get_mut(&peer);
        let accused = entry.filter(|entry| !entry.rumour.is_up);
        accused
            .map(|entry| entry.belief = Belief::Witnessed)
            .is_some()
    }

    /// Call `peer` up: another life of it has appeared, or `peer` is this node itself, which
    /// answers an accusation or announces its own life.
    pub(super) fn clear(&mut self, peer: I, boot: u64, incarnation: u32) {
        let rumour = Rumour {
            peer,
            boot,
            incarnation,
            mark: None,
            is_up: true,
        };
        self.enter(rumour, Belief::Witnessed);
    }

    /// An accusation is about an earlier life of a peer than `boot`, which is the life of this
    /// node's link. Spread the later life, once.
    pub(super) fn outdate(&mut self, accusation: &Rumour<I>, boot: u64) {
        let is_said = self.answer_to(accusation).is_some();
        if !is_said && self.new_in_beat < MAX_PER_BEAT {
            self.new_in_beat += 1;
            self.clear(accusation.peer, boot, 0);
        }
    }

    /// This node was in contact with `peer`. If the peer is accused, do not believe the accusation
    /// here any more. Returns the accusation, but only at the first contact after it.
    pub(super) fn contradict(&mut self, peer: I) -> Option<Rumour<I>> {
        let entry = self.entries.get_mut(&peer)?;
        if entry.rumour.is_up || entry.belief == Belief::Contradicted {
            return None;
        }
        entry.belief = Belief::Contradicted;
        Some(entry.rumour)
    }

    /// The process of this node was paused. From now on its earlier accusations count as hearsay:
    /// one answer undoes each.
    pub(super) fn doubt_witnessed(&mut self) {
        let accusations = self.entries.values_mut();
        for entry in accusations.filter(|entry| !entry.rumour.is_up) {
            if entry.belief == Belief::Witnessed {
                entry.belief = Belief::Hearsay;
            }
        }
    }

    /// The accusations, not answered yet, of peers that this node has heard since.
    pub(super) fn contradicted(&self) -> impl Iterator<Item = Rumour<I>> + '_ {
        self.of_belief(Belief::Contradicted)
    }

    /// The accusations to ask other nodes about. This node cannot check hearsay, and its own
    /// verdicts may be out of date.
    pub(super) fn in_doubt(&self) -> impl Iterator<Item = Rumour<I>> + '_ {
        let witnessed = self.of_belief(Belief::Witnessed);
        self.of_belief(Belief::Hearsay).chain(witnessed)
    }

    /// The accusations of all peers that are taken for down, each with the beats that it has left.
    pub(super) fn standing(&self) -> impl Iterator<Item = (Rumour<I>, u32)> + '_ {
        let down = self.entries.values().filter(|entry| entry.is_down());
        down.map(|entry| (entry.rumour, entry.beats_left))
    }

    /// Whether a rumour says that this peer is down, believed or not.
    pub(super) fn accuses(&self, peer: I) -> bool {
        self.entries
            .get(&peer)
            .is_some_and(|entry| !entry.rumour.is_up)
    }

    /// Let the rumour about this peer end in `beats` beats at the latest, and do not pass it on.
    pub(super) fn shorten(&mut self, peer: I, beats: u32) {
        if let Some(entry) = self.entries.get_mut(&peer) {
            entry.beats_left = entry.beats_left.min(beats.max(1));
            entry.is_told = true;
        }
    }

    fn of_belief(&self, belief: Belief) -> impl Iterator<Item = Rumour<I>> + '_ {
        let entries = self.entries.values();
        let entries = entries.filter(move |entry| !entry.rumour.is_up && entry.belief == belief);
        entries.map(|entry| entry.rumour)
    }

    /// The answer to this accusation, if it is known here. Its incarnation is limited, so that a
    /// node that believes the accusation can believe the answer, even if further accusations have
    /// been answered since.
    pub(super) fn answer_to(&self, accusation: &Rumour<I>) -> Option<Rumour<I>> {
        let entry = self.entries.get(&accusation.peer);
        let answer = entry.map(|entry| entry.rumour).filter(|said| said.is_up);
        let said = answer.filter(|said| {
            (said.boot, said.incarnation) > (accusation.boot, accusation.incarnation)
        })?;
        let known = match said.boot == accusation.boot {
            true => accusation.incarnation,
            false => 0,
        };
        let incarnation = said.incarnation.min(known.saturating_add(MAX_AHEAD));
        Some(Rumour {
            incarnation,
            ..said
        })
    }

    /// Whether some node may believe this accusation. The limit is twice [`MAX_AHEAD`], since
    /// another node may have forgotten more of that life's rumours than this one.
    pub(super) fn is_credible(&self, accusation: &Rumour<I>) -> bool {
        self.ahead(accusation) <= 2 * MAX_AHEAD
    }

    /// Whether the rumour is about the life of the peer that this node knows rumours of.
    pub(super) fn knows(&self, rumour: &Rumour<I>) -> bool {
        let entry = self.entries.get(&rumour.peer);
        entry.is_some_and(|entry| entry.rumour.boot == rumour.boot)
    }

    /// How far the incarnation of the rumour is ahead of the known one; 0 if it is not.
    fn ahead(&self, rumour: &Rumour<I>) -> u32 {
        let known = self.incarnation(rumour.peer, rumour.boot);
        rumour.incarnation.saturating_sub(known)
    }

    /// Whether to bring this accusation to the accused now, and note that. It is brought only if
    /// others may believe it, once per beat, and among at most [`MAX_BROUGHT`] accusations per
    /// beat.
    pub(super) fn may_bring(&mut self, accusation: &Rumour<I>) -> bool {
        let name = (accusation.peer, accusation.boot, accusation.incarnation);
        self.ahead(accusation) <= MAX_AHEAD
            && self.brought.len() < MAX_BROUGHT
            && self.brought.insert(name)
    }

    /// A life of a peer has said goodbye, which outdoes every rumour about that life. Returns
    /// false, and changes nothing, if a later life is known.
    pub(super) fn end(&mut self, peer: I, boot: u64) -> bool {
        let known = self.entries.get(&peer).map(|entry| entry.rumour.boot);
        let is_last = known.is_none_or(|known| known <= boot);
        if is_last {
            self.entries.remove(&peer);
        }
        is_last
    }

    /// Take a rumour, perhaps of its sender about itself (`is_own`). `link` is the life of the peer
    /// at the other end of this node's link to it, as the transport knows it.
    pub(super) fn hear(&mut self, rumour: Rumour<I>, link: Option<u64>, is_own: bool) -> News {
        let known = self.entries.get(&rumour.peer);
        let is_answer = is_own && rumour.is_up;
        if is_of_other_life(&rumour, known, link, is_answer) {
            return News::Stale;
        }
        // If the known accusation names no life, it is about the newly accused life, too.
        let is_said = |entry: &&Entry<I>| entry.rumour.boot == 0 && !entry.rumour.is_up;
        let known = known
            .filter(|entry| entry.rumour.boot == rumour.boot || !rumour.is_up && is_said(entry));
        let incarnation = known.map_or(0, |entry| entry.rumour.incarnation);
        let ahead = rumour.incarnation.checked_sub(incarnation);
        let max_ahead = MAX_AHEAD + u32::from(rumour.is_up);
        let is_possible = ahead.is_some_and(|ahead| ahead <= max_ahead);
        let is_witnessed =
            known.is_some_and(|entry| entry.is_down() && entry.belief == Belief::Witnessed);
        let is_news = match known {
            None => true,
            // An answer outdoes the accusation that it answers, but not a verdict of this node
            // itself.
            Some(_) if rumour.is_up => ahead > Some(0) && !is_witnessed,
            Some(entry) if entry.belief == Belief::Contradicted => true,
            Some(entry) => entry.rumour.is_up,
        };
        let is_told = known.is_some_and(|entry| entry.belief == Belief::Contradicted);
        if is_possible && is_witnessed && rumour.is_up && ahead > Some(0) {
            let entry = self.entries.get_mut(&rumour.peer);
            let entry = entry.filter(|entry| !entry.is_denied && self.denied_in_beat < MAX_DENIED);
            let Some(entry) = entry else {
                return News::Stale;
            };
            entry.is_denied = true;
            self.denied_in_beat += 1;
            return News::Denied;
        }
        if !is_possible || !is_news || self.new_in_beat >= MAX_PER_BEAT {
            return News::Stale;
        }
        self.new_in_beat += 1;
        let was_down = self.is_down(rumour.peer);
        let belief = match link {
            Some(_) => Belief::Asking,
            None => Belief::Hearsay,
        };
        self.enter(rumour, belief);
        if let Some(entry) = self.entries.get_mut(&rumour.peer) {
            // Nodes that can hear the accused must not keep telling each other.
            entry.is_told = is_told && !rumour.is_up;
            entry.is_own = is_answer;
        }
        match (rumour.is_up, was_down) {
            (false, _) => News::Accused,
            (true, true) => News::Cleared,
            // The answer is passed on all the same: others may have heard the accusation.
            (true, false) => News::Stale,
        }
    }

    /// Count a beat. Returns the peers that were taken for down by an accusation that has expired.
    pub(super) fn on_beat(&mut self) -> Vec<I> {
        self.new_in_beat = 0;
        // Peers that have had no turn yet come before peers that have had one.
        let had_all_their_turn = self.denied_in_beat < MAX_DENIED;
        self.denied_in_beat = 0;
        self.brought.clear();
        let mut cleared = Vec::new();
        let life = self.life;
        self.entries.retain(|peer, entry| {
            // A corrupted age must not last longer than a valid one.
            entry.beats_left = entry.beats_left.min(life).saturating_sub(1);
            entry.is_denied &= !had_all_their_turn;
            if entry.beats_left == 0 && entry.is_down() {
                cleared.push(*peer);
            }
            entry.beats_left > 0
        });
        cleared
    }

    /// The rumours to pass on now, [`MAX_TOLD`] at most. Each node hears them from several others,
    /// in case that a message is lost.
    pub(super) fn tell(&mut self) -> Vec<Rumour<I>> {
        let untold = self.entries.values_mut().filter(|entry| !entry.is_told);
        let told = untold.take(MAX_TOLD).map(|entry| {
            entry.is_told = true;
            entry.rumour
        });
        told.collect()
    }

    /// Whether any rumour waits to be passed on.
    pub(super) fn has_untold(&self) -> bool {
        self.entries.values().any(|entry| !entry.is_told)
    }

    /// The last known incarnation of a life of a peer; 0 if none is known.
    fn incarnation(&self, peer: I, boot: u64) -> u32 {
        let entry = self.entries.get(&peer).map(|entry| entry.rumour);
        let same = entry.filter(|rumour| rumour.boot == boot);
        same.map_or(0, |rumour| rumour.incarnation)
    }

    fn enter(&mut self, rumour: Rumour<I>, belief: Belief) {
        let entry = Entry {
            rumour,
            belief,
            beats_left: self.life,
            is_told: false,
            is_own: false,
            is_denied: false,
        };
        self.entries.insert(rumour.peer, entry);
        while self.entries.len() > MAX_RUMOURS {
            let others = self.entries.iter().filter(|(id, _)| **id != rumour.peer);
            let oldest = others.min_by_key(|(_, entry)| entry.beats_left);
            let Some(oldest) = oldest.map(|(id, _)| *id) else {
                break;
            };
            self.entries.remove(&oldest);
        }
    }
}

/// Whether the rumour is about a life that is over, or about another life than the linked one.
fn is_of_other_life<I>(
    rumour: &Rumour<I>,
    known: Option<&Entry<I>>,
    link: Option<u64>,
    is_answer: bool,
) -> bool {
    // The peer may have answered for a life that its link does not have.
    let own = known.filter(|entry| entry.is_own);
    let is_answered_for = own.is_some_and(|own| own.rumour.boot == rumour.boot);
    let is_linked = link == Some(rumour.boot) || link.is_some() && is_answered_for;
    // If the known life is accused, it may be over: word that a later life is up counts.
    let accused = known.filter(|entry| !entry.rumour.is_up && rumour.is_up);
    let is_next = accused.is_some_and(|_| link < Some(rumour.boot));
    let is_over = known.is_some_and(|entry| entry.rumour.boot > rumour.boot);
    let is_asked_after = own.is_some() && is_linked && !rumour.is_up;
    // Others may believe an accusation of a life that never was. The answer of the accused itself
    // must therefore travel through the nodes that know better.
    let is_foreign = link.is_some() && !is_linked && !is_next && !is_answer;
    is_over && !is_asked_after || is_foreign
}

impl<I> Entry<I> {
    fn is_down(&self) -> bool {
        let is_open = matches!(self.belief, Belief::Asking | Belief::Contradicted);
        !self.rumour.is_up && !is_open
    }
}

#[cfg(test)]
mod tests;
