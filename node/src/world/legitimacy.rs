//! Judges from outside whether a world is legitimate.

use std::collections::BTreeMap;
use std::fmt;

use binomesh_overlay::{Epoch, Placement, legitimate};

use super::{Id, World};
use crate::peer::Peer;

/// The most ranks per live peer of a plausible epoch. An epoch with more ranks is called wrong, one
/// with fewer only has vacant ranks.
const MOST_VACANT: usize = 64;

/// The first thing found wrong with a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Defect {
    /// Parents and children do not form one tree over the live peers.
    Tree,
    /// A live peer has no place.
    Unplaced(Id),
    /// Two live peers are in different epochs.
    Epochs(Id, Id),
    /// Two peers hold one rank of the epoch, a peer counts another number of members than the
    /// others, or a rank or a number of members is not plausible.
    Ranks,
    /// The ring does not go once round in rank order.
    Ring,
    /// A peer's fingers are not those of the binomial graph.
    Fingers(Id),
    /// This many ranks of the epoch are vacant.
    Vacant(usize),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree => f.write_str("parents and children are not one tree"),
            Self::Unplaced(id) => write!(f, "{id} has no place"),
            Self::Epochs(a, b) => write!(f, "{a} and {b} are in different epochs"),
            Self::Ranks => f.write_str(
                "two peers hold the same rank or count different numbers \
                                        of members",
            ),
            Self::Ring => f.write_str("the ring does not follow the order of ranks"),
            Self::Fingers(id) => write!(f, "the fingers of {id} are wrong"),
            Self::Vacant(count) => write!(f, "{count} ranks are vacant"),
        }
    }
}

/// The holders of ranks at one time: epoch, rank, holder.
pub type Snapshot = Vec<(Epoch<Id>, u32, Id)>;

impl World {
    /// The first defect of the overlay of the live peers. Ranks of dead peers may be vacant.
    pub fn defect(&self) -> Option<Defect> {
        let live: Vec<Id> = self.peers().map(|(id, _)| id).collect();
        self.defect_among(&live)
    }

    /// As [`World::defect`], but a vacant rank is a defect, too: the overlay has to be the exact
    /// binomial graph.
    pub fn defect_or_vacancy(&self) -> Option<Defect> {
        let defect = self.defect();
        if defect.is_some() {
            return defect;
        }
        let (id, peer) = self.peers().next()?;
        let population = peer.overlay().placement().ok_or(Defect::Unplaced(id));
        let population = population.map_or(0, |placement| placement.population.get() as usize);
        match population.saturating_sub(self.peers().count()) {
            0 => None,
            vacant => Some(Defect::Vacant(vacant)),
        }
    }

    /// The first defect of the overlay of some of the live peers, which may be on an island of
    /// their own. The ids are given smallest first.
    pub fn defect_among(&self, live: &[Id]) -> Option<Defect> {
        let overlay = |id: Id| self.peer(id).map(|peer| peer.overlay());
        let parent = |id: Id| overlay(id).and_then(|o| o.tree().parent());
        let children = |id: Id| -> Vec<Id> {
            overlay(id)
                .map(|o| o.tree().children().collect())
                .unwrap_or_default()
        };
        if !legitimate::is_tree(live, parent, children) {
            return Some(Defect::Tree);
        }
        let order = match self.order(live) {
            Ok(order) => order,
            Err(defect) => return Some(defect),
        };
        let next = |id: Id| overlay(id).and_then(|o| o.ring().successor);
        let last = |id: Id| overlay(id).and_then(|o| o.ring().predecessor);
        let follows = |pair: &[Id]| next(pair[0]) == Some(pair[1]);
        let present: Vec<Id> = order.iter().copied().flatten().collect();
        if !legitimate::is_ring(live, next, last) || !present.windows(2).all(follows) {
            return Some(Defect::Ring);
        }
        let table = |id: Id, clockwise: bool| {
            let fingers = overlay(id).and_then(|o| o.fingers());
            let table = fingers.map(|f| {
                if clockwise {
                    f.clockwise()
                } else {
                    f.counterclockwise()
                }
            });
            table.unwrap_or_default().to_vec()
        };
        let is_wrong = |rank: usize| {
            !legitimate::has_right_fingers_but_vacant(
                &order,
                rank,
                |id| table(id, true),
                |id| table(id, false),
            )
        };
        let mut held = order.iter().enumerate();
        held.find_map(|(rank, id)| id.filter(|_| is_wrong(rank)))
            .map(Defect::Fingers)
    }

    /// The live peer at each rank, if the live peers share one epoch.
    fn order(&self, live: &[Id]) -> Result<Vec<Option<Id>>, Defect> {
        let mut order = Vec::new();
        let mut first: Option<(Id, Epoch<Id>)> = None;
        for id in live {
            let placement = self.peer(*id).and_then(|peer| peer.overlay().placement());
            let placement = placement.ok_or(Defect::Unplaced(*id))?;
            let (other, epoch) = *first.get_or_insert((*id, placement.epoch));
            if epoch != placement.epoch {
                return Err(Defect::Epochs(other, *id));
            }
            let population = placement.population.get() as usize;
            // A corrupted population may be any number up to the greatest.
            if population > MOST_VACANT * live.len() {
                return Err(Defect::Ranks);
            }
            if order.is_empty() {
                order = vec![None; population];
            }
            let is_same = population == order.len();
            match order.get_mut(placement.rank.0 as usize) {
                Some(place @ None) if is_same => *place = Some(*id),
                _ => return Err(Defect::Ranks),
            }
        }
        Ok(order)
    }

    /// The places of the live peers that have one.
    pub fn placements(&self) -> BTreeMap<Id, Placement<Id>> {
        let placed = |(id, peer): (Id, &Peer<Id>)| Some((id, peer.overlay().placement()?));
        self.peers().filter_map(placed).collect()
    }

    /// Two live peers that hold one rank of one epoch, if there are any.
    pub fn double_rank(&self) -> Option<(Epoch<Id>, u32, Id, Id)> {
        let placed = self.peers().filter_map(|(id, peer)| {
            let placement = peer.overlay().placement()?;
            Some((placement.epoch, placement.rank.0, id))
        });
        let mut snapshot: Snapshot = placed.collect();
        snapshot.sort_unstable();
        let same =
            |pair: &&[(Epoch<Id>, u32, Id)]| pair[0].0 == pair[1].0 && pair[0].1 == pair[1].1;
        let pair = snapshot.windows(2).find(same)?;
        Some((pair[0].0, pair[0].1, pair[0].2, pair[1].2))
    }
}
