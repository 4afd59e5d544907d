//! Lives: members that were started again, and the votes of their former lives.
//!
//! A member records the greatest generation of each name in which it takes part in a vote, before
//! it does. A later life with this record votes in greater generations only. A life that has lost
//! the record first introduces its number to the members of a list. It votes in operations of the
//! list
//! - once enough members that may vote themselves know its number: at least one of each majority
//!   that its former life was part of; or
//! - once all other members of the list know its number: then no other member could remember more.
//!
//! Each of these members answers with the greatest generation of each name in which it promised or
//! voted before it knew the number. The new life does not vote in these generations or earlier
//! ones. A member that knows the number repeats it in each of its votes, and a coordinator does not
//! count votes of former lives. So a vote of a former life has one of two fates: a member of its
//! majority reports it now, or it does not count any more.
//!
//! Two cases remain in which an operation may be decided twice. Every member of a majority has lost
//! its record or is cut off. Or a vote of a life without a record reaches a coordinator late, after
//! all members that knew the next life were started again too.

use std::collections::{BTreeMap, BTreeSet};

use binomesh_overlay::Id;

use super::terms::{Digest, Key, Name};
use super::voting::majority;

/// The record of the generations in which former lives took part in votes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Record {
    /// The greatest generation of each name; empty in the first life of an identity.
    Kept(BTreeMap<Name, u64>),
    /// There were former lives, and their record is lost.
    Lost,
}

/// The greatest generation of each name among these keys.
pub(super) fn greatest(keys: impl Iterator<Item = Key>) -> Vec<Key> {
    let mut greatest: BTreeMap<Name, u64> = BTreeMap::new();
    for key in keys {
        let known = greatest.entry(key.name).or_default();
        *known = key.generation.max(*known);
    }
    let greatest = greatest.into_iter();
    greatest
        .map(|(name, generation)| Key { name, generation })
        .collect()
}

/// This member's knowledge of lives: its own former ones, and new lives of other members.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lives<I> {
    /// Whether the record of former lives is here. In a first life it is empty.
    has_record: bool,
    /// The members that have introduced a new life, with its number. At most [`Lives::MAX_MET`].
    met: BTreeMap<I, u64>,
    /// The answers to this life's introductions: by the digest of a list, for each other member
    /// `None` until it knows this life, then whether it may vote itself. At most
    /// [`Lives::MAX_LISTS`].
    known_to: BTreeMap<Digest, BTreeMap<I, Option<bool>>>,
    /// For each name, the greatest generation in which a former life may have voted: as the record
    /// has it, or as other members answered, for at most [`Lives::MAX_NAMES`] names.
    floors: BTreeMap<Name, u64>,
    /// This life, and each later one of this process, votes nowhere any more: there were too many
    /// names, or a vote could not be recorded.
    is_barred_for_good: bool,
    /// An answer to an introduction had more names than there is room for. So this life does not
    /// know all floors, and is not sure for others either.
    has_overflowed: bool,
}

impl<I: Id> Lives<I> {
    /// How many peers with a new life are remembered. Full: a further one gets no answer to its
    /// introduction.
    pub const MAX_MET: usize = 8192;
    /// In how many lists of members a new life introduces itself. Full: it does not vote in
    /// operations of further lists.
    pub const MAX_LISTS: usize = 256;
    /// How many names may have a floor by the answers of other members: four times as many as a
    /// member takes up in one life. After an answer that would bring more, this life votes nowhere
    /// any more.
    pub const MAX_NAMES: usize = 4096;

    /// A life with this record of the former ones.
    pub fn new(record: Record) -> Self {
        let (has_record, floors) = match record {
            Record::Kept(floors) => (true, floors),
            Record::Lost => (false, BTreeMap::new()),
        };
        Self {
            has_record,
            met: BTreeMap::new(),
            known_to: BTreeMap::new(),
            floors,
            is_barred_for_good: false,
            has_overflowed: false,
        }
    }

    /// Whether certainly no former life has taken part in this operation.
    pub fn is_new(&self, key: &Key) -> bool {
        self.has_record && self.may_vote(key)
    }

    /// Whether this life may vote in operations of this list, to which it belongs.
    pub fn is_sure(&self, list: &Digest, members: usize) -> bool {
        if self.has_overflowed {
            return false;
        }
        if self.has_record {
            return true;
        }
        let Some(known_to) = self.known_to.get(list) else {
            return members == 1;
        };
        let sure = known_to.values().filter(|answer| **answer == Some(true));
        // Each majority with this member in it also has one of these members.
        let enough = members + 1 - majority(members);
        sure.count() >= enough || known_to.values().all(Option::is_some)
    }

    /// Whether this life may vote in this operation, if [`Lives::is_sure`] of its list.
    pub fn may_vote(&self, key: &Key) -> bool {
        let floor = self.floors.get(&key.name).copied();
        !self.is_barred_for_good && floor < Some(key.generation)
    }

    /// Stop voting, in this life and later ones of this process.
    pub const fn bar(&mut self) {
        self.is_barred_for_good = true;
    }

    /// Whether this life votes nowhere any more.
    pub const fn is_barred(&self) -> bool {
        self.is_barred_for_good
    }

    /// Begin the introduction to the members of a list; false if there is no room for the list.
    pub fn begin(&mut self, list: Digest, members: &[I], me: I) -> bool {
        if self.known_to.contains_key(&list) {
            return true;
        }
        if self.known_to.len() >= Self::MAX_LISTS {
            return false;
        }
        let others = members.iter().filter(|member| **member != me);
        let asked = others.map(|member| (*member, None)).collect();
        self.known_to.insert(list, asked);
        true
    }

    /// The members of a list that have not said yet that they know this life.
    pub fn unaware(&self, list: &Digest) -> impl Iterator<Item = I> + '_ {
        let known_to = self.known_to.get(list).into_iter().flatten();
        known_to.filter_map(|(member, answer)| answer.is_none().then_some(*member))
    }

    /// The member `from` says that it knows this life. `is_sure`: that member may vote in
    /// operations of this list. `touched`: the greatest generations in which former lives may have
    /// voted.
    pub fn on_known(&mut self, from: I, list: &Digest, is_sure: bool, touched: Vec<Key>) {
        let known_to = self.known_to.get_mut(list);
        let Some(answer) = known_to.and_then(|known_to| known_to.get_mut(&from)) else {
            return;
        };
        *answer = Some(is_sure || *answer == Some(true));
        let is_new = |key: &&Key| !self.floors.contains_key(&key.name);
        let names: BTreeSet<&Name> = touched.iter().filter(is_new).map(|key| &key.name).collect();
        self.has_overflowed |= self.floors.len() + names.len() > Self::MAX_NAMES;
        self.is_barred_for_good |= self.has_overflowed;
        if self.is_barred_for_good {
            return;
        }
        for key in touched {
            let floor = self.floors.entry(key.name).or_default();
            *floor = key.generation.max(*floor);
        }
    }

    /// For each name, the greatest generation in which a former life of this member may have voted.
    pub fn floors(&self) -> impl Iterator<Item = Key> + '_ {
        let floors = self.floors.iter();
        floors.map(|(name, floor)| Key {
            name: name.clone(),
            generation: *floor,
        })
    }

    /// A member introduces its new life; false if there is no room to remember it.
    pub fn meet(&mut self, peer: I, boot: u64) -> bool {
        if self.met.len() >= Self::MAX_MET && !self.met.contains_key(&peer) {
            return false;
        }
        let known = self.met.entry(peer).or_insert(boot);
        *known = boot.max(*known);
        true
    }

    /// The new lives of members of this list: place and number.
    pub fn among(&self, members: &[I]) -> Vec<(u32, u64)> {
        if self.met.is_empty() {
            return Vec::new();
        }
        let all = members.iter().zip(0..);
        let known = all.filter_map(|(member, place)| Some((place, *self.met.get(member)?)));
        known.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: Digest = [1; 16];

    fn key(generation: u64) -> Key {
        Key {
            name: "x".parse().unwrap(),
            generation,
        }
    }

    #[test]
    fn a_life_with_a_record_votes_at_once_and_another_one_when_enough_know_it() {
        let record = Record::Kept([("x".parse().unwrap(), 7)].into());
        let lives = Lives::<u8>::new(record);
        assert!(lives.is_sure(&LIST, 5));
        assert!(!lives.may_vote(&key(7)));
        assert!(lives.may_vote(&key(8)));
        let mut lives = Lives::new(Record::Lost);
        lives.begin(LIST, &[0, 1, 2, 3, 4], 0);
        for (peer, is_enough) in [(1, false), (2, false), (3, true)] {
            lives.on_known(peer, &LIST, true, Vec::new());
            assert_eq!(lives.is_sure(&LIST, 5), is_enough, "{peer}");
        }
        assert!(!lives.is_sure(&[2; 16], 5));
    }

    #[test]
    fn members_that_may_not_vote_themselves_suffice_only_if_they_are_all() {
        let mut lives = Lives::new(Record::Lost);
        lives.begin(LIST, &[0, 1, 2, 3, 4], 0);
        for peer in 1..4 {
            lives.on_known(peer, &LIST, false, Vec::new());
            assert!(!lives.is_sure(&LIST, 5));
        }
        lives.on_known(4, &LIST, false, Vec::new());
        assert!(lives.is_sure(&LIST, 5));
    }

    #[test]
    fn a_later_life_does_not_vote_where_its_former_one_may_have() {
        let mut lives = Lives::new(Record::Lost);
        lives.begin(LIST, &[0, 1, 2, 3, 4], 0);
        lives.on_known(1, &LIST, true, vec![key(7), key(3)]);
        assert!(!lives.may_vote(&key(7)));
        assert!(!lives.may_vote(&key(3)));
        let named = |number: usize| Key {
            name: number.to_string().parse().unwrap(),
            generation: 1,
        };
        let too_many = (0..=Lives::<u8>::MAX_NAMES).map(named).collect();
        lives.on_known(2, &LIST, true, too_many);
        assert!(!lives.may_vote(&key(8_000_000)));
    }

    #[test]
    fn names_that_several_members_report_count_once() {
        let mut lives = Lives::new(Record::Lost);
        lives.begin(LIST, &[0, 1, 2, 3, 4], 0);
        let named = |number: usize| Key {
            name: number.to_string().parse().unwrap(),
            generation: 1,
        };
        for peer in 1..4 {
            let most = (0..Lives::<u8>::MAX_NAMES).map(named).collect();
            lives.on_known(peer, &LIST, true, most);
        }
        assert!(!lives.is_barred());
        lives.on_known(4, &LIST, true, vec![named(Lives::<u8>::MAX_NAMES)]);
        assert!(lives.is_barred());
        assert!(!lives.is_sure(&LIST, 5), "it does not know all floors");
    }
}
