//! Room counted in bytes, and a peer's share of what all have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for so many bytes. What is longer than all of it takes all: one always fits.
#[derive(Debug, Clone)]
pub(super) struct Room {
    free: Arc<Semaphore>,
    most: u32,
    /// How many wait.
    waiting: Arc<AtomicUsize>,
}

/// One that waits.
struct Waiter<'a>(&'a AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Room {
    /// At most 4 GiB.
    pub(super) fn new(bytes: usize) -> Self {
        let most = u32::try_from(bytes).unwrap_or(u32::MAX);
        let free = Arc::new(Semaphore::new(most as usize));
        let waiting = Arc::default();
        Self {
            free,
            most,
            waiting,
        }
    }

    /// All of it.
    pub(super) const fn most(&self) -> u32 {
        self.most
    }

    /// Take so much, if it is there now.
    pub(super) fn try_take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let free = self.free.clone();
        free.try_acquire_many_owned(self.share(bytes)).ok()
    }

    /// Wait for so much, and take it. Whoever waits longest is next.
    pub(super) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if let Some(taken) = self.try_take(bytes) {
            return Some(taken);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiter = Waiter(&self.waiting);
        let free = self.free.clone();
        free.acquire_many_owned(self.share(bytes)).await.ok()
    }

    fn share(&self, bytes: usize) -> u32 {
        u32::try_from(bytes).map_or(self.most, |bytes| bytes.min(self.most))
    }
}

/// A peer's share of the room that all have, of which a frame takes no more than that either.
/// Whoever waits for that of all is next to have it, and others wait behind; as a share
/// is all that a peer can take, it takes as many peers as there are shares to keep others
/// waiting.
#[derive(Debug)]
pub(super) struct Share {
    own: Room,
    all: Room,
}

/// Of the peer's own, and of all's.
pub(super) type SharePermit = [OwnedSemaphorePermit; 2];

impl Share {
    pub(super) fn new(own: usize, all: &Room) -> Self {
        let own = Room::new(own);
        let all = all.clone();
        Self { own, all }
    }

    pub(super) fn try_take(&self, bytes: usize) -> Option<SharePermit> {
        let own = self.own.try_take(bytes)?;
        Some([own, self.all.try_take(self.of_all(bytes))?])
    }

    pub(super) async fn take(&self, bytes: usize) -> Option<SharePermit> {
        let own = self.own.take(bytes).await?;
        Some([own, self.all.take(self.of_all(bytes)).await?])
    }

    /// Whether others wait for what all have.
    pub(super) fn is_wanted(&self) -> bool {
        self.all.waiting.load(Ordering::Relaxed) > 0
    }

    fn of_all(&self, bytes: usize) -> usize {
        bytes.min(self.own.most() as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn a_peer_has_no_more_than_its_share_and_all_no_more_than_is_there() {
        let all = Room::new(9);
        let peers = [(); 3].map(|()| Share::new(4, &all));
        let first = peers[0].try_take(3).expect("room");
        assert!(peers[0].try_take(2).is_none(), "one is left of its share");
        // Longer than the share: all of it, and no more of all's.
        let second = peers[1].try_take(5).expect("its share is free");
        assert!(peers[2].try_take(3).is_none(), "two are left of all");
        assert!(peers[2].try_take(2).is_some());
        // Who waits for its own share takes nothing of all, and keeps nobody waiting.
        let mut waiting = pin!(peers[0].take(2));
        assert!(poll!(waiting.as_mut()).is_pending());
        assert!(!peers[1].is_wanted());
        {
            let mut other = pin!(peers[2].take(3));
            assert!(poll!(other.as_mut()).is_pending());
            assert!(peers[1].is_wanted());
        }
        assert!(!peers[1].is_wanted());
        assert!(peers[2].try_take(2).is_some());
        drop(second);
        assert!(poll!(waiting.as_mut()).is_pending());
        drop(first);
        assert!(poll!(waiting.as_mut()).is_ready());
    }
}
