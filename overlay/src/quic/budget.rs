//! A budget of bytes, and a peer's share of the budget for all peers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for a number of bytes. A frame that is longer than the whole room takes all of the room, so
/// no frame is too long for it.
#[derive(Debug, Clone)]
pub(super) struct ByteBudget {
    free: Arc<Semaphore>,
    most: u32,
    /// How many tasks wait for room.
    waiting: Arc<AtomicUsize>,
}

/// A task that waits, counted until this is dropped.
struct Waiter<'a>(&'a AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ByteBudget {
    /// Room for `bytes` bytes, at most 4 GiB.
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

    /// The whole room, in bytes.
    pub(super) const fn most(&self) -> u32 {
        self.most
    }

    /// Take room for `bytes` bytes, if it is free now.
    pub(super) fn try_take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let free = self.free.clone();
        free.try_acquire_many_owned(self.share(bytes)).ok()
    }

    /// Wait for room for `bytes` bytes, and take it. The longest waiting task is next.
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

/// A peer's share of the common room, which is the room for all peers. A frame takes its bytes from
/// the share and from the common room, from neither more than a whole share. The task that has
/// waited longest for the common room is next, and the others wait behind it. A peer takes at most
/// one share of the common room. So one peer alone cannot keep others waiting if two shares fit
/// into that room.
#[derive(Debug)]
pub(super) struct Share {
    own: ByteBudget,
    all: ByteBudget,
}

/// The permits of a frame: for its peer's own share, and for the common room.
pub(super) type SharePermit = [OwnedSemaphorePermit; 2];

impl Share {
    pub(super) fn new(own: usize, all: &ByteBudget) -> Self {
        let own = ByteBudget::new(own);
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

    /// Whether a task waits for the common room.
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
        let all = ByteBudget::new(9);
        let peers = [(); 3].map(|()| Share::new(4, &all));
        let first = peers[0].try_take(3).expect("room");
        assert!(peers[0].try_take(2).is_none(), "one is left of its share");
        // The frame is longer than the share: it takes the whole share, and no more of the common
        // room.
        let second = peers[1].try_take(5).expect("its share is free");
        assert!(peers[2].try_take(3).is_none(), "two are left of all");
        assert!(peers[2].try_take(2).is_some());
        // A task that waits for its own share takes none of the common room, and keeps no other
        // waiting.
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
