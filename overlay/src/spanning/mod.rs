//! A spanning tree of any connected graph, breadth first from a node of highest degree: the
//! second algorithm of [FC], which leaves open how the nodes find that root.
//!
//! ```text
//!   every node:   my claim = the best of my own root and of my neighbours' claims ──▶ all of them
//!   echo:         leaves ──▶ ... ──▶ root: everybody here, and everybody around us, has this root
//!   tree:         root ──▶ ... ──▶ leaves: I have my place
//! ```
//!
//! A claim names a root, its degree and the path from it. Of two claims the greater degree wins,
//! then the smaller root, the shorter path, the smaller neighbour. So all nodes end up with the
//! same root and a shortest path to it, after as many rounds as the graph's diameter has edges. A
//! node does not follow a claim whose path leads through itself, so there are no cycles. When a
//! link ends, its claim is forgotten. Until the next tick the node then refuses paths to the same
//! root that are longer than its own was.
//!
//! A node is complete once all its neighbours claim its root and all nodes below it are complete.
//! The root is complete last, and begins the tree. A node that gets a place in the tree tells its
//! neighbours. A neighbour goes below its parent, by its own claim, once that parent has a place;
//! at a tick it goes below any neighbour that has one. So the tree has no circles either. (At the
//! end of its time a node goes below its parent in any case. The rules of the tree break circles:
//! docs/protocol.md.)
//!
//! A root may begin too early: if links are slow, while an echo of a former path is under way; or
//! if lists are one-way, before a node that lists its neighbours has spoken. The others then come
//! to its tree, whatever their degrees.
//!
//! Not here: the length of a tick (`overlay`), and all that follows the beginning of the tree: no
//! later claim moves a root.

mod message;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub use message::{Claim, Message};

use crate::id::Id;
use crate::outbox::Outbox;

/// How many peers outside its list a node takes for neighbours; the claims of further ones are
/// ignored. A guess: above the degree of any graph that people write down.
pub const MAX_STRANGERS: usize = 1024;

/// How many roots a node remembers between two ticks. A guess: fewer roots than this die in a
/// second.
pub const MAX_ROOTS: usize = 64;

/// The budget for claims between two ticks. A claim costs 1, and a claim that is worse than the one
/// before costs 64. When the budget is spent, no changed claim is sent until the tick: otherwise a
/// liar whose claims lead others away and back would be answered for ever. A guess: in an honest
/// start a claim seldom becomes worse, and in a ring it becomes better once for each node.
pub const BUDGET: u16 = 4096;
/// The cost of a claim that is worse than the one told before.
const TURN: u16 = 64;

/// After how many ticks without a message a neighbour counts as gone: every node repeats its claim
/// at each tick. A guess: two messages in a row are seldom lost.
const SILENCES_MAX: u8 = 3;
/// After how many ticks with the same claim a node that believes itself the root begins the tree
/// even if its claim is not complete. One neighbour that never agrees must not hold up all nodes. A
/// guess: a claim crosses any graph of hosts in less time; if not, a second tree begins, which
/// merges later.
const STEADY: u8 = 4;

/// One node of the graph until its tree begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spanning<I> {
    me: I,
    /// The degree of this node: the length of its own list.
    degree: u32,
    /// The most neighbours that this node takes.
    bound: usize,
    neighbours: BTreeMap<I, Neighbour<I>>,
    /// The listed peers: each becomes a neighbour again when its link is up.
    listed: BTreeSet<I>,
    /// Whether any neighbour has ever spoken.
    has_heard: bool,
    /// Whether a neighbour has spoken for the first time since the last tick.
    has_news: bool,
    /// Whether this node has waited for further neighbours, and none came.
    has_waited: bool,
    /// The length of the shortest path that this node has followed to each root since the last
    /// tick. At most [`MAX_ROOTS`], the best ones.
    nearest: BTreeMap<(Reverse<u32>, I), usize>,
    /// For how many ticks this node's claim has been the same since it has waited; at most
    /// [`STEADY`].
    steady: u8,
    /// How much of the budget is spent since the last tick; at most [`BUDGET`].
    spent: u16,
    /// The claim of this node. If the budget is spent, its neighbours are told at the next tick.
    claim: Claim<I>,
}

/// A neighbour, as far as this node knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Neighbour<I> {
    /// Whether a link to the neighbour is up.
    is_met: bool,
    /// Whether the neighbour has ever spoken.
    has_spoken: bool,
    /// The neighbour's last claim; none before its first one, and while its link is down.
    claim: Option<Claim<I>>,
    /// How many ticks have passed since its last claim.
    silences: u8,
    /// Whether the neighbour has its place in the tree.
    is_placed: bool,
}

impl<I> Default for Neighbour<I> {
    fn default() -> Self {
        Self {
            is_met: false,
            has_spoken: false,
            claim: None,
            silences: 0,
            is_placed: false,
        }
    }
}

/// An input of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// A link to a peer is up; the peer need not be listed.
    Met(I),
    /// A neighbour claims a root.
    Claim {
        /// The neighbour that claims.
        from: I,
        /// The claim itself.
        claim: Claim<I>,
    },
    /// A neighbour has its place in the tree.
    Placed(I),
    /// The link to a neighbour is down.
    Lost(I),
    /// A tick has passed, whatever has happened in it.
    Tick,
}

/// The outcome of an input.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome<I> {
    /// The node does not enter the tree yet.
    Nothing,
    /// The node enters the tree below the last of these ancestors, which begin with the root, or
    /// are only the parent. Without ancestors it is the root itself.
    Formed(Vec<I>),
}

/// A path to a root by degree, root and length; the best one is the least.
type Way<I> = (Reverse<u32>, I, usize);
/// A path and the neighbour through which it leads.
type Standing<I> = (Way<I>, Option<I>);

impl<I: Id> Spanning<I> {
    /// A node with this list of neighbours. Repeated entries and the node itself do not count.
    pub fn new(me: I, list: impl IntoIterator<Item = I>) -> Self {
        let others = list.into_iter().filter(|peer| *peer != me);
        let neighbours: BTreeMap<I, Neighbour<I>> =
            others.map(|peer| (peer, Neighbour::default())).collect();
        let degree = u32::try_from(neighbours.len()).unwrap_or(u32::MAX);
        Self {
            me,
            degree,
            bound: neighbours.len() + MAX_STRANGERS,
            listed: neighbours.keys().copied().collect(),
            neighbours,
            has_heard: false,
            has_news: false,
            has_waited: false,
            nearest: BTreeMap::new(),
            steady: 0,
            spent: 0,
            claim: Claim {
                degree,
                path: vec![me],
                is_complete: false,
            },
        }
    }

    /// For the study: claim this degree instead of the node's own.
    #[must_use]
    pub const fn claiming(mut self, degree: u32) -> Self {
        self.degree = degree;
        self.claim.degree = degree;
        self
    }

    /// Handle one input.
    pub fn handle<M, T, E>(&mut self, input: Input<I>, out: &mut Outbox<I, M, T, E>) -> Outcome<I>
    where
        M: From<Message<I>>,
    {
        match input {
            Input::Met(peer) => self.meet(peer, out),
            Input::Claim { from, claim } => {
                if !self.on_claim(from, claim, out) {
                    // A repeated or invalid claim changes no path.
                    return Outcome::Nothing;
                }
            }
            Input::Placed(peer) => {
                if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                    neighbour.is_placed = true;
                }
            }
            Input::Lost(peer) => {
                if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                    *neighbour = Neighbour {
                        has_spoken: neighbour.has_spoken,
                        ..Neighbour::default()
                    };
                }
            }
            Input::Tick => {
                self.nearest.clear();
                let placed = self.neighbours.iter().find(|(_, it)| it.is_placed);
                if let Some((peer, _)) = placed {
                    return Outcome::Formed(vec![*peer]);
                }
                self.tick(out);
            }
        }
        self.decide(out);
        let is_its_turn = match self.claim.parent() {
            Some(parent) => self.neighbours.get(&parent).is_some_and(|it| it.is_placed),
            None => self.claim.is_complete || self.has_waited && self.steady >= STEADY,
        };
        match is_its_turn {
            true => Outcome::Formed(self.ancestors().to_vec()),
            false => Outcome::Nothing,
        }
    }

    /// The ancestors on the best path so far, the root first; none if the root is the node itself.
    pub fn ancestors(&self) -> &[I] {
        let path = self.claim.path.as_slice();
        path.split_last().map_or(&[], |(_, ancestors)| ancestors)
    }

    /// How many roots this node has followed since the last tick; at most [`MAX_ROOTS`].
    pub fn roots(&self) -> usize {
        self.nearest.len()
    }

    /// How much of its budget this node has used since the last tick; at most [`BUDGET`].
    pub fn spent(&self) -> usize {
        self.spent.into()
    }

    /// The peers that this node takes for its neighbours.
    pub fn neighbours(&self) -> impl ExactSizeIterator<Item = I> + '_ {
        self.neighbours.keys().copied()
    }

    /// The claim of this node.
    pub const fn claim(&self) -> &Claim<I> {
        &self.claim
    }

    /// Whether a peer is a neighbour.
    pub fn has_neighbour(&self, peer: I) -> bool {
        self.neighbours.contains_key(&peer)
    }

    /// A link to the peer is up. A peer that is not in the list becomes a neighbour with its first
    /// claim.
    fn meet<M: From<Message<I>>, T, E>(&mut self, peer: I, out: &mut Outbox<I, M, T, E>) {
        if self.listed.contains(&peer) {
            self.neighbours.entry(peer).or_default();
        }
        let known = self.neighbours.get_mut(&peer);
        let was_met = known.is_some_and(|known| std::mem::replace(&mut known.is_met, true));
        if !was_met && peer != self.me {
            out.send(peer, Message::Claim(self.claim.clone()));
        }
    }

    /// Forget neighbours that have been silent too long. Also forget those without a claim, if any
    /// neighbour has ever spoken, but none for the first time in this tick. Repeat the claim to the
    /// others: it may have been lost, and it shows that this node lives.
    fn tick<M: From<Message<I>>, T, E>(&mut self, out: &mut Outbox<I, M, T, E>) {
        let is_quiet = !std::mem::replace(&mut self.has_news, false);
        // Before the first message of a neighbour the others may not have started.
        let has_waited = is_quiet && (self.has_heard || self.neighbours.is_empty());
        self.has_waited |= has_waited;
        self.neighbours.retain(|_, neighbour| {
            neighbour.silences = neighbour.silences.saturating_add(1).min(SILENCES_MAX);
            match neighbour.claim {
                Some(_) => neighbour.silences < SILENCES_MAX,
                None => !has_waited,
            }
        });
        self.steady = match self.has_waited {
            true => self.steady.saturating_add(1).min(STEADY),
            false => 0,
        };
        self.spent = 0;
        self.tell_all(out);
    }

    fn on_claim<M: From<Message<I>>, T, E>(
        &mut self,
        from: I,
        claim: Claim<I>,
        out: &mut Outbox<I, M, T, E>,
    ) -> bool {
        let has_room = self.has_neighbour(from) || self.neighbours.len() < self.bound;
        if !claim.is_of(from) || from == self.me || !has_room {
            return false;
        }
        let neighbour = self.neighbours.entry(from).or_default();
        if !std::mem::replace(&mut neighbour.is_met, true) {
            out.send(from, Message::Claim(self.claim.clone()));
        }
        neighbour.silences = 0;
        self.has_news |= !std::mem::replace(&mut neighbour.has_spoken, true);
        self.has_heard = true;
        let is_news = neighbour.claim.as_ref() != Some(&claim);
        neighbour.claim = Some(claim);
        is_news
    }

    /// Choose the best claim, and tell all neighbours if it has changed, as far as the budget
    /// allows. A change of completeness alone is told to the parent only.
    fn decide<M: From<Message<I>>, T, E>(&mut self, out: &mut Outbox<I, M, T, E>) {
        let (way, path) = self.best();
        let degree = way.0.0;
        let nearest = self.nearest.entry((way.0, way.1)).or_insert(way.2);
        *nearest = way.2.min(*nearest);
        if self.nearest.len() > MAX_ROOTS {
            self.nearest.pop_last();
        }
        let is_other = (degree, &path) != (self.claim.degree, &self.claim.path);
        let is_worse = way > self.standing();
        self.claim.degree = degree;
        self.claim.path = path;
        let is_complete = self.is_complete();
        let was_complete = std::mem::replace(&mut self.claim.is_complete, is_complete);
        if is_other {
            self.steady = 0;
        } else if was_complete == is_complete {
            return;
        }
        let cost = if is_worse { TURN } else { 1 };
        if self.spent + cost > BUDGET {
            return;
        }
        self.spent += cost;
        match self.claim.parent() {
            Some(parent) if !is_other => out.send(parent, Message::Claim(self.claim.clone())),
            None if !is_other => {}
            _ => self.tell_all(out),
        }
    }

    /// The path of this node's own claim.
    fn standing(&self) -> Way<I> {
        let root = self.claim.root().unwrap_or(self.me);
        (Reverse(self.claim.degree), root, self.ancestors().len())
    }

    /// Whether a path is as short as the shortest to that root since the last tick. A longer one
    /// may lead through nodes that have lost the root as well and do not know it yet. Neighbours
    /// that took such paths would try all paths among themselves, one by one. Babel (RFC 8966)
    /// calls a path feasible in this sense.
    fn is_feasible(&self, way: Way<I>) -> bool {
        let nearest = self.nearest.get(&(way.0, way.1));
        nearest.is_none_or(|nearest| way.2 <= *nearest)
    }

    fn best(&self) -> (Way<I>, Vec<I>) {
        let own: Standing<I> = ((Reverse(self.degree), self.me, 0), None);
        let claims = self.neighbours.iter().filter_map(|(peer, neighbour)| {
            let claim = neighbour.claim.as_ref()?;
            let is_way = !claim.path.contains(&self.me) && claim.path.len() < Claim::<I>::MAX_PATH;
            let way = (Reverse(claim.degree), claim.root()?, claim.path.len());
            // A neighbour with a place has a path, however long.
            let is_open = neighbour.is_placed || self.is_feasible(way);
            (is_way && is_open).then_some(((way, Some(*peer)), claim))
        });
        match claims.min_by_key(|(standing, _)| *standing) {
            Some((standing, claim)) if standing < own => {
                let path = claim.path.iter().copied().chain([self.me]);
                (standing.0, path.collect())
            }
            _ => (own.0, vec![self.me]),
        }
    }

    /// Whether all neighbours claim this node's root, and all nodes below it are complete. A node
    /// without a neighbour waits for one.
    fn is_complete(&self) -> bool {
        let root = (self.claim.degree, self.claim.root());
        let has_met = self.has_waited || !self.neighbours.is_empty();
        has_met
            && self.neighbours.values().all(|neighbour| {
                let claim = neighbour.claim.as_ref();
                claim.is_some_and(|claim| {
                    let is_below = claim.parent() == Some(self.me);
                    (claim.degree, claim.root()) == root && (claim.is_complete || !is_below)
                })
            })
    }

    fn tell_all<M: From<Message<I>>, T, E>(&self, out: &mut Outbox<I, M, T, E>) {
        for (peer, _) in self.neighbours.iter().filter(|(_, it)| it.is_met) {
            out.send(*peer, Message::Claim(self.claim.clone()));
        }
    }
}
