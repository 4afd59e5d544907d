//! What is said of peers that are down, and what they answer.
//!
//! Like a lost-property notice: it names exactly one thing, is passed on once by
//! everybody, is taken down when the owner shows up, and yellows after a while.
//! An accusation names the incarnation that it is about; the accused answers with
//! the next. Numbers order what honest peers say and nothing else: an accusation
//! of an incarnation that is too far ahead is no news, and contact with the
//! accused settles the matter for whoever has it.

use std::collections::{BTreeMap, BTreeSet};

use crate::Id;
use crate::message::detector::{MAX_RUMOURS, MAX_TOLD, Rumour};
use crate::stamp::Mark;

/// How far the incarnation of an accusation may be ahead of what is known; more is a
/// lie. An answer is one further.
const MAX_AHEAD: u32 = 8;
/// How many accusations are brought to the accused per beat.
const MAX_BROUGHT: usize = 64;
/// How many peers that it found down itself a node probes per beat because others call them up;
/// further ones have their turn in the next beats.
const MAX_DENIED: u32 = 8;
/// How many new rumours a node believes per beat; further ones are not passed
/// on, so that one liar cannot keep everybody busy.
const MAX_PER_BEAT: u32 = 128;

/// How much this node makes of an accusation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Belief {
    /// It has no link to the accused and no reason to doubt.
    Hearsay,
    /// It has a link, and asks the accused.
    Asking,
    /// It has heard the accused since, which does not seem to know yet what is
    /// said of it.
    Contradicted,
    /// It has found out for itself.
    Witnessed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry<I> {
    rumour: Rumour<I>,
    belief: Belief,
    beats_left: u32,
    /// Whether others have been told.
    is_told: bool,
    /// The peer said this of itself, in a life that its link here may not have: it
    /// answers for that life, so it is accused in it from now on.
    is_own: bool,
    /// Whether others have said lately that it is up, although this node found it down.
    is_denied: bool,
}

/// The rumours that a node has heard or started.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Rumours<I> {
    entries: BTreeMap<I, Entry<I>>,
    new_in_beat: u32,
    denied_in_beat: u32,
    /// Which accusations, by life and incarnation, were brought to the accused in
    /// this beat.
    brought: BTreeSet<(I, u64, u32)>,
    life: u32,
}

/// What a rumour does to what this node believes of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing.
    Stale,
    /// It is called down.
    Accused,
    /// It is called up.
    Cleared,
    /// Others say that it is up, and this node has found out for itself that it is down.
    Denied,
}

impl<I: Id> Rumours<I> {
    /// None yet; each lives for `life` beats.
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

    /// Those that are taken for down.
    pub(super) fn down(&self) -> impl Iterator<Item = I> + '_ {
        let down = self.entries.values().filter(|entry| entry.is_down());
        down.map(|entry| entry.rumour.peer)
    }

    /// This node has found out that `peer` is down.
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

    /// The accused, which this node has a link to, did not answer. Returns
    /// whether it is still accused.
    pub(super) fn witness(&mut self, peer: I) -> bool {
        let entry = self.entries.get_mut(&peer);
        let accused = entry.filter(|entry| !entry.rumour.is_up);
        accused
            .map(|entry| entry.belief = Belief::Witnessed)
            .is_some()
    }

    /// Say of `peer` that it is up: another life of it, or this node itself as
    /// the answer to an accusation.
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

    /// Somebody accuses an earlier life of a peer than `boot`, to which there is a
    /// link here: say so, once.
    pub(super) fn outdate(&mut self, accusation: &Rumour<I>, boot: u64) {
        let is_said = self.answer_to(accusation).is_some();
        if !is_said && self.new_in_beat < MAX_PER_BEAT {
            self.new_in_beat += 1;
            self.clear(accusation.peer, boot, 0);
        }
    }

    /// There was contact with `peer`: the accusation, if there was one, is taken
    /// back here, and returned unless contact has taken it back before.
    pub(super) fn contradict(&mut self, peer: I) -> Option<Rumour<I>> {
        let entry = self.entries.get_mut(&peer)?;
        if entry.rumour.is_up || entry.belief == Belief::Contradicted {
            return None;
        }
        entry.belief = Belief::Contradicted;
        Some(entry.rumour)
    }

    /// This node was absent. Its own accusations from before that count as hearsay from
    /// now on, so that one answer undoes them.
    pub(super) fn doubt_witnessed(&mut self) {
        let accusations = self.entries.values_mut();
        for entry in accusations.filter(|entry| !entry.rumour.is_up) {
            if entry.belief == Belief::Witnessed {
                entry.belief = Belief::Hearsay;
            }
        }
    }

    /// What the accused, who can be heard here, have not answered yet.
    pub(super) fn contradicted(&self) -> impl Iterator<Item = Rumour<I>> + '_ {
        self.of_belief(Belief::Contradicted)
    }

    /// The peers that are taken for down, to be asked about: this node cannot check what it was
    /// told, and what it found out itself may have changed since.
    pub(super) fn in_doubt(&self) -> impl Iterator<Item = Rumour<I>> + '_ {
        let witnessed = self.of_belief(Belief::Witnessed);
        self.of_belief(Belief::Hearsay).chain(witnessed)
    }

    /// The same with the beats that are left of each.
    pub(super) fn standing(&self) -> impl Iterator<Item = (Rumour<I>, u32)> + '_ {
        let down = self.entries.values().filter(|entry| entry.is_down());
        down.map(|entry| (entry.rumour, entry.beats_left))
    }

    /// Whether this peer is said to be down, believed or not.
    pub(super) fn accuses(&self, peer: I) -> bool {
        self.entries
            .get(&peer)
            .is_some_and(|entry| !entry.rumour.is_up)
    }

    /// What is said of this peer ends in so many beats, if not before, and is not passed on.
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

    /// The answer to this accusation, if it is known here: such that whoever believes
    /// the one may believe the other, even if several have been answered since.
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

    /// Whether this could be believed by somebody: of what was said in that life some
    /// may have forgotten more than others.
    pub(super) fn is_credible(&self, accusation: &Rumour<I>) -> bool {
        self.ahead(accusation) <= 2 * MAX_AHEAD
    }

    /// Whether this life of the peer is the one that is spoken of here.
    pub(super) fn knows(&self, rumour: &Rumour<I>) -> bool {
        let entry = self.entries.get(&rumour.peer);
        entry.is_some_and(|entry| entry.rumour.boot == rumour.boot)
    }

    /// How far beyond what is known here.
    fn ahead(&self, rumour: &Rumour<I>) -> u32 {
        let known = self.incarnation(rumour.peer, rumour.boot);
        rumour.incarnation.saturating_sub(known)
    }

    /// Whether this accusation, which others may believe, is to be brought to the
    /// accused: once per beat.
    pub(super) fn may_bring(&mut self, accusation: &Rumour<I>) -> bool {
        let name = (accusation.peer, accusation.boot, accusation.incarnation);
        self.ahead(accusation) <= MAX_AHEAD
            && self.brought.len() < MAX_BROUGHT
            && self.brought.insert(name)
    }

    /// A life of a peer has said goodbye, which is more than any rumour of it. Returns
    /// false, and changes nothing, if a later one is known.
    pub(super) fn end(&mut self, peer: I, boot: u64) -> bool {
        let known = self.entries.get(&peer).map(|entry| entry.rumour.boot);
        let is_last = known.is_none_or(|known| known <= boot);
        if is_last {
            self.entries.remove(&peer);
        }
        is_last
    }

    /// Somebody says `rumour`, perhaps of itself. `link` is the life of that peer that
    /// this node has a link to, as the transport knows it.
    pub(super) fn hear(&mut self, rumour: Rumour<I>, link: Option<u64>, is_own: bool) -> News {
        let known = self.entries.get(&rumour.peer);
        let is_answer = is_own && rumour.is_up;
        if is_of_other_life(&rumour, known, link, is_answer) {
            return News::Stale;
        }
        // An accusation of an unknown life is one of this life, too.
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
            // An answer outdoes what it answers, but not what was witnessed.
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
            // Those who can hear the accused must not keep telling each other.
            entry.is_told = is_told && !rumour.is_up;
            entry.is_own = is_answer;
        }
        match (rumour.is_up, was_down) {
            (false, _) => News::Accused,
            (true, true) => News::Cleared,
            // Passed on all the same: others may have heard the accusation.
            (true, false) => News::Stale,
        }
    }

    /// A beat has passed. Returns those whose accusation has yellowed.
    pub(super) fn on_beat(&mut self) -> Vec<I> {
        self.new_in_beat = 0;
        // Those whose turn has not come yet get it first.
        let had_all_their_turn = self.denied_in_beat < MAX_DENIED;
        self.denied_in_beat = 0;
        self.brought.clear();
        let mut cleared = Vec::new();
        let life = self.life;
        self.entries.retain(|peer, entry| {
            // A corrupted age must not outlast a whole one.
            entry.beats_left = entry.beats_left.min(life).saturating_sub(1);
            entry.is_denied &= !had_all_their_turn;
            if entry.beats_left == 0 && entry.is_down() {
                cleared.push(*peer);
            }
            entry.beats_left > 0
        });
        cleared
    }

    /// What to tell others now. Each neighbour hears it from others too, should
    /// a message be lost.
    pub(super) fn tell(&mut self) -> Vec<Rumour<I>> {
        let untold = self.entries.values_mut().filter(|entry| !entry.is_told);
        let told = untold.take(MAX_TOLD).map(|entry| {
            entry.is_told = true;
            entry.rumour
        });
        told.collect()
    }

    /// Whether there is something to tell.
    pub(super) fn has_untold(&self) -> bool {
        self.entries.values().any(|entry| !entry.is_told)
    }

    /// The last known incarnation of a life of a peer.
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

/// Whether a life is meant that is over, or that is not the linked peer's.
fn is_of_other_life<I>(
    rumour: &Rumour<I>,
    known: Option<&Entry<I>>,
    link: Option<u64>,
    is_answer: bool,
) -> bool {
    // It may have answered for a life that its link does not have.
    let own = known.filter(|entry| entry.is_own);
    let is_answered_for = own.is_some_and(|own| own.rumour.boot == rumour.boot);
    let is_linked = link == Some(rumour.boot) || link.is_some() && is_answered_for;
    // A life that may be over says nothing against the next one.
    let accused = known.filter(|entry| !entry.rumour.is_up && rumour.is_up);
    let is_next = accused.is_some_and(|_| link < Some(rumour.boot));
    let is_over = known.is_some_and(|entry| entry.rumour.boot > rumour.boot);
    let is_asked_after = own.is_some() && is_linked && !rumour.is_up;
    // Others may believe an accusation of a life that never was: the accused's own
    // answer to it travels through those who know better.
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
