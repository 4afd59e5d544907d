//! The layout of a broadcast: the position of each member in it. To the relay, strategies differ
//! in the order of the members and in how a stretch of it is cut into parts. Only `flood` sends
//! further copies besides.
//!
//! ```text
//!   binomial        clockwise from the origin         origin 2 of N = 7:
//!                                                     2 3 4 5 6 0 1
//!   sibling-tree    the origin's subtree, then the    2 5 6 | 0 1 3 4
//!                   tree from its root without it,
//!                   both in preorder
//!   chain           clockwise, one after another: each hands all of the rest to the
//!                   next
//!   circulant       a tree in preorder, another one for the next message
//! ```
//!
//! In each order position 0 is the origin, a part is an interval, and the member that answers for a
//! part stands at its start. So custody goes to higher positions only, with every strategy.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use binomesh_overlay::{Population, Rank, named};
use serde::{Deserialize, Serialize};

use super::circulant::{NODES_MAX, Trees};
use super::{Encapsulation, binomial, heirs};
use crate::sibling_tree::{Fanout, Links, SiblingTree};
use crate::span::Span;

named! {
    /// A strategy as users name it, without the numbers that follow from the cluster and from the
    /// data.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Choice {
        /// The best one for the data: messages go by `binomial`, files as `push` says.
        Auto = "auto",
        /// Each member hands parts to its fingers in the binomial graph: no link is needed besides.
        Binomial = "binomial",
        /// Down the sibling tree: the origin serves its own subtree, and rank 0 the rest.
        SiblingTree = "sibling-tree",
        /// As `binomial`, and each member passes the message on to all its neighbours: members
        /// agree even if the sender dies. This costs many messages.
        Flood = "flood",
        /// Each member sends to the next one: for much data where the uplinks are the limit, and
        /// few members.
        Chain = "chain",
        /// Each message on another way than the one before, so that every uplink is always busy,
        /// for much data where the uplinks are the limit. Above 1,024 members it is `binomial`.
        Circulant = "circulant",
    }
}

/// The default is `auto`.
impl Default for Choice {
    fn default() -> Self {
        Self::ALL[0]
    }
}

impl Choice {
    /// The strategy of this choice. `fanout` is for a tree, and `left` is how many blocks follow,
    /// for `circulant`.
    pub const fn strategy(self, fanout: u32, left: u32) -> Strategy {
        match self {
            Self::Auto | Self::Binomial => Strategy::Binomial,
            Self::SiblingTree => Strategy::SiblingTree { fanout },
            Self::Flood => Strategy::Flood,
            Self::Chain => Strategy::Chain,
            Self::Circulant => Strategy::circulant(left),
        }
    }
}

impl FromStr for Choice {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text).ok_or_else(|| UnknownStrategy(text.chars().take(64).collect()))
    }
}

/// A name that no strategy has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no strategy; expected {all}", all = Choice::names("or"))]
pub struct UnknownStrategy(String);

/// The order in which a message goes to the members.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Strategy {
    /// Ranges of ranks over the clockwise fingers, [`super::binomial`].
    #[default]
    Binomial,
    /// Down the sibling tree of [SFT06], [`super::sibling_tree`]: the origin hands its own subtree
    /// to its children, and all else to rank 0.
    SiblingTree {
        /// The children of a full node; see [`Fanout::new`].
        fanout: u32,
    },
    /// As `Binomial`, and each member that receives the message for the first time also sends it to
    /// all its neighbours in the binomial graph, [`super::flood`].
    Flood,
    /// Clockwise from each member to the next one, N − 1 deep. Every node but the last sends one
    /// copy, so where the uplinks are the limit a row of many messages takes as long as over one
    /// link.
    Chain,
    /// For a row of blocks: each takes another way over the links of the binomial graph, so that
    /// every node sends and receives one block at a time, without pauses. n blocks come to N
    /// members in n − 1 + ⌈log₂ N⌉ times the time of a block on one uplink
    /// ([`Circulant`](crate::schedule::circulant::Circulant)). Above [`Strategy::CIRCULANT_MAX`]
    /// members it is `Binomial`.
    Circulant {
        /// The number of blocks that follow. It may start anywhere and becomes less by one with
        /// each block. The last block has 0.
        left: u32,
        /// Ranks that hand nothing on. Publishers leave the list empty; the relay fills it in when
        /// it issues the message.
        lost: Lost,
    },
}

/// Ranks that hand no block of [`Strategy::Circulant`] on.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Lost([Option<u16>; Lost::MAX]);

impl Lost {
    /// How many ranks fit. For any further lost rank, the parent of that rank in the tree sends to
    /// the children of that rank.
    pub const MAX: usize = 4;

    /// The lowest of these ranks, at most [`Lost::MAX`].
    pub fn new(ranks: impl IntoIterator<Item = Rank>) -> Self {
        let ranks = ranks.into_iter();
        let ranks: BTreeSet<u16> = ranks.filter_map(|rank| rank.0.try_into().ok()).collect();
        let mut lost = Self::default();
        for (place, rank) in lost.0.iter_mut().zip(ranks) {
            *place = Some(rank);
        }
        lost
    }

    /// The distances of these ranks clockwise of the origin, in ascending order. Numbers that are
    /// no rank, and the origin, are left out, since a peer may write anything.
    fn distances(self, population: Population, origin: Rank) -> Vec<u32> {
        let ranks = self.0.into_iter().flatten().map(|rank| Rank(rank.into()));
        let ranks = ranks.filter(|rank| rank.0 < population.get());
        let distances = ranks.map(|rank| origin.distance_to(rank, population));
        let distances: BTreeSet<u32> = distances.filter(|distance| *distance > 0).collect();
        distances.into_iter().collect()
    }
}

impl Strategy {
    /// `Circulant` for a block that `left` blocks follow.
    pub const fn circulant(left: u32) -> Self {
        let lost = Lost([None; Lost::MAX]);
        Self::Circulant { left, lost }
    }

    /// The same strategy, in which these ranks hand nothing on. Only `Circulant` supports that;
    /// others stay as they are.
    pub fn without(self, ranks: impl IntoIterator<Item = Rank>) -> Self {
        match self {
            Self::Circulant { left, .. } => Self::Circulant {
                left,
                lost: Lost::new(ranks),
            },
            other => other,
        }
    }

    /// The most members that the strategy `circulant` supports.
    pub const CIRCULANT_MAX: u32 = NODES_MAX;

    /// The largest fanout of a tree that a message may go down. It bounds how many copies one part
    /// can cause at a node.
    pub const MAX_FANOUT: u32 = 1024;

    /// The choice that this strategy belongs to.
    pub const fn choice(self) -> Choice {
        match self {
            Self::Binomial => Choice::Binomial,
            Self::SiblingTree { .. } => Choice::SiblingTree,
            Self::Flood => Choice::Flood,
            Self::Chain => Choice::Chain,
            Self::Circulant { .. } => Choice::Circulant,
        }
    }

    /// The name that users call it by.
    pub const fn name(self) -> &'static str {
        self.choice().name()
    }

    /// Whether the numbers of this strategy are possible.
    pub fn is_possible(self) -> bool {
        match self {
            Self::SiblingTree { fanout } => {
                fanout <= Self::MAX_FANOUT && Fanout::new(fanout).is_some()
            }
            Self::Binomial | Self::Flood | Self::Chain | Self::Circulant { .. } => true,
        }
    }

    /// The strategy that is used for a population: `Binomial` instead of `Circulant` if the
    /// population is too large.
    pub const fn among(self, population: Population) -> Self {
        match self {
            Self::Circulant { .. } if population.get() > NODES_MAX => Self::Binomial,
            other => other,
        }
    }

    /// Whether each copy has its turn in a schedule of rounds.
    pub(crate) const fn has_rounds(self) -> bool {
        matches!(self, Self::Circulant { .. })
    }

    /// Whether positions are ranks clockwise of the origin.
    pub(crate) const fn is_clockwise(self) -> bool {
        !matches!(self, Self::SiblingTree { .. } | Self::Circulant { .. })
    }

    /// The order of the members as seen from an origin. None if the strategy is not possible, or if
    /// `Circulant` does not support so many members.
    pub fn layout(self, population: Population, origin: Rank) -> Option<Layout> {
        if !self.is_possible() {
            return None;
        }
        let order = match self {
            Self::Binomial | Self::Flood => MemberOrder::Ring,
            Self::Chain => MemberOrder::Chain,
            Self::SiblingTree { fanout } => {
                let shape = SiblingTree::new(population, Fanout::new(fanout)?);
                let origin = Rank(origin.0 % population.get());
                MemberOrder::Sibling(Sibling {
                    first: shape.preorder(origin),
                    size: shape.subtree_size(origin),
                    shape,
                })
            }
            Self::Circulant { left, lost } => {
                let lost = lost.distances(population, origin);
                MemberOrder::Circulant(Trees::without(population.get(), lost)?, left)
            }
        };
        Some(Layout {
            population,
            origin,
            order,
        })
    }
}

/// The order of the members in one broadcast.
#[derive(Debug, Clone)]
pub struct Layout {
    population: Population,
    origin: Rank,
    order: MemberOrder,
}

#[expect(
    clippy::large_enum_variant,
    reason = "it is made for a step and lives no longer"
)]
#[derive(Debug, Clone)]
enum MemberOrder {
    Ring,
    Chain,
    Sibling(Sibling),
    /// The trees, and how many blocks follow.
    Circulant(Arc<Trees>, u32),
}

#[derive(Debug, Clone, Copy)]
struct Sibling {
    shape: SiblingTree,
    /// The place of the origin in preorder.
    first: u32,
    /// How many ranks the subtree of the origin has.
    size: u32,
}

impl Layout {
    /// The position of a rank.
    pub fn position(&self, rank: Rank) -> u32 {
        let distance = self.origin.distance_to(rank, self.population);
        match &self.order {
            MemberOrder::Ring | MemberOrder::Chain => distance,
            MemberOrder::Sibling(tree) => tree.position(rank),
            MemberOrder::Circulant(trees, left) => trees.tree(*left).position(distance),
        }
    }

    /// The rank at a position below N.
    pub fn rank(&self, position: u32) -> Rank {
        match &self.order {
            MemberOrder::Ring | MemberOrder::Chain => self.origin.ahead(position, self.population),
            MemberOrder::Sibling(tree) => tree.rank(position).unwrap_or(self.origin),
            MemberOrder::Circulant(trees, left) => {
                let distance = trees.tree(*left).distance(position);
                self.origin.ahead(distance, self.population)
            }
        }
    }

    /// The round in which a position gets the message, from the round in which the origin first
    /// sends it. None if the strategy has no rounds.
    pub fn round(&self, position: u32) -> Option<u32> {
        match &self.order {
            MemberOrder::Circulant(trees, left) => Some(trees.tree(*left).round(position)),
            _ => None,
        }
    }

    /// How many ranks a position is clockwise of the origin.
    pub fn distance(&self, position: u32) -> u32 {
        self.origin
            .distance_to(self.rank(position), self.population)
    }

    /// The parts of a span that `at` hands on, in the order of sending.
    pub fn parts(&self, at: u32, span: Span) -> Vec<Span> {
        match &self.order {
            MemberOrder::Chain => (!span.is_empty()).then_some(span).into_iter().collect(),
            MemberOrder::Ring => binomial(at, span).collect(),
            MemberOrder::Sibling(_) | MemberOrder::Circulant(..) => self.subtrees(at, span),
        }
    }

    /// The parts that replace one whose head `at` is lost. `rest` is the rest of that part behind
    /// the head.
    ///
    /// In a tree the children of the head take its place ([SFT06] §3.1); behind a lost finger the
    /// next rank does.
    pub fn heirs(&self, at: u32, rest: Span) -> Vec<Span> {
        match &self.order {
            MemberOrder::Sibling(_) | MemberOrder::Circulant(..) => self.subtrees(at, rest),
            MemberOrder::Ring | MemberOrder::Chain if rest.is_empty() => Vec::new(),
            MemberOrder::Ring | MemberOrder::Chain => vec![rest],
        }
    }

    /// Whether the head of a part is no neighbour of this rank in the sibling tree, so that the
    /// part goes over further ranks. False with other strategies than `sibling-tree`.
    pub(crate) fn is_far(&self, rank: Rank, head: Rank) -> bool {
        let MemberOrder::Sibling(tree) = &self.order else {
            return false;
        };
        let mut kin = tree.shape.neighbours(rank, Links::SiblingTree);
        kin.all(|other| other != head)
    }

    /// Cut a span at the children of `at`. In the sibling tree the origin is no child, since it
    /// cuts its own subtree itself, and the root counts as the origin's last child.
    fn subtrees(&self, at: u32, span: Span) -> Vec<Span> {
        let starts: Vec<u32> = match &self.order {
            MemberOrder::Ring | MemberOrder::Chain => return Vec::new(),
            MemberOrder::Circulant(trees, left) => trees.tree(*left).children(at).collect(),
            MemberOrder::Sibling(tree) => {
                let children = heirs(&tree.shape, self.rank(at), Encapsulation::Recursive, 0);
                let children = children.filter(|child| *child != self.origin);
                let root = (at == 0 && self.origin != Rank(0)).then_some(Rank(0));
                let heads = children.chain(root);
                heads.map(|rank| self.position(rank)).collect()
            }
        };
        let starts = starts.into_iter();
        let mut starts: Vec<u32> = starts
            .filter(|start| span.start < *start && *start < span.end)
            .chain((!span.is_empty()).then_some(span.start))
            .collect();
        starts.sort_unstable();
        let ends = starts.iter().skip(1).copied().chain([span.end]);
        let parts = starts.iter().zip(ends);
        parts.map(|(start, end)| Span::new(*start, end)).collect()
    }
}

impl Sibling {
    fn position(&self, rank: Rank) -> u32 {
        let index = self.shape.preorder(rank);
        if index < self.first {
            index.saturating_add(self.size)
        } else if index - self.first < self.size {
            index - self.first
        } else {
            index
        }
    }

    fn rank(&self, position: u32) -> Option<Rank> {
        let index = if position < self.size {
            self.first.saturating_add(position)
        } else if position - self.size < self.first {
            position - self.size
        } else {
            position
        };
        self.shape.at_preorder(index)
    }
}

#[cfg(test)]
mod tests;
