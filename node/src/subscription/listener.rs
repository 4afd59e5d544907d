//! Messages as calls: for who would rather be called by the node's own task than be woken.
//!
//! A call comes with no queue and no other task between, which saves the waking of a task
//! for each packet. The price: whoever is called holds up the node.
//!
//! Users' code runs here alone, and their panics end here: of the call, and of what it
//! holds when that is dropped.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::{Message, Offered};
use crate::catalogue;

/// Who holds up the node for longer, with all messages of a packet, is counted. A guess:
/// less than anybody awaits custody for.
const SLOW: Duration = Duration::from_millis(10);

type Call = Box<dyn FnMut(Message) + Send>;

/// What both ends share.
struct Slot {
    /// Gone once it has ended. Locked while it is called.
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

    /// Nobody is called any more. What the function holds is let go of now, or when the
    /// call that is under way returns.
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

/// What is called, until [`Listener`] is dropped.
pub(crate) struct Callback {
    slot: Arc<Slot>,
    /// The operator has been told that it is slow.
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

    /// Call for each of them, as long as nobody has ended it. A panic ends it, and whoever
    /// has caused it has missed that message. Returns whether it wants more.
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
                tracing::warn!(?took, "a listener holds up its node, told once; subscribe");
            }
        }
        // Whoever has ended it meanwhile could not take the function: it goes with this.
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

/// Whether users' code has returned; it may panic.
fn quietly(code: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(()) => true,
        // To drop what it has panicked with may panic as well.
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

/// Has a function called for each message; see [`crate::Node::listen`]. Dropping it ends
/// that and drops the function, but for a call that is under way, which returns before.
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
    /// Whether the function has panicked, and is called no more.
    pub fn has_panicked(&self) -> bool {
        self.slot.has_panicked.load(Ordering::SeqCst)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.slot.end();
    }
}
