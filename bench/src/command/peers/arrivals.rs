//! Arrivals: messages that all receivers count together, and that the measurement awaits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::record::Stopwatch;

/// Messages that have arrived, of all receivers together.
#[derive(Debug)]
pub(super) struct Arrivals {
    clock: Stopwatch,
    count: AtomicU64,
    /// The count that the measurement waits for.
    wanted: AtomicU64,
    /// When the wanted count was reached, in nanoseconds of `clock`; 0 before.
    reached_ns: AtomicU64,
    reached: Notify,
}

impl Arrivals {
    /// A counter without arrivals.
    pub(super) fn new() -> Self {
        Self {
            clock: Stopwatch::start(),
            count: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            reached_ns: AtomicU64::new(0),
            reached: Notify::new(),
        }
    }

    /// Count further messages that have arrived.
    pub(super) fn add(&self, messages: u64) {
        let before = self.count.fetch_add(messages, Ordering::SeqCst);
        let wanted = self.wanted.load(Ordering::SeqCst);
        if before < wanted && before + messages >= wanted {
            let now = self.clock.elapsed().as_nanos();
            let now = u64::try_from(now).unwrap_or(u64::MAX).max(1);
            self.reached_ns.store(now, Ordering::SeqCst);
            self.reached.notify_one();
        }
    }

    /// Set the number of further messages to wait for. Call this before they are sent, while no
    /// other message is under way. Only one task may wait at a time.
    pub(super) fn expect(&self, messages: u64) {
        let wanted = self.count.load(Ordering::SeqCst) + messages;
        self.reached_ns.store(0, Ordering::SeqCst);
        self.wanted.store(wanted, Ordering::SeqCst);
    }

    /// Wait until the expected messages have arrived. Returns the time of the last arrival. The
    /// waiting task itself may be woken later, since all cores may be busy with further work.
    pub(super) async fn wait(&self) -> Duration {
        loop {
            let reached = self.reached_ns.load(Ordering::SeqCst);
            if reached > 0 {
                return Duration::from_nanos(reached);
            }
            self.reached.notified().await;
        }
    }

    /// The time now, as [`Arrivals::wait`] tells it.
    pub(super) fn now(&self) -> Duration {
        self.clock.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn the_last_arrival_wakes_the_waiting_task_and_its_time_is_returned() {
        let arrivals = Arc::new(Arrivals::new());
        for _ in 0..2 {
            arrivals.expect(3);
            let waiting = tokio::spawn({
                let arrivals = arrivals.clone();
                async move { arrivals.wait().await }
            });
            arrivals.add(2);
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            let before = arrivals.now();
            arrivals.add(1);
            let after = arrivals.now();
            // A message beyond the expected number changes nothing.
            arrivals.add(1);
            let reached = waiting.await.unwrap();
            assert!(before <= reached && reached <= after);
            assert_eq!(arrivals.wait().await, reached);
        }
    }
}
