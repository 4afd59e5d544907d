//! The tasks of one executor: those that are ready, in their order, and where all of them
//! are.
//!
//! A step of a task touches the task, the end of one list and nothing of its neighbours:
//! what nodes in one process touch has to fit in the caches they share.

use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use async_task::{Runnable, Task};
use futures_util::task::AtomicWaker;
use slab::Slab;

/// How often whoever ends all tasks looks for those that another thread is just waking, a
/// millisecond apart: that takes a few instructions, but the thread may not be running.
const ENDING: usize = 5_000;

/// What is ready, and of whom.
#[derive(Default)]
pub(super) struct Queue {
    ready: Mutex<Ready>,
    /// Of the task of the runtime that runs them.
    runner: AtomicWaker,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Ready {
    /// Oldest first; no more than there are tasks.
    tasks: Vec<Runnable>,
    /// Whoever runs them is on its way, and looks here before it sleeps.
    is_awake: bool,
    /// No task is left, and none can begin.
    is_over: bool,
}

/// All tasks, so that they can be ended with the runtime. No more than a node has, which
/// the bounds of its links and streams are bounds of.
#[derive(Default)]
struct Live {
    tasks: Slab<Waker>,
    /// Nobody runs them any more.
    is_over: bool,
}

/// A new queue, from its two sides.
pub(super) fn open() -> (Arc<Door>, Ending) {
    let queue = Arc::<Queue>::default();
    (Arc::new(Door(queue.clone())), Ending(queue))
}

impl Queue {
    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, task: Runnable) {
        let mut ready = self.ready();
        ready.tasks.push(task);
        let is_awake = std::mem::replace(&mut ready.is_awake, true);
        drop(ready);
        if !is_awake {
            self.runner.wake();
        }
    }

    /// Whoever runs them begins a turn, and is woken by `waker` from now on. Unless it counts
    /// as awake, what becomes ready in this turn wakes it, too.
    pub(super) fn begin(&self, waker: &Waker, is_awake: bool) {
        self.runner.register(waker);
        self.ready().is_awake = is_awake;
    }

    /// Move what is ready to `batch`, which is empty. If nothing is, it says whether there
    /// is something to wait for.
    pub(super) fn take(&self, batch: &mut Vec<Runnable>) -> Option<Poll<()>> {
        let mut ready = self.ready();
        if !ready.tasks.is_empty() {
            std::mem::swap(&mut ready.tasks, batch);
            return None;
        }
        ready.is_awake = false;
        Some(match ready.is_over {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
    }
}

/// Where tasks come in. Each holds it, and so does whoever may wake one; it closes behind
/// the last of them and of the executor's handles.
pub(super) struct Door(Arc<Queue>);

impl Drop for Door {
    fn drop(&mut self) {
        self.0.ready().is_over = true;
        self.0.runner.wake();
    }
}

impl Door {
    #[cfg(test)]
    pub(super) fn queue(&self) -> std::sync::Weak<Queue> {
        Arc::downgrade(&self.0)
    }

    /// Begin a task. Once the runtime has ended it ends at once.
    pub(super) fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        let mut live = self.0.live();
        let place = live.tasks.vacant_entry();
        let alive = Alive(self.0.clone(), place.key());
        let door = self.clone();
        let (runnable, task) = async_task::spawn(
            async move {
                let _alive = alive;
                task.await
            },
            move |runnable| door.0.push(runnable),
        );
        place.insert(runnable.waker());
        // Whoever ends them all finds it among those that are ready, or waits for the lock.
        let refused = match live.is_over {
            true => Some(runnable),
            false => {
                runnable.schedule();
                None
            }
        };
        drop(live);
        drop(refused);
        task
    }
}

/// A task that is among the living.
struct Alive(Arc<Queue>, usize);

impl Drop for Alive {
    fn drop(&mut self) {
        let waker = self.0.live().tasks.try_remove(self.1);
        drop(waker);
    }
}

/// The side of whoever runs the tasks. When it is dropped, so are they.
pub(super) struct Ending(Arc<Queue>);

impl Deref for Ending {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.0
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "another thread is between two instructions: no event tells when it is not"
)]
fn wait_a_moment() {
    std::thread::sleep(Duration::from_millis(1));
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut live = self.0.live();
        live.is_over = true;
        let all: Vec<Waker> = live.tasks.iter().map(|(_, waker)| waker.clone()).collect();
        drop(live);
        // A task can only be dropped by way of what makes it ready, and not by whoever does:
        // that may hold locks that the task takes when it is dropped.
        all.into_iter().for_each(Waker::wake);
        for _ in 0..ENDING {
            let ready = std::mem::take(&mut self.0.ready().tasks);
            drop(ready);
            if self.0.live().tasks.is_empty() {
                return;
            }
            wait_a_moment();
        }
        tracing::error!("tasks of a node are left when their runtime ends");
    }
}
