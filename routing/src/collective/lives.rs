//! Members that were started again, and what their former lives have voted for.
//!
//! A member records the greatest generation of each name in which it takes part in a vote,
//! before it does. A later life that has this record votes in greater generations only.
//! One that has lost it votes in operations of a list of members
//! - once so many other members of the list know its number that one of them must have
//!   been in any majority with its former life, and these may vote themselves, or
//! - once all other members of the list know its number: then nobody is left who could
//!   remember more;
//!
//! and in none of those operations in which one of these had promised or voted before it
//! knew that number. Who knows it tells it with each of its own votes, and who counts votes
//! leaves out those of former lives. So whatever a former life had voted for, either a
//! member of its majority says so now, or its vote does not count any more.
//!
//! What is decided twice all the same: an operation of whose majority every member has lost
//! its record, or is cut off and not heard of by the others.

use std::collections::{BTreeMap, BTreeSet};

use binomesh_overlay::Id;

use super::terms::{Digest, Key, Name};
use super::voting::majority;

/// In which generations former lives have taken part in votes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Record {
    /// The greatest one of each name; none in the first life of an identity.
    Kept(BTreeMap<Name, u64>),
    /// There were former lives, and no record of them is left.
    Lost,
}

/// What is known of members that were started again, this one among them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lives<I> {
    /// Whether this life knows what its former ones have taken part in.
    has_record: bool,
    /// Lives that have introduced themselves. At most [`Lives::MAX_MET`].
    met: BTreeMap<I, u64>,
    /// By the digest of a list of members: who knows this life, and whether it may vote.
    /// At most [`Lives::MAX_LISTS`].
    known_to: BTreeMap<Digest, BTreeMap<I, bool>>,
    /// Operations in which the former life may have voted. At most
    /// [`Lives::MAX_TOUCHED`].
    touched: BTreeSet<Key>,
    /// By name, up to which generation others have forgotten what was voted for. As many
    /// at most.
    floors: BTreeMap<Name, u64>,
    /// More than that were named: it votes nowhere in this life.
    has_overflown: bool,
}

impl<I: Id> Lives<I> {
    /// For how many peers a new life is remembered. Full: no further one is told that it
    /// is known.
    pub const MAX_MET: usize = 8192;
    /// In how many lists of members a new life introduces itself. Full: it does not vote in
    /// operations of further ones.
    pub const MAX_LISTS: usize = 256;
    /// How many operations are avoided.
    pub const MAX_TOUCHED: usize = 65_536;
    /// How many of them one member names. More than it may keep open.
    pub const MAX_TOLD: usize = 4096;

    /// With this record of former lives, if it is not lost.
    pub fn new(record: Record) -> Self {
        let (has_record, floors) = match record {
            Record::Kept(floors) => (true, floors),
            Record::Lost => (false, BTreeMap::new()),
        };
        Self {
            has_record,
            met: BTreeMap::new(),
            known_to: BTreeMap::new(),
            touched: BTreeSet::new(),
            floors,
            has_overflown: false,
        }
    }

    /// Whether no former life can have taken part in this operation.
    pub fn is_new(&self, key: &Key) -> bool {
        self.has_record && self.may_vote(key)
    }

    /// Whether this life may vote in operations of these members, this one among them.
    pub fn is_sure(&self, list: &Digest, members: usize) -> bool {
        if self.has_record {
            return true;
        }
        let Some(known_to) = self.known_to.get(list) else {
            return members == 1;
        };
        let sure = known_to.values().filter(|is_sure| **is_sure).count();
        // Any majority with this member has one of these in it as well.
        let enough = members + 1 - majority(members);
        sure >= enough || known_to.len() + 1 >= members
    }

    /// Whether this life may vote in this operation, of members for whom it is sure.
    pub fn may_vote(&self, key: &Key) -> bool {
        let floor = self.floors.get(&key.name).copied();
        !self.has_overflown && !self.touched.contains(key) && floor < Some(key.generation)
    }

    /// Vote nowhere any more.
    pub const fn bar(&mut self) {
        self.has_overflown = true;
    }

    /// Whether there is room to be introduced to these members.
    pub fn begin(&mut self, list: Digest) -> bool {
        if self.known_to.len() >= Self::MAX_LISTS && !self.known_to.contains_key(&list) {
            return false;
        }
        self.known_to.entry(list).or_default();
        true
    }

    /// Which of these members have not said yet that they know this life.
    pub fn unaware<'a>(
        &'a self,
        list: &Digest,
        members: &'a [I],
        me: I,
    ) -> impl Iterator<Item = I> + 'a {
        let known_to = self.known_to.get(list);
        let is_aware = move |member| known_to.is_some_and(|all| all.contains_key(member));
        let others = members.iter().filter(move |member| **member != me);
        others.filter(move |member| !is_aware(member)).copied()
    }

    /// A member knows this life, may vote itself or not, had promised or voted in `touched`,
    /// and has forgotten all generations up to `floors`.
    pub fn on_known(
        &mut self,
        from: I,
        list: &Digest,
        is_sure: bool,
        touched: Vec<Key>,
        floors: Vec<Key>,
    ) {
        let Some(known_to) = self.known_to.get_mut(list) else {
            return;
        };
        let was_sure = known_to.entry(from).or_insert(is_sure);
        *was_sure |= is_sure;
        let is_too_much = |known: usize, told: &Vec<Key>| {
            told.len() > Self::MAX_TOLD || known + told.len() > Self::MAX_TOUCHED
        };
        self.has_overflown |=
            is_too_much(self.touched.len(), &touched) || is_too_much(self.floors.len(), &floors);
        if self.has_overflown {
            return;
        }
        self.touched.extend(touched);
        for key in floors {
            let floor = self.floors.entry(key.name).or_default();
            *floor = key.generation.max(*floor);
        }
    }

    /// Operations in which a former life of this member may have voted.
    pub fn touched(&self) -> impl Iterator<Item = &Key> {
        self.touched.iter()
    }

    /// Up to which generations others have forgotten what was voted for.
    pub fn floors(&self) -> impl Iterator<Item = Key> + '_ {
        let floors = self.floors.iter();
        floors.map(|(name, floor)| Key {
            name: name.clone(),
            generation: *floor,
        })
    }

    /// A member introduces its new life. Whether it is remembered.
    pub fn meet(&mut self, peer: I, boot: u64) -> bool {
        if self.met.len() >= Self::MAX_MET && !self.met.contains_key(&peer) {
            return false;
        }
        let known = self.met.entry(peer).or_insert(boot);
        *known = boot.max(*known);
        true
    }

    /// The new lives among these members, by place.
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
        lives.begin(LIST);
        for (peer, is_enough) in [(1, false), (2, false), (3, true)] {
            lives.on_known(peer, &LIST, true, Vec::new(), Vec::new());
            assert_eq!(lives.is_sure(&LIST, 5), is_enough, "{peer}");
        }
        assert!(!lives.is_sure(&[2; 16], 5));
    }

    #[test]
    fn members_that_may_not_vote_themselves_suffice_only_if_they_are_all() {
        let mut lives = Lives::new(Record::Lost);
        lives.begin(LIST);
        for peer in 1..4 {
            lives.on_known(peer, &LIST, false, Vec::new(), Vec::new());
            assert!(!lives.is_sure(&LIST, 5));
        }
        lives.on_known(4, &LIST, false, Vec::new(), Vec::new());
        assert!(lives.is_sure(&LIST, 5));
    }

    #[test]
    fn a_later_life_does_not_vote_where_its_former_one_may_have() {
        let mut lives = Lives::new(Record::Lost);
        lives.begin(LIST);
        lives.on_known(1, &LIST, true, vec![key(7)], vec![key(3)]);
        assert!(!lives.may_vote(&key(7)));
        assert!(!lives.may_vote(&key(3)));
        assert!(lives.may_vote(&key(4)));
        let too_many = (0..=Lives::<u8>::MAX_TOLD as u64).map(key).collect();
        lives.on_known(2, &LIST, true, too_many, Vec::new());
        assert!(!lives.may_vote(&key(8_000_000)));
    }
}
