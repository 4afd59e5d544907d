//! A bounded number of permits, shared fairly among senders.
//!
//! While there is room, a sender takes as many permits as it wants: many nodes may run on one host.
//! When all are taken, a permit may be taken away: of the senders with a permit that is not busy,
//! the one with the most loses its oldest such permit. [`FairPermits::take`] does so only if the
//! loser keeps at least as many as the taker then has; [`FairPermits::take_oldest`] always does,
//! and may take the sender's own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Permits for senders that are told apart by `K`.
#[derive(Debug)]
pub struct FairPermits<K>(Arc<Shared<K>>);

#[derive(Debug)]
struct Shared<K> {
    state: Mutex<State<K>>,
    /// Notified when a permit is free, or no longer busy.
    freed: Notify,
}

#[derive(Debug)]
struct State<K> {
    most: usize,
    /// The number of the next permit.
    next: u64,
    taken: usize,
    /// The permits by sender, the oldest first.
    by_sender: BTreeMap<K, BTreeMap<u64, Taken>>,
}

#[derive(Debug)]
struct Taken {
    /// Cancelled when the permit is taken away.
    lost: CancellationToken,
    /// Whether the permit cannot be taken away now.
    is_busy: bool,
}

/// A permit; dropping it gives it back.
#[derive(Debug)]
pub struct FairPermit<K: Ord + Clone> {
    permits: FairPermits<K>,
    sender: K,
    number: u64,
    lost: CancellationToken,
}

impl<K> Clone for FairPermits<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Ord + Clone> FairPermits<K> {
    /// `most` permits, all free.
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

    /// Take a permit. If all are taken, one that is not busy is taken from the sender with the
    /// most, if that has at least two more than this sender; otherwise `None`.
    pub fn take(&self, sender: K) -> Option<FairPermit<K>> {
        self.take_from(sender, |own| own + 2)
    }

    /// Take a permit. If all are taken, take the oldest permit that is not busy of the sender with
    /// the most, which may be this sender. `None` if all are busy.
    pub fn take_oldest(&self, sender: K) -> Option<FairPermit<K>> {
        self.take_from(sender, |_| 0)
    }

    /// Take a permit as [`Self::take_oldest`] does, and wait while all are busy. Only one task may
    /// wait at a time.
    pub async fn wait(&self, sender: K) -> FairPermit<K> {
        loop {
            let freed = self.0.freed.notified();
            if let Some(permit) = self.take_oldest(sender.clone()) {
                return permit;
            }
            freed.await;
        }
    }

    /// How many permits are taken.
    pub fn taken(&self) -> usize {
        self.lock().taken
    }

    /// Take a permit. If all are taken, one that is not busy is taken from the sender with the
    /// most, if that has at least `least(own)` permits, where `own` is the number of this sender's.
    fn take_from(&self, sender: K, least: impl FnOnce(usize) -> usize) -> Option<FairPermit<K>> {
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
        Some(FairPermit {
            permits: self.clone(),
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
    /// Take away the oldest permit that is not busy of the sender with the most, if it has `least`
    /// or more.
    fn make_room(&mut self, least: usize) -> Option<()> {
        let able = self.by_sender.iter().filter_map(|(sender, permits)| {
            let oldest = permits.iter().find(|(_, taken)| !taken.is_busy);
            oldest.map(|(number, _)| (permits.len(), sender.clone(), *number))
        });
        // Among senders with equally many, the oldest permit.
        let greediest = able.max_by_key(|(count, _, number)| (*count, u64::MAX - number));
        let (count, sender, number) = greediest?;
        if count < least {
            return None;
        }
        self.remove(&sender, number)?.lost.cancel();
        Some(())
    }

    fn remove(&mut self, sender: &K, number: u64) -> Option<Taken> {
        let permits = self.by_sender.get_mut(sender)?;
        let taken = permits.remove(&number)?;
        if permits.is_empty() {
            self.by_sender.remove(sender);
        }
        self.taken -= 1;
        Some(taken)
    }
}

impl<K: Ord + Clone> FairPermit<K> {
    /// The token that is cancelled when the permit is taken away.
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Set whether the permit is busy and cannot be taken away.
    pub fn set_busy(&self, is_busy: bool) {
        let mut state = self.permits.lock();
        let permits = state.by_sender.get_mut(&self.sender);
        if let Some(taken) = permits.and_then(|permits| permits.get_mut(&self.number)) {
            taken.is_busy = is_busy;
        }
        drop(state);
        if !is_busy {
            self.permits.0.freed.notify_one();
        }
    }
}

impl<K: Ord + Clone> Drop for FairPermit<K> {
    fn drop(&mut self) {
        self.permits.lock().remove(&self.sender, self.number);
        self.permits.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_has_all_permits_while_nobody_else_wants_one() {
        let permits = FairPermits::new(4);
        let held: Vec<_> = (0..4).map(|_| permits.take("a").expect("room")).collect();
        assert!(permits.take("a").is_none(), "it is the greediest itself");
        let b = [(); 2].map(|()| permits.take("b").expect("a has two more"));
        assert!(held[0].lost().is_cancelled() && held[1].lost().is_cancelled());
        assert!(!held[2].lost().is_cancelled());
        assert!(permits.take("b").is_none(), "both have two");
        let _c = permits.take("c").expect("c has none");
        // A lost permit is not given back again.
        drop(held);
        assert_eq!(permits.taken(), 3);
        drop(b);
        assert_eq!(permits.taken(), 1);
    }

    #[test]
    fn a_busy_permit_goes_to_nobody() {
        let permits = FairPermits::new(2);
        let (first, second) = (permits.take(1).unwrap(), permits.take(1).unwrap());
        first.set_busy(true);
        let third = permits.take_oldest(1).expect("the second is idle");
        assert!(!first.lost().is_cancelled() && second.lost().is_cancelled());
        third.set_busy(true);
        assert!(permits.take_oldest(2).is_none());
        first.set_busy(false);
        assert!(permits.take_oldest(2).is_some());
        assert!(first.lost().is_cancelled());
    }

    #[test]
    fn an_idle_permit_goes_even_to_a_sender_with_many_busy_ones() {
        let permits = FairPermits::new(3);
        let busy = [(); 2].map(|()| permits.take("a").unwrap());
        busy.iter().for_each(|permit| permit.set_busy(true));
        let idle = permits.take("b").unwrap();
        assert!(permits.take_oldest("a").is_some());
        assert!(idle.lost().is_cancelled());
    }

    #[tokio::test]
    async fn a_wait_for_a_permit_ends_when_a_busy_permit_becomes_idle() {
        use futures_util::FutureExt;
        let permits = FairPermits::new(1);
        let first = permits.wait(1).await;
        first.set_busy(true);
        let mut second = std::pin::pin!(permits.wait(2));
        assert!(second.as_mut().now_or_never().is_none());
        first.set_busy(false);
        let _second = second.await;
        assert!(first.lost().is_cancelled());
    }
}
