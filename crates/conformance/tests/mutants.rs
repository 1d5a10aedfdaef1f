//! Deliberately broken stores: the differential walk must detect each of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use async_trait::async_trait;
use goldseam_conformance::differential::differential;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq};
use goldseam_store::{
    Append, ClaimRequest, ClaimedTasks, Expect, Feed, ForeignStates, Head, LockFilter, MemoryStore,
    NodeRecord, NodeSeen, Page, Record, RecordKind, Row, RunFilter, Store, StoreError, StorePace, TaskChange,
    TaskFilter, Unreadable, Written,
};

/// The flaw of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    AcceptsTheTailOfAStaleAppend,
    SkipsEventsOfLongBatches,
    ForgetsToWake,
    PutsTasksOverAnyVersion,
    PutsLocksOverAnyVersion,
    PutsRowsOverAnyVersion,
    ForgetsKeys,
    ForgetsLanes,
    ClaimsOneTooFew,
    LosesTheTailOfLists,
    ListsTasksThatAreOver,
    HidesARunWithoutARow,
}

const FLAWS: [Flaw; 12] = [
    Flaw::AcceptsTheTailOfAStaleAppend,
    Flaw::SkipsEventsOfLongBatches,
    Flaw::ForgetsToWake,
    Flaw::PutsTasksOverAnyVersion,
    Flaw::PutsLocksOverAnyVersion,
    Flaw::PutsRowsOverAnyVersion,
    Flaw::ForgetsKeys,
    Flaw::ForgetsLanes,
    Flaw::ClaimsOneTooFew,
    Flaw::LosesTheTailOfLists,
    Flaw::ListsTasksThatAreOver,
    Flaw::HidesARunWithoutARow,
];

#[derive(Debug)]
struct Broken {
    inner: MemoryStore,
    flaw: Flaw,
}

impl Broken {
    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }
}

#[async_trait]
impl Store for Broken {
    async fn append(&self, mut append: Append) -> Result<Seq, StoreError> {
        if self.is(Flaw::SkipsEventsOfLongBatches) {
            append.bodies.truncate(2);
        }
        if self.is(Flaw::ForgetsToWake) {
            append.tasks.retain(|change| !matches!(change, TaskChange::Wake { .. }));
        }
        match self.inner.append(append.clone()).await {
            Err(StoreError::Conflict { end }) if self.is(Flaw::AcceptsTheTailOfAStaleAppend) => {
                let known = usize::try_from(end.0.saturating_sub(append.after.0)).unwrap();
                if append.after > end || known >= append.bodies.len() {
                    return Err(StoreError::Conflict { end });
                }
                append.bodies.drain(..known);
                self.inner.append(Append { after: end, ..append }).await
            }
            outcome => outcome,
        }
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.inner.read(run, after, limit).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        self.inner.head(run).await
    }

    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        self.inner.trim(run, first).await
    }

    async fn put_task(&self, mut task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        if self.is(Flaw::ForgetsKeys) {
            task.key = None;
        }
        if self.is(Flaw::ForgetsLanes) {
            task.lane = None;
        }
        match self.inner.put_task(task.clone(), expect).await? {
            Written::Lost(Some(found)) if self.is(Flaw::PutsTasksOverAnyVersion) && found.id == task.id => {
                self.inner.put_task(task, Expect::Version(found.version)).await
            }
            outcome => Ok(outcome),
        }
    }

    async fn claim(&self, mut claim: ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        if self.is(Flaw::ClaimsOneTooFew) {
            claim.limit = claim.limit.saturating_sub(1);
        }
        self.inner.claim(claim).await
    }

    async fn tasks(&self, mut filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        if self.is(Flaw::ListsTasksThatAreOver) {
            let key = filter.key.take();
            let found = self.inner.tasks(filter).await?;
            return Ok(found.into_iter().filter(|task| key.is_none() || task.key == key).collect());
        }
        self.inner.tasks(filter).await
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        match self.inner.put_lock(lock.clone(), expect).await? {
            Written::Lost(Some(found)) if self.is(Flaw::PutsLocksOverAnyVersion) => {
                self.inner.put_lock(lock, Expect::Version(found.version)).await
            }
            outcome => Ok(outcome),
        }
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        self.inner.locks(filter).await
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        match self.inner.put_row(row.clone(), expect).await? {
            Written::Lost(Some(found)) if self.is(Flaw::PutsRowsOverAnyVersion) => {
                self.inner.put_row(row, Expect::Version(found.version())).await
            }
            outcome => Ok(outcome),
        }
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        let page = self.inner.runs(filter).await?;
        Ok(if self.is(Flaw::LosesTheTailOfLists) { Page { next: None, ..page } } else { page })
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
        let mut found = self.inner.rowless(after, limit).await?;
        if self.is(Flaw::HidesARunWithoutARow) {
            found.pop();
        }
        Ok(found)
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        self.inner.beat(node).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.inner.nodes().await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        self.inner.forget(node).await
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
        self.inner.feed()
    }

    fn audit(&self) -> Option<&dyn goldseam_store::AuditLog> {
        self.inner.audit()
    }

    fn foreign(&self) -> Option<&dyn ForeignStates> {
        self.inner.foreign()
    }
}

#[tokio::test]
async fn each_flaw_is_caught() {
    for flaw in FLAWS {
        let mut caught = 0;
        for seed in 0..20 {
            let store = Arc::new(Broken { inner: MemoryStore::default(), flaw });
            caught += u32::from(tokio::spawn(differential(store, seed, 200)).await.is_err());
        }
        assert!(caught > 0, "{flaw:?} was never caught");
        println!("{flaw:?}: caught by {caught} of 20 seeds");
    }
}
