//! The timers of a transport and of its host: one alarm for all of them.
//!
//! tokio keeps timers in a wheel whose coarser rings are walked down step by step, so
//! that one far timer wakes an idle process up to six times, and a timer that was put
//! off still wakes it at its old time. A node that has nothing to do would do little
//! else. Here deadlines are in one ordered list, and the operating system's alarm
//! stands at the first of them.
//!
//! Not here: what a timer means, and the queue of the host's own timers.

mod alarm;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::executor::Executor;
use super::socket::Socket;
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

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Timers that share an alarm. Clones are the same clock; it stops with the last of
/// them and of their [`Sleep`]s.
#[derive(Clone)]
pub struct Clock(Arc<Running>);

struct Running {
    inner: Arc<Inner>,
    next: AtomicU64,
    driver: AbortHandle,
    /// Of the connections that have their timers here.
    executor: Executor,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

struct Inner {
    alarm: Alarm,
    list: Mutex<List>,
    /// Told by the sockets whenever something has come.
    arrivals: Arc<Notify>,
}

/// A timer's place in the list: its deadline, and a number of its own.
type Place = (Instant, u64);

struct List {
    waiting: BTreeMap<Place, Waker>,
    /// When the alarm goes off.
    set: Option<Instant>,
    /// When it was put off last.
    put_off: Option<Instant>,
    /// How often it was set.
    #[cfg(test)]
    times_set: u128,
}

impl Clock {
    /// A clock. Must be called within a tokio runtime, which drives it.
    pub fn start() -> io::Result<Self> {
        Self::start_on(Executor::spread(&Handle::current()))
    }

    /// The same, whose connections run on `executor`.
    pub fn start_on(executor: Executor) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            alarm: Alarm::new()?,
            list: Mutex::new(List {
                waiting: BTreeMap::new(),
                set: None,
                put_off: None,
                #[cfg(test)]
                times_set: 0,
            }),
            arrivals: Arc::default(),
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
            next: AtomicU64::new(0),
            driver: driver.abort_handle(),
            executor,
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
            number: self.0.next.fetch_add(1, Ordering::Relaxed),
            listed: None,
        }
    }

    /// Wait until a packet comes, from whomever. What is in it is told by those that it
    /// is for, and they come to it later.
    pub async fn arrival(&self) {
        self.0.inner.arrivals.notified().await;
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

    fn enter(&self, former: Option<Place>, place: Place, waker: Waker) {
        let mut list = self.list();
        let moved = former.and_then(|former| list.waiting.remove(&former));
        let replaced = list.waiting.insert(place, waker);
        self.set_alarm(&mut list);
        // What a waker holds may have timers too, which take the lock.
        drop(list);
        drop((moved, replaced));
    }

    fn leave(&self, place: Place) {
        let mut list = self.list();
        let former = list.waiting.remove(&place);
        if list.set == Some(place.0) {
            self.set_alarm(&mut list);
        }
        drop(list);
        drop(former);
    }

    /// Wake whose time has come. Whoever is woken asks the clock itself.
    fn wake_due(&self) {
        let mut list = self.list();
        list.set = None;
        let later = list.waiting.split_off(&(now(), u64::MAX));
        let due = std::mem::replace(&mut list.waiting, later);
        self.set_alarm(&mut list);
        drop(list);
        due.into_values().for_each(Waker::wake);
    }

    /// Have the alarm go off at the first deadline, or before.
    fn set_alarm(&self, list: &mut List) {
        let Some(first) = list.waiting.keys().next().map(|place| place.0) else {
            return;
        };
        if let Some(set) = list.set.filter(|set| *set <= first) {
            let by = first - set;
            let now = now();
            let is_soon = |last: Instant| now.duration_since(last) < PUT_OFF_AT_MOST_EVERY;
            let is_seldom = by >= PUT_OFF_AT_ONCE_BY || !list.put_off.is_some_and(is_soon);
            if by < PUT_OFF_AT_LEAST_BY || !is_seldom {
                return;
            }
            list.put_off = Some(now);
        }
        self.alarm.set(first.saturating_duration_since(now()));
        list.set = Some(first);
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
    number: u64,
    /// Where it is in the list, and who is woken.
    listed: Option<(Place, Waker)>,
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
        let place = (self.deadline, self.number);
        let is_there = |(at, waker): &(Place, Waker)| *at == place && waker.will_wake(cx.waker());
        if !self.listed.as_ref().is_some_and(is_there) {
            let former = self.listed.take().map(|(place, _)| place);
            let waker = cx.waker().clone();
            self.clock.0.inner.enter(former, place, waker.clone());
            self.listed = Some((place, waker));
        }
        Poll::Pending
    }

    fn unlist(&mut self) {
        if let Some((place, _)) = self.listed.take() {
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

/// quinn over tokio, but for its timers and sockets.
impl Runtime for Clock {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(self.sleep_until(deadline))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.executor.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let arrivals = self.0.inner.arrivals.clone();
        Ok(Arc::new(Socket::new(socket, arrivals)?))
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
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use tokio::task::JoinSet;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn timers_fire_in_the_order_of_their_deadlines_and_never_early() {
        let (clock, start) = (Clock::start().unwrap(), now());
        let mut sleeping = JoinSet::new();
        for after in [40, 5, 20, 60, 5, 0] {
            let sleep = clock.sleep_until(start + ms(after));
            sleeping.spawn(async move {
                sleep.await;
                assert!(now() >= start + ms(after), "{after} ms");
                after
            });
        }
        let mut order = Vec::new();
        while let Some(after) = sleeping.join_next().await {
            order.push(after.unwrap());
        }
        assert_eq!(order, [0, 5, 5, 20, 40, 60]);
    }

    #[tokio::test]
    async fn a_timer_that_is_put_off_or_dropped_wakes_nobody_at_its_old_time() {
        let (clock, start) = (Clock::start().unwrap(), now());
        let mut dropped = clock.sleep_until(start + ms(10));
        let mut put_off = clock.sleep_until(start + ms(10));
        let (woken_dropped, woken_put_off) = (Arc::<Count>::default(), Arc::<Count>::default());
        let poll = |sleep: &mut Sleep, count: &Arc<Count>| {
            let waker = Waker::from(count.clone());
            sleep.poll_fired(&Context::from_waker(&waker))
        };
        assert!(poll(&mut dropped, &woken_dropped).is_pending());
        assert!(poll(&mut put_off, &woken_put_off).is_pending());
        drop(dropped);
        put_off.reset(start + Duration::from_secs(3600));
        assert!(poll(&mut put_off, &woken_put_off).is_pending());
        clock.sleep_until(start + ms(20)).await;
        assert_eq!(woken_dropped.0.load(Ordering::SeqCst), 0);
        assert_eq!(woken_put_off.0.load(Ordering::SeqCst), 0);
        put_off.reset(now() + ms(5));
        if poll(&mut put_off, &woken_put_off).is_pending() {
            clock.sleep_until(now() + ms(10)).await;
            assert_eq!(woken_put_off.0.load(Ordering::SeqCst), 1);
            assert!(poll(&mut put_off, &woken_put_off).is_ready());
        }
    }

    #[tokio::test]
    async fn a_timer_that_is_brought_forward_fires_at_its_new_time() {
        let (clock, start) = (Clock::start().unwrap(), now());
        let mut sleep = clock.sleep_until(start + Duration::from_secs(3600));
        let first = poll_fn(|cx| Poll::Ready(sleep.poll_fired(cx))).await;
        assert!(first.is_pending());
        sleep.reset(start + ms(10));
        sleep.await;
        assert!(now() >= start + ms(10));
    }

    #[tokio::test]
    async fn the_alarm_is_put_off_seldom_and_is_never_too_late() {
        let (clock, start) = (Clock::start().unwrap(), now());
        let mut sleep = clock.sleep_until(start + ms(5));
        for step in 1..=1_000 {
            // Ten times as far in all as is worth a call, and not so far that it is at once.
            sleep.reset(start + ms(5) + step * PUT_OFF_AT_LEAST_BY / 100);
            let _ = poll_fn(|cx| Poll::Ready(sleep.poll_fired(cx))).await;
        }
        let set = clock.0.inner.list().times_set;
        let milliseconds = (now() - start).as_millis();
        assert!(
            set <= 2 + milliseconds / 50,
            "set {set} times in {milliseconds} ms"
        );
        sleep.reset(now() + ms(5));
        sleep.await;
    }

    #[tokio::test]
    async fn the_alarm_is_put_off_at_once_when_there_is_nothing_to_do_for_long() {
        let (clock, start) = (Clock::start().unwrap(), now());
        let mut sleep = clock.sleep_until(start + ms(500));
        for after in [500, 550, 1_000, 60_000] {
            sleep.reset(start + ms(after));
            let _ = poll_fn(|cx| Poll::Ready(sleep.poll_fired(cx))).await;
        }
        assert_eq!(clock.0.inner.list().set, Some(start + ms(60_000)));
    }

    /// Else a runtime would hold the file of each transport that was ever there.
    #[tokio::test]
    async fn a_clock_ends_with_the_last_that_holds_it() {
        let clock = Clock::start().unwrap();
        let sleep = clock.sleep_until(now() + ms(5));
        let inner = Arc::downgrade(&clock.0.inner);
        drop(clock);
        sleep.await;
        while inner.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// A list that locks itself out would hang here.
    #[tokio::test]
    async fn a_waker_whose_task_holds_timers_is_dropped_without_the_lock() {
        struct Holds {
            _timer: Sleep,
        }
        impl Wake for Holds {
            fn wake(self: Arc<Self>) {}
        }
        let (clock, far) = (Clock::start().unwrap(), now() + Duration::from_secs(60));
        let mut held = clock.sleep_until(far);
        assert!(
            held.poll_fired(&Context::from_waker(Waker::noop()))
                .is_pending()
        );
        let holds = Arc::new(Holds { _timer: held });
        let mut sleep = clock.sleep_until(far);
        let first = Waker::from(holds);
        assert!(sleep.poll_fired(&Context::from_waker(&first)).is_pending());
        drop(first);
        assert!(
            sleep
                .poll_fired(&Context::from_waker(Waker::noop()))
                .is_pending()
        );
        assert_eq!(clock.0.inner.list().waiting.len(), 1);
    }
}
