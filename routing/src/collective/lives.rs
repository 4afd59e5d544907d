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
//! knew that number, nor in earlier ones of the same name. Who knows it tells it with each of its own votes, and who counts votes
//! leaves out those of former lives. So whatever a former life had voted for, either a
//! member of its majority says so now, or its vote does not count any more.
//!
//! What may be decided twice all the same: an operation of whose majority every member has
//! lost its record, or is cut off; and one whose votes of a life without a record reach who
//! counts them late, after all that knew of its successor were started again too.

use std::collections::BTreeMap;

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

/// The greatest generation of each name.
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

/// What is known of members that were started again, this one among them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lives<I> {
    /// Whether the record of former lives is here, be it empty in a first life.
    has_record: bool,
    /// Lives that have introduced themselves. At most [`Lives::MAX_MET`].
    met: BTreeMap<I, u64>,
    /// By the digest of a list of members: of each other one, once it has said that it knows
    /// this life, whether it may vote itself.
    /// At most [`Lives::MAX_LISTS`].
    known_to: BTreeMap<Digest, BTreeMap<I, Option<bool>>>,
    /// By name, up to which generation a former life may have voted. At most
    /// [`Lives::MAX_NAMES`].
    floors: BTreeMap<Name, u64>,
    /// It votes nowhere in this life: too many names were told, or a vote could not be
    /// recorded.
    is_barred_for_good: bool,
}

impl<I: Id> Lives<I> {
    /// For how many peers a new life is remembered. Full: no further one is told that it
    /// is known.
    pub const MAX_MET: usize = 8192;
    /// In how many lists of members a new life introduces itself. Full: it does not vote in
    /// operations of further ones.
    pub const MAX_LISTS: usize = 256;
    /// How many names. More than one member keeps.
    pub const MAX_NAMES: usize = 4096;

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
            floors,
            is_barred_for_good: false,
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
        let sure = known_to.values().filter(|answer| **answer == Some(true));
        // Any majority with this member has one of these in it as well.
        let enough = members + 1 - majority(members);
        sure.count() >= enough || known_to.values().all(Option::is_some)
    }

    /// Whether this life may vote in this operation, of members for whom it is sure.
    pub fn may_vote(&self, key: &Key) -> bool {
        let floor = self.floors.get(&key.name).copied();
        !self.is_barred_for_good && floor < Some(key.generation)
    }

    /// Vote nowhere any more.
    pub const fn bar(&mut self) {
        self.is_barred_for_good = true;
    }

    /// Whether it votes nowhere any more.
    pub const fn is_barred(&self) -> bool {
        self.is_barred_for_good
    }

    /// Whether there is room to be introduced to these members.
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

    /// Which of the members of a list have not said yet that they know this life.
    pub fn unaware(&self, list: &Digest) -> impl Iterator<Item = I> + '_ {
        let known_to = self.known_to.get(list).into_iter().flatten();
        known_to.filter_map(|(member, answer)| answer.is_none().then_some(*member))
    }

    /// The member `from` says that it knows this life. `is_sure`: it may vote in operations
    /// of this list. `touched`: up to which generations former lives may have voted.
    pub fn on_known(&mut self, from: I, list: &Digest, is_sure: bool, touched: Vec<Key>) {
        let known_to = self.known_to.get_mut(list);
        let Some(answer) = known_to.and_then(|known_to| known_to.get_mut(&from)) else {
            return;
        };
        *answer = Some(is_sure || *answer == Some(true));
        self.is_barred_for_good |= self.floors.len() + touched.len() > Self::MAX_NAMES;
        if self.is_barred_for_good {
            return;
        }
        for key in touched {
            let floor = self.floors.entry(key.name).or_default();
            *floor = key.generation.max(*floor);
        }
    }

    /// Up to which generations former lives of this member may have voted.
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
}
