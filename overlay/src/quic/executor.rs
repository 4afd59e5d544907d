//! Runs all tasks of a node as one task of the runtime, unless they are to be spread.
//!
//! What comes to a node goes from task to task: socket, connection, stream, host, and
//! back. As tasks of a runtime with several threads each step may wake another thread,
//! and finds what it works on in another core's cache. Here the steps of a node follow
//! each other on one thread; the nodes of a process run beside each other. A node that is
//! alone and busy is better off with its connections on several cores.

mod queue;

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use async_task::{FallibleTask, Runnable};
use futures_util::future::{FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use queue::{Door, Ending, Queue};

/// How many executors run all their tasks as one, in this process.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// After so many steps of its tasks, and those that were ready then, a node lets those of
/// others have theirs. A guess: with
/// 64 nodes in a process 8 have a tenth less throughput; with 64 and more custody comes
/// late, and one to two percent are sent again.
const STEPS: usize = 24;

/// Where the tasks of a node go. Clones are the same one; it ends with the last of them
/// and of its tasks.
#[derive(Clone)]
pub struct Executor(Kind);

#[derive(Clone)]
enum Kind {
    /// One task of the runtime runs them all.
    Together(Arc<Door>),
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
        let (door, queue) = queue::open();
        // Tasks have bounds of their own, and budgets that run out wake them in vain.
        runtime.spawn(tokio::task::unconstrained(run(queue)));
        Self(Kind::Together(door))
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
            Kind::Together(door) => door.spawn(task).detach(),
            Kind::Spread(runtime) => _ = runtime.spawn(task),
        }
    }

    fn begin<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Task<T> {
        match &self.0 {
            Kind::Together(door) => Task::Together(door.spawn(task).fallible()),
            Kind::Spread(runtime) => Task::Spread(AbortOnDropHandle::new(runtime.spawn(task))),
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

async fn run(queue: Ending) {
    let _running = Running::begin();
    let mut batch = Vec::new();
    poll_fn(|cx| {
        // To be called while it is at it is in vain, but wakes another thread, which then is
        // there for the nodes that this one sends to. Without, one message in a hundred
        // took half as long again.
        let is_alone = RUNNING.load(Ordering::Relaxed) <= 1;
        queue.begin(cx.waker(), is_alone);
        turn(&queue, &mut batch, cx)
    })
    .await;
}

/// Run what is ready, and what that makes ready.
fn turn(queue: &Queue, batch: &mut Vec<Runnable>, cx: &Context<'_>) -> Poll<()> {
    let mut steps = 0;
    loop {
        if batch.is_empty()
            && let Some(ended) = queue.take(batch)
        {
            return ended;
        }
        if steps >= STEPS {
            // The batch is for the next turn.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        steps += batch.len();
        for runnable in batch.drain(..) {
            // One whose step panics is out, and the others go on.
            if catch_unwind(AssertUnwindSafe(|| runnable.run())).is_err() {
                tracing::error!("a task of a node has panicked");
            }
        }
    }
}

/// A task, which ends when this is dropped: in its next turn.
enum Task<T> {
    Together(FallibleTask<T>),
    Spread(AbortOnDropHandle<T>),
}

impl<T> Task<T> {
    /// End it, and wait until it has ended.
    async fn cancel(self) {
        match self {
            Self::Together(task) => _ = task.cancel().await,
            Self::Spread(task) => {
                task.abort();
                let _ = task.await;
            }
        }
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Together(task) => task.poll_unpin(cx).map(|said| said.ok_or(Panicked)),
            Self::Spread(task) => task.poll_unpin(cx).map(|said| said.map_err(|_| Panicked)),
        }
    }
}

/// Tasks that belong together. They are ended when this is dropped.
pub(super) struct Group<T> {
    executor: Executor,
    running: FuturesUnordered<Task<T>>,
}

impl<T: Send + 'static> Group<T> {
    pub(super) fn new(executor: &Executor) -> Self {
        Self {
            executor: executor.clone(),
            running: FuturesUnordered::new(),
        }
    }

    pub(super) fn spawn(&self, task: impl Future<Output = T> + Send + 'static) {
        self.running.push(self.executor.begin(task));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// What the next one that ends has to say: nothing, if it has panicked. None if all
    /// have ended.
    pub(super) async fn join_next(&mut self) -> Option<Result<T, Panicked>> {
        self.running.next().await
    }

    /// Drop what those have to say that have ended.
    pub(super) fn forget_ended(&mut self) {
        while let Some(Some(_)) = self.running.next().now_or_never() {}
    }

    /// End all, and wait until they have ended.
    pub(super) async fn shutdown(&mut self) {
        let running = std::mem::take(&mut self.running);
        join_all(running.into_iter().map(Task::cancel)).await;
    }
}

/// A task has panicked.
#[derive(Debug)]
pub(super) struct Panicked;

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, Weak};

    use tokio::sync::oneshot;

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
        let Kind::Together(door) = &executor.0 else {
            unreachable!("as begun");
        };
        let queue = door.queue();
        drop((executor, held));
        tokio::task::yield_now().await;
        assert_eq!(weak.strong_count(), 1, "its task has not ended yet");
        go.send(()).unwrap();
        is_gone(&weak).await;
        is_gone(&queue).await;
    }

    /// Else what a task holds would never be closed: it is held by whoever wakes it, and
    /// that may be held by the task.
    #[test]
    fn tasks_are_dropped_with_the_runtime_and_begin_no_more() {
        for spread in [false, true] {
            let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
            let executor = match spread {
                false => Executor::together(runtime.handle()),
                true => Executor::spread(runtime.handle()),
            };
            let held = Arc::new(tokio::sync::Notify::new());
            let weak = Arc::downgrade(&held);
            let (ready, is_ready) = std::sync::mpsc::channel();
            executor.spawn(async move {
                let mut woken = std::pin::pin!(held.notified());
                poll_fn(|cx| {
                    let _ = woken.as_mut().poll(cx);
                    let _ = ready.send(());
                    Poll::<()>::Pending
                })
                .await;
            });
            is_ready.recv().unwrap();
            drop(runtime);
            assert_eq!(weak.strong_count(), 0, "spread: {spread}");
            let late = Arc::new(());
            let weak = Arc::downgrade(&late);
            let task = executor.begin(async move { drop(late) });
            assert_eq!(weak.strong_count(), 0, "spread: {spread}");
            assert!(matches!(task.now_or_never(), Some(Err(Panicked))));
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
    async fn a_node_that_is_busy_lets_others_have_their_turns() {
        let executor = together();
        let steps = Arc::new(AtomicUsize::new(0));
        let counted = steps.clone();
        executor.spawn(async move {
            for _ in 0..10_000 * STEPS {
                counted.fetch_add(1, Ordering::Relaxed);
                others_first().await;
            }
        });
        tokio::task::yield_now().await;
        let taken = steps.load(Ordering::Relaxed);
        assert!(taken.is_multiple_of(STEPS), "{taken}");
        // tokio itself may give it many turns in a row.
        assert!((STEPS..5_000 * STEPS).contains(&taken), "{taken}");
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

    /// A waking that is lost leaves the task asleep.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whoever_wakes_a_task_from_another_thread_is_heard() {
        const ROUNDS: usize = 20_000;
        let executor = together();
        let (ask, mut asked) = tokio::sync::mpsc::channel(1);
        let (answer, answered) = std::sync::mpsc::channel();
        executor.spawn(async move {
            while let Some(number) = asked.recv().await {
                let _ = answer.send(number);
            }
        });
        let limit = std::time::Duration::from_secs(20);
        let asking = tokio::task::spawn_blocking(move || {
            for number in 0..ROUNDS {
                ask.blocking_send(number).unwrap();
                assert_eq!(answered.recv_timeout(limit), Ok(number));
            }
        });
        asking.await.unwrap();
    }

    #[tokio::test]
    async fn who_ends_a_group_goes_on_when_its_tasks_are_gone() {
        for executor in both() {
            let mut group = Group::new(&executor);
            let held = Arc::new(());
            for _ in 0..3 {
                let held = held.clone();
                let (begun, has_begun) = oneshot::channel();
                group.spawn(async move {
                    let _ = begun.send(());
                    std::future::pending::<()>().await;
                    drop(held);
                });
                has_begun.await.unwrap();
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
