//! [`BucketStore`]: the calls of the trait.

use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq};
use goldseam_store::{
    Append, AuditLog, ClaimRequest, ClaimedTasks, Expect, Feed, ForeignStates, Head, LockFilter, NodeRecord,
    NodeSeen, OpenMode, Page, Record, RecordKind, Row, RunFilter, Store, StoreError, StorePace, TaskFilter,
    Unreadable, Written,
};

use crate::bucket::BucketPrefix;
use crate::clock::BucketClock;
use crate::inner::BucketState;
use crate::open;
use crate::request_counter::RequestCounts;
use crate::url::{self, BucketOptions, RequestCost};

/// A store in one prefix of a bucket. Share it in an `Arc`.
#[derive(Debug)]
pub struct BucketStore {
    inner: Arc<BucketState>,
}

impl BucketStore {
    /// Opens a store, and creates it if the prefix is empty.
    pub async fn open(options: BucketOptions) -> Result<Self, StoreError> {
        Self::open_with(options, OpenMode::CreateOrMigrate).await
    }

    /// Opens a store. Refuses a prefix without one, and changes nothing there.
    pub async fn open_current(options: BucketOptions) -> Result<Self, StoreError> {
        Self::open_with(options, OpenMode::RequireCurrent).await
    }

    /// Opens the store at a URL: `s3://BUCKET/PREFIX?endpoint=URL`.
    pub async fn open_url(text: &str) -> Result<Self, StoreError> {
        Self::open(url::parse(text)?).await
    }

    async fn open_with(options: BucketOptions, mode: OpenMode) -> Result<Self, StoreError> {
        let (bucket, clock) = open::open(&options, mode).await?;
        Ok(Self::on(bucket, clock, options.requests))
    }

    pub(crate) fn on(bucket: BucketPrefix, clock: Arc<BucketClock>, requests: RequestCost) -> Self {
        Self { inner: Arc::new(BucketState::new(bucket, clock, requests)) }
    }

    /// The number of requests that this store has sent.
    pub fn request_counts(&self) -> RequestCounts {
        self.inner.bucket.counter().counts()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn inner(&self) -> &Arc<BucketState> {
        &self.inner
    }
}

#[async_trait]
impl Store for BucketStore {
    async fn append(&self, append: Append) -> Result<Seq, StoreError> {
        self.inner.append(append).await
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

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        self.inner.put_task(task, expect).await
    }

    async fn claim(&self, claim: ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        self.inner.claim(&claim).await
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        self.inner.list_tasks(&filter).await
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        self.inner.put_lock(lock, expect).await
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        self.inner.list_locks(&filter).await
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        self.inner.put_row(row, expect).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        self.inner.list_runs(&filter).await
    }

    async fn unreadable(
        &self,
        kind: RecordKind,
        _: Option<&str>,
        _: u32,
    ) -> Result<Page<Unreadable>, StoreError> {
        self.inner.unreadable(kind).await
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        self.inner.rowless(after, limit).await
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        self.inner.beat(node).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.inner.list_nodes().await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        self.inner.forget(node).await
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        Ok(self.inner.changed(seen).await)
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok(self.inner.clock.now())
    }

    fn feed(&self) -> Option<&dyn Feed> {
        Some(&*self.inner)
    }

    fn foreign(&self) -> Option<&dyn ForeignStates> {
        Some(&*self.inner)
    }

    fn audit(&self) -> Option<&dyn AuditLog> {
        Some(&*self.inner)
    }

    fn pace(&self) -> StorePace {
        match self.inner.requests {
            RequestCost::Paid => StorePace::remote(self.inner.bucket.round_trip()),
            RequestCost::Free => StorePace::default(),
        }
    }
}
