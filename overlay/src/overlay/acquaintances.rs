//! Acquaintances: members from all over the ring, which may be alive when all near members are
//! dead.

use crate::Id;
use crate::noise::Noise;

/// How many members from all over the ring a node remembers, and how many former members besides. A
/// guess: if three quarters of 128 members die at once, each member knows about a dozen fingers, of
/// which three live. These are too few for all to find each other; of 32 acquaintances eight more
/// live.
pub const MAX_ACQUAINTANCES: usize = 32;

/// The members that a node knows besides its neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Acquaintances<I> {
    /// Some members of the last complete roster (the list of all members).
    pub(super) members: Vec<I>,
    /// Acquaintances of earlier rosters that are no members any more, the latest first: they may be
    /// on another island.
    pub(super) former: Vec<I>,
}

impl<I: Id> Acquaintances<I> {
    /// No acquaintances yet.
    pub(super) const fn new() -> Self {
        Self {
            members: Vec::new(),
            former: Vec::new(),
        }
    }

    /// Put `some` in the place of all acquaintances. Earlier acquaintances stay only as former
    /// members; `is_member` tells whether a peer is a member now.
    pub(super) fn meet(&mut self, some: impl Iterator<Item = I>, is_member: impl Fn(I) -> bool) {
        let known = std::mem::replace(self, Self::new());
        for id in known.members.into_iter().chain(known.former) {
            let is_full = self.former.len() >= MAX_ACQUAINTANCES;
            if !is_full && !is_member(id) && !self.former.contains(&id) {
                self.former.push(id);
            }
        }
        self.members = some.take(MAX_ACQUAINTANCES).collect();
    }

    /// All acquaintances, former members first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &I> {
        self.former.iter().chain(&self.members)
    }

    /// Arbitrary acquaintances, as a transient fault may leave them.
    pub(super) fn scrambled(noise: &mut Noise, peers: &[I]) -> Self {
        Self {
            members: noise.pick(peers).into_iter().collect(),
            former: noise.pick(peers).into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_members_stay_acquaintances_and_other_members_outside_the_new_choice_do_not() {
        let mut known = Acquaintances::new();
        known.meet(1..4, |id| id < 10);
        known.meet([2, 5].into_iter(), |id| [2, 5].contains(&id));
        assert!(known.iter().eq(&[1, 3, 2, 5]));
        known.meet([3].into_iter(), |id| id == 3);
        assert!(known.iter().eq(&[2, 5, 1, 3]), "the latest first");
    }

    #[test]
    fn there_are_two_bounds() {
        let mut known = Acquaintances::new();
        let bound = MAX_ACQUAINTANCES as u32;
        for epoch in 0..9 {
            known.meet(epoch * 1000..epoch * 1000 + 500, |_| false);
        }
        assert_eq!(known.members.len(), MAX_ACQUAINTANCES);
        assert!(known.former.iter().copied().eq(7000..7000 + bound));
    }
}
