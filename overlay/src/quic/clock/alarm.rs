//! The operating system's alarm, and tokio's where there is none of the kind.

#[cfg(target_os = "linux")]
pub(super) use linux::Alarm;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::Alarm;

#[cfg(target_os = "linux")]
mod linux {
    use std::future::poll_fn;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::pin::Pin;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::task::{Context, Poll, Waker, ready};
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::runtime::Handle;
    use tokio::time::Sleep;

    /// Within so long a timer is in the finest rings of tokio's wheel: it costs one waking in
    /// between at most.
    const NEAR: Duration = Duration::from_millis(50);

    /// A timer file descriptor, and a timer of tokio's for what need not be exact.
    pub(crate) struct Alarm {
        exact: AsyncFd<OwnedFd>,
        rough: Mutex<Rough>,
        runtime: Handle,
    }

    #[derive(Default)]
    struct Rough {
        sleep: Option<Pin<Box<Sleep>>>,
        /// Of whoever waits for the alarm.
        waker: Option<Waker>,
    }

    impl Alarm {
        /// Must be called within a tokio runtime.
        #[expect(
            deprecated,
            reason = "unsound with types that lie about their descriptor; this one owns it"
        )]
        pub(crate) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Ok(Self {
                exact: AsyncFd::with_interest(timer, Interest::READABLE)?,
                rough: Mutex::default(),
                runtime: Handle::current(),
            })
        }

        fn rough(&self) -> MutexGuard<'_, Rough> {
            self.rough.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Go off in so long, and not when it was to go off before. If it may be `rough`, it
        /// is up to two milliseconds late, and may go off at the time before as well; where the
        /// runtime has other timers as near, and is busy, that takes neither a system call
        /// nor an interrupt.
        pub(crate) fn set(&self, after: Duration, is_rough: bool) {
            let mut rough = self.rough();
            if is_rough && after <= NEAR {
                return self.set_rough(&mut rough, after);
            }
            let former = rough.sleep.take();
            drop(rough);
            drop(former);
            // Zero would be never.
            let after = after.max(Duration::from_nanos(1));
            let once = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec {
                    tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: after.subsec_nanos().into(),
                },
            };
            let set = timerfd_settime(&self.exact, TimerfdTimerFlags::empty(), &once);
            debug_assert!(set.is_ok(), "a span is a valid time");
        }

        #[expect(clippy::disallowed_methods, reason = "timers are of wall time")]
        fn set_rough(&self, rough: &mut Rough, after: Duration) {
            let until = tokio::time::Instant::now() + after;
            if let Some(sleep) = &mut rough.sleep {
                return sleep.as_mut().reset(until);
            }
            let _inside = self.runtime.enter();
            let sleep = rough
                .sleep
                .insert(Box::pin(tokio::time::sleep_until(until)));
            // Only one that was polled is in the wheel.
            if let Some(waker) = &rough.waker
                && sleep
                    .as_mut()
                    .poll(&mut Context::from_waker(waker))
                    .is_ready()
            {
                waker.wake_by_ref();
            }
        }

        /// Wait until it goes off. The descriptor is not read: setting it anew clears
        /// it, and readiness is told by edges.
        pub(crate) async fn rings(&self) {
            poll_fn(|cx| self.poll_rings(cx)).await;
        }

        fn poll_rings(&self, cx: &mut Context<'_>) -> Poll<()> {
            let mut rough = self.rough();
            if !rough
                .waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                rough.waker = Some(cx.waker().clone());
            }
            if let Some(sleep) = &mut rough.sleep
                && sleep.as_mut().poll(cx).is_ready()
            {
                rough.sleep = None;
                return Poll::Ready(());
            }
            drop(rough);
            match ready!(self.exact.poll_read_ready(cx)) {
                Ok(mut ready) => {
                    ready.clear_ready();
                    Poll::Ready(())
                }
                // The runtime ends, and all that waits here with it.
                Err(_) => Poll::Pending,
            }
        }
    }
}

#[cfg(any(not(target_os = "linux"), test))]
mod portable {
    use std::io;
    use std::time::Duration;

    use tokio::sync::watch;
    use tokio::time::Instant;

    /// A timer of tokio's, which can be set from elsewhere.
    pub(crate) struct Alarm(watch::Sender<Option<Instant>>);

    impl Alarm {
        /// Fails never.
        #[expect(clippy::unnecessary_wraps, reason = "its namesake may fail")]
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(watch::Sender::new(None)))
        }

        /// Go off in so long, and not when it was to go off before.
        #[expect(clippy::disallowed_methods, reason = "timers are of wall time")]
        pub(crate) fn set(&self, after: Duration, _: bool) {
            self.0.send_replace(Some(Instant::now() + after));
        }

        /// Wait until it goes off.
        pub(crate) async fn rings(&self) {
            let mut times = self.0.subscribe();
            loop {
                let set = *times.borrow_and_update();
                let rings = async {
                    match set {
                        Some(time) => tokio::time::sleep_until(time).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = rings => {
                        let clear = |time: &mut Option<Instant>| {
                            let rung = *time == set;
                            if rung {
                                *time = None;
                            }
                            rung
                        };
                        if self.0.send_if_modified(clear) {
                            return;
                        }
                    }
                    _ = times.changed() => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    #[cfg(target_os = "linux")]
    const PATIENCE: Duration = Duration::from_secs(20);

    macro_rules! rings_at_the_time_it_was_set_to_last {
        ($name:ident, $alarm:ty) => {
            #[tokio::test]
            #[expect(clippy::disallowed_methods, reason = "an alarm is of wall time")]
            async fn $name() {
                let alarm = <$alarm>::new().unwrap();
                let start = Instant::now();
                alarm.set(Duration::from_secs(3600), false);
                alarm.set(Duration::from_millis(20), false);
                alarm.rings().await;
                assert!(start.elapsed() >= Duration::from_millis(20));

                alarm.set(Duration::from_millis(100), false);
                alarm.set(Duration::from_secs(3600), false);
                let soon = timeout(Duration::from_millis(200), alarm.rings()).await;
                assert!(soon.is_err(), "it rang at a time that it was put off from");

                alarm.set(Duration::ZERO, false);
                alarm.rings().await;
            }
        };
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "an alarm is of wall time")]
    async fn one_that_may_be_rough_is_not_early_and_is_put_off_like_any_other() {
        let alarm = std::sync::Arc::new(super::linux::Alarm::new().unwrap());
        // Nobody has waited for it yet.
        alarm.set(Duration::from_millis(5), true);
        timeout(PATIENCE, alarm.rings()).await.unwrap();
        let ringing = alarm.clone();
        let (mut start, ms) = (Instant::now(), Duration::from_millis);
        let rings = tokio::spawn(async move {
            for after in [20, 40] {
                ringing.rings().await;
                let elapsed = start.elapsed();
                assert!(elapsed >= ms(after), "{elapsed:?} of {after} ms");
                start = Instant::now();
                ringing.set(ms(10), true);
                ringing.set(ms(40), true);
            }
            // Whoever sets it exactly is not told of the other time.
            ringing.set(Duration::from_secs(3600), false);
            let soon = timeout(ms(100), ringing.rings()).await;
            assert!(soon.is_err(), "it rang at a time that it was put off from");
        });
        // Somebody waits for it already.
        tokio::task::yield_now().await;
        alarm.set(ms(20), true);
        timeout(PATIENCE, rings).await.unwrap().unwrap();
    }

    #[cfg(target_os = "linux")]
    rings_at_the_time_it_was_set_to_last!(the_systems_alarm_rings_once, super::linux::Alarm);
    rings_at_the_time_it_was_set_to_last!(tokios_alarm_rings_once, super::portable::Alarm);
}
