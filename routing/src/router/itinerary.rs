//! The itinerary that a packet carries: destinations, transit list, way back and dead ranks.

use binomesh_overlay::Rank;

use super::Router;
use crate::runs::Runs;
use crate::sibling_tree::SiblingTree;
use crate::span::Span;

/// A set of ranks, stored as intervals. A walk along a ring is one or two intervals, however long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RankSet {
    runs: Runs,
    len: usize,
}

impl RankSet {
    /// Whether the set has this rank.
    pub fn contains(&self, rank: Rank) -> bool {
        self.runs.contains(rank.0)
    }

    /// Add a rank. Returns whether it is new. The greatest number is no rank.
    pub fn insert(&mut self, rank: Rank) -> bool {
        let is_new = rank.0 < u32::MAX && !self.contains(rank);
        if is_new {
            self.runs.insert(Span::single(rank.0));
            self.len += 1;
        }
        is_new
    }

    /// The least rank that is not below this one.
    pub fn first_from(&self, rank: Rank) -> Option<Rank> {
        self.runs.first_from(rank.0).map(Rank)
    }

    /// How many ranks the set has.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The ranks in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        self.runs.iter().map(Rank)
    }
}

impl FromIterator<Rank> for RankSet {
    fn from_iter<T: IntoIterator<Item = Rank>>(ranks: T) -> Self {
        let mut ranks: Vec<Rank> = ranks.into_iter().collect();
        // In ascending order each rank is added at the end, which is cheap.
        ranks.sort_unstable();
        let mut set = Self::default();
        for rank in ranks {
            set.insert(rank);
        }
        set
    }
}

/// The fields of a packet's header that change on its way.
///
/// [SFT06] §3.1 has a destination list and a transit list "to prevent looping and for back-tracking
/// purposes".
///
/// Departure: the transit list alone does not tell where a packet goes back to after it has gone
/// back once, so two nodes can hand it to each other for ever. Hence the senders of the first
/// visits are carried too, as a stack.
///
/// Departure: transit list and way back are cleared at each destination. With one transit list for
/// all legs, later legs would avoid nodes for no reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Itinerary {
    /// The destinations that are left.
    pub(super) destinations: Vec<Rank>,
    /// The present target, one of the destinations.
    pub(super) target: Option<Rank>,
    /// The ranks that had the packet on this leg.
    pub(super) visited: RankSet,
    /// The senders on the way back to the start of the leg.
    pub(super) way_back: Vec<Rank>,
    /// The ranks that are known to be dead, from this leg or an earlier one.
    pub(super) dead: RankSet,
    /// The length of the transit list at which the packet only goes back.
    pub(super) limit: usize,
    /// The ranks that the packet left backwards on this leg.
    pub(super) closed: RankSet,
    /// Whether the packet left a rank backwards on this leg by the router's choice, so that
    /// neighbours may be untried.
    pub(super) has_given_way: bool,
    /// Whether the router may not go back by its own choice any more: all neighbours are tried in
    /// turn.
    pub(super) is_stubborn: bool,
}

impl Itinerary {
    /// The most dead ranks that are carried along. Further dead ranks are avoided on this leg only.
    pub const MAX_DEAD: usize = 1024;

    /// An itinerary to these destinations, whose transit list has room for `limit` ranks. With a
    /// full list a packet only goes back.
    pub fn new(destinations: impl IntoIterator<Item = Rank>, limit: usize) -> Self {
        Self {
            destinations: destinations.into_iter().collect(),
            target: None,
            visited: RankSet::default(),
            way_back: Vec::with_capacity(limit.min(32)),
            dead: RankSet::default(),
            limit,
            closed: RankSet::default(),
            has_given_way: false,
            is_stubborn: false,
        }
    }

    /// The itinerary with these ranks known to be dead; the lowest of them if there are too many.
    pub fn knowing(mut self, dead: impl IntoIterator<Item = Rank>) -> Self {
        let dead: RankSet = dead.into_iter().collect();
        self.dead = dead.iter().take(Self::MAX_DEAD).collect();
        self
    }

    /// The destinations that are left.
    pub fn destinations(&self) -> &[Rank] {
        &self.destinations
    }

    /// The ranks that are known to be dead.
    pub const fn dead(&self) -> &RankSet {
        &self.dead
    }

    /// The transit list of this leg.
    pub const fn visited(&self) -> &RankSet {
        &self.visited
    }

    /// Add a destination, unless it is there already.
    pub fn add(&mut self, destination: Rank) {
        if !self.destinations.contains(&destination) {
            self.destinations.push(destination);
        }
    }

    /// The present target. If there is none, the nearest destination becomes the target.
    pub(super) fn head(
        &mut self,
        router: &(impl Router + ?Sized),
        shape: &SiblingTree,
        here: Rank,
    ) -> Option<Rank> {
        if self.target.is_none() {
            let cost = |to: &Rank| router.cost(shape, here, *to);
            self.target = self.destinations.iter().copied().min_by_key(cost);
        }
        self.target
    }

    /// Strike off a destination. A new leg begins.
    pub(super) fn strike(&mut self, destination: Rank) {
        self.destinations.retain(|other| *other != destination);
        self.target = None;
        self.begin_leg(false);
    }

    /// Begin the leg to the present target here.
    pub(super) fn begin_leg(&mut self, is_stubborn: bool) {
        self.visited = RankSet::default();
        self.closed = RankSet::default();
        self.way_back.clear();
        (self.has_given_way, self.is_stubborn) = (false, is_stubborn);
    }

    /// The rank that the packet may go back to although untried neighbours are left.
    pub(super) fn sender(&self) -> Option<Rank> {
        self.way_back.last().copied().filter(|_| !self.is_stubborn)
    }

    /// Remember that a rank is dead; beyond [`Itinerary::MAX_DEAD`] on this leg only.
    pub(super) fn bury(&mut self, rank: Rank) {
        match self.dead.len() < Self::MAX_DEAD {
            true => self.dead.insert(rank),
            false => self.visited.insert(rank),
        };
    }
}
