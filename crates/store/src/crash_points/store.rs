//! A store whose calls are crash points.

use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq, codec};

use super::point::{self, CallSide};
use crate::api::{
    Append, ClaimRequest, ClaimedTasks, Expect, Head, LockFilter, NodeRecord, NodeSeen, Page, Record,
    RecordKind, Row, RunFilter, Store, TaskFilter, Unproven, UnprovenFilter, Unreadable, Written,
};
use crate::audit::AuditLog;
use crate::error::StoreError;
use crate::faulty::StoreMethod;
use crate::feed::Feed;
use crate::foreign::{ForeignState, ForeignStates};
use crate::pace::StorePace;

/// A store whose calls may kill the process.
#[derive(Debug)]
pub struct CrashPointStore(Arc<dyn Store>);

/// Wraps the store if this process has a crash point.
pub fn wrapped(store: Arc<dyn Store>) -> Arc<dyn Store> {
    if point::is_set() { Arc::new(CrashPointStore(store)) } else { store }
}

impl CrashPointStore {
    async fn call<T>(
        &self,
        op: StoreMethod,
        what: &[&str],
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.call_that(op, what, work, |_| true).await
    }

    /// Makes a call that may have no effect.
    async fn call_that<T>(
        &self,
        op: StoreMethod,
        what: &[&str],
        work: impl Future<Output = Result<T, StoreError>>,
        did: impl FnOnce(&T) -> bool,
    ) -> Result<T, StoreError> {
        point::pass(op.as_str(), what, CallSide::Before);
        let done = work.await?;
        if did(&done) {
            point::pass(op.as_str(), what, CallSide::After);
        }
        Ok(done)
    }
}

fn names(bodies: &[String]) -> Vec<&'static str> {
    let name = |body: &String| codec::decode(Seq(1), body).map(|recorded| recorded.event.name());
    bodies.iter().filter_map(|body| name(body).ok()).collect()
}

fn is_done<T>(written: &Written<T>) -> bool {
    matches!(written, Written::Done)
}

#[async_trait]
impl Store for CrashPointStore {
    async fn append(&self, append: Append) -> Result<Seq, StoreError> {
        let what = names(&append.bodies);
        self.call(StoreMethod::Append, &what, self.0.append(append)).await
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.call(StoreMethod::Read, &[], self.0.read(run, after, limit)).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        self.call(StoreMethod::Head, &[], self.0.head(run)).await
    }

    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        self.call(StoreMethod::Trim, &[], self.0.trim(run, first)).await
    }

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        self.call_that(StoreMethod::PutTask, &[], self.0.put_task(task, expect), is_done).await
    }

    async fn claim(&self, claim: ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        self.call_that(StoreMethod::Claim, &[], self.0.claim(claim), |claimed| !claimed.tasks.is_empty())
            .await
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        self.call(StoreMethod::Tasks, &[], self.0.tasks(filter)).await
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        self.call_that(StoreMethod::PutLock, &[], self.0.put_lock(lock, expect), is_done).await
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        self.call(StoreMethod::Locks, &[], self.0.locks(filter)).await
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        self.call_that(StoreMethod::PutRow, &[], self.0.put_row(row, expect), is_done).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        self.call(StoreMethod::Runs, &[], self.0.runs(filter)).await
    }

    async fn unreadable(
        &self,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Unreadable>, StoreError> {
        self.call(StoreMethod::Unreadable, &[], self.0.unreadable(kind, after, limit)).await
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        self.call(StoreMethod::Rowless, &[], self.0.rowless(after, limit)).await
    }

    async fn unproven(&self, filter: UnprovenFilter) -> Result<Unproven, StoreError> {
        self.call(StoreMethod::Unproven, &[], self.0.unproven(filter)).await
    }

    fn watches(&self) -> bool {
        self.0.watches()
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        self.call(StoreMethod::Beat, &[node.state.as_str()], self.0.beat(node)).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.call(StoreMethod::Nodes, &[], self.0.nodes()).await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        self.call(StoreMethod::Forget, &[], self.0.forget(node)).await
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        self.call(StoreMethod::Changed, &[], self.0.changed(seen)).await
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.call(StoreMethod::Now, &[], self.0.now()).await
    }

    fn pace(&self) -> StorePace {
        self.0.pace()
    }

    fn feed(&self) -> Option<&dyn Feed> {
        self.0.feed()
    }

    fn audit(&self) -> Option<&dyn AuditLog> {
        self.0.audit()
    }

    fn foreign(&self) -> Option<&dyn ForeignStates> {
        self.0.foreign().is_some().then_some(self as &dyn ForeignStates)
    }
}

#[async_trait]
impl ForeignStates for CrashPointStore {
    async fn states(&self, after: Option<&str>, limit: u32) -> Result<Page<ForeignState>, StoreError> {
        let Some(foreign) = self.0.foreign() else { return Ok(Page::default()) };
        self.call(StoreMethod::ForeignStates, &[], foreign.states(after, limit)).await
    }

    fn settled(&self, id: &RunId, version: &str) {
        if let Some(foreign) = self.0.foreign() {
            foreign.settled(id, version);
        }
    }

    async fn unnamed(&self) -> Result<Vec<String>, StoreError> {
        match self.0.foreign() {
            Some(foreign) => foreign.unnamed().await,
            None => Ok(Vec::new()),
        }
    }

    async fn swap(&self, id: &RunId, version: &str, body: &str) -> Result<Written<ForeignState>, StoreError> {
        let Some(foreign) = self.0.foreign() else { return Ok(Written::Lost(None)) };
        self.call_that(StoreMethod::SwapForeign, &[], foreign.swap(id, version, body), is_done).await
    }
}
