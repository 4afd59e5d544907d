//! The timers of a transport and of its host: one alarm for all of them.
//!
//! tokio keeps timers in a wheel whose coarser rings are walked down step by step, so
//! that one far timer wakes an idle process up to six times, and a timer that was put
//! off still wakes it at its old time. A node that has nothing to do would do little
//! else. Here deadlines are in one list, and the operating system's alarm stands at the
//! first of them, or before. The list has no order: a timer moves with each packet, and
//! which is the first is asked only when the one of the alarm has moved. On a busy node
//! it goes off in vain as a rule; for as long as that is so tokio's timers are good enough
//! for the near ones.
//!
//! Not here: what a timer means, and the queue of the host's own timers.

mod alarm;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use slab::Slab;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use alarm::Alarm;

/// The alarm is put off at most this often, so that timers that move with each packet
/// cost no system call each. An alarm that comes too early is a look at the list.
/// Guess: far less than the pause between two beats.
const PUT_OFF_AT_MOST_EVERY: Duration = Duration::from_millis(50);
/// By so much it is put off at once: a node that has become idle sleeps on. Guess: a busy
/// one has nearer timers.
const PUT_OFF_AT_ONCE_BY: Duration = Duration::from_millis(100);
/// The alarm is not put off by less than this, so that the next time is still there
/// when it can be put off by more: two acknowledgements follow a beat.
const PUT_OFF_AT_LEAST_BY: Duration = Duration::from_millis(5);

/// So many rings in vain count at most, less those for somebody; with more than half of it the
/// alarm need not be exact. A guess.
const VAIN_MOST: u8 = 4;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Timers that share an alarm. Clones are the same clock; it stops with the last of
/// them and of their [`Sleep`]s.
#[derive(Clone)]
pub struct Clock(Arc<Running>);

struct Running {
    inner: Arc<Inner>,
    driver: AbortHandle,
    /// Of the connections that have their timers here.
    runtime: Handle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

struct Inner {
    alarm: Alarm,
    list: Mutex<List>,
}

/// Of one timer. Nobody is woken twice for the same time.
struct Entry {
    deadline: Instant,
    waker: Option<Waker>,
}

#[derive(Default)]
struct List {
    /// As many as there are timers that were polled.
    entries: Slab<Entry>,
    /// When the alarm goes off; no timer that waits is before it.
    set: Option<Instant>,
    /// The alarm may be earlier than the first timer.
    is_early: bool,
    /// When it was put off last.
    put_off: Option<Instant>,
    /// How often it went off in vain, less how often for somebody; from 0 to [`VAIN_MOST`].
    vain: u8,
    /// How often it was set.
    #[cfg(test)]
    times_set: u128,
}

impl List {
    fn first(&self) -> Option<Instant> {
        let waiting = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.waker.is_some());
        waiting.map(|(_, entry)| entry.deadline).min()
    }

    /// The alarm has gone off, for somebody or in vain.
    fn note_ring(&mut self, is_for_somebody: bool) {
        self.vain = match is_for_somebody {
            true => self.vain.saturating_sub(1),
            false => (self.vain + 1).min(VAIN_MOST),
        };
    }

    /// Whether the alarm will go off in vain, as it mostly did of late: whom it is set for
    /// moves on before.
    const fn is_in_vain(&self) -> bool {
        self.vain > VAIN_MOST / 2
    }

    /// A timer does not wait for this time any more. None that waits is before the alarm.
    fn note_moved(&mut self, from: Instant) {
        self.is_early |= self.set == Some(from);
    }
}

impl Clock {
    /// A clock. Must be called within a tokio runtime, which drives it.
    pub fn start() -> io::Result<Self> {
        let inner = Arc::new(Inner {
            alarm: Alarm::new()?,
            list: Mutex::default(),
        });
        let ringing = inner.clone();
        let driver = tokio::spawn(async move {
            loop {
                ringing.alarm.rings().await;
                ringing.wake_due();
            }
        });
        Ok(Self(Arc::new(Running {
            inner,
            driver: driver.abort_handle(),
            runtime: Handle::current(),
        })))
    }

    /// A timer that fires in so long.
    pub fn sleep(&self, length: Duration) -> Sleep {
        // Longer than anybody waits, if there is no such time.
        let deadline = now().checked_add(length);
        self.sleep_until(deadline.unwrap_or_else(|| now() + YEAR))
    }

    /// A timer that fires at `deadline`, at once if that is over.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep {
            clock: self.clone(),
            deadline,
            place: None,
            listed: None,
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

impl Inner {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wake `waker` at `deadline`, and at no other time. Returns the timer's place.
    fn enter(&self, place: Option<usize>, deadline: Instant, waker: Waker) -> usize {
        let entry = Entry {
            deadline,
            waker: Some(waker),
        };
        let mut list = self.list();
        let (place, former) = match place {
            None => (list.entries.insert(entry), None),
            Some(place) => {
                let former = std::mem::replace(&mut list.entries[place], entry);
                list.note_moved(former.deadline);
                (place, Some(former))
            }
        };
        self.set_alarm(&mut list, deadline);
        // What a waker holds may have timers too, which take the lock.
        drop(list);
        drop(former);
        place
    }

    /// Nobody is to be woken.
    fn leave(&self, place: usize) {
        let mut list = self.list();
        let former = list.entries.try_remove(place);
        if let Some(former) = &former {
            list.note_moved(former.deadline);
        }
        drop(list);
        drop(former);
    }

    /// Wake whose time has come. Whoever is woken asks the clock itself.
    fn wake_due(&self) {
        let (mut list, now) = (self.list(), now());
        let all = list.entries.iter_mut();
        let due = all.filter(|(_, entry)| entry.deadline <= now);
        let mut due: Vec<_> = due
            .filter_map(|(_, entry)| Some((entry.deadline, entry.waker.take()?)))
            .collect();
        (list.set, list.is_early) = (None, false);
        list.note_ring(!due.is_empty());
        if let Some(first) = list.first() {
            self.set_alarm(&mut list, first);
        }
        drop(list);
        due.sort_by_key(|(deadline, _)| *deadline);
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Have the alarm go off at the first deadline, or before. One of them is `some`, and
    /// it is the only one that may be before the alarm.
    fn set_alarm(&self, list: &mut List, some: Instant) {
        let mut first = some;
        if let Some(set) = list.set.filter(|set| *set <= some) {
            if !list.is_early || some - set < PUT_OFF_AT_LEAST_BY {
                return;
            }
            let now = now();
            let is_soon = |last: Instant| now.duration_since(last) < PUT_OFF_AT_MOST_EVERY;
            let is_seldom =
                |by: Duration| by >= PUT_OFF_AT_ONCE_BY || !list.put_off.is_some_and(is_soon);
            if !is_seldom(some - set) {
                return;
            }
            first = list.first().unwrap_or(some);
            let by = first.saturating_duration_since(set);
            if by < PUT_OFF_AT_LEAST_BY || !is_seldom(by) {
                list.is_early = by > Duration::ZERO;
                return;
            }
            list.put_off = Some(now);
        }
        let after = first.saturating_duration_since(now());
        self.alarm.set(after, list.is_in_vain());
        (list.set, list.is_early) = (Some(first), false);
        #[cfg(test)]
        {
            list.times_set += 1;
        }
    }
}

/// Waits for a time of a [`Clock`].
#[derive(Debug)]
pub struct Sleep {
    clock: Clock,
    deadline: Instant,
    /// Where it is in the list.
    place: Option<usize>,
    /// When who is woken.
    listed: Option<(Instant, Waker)>,
}

impl Sleep {
    /// When it fires.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Fire at another time. Poll it afterwards: until then it stands in the list where
    /// it stood.
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn poll_fired(&mut self, cx: &Context<'_>) -> Poll<()> {
        if now() >= self.deadline {
            self.unlist();
            return Poll::Ready(());
        }
        let is_there =
            |(at, waker): &(Instant, Waker)| *at == self.deadline && waker.will_wake(cx.waker());
        if !self.listed.as_ref().is_some_and(is_there) {
            let waker = match self.listed.take() {
                Some((_, waker)) if waker.will_wake(cx.waker()) => waker,
                _ => cx.waker().clone(),
            };
            let inner = &self.clock.0.inner;
            self.place = Some(inner.enter(self.place, self.deadline, waker.clone()));
            self.listed = Some((self.deadline, waker));
        }
        Poll::Pending
    }

    fn unlist(&mut self) {
        self.listed = None;
        if let Some(place) = self.place.take() {
            self.clock.0.inner.leave(place);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.unlist();
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_fired(cx)
    }
}

impl AsyncTimer for Sleep {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        Sleep::reset(&mut self, deadline);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_fired(cx)
    }
}

/// quinn over tokio, but for its timers.
impl Runtime for Clock {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(self.sleep_until(deadline))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.runtime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        now()
    }
}

#[expect(clippy::disallowed_methods, reason = "timers are of wall time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
