//! The peers that a node knows in a fully connected system.

use std::sync::Arc;

use crate::id::Id;
use crate::noise::Noise;

/// The peers that a node has met, itself among them, without duplicates. Copies share the
/// memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Peers<I> {
    listed: Arc<[I]>,
    ascending: Arc<[I]>,
}

impl<I: Id> Peers<I> {
    /// The most peers that one node takes; the rest of a longer list is left out.
    pub const MAX: usize = 1 << 16;

    /// `me` and the peers of a list, in the order of the list. An entry that occurs again is
    /// left out, and `me` is put last if the list lacks it.
    pub fn new(me: I, list: impl IntoIterator<Item = I>) -> Self {
        let mut seen = std::collections::BTreeSet::new();
        let distinct = list.into_iter().filter(|&peer| seen.insert(peer));
        let mut listed: Vec<I> = distinct.take(Self::MAX).collect();
        if !listed.contains(&me) {
            listed.truncate(Self::MAX - 1);
            listed.push(me);
        }
        let listed: Arc<[I]> = listed.into();
        let ascending = match listed.is_sorted() {
            true => listed.clone(),
            false => {
                let mut sorted = listed.to_vec();
                sorted.sort_unstable();
                sorted.into()
            }
        };
        Self { listed, ascending }
    }

    /// The peers in the order of the list.
    pub fn listed(&self) -> &[I] {
        &self.listed
    }

    /// How many peers there are, including the node itself.
    pub fn count(&self) -> usize {
        self.listed.len()
    }

    /// A random peer with a smaller identifier than `me`, each with the same probability; none if
    /// `me` has the smallest.
    pub fn smaller_than(&self, me: I, noise: &mut Noise) -> Option<I> {
        let smaller = self.ascending.partition_point(|&peer| peer < me);
        noise.pick(&self.ascending[..smaller])
    }

    /// A random peer other than `me`, each with the same probability; none if `me` is alone.
    pub fn other_than(&self, me: I, noise: &mut Noise) -> Option<I> {
        let mine = self.ascending.binary_search(&me).ok();
        let others = self.count() - usize::from(mine.is_some());
        if others == 0 {
            return None;
        }
        let drawn = (noise.next() % others as u64) as usize;
        let is_behind_me = mine.is_some_and(|mine| drawn >= mine);
        self.ascending
            .get(drawn + usize::from(is_behind_me))
            .copied()
    }

    /// The neighbours of `me` in the list, which is taken as a circle, and the place of `me` in it.
    pub fn neighbours_of(&self, me: I) -> Option<Neighbours<I>> {
        let place = self.listed.iter().position(|&peer| peer == me)?;
        let count = self.count();
        Some(Neighbours {
            before: self.listed[(place + count - 1) % count],
            after: self.listed[(place + 1) % count],
            place,
        })
    }
}

/// The surroundings of a peer in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Neighbours<I> {
    /// The peer before the given peer in the list.
    pub before: I,
    /// The peer after the given peer in the list.
    pub after: I,
    /// The place of the given peer in the list, counted from 0.
    pub place: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_without_duplicates_and_holds_the_node_itself() {
        let peers = Peers::new(5, [9, 2, 9, 7, 2]);
        assert_eq!(peers.listed(), [9, 2, 7, 5]);
        let around = peers.neighbours_of(5);
        let expected = Neighbours {
            before: 7,
            after: 9,
            place: 3,
        };
        assert_eq!(around, Some(expected));
    }

    #[test]
    fn every_smaller_and_every_other_peer_is_drawn_and_no_other() {
        let peers = Peers::new(5, [9, 2, 7, 3]);
        let mut noise = Noise::new(1);
        let mut drawn = |pick: &dyn Fn(&mut Noise) -> Option<i32>| -> Vec<i32> {
            let all: std::collections::BTreeSet<_> =
                (0..200).filter_map(|_| pick(&mut noise)).collect();
            all.into_iter().collect()
        };
        assert_eq!(drawn(&|noise| peers.smaller_than(5, noise)), [2, 3]);
        assert_eq!(drawn(&|noise| peers.other_than(5, noise)), [2, 3, 7, 9]);
        assert_eq!(drawn(&|noise| peers.smaller_than(2, noise)), []);
        assert_eq!(drawn(&|noise| Peers::new(1, []).other_than(1, noise)), []);
    }

    #[test]
    fn a_list_without_end_is_cut_and_the_node_stays_in_it() {
        let peers = Peers::new(u32::MAX, 0..);
        assert_eq!(peers.count(), Peers::<u32>::MAX);
        assert_eq!(peers.listed().last(), Some(&u32::MAX));
    }
}
