//! Messages as calls: for who would rather be called by the node's own task than be woken.
//!
//! A call comes with no queue and no other task between, which is a microsecond or two of
//! processor time for each message and the waking of a thread. The price: whoever is
//! called holds up the node.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Message, Offered};

/// What is called, until [`Listener`] is dropped.
pub(crate) struct Callback {
    call: Box<dyn FnMut(Message) + Send>,
    has_ended: Arc<AtomicBool>,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").finish_non_exhaustive()
    }
}

impl Callback {
    pub(crate) fn new(call: impl FnMut(Message) + Send + 'static) -> (Self, Listener) {
        let has_ended = Arc::new(AtomicBool::new(false));
        let callback = Self {
            call: Box::new(call),
            has_ended: has_ended.clone(),
        };
        (callback, Listener { has_ended })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Call for each of them, as long as nobody has ended it. A panic ends it, and whoever
    /// has caused it has missed that message.
    pub(super) fn tell(
        &mut self,
        messages: impl Iterator<Item = Message>,
        offered: &mut [Offered],
    ) {
        for (message, offered) in messages.zip(offered) {
            if self.has_ended() {
                return;
            }
            let call = AssertUnwindSafe(|| (self.call)(message));
            if catch_unwind(call).is_ok() {
                offered.taken += 1;
            } else {
                offered.missed += 1;
                self.has_ended.store(true, Ordering::Relaxed);
                metrics::counter!("binomesh_listener_panics_total").increment(1);
                tracing::error!("a listener has panicked and is not called any more");
            }
        }
    }
}

/// Has a function called for each message; see [`crate::Node::listen`]. Dropping it ends
/// that, but for a call that has begun.
#[derive(Debug)]
#[must_use = "dropping it ends the calls"]
pub struct Listener {
    has_ended: Arc<AtomicBool>,
}

impl Listener {
    /// Whether the function is called no more, for it has panicked.
    pub fn has_panicked(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}
