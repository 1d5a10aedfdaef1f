//! Spans around user code, and the operation that is executing.
//!
//! All spans have the target [`TARGET`] and the level info. A subscriber that wants none of them costs a step a few
//! nanoseconds: fields are formatted only for an interested subscriber.

use std::future::Future;
use std::sync::Arc;

use goldseam_core::trace::{key_of, undo_path};
use goldseam_core::{Path, RunId, TraceContext};
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span, info_span};

use crate::run::live_run::LiveRun;

tokio::task_local! {
    static CURRENT: CurrentOperation;
}

/// The step or compensation whose code is executing.
#[derive(Clone)]
struct CurrentOperation {
    live: Arc<LiveRun>,
    key: Arc<str>,
}

/// Returns the span of an execution of a run.
pub(crate) fn run(live: &LiveRun) -> Span {
    let span = info_span!(
        target: "goldseam",
        parent: None,
        "run",
        run = %live.run,
        workflow = Empty,
        version = Empty,
        branch = Empty,
        parent = Empty,
        trace_id = Empty,
    );
    if !span.is_disabled() {
        let inner = live.lock();
        let summary = &inner.state.summary;
        span.record("workflow", display(&summary.workflow));
        span.record("version", summary.version);
        span.record("branch", display(summary.branch));
        if let Some(parent) = &summary.parent {
            span.record("parent", display(parent));
        }
        if let Some(trace) = &live.trace {
            span.record("trace_id", trace.trace_id());
        }
    }
    span
}

/// Returns the span of a step or group, within the span of its run.
pub(crate) fn step(path: &Path) -> Span {
    info_span!(target: "goldseam", "step", path = %path)
}

/// Returns the span of a compensation, within the span of its run.
pub(crate) fn compensation(path: &Path) -> Span {
    info_span!(target: "goldseam", "compensation", path = %path)
}

/// Returns the span of the creation of a child and the wait for its end.
pub(crate) fn child(path: &Path, child: &RunId) -> Span {
    info_span!(target: "goldseam", "child", path = %path, child = %child)
}

/// The surroundings of user code that executes for an operation.
pub(crate) struct OperationScope {
    span: Span,
    current: CurrentOperation,
}

impl OperationScope {
    /// The scope of an attempt of a step or compensation with this idempotency key.
    pub(crate) fn attempt(live: &Arc<LiveRun>, operation: &Span, attempt: u32, key: Arc<str>) -> Self {
        let span = operation.in_scope(|| info_span!(target: "goldseam", "attempt", attempt));
        Self { span, current: CurrentOperation { live: Arc::clone(live), key } }
    }

    /// Calls the function that returns the future of the attempt.
    pub(crate) fn call<R>(&self, call: impl FnOnce() -> R) -> R {
        self.span.in_scope(|| CURRENT.sync_scope(self.current.clone(), call))
    }

    /// Polls `work` in this scope.
    pub(crate) fn wrap<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self.current, work).instrument(self.span)
    }
}

/// Returns the key from which the span of a compensation follows.
pub(crate) fn undo_key(live: &LiveRun, path: &Path) -> Arc<str> {
    if live.trace.is_none() {
        return Arc::from("");
    }
    let inner = live.lock();
    let generation = inner.state.branches.generation(inner.state.summary.branch);
    Arc::from(key_of(&live.run, generation, &undo_path(path.as_str())))
}

/// Returns the key of the operation of this run whose code is executing, if one is.
fn current_key(live: &Arc<LiveRun>) -> Option<Arc<str>> {
    let key = |current: &CurrentOperation| Arc::ptr_eq(&current.live, live).then(|| Arc::clone(&current.key));
    CURRENT.try_with(key).ok().flatten()
}

/// Whether the code of a step or compensation of this run is executing.
pub(crate) fn is_in_operation(live: &Arc<LiveRun>) -> bool {
    current_key(live).is_some()
}

/// Returns the trace context for calls of other systems: within the executing operation, otherwise within the run.
pub(crate) fn trace_context(live: &Arc<LiveRun>) -> Option<TraceContext> {
    let trace = live.trace.as_ref()?;
    Some(match current_key(live) {
        Some(key) => trace.within(&key),
        None => trace.within_run(&live.run),
    })
}
