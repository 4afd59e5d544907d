//! What a packet carries of its way: destinations, transit list, way back, and
//! who was found dead.

use binomesh_overlay::Rank;

use super::Router;
use crate::runs::Runs;
use crate::shape::Shape;
use crate::span::Span;

/// A set of ranks, as intervals: a walk along a ring is one or two, however long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RankSet {
    runs: Runs,
    len: usize,
}

impl RankSet {
    /// Whether it has the rank.
    pub fn contains(&self, rank: Rank) -> bool {
        self.runs.contains(rank.0)
    }

    /// Add a rank; whether it is new. The greatest number is no rank.
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

    /// How many ranks it has.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        self.runs.iter().map(Rank)
    }
}

impl FromIterator<Rank> for RankSet {
    fn from_iter<T: IntoIterator<Item = Rank>>(ranks: T) -> Self {
        let mut ranks: Vec<Rank> = ranks.into_iter().collect();
        // Then each goes to the end.
        ranks.sort_unstable();
        let mut set = Self::default();
        for rank in ranks {
            set.insert(rank);
        }
        set
    }
}

/// The part of a packet's header that grows on its way.
///
/// [SFT06] §3.1 has a destination list and a transit list "to prevent looping and
/// for back-tracking purposes".
///
/// Departure: the transit list alone does not tell to whom a packet goes back
/// after it has gone back once, and two nodes can then hand it to each other for
/// ever. So the senders of the first visits are carried besides, as a stack.
///
/// Departure: transit list and way back are cleared at each destination. With the transit list of
/// all legs, later ones are sent round nodes that had nothing against them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Itinerary {
    /// Where it shall still go.
    pub(super) destinations: Vec<Rank>,
    /// Where it goes now, one of the destinations.
    pub(super) target: Option<Rank>,
    /// Who had the packet on this leg.
    pub(super) visited: RankSet,
    /// From whom back to the start of the leg.
    pub(super) way_back: Vec<Rank>,
    /// Who was found dead on all legs.
    pub(super) dead: RankSet,
    /// The most ranks on the transit list.
    pub(super) limit: usize,
    /// Who was left backwards on this leg.
    pub(super) closed: RankSet,
    /// Whether one of these was left with neighbours to try.
    pub(super) has_given_way: bool,
    /// Whether that is over: all is tried, in turn.
    pub(super) is_stubborn: bool,
}

impl Itinerary {
    /// The most dead ranks that are carried along. Who is found dead beyond them is
    /// avoided on this leg only.
    pub const MAX_DEAD: usize = 1024;

    /// To these, with a transit list of at most `limit` ranks: at the limit a packet
    /// only goes back.
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

    /// With these known to be dead from the start, the least of them if they are
    /// too many.
    pub fn knowing(mut self, dead: impl IntoIterator<Item = Rank>) -> Self {
        let dead: RankSet = dead.into_iter().collect();
        self.dead = dead.iter().take(Self::MAX_DEAD).collect();
        self
    }

    /// Where it shall still go.
    pub fn destinations(&self) -> &[Rank] {
        &self.destinations
    }

    /// Who is known to be dead.
    pub const fn dead(&self) -> &RankSet {
        &self.dead
    }

    /// The transit list of this leg.
    pub const fn visited(&self) -> &RankSet {
        &self.visited
    }

    /// Send it to one more.
    pub fn add(&mut self, destination: Rank) {
        if !self.destinations.contains(&destination) {
            self.destinations.push(destination);
        }
    }

    /// Where it goes now: if to nobody yet, to the nearest.
    pub(super) fn head(
        &mut self,
        router: &(impl Router + ?Sized),
        shape: &Shape,
        here: Rank,
    ) -> Option<Rank> {
        if self.target.is_none() {
            let cost = |to: &Rank| router.cost(shape, here, *to);
            self.target = self.destinations.iter().copied().min_by_key(cost);
        }
        self.target
    }

    /// A destination less; a new leg begins if it was reached, or was where we went.
    pub(super) fn strike(&mut self, destination: Rank) {
        self.destinations.retain(|other| *other != destination);
        self.target = None;
        self.begin_leg(false);
    }

    /// The way to the present target begins here.
    pub(super) fn begin_leg(&mut self, is_stubborn: bool) {
        self.visited = RankSet::default();
        self.closed = RankSet::default();
        self.way_back.clear();
        (self.has_given_way, self.is_stubborn) = (false, is_stubborn);
    }

    /// To whom it may go back without having tried all there is.
    pub(super) fn sender(&self) -> Option<Rank> {
        self.way_back.last().copied().filter(|_| !self.is_stubborn)
    }

    /// Remember that a rank is dead.
    pub(super) fn bury(&mut self, rank: Rank) {
        match self.dead.len() < Self::MAX_DEAD {
            true => self.dead.insert(rank),
            false => self.visited.insert(rank),
        };
    }
}
