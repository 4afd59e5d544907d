//! The timer queue of a host: armed timers in the order of their deadlines.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Timers by deadline. A timer is its own key: arming it again replaces it, so the queue never
/// holds more timers than there are different ones.
///
/// A timer may have slack: it fires at its deadline if the host is awake, but the host need not
/// wake for it before the slack is used up. Only after the slack does it count as late: in the
/// first [`MOMENT`] by the time since the slack, and then by the whole time since its deadline.
/// Timers fire in the order of their deadlines, with or without slack.
#[derive(Debug)]
pub(crate) struct TimerQueue<T> {
    by_deadline: BTreeMap<(Instant, u64), Armed<T>>,
    by_timer: BTreeMap<T, (Instant, u64)>,
    sequence: u64,
}

/// A host that wakes at the end of a timer's slack does so a moment later. Within this time the
/// slack itself does not count as lateness. A guess: a healthy host is not later than this.
const MOMENT: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct Armed<T> {
    timer: T,
    slack: Duration,
}

impl<T: Copy + Ord> TimerQueue<T> {
    pub(crate) const fn new() -> Self {
        Self {
            by_deadline: BTreeMap::new(),
            by_timer: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Arm `timer` to fire at `deadline`, or up to `slack` later. This replaces an earlier
    /// deadline.
    pub(crate) fn arm(&mut self, timer: T, deadline: Instant, slack: Duration) {
        self.disarm(timer);
        self.sequence += 1;
        let key = (deadline, self.sequence);
        self.by_deadline.insert(key, Armed { timer, slack });
        self.by_timer.insert(timer, key);
    }

    /// Change the slack of `timer`, if it is armed.
    pub(crate) fn set_slack(&mut self, timer: T, slack: Duration) {
        let key = self.by_timer.get(&timer);
        if let Some(armed) = key.and_then(|key| self.by_deadline.get_mut(key)) {
            armed.slack = slack;
        }
    }

    pub(crate) fn disarm(&mut self, timer: T) {
        if let Some(key) = self.by_timer.remove(&timer) {
            self.by_deadline.remove(&key);
        }
    }

    /// Disarm all timers but the ones for which `stays` holds.
    pub(crate) fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        let armed: Vec<T> = self.by_timer.keys().copied().collect();
        let others = armed.into_iter().filter(|timer| !stays(timer));
        others.for_each(|timer| self.disarm(timer));
    }

    /// When the host has to be awake next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let mut next = None;
        // Few timers have slack, so this ends soon.
        for ((deadline, _), armed) in &self.by_deadline {
            if next.is_some_and(|next| next <= *deadline) {
                break;
            }
            let latest = *deadline + armed.slack;
            next = Some(next.map_or(latest, |next: Instant| next.min(latest)));
        }
        next
    }

    /// Take one timer that is due, and how late it is.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(T, Duration)> {
        let entry = self.by_deadline.first_entry()?;
        let deadline = entry.key().0;
        if deadline > now {
            return None;
        }
        let Armed { timer, slack } = entry.remove();
        self.by_timer.remove(&timer);
        let late = now - deadline;
        let beyond = late.saturating_sub(slack);
        Some((timer, if beyond < MOMENT { beyond } else { late }))
    }

    /// Take the first timer if it is due but within its slack: the host did not wake for it.
    pub(crate) fn pop_waiting(&mut self, now: Instant) -> Option<(T, Duration)> {
        let ((deadline, _), armed) = self.by_deadline.first_key_value()?;
        let is_waiting = *deadline <= now && now <= *deadline + armed.slack;
        match is_waiting && !armed.slack.is_zero() {
            true => self.pop(now),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The clock is paused in this test.
    #[expect(clippy::disallowed_methods, reason = "a test of the queue itself")]
    fn after(length: u64) -> Instant {
        Instant::now() + ms(length)
    }

    #[tokio::test(start_paused = true)]
    async fn timers_fire_in_order_once_and_with_their_lateness() {
        let mut queue = TimerQueue::new();
        queue.arm('b', after(20), ms(0));
        queue.arm('a', after(10), ms(0));
        queue.arm('c', after(5), ms(0));
        queue.arm('b', after(15), ms(0));
        queue.disarm('c');
        assert_eq!(queue.next(), Some(after(10)));
        assert_eq!(queue.pop(after(9)), None);
        assert_eq!(queue.pop(after(12)), Some(('a', ms(2))));
        assert_eq!(queue.pop(after(15)), Some(('b', ms(0))));
        assert_eq!((queue.pop(after(99)), queue.next()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_with_slack_waits_for_another_wake_and_fires_in_order() {
        let mut queue = TimerQueue::new();
        queue.arm('a', after(10), ms(30));
        queue.arm('b', after(20), ms(0));
        queue.arm('c', after(15), ms(3));
        assert_eq!(queue.next(), Some(after(18)));
        queue.set_slack('c', ms(30));
        assert_eq!(queue.next(), Some(after(20)));
        assert_eq!(queue.pop(after(9)), None);
        assert_eq!(queue.pop(after(16)), Some(('a', ms(0))));
        assert_eq!(queue.pop(after(50)), Some(('c', ms(5))), "a moment");
        assert_eq!(queue.pop(after(50)), Some(('b', ms(30))));
        queue.arm('a', after(50), ms(30));
        assert_eq!(queue.pop(after(90)), Some(('a', ms(40))), "a pause");
        queue.set_slack('a', ms(1));
        assert_eq!(queue.next(), None, "it is armed no more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_is_taken_without_a_wake_only_within_its_slack() {
        let mut queue = TimerQueue::new();
        queue.arm('a', after(10), ms(5));
        queue.arm('b', after(20), ms(0));
        assert_eq!(queue.pop_waiting(after(9)), None);
        assert_eq!(
            queue.pop_waiting(after(16)),
            None,
            "it is late like any other"
        );
        assert_eq!(queue.pop_waiting(after(15)), Some(('a', ms(0))));
        assert_eq!(queue.pop_waiting(after(20)), None, "it has no slack");
    }
}
