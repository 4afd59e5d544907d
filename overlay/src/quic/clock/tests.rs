use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    for vain in [0, VAIN_MOST] {
        fire_in_order(vain).await;
    }
}

async fn fire_in_order(vain: u8) {
    let (clock, start) = (Clock::start().unwrap(), now());
    clock.0.inner.list().vain = vain;
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
async fn an_alarm_that_goes_off_in_vain_need_not_be_exact_until_it_does_for_somebody() {
    let clock = Clock::start().unwrap();
    let inner = &clock.0.inner;
    let is_rough = || inner.list().is_in_vain();
    let far = now() + Duration::from_secs(60);
    inner.enter(None, far, Waker::noop().clone());
    // The alarm's own task does not run: nothing is awaited here.
    for rung in 0..2 * VAIN_MOST {
        assert_eq!(is_rough(), rung > VAIN_MOST / 2, "after {rung} in vain");
        inner.wake_due();
    }
    for rung in 0..2 * VAIN_MOST {
        assert_eq!(
            is_rough(),
            rung < VAIN_MOST / 2,
            "after {rung} for somebody"
        );
        inner.enter(None, now(), Waker::noop().clone());
        inner.wake_due();
    }
    assert_eq!(inner.list().set, Some(far));
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

#[tokio::test]
async fn the_alarm_stands_at_the_next_timer_when_the_first_has_moved() {
    let (clock, start) = (Clock::start().unwrap(), now());
    let at = |after| start + Duration::from_secs(after);
    let mut sleeps = [10, 20, 30].map(|after| clock.sleep_until(at(after)));
    let poll = async |sleep: &mut Sleep| poll_fn(|cx| Poll::Ready(sleep.poll_fired(cx))).await;
    for sleep in &mut sleeps {
        let _ = poll(sleep).await;
    }
    let set = || clock.0.inner.list().set;
    assert_eq!(set(), Some(at(10)));
    for (moved, to, first) in [(1, 40, 10), (0, 50, 30), (2, 60, 40), (2, 5, 5)] {
        sleeps[moved].reset(at(to));
        let _ = poll(&mut sleeps[moved]).await;
        assert_eq!(set(), Some(at(first)), "{moved} to {to}");
    }
    let [first, mut second, third] = sleeps;
    drop((first, third));
    second.reset(at(45));
    let _ = poll(&mut second).await;
    assert_eq!(set(), Some(at(45)));
    assert_eq!(clock.0.inner.list().entries.len(), 1);
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
    assert_eq!(clock.0.inner.list().entries.len(), 1);
}
