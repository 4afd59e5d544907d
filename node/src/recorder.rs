//! Metrics of one node among many in a process. No recorder is installed globally.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The destination of one node's metrics.
pub type SharedRecorder = Arc<dyn metrics::Recorder + Send + Sync>;

/// Do `work` with `recorder` for its metrics, or with the process's own recorder if there is none.
pub(crate) fn recording<T>(recorder: Option<&SharedRecorder>, work: impl FnOnce() -> T) -> T {
    match recorder {
        Some(recorder) => metrics::with_local_recorder(recorder, work),
        None => work(),
    }
}

/// A future that records its metrics with one recorder, on whatever thread it is polled.
pub(crate) struct Recorded<F> {
    recorder: Option<SharedRecorder>,
    inner: Pin<Box<F>>,
}

impl<F> Recorded<F> {
    pub(crate) fn new(recorder: Option<SharedRecorder>, inner: F) -> Self {
        let inner = Box::pin(inner);
        Self { recorder, inner }
    }
}

impl<F: Future> Future for Recorded<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { recorder, inner } = &mut *self;
        recording(recorder.as_ref(), || inner.as_mut().poll(context))
    }
}
