//! Copies of scheduled broadcasts, which leave a node a few at a time, to all peers together.
//!
//! These copies share the node's uplink. If all of them were sent at once, an urgent copy would
//! queue behind many that are not needed yet. So only a few copies are sent and unanswered at a
//! time. Of the waiting copies the one with the first turn in the schedule goes next. Copies to a
//! peer that is late with its answers take no room from the others.

use std::collections::{BTreeMap, BTreeSet};

use binomesh_overlay::Id;

use super::Config;
use super::flow::Copied;

/// How many copies wait at most; a further copy is sent at once. A guess: the same as
/// [`super::flow`] has for one peer.
const MAX_WAITING: usize = 4096;

/// When a copy is due among those of one origin: `at` is the sequence of its message plus the
/// round in which this copy goes, counted from the round in which the origin first sends the
/// message. Consecutive messages begin in consecutive rounds.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay::custody) struct Turn<I> {
    pub(in crate::relay::custody) origin: I,
    pub(in crate::relay::custody) at: u64,
}

/// The waiting copies of one origin with their peers, by turn and delegation.
type Queue<I> = BTreeMap<(u64, u64), (I, Copied)>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Uplink<I> {
    /// The delegations whose copies are on their way.
    on_its_way: BTreeSet<u64>,
    /// The waiting copies of each origin.
    waiting: BTreeMap<I, Queue<I>>,
    count: usize,
    /// The origin whose waiting copy was sent last: the origins take turns.
    last: Option<I>,
    /// Peers that were late, until one of their copies is answered or given up.
    late: BTreeSet<I>,
    answers: u64,
}

impl<I: Id> Uplink<I> {
    pub(super) const fn new() -> Self {
        Self {
            on_its_way: BTreeSet::new(),
            waiting: BTreeMap::new(),
            count: 0,
            last: None,
            late: BTreeSet::new(),
            answers: 0,
        }
    }

    /// Count a copy to `peer` as on its way if there is room, or let it wait for its turn. Returns
    /// whether the copy is to be sent now.
    pub(super) fn admit(&mut self, peer: I, copy: Copied, turn: Turn<I>, config: &Config) -> bool {
        let is_next = self.count == 0 && self.may_go(peer, config);
        let goes = is_next || self.is_full();
        if goes {
            self.send(peer, copy);
        } else {
            let waiting = self.waiting.entry(turn.origin).or_default();
            let before = waiting.insert((turn.at, copy.delegation), (peer, copy));
            self.count += usize::from(before.is_none());
        }
        goes
    }

    /// The copy with the next turn, if there is room. It is on its way from now on, until
    /// [`Uplink::on_answer`] removes it.
    pub(super) fn next(&mut self, config: &Config) -> Option<(I, Copied)> {
        let after = |last: I| self.waiting.keys().find(|origin| **origin > last);
        let next = self.last.and_then(after).or(self.waiting.keys().next());
        let origin = *next?;
        let waiting = self.waiting.get(&origin)?;
        let (place, (peer, copy)) = waiting.first_key_value()?;
        let (place, peer, copy) = (*place, *peer, *copy);
        if !self.may_go(peer, config) {
            return None;
        }
        let waiting = self.waiting.get_mut(&origin)?;
        waiting.remove(&place);
        if waiting.is_empty() {
            self.waiting.remove(&origin);
        }
        self.count -= 1;
        self.last = Some(origin);
        self.send(peer, copy);
        Some((peer, copy))
    }

    /// The copy of this delegation has been answered, or its answer is not wanted any more.
    pub(super) fn on_answer(&mut self, peer: I, delegation: u64) {
        self.late.remove(&peer);
        self.answers += u64::from(self.on_its_way.remove(&delegation));
    }

    /// The answer to the copy of this delegation is late.
    pub(super) fn on_late(&mut self, peer: I, delegation: u64, config: &Config) {
        if self.on_its_way.remove(&delegation) && self.late.len() < config.max_peers {
            self.late.insert(peer);
        }
    }

    /// How many copies have been answered or given up while they took room.
    pub(super) const fn answers(&self) -> u64 {
        self.answers
    }

    /// Whether the queue is full, so that a further copy is sent at once.
    pub(super) const fn is_full(&self) -> bool {
        self.count >= MAX_WAITING
    }

    fn send(&mut self, peer: I, copy: Copied) {
        if !self.late.contains(&peer) {
            self.on_its_way.insert(copy.delegation);
        }
    }

    fn may_go(&self, peer: I, config: &Config) -> bool {
        self.on_its_way.len() < config.uplink_copies || self.late.contains(&peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: fn() -> Config = || Config {
        uplink_copies: 2,
        ..Config::default()
    };

    fn turn(origin: u32, at: u64) -> Turn<u32> {
        Turn { origin, at }
    }

    const fn copy(delegation: u64) -> Copied {
        Copied {
            duty: 1,
            delegation,
            bytes: 100,
        }
    }

    fn next(uplink: &mut Uplink<u32>) -> Option<u64> {
        let next = uplink.next(&CONFIG());
        next.map(|(_, copy)| copy.delegation)
    }

    #[test]
    fn few_copies_are_on_their_way_and_the_first_turn_goes_next() {
        let mut uplink = Uplink::new();
        assert!(uplink.admit(1, copy(1), turn(7, 5), &CONFIG()));
        assert!(uplink.admit(2, copy(2), turn(7, 6), &CONFIG()));
        for (delegation, at) in [(3, 9), (4, 7), (5, 8)] {
            assert!(!uplink.admit(3, copy(delegation), turn(7, at), &CONFIG()));
        }
        assert_eq!(next(&mut uplink), None, "no room");
        for (answered, expected) in [(1, 4), (2, 5), (4, 3)] {
            uplink.on_answer(1, answered);
            assert_eq!(next(&mut uplink), Some(expected));
        }
        assert_eq!(uplink.count, 0);
    }

    #[test]
    fn origins_take_turns() {
        let mut uplink = Uplink::new();
        for delegation in 0..2 {
            assert!(uplink.admit(1, copy(delegation), turn(7, 0), &CONFIG()));
        }
        for (delegation, origin, at) in [(2, 7, 1), (3, 7, 2), (4, 8, 900), (5, 8, 901)] {
            uplink.admit(1, copy(delegation), turn(origin, at), &CONFIG());
        }
        let order: Vec<u64> = (0..4)
            .filter_map(|answered| {
                uplink.on_answer(1, [0, 1, 2, 4][answered]);
                next(&mut uplink)
            })
            .collect();
        assert_eq!(order, [2, 4, 3, 5]);
    }

    #[test]
    fn a_late_peer_takes_no_room_until_it_answers() {
        let (config, mut uplink) = (CONFIG(), Uplink::new());
        assert!(uplink.admit(1, copy(1), turn(7, 1), &config));
        assert!(uplink.admit(1, copy(2), turn(7, 2), &config));
        uplink.on_late(1, 1, &config);
        assert!(
            uplink.admit(2, copy(3), turn(7, 3), &config),
            "the room of 1"
        );
        assert!(uplink.admit(1, copy(4), turn(7, 4), &config), "late");
        assert!(!uplink.admit(2, copy(5), turn(7, 5), &config));
        uplink.on_answer(1, 4);
        assert!(
            !uplink.admit(1, copy(6), turn(7, 6), &config),
            "late no more"
        );
        uplink.on_answer(2, 3);
        assert_eq!((next(&mut uplink), next(&mut uplink)), (Some(5), None));
    }

    #[test]
    fn waiting_copies_and_late_peers_are_bounded() {
        let config = Config {
            max_peers: 1,
            ..CONFIG()
        };
        let mut uplink = Uplink::new();
        let most = MAX_WAITING as u64 + 2;
        let waiting = (0..most).filter(|n| !uplink.admit(1, copy(*n), turn(7, *n), &config));
        assert_eq!(waiting.count(), MAX_WAITING);
        assert!(uplink.is_full());
        assert!(uplink.admit(1, copy(most), turn(7, most), &config));
        for (peer, delegation) in [(1, 0), (2, 1)] {
            uplink.on_late(peer, delegation, &config);
        }
        assert_eq!(uplink.late.len(), 1);
    }
}
