//! Who has got how much: counted by all receivers, awaited by the measurement.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Messages that have arrived, of all receivers together.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    count: AtomicU64,
    /// At this many somebody waits.
    wanted: AtomicU64,
    reached: Notify,
}

impl Arrivals {
    /// So many more have arrived.
    pub(super) fn add(&self, messages: u64) {
        let count = self.count.fetch_add(messages, Ordering::SeqCst) + messages;
        if count >= self.wanted.load(Ordering::SeqCst) {
            self.reached.notify_one();
        }
    }

    /// How many have arrived so far.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Wait until there are so many; one may wait at a time.
    pub(super) async fn wait_for(&self, count: u64) {
        self.wanted.store(count, Ordering::SeqCst);
        while self.count() < count {
            self.reached.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn whoever_waits_is_woken_by_the_last_arrival() {
        let arrivals = Arc::new(Arrivals::default());
        let waiting = tokio::spawn({
            let arrivals = arrivals.clone();
            async move { arrivals.wait_for(3).await }
        });
        arrivals.add(2);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        arrivals.add(1);
        waiting.await.unwrap();
        arrivals.wait_for(2).await;
    }
}
