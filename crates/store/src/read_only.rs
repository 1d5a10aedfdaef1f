//! A read-only store: every write is refused, with the reason.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Hint, Millis, NodeId, RunId, Seq, Status, WorkflowName};

use crate::api::{
    Append, ClaimRequest, ClaimedTasks, Expect, GroupQuery, Groups, Head, LockFilter, NodeRecord, NodeSeen,
    Page, Record, RecordKind, Row, RunFilter, Store, TaskFilter, Unproven, UnprovenFilter, Unreadable,
    Written,
};
use crate::audit::{AuditEntry, AuditFilter, AuditLog};
use crate::error::StoreError;
use crate::feed::{ChangedRuns, Feed, FeedEvent};
use crate::foreign::{ForeignState, ForeignStates};
use crate::forward::{audit_of, foreign_of};
use crate::pace::StorePace;

/// The reason why a store is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Stable code with a page in `docs/codes`.
    pub code: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: Hint,
}

impl From<Closed> for StoreError {
    fn from(closed: Closed) -> Self {
        let Closed { code, what, hint } = closed;
        Self::Refused { code, what, hint }
    }
}

/// A store that allows reads and refuses writes.
pub struct ClosedStore {
    inner: Arc<dyn Store>,
    closed: Closed,
}

impl ClosedStore {
    /// Closes `inner` for this reason.
    pub fn new(inner: Arc<dyn Store>, closed: Closed) -> Self {
        Self { inner, closed }
    }

    fn refuse<T>(&self) -> Result<T, StoreError> {
        Err(self.closed.clone().into())
    }
}

impl fmt::Debug for ClosedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClosedStore").field("inner", &self.inner).field("closed", &self.closed).finish()
    }
}

#[async_trait]
impl Store for ClosedStore {
    async fn append(&self, _: Append) -> Result<Seq, StoreError> {
        self.refuse()
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.inner.read(run, after, limit).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        self.inner.head(run).await
    }

    async fn trim(&self, _: &RunId, _: Seq) -> Result<(), StoreError> {
        self.refuse()
    }

    async fn put_task(&self, _: Task, _: Expect) -> Result<Written<Task>, StoreError> {
        self.refuse()
    }

    async fn claim(&self, _: ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        self.refuse()
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        self.inner.tasks(filter).await
    }

    async fn put_lock(&self, _: Lock, _: Expect) -> Result<Written<Lock>, StoreError> {
        self.refuse()
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        self.inner.locks(filter).await
    }

    async fn put_row(&self, _: Row, _: Expect) -> Result<Written<Row>, StoreError> {
        self.refuse()
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        self.inner.runs(filter).await
    }

    async fn groups(&self, query: GroupQuery) -> Result<Groups, StoreError> {
        self.inner.groups(query).await
    }

    async fn status_counts(&self, workflow: Option<&WorkflowName>) -> Result<Vec<(Status, u64)>, StoreError> {
        self.inner.status_counts(workflow).await
    }

    async fn unreadable(
        &self,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Unreadable>, StoreError> {
        self.inner.unreadable(kind, after, limit).await
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        self.inner.rowless(after, limit).await
    }

    async fn unproven(&self, filter: UnprovenFilter) -> Result<Unproven, StoreError> {
        self.inner.unproven(filter).await
    }

    fn watches(&self) -> bool {
        self.inner.watches()
    }

    async fn beat(&self, _: &NodeRecord) -> Result<Millis, StoreError> {
        self.refuse()
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.inner.nodes().await
    }

    async fn forget(&self, _: &NodeId) -> Result<(), StoreError> {
        self.refuse()
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        self.inner.changed(seen).await
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.inner.now().await
    }

    fn pace(&self) -> StorePace {
        self.inner.pace()
    }

    fn feed(&self) -> Option<&dyn Feed> {
        let feed = self.inner.feed()?;
        Some(if feed.is_written_by_readers() { self as &dyn Feed } else { feed })
    }

    fn audit(&self) -> Option<&dyn AuditLog> {
        self.inner.audit().is_some().then_some(self as &dyn AuditLog)
    }

    fn foreign(&self) -> Option<&dyn ForeignStates> {
        self.inner.foreign().is_some().then_some(self as &dyn ForeignStates)
    }
}

/// The feed of a store whose readers write it: every read is refused.
#[async_trait]
impl Feed for ClosedStore {
    async fn events_after(&self, _: Option<&str>, _: u32) -> Result<Vec<FeedEvent>, StoreError> {
        self.refuse()
    }

    async fn latest(&self) -> Result<Option<String>, StoreError> {
        self.refuse()
    }

    async fn changed_runs(&self, _: Option<&str>) -> Result<ChangedRuns, StoreError> {
        self.refuse()
    }

    fn finds_changes_cheaply(&self) -> bool {
        false
    }

    fn is_written_by_readers(&self) -> bool {
        true
    }
}

#[async_trait]
impl AuditLog for ClosedStore {
    async fn audit_entries(&self, filter: AuditFilter) -> Result<Page<AuditEntry>, StoreError> {
        audit_of(&*self.inner).audit_entries(filter).await
    }

    async fn trim_audit(&self, _: Millis, _: u32) -> Result<u64, StoreError> {
        self.refuse()
    }
}

#[async_trait]
impl ForeignStates for ClosedStore {
    async fn states(&self, after: Option<&str>, limit: u32) -> Result<Page<ForeignState>, StoreError> {
        foreign_of(&*self.inner).states(after, limit).await
    }

    fn settled(&self, id: &RunId, version: &str) {
        foreign_of(&*self.inner).settled(id, version);
    }

    async fn unnamed(&self) -> Result<Vec<String>, StoreError> {
        foreign_of(&*self.inner).unnamed().await
    }

    async fn swap(&self, _: &RunId, _: &str, _: &str) -> Result<Written<ForeignState>, StoreError> {
        self.refuse()
    }
}
