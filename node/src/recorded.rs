//! Metrics of one node among many in a process: nothing is installed globally.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Where the metrics of one node go.
pub type SharedRecorder = Arc<dyn metrics::Recorder + Send + Sync>;

/// Do `work` with its metrics going to `recorder`, or to the process's own
/// recorder if there is none.
pub(crate) fn recording<T>(recorder: Option<&SharedRecorder>, work: impl FnOnce() -> T) -> T {
    match recorder {
        Some(recorder) => metrics::with_local_recorder(recorder, work),
        None => work(),
    }
}

/// A future whose metrics go to one recorder, whichever thread polls it.
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
