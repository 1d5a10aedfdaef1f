//! [`BucketStore`]: the trait's calls.

use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq};
use goldseam_store::{
    Append, Claim, ClaimedTasks, Expect, ForeignStates, Head, LockFilter, NodeRecord, NodeSeen, Pace, Page,
    Record, RecordKind, Row, RunFilter, Store, StoreError, TaskFilter, Unreadable, Written,
};

use crate::bucket::Bucket;
use crate::clock::StoreClock;
use crate::full_scan::Walks;
use crate::keys;
use crate::lanes::Lanes;
use crate::log::Logs;
use crate::nodes::Nodes;
use crate::open::{self, Older};
use crate::ready_index::Board;
use crate::records::Records;
use crate::request_counter::Tally;
use crate::rows::Rows;
use crate::tasks::Tasks;
use crate::url::{self, Options, Requests};
use crate::watch::Watch;
use crate::write_ids::Writes;

/// A store in one prefix of a bucket. Share it in an `Arc`.
#[derive(Debug)]
pub struct BucketStore {
    inner: Arc<Inner>,
}

/// Everything behind a store.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) bucket: Bucket,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) requests: Requests,
    pub(crate) writes: Writes,
    pub(crate) watch: Watch,
    pub(crate) logs: Logs,
    pub(crate) rows: Rows,
    pub(crate) tasks: Tasks,
    pub(crate) locks: Records<Lock>,
    pub(crate) lanes: Lanes,
    pub(crate) nodes: Nodes,
    pub(crate) board: Board,
    pub(crate) walks: Walks,
}

impl BucketStore {
    /// Opens a store, and makes it if there is none.
    pub async fn open(options: Options) -> Result<Self, StoreError> {
        Self::open_with(options, Older::Make).await
    }

    /// The same, but a prefix that holds no store is refused, untouched.
    pub async fn open_current(options: Options) -> Result<Self, StoreError> {
        Self::open_with(options, Older::Refuse).await
    }

    /// Opens what a URL names: `s3://BUCKET/PREFIX?endpoint=URL`.
    pub async fn open_url(text: &str) -> Result<Self, StoreError> {
        Self::open(url::parse(text)?).await
    }

    async fn open_with(options: Options, older: Older) -> Result<Self, StoreError> {
        let (bucket, clock) = open::open(&options, older).await?;
        Ok(Self::on(bucket, clock, options.requests))
    }

    pub(crate) fn on(bucket: Bucket, clock: Arc<StoreClock>, requests: Requests) -> Self {
        let inner = Inner {
            bucket,
            clock,
            requests,
            writes: Writes::new(),
            watch: Watch::new(),
            logs: Logs::default(),
            rows: Rows::default(),
            tasks: Records::new(keys::TASKS),
            locks: Records::new(keys::LOCKS),
            lanes: Lanes::default(),
            nodes: Records::new(keys::NODES),
            board: Board::default(),
            walks: Walks::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Requests that this store has sent so far.
    pub fn tally(&self) -> Tally {
        self.inner.bucket.tallies().tally()
    }
}

#[cfg(feature = "testing")]
impl BucketStore {
    /// What is behind it, for somebody who harms it.
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

#[cfg(feature = "testing")]
impl Inner {
    /// Forgets what it remembers of objects, like a process that begins.
    pub(crate) fn forget_all(&self) {
        self.logs.forget_all();
        self.rows.forget_all();
        self.tasks.forget_all();
        self.locks.forget_all();
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

    async fn claim(&self, claim: Claim) -> Result<ClaimedTasks, StoreError> {
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

    fn foreign(&self) -> Option<&dyn ForeignStates> {
        Some(&*self.inner)
    }

    fn pace(&self) -> Pace {
        match self.inner.requests {
            Requests::Paid => Pace::remote(self.inner.bucket.round_trip()),
            Requests::Free => Pace::default(),
        }
    }
}
