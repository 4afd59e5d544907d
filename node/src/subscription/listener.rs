//! Messages as calls, for programs that prefer a call by the node's own task to being woken.
//!
//! A call needs no queue and no other task, which saves waking a task for each packet. In return, a
//! slow function holds up the node.
//!
//! The code of a listener runs only here. Its panics end here: panics of the call, and of dropping
//! what the function holds.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::{Message, Offered};
use crate::catalogue;

/// A listener that takes this long or longer for all messages of a packet is counted as slow. A
/// guess: less than any member waits for custody.
const SLOW: Duration = Duration::from_millis(10);

type Call = Box<dyn FnMut(Message) + Send>;

/// The state that both ends share.
struct Slot {
    /// The function; `None` once it was dropped. Locked during a call.
    call: Mutex<Option<Call>>,
    has_ended: AtomicBool,
    has_panicked: AtomicBool,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Call>> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// End the calls. The function is dropped now, or when the current call returns.
    fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let call = match self.call.try_lock() {
            Ok(mut call) => call.take(),
            Err(TryLockError::Poisoned(call)) => call.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        quietly(|| drop(call));
    }
}

/// The node's end of a listener. The function is called until it panics or [`Listener`] is dropped.
pub(crate) struct Callback {
    slot: Arc<Slot>,
    /// Whether the log has the line that this listener is slow.
    is_known_slow: bool,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").finish_non_exhaustive()
    }
}

impl Callback {
    pub(crate) fn new(call: impl FnMut(Message) + Send + 'static) -> (Self, Listener) {
        let slot = Arc::new(Slot {
            call: Mutex::new(Some(Box::new(call))),
            has_ended: AtomicBool::new(false),
            has_panicked: AtomicBool::new(false),
        });
        let callback = Self {
            slot: slot.clone(),
            is_known_slow: false,
        };
        (callback, Listener { slot })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.slot.has_ended()
    }

    /// Call the function for each message until the calls end. A panic ends them, and the message
    /// that caused the panic counts as missed. Returns whether the listener wants more.
    pub(super) fn tell(
        &mut self,
        messages: impl Iterator<Item = Message>,
        offered: &mut [Offered],
    ) -> bool {
        let begun = now();
        self.tell_all(messages, offered);
        let took = begun.elapsed();
        if took >= SLOW {
            catalogue::LISTENER_SLOW.get().increment(1);
            if !std::mem::replace(&mut self.is_known_slow, true) {
                tracing::warn!(
                    ?took,
                    "a listener holds up its node; use a subscription instead \
                                       (this line comes once)"
                );
            }
        }
        // A listener that was dropped during the call could not drop the function. The caller then
        // drops the function with this end.
        fence(Ordering::SeqCst);
        !self.has_ended()
    }

    fn tell_all(&self, messages: impl Iterator<Item = Message>, offered: &mut [Offered]) {
        let mut slot = self.slot.lock();
        let Some(call) = slot.as_mut() else { return };
        for (message, offered) in messages.zip(offered) {
            if self.has_ended() {
                return;
            }
            if quietly(|| call(message)) {
                offered.taken += 1;
                continue;
            }
            offered.missed += 1;
            self.slot.has_panicked.store(true, Ordering::SeqCst);
            self.slot.has_ended.store(true, Ordering::SeqCst);
            catalogue::LISTENER_PANICS.get().increment(1);
            tracing::error!("a listener has panicked and is not called any more");
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        let call = self.slot.lock().take();
        quietly(|| drop(call));
    }
}

/// Run users' code. Returns whether it returned without a panic.
fn quietly(code: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(()) => true,
        // To drop the panic's value may panic as well.
        Err(thrown) => {
            std::mem::forget(thrown);
            false
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "users' functions take wall time")]
fn now() -> Instant {
    Instant::now()
}

/// A function that is called for each message; see [`crate::Node::listen`]. Dropping this ends the
/// calls and drops the function. If a call is under way, the drop does not wait for it, and the
/// function is dropped after the call.
#[must_use = "dropping it ends the calls"]
pub struct Listener {
    slot: Arc<Slot>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

impl Listener {
    /// Whether the function has panicked, and so is no longer called.
    pub fn has_panicked(&self) -> bool {
        self.slot.has_panicked.load(Ordering::SeqCst)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.slot.end();
    }
}
