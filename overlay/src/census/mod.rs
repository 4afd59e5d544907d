//! The census: subtree sizes go up, (epoch, N, rank) come down.
//!
//! ```text
//!   Size{version, size, standing}  child → parent  when the count changes, and with the beat
//!   Place{.., version}             parent → child  per epoch, and with the beat
//!   InForce{epoch, N}              parent → child  instead, to one that was not counted
//! ```
//!
//! Each also says whether the overlay is the cluster's or an island (`belonging`).
//!
//! A size carries the version of the count behind it, and the placement echoes
//! it: ranks are handed on from the child list that was frozen in that version.
//! A join during the wave is therefore never given a rank that the wave has
//! given to somebody else: it waits for the next epoch.
//!
//! A death changes no rank. The rank stays *vacant*; what the sizes say of the
//! ranks in force ([`Standing`]) tells the root how many are, and a member that
//! returns takes its old one again ([`Census::recall`]).
//!
//! Not here: who is a child (`tree`), when the root names an epoch (`overlay`).

mod belonging;

use std::collections::BTreeMap;

pub use crate::message::census::{Evidence, Message, Standing};
use crate::noise::Noise;
use crate::seam::Out;
use crate::{Epoch, Id, Placement, Population, Rank};
use belonging::Belonging;

/// How many frozen counts a node keeps. A placement that echoes an older one is
/// ignored; the newer size is on its way to the root and brings a new epoch.
const MAX_FROZEN: usize = 4;

/// A count of a subtree, as it was when its size was told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Frozen<I> {
    version: u64,
    size: Population,
    /// Each counted child with the version of its count and its size, in order.
    children: Vec<(I, u64, Population)>,
}

/// What a child reported last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Report<I> {
    version: u64,
    size: Population,
    standing: Option<Standing<I>>,
    returning: u32,
    evidence: Evidence,
}

/// What a root has to do about its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// So many ranks are vacant, and everybody has one.
    Vacant(u32),
    /// Somebody has no rank who may yet find its own: one that has restarted, or
    /// anybody while ranks are vacant.
    Recall,
    /// The ranks are not in order, as when a member has moved and is still
    /// counted where it was.
    Disorder,
    /// The epoch does not describe the members: name another.
    Epoch,
}

/// The numbering in force around a member that has no rank in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InForce<I> {
    /// Which numbering.
    pub epoch: Epoch<I>,
    /// How many ranks it has.
    pub population: Population,
    /// Whether that overlay is the cluster's.
    pub belongs: bool,
}

/// The census layer of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Census<I> {
    /// Whether I had an earlier life.
    returns: bool,
    reports: BTreeMap<I, Report<I>>,
    /// The newest last; never empty.
    frozen: Vec<Frozen<I>>,
    /// My place, and the count it was handed on with; a rank that was recalled
    /// is mine alone and is handed on with none.
    placed: Option<(Placement<I>, Option<Frozen<I>>)>,
    /// What the parent says is in force, if I have no rank in it, and whether that
    /// overlay is the cluster's.
    in_force: Option<InForce<I>>,
    /// The rank in it that the parent says was mine.
    former: Option<Rank>,
    belonging: Belonging,
    /// Whether all children have reported.
    is_whole: bool,
}

impl<I: Id> Census<I> {
    /// The census of a node without children. `version` is where its versions
    /// start: noise, so that no echo meant for an earlier boot fits. `returns`
    /// says whether there was one.
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
        // A copy: what is drawn after this does not depend on it.
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

    /// My place in the current epoch.
    pub fn placement(&self) -> Option<Placement<I>> {
        self.placed.as_ref().map(|(placement, _)| *placement)
    }

    /// The members of my subtree, as counted.
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

    /// Which ranks my subtree holds, as far as it is known.
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

    /// How many of my subtree have no rank but had an earlier life.
    fn returning(&self) -> u32 {
        let own = u32::from(self.returns && self.placed.is_none());
        let reports = self.reports.values().map(|report| report.returning);
        reports.fold(own, u32::saturating_add)
    }

    /// The standing, if the parent should know it at once: everybody in my
    /// subtree holds a rank, or they are out of order.
    pub fn news(&self) -> Option<Standing<I>> {
        let size = self.size().get();
        self.standing()
            .filter(|standing| !standing.is_ordered || standing.count == size)
    }

    /// What a root has to do about its epoch.
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
            // As it was counted; the wave may still be on its way.
            Need::Nothing
        } else if size != standing.count {
            match standing.vacant() {
                // One that returns, and all below it, may be counted twice.
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

    /// A child reports its size and the ranks it holds. Returns whether it is the
    /// first time: it does not know which numbering is in force.
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

    /// Count again over the children as they are now, forgetting the reports of
    /// former ones. Returns whether the count changed; the parent must then be
    /// told.
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

    /// As a child: the parent says where I am, and whether the overlay is the
    /// cluster's. Returns whether my place changed. A place from a count that I do
    /// not have, or that my subtree does not fit into, is ignored.
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
            // It was given to this node by that count: in an earlier life, or
            // before more was counted than is kept.
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

    /// Whether I hold another rank of the same numbering. A member that moved while it
    /// was counted has two, the second in the count of its new parent. It keeps the first:
    /// others know it there, and messages of its own count the distances from there. The
    /// other rank stays vacant, and the root names an epoch for it as for any vacancy.
    fn is_elsewhere(&self, placement: &Placement<I>) -> bool {
        let mine = self.placed.as_ref().map(|(mine, _)| mine);
        mine.is_some_and(|mine| {
            let is_same = (mine.epoch, mine.population) == (placement.epoch, placement.population);
            is_same && mine.rank != placement.rank
        })
    }

    /// As a child: the parent says which numbering is in force, whether that overlay
    /// is the cluster's, and that it cannot give me a rank there.
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

    /// The numbering that is in force around me while I have no rank in it.
    pub fn in_force(&self) -> Option<(Epoch<I>, Population)> {
        let told = self.in_force?;
        Some((told.epoch, told.population))
    }

    /// Whether the overlay in whose epoch I stand is the cluster's, by its root's word.
    pub const fn belongs(&self) -> bool {
        self.belonging.is_told
    }

    /// How my subtree is tied to the cluster.
    pub fn evidence(&self) -> Evidence {
        let reports = self.reports.values().map(|report| report.evidence);
        let unknown = (!self.is_whole).then_some(Evidence::Unmet);
        let others = reports.chain(unknown);
        others.fold(self.belonging.own, Evidence::joined)
    }

    /// How I am tied to the cluster. Whoever has been a member of it stays one.
    pub fn find(&mut self, own: Evidence) {
        self.belonging.find(own);
    }

    /// The overlay is the cluster's, or an island. The children are told at once if it
    /// has become the cluster's, otherwise with the beat: on a cycle of corrupted parents
    /// two words would chase each other.
    pub fn set_belongs(&mut self, belongs: bool, children: &[I], out: &mut Out<I>) {
        if self.belonging.hear(belongs) && belongs {
            self.beat(children, out);
        }
    }

    /// Take back the rank that was mine in the numbering in force, if one of
    /// `claims` or what the parent said lies between the ranks of my ring
    /// neighbours. Nobody else was ever given it; that it lies there shows that
    /// nobody else claims it. Returns whether I have a place now.
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

    /// Repeat to the children where they are.
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

    /// Two counts of one version are one count: mend the older copy of it.
    pub fn mend(&mut self) {
        let newest = self.newest().clone();
        if let Some((_, Some(frozen))) = &mut self.placed
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

/// Tell the children that were counted in `frozen` their places, and the others
/// what is in force.
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
