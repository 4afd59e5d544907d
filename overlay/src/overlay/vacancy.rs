//! Vacant ranks: when a root names a new epoch, and how a member finds its rank again.
//!
//! Compacting the ranks at every death would move about half of them, and every member whose rank
//! moves dials its links again. So a dead member's rank stays vacant for a while, like a seat that
//! is kept. The ring goes round it, routers avoid it, and a member that returns in time takes it
//! again.

use super::{Moved, Out, Overlay};
use crate::census::Need;
use crate::config::{LONGEST, beats};
use crate::fingers::{self, Direction};
use crate::stamp::{Mark, distance};
use crate::{Epoch, Id, Population, Rank};

/// Ranks are compacted sooner, before the grace is over, if more than one rank in this many is
/// vacant.
const CROWDED: u32 = 8;
/// Each change in the number of members without a rank restarts a root's wait of
/// [`regroup`](crate::config::Pace::regroup) before it names an epoch. While no rank is vacant, it
/// waits at most this many times `regroup` in all. So newcomers do not wait on and on for restarted
/// members that come one after the other.
const RETURNS: u32 = 4;
/// A node without a rank, or with one that does not suit its place in the tree, asks for another
/// place every so many beats.
const PLACELESS: u32 = 2;

/// How long ranks have been vacant, in beats of the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Vacancy {
    /// How many ranks are vacant.
    vacant: u32,
    /// How many members have no rank.
    unplaced: u32,
    /// Beats since either number last changed.
    unchanged: u32,
    /// Beats since the number of vacant ranks last fell.
    since_fall: u32,
    /// Beats since every rank was held and every member had a rank.
    whole: u32,
}

impl Vacancy {
    /// Counts in an arbitrary state, as a transient fault may leave them.
    pub(super) const fn corrupted(noise: u64) -> Self {
        Self {
            vacant: noise as u32 % 64,
            unplaced: (noise >> 8) as u32 % 64,
            unchanged: (noise >> 16) as u32,
            since_fall: (noise >> 24) as u32,
            whole: (noise >> 32) as u32,
        }
    }

    fn beat(&mut self, vacant: u32, unplaced: u32) {
        if vacant == 0 && unplaced == 0 {
            *self = Self::default();
            return;
        }
        if (vacant, unplaced) != (self.vacant, self.unplaced) {
            self.unchanged = 0;
        }
        if vacant < self.vacant {
            self.since_fall = 0;
        }
        (self.vacant, self.unplaced) = (vacant, unplaced);
        for count in [&mut self.unchanged, &mut self.since_fall, &mut self.whole] {
            *count = count.saturating_add(1);
        }
    }
}

impl<I: Id> Overlay<I> {
    /// Once per beat: note how many ranks are vacant and how many members have no rank, and for how
    /// long. A node that is no root notes 0 of both.
    pub(super) fn watch_vacancy(&mut self) {
        let (vacant, unplaced) = self.count_vacancy();
        self.vacancy.beat(vacant, unplaced);
    }

    /// How many ranks are vacant and how many members have no rank, as a root sees it now.
    fn count_vacancy(&self) -> (u32, u32) {
        let standing = self.census.standing();
        match (self.tree.is_root(), self.census.need(), standing) {
            (true, Need::Vacant(vacant), _) => (vacant, 0),
            (true, Need::Recall, Some(standing)) => {
                let unplaced = self.census.size().get().saturating_sub(standing.count);
                (standing.vacant(), unplaced)
            }
            (true, Need::Disorder, Some(standing)) => (standing.vacant().max(1), u32::MAX),
            _ => (0, 0),
        }
    }

    /// Whether this node is a root that has to name an epoch now.
    pub(super) fn needs_epoch(&self) -> bool {
        if !self.tree.is_root() {
            return false;
        }
        let pace = &self.config.pace;
        let over = |count, length| count > beats(length, pace.beat);
        let is_new = self.count_vacancy() != (self.vacancy.vacant, self.vacancy.unplaced);
        let population = self.placement().map_or(1, |mine| mine.population.get());
        let need = self.census.need();
        match need {
            Need::Nothing => false,
            Need::Epoch => true,
            _ if pace.grace.is_zero() => true,
            _ if over(self.vacancy.whole, pace.grace * LONGEST) => true,
            Need::Vacant(vacant) if vacant.saturating_mul(CROWDED) <= population => {
                over(self.vacancy.since_fall, pace.grace)
            }
            // A newcomer does not wait longer because other members return one after the other.
            Need::Recall
                if self.vacancy.vacant == 0 && over(self.vacancy.whole, pace.regroup * RETURNS) =>
            {
                true
            }
            // After the death of a root its heir counts only a part of the members at first. A
            // member that returns needs a moment to learn its rank.
            Need::Vacant(_) | Need::Recall | Need::Disorder => {
                !is_new && over(self.vacancy.unchanged, pace.regroup)
            }
        }
    }

    /// How many ranks are vacant, as a root noted at its last beat; 0 if this node is no root.
    pub fn vacant(&self) -> u32 {
        self.vacancy.vacant
    }

    /// Take back this node's former rank in the numbering in force. The rank is known if the
    /// parent, or a member that has this node for a finger, has said it.
    pub(super) fn recall(&mut self, moved: &mut Moved) {
        let Some((epoch, population)) = self.census.in_force() else {
            return;
        };
        let at = |peer: Option<I>| {
            let mark = self.marks.get(&peer?)?;
            (mark.epoch == epoch).then_some(mark.rank)
        };
        let neighbours = at(self.ring.predecessor).zip(at(self.ring.successor));
        let Some((before, after)) = neighbours else {
            return;
        };
        // If both ring neighbours are below this node in the tree, any rank may fit between them.
        // So the ring predecessor must hold the rank before this node's, if the holder of that rank
        // is known.
        let next = self.says_to_be_before(epoch, population);
        if next.is_some_and(|(next, _)| self.ring.predecessor != Some(next)) {
            return;
        }
        let early = self.early.values().map(|(_, message)| message);
        let claims = early.filter(|message| message.mark().epoch == epoch);
        let claims: Vec<Rank> = claims.filter_map(|m| claimed(m, population)).collect();
        moved.place |= self.census.recall(&claims, before, after);
    }

    /// A node whose place in the tree does not suit its rank asks for another place: it was
    /// deployed elsewhere, or its parent died and the order was lost. It asks the holder of the
    /// rank before its own for the place next to it. If that rank has no live holder, it asks the
    /// holder of the rank before that.
    pub(super) fn look_for_place(&mut self, out: &mut Out<I>) {
        let before = match self.census.in_force() {
            Some((epoch, population)) => self.says_to_be_before(epoch, population),
            None if self.is_misplaced() => self.known_to_be_before(),
            None => {
                self.placeless_beats = 0;
                return;
            }
        };
        self.placeless_beats = self.placeless_beats.saturating_add(1);
        let is_due = self.placeless_beats.is_multiple_of(PLACELESS);
        if let Some((before, distance)) = before.filter(|_| is_due) {
            self.with_tree(out, |tree, around, out| {
                tree.move_under(before, distance, around, out);
                false
            });
        }
    }

    /// The holder of the rank before this node's, by that member's own Confirm, and the distance 1.
    /// If no live member says so, the holder of the rank before that, and the distance 2. The ring
    /// predecessor need not send a Confirm if its own mark shows that it is the one.
    fn says_to_be_before(&self, epoch: Epoch<I>, population: Population) -> Option<(I, u32)> {
        let at = |level: u8| {
            self.early
                .values()
                .find_map(|(from, message)| match message {
                    fingers::Message::Confirm {
                        level: said,
                        direction: Direction::Clockwise,
                        mark,
                    } if *said == level && mark.epoch == epoch => Some((*from, *mark, 1 << level)),
                    _ => None,
                })
        };
        let is_up = |(peer, ..): &(I, Mark<I>, u32)| !self.detector.is_down(*peer);
        let told = at(0).filter(is_up).or_else(|| at(1).filter(is_up));
        let (peer, mark, distance) = told?;
        let rank = mark.rank.ahead(distance, population);
        let is_before = |last: &I| {
            let mark = self.marks.get(last).filter(|mark| mark.epoch == epoch);
            mark.is_some_and(|mark| mark.rank.ahead(1, population) == rank)
        };
        let last = self.ring.predecessor.filter(is_before);
        Some(last.map_or((peer, distance), |last| (last, 1)))
    }

    /// The holder of the rank before this node's, by the tables, and its distance; if it is down,
    /// the holder of the rank before that.
    fn known_to_be_before(&self) -> Option<(I, u32)> {
        let table = self.current.as_ref()?.counterclockwise();
        let at = |level: usize| table.get(level).copied().flatten();
        let is_up = |peer: &I| !self.detector.is_down(*peer);
        match at(0)? {
            next if is_up(&next) => Some((next, 1)),
            _ => at(1).filter(is_up).map(|second| (second, 2)),
        }
    }

    /// Whether this node stands in a wrong place of the ring: its rank is not between the ranks of
    /// its ring neighbours, or the tables name another predecessor, which can be reached. `false`
    /// while the rank of a neighbour is unknown.
    fn is_misplaced(&self) -> bool {
        let Some(mine) = self.placement() else {
            return false;
        };
        let rank_of = |peer: Option<I>| {
            let mark = self.marks.get(&peer?)?;
            (mark.epoch == mine.epoch).then_some(mark.rank)
        };
        let (before, after) = (self.ring.predecessor, self.ring.successor);
        let neighbours = rank_of(before).zip(rank_of(after));
        neighbours.is_some_and(|(before_me, after_me)| {
            let next = self.known_to_be_before();
            let is_reached =
                |next: &I| !self.relayed.contains_key(next) && !self.unlinked.contains(next);
            let next = next.map(|(next, _)| next).filter(is_reached);
            let is_apart = next.is_some() && before != next;
            is_apart || !mine.rank.is_between(before_me, after_me, mine.population)
        })
    }

    /// Send this node's mark to a peer for every place that the tables give it. A restarted peer
    /// learns its former place from that.
    pub(super) fn greet(&mut self, peer: I, out: &mut Out<I>) {
        if let Some(fingers) = &mut self.current {
            fingers.greet(peer, out);
        }
    }
}

/// The rank that a Confirm gives its receiver; none for other messages.
fn claimed<I: Id>(message: &fingers::Message<I, Mark<I>>, population: Population) -> Option<Rank> {
    let fingers::Message::Confirm {
        level,
        direction,
        mark,
    } = message
    else {
        return None;
    };
    if !population.has_level(usize::from(*level)) {
        return None;
    }
    let distance = distance(usize::from(*level), population);
    Some(match direction {
        Direction::Clockwise => mark.rank.ahead(distance, population),
        Direction::Counterclockwise => mark.rank.behind(distance, population),
    })
}
