//! Runs all tasks of a node as one task of the runtime, unless they are to be spread.
//!
//! What comes to a node goes from task to task: socket, connection, stream, host, and
//! back. As tasks of a runtime with several threads each step may wake another thread,
//! and finds what it works on in another core's cache. Here the steps of a node follow
//! each other on one thread; the nodes of a process run beside each other. A node that is
//! alone and busy is better off with its connections on several cores.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// How many executors run all their tasks as one, in this process.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the tasks of a node go. Clones are the same one; it ends with the last of them
/// and of its tasks.
#[derive(Clone)]
pub struct Executor(Kind);

#[derive(Clone)]
enum Kind {
    /// One task of the runtime runs them all. New ones wait here until its next turn: no
    /// more than a node has tasks, which the bounds of its links and streams are bounds of.
    Together(mpsc::UnboundedSender<Task>),
    /// Each is a task of the runtime.
    Spread(Handle),
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

impl Executor {
    /// Run tasks as one of `runtime`.
    pub fn together(runtime: &Handle) -> Self {
        let (new, tasks) = mpsc::unbounded_channel();
        // Tasks have bounds of their own, and budgets that run out wake them in vain.
        runtime.spawn(tokio::task::unconstrained(run(tasks)));
        Self(Kind::Together(new))
    }

    /// Run each by itself on the threads of `runtime`.
    pub fn spread(runtime: &Handle) -> Self {
        Self(Kind::Spread(runtime.clone()))
    }

    /// Let all go first that is ready in this process, and what that makes ready at other
    /// nodes in it, for so many rounds. A node that is alone gives way once.
    pub(super) async fn give_way(rounds: usize) {
        let others = RUNNING.load(Ordering::Relaxed).saturating_sub(1);
        for _ in 0..others.min(rounds).max(1) {
            tokio::task::yield_now().await;
        }
    }

    /// Run a task to its end. A panic is its end, too.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.0 {
            // Nobody is there only when the runtime ends, which drops all tasks.
            Kind::Together(new) => _ = new.send(Box::pin(task)),
            Kind::Spread(runtime) => _ = runtime.spawn(task),
        }
    }
}

/// Let the other tasks of the node that are ready run before this one goes on. tokio's
/// own `yield_now` would wait for those of all nodes.
pub async fn others_first() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Counts as running.
struct Running;

impl Running {
    fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn run(mut new: mpsc::UnboundedReceiver<Task>) {
    let _running = Running::begin();
    let begun = Begun::default();
    let mut running: FuturesUnordered<Task> = FuturesUnordered::new();
    // One of them, so that new ones are asked for only when there are some.
    let begin = begun.clone();
    running.push(Box::pin(async move {
        while let Some(task) = new.recv().await {
            begin.lock().push(task);
        }
    }));
    poll_fn(|cx| {
        loop {
            // The set takes out one that panics, and the others go on.
            let next = AssertUnwindSafe(|| running.poll_next_unpin(cx));
            let polled = match catch_unwind(next) {
                Ok(Poll::Ready(Some(()))) => continue,
                Ok(Poll::Ready(None)) => Poll::Ready(()),
                Ok(Poll::Pending) => Poll::Pending,
                Err(_) => {
                    tracing::error!("a task of a node has panicked");
                    continue;
                }
            };
            let begun = std::mem::take(&mut *begun.lock());
            if begun.is_empty() {
                return polled;
            }
            running.extend(begun);
        }
    })
    .await;
}

/// Tasks that have begun and are not among those that run.
#[derive(Clone, Default)]
struct Begun(Arc<Mutex<Vec<Task>>>);

impl Begun {
    fn lock(&self) -> MutexGuard<'_, Vec<Task>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tasks that belong together. They are ended when this is dropped.
pub(super) struct Group<T> {
    executor: Executor,
    running: FuturesUnordered<oneshot::Receiver<T>>,
    tracker: TaskTracker,
}

impl<T: Send + 'static> Group<T> {
    pub(super) fn new(executor: &Executor) -> Self {
        Self {
            executor: executor.clone(),
            running: FuturesUnordered::new(),
            tracker: TaskTracker::new(),
        }
    }

    pub(super) fn spawn(&self, task: impl Future<Output = T> + Send + 'static) {
        let (mut ended, end) = oneshot::channel();
        self.executor.spawn(self.tracker.track_future(async move {
            let said = tokio::select! {
                biased;
                () = ended.closed() => return,
                said = task => said,
            };
            let _ = ended.send(said);
        }));
        self.running.push(end);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// What the next one that ends has to say: nothing, if it has panicked. None if all
    /// have ended.
    pub(super) async fn join_next(&mut self) -> Option<Result<T, Panicked>> {
        let end = self.running.next().await?;
        Some(end.map_err(|_| Panicked))
    }

    /// Drop what those have to say that have ended.
    pub(super) fn forget_ended(&mut self) {
        while let Some(Some(_)) = self.running.next().now_or_never() {}
    }

    /// End all, and wait until they have ended.
    pub(super) async fn shutdown(&mut self) {
        self.running.clear();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// A task has panicked.
#[derive(Debug)]
pub(super) struct Panicked;

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;

    fn together() -> Executor {
        Executor::together(&Handle::current())
    }

    fn both() -> [Executor; 2] {
        [together(), Executor::spread(&Handle::current())]
    }

    async fn is_gone<T>(what: &Weak<T>) {
        while what.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn it_ends_with_the_last_handle_and_the_last_task() {
        let executor = together();
        let (go, gone) = oneshot::channel::<()>();
        let held = Arc::new(());
        let (inner, weak) = (executor.clone(), Arc::downgrade(&held));
        let first = held.clone();
        executor.spawn(async move {
            let _ = gone.await;
            // A task can begin others.
            inner.spawn(async move { drop(first) });
        });
        let Kind::Together(queue) = &executor.0 else {
            unreachable!("as begun");
        };
        let queue = queue.downgrade();
        drop((executor, held));
        tokio::task::yield_now().await;
        assert_eq!(weak.strong_count(), 1, "its task has not ended yet");
        go.send(()).unwrap();
        is_gone(&weak).await;
        while queue.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn all_tasks_of_one_executor_run_on_one_thread_at_a_time() {
        let executor = together();
        let mut group = Group::new(&executor);
        let inside = Arc::new(Mutex::new(()));
        for _ in 0..16 {
            let inside = inside.clone();
            group.spawn(async move {
                for _ in 0..100 {
                    let alone = inside.try_lock().expect("nobody else is running");
                    // For long enough that others would be met.
                    (0..10_000).for_each(|step| _ = std::hint::black_box(step));
                    drop(alone);
                    tokio::task::yield_now().await;
                }
            });
        }
        while let Some(ended) = group.join_next().await {
            ended.unwrap();
        }
    }

    #[tokio::test]
    async fn who_gives_way_does_so_for_some_rounds_if_there_are_others() {
        const ROUNDS: usize = 6;
        let all: Vec<Executor> = (0..=ROUNDS).map(|_| together()).collect();
        let steps = Arc::new(AtomicUsize::new(0));
        let counted = steps.clone();
        all[0].spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        // Each is counted once it has run.
        tokio::task::yield_now().await;
        let before = steps.load(Ordering::Relaxed);
        Executor::give_way(ROUNDS).await;
        let rounds = steps.load(Ordering::Relaxed) - before;
        assert!((ROUNDS - 1..=ROUNDS + 1).contains(&rounds), "{rounds}");
    }

    #[tokio::test]
    async fn a_task_that_panics_is_the_only_one_to_end() {
        for executor in both() {
            let mut group = Group::new(&executor);
            let (go, gone) = oneshot::channel();
            group.spawn(async move { gone.await.unwrap_or(0) });
            group.spawn(async { panic!("as planned") });
            assert!(matches!(group.join_next().await, Some(Err(Panicked))));
            executor.spawn(async { panic!("as planned, too") });
            go.send(7).unwrap();
            assert!(matches!(group.join_next().await, Some(Ok(7))));
            assert!(group.join_next().await.is_none() && group.is_empty());
        }
    }

    #[tokio::test]
    async fn who_ends_a_group_goes_on_when_its_tasks_are_gone() {
        for executor in both() {
            let mut group = Group::new(&executor);
            let held = Arc::new(());
            for _ in 0..3 {
                let held = held.clone();
                group.spawn(async move {
                    std::future::pending::<()>().await;
                    drop(held);
                });
            }
            assert_eq!(Arc::strong_count(&held), 4);
            group.shutdown().await;
            assert_eq!(Arc::strong_count(&held), 1);
            assert!(group.join_next().await.is_none());
        }
    }

    #[tokio::test]
    async fn a_group_that_is_dropped_ends_its_tasks() {
        let executor = together();
        let group = Group::new(&executor);
        let held = Arc::new(());
        let (weak, inner) = (Arc::downgrade(&held), held);
        group.spawn(async move {
            std::future::pending::<()>().await;
            drop(inner);
        });
        tokio::task::yield_now().await;
        drop(group);
        is_gone(&weak).await;
    }
}
