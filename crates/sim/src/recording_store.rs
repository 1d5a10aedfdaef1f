//! The innermost store wrapper: records every call that reaches the store, in order.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goldseam_core::codec::decode;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq};
use goldseam_store::{
    Append, AuditLog, ClaimRequest, ClaimedTasks, Expect, Feed, ForeignStates, Head, LockFilter, NodeRecord,
    NodeSeen, Page, Record, RecordKind, Row, RunFilter, Store, StoreError, StorePace, TaskFilter, Unproven,
    UnprovenFilter, Unreadable, Written,
};

use crate::journal::{CallLoop, Journal};
use crate::random::fold;

/// A connection to the store whose calls are recorded.
pub struct RecordingStore {
    inner: Arc<dyn Store>,
    journal: Arc<Journal>,
    by: usize,
}

impl RecordingStore {
    /// Creates the connection of node `by`.
    pub fn new(inner: Arc<dyn Store>, journal: Arc<Journal>, by: usize) -> Self {
        Self { inner, journal, by }
    }

    async fn put<T>(&self, what: &str, written: &Result<Written<T>, StoreError>) {
        if matches!(written, Ok(Written::Done)) {
            self.journal.wrote();
        }
        let outcome = match written {
            Ok(Written::Done) => "done",
            Ok(Written::Lost(_)) => "lost",
            Err(_) => "failed",
        };
        self.call(&format!("{what} {outcome}")).await;
    }

    /// Records a call. In an endless loop of calls it lets time pass, so that the seed ends.
    async fn call(&self, what: &str) {
        if self.journal.call(self.by, what) == CallLoop::Endless {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl fmt::Debug for RecordingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingStore").field("by", &self.by).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RecordingStore {
    async fn append(&self, append: Append) -> Result<Seq, StoreError> {
        let run = append.run.clone();
        let after = append.after;
        let bodies = append.bodies.clone();
        let outcome = self.inner.append(append).await;
        let hash = fold(&bodies.concat());
        let ok = outcome.is_ok();
        let names: Vec<&str> =
            bodies.iter().filter_map(|body| Some(decode(after, body).ok()?.event.name())).collect();
        self.call(&format!("append {run} after {} {hash:016x} {ok} {}", after.0, names.join(" "))).await;
        if ok {
            self.journal.executed(self.by, &run, after, bodies);
        }
        outcome
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.call(&format!("read {run} after {}", after.0)).await;
        self.inner.read(run, after, limit).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        self.call(&format!("head {run}")).await;
        self.inner.head(run).await
    }

    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        self.call(&format!("trim {run}")).await;
        self.inner.trim(run, first).await
    }

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        let what = format!("put_task {} {}", task.id, task.state.as_str());
        let written = self.inner.put_task(task, expect).await;
        self.put(&what, &written).await;
        written
    }

    async fn claim(&self, claim: ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        let claimed = self.inner.claim(claim).await;
        let ids: Vec<&str> =
            claimed.iter().flat_map(|claimed| &claimed.tasks).map(|task| task.id.as_str()).collect();
        self.call(&format!("claim {}", ids.join(" "))).await;
        claimed
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        self.call("tasks").await;
        let listed = self.inner.tasks(filter).await;
        for (task, flaw) in listed.iter().flatten().filter_map(|task| Some((task, task.flaw()?))) {
            self.journal.flaw(format!("task {}: {flaw}", task.id));
        }
        listed
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        let written = self.inner.put_lock(lock, expect).await;
        self.put("put_lock", &written).await;
        written
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        self.call("locks").await;
        self.inner.locks(filter).await
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        let what = format!("put_row {}", row.summary.run);
        let written = self.inner.put_row(row, expect).await;
        self.put(&what, &written).await;
        written
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        self.call("runs").await;
        self.inner.runs(filter).await
    }

    async fn unreadable(
        &self,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Unreadable>, StoreError> {
        self.call("unreadable").await;
        self.inner.unreadable(kind, after, limit).await
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        self.call("rowless").await;
        self.inner.rowless(after, limit).await
    }

    async fn unproven(&self, filter: UnprovenFilter) -> Result<Unproven, StoreError> {
        self.call("unproven").await;
        self.inner.unproven(filter).await
    }

    fn watches(&self) -> bool {
        self.inner.watches()
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        self.call(&format!("beat {}", node.id)).await;
        self.inner.beat(node).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.call("nodes").await;
        self.inner.nodes().await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        self.call(&format!("forget {node}")).await;
        self.inner.forget(node).await
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        self.inner.changed(seen).await
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.call("now").await;
        self.inner.now().await
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
        self.inner.foreign()
    }
}
