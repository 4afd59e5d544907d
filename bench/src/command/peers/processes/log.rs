//! The messages that have come to one node, and their times.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::record::uptime_ns;

/// A count of the messages since the last request to count.
#[derive(Debug, Default)]
pub(super) struct Log {
    count: AtomicU64,
    last_ns: AtomicU64,
    /// The count that `wait` has asked for; 0 before that.
    wanted: AtomicU64,
    reached: Notify,
    keeps: AtomicBool,
    /// The time of each message, if times are kept. They are kept only for messages with pauses
    /// between them, which are few.
    times_ns: Mutex<Vec<u64>>,
}

impl Log {
    /// Count further messages that have come.
    pub(super) fn add(&self, messages: u64) {
        let now = uptime_ns();
        if self.keeps.load(Ordering::SeqCst) {
            let mut times = self.times_ns.lock().unwrap_or_else(PoisonError::into_inner);
            times.extend((0..messages).map(|_| now));
        }
        self.last_ns.store(now, Ordering::SeqCst);
        let count = self.count.fetch_add(messages, Ordering::SeqCst) + messages;
        let wanted = self.wanted.load(Ordering::SeqCst);
        if wanted > 0 && count >= wanted {
            self.reached.notify_one();
        }
    }

    /// Count from zero again. No message may be under way.
    pub(super) fn clear(&self, keeps: bool) {
        self.keeps.store(keeps, Ordering::SeqCst);
        self.count.store(0, Ordering::SeqCst);
        self.wanted.store(0, Ordering::SeqCst);
        let mut times = self.times_ns.lock().unwrap_or_else(PoisonError::into_inner);
        times.clear();
    }

    /// Wait for this many messages, which are all that are sent. Returns the time of each, or only
    /// of the last if times are not kept.
    pub(super) async fn wait(&self, messages: u64) -> Vec<u64> {
        self.wanted.store(messages, Ordering::SeqCst);
        while self.count.load(Ordering::SeqCst) < messages {
            self.reached.notified().await;
        }
        match self.keeps.load(Ordering::SeqCst) {
            true => {
                let times = self.times_ns.lock();
                times.unwrap_or_else(PoisonError::into_inner).clone()
            }
            false => vec![self.last_ns.load(Ordering::SeqCst)],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_waiting_task_gets_the_time_of_each_arrival_or_of_the_last() {
        let log = Arc::new(Log::default());
        for keeps in [true, false] {
            log.clear(keeps);
            log.add(2);
            let waiting = tokio::spawn({
                let log = log.clone();
                async move { log.wait(3).await }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            log.add(1);
            let times = waiting.await.unwrap();
            assert_eq!(times.len(), if keeps { 3 } else { 1 });
            assert!(times.is_sorted());
            assert_eq!(log.wait(3).await, times);
        }
    }
}
