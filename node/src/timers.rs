//! The timer queue of a host: armed timers in the order of their deadlines.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Timers by deadline. A timer is its own key: arming it again replaces it, so
/// the queue never holds more timers than there are different ones.
#[derive(Debug)]
pub(crate) struct TimerQueue<T> {
    by_deadline: BTreeMap<(Instant, u64), T>,
    by_timer: BTreeMap<T, (Instant, u64)>,
    sequence: u64,
}

impl<T: Copy + Ord> TimerQueue<T> {
    pub(crate) const fn new() -> Self {
        Self {
            by_deadline: BTreeMap::new(),
            by_timer: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Fire `timer` at `deadline` instead of any earlier arrangement.
    pub(crate) fn arm(&mut self, timer: T, deadline: Instant) {
        self.disarm(timer);
        self.sequence += 1;
        let key = (deadline, self.sequence);
        self.by_deadline.insert(key, timer);
        self.by_timer.insert(timer, key);
    }

    pub(crate) fn disarm(&mut self, timer: T) {
        if let Some(key) = self.by_timer.remove(&timer) {
            self.by_deadline.remove(&key);
        }
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        let (deadline, _) = self.by_deadline.keys().next()?;
        Some(*deadline)
    }

    /// Take one timer that is due, and how late it is.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(T, Duration)> {
        let entry = self.by_deadline.first_entry()?;
        let deadline = entry.key().0;
        if deadline > now {
            return None;
        }
        let timer = entry.remove();
        self.by_timer.remove(&timer);
        Some((timer, now - deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn timers_fire_in_order_once_and_with_their_lateness() {
        #[expect(clippy::disallowed_methods, reason = "a test of the queue itself")]
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut queue = TimerQueue::new();
        queue.arm('b', after(20));
        queue.arm('a', after(10));
        queue.arm('c', after(5));
        queue.arm('b', after(15));
        queue.disarm('c');
        assert_eq!(queue.next(), Some(after(10)));
        assert_eq!(queue.pop(after(9)), None);
        assert_eq!(queue.pop(after(12)), Some(('a', Duration::from_millis(2))));
        assert_eq!(queue.pop(after(15)), Some(('b', Duration::ZERO)));
        assert_eq!((queue.pop(after(99)), queue.next()), (None, None));
    }
}
