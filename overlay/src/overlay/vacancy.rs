//! When a root names a new epoch, and how a member finds its rank again.
//!
//! Compacting the ranks at every death would move about half of them, and every
//! moved rank dials its links anew. So a dead member's rank stays vacant for a
//! while, like a seat that is kept: the ring goes round it, routers avoid it,
//! and a member that returns in time takes it again.

use super::{Moved, Out, Overlay};
use crate::census::Need;
use crate::config::{LONGEST, beats};
use crate::fingers::{self, Direction};
use crate::stamp::{Mark, distance};
use crate::{Epoch, Id, Population, Rank};

/// A vacancy is compacted when more than one rank in so many is vacant.
const CROWDED: u32 = 8;
/// While no rank is vacant, members that return are waited for so many times as
/// long in all as for one.
const RETURNS: u32 = 4;
/// Beats without a rank after which a node asks for another place.
const PLACELESS: u32 = 2;

/// How long ranks have been vacant, in beats of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Vacancy {
    /// How many are.
    vacant: u32,
    /// How many members are without a rank.
    unplaced: u32,
    /// Since either number last changed.
    unchanged: u32,
    /// Since there were more than now.
    kept: u32,
    /// Since all ranks were held by all members.
    whole: u32,
}

impl Vacancy {
    /// Any state at all, as a transient fault may leave it.
    pub(super) const fn corrupted(noise: u64) -> Self {
        Self {
            vacant: noise as u32 % 64,
            unplaced: (noise >> 8) as u32 % 64,
            unchanged: (noise >> 16) as u32,
            kept: (noise >> 24) as u32,
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
            self.kept = 0;
        }
        (self.vacant, self.unplaced) = (vacant, unplaced);
        for count in [&mut self.unchanged, &mut self.kept, &mut self.whole] {
            *count = count.saturating_add(1);
        }
    }
}

impl<I: Id> Overlay<I> {
    /// A root looks at how many ranks are vacant, once per beat.
    pub(super) fn watch_vacancy(&mut self) {
        let (vacant, unplaced) = self.count_vacancy();
        self.vacancy.beat(vacant, unplaced);
    }

    /// How many ranks are vacant and how many members have none, as a root sees
    /// it now.
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
                over(self.vacancy.kept, pace.grace)
            }
            // Members that return one after the other keep no newcomer waiting.
            Need::Recall
                if self.vacancy.vacant == 0 && over(self.vacancy.whole, pace.regroup * RETURNS) =>
            {
                true
            }
            // After a root's death its heir counts a part of the members first;
            // and who returns needs a moment to hear of its rank.
            Need::Vacant(_) | Need::Recall | Need::Disorder => {
                !is_new && over(self.vacancy.unchanged, pace.regroup)
            }
        }
    }

    /// How many ranks are vacant, as far as a root knows.
    pub fn vacant(&self) -> u32 {
        self.vacancy.vacant
    }

    /// Take back the rank that was this node's in the numbering in force: the
    /// parent, or one that has this node for a finger, says which it was.
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
        // With its children around it, a node fits in anywhere.
        let next = self.says_to_be_before(epoch, population);
        if next.is_some_and(|(next, _)| self.ring.predecessor != Some(next)) {
            return;
        }
        let early = self.early.values().map(|(_, message)| message);
        let claims = early.filter(|message| message.mark().epoch == epoch);
        let claims: Vec<Rank> = claims.filter_map(|m| claimed(m, population)).collect();
        moved.place |= self.census.recall(&claims, before, after);
    }

    /// Where this node hangs may not be where its rank is: it was deployed
    /// elsewhere, or its parent died and the order was lost. Then whoever has
    /// the rank before is asked for the place next to it; if nobody has, whoever
    /// has the one before that.
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

    /// Who says that this node's rank was the one after its own, or the one after
    /// that if nobody had the one between, and how far it is from there. The ring
    /// predecessor need not say so if its own mark does.
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

    /// Who has the rank before this node's, and how far it is from there.
    fn known_to_be_before(&self) -> Option<(I, u32)> {
        let table = self.current.as_ref()?.counterclockwise();
        let at = |level: usize| table.get(level).copied().flatten();
        let is_up = |peer: &I| !self.detector.is_down(*peer);
        match at(0)? {
            next if is_up(&next) => Some((next, 1)),
            _ => at(1).filter(is_up).map(|second| (second, 2)),
        }
    }

    /// Whether the ranks of the ring neighbours do not enclose this node's.
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

    /// Show this node's mark to a peer in every place where the tables name it:
    /// one that has restarted learns from it where it stood.
    pub(super) fn greet(&mut self, peer: I, out: &mut Out<I>) {
        if let Some(fingers) = &mut self.current {
            fingers.greet(peer, out);
        }
    }
}

/// The rank that a Confirm says its receiver has.
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
