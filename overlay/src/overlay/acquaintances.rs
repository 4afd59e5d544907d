//! Members from all over the ring, who may be alive when everybody near is dead.

use crate::Id;
use crate::noise::Noise;

/// How many members from all over the ring a node remembers. Of 128 whose three
/// quarters die at once each knows some dozen fingers, of whom three live: too few
/// for all to find each other; with 32 more, eight live (guess).
pub const MAX_ACQUAINTANCES: usize = 32;

/// Whom a node knows besides its neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Acquaintances<I> {
    /// Some members of the last complete roster.
    pub(super) members: Vec<I>,
    /// Those that were such before and are no members any more, the latest
    /// first: they may be on another island.
    pub(super) former: Vec<I>,
}

impl<I: Id> Acquaintances<I> {
    /// Nobody yet.
    pub(super) const fn new() -> Self {
        Self {
            members: Vec::new(),
            former: Vec::new(),
        }
    }

    /// Remember `some` instead of those before; `is_member` tells who is one now.
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

    /// All of them, those who are no members first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &I> {
        self.former.iter().chain(&self.members)
    }

    /// Any state at all, as a transient fault may leave it.
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
    fn who_is_no_member_any_more_is_remembered_and_the_rest_is_not() {
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
