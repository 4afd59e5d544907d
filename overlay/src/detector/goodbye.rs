//! Goodbyes: the last word of a life that leaves.
//!
//! Like a letter of resignation: it is signed, any peer may pass it on, and it says nothing about
//! the next employment. A goodbye names one life of one peer. For this machine its proof is only
//! bytes. The host verifies the proof before the machine sees the goodbye, and turns an unproven
//! one into a [`Rumour`], which any peer may spread.
//!
//! A member that has said goodbye is down at once. No message is meant for it until it appears
//! again or the goodbye expires. When a goodbye expires, the rank of that member has been given up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::Id;
use crate::message::detector::{Goodbye, Rumour};

/// The most peers whose goodbyes a node keeps; one more displaces the oldest.
pub const MAX_GOODBYES: usize = 1024;
/// The most goodbyes that are sent at a time, also over a link that comes up.
pub(super) const MAX_RECENT: usize = 64;
/// Messages of a life may arrive for this long after its goodbye, on slower streams. A later
/// message counts as contact. A guess: if it is shorter than the delay between two streams of a
/// closing link, a late message revives a peer that has left.
pub(super) const LATE: Duration = Duration::from_millis(1500);
/// How many times a goodbye is asked about in the beats after its arrival, each time at another
/// linked peer, if there are several. The goodbye may have crossed with news of the peer's return
/// on a link that was just made.
const ASKED: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    boot: u64,
    /// The signature; empty once the goodbye is no longer told to other nodes.
    proof: Vec<u8>,
    /// Whether the goodbye has been sent over all links.
    is_told: bool,
    /// For how many more beats the goodbye holds and is sent over new links; at 0 it has expired.
    beats_left: u32,
    /// For how many more beats late messages of that life may arrive.
    late_beats_left: u32,
    /// How many questions about the goodbye are left to ask, each of one linked peer.
    questions_left: u32,
}

/// The goodbyes that a node has heard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Goodbyes<I> {
    entries: BTreeMap<I, Entry>,
    /// Peers whose goodbye was believed in this beat; their next goodbye has to wait.
    believed: BTreeSet<I>,
    /// For how many beats a goodbye holds.
    life: u32,
    /// The time [`LATE`] in beats of the detector.
    late_beats: u32,
}

impl<I: Id> Goodbyes<I> {
    /// No goodbyes yet. Each is sent over new links for `life` beats, and messages may be late for
    /// `late_beats` beats.
    pub(super) const fn new(life: u32, late_beats: u32) -> Self {
        Self {
            entries: BTreeMap::new(),
            believed: BTreeSet::new(),
            life,
            late_beats,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether a peer has left, by a goodbye that has not expired.
    pub(super) fn has(&self, peer: I) -> bool {
        self.entries
            .get(&peer)
            .is_some_and(|entry| !entry.is_over())
    }

    /// Which life of a peer has left, by a goodbye that has not expired.
    pub(super) fn boot(&self, peer: I) -> Option<u64> {
        let entry = self.entries.get(&peer);
        entry
            .filter(|entry| !entry.is_over())
            .map(|entry| entry.boot)
    }

    /// The peers that have left, by goodbyes that have not expired.
    pub(super) fn peers(&self) -> impl Iterator<Item = I> + '_ {
        let left = self.entries.iter().filter(|(_, entry)| !entry.is_over());
        left.map(|(peer, _)| *peer)
    }

    /// Whether a goodbye of this life would be believed now. It is no news if a goodbye of this or a
    /// later life is kept. In one beat at most one goodbye of a peer is believed, and at most
    /// [`MAX_GOODBYES`] in all.
    pub(super) fn is_news(&self, peer: I, boot: u64) -> bool {
        let known = self.entries.get(&peer);
        let is_later = known.is_none_or(|entry| entry.boot < boot);
        is_later && self.believed.len() < MAX_GOODBYES && !self.believed.contains(&peer)
    }

    /// A life of a peer has left; `is_linked` if this node has or had a link to that very life, or
    /// has a link to an unknown one. Messages of the peer may then be late.
    /// Returns the peer whose goodbye was displaced, if that one had not expired.
    pub(super) fn enter(&mut self, goodbye: Goodbye<I>, is_linked: bool) -> Option<I> {
        let Goodbye { peer, boot, proof } = goodbye;
        let entry = Entry {
            boot,
            proof,
            is_told: false,
            beats_left: self.life,
            late_beats_left: if is_linked { self.late_beats } else { 0 },
            questions_left: ASKED,
        };
        self.believed.insert(peer);
        self.entries.insert(peer, entry);
        if self.entries.len() <= MAX_GOODBYES {
            return None;
        }
        let others = self.entries.iter().filter(|(id, _)| **id != peer);
        let oldest = others.min_by_key(|(_, entry)| entry.beats_left);
        let oldest = oldest.map(|(id, _)| *id)?;
        self.remove(oldest).then_some(oldest)
    }

    /// Forget the goodbye of a peer: the peer is back, or another goodbye displaces this one.
    /// Returns whether the goodbye still held.
    pub(super) fn remove(&mut self, peer: I) -> bool {
        let entry = self.entries.remove(&peer);
        entry.is_some_and(|entry| !entry.is_over())
    }

    /// The goodbye of a life of the peer that is later than the life `boot`. If the process with
    /// that `boot` does not know of the later life, it has lost its state.
    pub(super) fn later(&self, peer: I, boot: u64) -> Option<Goodbye<I>> {
        self.proven(peer).filter(|goodbye| goodbye.boot > boot)
    }

    /// A link to the very life that has left is up: its earlier messages may still come.
    pub(super) fn expect_late(&mut self, peer: I) {
        if let Some(entry) = self.entries.get_mut(&peer) {
            entry.late_beats_left = self.late_beats;
        }
    }

    /// Whether a message that comes from the peer now may have been sent before its goodbye.
    pub(super) fn is_late(&self, peer: I) -> bool {
        self.entries
            .get(&peer)
            .is_some_and(|entry| entry.late_beats_left > 0)
    }

    /// A beat has passed. Returns the peers whose goodbyes have expired.
    pub(super) fn on_beat(&mut self) -> Vec<I> {
        let (life, late) = (self.life, self.late_beats);
        self.believed.clear();
        let mut expired = Vec::new();
        for (peer, entry) in &mut self.entries {
            let was_over = entry.is_over();
            // A corrupted counter must not last longer than a valid one.
            entry.beats_left = entry.beats_left.min(life).saturating_sub(1);
            entry.late_beats_left = entry.late_beats_left.min(late).saturating_sub(1);
            entry.questions_left = entry.questions_left.min(ASKED);
            if entry.is_over() && !was_over {
                // The entry stays: the same goodbye from a node that still keeps it must not be
                // news again.
                entry.proof = Vec::new();
                expired.push(*peer);
            }
        }
        expired
    }

    /// At most `most` goodbyes as rumours, starting at place `from`: to ask others whether they
    /// know a later life.
    pub(super) fn rumours(&self, from: usize, most: usize) -> impl Iterator<Item = Rumour<I>> + '_ {
        let standing = |(_, entry): &(&I, &Entry)| !entry.is_over();
        let count = self.entries.iter().filter(standing).count();
        let all = self.entries.iter().filter(standing).cycle();
        let some = all.skip(from.checked_rem(count).unwrap_or(0));
        some.take(most.min(count))
            .map(|(peer, entry)| entry.goodbye(*peer).rumour())
    }

    /// Let all goodbyes be asked about again.
    pub(super) fn doubt_all(&mut self) {
        self.entries
            .values_mut()
            .for_each(|entry| entry.questions_left = ASKED);
    }

    /// At most `most` goodbyes, as rumours, about which others are asked now. Each goodbye is
    /// returned by [`ASKED`] calls.
    pub(super) fn fresh(&mut self, most: usize) -> Vec<Rumour<I>> {
        let entries = self.entries.iter_mut();
        let fresh = entries.filter(|(_, entry)| entry.questions_left > 0 && !entry.is_over());
        let asked = fresh.take(most).map(|(peer, entry)| {
            entry.questions_left -= 1;
            entry.goodbye(*peer).rumour()
        });
        asked.collect()
    }

    /// The goodbyes that are sent over all links now, [`MAX_RECENT`] at most.
    pub(super) fn tell(&mut self) -> Vec<Goodbye<I>> {
        let untold = self.entries.iter_mut();
        let untold = untold.filter(|(_, entry)| entry.is_untold());
        let told = untold.take(MAX_RECENT).map(|(peer, entry)| {
            entry.is_told = true;
            entry.goodbye(*peer)
        });
        told.collect()
    }

    /// Whether any goodbye waits to be sent.
    pub(super) fn has_untold(&self) -> bool {
        self.entries.values().any(Entry::is_untold)
    }

    /// The goodbye of a peer, if it is still told to other nodes.
    pub(super) fn proven(&self, peer: I) -> Option<Goodbye<I>> {
        let entry = self.entries.get(&peer);
        let entry = entry.filter(|entry| !entry.proof.is_empty())?;
        Some(entry.goodbye(peer))
    }

    /// The goodbyes that are sent over a new link: those whose proofs are still kept,
    /// [`MAX_RECENT`] at most.
    pub(super) fn recent(&self) -> impl Iterator<Item = Goodbye<I>> + '_ {
        let recent = self.entries.keys().filter_map(|peer| self.proven(*peer));
        recent.take(MAX_RECENT)
    }

    /// Put an entry in an arbitrary state, as a transient fault may leave it.
    pub(super) fn corrupt(&mut self, peer: I, noise: u64) {
        let entry = Entry {
            boot: noise % 3,
            proof: Vec::new(),
            is_told: noise & 8 > 0,
            beats_left: (noise >> 8) as u32 | 1,
            late_beats_left: (noise >> 40) as u32,
            questions_left: (noise >> 50) as u32,
        };
        self.entries.insert(peer, entry);
    }
}

impl Entry {
    /// Whether the goodbye has expired.
    const fn is_over(&self) -> bool {
        self.beats_left == 0
    }

    const fn is_untold(&self) -> bool {
        !self.is_told && !self.proof.is_empty()
    }

    fn goodbye<I>(&self, peer: I) -> Goodbye<I> {
        Goodbye {
            peer,
            boot: self.boot,
            proof: self.proof.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goodbye(peer: u32, boot: u64) -> Goodbye<u32> {
        let proof = vec![1];
        Goodbye { peer, boot, proof }
    }

    #[test]
    fn a_goodbye_is_told_once_to_all_and_to_new_links_for_a_while() {
        let mut goodbyes = Goodbyes::new(3, 4);
        assert_eq!(goodbyes.enter(goodbye(7, 5), false), None);
        assert_eq!(goodbyes.tell(), [goodbye(7, 5)]);
        assert!(!goodbyes.has_untold());
        for _ in 0..2 {
            assert!(goodbyes.on_beat().is_empty());
            assert_eq!(goodbyes.recent().next(), Some(goodbye(7, 5)));
        }
        assert_eq!(goodbyes.on_beat(), [7], "it expires");
        assert!(goodbyes.recent().next().is_none() && !goodbyes.has(7));
    }

    #[test]
    fn a_new_goodbye_is_asked_about_at_two_beats_and_not_too_many_at_a_time() {
        let mut goodbyes = Goodbyes::new(9, 4);
        (0..3).for_each(|peer| _ = goodbyes.enter(goodbye(peer, 5), false));
        let mut asked = [0; 3];
        for most in [2, 2, 1, 1] {
            let fresh = goodbyes.fresh(2);
            assert_eq!(fresh.len(), most);
            fresh
                .iter()
                .for_each(|rumour| asked[rumour.peer as usize] += 1);
            goodbyes.on_beat();
        }
        assert_eq!((asked, goodbyes.fresh(2)), ([2; 3], Vec::new()));
        goodbyes.doubt_all();
        assert_eq!(goodbyes.fresh(9).len(), 3);
    }

    #[test]
    fn only_a_later_life_is_news_and_one_per_beat() {
        let mut goodbyes = Goodbyes::new(9, 4);
        assert!(goodbyes.is_news(7, 5));
        goodbyes.enter(goodbye(7, 5), false);
        assert!(!goodbyes.is_news(7, 6), "a liar leaves once in a beat");
        goodbyes.remove(7);
        assert!(!goodbyes.is_news(7, 6), "also if it was heard meanwhile");
        goodbyes.enter(goodbye(7, 5), false);
        goodbyes.on_beat();
        assert!(goodbyes.is_news(7, 6) && !goodbyes.is_news(7, 5));
    }

    #[test]
    fn of_more_goodbyes_in_one_beat_than_are_kept_the_rest_waits() {
        let mut goodbyes = Goodbyes::new(9, 4);
        for peer in 0..MAX_GOODBYES as u32 {
            assert!(goodbyes.is_news(peer, 1));
            goodbyes.enter(goodbye(peer, 1), false);
        }
        let more = MAX_GOODBYES as u32;
        assert!(!goodbyes.is_news(more, 1));
        goodbyes.on_beat();
        assert!(goodbyes.is_news(more, 1));
    }

    #[test]
    fn when_full_the_oldest_goes() {
        let mut goodbyes = Goodbyes::new(9, 4);
        goodbyes.enter(goodbye(0, 1), false);
        goodbyes.on_beat();
        for peer in 1..MAX_GOODBYES as u32 {
            assert_eq!(goodbyes.enter(goodbye(peer, 1), false), None);
        }
        let more = MAX_GOODBYES as u32;
        assert_eq!(goodbyes.enter(goodbye(more, 1), false), Some(0));
        assert_eq!(goodbyes.len(), MAX_GOODBYES);
        assert_eq!(goodbyes.tell().len(), MAX_RECENT);
    }

    #[test]
    fn messages_under_way_are_late_for_four_beats_even_by_a_corrupted_counter() {
        let mut goodbyes = Goodbyes::new(9, 4);
        goodbyes.enter(goodbye(7, 5), true);
        goodbyes.corrupt(8, u64::MAX);
        assert!(goodbyes.is_late(7) && goodbyes.is_late(8));
        (0..4).for_each(|_| assert!(goodbyes.on_beat().is_empty()));
        assert!(!goodbyes.is_late(7) && !goodbyes.is_late(8));
    }
}
