//! Whether a world is legitimate, seen from outside.

use std::fmt;

use binomesh_overlay::{Epoch, legitimate};

use super::{Id, World};

/// The first thing found wrong with a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Defect {
    /// Parents and children do not form one tree over the live peers.
    Tree,
    /// A live peer has no place.
    Unplaced(Id),
    /// Two live peers are in different epochs.
    Epochs(Id, Id),
    /// The ranks of the epoch are not 0..N, each once.
    Ranks,
    /// The ring does not go once round in rank order.
    Ring,
    /// A peer's fingers are not those of the binomial graph.
    Fingers(Id),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree => f.write_str("parents and children are not one tree"),
            Self::Unplaced(id) => write!(f, "{id} has no place"),
            Self::Epochs(a, b) => write!(f, "{a} and {b} are in different epochs"),
            Self::Ranks => f.write_str("the ranks are not 0..N, each once"),
            Self::Ring => f.write_str("the ring is not the order of ranks"),
            Self::Fingers(id) => write!(f, "the fingers of {id} are wrong"),
        }
    }
}

/// Who holds which rank of which epoch right now.
pub type Snapshot = Vec<(Epoch<Id>, u32, Id)>;

impl World {
    /// What is wrong with the overlay of the live peers, if anything.
    pub fn defect(&self) -> Option<Defect> {
        let live: Vec<Id> = self.peers().map(|(id, _)| id).collect();
        self.defect_among(&live)
    }

    /// What is wrong with the overlay of these live peers, as if there were no
    /// others.
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
        if !legitimate::is_ring(live, next, last) || !order.windows(2).all(follows) {
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
        let wrong = (0..order.len()).find(|rank| {
            let right = legitimate::has_right_fingers(
                &order,
                *rank,
                |id| table(id, true),
                |id| table(id, false),
            );
            !right
        });
        wrong.map(|rank| Defect::Fingers(order[rank]))
    }

    /// The live peers by rank, if they share one epoch and fill it.
    fn order(&self, live: &[Id]) -> Result<Vec<Id>, Defect> {
        let mut order = vec![None; live.len()];
        let mut first: Option<(Id, Epoch<Id>)> = None;
        for id in live {
            let placement = self.peer(*id).and_then(|peer| peer.overlay().placement());
            let placement = placement.ok_or(Defect::Unplaced(*id))?;
            let (other, epoch) = *first.get_or_insert((*id, placement.epoch));
            if epoch != placement.epoch {
                return Err(Defect::Epochs(other, *id));
            }
            let fits = placement.population.get() as usize == live.len();
            match order.get_mut(placement.rank.0 as usize) {
                Some(place @ None) if fits => *place = Some(*id),
                _ => return Err(Defect::Ranks),
            }
        }
        order
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .ok_or(Defect::Ranks)
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
