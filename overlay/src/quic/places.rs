//! A bounded number of places. No sender may crowd out the others.
//!
//! While there is room, a sender takes as many places as it wants: 256 nodes of one host are
//! honest. When all places are taken, a sender with fewer places than another takes the oldest
//! place of the sender with the most.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Places for senders that are told apart by `K`.
#[derive(Debug)]
pub struct Places<K>(Arc<Shared<K>>);

#[derive(Debug)]
struct Shared<K> {
    state: Mutex<State<K>>,
    /// Notified when a place is free, or no longer busy.
    freed: Notify,
}

#[derive(Debug)]
struct State<K> {
    most: usize,
    /// The number of the next place.
    next: u64,
    taken: usize,
    /// The places by sender, the oldest first.
    by_sender: BTreeMap<K, BTreeMap<u64, Taken>>,
}

#[derive(Debug)]
struct Taken {
    /// Cancelled when the place goes to another sender.
    lost: CancellationToken,
    /// Whether the place cannot be taken away now.
    is_busy: bool,
}

/// A place; dropping it gives it back.
#[derive(Debug)]
pub struct Place<K: Ord + Clone> {
    places: Places<K>,
    sender: K,
    number: u64,
    lost: CancellationToken,
}

impl<K> Clone for Places<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Ord + Clone> Places<K> {
    /// `most` places, all free.
    pub fn new(most: usize) -> Self {
        let state = Mutex::new(State {
            most,
            next: 0,
            taken: 0,
            by_sender: BTreeMap::new(),
        });
        let freed = Notify::new();
        Self(Arc::new(Shared { state, freed }))
    }

    /// Take a place. If all are taken, take it from a sender that has at least two more than this
    /// one; `None` if there is no such sender.
    pub fn take(&self, sender: K) -> Option<Place<K>> {
        self.take_from(sender, |own| own + 2)
    }

    /// Take a place. If all are taken, take the oldest place that is not busy of the sender with
    /// the most, which may be this sender. `None` if all are busy.
    pub fn take_oldest(&self, sender: K) -> Option<Place<K>> {
        self.take_from(sender, |_| 0)
    }

    /// Take a place as [`Self::take_oldest`] does, and wait while all are busy. One task waits at a
    /// time.
    pub async fn wait(&self, sender: K) -> Place<K> {
        loop {
            let freed = self.0.freed.notified();
            if let Some(place) = self.take_oldest(sender.clone()) {
                return place;
            }
            freed.await;
        }
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.lock().taken
    }

    /// Take a place. If all are taken, take it from a sender with at least `least(own)` places,
    /// where `own` is the number of this sender's.
    fn take_from(&self, sender: K, least: impl FnOnce(usize) -> usize) -> Option<Place<K>> {
        let mut state = self.lock();
        if state.taken >= state.most {
            let own = state.by_sender.get(&sender).map_or(0, BTreeMap::len);
            state.make_room(least(own))?;
        }
        let (number, lost) = (state.next, CancellationToken::new());
        state.next += 1;
        state.taken += 1;
        let taken = Taken {
            lost: lost.clone(),
            is_busy: false,
        };
        let of_sender = state.by_sender.entry(sender.clone()).or_default();
        of_sender.insert(number, taken);
        Some(Place {
            places: self.clone(),
            sender,
            number,
            lost,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> State<K> {
    /// Take away the oldest place that is not busy of the sender with the most, if it has `least`
    /// or more.
    fn make_room(&mut self, least: usize) -> Option<()> {
        let able = self.by_sender.iter().filter_map(|(sender, places)| {
            let oldest = places.iter().find(|(_, taken)| !taken.is_busy);
            oldest.map(|(number, _)| (places.len(), sender.clone(), *number))
        });
        // Among senders with equally many, the oldest place.
        let greediest = able.max_by_key(|(count, _, number)| (*count, u64::MAX - number));
        let (count, sender, number) = greediest?;
        if count < least {
            return None;
        }
        self.remove(&sender, number)?.lost.cancel();
        Some(())
    }

    fn remove(&mut self, sender: &K, number: u64) -> Option<Taken> {
        let places = self.by_sender.get_mut(sender)?;
        let taken = places.remove(&number)?;
        if places.is_empty() {
            self.by_sender.remove(sender);
        }
        self.taken -= 1;
        Some(taken)
    }
}

impl<K: Ord + Clone> Place<K> {
    /// The token that is cancelled when the place goes to another sender.
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Set whether the place is busy and cannot be taken away.
    pub fn set_busy(&self, is_busy: bool) {
        let mut state = self.places.lock();
        let places = state.by_sender.get_mut(&self.sender);
        if let Some(taken) = places.and_then(|places| places.get_mut(&self.number)) {
            taken.is_busy = is_busy;
        }
        drop(state);
        if !is_busy {
            self.places.0.freed.notify_one();
        }
    }
}

impl<K: Ord + Clone> Drop for Place<K> {
    fn drop(&mut self) {
        self.places.lock().remove(&self.sender, self.number);
        self.places.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_has_all_places_while_nobody_else_wants_one() {
        let places = Places::new(4);
        let held: Vec<_> = (0..4).map(|_| places.take("a").expect("room")).collect();
        assert!(places.take("a").is_none(), "it is the greediest itself");
        let b = [(); 2].map(|()| places.take("b").expect("a has two more"));
        assert!(held[0].lost().is_cancelled() && held[1].lost().is_cancelled());
        assert!(!held[2].lost().is_cancelled());
        assert!(places.take("b").is_none(), "both have two");
        let _c = places.take("c").expect("c has none");
        // A lost place is not given back again.
        drop(held);
        assert_eq!(places.taken(), 3);
        drop(b);
        assert_eq!(places.taken(), 1);
    }

    #[test]
    fn a_busy_place_goes_to_nobody() {
        let places = Places::new(2);
        let (first, second) = (places.take(1).unwrap(), places.take(1).unwrap());
        first.set_busy(true);
        let third = places.take_oldest(1).expect("the second is idle");
        assert!(!first.lost().is_cancelled() && second.lost().is_cancelled());
        third.set_busy(true);
        assert!(places.take_oldest(2).is_none());
        first.set_busy(false);
        assert!(places.take_oldest(2).is_some());
        assert!(first.lost().is_cancelled());
    }

    #[test]
    fn an_idle_place_goes_even_to_a_sender_with_many_busy_ones() {
        let places = Places::new(3);
        let busy = [(); 2].map(|()| places.take("a").unwrap());
        busy.iter().for_each(|place| place.set_busy(true));
        let idle = places.take("b").unwrap();
        assert!(places.take_oldest("a").is_some());
        assert!(idle.lost().is_cancelled());
    }

    #[tokio::test]
    async fn a_wait_for_a_place_ends_when_a_busy_place_becomes_idle() {
        use futures_util::FutureExt;
        let places = Places::new(1);
        let first = places.wait(1).await;
        first.set_busy(true);
        let mut second = std::pin::pin!(places.wait(2));
        assert!(second.as_mut().now_or_never().is_none());
        first.set_busy(false);
        let _second = second.await;
        assert!(first.lost().is_cancelled());
    }
}
