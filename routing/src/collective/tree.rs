//! Short messages over the links of the binomial graph: up to one member, with the messages of many
//! members in one frame, and down to all members.
//!
//! ```text
//!   up    7 ─▶ 6 ─▶ 4 ─▶ 0      towards rank 0: the lowest bit of the distance is cleared
//!   down  0 ─▶ 4 [4,8) ─▶ 6 [6,8) ─▶ 7      each answers for an interval of distances
//! ```
//!
//! A frame goes once, without an answer. If it is lost, the member that waits for an answer asks
//! again, now also through the relay, which repeats lost messages and goes round dead members.
//! Frames down go by the ranks of one epoch, and a member in another epoch drops them. Letters up
//! go by the ranks that each member on the way has in its own epoch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use binomesh_overlay::{Epoch, Id};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::context::Gone;
use super::message::Message;
use super::terms::Key;
use crate::relay::View;

/// The most bytes in a frame, approximately. Longer messages go by the relay.
const FRAME_BYTES: usize = 32 << 10;
/// The most letters in a frame up; more go in several frames.
const LETTERS: usize = 256;
/// The most letters that wait at a member. Full: a further one finds no way.
const WAITING: usize = 4096;
/// For how many rows of letters a member counts the letters that have passed. Full: the oldest row
/// is forgotten, and its remaining letters wait for the timer.
const ROWS: usize = 1024;
/// How many linked peers are remembered. A peer whose link ended because it was idle stays
/// remembered, as the next frame makes the link again.
const LINKED: usize = 4096;

/// A frame that members pass on to each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Frame<I> {
    /// Letters of several members to one member.
    Up {
        /// The member that the letters are for.
        to: I,
        /// The letters themselves.
        letters: Vec<Letter<I>>,
    },
    /// A message to all members of an epoch.
    Down {
        /// The epoch whose ranks the frame uses.
        epoch: Epoch<I>,
        /// The member that sends the message.
        origin: I,
        /// The rank of the origin.
        rank: u32,
        /// The receiver passes the frame on to the members before this distance from the origin.
        end: u32,
        /// The [`super::Message`], serialised.
        body: Bytes,
    },
}

/// A letter: a message on its way up. Members on the way need not read it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Letter<I> {
    /// The member that sends the message.
    pub from: I,
    /// The row of the letter: a number that the letters of all members share if they are of one
    /// kind and about one operation. Each member sends one letter of a row. At each member on the
    /// way, letters of one row to one receiver wait for each other for a moment, so that they leave
    /// in few frames. A letter without a row goes on at once.
    row: Option<u64>,
    /// The [`super::Message`], serialised.
    pub body: Bytes,
}

impl<I: Id + Serialize> Letter<I> {
    /// The letter with a message and its row; none if the message is too long.
    pub(super) fn new(from: I, message: &Message<I>) -> Option<Self> {
        let row = message.row().map(|row| {
            let row = postcard::to_stdvec(&row).unwrap_or_default();
            let hash = *blake3::hash(&row).as_bytes();
            hash.first_chunk().copied().map_or(0, u64::from_le_bytes)
        });
        let body = body_of(message)?;
        Some(Self { from, row, body })
    }

    /// The same letter without a row, so that it goes on at once.
    pub(super) fn at_once(self) -> Self {
        Self { row: None, ..self }
    }
}

/// A message, serialised for a frame; none if it is too long.
pub(super) fn body_of<I: Serialize>(message: &Message<I>) -> Option<Bytes> {
    let body = postcard::to_stdvec(message).ok()?;
    (body.len() <= FRAME_BYTES).then(|| body.into())
}

/// The message in a frame, if it can be read.
pub(super) fn message_of<I: DeserializeOwned>(body: &[u8]) -> Option<Message<I>> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Some(message),
        _ => None,
    }
}

/// A row of letters, with its receiver.
type Row<I> = (I, u64);

/// This member's place in the graph, and the letters of all members that wait here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Tree<I> {
    view: Option<View<I>>,
    /// The peers that are linked. A frame to another neighbour would be lost.
    linked: BTreeSet<I>,
    ranks: BTreeMap<I, u32>,
    members: Arc<Vec<Option<I>>>,
    waiting: BTreeMap<I, Vec<Letter<I>>>,
    /// For each row the members whose letters have passed, the oldest row first.
    passed: VecDeque<(Row<I>, BTreeSet<I>)>,
}

/// How a letter goes up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<I> {
    /// Send these frames at once.
    Frames(Vec<(I, Frame<I>)>),
    /// The letter waits for other letters of its row, until the row is complete or the timer fires.
    Waits {
        /// Whether no letter waited before.
        is_first: bool,
    },
    /// No way leads up from here, or no room is left: this member sends its own letters by the
    /// relay, and drops those of others.
    NoWay,
}

impl<I: Id> Tree<I> {
    pub(super) const fn new(members: Arc<Vec<Option<I>>>) -> Self {
        Self {
            view: None,
            linked: BTreeSet::new(),
            ranks: BTreeMap::new(),
            members,
            waiting: BTreeMap::new(),
            passed: VecDeque::new(),
        }
    }

    /// Set the tables of the epoch, and its members if all are known.
    pub(super) fn set(&mut self, view: View<I>, members: Arc<Vec<Option<I>>>) {
        if !Arc::ptr_eq(&self.members, &members) {
            let named = members.iter().zip(0..);
            self.ranks = named
                .filter_map(|(member, rank)| Some(((*member)?, rank)))
                .collect();
            self.members = members;
        }
        self.view = Some(view);
    }

    /// A peer is linked. When many are, only neighbours in the graph are remembered.
    pub(super) fn link_up(&mut self, peer: I) {
        if self.linked.len() >= LINKED
            && let Some(view) = &self.view
        {
            let named = view.clockwise.iter().chain(&view.counterclockwise);
            let neighbours: BTreeSet<I> = named.flatten().copied().collect();
            self.linked.retain(|peer| neighbours.contains(peer));
        }
        if self.linked.len() < LINKED {
            self.linked.insert(peer);
        }
    }

    pub(super) fn link_down(&mut self, peer: I) {
        self.linked.remove(&peer);
    }

    pub(super) fn forget_links(&mut self) {
        self.linked.clear();
    }

    fn population(&self) -> u32 {
        self.members.len() as u32
    }

    /// The view of this member, if the names of its members are known.
    fn view(&self) -> Option<&View<I>> {
        let view = self.view.as_ref()?;
        let is_of = view.placement.population.get() == self.population();
        is_of.then_some(view)
    }

    /// Whether these members are exactly those of the epoch. This member is one of them.
    pub(super) fn is_all(&self, members: &[I]) -> bool {
        let is_known = |member: &I| self.ranks.contains_key(member);
        self.view().is_some()
            && members.len() == self.ranks.len()
            && self.ranks.len() == self.members.len()
            && members.iter().all(is_known)
    }

    /// The frames that take a message to all other members; none if a link is missing.
    pub(super) fn down(&self, me: I, body: &Bytes) -> Option<Vec<(I, Frame<I>)>> {
        let view = self.view()?;
        let all = Stretch {
            rank: view.placement.rank.0,
            start: 0,
            end: self.population(),
        };
        let frames = self.branches(view, me, all, body);
        let count = steps(self.population()).count();
        (frames.len() == count).then_some(frames)
    }

    /// The frames to this member's children in a stretch. Members behind a missing link get none;
    /// the relay asks them again.
    fn branches(
        &self,
        view: &View<I>,
        origin: I,
        stretch: Stretch,
        body: &Bytes,
    ) -> Vec<(I, Frame<I>)> {
        let mut frames = Vec::new();
        let Stretch {
            rank,
            start,
            mut end,
        } = stretch;
        for level in (0..view.clockwise.len()).rev() {
            let child = start + (1 << level);
            if child >= end {
                continue;
            }
            let peer = view.clockwise.get(level).copied().flatten();
            if let Some(peer) = peer.filter(|peer| self.linked.contains(peer)) {
                let frame = Frame::Down {
                    epoch: view.placement.epoch,
                    origin,
                    rank,
                    end,
                    body: body.clone(),
                };
                frames.push((peer, frame));
            }
            end = child;
        }
        frames
    }

    /// The frames to pass on after a frame down has come; none if it does not fit this member's
    /// tables.
    pub(super) fn pass_down(
        &self,
        epoch: &Epoch<I>,
        origin: (I, u32),
        end: u32,
        body: &Bytes,
    ) -> Option<Vec<(I, Frame<I>)>> {
        let view = self.view()?;
        let population = self.population();
        let is_of = view.placement.epoch == *epoch && self.ranks.get(&origin.0) == Some(&origin.1);
        if !is_of || end > population || body.len() > FRAME_BYTES {
            return None;
        }
        let start = distance(origin.1, view.placement.rank.0, population);
        let (origin, rank) = origin;
        let stretch = Stretch { rank, start, end };
        (0 < start && start < end).then(|| self.branches(view, origin, stretch, body))
    }

    /// Pass a letter on, up to `to`.
    pub(super) fn up(&mut self, to: I, letter: Letter<I>, gone: &Gone<I>) -> Step<I> {
        let waiting: usize = self.waiting.values().map(Vec::len).sum();
        let Some(behind) = self.behind(to) else {
            return Step::NoWay;
        };
        let is_member = self.ranks.contains_key(&letter.from);
        let has_way = self.next_up(to, gone).is_some();
        if !is_member || !has_way || waiting >= WAITING || letter.body.len() > FRAME_BYTES {
            return Step::NoWay;
        }
        let is_complete = letter.row.is_none_or(|row| {
            let row = (to, row);
            let is_complete = self.count(row, letter.from) >= behind;
            if is_complete {
                self.passed.retain(|(other, _)| *other != row);
            }
            is_complete
        });
        self.waiting.entry(to).or_default().push(letter);
        match is_complete {
            true => Step::Frames(self.flush(to, gone)),
            false => Step::Waits {
                is_first: waiting == 0,
            },
        }
    }

    /// How many members, this one included, pass their letters to `to` through here.
    fn behind(&self, to: I) -> Option<usize> {
        let view = self.view()?;
        let population = self.population();
        let distance = distance(*self.ranks.get(&to)?, view.placement.rank.0, population);
        // At distance 0 this member is `to` itself: nothing passes through it.
        let level = (distance > 0).then(|| distance.trailing_zeros())?;
        Some((1_u32 << level).min(population - distance) as usize)
    }

    /// Note that the letter of `from` in a row has passed. Returns how many members' letters have.
    fn count(&mut self, row: Row<I>, from: I) -> usize {
        let known = self.passed.iter().position(|(other, _)| *other == row);
        let place = known.unwrap_or_else(|| {
            if self.passed.len() >= ROWS {
                self.passed.pop_front();
            }
            self.passed.push_back((row, BTreeSet::new()));
            self.passed.len() - 1
        });
        let Some((_, members)) = self.passed.get_mut(place) else {
            return 0;
        };
        members.insert(from);
        members.len()
    }

    /// The frames with the letters to one member that wait here. If no way is left, these letters
    /// are lost.
    fn flush(&mut self, to: I, gone: &Gone<I>) -> Vec<(I, Frame<I>)> {
        let Some(letters) = self.waiting.remove(&to) else {
            return Vec::new();
        };
        let Some(next) = self.next_up(to, gone) else {
            return Vec::new();
        };
        let mut frames: Vec<Vec<Letter<I>>> = Vec::new();
        let mut bytes = usize::MAX;
        for letter in letters {
            let more = letter.body.len();
            let is_full = frames.last().is_none_or(|last| last.len() >= LETTERS);
            if is_full || bytes.saturating_add(more) > FRAME_BYTES {
                frames.push(Vec::new());
                bytes = 0;
            }
            bytes += more;
            if let Some(last) = frames.last_mut() {
                last.push(letter);
            }
        }
        let frames = frames.into_iter();
        frames
            .map(|letters| (next, Frame::Up { to, letters }))
            .collect()
    }

    /// The next member on the way up: the lowest bit of the distance is cleared. If that member is
    /// gone or not linked, the step is the longest one to a linked member that does not go beyond
    /// the receiver.
    fn next_up(&self, to: I, gone: &Gone<I>) -> Option<I> {
        let view = self.view()?;
        let rank = *self.ranks.get(&to)?;
        let distance = distance(rank, view.placement.rank.0, self.population());
        let others = (0..=distance.checked_ilog2()?).rev();
        let mut levels = std::iter::once(distance.trailing_zeros()).chain(others);
        levels.find_map(|level| {
            let peer = view.counterclockwise.get(level as usize).copied().flatten();
            peer.filter(|peer| self.linked.contains(peer) && !gone.has(*peer))
        })
    }

    /// The frames with all letters that wait here.
    pub(super) fn flush_all(&mut self, gone: &Gone<I>) -> Vec<(I, Frame<I>)> {
        let all: Vec<I> = self.waiting.keys().copied().collect();
        all.into_iter()
            .flat_map(|to| self.flush(to, gone))
            .collect()
    }
}

/// An interval of the members, by distance from an origin, that this member answers for.
#[derive(Clone, Copy)]
struct Stretch {
    /// The rank of the origin.
    rank: u32,
    /// The distance of this member from the origin.
    start: u32,
    /// The distance at which the stretch ends.
    end: u32,
}

const fn distance(from: u32, to: u32, population: u32) -> u32 {
    (to + population - from) % population
}

/// The lengths of the graph's links: the powers of two below the number of members.
fn steps(population: u32) -> impl Iterator<Item = u32> {
    let powers = (0..u32::BITS).map(|level| 1_u32 << level);
    powers.take_while(move |step| *step < population)
}

impl<I> Message<I> {
    /// Whether this message may travel up in a letter.
    pub(super) const fn goes_up(&self) -> bool {
        matches!(
            self,
            Self::Prepare { .. } | Self::Propose { .. } | Self::Decided { .. } | Self::Ask { .. }
        ) || matches!(
            self,
            Self::Arrive { .. } | Self::Promise { .. } | Self::Vote { .. } | Self::Overruled { .. }
        )
    }

    /// Whether this message may travel down in a frame.
    pub(super) const fn goes_down(&self) -> bool {
        matches!(
            self,
            Self::Prepare { .. } | Self::Propose { .. } | Self::Decided { .. }
        )
    }

    /// The row of this message: its kind and key, if each member sends one such message.
    const fn row(&self) -> Option<(&'static str, &Key)> {
        match self {
            Self::Arrive { key, .. } | Self::Promise { key, .. } | Self::Vote { key, .. } => {
                Some((self.name(), key))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use binomesh_overlay::{Placement, Population, Rank};

    use super::*;

    fn all(population: u32) -> Vec<Tree<u32>> {
        let members: Arc<Vec<Option<u32>>> = Arc::new((0..population).map(Some).collect());
        let epoch = Epoch {
            root: 0,
            boot: 1,
            counter: 1,
            nonce: 1,
        };
        let trees = (0..population).map(|rank| {
            let at = |step: u32| Some((rank + step) % population);
            let mut tree = Tree::new(Arc::default());
            let placement = Placement {
                epoch,
                population: Population::new(population).unwrap(),
                rank: Rank(rank),
            };
            let view = View {
                placement,
                clockwise: steps(population).map(at).collect(),
                counterclockwise: steps(population)
                    .map(|step| at(population - step))
                    .collect(),
            };
            for peer in view
                .clockwise
                .iter()
                .chain(&view.counterclockwise)
                .flatten()
            {
                tree.link_up(*peer);
            }
            tree.set(view, members.clone());
            tree
        });
        trees.collect()
    }

    fn vote(generation: u64) -> Message<u32> {
        Message::Vote {
            key: Key {
                name: "x".parse().unwrap(),
                generation,
            },
            digest: [0; 16],
            ballot: super::super::voting::Ballot::first(0, 1),
            boot: 1,
            lives: Vec::new(),
        }
    }

    fn body(generation: u64) -> Bytes {
        body_of(&vote(generation)).unwrap()
    }

    #[test]
    fn a_body_sent_down_reaches_each_member_once() {
        for population in [2, 3, 5, 8, 13, 16, 33, 100] {
            let trees = all(population);
            for origin in [0, population / 2, population - 1] {
                let mut got = vec![0; population as usize];
                let frames = trees[origin as usize].down(origin, &body(1)).unwrap();
                let mut open: VecDeque<_> = frames.into();
                while let Some((to, frame)) = open.pop_front() {
                    got[to as usize] += 1;
                    let Frame::Down {
                        epoch,
                        origin,
                        rank,
                        end,
                        body,
                    } = frame
                    else {
                        panic!();
                    };
                    let tree = &trees[to as usize];
                    open.extend(tree.pass_down(&epoch, (origin, rank), end, &body).unwrap());
                }
                for (member, count) in got.iter().enumerate() {
                    assert_eq!(*count, u32::from(member as u32 != origin), "{population}");
                }
            }
        }
    }

    /// If each member sends one letter, each passes on one frame, without waiting for the timer.
    #[test]
    fn letters_sent_up_take_one_frame_from_each_member() {
        for population in [2, 3, 5, 8, 13, 16, 33, 100] {
            let mut trees = all(population);
            let root = population / 3;
            // Send from the farthest member first, then from the nearest first.
            for turn in 0..2 {
                let mut order: Vec<u32> = (0..population).filter(|m| *m != root).collect();
                if turn == 1 {
                    order.reverse();
                }
                let (mut came, mut sent) = (BTreeSet::new(), 0);
                let letter = |member| Letter::new(member, &vote(turn)).unwrap();
                let mut open: VecDeque<(u32, Letter<u32>)> =
                    order.into_iter().map(|m| (m, letter(m))).collect();
                while let Some((at, letter)) = open.pop_front() {
                    let frames = match trees[at as usize].up(root, letter, &Gone::default()) {
                        Step::Waits { .. } => continue,
                        Step::NoWay => panic!("no way at {at}"),
                        Step::Frames(frames) => frames,
                    };
                    for (to, frame) in frames {
                        sent += 1;
                        let Frame::Up { letters, .. } = frame else {
                            panic!();
                        };
                        for letter in letters {
                            match to == root {
                                true => _ = came.insert(letter.from),
                                false => open.push_back((to, letter)),
                            }
                        }
                    }
                }
                assert_eq!(came.len() as u32, population - 1, "{population}");
                assert_eq!(sent, population - 1, "{population}");
            }
        }
    }

    #[test]
    fn no_frame_goes_to_a_neighbour_without_a_link() {
        let mut tree = all(8).remove(6);
        let to = |tree: &mut Tree<u32>| match tree.up(
            0,
            Letter::new(6, &vote(1)).unwrap().at_once(),
            &Gone::default(),
        ) {
            Step::Frames(frames) => frames.iter().map(|(to, _)| *to).collect(),
            _ => Vec::new(),
        };
        assert_eq!(to(&mut tree), [4]);
        assert!(tree.down(6, &body(1)).is_some());
        // Without 4 the next best step is 6 → 2, and without 2 it is 6 → 5. Without 2, which is a
        // child of 6, the message down goes by the relay.
        tree.link_down(4);
        assert_eq!(to(&mut tree), [2]);
        tree.link_down(2);
        assert_eq!(to(&mut tree), [5]);
        assert!(
            tree.down(6, &body(1)).is_none(),
            "2 is behind a missing link"
        );
        tree.link_up(2);
        assert!(tree.down(6, &body(1)).is_some());
        for stranger in 100..100 + 2 * LINKED as u32 {
            tree.link_up(stranger);
            assert!(tree.linked.len() <= LINKED);
        }
        assert_eq!(to(&mut tree), [2], "neighbours are remembered");
        tree.forget_links();
        let letter = Letter::new(6, &vote(1)).unwrap().at_once();
        let step = tree.up(0, letter, &Gone::default());
        assert_eq!(step, Step::NoWay, "the sender takes the relay at once");
    }

    #[test]
    fn frames_of_another_epoch_or_part_are_dropped() {
        let trees = all(8);
        let good = trees[0].down(0, &body(1)).unwrap().remove(0);
        let Frame::Down {
            mut epoch, body, ..
        } = good.1
        else {
            panic!();
        };
        let tree = &trees[4];
        assert!(tree.pass_down(&epoch, (0, 0), 8, &body).is_some());
        assert!(tree.pass_down(&epoch, (0, 0), 9, &body).is_none());
        assert!(tree.pass_down(&epoch, (0, 0), 4, &body).is_none());
        assert!(tree.pass_down(&epoch, (1, 0), 8, &body).is_none());
        epoch.counter += 1;
        assert!(tree.pass_down(&epoch, (0, 0), 8, &body).is_none());
    }
}
