//! Members that are leaving, or have left.
//!
//! A member that drains takes no new message in this life, and its next life may take it:
//! *draining* is not final. So a message waits for the goodbye, the next life, or the end of the
//! patience that verdicts have too, whichever comes first. No message waits for a member that has
//! said goodbye.

use std::collections::BTreeMap;

use binomesh_overlay::Id;

use super::verdicts::Age;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Departure {
    /// The member said that it drains, this long ago.
    Draining {
        /// The number of its timer.
        number: u64,
        age: Age,
    },
    /// The member said goodbye before the own message with this sequence was accepted.
    Gone { before: u64 },
}

/// The members that are leaving or have left; at most `config.max_peers`. Each message finds out
/// about further ones by itself, from their refusals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Departures<I> {
    peers: BTreeMap<I, Departure>,
    next: u64,
}

impl<I: Id> Departures<I> {
    pub(super) const fn new() -> Self {
        Self {
            peers: BTreeMap::new(),
            next: 0,
        }
    }

    /// A peer says that it drains. If that is news, returns the number of its patience timer.
    pub(super) fn drain(&mut self, peer: I, max: usize) -> Option<u64> {
        if self.peers.contains_key(&peer) || self.peers.len() >= max {
            return None;
        }
        self.next += 1;
        let (number, age) = (self.next, Age::New);
        self.peers.insert(peer, Departure::Draining { number, age });
        Some(number)
    }

    /// A peer has said goodbye; `next` is the sequence of the next own message. Returns the number
    /// of the timer that the peer had, if any.
    pub(super) fn leave(&mut self, peer: I, next: u64, max: usize) -> Option<u64> {
        if self.is_gone(peer) || !self.peers.contains_key(&peer) && self.peers.len() >= max {
            return None;
        }
        let former = self.peers.insert(peer, Departure::Gone { before: next });
        former.and_then(Departure::number)
    }

    /// A peer is up after all, or in its next life. The outer value says whether the peer was
    /// draining or had left. The inner one is the number of its timer, which a peer that had left
    /// has none of.
    pub(super) fn withdraw(&mut self, peer: I) -> Option<Option<u64>> {
        self.peers.remove(&peer).map(Departure::number)
    }

    /// The timer of a peer has fired. Returns how long the peer has been draining, if it still is.
    pub(super) fn ripen(&mut self, number: u64) -> Option<Age> {
        let mut all = self.peers.values_mut();
        all.find_map(|departure| match departure {
            Departure::Draining { number: own, age } if *own == number => {
                *age = age.next();
                Some(*age)
            }
            _ => None,
        })
    }

    /// Forget the draining peers, except those that `stays` names. Returns the numbers of their
    /// timers. Goodbyes stay.
    pub(super) fn retain(&mut self, stays: impl Fn(I) -> bool) -> Vec<u64> {
        let mut numbers = Vec::new();
        self.peers.retain(|peer, departure| {
            let stays = departure.is_gone() || stays(*peer);
            if !stays {
                numbers.extend(departure.number());
            }
            stays
        });
        numbers
    }

    /// Whether a peer has said goodbye.
    pub(super) fn is_gone(&self, peer: I) -> bool {
        self.peers.get(&peer).is_some_and(Departure::is_gone)
    }

    /// Whether a peer had said goodbye when this own message was accepted, and is not back.
    pub(super) fn was_gone(&self, peer: I, sequence: u64) -> bool {
        let departure = self.peers.get(&peer);
        departure.is_some_and(
            |departure| matches!(departure, Departure::Gone { before } if *before <= sequence),
        )
    }

    /// The peers that have said goodbye.
    pub(super) fn gone(&self) -> impl Iterator<Item = I> + '_ {
        let gone = |(_, departure): &(&I, &Departure)| departure.is_gone();
        self.peers.iter().filter(gone).map(|(peer, _)| *peer)
    }

    /// Whether a peer has been draining for this long, or is gone.
    pub(super) fn has_stood(&self, peer: I, least: Age) -> bool {
        match self.peers.get(&peer) {
            Some(Departure::Draining { age, .. }) => *age >= least,
            Some(Departure::Gone { .. }) => true,
            None => false,
        }
    }
}

impl Departure {
    const fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    const fn number(self) -> Option<u64> {
        match self {
            Self::Draining { number, .. } => Some(number),
            Self::Gone { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_ripens_and_a_goodbye_needs_no_patience() {
        let mut departures = Departures::new();
        let number = departures.drain(7u32, 2).unwrap();
        assert_eq!(departures.drain(7, 2), None, "it is no news");
        assert!(!departures.has_stood(7, Age::Firm) && !departures.is_gone(7));
        assert_eq!(departures.ripen(number), Some(Age::Firm));
        assert_eq!(departures.leave(7, 4, 2), Some(number));
        assert!(departures.is_gone(7) && departures.has_stood(7, Age::Old));
        assert_eq!(departures.ripen(number), None);
        assert_eq!(departures.leave(7, 9, 2), None, "the first goodbye counts");
        assert!(departures.was_gone(7, 4) && !departures.was_gone(7, 3));
        assert_eq!(departures.withdraw(7), Some(None));
        assert!(!departures.has_stood(7, Age::New));
    }

    #[test]
    fn beyond_the_bound_nothing_is_remembered() {
        let mut departures = Departures::new();
        assert!(departures.drain(1u32, 1).is_some());
        assert_eq!(departures.drain(2, 1), None);
        assert_eq!(departures.leave(2, 0, 1), None);
        assert!(!departures.is_gone(2));
        assert_eq!(departures.retain(|_| false).len(), 1);
    }
}
