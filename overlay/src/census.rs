//! The census: subtree sizes go up, (epoch, N, rank) come down.
//!
//! ```text
//!   Size{version, size}   child → parent   whenever the count changes, and with the beat
//!   Place{.., version}    parent → child   per epoch, and with the beat
//! ```
//!
//! A size carries the version of the count behind it, and the placement echoes
//! it: ranks are handed on from the child list that was frozen in that version.
//! A join during the wave is therefore never given a rank that the wave has
//! given to somebody else: it waits for the next epoch.
//!
//! Not here: who is a child (`tree`), when the root names an epoch (`overlay`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::noise::Noise;
use crate::overlay::{Out, scrambled_place};
use crate::{Epoch, Id, Placement, Population, Rank};

/// How many frozen counts a node keeps. A placement that echoes an older one is
/// ignored; the newer size is on its way to the root and brings a new epoch.
const MAX_FROZEN: usize = 4;

/// A message of the census.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To the parent: how many members my subtree has.
    Size {
        /// Which count this is.
        version: u64,
        /// The members, myself included.
        size: Population,
    },
    /// To a child: its place.
    Place {
        /// Epoch, population and the child's own rank.
        placement: Placement<I>,
        /// The child's version that the epoch was counted with.
        version: u64,
    },
}

/// A count of a subtree, as it was when its size was told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Frozen<I> {
    version: u64,
    size: Population,
    /// Each counted child with the version of its count and its size, in order.
    children: Vec<(I, u64, Population)>,
}

/// The census layer of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Census<I> {
    reports: BTreeMap<I, (u64, Population)>,
    /// The newest last; never empty.
    frozen: Vec<Frozen<I>>,
    /// My place, and the count it was handed on with.
    placed: Option<(Placement<I>, Frozen<I>)>,
}

impl<I: Id> Census<I> {
    /// The census of a node without children. `version` is where its versions
    /// start: noise, so that no echo meant for an earlier boot fits.
    pub fn new(version: u64) -> Self {
        let alone = Frozen {
            version,
            size: Population::ONE,
            children: Vec::new(),
        };
        Self {
            reports: BTreeMap::new(),
            frozen: vec![alone],
            placed: None,
        }
    }

    /// An arbitrary census, as a transient fault may leave it.
    pub fn scrambled(noise: &mut Noise, peers: &[I]) -> Self {
        let mut census = Self::new(noise.next() % 4);
        for _ in 0..noise.next() % 4 {
            let size = Population::new(1 + noise.next() as u32 % 9);
            if let (Some(peer), Some(size)) = (noise.pick(peers), size) {
                census.reports.insert(peer, (noise.next() % 4, size));
                census.frozen[0]
                    .children
                    .push((peer, noise.next() % 4, size));
                census.frozen[0].size = size;
            }
        }
        let root = noise.pick(peers);
        census.placed = root.map(|root| (scrambled_place(noise, root), census.newest().clone()));
        census
    }

    /// My place in the current epoch.
    pub fn placement(&self) -> Option<Placement<I>> {
        self.placed.as_ref().map(|(placement, _)| *placement)
    }

    /// The members of my subtree, as counted.
    pub fn size(&self) -> Population {
        self.newest().size
    }

    /// The size of a child's subtree; 0 until it has reported.
    pub fn size_of(&self, child: I) -> u32 {
        self.reports.get(&child).map_or(0, |(_, size)| size.get())
    }

    /// Whether my place was handed on with the newest count, so that a root has
    /// no reason to name a new epoch.
    pub fn is_settled(&self) -> bool {
        let placed = self.placed.as_ref();
        placed.is_some_and(|(_, frozen)| frozen == self.newest())
    }

    /// A child reports its size.
    pub fn on_size(&mut self, child: I, version: u64, size: Population) {
        self.reports.insert(child, (version, size));
    }

    /// Count again over the children as they are now, forgetting the reports of
    /// former ones. Returns whether the count changed; the parent must then be
    /// told.
    pub fn recount(&mut self, children: impl Iterator<Item = I>) -> bool {
        let counted: Vec<_> = children
            .filter_map(|id| self.reports.get(&id).map(|(v, size)| (id, *v, *size)))
            .collect();
        if counted.len() < self.reports.len() {
            self.reports
                .retain(|id, _| counted.iter().any(|(child, ..)| child == id));
        }
        let sizes = counted.iter().map(|(_, _, size)| u64::from(size.get()));
        // A sum above the bound can only come from a liar or from corruption;
        // saturated, it is wrong but harmless and the next report mends it.
        let total = (1 + sizes.sum::<u64>()).min(u64::from(Population::MAX)) as u32;
        let newest = self.newest();
        if counted == newest.children && total == newest.size.get() {
            return false;
        }
        let version = self.newest().version.wrapping_add(1);
        if self.frozen.len() >= MAX_FROZEN {
            self.frozen.remove(0);
        }
        self.frozen.push(Frozen {
            version,
            size: Population::new(total).unwrap_or(Population::ONE),
            children: counted,
        });
        true
    }

    /// Tell the parent my size.
    pub fn report(&self, parent: I, out: &mut Out<I>) {
        let Frozen { version, size, .. } = *self.newest();
        out.send(parent, Message::Size { version, size });
    }

    /// As a root: take rank 0 in a new epoch and hand out the others.
    pub fn open_epoch(&mut self, epoch: Epoch<I>, children: &[I], out: &mut Out<I>) {
        let frozen = self.newest().clone();
        let placement = Placement {
            epoch,
            population: frozen.size,
            rank: Rank(0),
        };
        self.place(placement, frozen, children, out);
    }

    /// As a child: the parent says where I am. Returns whether my place
    /// changed. A place from a count that I do not have, or that my subtree
    /// does not fit into, is ignored.
    pub fn on_place(
        &mut self,
        placement: Placement<I>,
        version: u64,
        children: &[I],
        out: &mut Out<I>,
    ) -> bool {
        let known = self.frozen.iter().find(|f| f.version == version);
        let current = self.placed.as_ref().map(|(_, frozen)| frozen);
        let current = current.filter(|f| f.version == version);
        let Some(frozen) = known.or(current).cloned() else {
            return false;
        };
        let end = u64::from(placement.rank.0) + u64::from(frozen.size.get());
        if end > u64::from(placement.population.get()) {
            return false;
        }
        if matches!(&self.placed, Some((now, with)) if *now == placement && *with == frozen) {
            return false;
        }
        self.place(placement, frozen, children, out);
        true
    }

    /// Repeat to the children where they are.
    pub fn beat(&self, children: &[I], out: &mut Out<I>) {
        if let Some((placement, frozen)) = &self.placed {
            hand_out(*placement, frozen, children, out);
        }
    }

    fn place(
        &mut self,
        placement: Placement<I>,
        frozen: Frozen<I>,
        children: &[I],
        out: &mut Out<I>,
    ) {
        hand_out(placement, &frozen, children, out);
        self.placed = Some((placement, frozen));
    }

    /// Two counts of one version are one count: mend the older copy of it.
    pub fn mend(&mut self) {
        let newest = self.newest().clone();
        if let Some((_, frozen)) = &mut self.placed
            && frozen.version == newest.version
        {
            *frozen = newest;
        }
    }

    fn newest(&self) -> &Frozen<I> {
        // `new` puts one in, and nothing takes the last one out.
        &self.frozen[self.frozen.len() - 1]
    }
}

/// Tell those counted in `frozen` that are still children their places.
fn hand_out<I: Id>(placement: Placement<I>, frozen: &Frozen<I>, children: &[I], out: &mut Out<I>) {
    let mut next = placement.rank.0.saturating_add(1);
    for (child, version, size) in &frozen.children {
        let rank = Rank(next);
        next = next.saturating_add(size.get());
        if children.contains(child) {
            let placement = Placement { rank, ..placement };
            let version = *version;
            out.send(*child, Message::Place { placement, version });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Effect;

    fn population(n: u32) -> Population {
        Population::new(n).unwrap()
    }

    fn epoch(counter: u64) -> Epoch<u32> {
        Epoch {
            root: 0,
            boot: 1,
            counter,
            nonce: 0,
        }
    }

    fn places(out: &mut Out<u32>) -> Vec<(u32, u32, u64)> {
        let sent = out.drain().filter_map(|effect| match effect {
            Effect::Send {
                to,
                message: crate::Message::Census(Message::Place { placement, version }),
            } => Some((to, placement.rank.0, version)),
            _ => None,
        });
        sent.collect()
    }

    #[test]
    fn ranks_follow_the_order_of_children_and_their_sizes() {
        let mut census = Census::new(0);
        census.on_size(7, 70, population(3));
        census.on_size(5, 50, population(2));
        assert!(census.recount([7, 5].into_iter()));
        assert_eq!(census.size(), population(6));
        let mut out = Out::new();
        census.open_epoch(epoch(1), &[7, 5], &mut out);
        assert_eq!(places(&mut out), [(7, 1, 70), (5, 4, 50)]);
        assert!(census.is_settled());
    }

    #[test]
    fn a_join_during_the_wave_is_given_no_rank() {
        let mut census = Census::new(100);
        census.on_size(7, 70, population(3));
        census.recount([7].into_iter());
        census.on_size(5, 50, population(2));
        census.recount([5, 7].into_iter());
        let placement = Placement {
            epoch: epoch(1),
            population: population(9),
            rank: Rank(4),
        };
        let mut out = Out::new();
        // The root counted with version 101, in which 5 was not yet.
        assert!(census.on_place(placement, 101, &[5, 7], &mut out));
        assert_eq!(places(&mut out), [(7, 5, 70)]);
        assert!(!census.is_settled());
    }

    #[test]
    fn a_place_for_an_unknown_count_or_one_too_narrow_is_ignored() {
        let mut census: Census<u32> = Census::new(100);
        census.on_size(7, 70, population(3));
        census.recount([7].into_iter());
        let mut out = Out::new();
        let place = |rank| Placement {
            epoch: epoch(1),
            population: population(9),
            rank: Rank(rank),
        };
        assert!(!census.on_place(place(4), 99, &[7], &mut out));
        assert!(!census.on_place(place(6), 101, &[7], &mut out));
        assert!(census.placement().is_none() && out.is_empty());
    }

    #[test]
    fn the_report_of_a_former_child_is_forgotten() {
        let mut census = Census::new(0);
        census.on_size(7, 70, population(3));
        census.recount([7].into_iter());
        assert!(census.recount(std::iter::empty()));
        assert_eq!((census.size(), census.size_of(7)), (Population::ONE, 0));
    }
}
