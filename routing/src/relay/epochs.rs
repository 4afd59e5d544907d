//! The epochs that a relay keeps: the newest and the one before.

mod view;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use binomesh_overlay::{Epoch, Id, Placement, Rank};

use super::{Config, Effects, Event, Timer, View};
use crate::packet::Message;
use crate::roster::Roster;

pub(super) use view::EpochView;

/// How long the previous epoch's roster is asked for in all: longer than its fingers are kept. It
/// may never be complete, since a rank may have had no holder, and nobody needs its last names.
const PREVIOUS_FOR: Duration = Duration::from_secs(12);
/// How many former epochs are remembered, with this node's place in them. Packets of these epochs
/// are refused at once. A later copy by name is refused, too, if it says that this node stood at
/// another rank in such an epoch. Older epochs count as unknown.
const MAX_GONE: usize = 8;

/// The changes that a new view made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change<I> {
    /// The view has another placement than the former newest one: another epoch, or a new numbering
    /// of the same epoch.
    pub(super) is_new_epoch: bool,
    /// The epoch that is no longer kept, if one gave way.
    pub(super) gone: Option<Epoch<I>>,
}

/// The last two epochs, and this node's places in a few older ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Epochs<I> {
    newest: Option<EpochView<I>>,
    previous: Option<EpochView<I>>,
    gone: VecDeque<Placement<I>>,
    /// `wait` is the wait until rosters are asked for again; `attempt` is how often in a row the
    /// newest roster was asked for without success.
    wait: Duration,
    attempt: u32,
    /// How long and how often the previous epoch's roster was asked for, with or without success.
    previous_for: Duration,
    previous_attempts: u32,
}

impl<I: Id> Epochs<I> {
    pub(super) const fn new() -> Self {
        Self {
            newest: None,
            previous: None,
            gone: VecDeque::new(),
            wait: Duration::ZERO,
            attempt: 0,
            previous_for: Duration::ZERO,
            previous_attempts: 0,
        }
    }

    pub(super) fn newest(&self) -> Option<&EpochView<I>> {
        self.newest.as_ref()
    }

    pub(super) fn find(&self, epoch: Epoch<I>) -> Option<&EpochView<I>> {
        let kept = [&self.newest, &self.previous];
        let mut kept = kept.into_iter().flatten();
        kept.find(|view| view.placement().epoch == epoch)
    }

    pub(super) fn find_mut(&mut self, epoch: Epoch<I>) -> Option<&mut EpochView<I>> {
        let kept = [&mut self.newest, &mut self.previous];
        let mut kept = kept.into_iter().flatten();
        kept.find(|view| view.placement().epoch == epoch)
    }

    /// The view that is dropped when this placement comes.
    pub(super) fn leaving(&self, next: &Placement<I>) -> Option<&EpochView<I>> {
        match &self.newest {
            Some(newest) if newest.placement() == *next => None,
            Some(newest) if newest.placement().epoch == next.epoch => Some(newest),
            _ => self.previous.as_ref(),
        }
    }

    /// Whether this epoch was kept once, and is no longer.
    pub(super) fn is_gone(&self, epoch: Epoch<I>) -> bool {
        self.find(epoch).is_none() && self.gone.iter().any(|place| place.epoch == epoch)
    }

    /// Whether this node stood at a rank of an epoch. `None` if it does not remember.
    pub(super) fn has_stood(&self, epoch: Epoch<I>, rank: Rank) -> Option<bool> {
        let kept = [&self.newest, &self.previous];
        let kept = kept.into_iter().flatten().map(|view| view.placement());
        let places = kept.chain(self.gone.iter().copied());
        let mut mine = places.filter(|place| place.epoch == epoch).peekable();
        mine.peek()?;
        Some(mine.any(|place| place.rank == rank))
    }

    /// Whether a peer may be a member of a kept epoch, as far as rosters tell. In epochs without a
    /// roster, above `roster_max`, no peer counts as a member.
    pub(super) fn may_be_member(&self, peer: I) -> bool {
        let kept = [&self.newest, &self.previous];
        kept.into_iter()
            .flatten()
            .map(|view| &view.roster)
            .any(|roster| {
                roster.is_tracked() && (!roster.is_complete() || roster.rank_of(peer).is_some())
            })
    }

    /// Take a new view in. The same placement only renews the tables. The same epoch with another
    /// rank or population is a new numbering and starts afresh.
    pub(super) fn adopt(&mut self, me: I, view: View<I>, config: &Config) -> Change<I> {
        if let Some(newest) = &mut self.newest
            && newest.placement() == view.placement
        {
            newest.view = view;
            newest.roster.trust_again();
            newest.learn_from_fingers();
            return Change {
                is_new_epoch: false,
                gone: None,
            };
        }
        (self.previous_for, self.previous_attempts) = (Duration::ZERO, 0);
        let placement = view.placement;
        self.gone.retain(|place| *place != placement);
        let roster = Roster::new(me, placement, config.roster_max);
        let mut next = EpochView { view, roster };
        next.learn_from_fingers();
        let newest = self.newest.replace(next);
        let dropped = match newest {
            Some(old) if self.is_newest(old.placement().epoch) => Some(old),
            Some(old) => self.previous.replace(old),
            None => None,
        };
        // An epoch that comes back with the same numbering is not gone: its duties go on.
        let gone = dropped.map(|old| old.placement());
        let gone = gone.filter(|place| *place != placement);
        if let Some(place) = gone {
            self.gone.push_back(place);
            if self.gone.len() > MAX_GONE {
                self.gone.pop_front();
            }
        }
        Change {
            is_new_epoch: true,
            gone: gone.map(|place| place.epoch),
        }
    }

    /// Ask for the missing names of the newest roster, and for a limited time of the previous one,
    /// beginning with the shortest wait.
    pub(super) fn ask_roster(&mut self, out: &mut Effects<I>) {
        self.wait = Config::ROSTER_FIRST;
        self.attempt = 0;
        self.ask_rosters(out);
    }

    pub(super) fn on_roster_timer(&mut self, out: &mut Effects<I>) {
        self.previous_for = self.previous_for.saturating_add(self.wait);
        let newest = self.newest.as_ref();
        let fingers = newest.map_or(0, |view| view.fingers().count());
        // Several fingers may be dead. So until each was asked, the next one is asked soon.
        let cap = match (self.attempt as usize) < fingers {
            true => Config::ROSTER_CAP / 4,
            false => Config::ROSTER_CAP,
        };
        self.wait = self.wait.saturating_mul(2).min(cap);
        self.previous_attempts = self.previous_attempts.wrapping_add(1);
        self.ask_rosters(out);
    }

    fn ask_rosters(&mut self, out: &mut Effects<I>) {
        // The previous epoch's roster names the members that its messages have yet to reach. But a
        // quiet cluster does not ask for it for ever.
        let is_asked_for = self.previous_for < PREVIOUS_FOR;
        let previous = self.previous.as_ref().filter(|_| is_asked_for);
        let newest = self.newest.as_ref().map(|view| (view, self.attempt));
        let previous = previous.map(|view| (view, self.previous_attempts));
        let mut is_missing = false;
        for (view, attempt) in newest.into_iter().chain(previous) {
            is_missing |= view.roster.is_tracked() && !view.roster.is_complete();
            view.ask_roster(attempt, out);
        }
        self.attempt = self.attempt.wrapping_add(1);
        if is_missing {
            out.arm(Timer::Roster, self.wait);
        } else {
            out.disarm(Timer::Roster);
        }
    }

    pub(super) fn on_roster_ask(
        &mut self,
        from: I,
        epoch: Epoch<I>,
        start: Rank,
        count: u32,
        out: &mut Effects<I>,
    ) {
        let Some(view) = self.find_mut(epoch) else {
            return;
        };
        if let Some(peers) = view.roster.on_ask(from, start, count) {
            out.send(
                from,
                Message::RosterTell {
                    epoch,
                    start,
                    peers,
                },
            );
        }
    }

    /// Take in an answer of a finger. Returns whether it completed the roster of its epoch, or an
    /// error if it was rejected.
    pub(super) fn on_roster_tell(
        &mut self,
        from: I,
        epoch: Epoch<I>,
        start: Rank,
        peers: &[I],
        out: &mut Effects<I>,
    ) -> Result<bool, Rejected> {
        let is_newest = self.is_newest(epoch);
        let is_asked_for = is_newest || self.previous_for < PREVIOUS_FOR;
        let Some(view) = self.find_mut(epoch) else {
            return Ok(false);
        };
        let is_finger = view.fingers().any(|(_, peer)| peer == from);
        let is_wanted = start == view.roster.next_rank() && !view.roster.is_complete();
        if !is_finger || !is_wanted || peers.is_empty() {
            return Ok(false);
        }
        let fingers: Vec<(Rank, I)> = view.fingers().collect();
        let known = |rank| {
            let at = fingers.iter().find(|(at, _)| *at == rank);
            at.map(|(_, peer)| *peer)
        };
        if !view.roster.on_tell(start, peers, known) {
            let distinct: BTreeSet<I> = fingers.iter().map(|(_, peer)| *peer).collect();
            let (told, count) = ((start, peers), distinct.len());
            if !view.roster.on_contradiction(from, count, told, known) {
                return Err(Rejected);
            }
        }
        for (asker, start, peers) in view.roster.take_answers() {
            let tell = Message::RosterTell {
                epoch,
                start,
                peers,
            };
            out.send(asker, tell);
        }
        let is_complete = view.roster.is_complete();
        if is_complete {
            out.event(Event::RosterComplete(epoch));
        }
        if is_asked_for {
            view.ask_roster(0, out);
        }
        if is_newest {
            self.wait = Config::ROSTER_FIRST;
            self.attempt = 1;
            out.arm(Timer::Roster, self.wait);
        }
        Ok(is_complete)
    }

    pub(super) fn is_newest(&self, epoch: Epoch<I>) -> bool {
        let newest = self.newest.as_ref();
        newest.is_some_and(|view| view.placement().epoch == epoch)
    }
}

/// A roster answer that contradicts what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rejected;
