//! The census: subtree sizes go up, (epoch, N, rank) come down.
//!
//! ```text
//!   Size{version, size, standing}  child → parent  when the count changes, and every few beats
//!   Place{.., version}             parent → child  per epoch, and every few beats
//!   InForce{epoch, N}              parent → child  instead, to a child that was not counted
//! ```
//!
//! Is the overlay the cluster's or an island? A size also carries the subtree's evidence about
//! that, and the other two messages carry the root's word (`belonging`).
//!
//! A size carries the version of the count behind it, and the placement echoes this version: a node
//! hands on ranks according to the child list that it froze in that version. So a node that joins
//! while the placements travel never gets a rank that another member was given; it waits for the
//! next epoch.
//!
//! A death moves no rank: the rank of the dead member stays *vacant*. The sizes carry which ranks
//! are held ([`Standing`]), so the root knows how many are vacant. A member that returns takes its
//! old rank again ([`Census::recall`]).
//!
//! Not here: which nodes are children (`tree`), and when the root names an epoch (`overlay`).

mod belonging;

use std::collections::BTreeMap;

pub use crate::message::census::{Evidence, Message, Standing};
use crate::noise::Noise;
use crate::seam::Out;
use crate::{Epoch, Id, Placement, Population, Rank};
use belonging::Belonging;

/// How many frozen counts a node keeps, besides the count of its present place. A placement that
/// echoes an older count gives no place at once: the newer size is on its way to the root and
/// brings a new epoch.
const MAX_FROZEN: usize = 4;

/// A count of a subtree, frozen with the list of children that was counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Frozen<I> {
    version: u64,
    size: Population,
    /// Each counted child with the version of its count and its size, in the order of the children.
    children: Vec<(I, u64, Population)>,
}

/// The last report of a child.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Report<I> {
    version: u64,
    size: Population,
    standing: Option<Standing<I>>,
    returning: u32,
    evidence: Evidence,
}

/// The task of a root about its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// Every rank is held, or the placements are still on their way: wait.
    Nothing,
    /// This number of ranks is vacant, and every member has a rank.
    Vacant(u32),
    /// Some member has no rank and may yet find its own: a member that has restarted, or any member
    /// while ranks are vacant.
    Recall,
    /// The ranks are not in order, for example because a member has moved and is still counted at
    /// its old place.
    Disorder,
    /// The epoch does not describe the members: name another epoch.
    Epoch,
}

/// The numbering in force around a member that has no rank in this numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InForce<I> {
    /// The epoch of the numbering.
    pub epoch: Epoch<I>,
    /// How many ranks the numbering has.
    pub population: Population,
    /// Whether the overlay with this numbering is the cluster's.
    pub belongs: bool,
}

/// The census layer of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Census<I> {
    /// Whether this node had an earlier life.
    returns: bool,
    reports: BTreeMap<I, Report<I>>,
    /// The frozen counts, the newest last: never empty, at most [`MAX_FROZEN`].
    frozen: Vec<Frozen<I>>,
    /// This node's place, and the frozen count from which its children get theirs. A recalled rank
    /// has no frozen count: it is for this node alone.
    placed: Option<(Placement<I>, Option<Frozen<I>>)>,
    /// The numbering that the parent says is in force, while this node has no rank in it.
    in_force: Option<InForce<I>>,
    /// The rank of this node in the numbering `in_force`, as the parent remembers it.
    former: Option<Rank>,
    belonging: Belonging,
    /// Whether all children had reported at the last count.
    is_whole: bool,
}

impl<I: Id> Census<I> {
    /// The census of a node without children. Versions start at `version`: noise, so that no echo
    /// meant for an earlier boot fits. `returns` says whether there was an earlier boot.
    pub fn new(version: u64, returns: bool) -> Self {
        let alone = Frozen {
            version,
            size: Population::ONE,
            children: Vec::new(),
        };
        Self {
            returns,
            reports: BTreeMap::new(),
            frozen: vec![alone],
            placed: None,
            in_force: None,
            former: None,
            belonging: Belonging::default(),
            is_whole: true,
        }
    }

    /// An arbitrary census, as a transient fault may leave it.
    pub fn scrambled(noise: &mut Noise, peers: &[I]) -> Self {
        let mut census = Self::new(noise.next() % 4, noise.one_in(2));
        for _ in 0..noise.next() % 4 {
            let size = Population::new(1 + noise.next() as u32 % 9);
            if let (Some(peer), Some(size)) = (noise.pick(peers), size) {
                let version = noise.next() % 4;
                let standing = noise.one_in(2).then(|| {
                    let mut standing = Standing::of(&Placement::scrambled(noise, peer));
                    standing.count = noise.next() as u32 % 9;
                    standing.is_ordered = noise.one_in(2);
                    standing
                });
                let report = Report {
                    version,
                    size,
                    standing,
                    returning: noise.next() as u32 % 4,
                    evidence: Evidence::scrambled(version),
                };
                census.reports.insert(peer, report);
                census.frozen[0]
                    .children
                    .push((peer, noise.next() % 4, size));
                census.frozen[0].size = size;
            }
        }
        let root = noise.pick(peers);
        let handed = noise.one_in(2).then(|| census.newest().clone());
        census.placed = root.map(|root| (Placement::scrambled(noise, root), handed));
        let in_force = root.map(|root| Placement::scrambled(noise, root));
        // A copy of the generator: the draws below must not change the later draws of the caller.
        let noise = &mut noise.clone();
        census.in_force = in_force.map(|place| InForce {
            epoch: place.epoch,
            population: place.population,
            belongs: noise.one_in(2),
        });
        census.former = in_force.map(|place| place.rank);
        census.belonging = Belonging {
            is_told: noise.one_in(2),
            own: Evidence::scrambled(noise.next()),
        };
        census
    }

    /// This node's place in the epoch in which it stands.
    pub fn placement(&self) -> Option<Placement<I>> {
        self.placed.as_ref().map(|(placement, _)| *placement)
    }

    /// How many members this node's subtree has, as counted.
    pub fn size(&self) -> Population {
        self.newest().size
    }

    /// The version of the newest count.
    pub fn version(&self) -> u64 {
        self.newest().version
    }

    /// The size of a child's subtree; 0 until it has reported.
    pub fn size_of(&self, child: I) -> u32 {
        self.reports
            .get(&child)
            .map_or(0, |report| report.size.get())
    }

    /// Which ranks this node's subtree holds, as far as they are known; none while this node has no
    /// place.
    pub fn standing(&self) -> Option<Standing<I>> {
        let (placement, _) = self.placed.as_ref()?;
        let mut standing = Standing::of(placement);
        for (child, ..) in &self.newest().children {
            let report = self.reports.get(child);
            if let Some(next) = report.and_then(|report| report.standing.as_ref()) {
                standing.append(next);
            }
        }
        Some(standing)
    }

    /// How many members of this subtree have no rank but had an earlier life.
    fn returning(&self) -> u32 {
        let own = u32::from(self.returns && self.placed.is_none());
        let reports = self.reports.values().map(|report| report.returning);
        reports.fold(own, u32::saturating_add)
    }

    /// The standing, if the parent should know it at once: every member of the subtree holds a
    /// rank, or the ranks are out of order.
    pub fn news(&self) -> Option<Standing<I>> {
        let size = self.size().get();
        self.standing()
            .filter(|standing| !standing.is_ordered || standing.count == size)
    }

    /// The task of a root about its epoch.
    pub fn need(&self) -> Need {
        let Some(standing) = self.standing() else {
            return Need::Epoch;
        };
        let placed = self.placed.as_ref();
        let handed = placed.and_then(|(_, frozen)| frozen.as_ref());
        let size = self.size().get();
        if !standing.is_ordered {
            Need::Disorder
        } else if handed == Some(self.newest()) && size == standing.population.get() {
            // The members are those that were counted; the placements may still be on their way.
            Need::Nothing
        } else if size != standing.count {
            match standing.vacant() {
                // A member that returns may be counted twice, and so may all members below it.
                0 if self.returning() == 0 => Need::Epoch,
                _ => Need::Recall,
            }
        } else {
            match standing.vacant() {
                0 => Need::Nothing,
                vacant => Need::Vacant(vacant),
            }
        }
    }

    /// A child reports its size and the ranks that it holds. Returns whether this is the first
    /// report of the child, which then does not know yet which numbering is in force.
    pub fn on_size(
        &mut self,
        child: I,
        version: u64,
        size: Population,
        standing: Option<Standing<I>>,
        returning: u32,
        evidence: Evidence,
    ) -> bool {
        let standing = standing.filter(|standing| standing.is_possible(size));
        let report = Report {
            version,
            size,
            standing,
            returning: returning.min(size.get()),
            evidence,
        };
        self.reports.insert(child, report).is_none()
    }

    /// Count again over the present children, and forget the reports of former children. Returns
    /// whether the count changed; then the parent has to be told.
    pub fn recount(&mut self, children: impl Iterator<Item = I>) -> bool {
        let mut members = 0;
        let children = children.inspect(|_| members += 1);
        let counted: Vec<_> = children
            .filter_map(|id| self.reports.get(&id).map(|r| (id, r.version, r.size)))
            .collect();
        self.is_whole = counted.len() == members;
        if counted.len() < self.reports.len() {
            self.reports
                .retain(|id, _| counted.iter().any(|(child, ..)| child == id));
        }
        let sizes = counted.iter().map(|(_, _, size)| u64::from(size.get()));
        // Only a liar or corruption can cause a sum above the bound. The capped sum is wrong but
        // harmless, and the next report corrects it.
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

    /// Tell the parent the size of this subtree, its standing, and its evidence.
    pub fn report(&self, parent: I, out: &mut Out<I>) {
        let Frozen { version, size, .. } = *self.newest();
        let standing = self.standing();
        out.send(
            parent,
            Message::Size {
                version,
                size,
                standing,
                returning: self.returning().min(size.get()),
                evidence: self.evidence(),
            },
        );
    }

    /// As a root: take rank 0 in a new epoch and hand the other ranks to the children.
    pub fn open_epoch(&mut self, epoch: Epoch<I>, children: &[I], out: &mut Out<I>) {
        let frozen = self.newest().clone();
        let placement = Placement {
            epoch,
            population: frozen.size,
            rank: Rank(0),
        };
        self.place(placement, frozen, children, out);
    }

    /// As a child: the parent names this node's place, and says whether the overlay is the
    /// cluster's. Returns whether the place changed. A place that does not fit the subtree is
    /// ignored, and so is another rank in the numbering in which this node has one. Of a place for
    /// a count that this node does not have, only the numbering and the rank are noted, for
    /// [`Census::recall`].
    pub fn on_place(
        &mut self,
        placement: Placement<I>,
        version: u64,
        belongs: bool,
        children: &[I],
        out: &mut Out<I>,
    ) -> bool {
        let known = self.frozen.iter().find(|f| f.version == version);
        let current = self.placed.as_ref().and_then(|(_, frozen)| frozen.as_ref());
        let current = current.filter(|f| f.version == version);
        let Some(frozen) = known.or(current).cloned() else {
            // The parent placed this node according to a count that the node no longer has: a count
            // of an earlier life, or one of [`MAX_FROZEN`] counts ago or more.
            let in_force = InForce {
                epoch: placement.epoch,
                population: placement.population,
                belongs,
            };
            self.on_in_force(in_force, children, out);
            self.former = Some(placement.rank);
            return false;
        };
        let end = u64::from(placement.rank.0) + u64::from(frozen.size.get());
        if end > u64::from(placement.population.get()) {
            return false;
        }
        if self.is_elsewhere(&placement) {
            self.set_belongs(belongs, children, out);
            return false;
        }
        self.in_force = None;
        if matches!(&self.placed, Some((now, Some(with))) if *now == placement && *with == frozen) {
            self.set_belongs(belongs, children, out);
            return false;
        }
        self.belonging.hear(belongs);
        self.place(placement, frozen, children, out);
        true
    }

    /// Whether this node holds another rank in the numbering of `placement`. A member that moved
    /// while it was counted gets two ranks, the second by the count of its new parent. It keeps the
    /// first rank: other members know it at that rank, and its own messages count distances from
    /// that rank. The other rank stays vacant, and the root names another epoch as for any vacancy.
    fn is_elsewhere(&self, placement: &Placement<I>) -> bool {
        let mine = self.placed.as_ref().map(|(mine, _)| mine);
        mine.is_some_and(|mine| {
            let is_same = (mine.epoch, mine.population) == (placement.epoch, placement.population);
            is_same && mine.rank != placement.rank
        })
    }

    /// As a child: the parent says which numbering is in force, and whether the overlay is the
    /// cluster's, but has no rank in it for this node.
    pub fn on_in_force(&mut self, told: InForce<I>, children: &[I], out: &mut Out<I>) {
        let mine = self.placement().map(|mine| (mine.epoch, mine.population));
        let is_mine = mine == Some((told.epoch, told.population));
        if is_mine {
            self.set_belongs(told.belongs, children, out);
        }
        let before = self.in_force();
        self.in_force = (!is_mine).then_some(told);
        if self.in_force() != before {
            self.former = None;
        }
    }

    /// The numbering in force around this node, while the node has no rank in it.
    pub fn in_force(&self) -> Option<(Epoch<I>, Population)> {
        let told = self.in_force?;
        Some((told.epoch, told.population))
    }

    /// Whether the overlay in whose epoch this node stands is the cluster's, by the word of its
    /// root.
    pub const fn belongs(&self) -> bool {
        self.belonging.is_told
    }

    /// The evidence that this subtree belongs to the cluster and is no island.
    pub fn evidence(&self) -> Evidence {
        let reports = self.reports.values().map(|report| report.evidence);
        let unknown = (!self.is_whole).then_some(Evidence::Unmet);
        let others = reports.chain(unknown);
        others.fold(self.belonging.own, Evidence::joined)
    }

    /// Record this node's own evidence that its overlay is the cluster. [`Evidence::Member`] is
    /// never replaced by weaker evidence.
    pub fn find(&mut self, own: Evidence) {
        self.belonging.find(own);
    }

    /// Record whether the overlay is the cluster's or an island. Children are told at once if it
    /// has become the cluster's, otherwise when their places are repeated: if bad words were passed
    /// on at once, too, a good and a bad word would chase each other on a cycle of corrupted
    /// parents.
    pub fn set_belongs(&mut self, belongs: bool, children: &[I], out: &mut Out<I>) {
        if self.belonging.hear(belongs) && belongs {
            self.beat(children, out);
        }
    }

    /// Take back this node's former rank in the numbering in force. Candidates are the rank that
    /// the parent remembers, then `claims`; the first candidate between the ranks of the ring
    /// neighbours wins. No other member was ever given this rank, and the place between the
    /// neighbours shows that no other member claims it. Returns whether the node has a place now.
    pub fn recall(&mut self, claims: &[Rank], before: Rank, after: Rank) -> bool {
        let Some(told) = self.in_force else {
            return false;
        };
        let fits = |rank: &Rank| rank.is_between(before, after, told.population);
        let mut claims = self.former.into_iter().chain(claims.iter().copied());
        let Some(rank) = claims.find(fits) else {
            return false;
        };
        let placement = Placement {
            epoch: told.epoch,
            population: told.population,
            rank,
        };
        self.placed = Some((placement, None));
        self.belonging.hear(told.belongs);
        (self.in_force, self.former) = (None, None);
        true
    }

    /// Repeat to each child its place, or the numbering in force if the child was not counted.
    /// Without a place of its own this node says nothing.
    pub fn beat(&self, children: &[I], out: &mut Out<I>) {
        if let Some((placement, frozen)) = &self.placed {
            let belongs = self.belonging.is_told;
            hand_out(*placement, belongs, frozen.as_ref(), children, out);
        }
    }

    fn place(
        &mut self,
        placement: Placement<I>,
        frozen: Frozen<I>,
        children: &[I],
        out: &mut Out<I>,
    ) {
        let belongs = self.belonging.is_told;
        hand_out(placement, belongs, Some(&frozen), children, out);
        self.placed = Some((placement, Some(frozen)));
        (self.in_force, self.former) = (None, None);
    }

    /// Two counts of one version must be equal: if the count of the present place has the version
    /// of the newest count, replace it by the newest.
    pub fn mend(&mut self) {
        let newest = self.newest().clone();
        if let Some((_, Some(frozen))) = &mut self.placed
            && frozen.version == newest.version
        {
            *frozen = newest;
        }
    }

    fn newest(&self) -> &Frozen<I> {
        // `new` puts a count in, and nothing takes the last count out.
        &self.frozen[self.frozen.len() - 1]
    }
}

/// Tell each child that was counted in `frozen` its place, and every other child the numbering in
/// force.
fn hand_out<I: Id>(
    placement: Placement<I>,
    belongs: bool,
    frozen: Option<&Frozen<I>>,
    children: &[I],
    out: &mut Out<I>,
) {
    let counted = frozen.map(|frozen| frozen.children.as_slice());
    let mut next = placement.rank.0.saturating_add(1);
    let mut places = BTreeMap::new();
    for (child, version, size) in counted.unwrap_or_default() {
        places.insert(*child, (Rank(next), *version));
        next = next.saturating_add(size.get());
    }
    for child in children {
        let message = match places.get(child) {
            Some((rank, version)) => Message::Place {
                placement: Placement {
                    rank: *rank,
                    ..placement
                },
                version: *version,
                belongs,
            },
            None => Message::InForce {
                epoch: placement.epoch,
                population: placement.population,
                belongs,
            },
        };
        out.send(*child, message);
    }
}

#[cfg(test)]
mod tests;
