//! Tracing: every call is a span with its outcome. A wrapper, so that stores need no tracing code.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq, Status, WorkflowName};
use tracing::{Instrument, Span, debug, debug_span, error, field, warn};

use crate::api::{
    Append, ClaimRequest, ClaimedTasks, Expect, GroupQuery, Groups, Head, LockFilter, NodeRecord, NodeSeen,
    Page, Record, RecordKind, Row, RunFilter, Store, TaskFilter, Unproven, UnprovenFilter, Unreadable,
    Written,
};
use crate::audit::AuditLog;
use crate::error::StoreError;
use crate::feed::Feed;
use crate::foreign::{ForeignState, ForeignStates};
use crate::forward::foreign_of;
use crate::pace::StorePace;

/// A clock in microseconds, from any origin.
pub type Micros = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A store whose calls are `tracing` spans: fields `op`, `run`, `outcome` and, with a clock, `micros`.
pub struct TracedStore {
    inner: Arc<dyn Store>,
    micros: Option<Micros>,
}

impl TracedStore {
    /// Traces the calls of `inner`, without measuring them.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, micros: None }
    }

    /// Also measures the calls.
    #[must_use]
    pub fn measured_by(mut self, micros: Micros) -> Self {
        self.micros = Some(micros);
        self
    }

    async fn call<T>(
        &self,
        span: Span,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let begun = self.micros.as_ref().map(|now| now());
        let outcome = work.instrument(span.clone()).await;
        let taken = self.micros.as_ref().zip(begun).map(|(now, begun)| now().saturating_sub(begun));
        span.record("outcome", word(&outcome));
        if let Some(micros) = taken {
            span.record("micros", micros);
        }
        span.in_scope(|| tell(&outcome));
        outcome
    }
}

/// Returns an outcome in one word.
fn word<T>(outcome: &Result<T, StoreError>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(StoreError::Conflict { .. }) => "conflict",
        Err(StoreError::Busy { .. }) => "busy",
        Err(StoreError::Unknown { .. }) => "unknown",
        Err(StoreError::Full { .. }) => "full",
        Err(StoreError::Damaged { .. }) => "damaged",
        Err(StoreError::Refused { .. }) => "refused",
    }
}

/// Logs an outcome at the level that fits the caller's next action.
fn tell<T>(outcome: &Result<T, StoreError>) {
    match outcome {
        Ok(_) | Err(StoreError::Conflict { .. }) => debug!("called"),
        Err(failed @ (StoreError::Busy { .. } | StoreError::Unknown { .. } | StoreError::Refused { .. })) => {
            warn!(error = %failed, cause = cause(failed), "called");
        }
        Err(failed @ (StoreError::Full { .. } | StoreError::Damaged { .. })) => {
            error!(error = %failed, cause = cause(failed), "called");
        }
    }
}

fn cause(failed: &StoreError) -> Option<String> {
    std::error::Error::source(failed).map(ToString::to_string)
}

/// The span of a call, with its run, if it has one.
macro_rules! span {
    ($op:literal) => {
        debug_span!("store", op = $op, run = field::Empty, outcome = field::Empty, micros = field::Empty)
    };
    ($op:literal, $run:expr) => {
        debug_span!("store", op = $op, run = %$run, outcome = field::Empty, micros = field::Empty)
    };
}

impl fmt::Debug for TracedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracedStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for TracedStore {
    async fn append(&self, append: Append) -> Result<Seq, StoreError> {
        let span = span!("append", append.run);
        self.call(span, self.inner.append(append)).await
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.call(span!("read", run), self.inner.read(run, after, limit)).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        self.call(span!("head", run), self.inner.head(run)).await
    }

    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        self.call(span!("trim", run), self.inner.trim(run, first)).await
    }

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        let span = span!("put_task");
        if let Some(run) = &task.run {
            span.record("run", field::display(run));
        }
        self.call(span, self.inner.put_task(task, expect)).await
    }

    async fn claim(&self, claim: ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        self.call(span!("claim"), self.inner.claim(claim)).await
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        self.call(span!("tasks"), self.inner.tasks(filter)).await
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        self.call(span!("put_lock"), self.inner.put_lock(lock, expect)).await
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        self.call(span!("locks"), self.inner.locks(filter)).await
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        let span = span!("put_row", row.summary.run);
        self.call(span, self.inner.put_row(row, expect)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        self.call(span!("runs"), self.inner.runs(filter)).await
    }

    async fn groups(&self, query: GroupQuery) -> Result<Groups, StoreError> {
        self.call(span!("groups"), self.inner.groups(query)).await
    }

    async fn status_counts(&self, workflow: Option<&WorkflowName>) -> Result<Vec<(Status, u64)>, StoreError> {
        self.call(span!("status_counts"), self.inner.status_counts(workflow)).await
    }

    async fn unreadable(
        &self,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Unreadable>, StoreError> {
        self.call(span!("unreadable"), self.inner.unreadable(kind, after, limit)).await
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        self.call(span!("rowless"), self.inner.rowless(after, limit)).await
    }

    async fn unproven(&self, filter: UnprovenFilter) -> Result<Unproven, StoreError> {
        self.call(span!("unproven"), self.inner.unproven(filter)).await
    }

    fn watches(&self) -> bool {
        self.inner.watches()
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        self.call(span!("beat"), self.inner.beat(node)).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.call(span!("nodes"), self.inner.nodes()).await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        self.call(span!("forget"), self.inner.forget(node)).await
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        self.call(span!("changed"), self.inner.changed(seen)).await
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.call(span!("now"), self.inner.now()).await
    }

    fn pace(&self) -> StorePace {
        self.inner.pace()
    }

    fn feed(&self) -> Option<&dyn Feed> {
        self.inner.feed()
    }

    fn audit(&self) -> Option<&dyn AuditLog> {
        self.inner.audit()
    }

    fn foreign(&self) -> Option<&dyn ForeignStates> {
        self.inner.foreign().is_some().then_some(self as &dyn ForeignStates)
    }
}

#[async_trait]
impl ForeignStates for TracedStore {
    async fn states(&self, after: Option<&str>, limit: u32) -> Result<Page<ForeignState>, StoreError> {
        self.call(span!("foreign_states"), foreign_of(&*self.inner).states(after, limit)).await
    }

    fn settled(&self, id: &RunId, version: &str) {
        foreign_of(&*self.inner).settled(id, version);
    }

    async fn unnamed(&self) -> Result<Vec<String>, StoreError> {
        foreign_of(&*self.inner).unnamed().await
    }

    async fn swap(&self, id: &RunId, version: &str, body: &str) -> Result<Written<ForeignState>, StoreError> {
        let swap = foreign_of(&*self.inner).swap(id, version, body);
        self.call(span!("swap_foreign", id), swap).await
    }
}
