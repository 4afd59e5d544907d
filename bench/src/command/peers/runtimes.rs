//! Threads for many nodes in one process. There is a single-threaded runtime for each core, and the
//! nodes are shared out among the runtimes, as in a program with many nodes. All tasks of a node
//! stay on one thread, so work within the node wakes no other thread.

use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::command::Failure;

/// The runtimes. They and their tasks end when this is dropped.
pub(super) struct Runtimes {
    all: Vec<Running>,
}

struct Running {
    handle: Handle,
    /// Dropping this sender ends the thread.
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Runtimes {
    /// Start a runtime for each core.
    pub(super) fn start() -> Result<Self, Failure> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let all: Result<_, _> = (0..cores).map(|_| Running::start()).collect();
        Ok(Self { all: all? })
    }

    /// The runtime of a node.
    pub(super) fn of(&self, node: u32) -> &Handle {
        &self.all[node as usize % self.all.len()].handle
    }
}

impl Running {
    fn start() -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::run)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = runtime.block_on(stopped);
        });
        Ok(Self {
            handle,
            stop,
            thread,
        })
    }
}

impl Drop for Runtimes {
    fn drop(&mut self) {
        for Running { stop, thread, .. } in self.all.drain(..) {
            drop(stop);
            // A thread that has panicked has already printed that.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_shared_out_and_their_tasks_end_with_the_runtimes() {
        let runtimes = Runtimes::start().unwrap();
        let cores = runtimes.all.len() as u32;
        assert_eq!(runtimes.of(0).id(), runtimes.of(cores).id());
        assert!(cores < 2 || runtimes.of(0).id() != runtimes.of(1).id());
        let task = runtimes.of(1).spawn(std::future::pending::<()>());
        drop(runtimes);
        assert!(task.is_finished());
    }
}
