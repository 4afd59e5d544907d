//! The operating system's alarm, and tokio's where there is none of the kind.

#[cfg(target_os = "linux")]
pub(super) use linux::Alarm;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::Alarm;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A timer file descriptor.
    pub(crate) struct Alarm(AsyncFd<OwnedFd>);

    impl Alarm {
        /// Must be called within a tokio runtime.
        #[expect(
            deprecated,
            reason = "unsound with types that lie about their descriptor; this one owns it"
        )]
        pub(crate) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
        }

        /// Go off in so long, and not when it was to go off before.
        pub(crate) fn set(&self, after: Duration) {
            // Zero would be never.
            let after = after.max(Duration::from_nanos(1));
            let once = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec {
                    tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: after.subsec_nanos().into(),
                },
            };
            let set = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once);
            debug_assert!(set.is_ok(), "a span is a valid time");
        }

        /// Wait until it goes off. The descriptor is not read: setting it anew clears
        /// it, and readiness is told by edges.
        pub(crate) async fn rings(&self) {
            match self.0.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                // The runtime ends, and all that waits here with it.
                Err(_) => std::future::pending().await,
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
        pub(crate) fn set(&self, after: Duration) {
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

    macro_rules! rings_at_the_time_it_was_set_to_last {
        ($name:ident, $alarm:ty) => {
            #[tokio::test]
            #[expect(clippy::disallowed_methods, reason = "an alarm is of wall time")]
            async fn $name() {
                let alarm = <$alarm>::new().unwrap();
                let start = Instant::now();
                alarm.set(Duration::from_secs(3600));
                alarm.set(Duration::from_millis(20));
                alarm.rings().await;
                assert!(start.elapsed() >= Duration::from_millis(20));

                alarm.set(Duration::from_millis(100));
                alarm.set(Duration::from_secs(3600));
                let soon = timeout(Duration::from_millis(200), alarm.rings()).await;
                assert!(soon.is_err(), "it rang at a time that it was put off from");

                alarm.set(Duration::ZERO);
                alarm.rings().await;
            }
        };
    }

    #[cfg(target_os = "linux")]
    rings_at_the_time_it_was_set_to_last!(the_systems_alarm_rings_once, super::linux::Alarm);
    rings_at_the_time_it_was_set_to_last!(tokios_alarm_rings_once, super::portable::Alarm);
}
