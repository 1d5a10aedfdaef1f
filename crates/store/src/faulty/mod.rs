//! Faults on demand: calls that fail, replies that are lost, nodes that crash.
//!
//! Invariant: a [`FaultyStore`] is the connection of one node. Faults follow from the plan alone, so the same plan
//! and the same calls give the same faults. After a crash, nothing of this node reaches the store, except writes that
//! were already in flight. While the node is frozen, it sends nothing and receives nothing.

mod plan;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq};
use tokio::sync::{Notify, watch};

pub use plan::{CallFault, FaultPlan, FaultRates};

use crate::api::{
    Append, ClaimRequest, ClaimedTasks, Expect, Head, LockFilter, NodeRecord, NodeSeen, Page, Record,
    RecordKind, Row, RunFilter, Store, TaskFilter, Unproven, UnprovenFilter, Unreadable, Written,
};
use crate::audit::{AuditEntry, AuditFilter, AuditLog};
use crate::error::StoreError;
use crate::feed::{ChangedRuns, Feed, FeedEvent};
use crate::foreign::{ForeignState, ForeignStates};
use crate::forward::{audit_of, foreign_of};
use crate::pace::StorePace;
use crate::sync::lock;

/// A method of [`Store`], of [`Feed`] or of [`ForeignStates`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the method with that name")]
pub enum StoreMethod {
    Append,
    Read,
    Head,
    Trim,
    PutTask,
    Claim,
    Tasks,
    PutLock,
    Locks,
    PutRow,
    Runs,
    Rowless,
    Unreadable,
    Unproven,
    Beat,
    Nodes,
    Forget,
    Changed,
    Now,
    EventsAfter,
    Latest,
    ChangedRuns,
    ForeignStates,
    SwapForeign,
    AuditEntries,
    TrimAudit,
}

impl StoreMethod {
    /// Returns the name of the method.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Read => "read",
            Self::Head => "head",
            Self::Trim => "trim",
            Self::PutTask => "put_task",
            Self::Claim => "claim",
            Self::Tasks => "tasks",
            Self::PutLock => "put_lock",
            Self::Locks => "locks",
            Self::PutRow => "put_row",
            Self::Runs => "runs",
            Self::Rowless => "rowless",
            Self::Unreadable => "unreadable",
            Self::Unproven => "unproven",
            Self::Beat => "beat",
            Self::Nodes => "nodes",
            Self::Forget => "forget",
            Self::Changed => "changed",
            Self::Now => "now",
            Self::EventsAfter => "events_after",
            Self::Latest => "latest",
            Self::ChangedRuns => "changed_runs",
            Self::ForeignStates => "foreign_states",
            Self::SwapForeign => "swap_foreign",
            Self::AuditEntries => "audit_entries",
            Self::TrimAudit => "trim_audit",
        }
    }

    /// Returns whether its reply can be lost after it was done; any other method can only fail before.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::Append
                | Self::Trim
                | Self::PutTask
                | Self::PutLock
                | Self::PutRow
                | Self::Claim
                | Self::Beat
                | Self::Forget
                | Self::SwapForeign
                | Self::TrimAudit
        )
    }
}

/// A call and its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Called {
    /// The method.
    pub op: StoreMethod,
    /// The injected fault.
    pub fault: CallFault,
}

/// The connection of one node to a store, with faults by a [`FaultPlan`].
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    history: Mutex<CallHistory>,
    crashed: watch::Sender<bool>,
    frozen: AtomicBool,
    /// Wakes in the order of waiting, so that the same plan gives the same trace.
    thawed: Notify,
}

struct CallHistory {
    plan: FaultPlan,
    calls: Vec<Called>,
    appends: u64,
}

impl FaultyStore {
    /// Creates a connection to `inner` that fails by `plan`.
    pub fn new(inner: Arc<dyn Store>, plan: FaultPlan) -> Self {
        let history = Mutex::new(CallHistory { plan, calls: Vec::new(), appends: 0 });
        Self {
            inner,
            history,
            crashed: watch::Sender::new(false),
            frozen: AtomicBool::new(false),
            thawed: Notify::new(),
        }
    }

    /// Returns every call so far, in order; the first is number 1 of the plan.
    pub fn calls(&self) -> Vec<Called> {
        self.history().calls.clone()
    }

    /// Returns the number of calls.
    pub fn count(&self) -> u64 {
        self.history().calls.len() as u64
    }

    /// Returns the number of appends.
    pub fn appends(&self) -> u64 {
        self.history().appends
    }

    /// Crashes the node: every later call fails, and so do waiting ones.
    pub fn crash(&self) {
        self.crashed.send_replace(true);
    }

    /// Returns whether the node has crashed.
    pub fn is_crashed(&self) -> bool {
        *self.crashed.borrow()
    }

    /// Waits until the node has crashed.
    pub async fn crashed(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        drop(self.crashed.subscribe().wait_for(|crashed| *crashed).await);
    }

    /// Freezes the node until [`thaw`](Self::thaw): calls in flight arrive, later ones do not.
    pub fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
    }

    /// Continues the node.
    pub fn thaw(&self) {
        self.frozen.store(false, Ordering::Relaxed);
        self.thawed.notify_waiters();
    }

    /// Waits until the node is not frozen; never returns if it has crashed.
    pub async fn awake(&self) {
        while self.frozen.load(Ordering::Relaxed) {
            self.thawed.notified().await;
        }
        if self.is_crashed() {
            std::future::pending::<()>().await;
        }
    }

    async fn woken(&self) -> Result<(), StoreError> {
        self.awake().await;
        Ok(())
    }

    /// Replaces the plan; call numbers continue.
    pub fn follow(&self, plan: FaultPlan) {
        self.history().plan = plan;
    }

    fn history(&self) -> MutexGuard<'_, CallHistory> {
        lock(&self.history)
    }

    fn draw(&self, op: StoreMethod) -> CallFault {
        let mut history = self.history();
        let number = history.calls.len() as u64 + 1;
        history.appends += u64::from(op == StoreMethod::Append);
        let appends = history.appends;
        let fault = history.plan.draw(number, op, appends).for_op(op);
        history.calls.push(Called { op, fault });
        fault
    }

    /// Calls `act` on the inner store with `args`: once, twice, late or never.
    async fn call<A, T, F>(
        &self,
        op: StoreMethod,
        args: A,
        act: impl Fn(Arc<dyn Store>, A) -> F,
    ) -> Result<T, StoreError>
    where
        A: Clone,
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.unless_crashed(op, self.woken()).await?;
        self.alive(op)?;
        let fault = self.draw(op);
        let again =
            matches!(fault, CallFault::Duplicate(_)).then(|| act(Arc::clone(&self.inner), args.clone()));
        let answer = self.fail(Called { op, fault }, act(Arc::clone(&self.inner), args), again).await;
        self.unless_crashed(op, self.woken()).await?;
        answer
    }

    async fn fail<T, F>(&self, called: Called, work: F, again: Option<F>) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let Called { op, fault } = called;
        match fault {
            CallFault::Pass => self.unless_crashed(op, work).await,
            CallFault::FailBefore => Err(busy(op, "injected: the call was not made")),
            CallFault::LoseReply => {
                // The caller does not get the result.
                drop(work.await);
                Err(unknown(op))
            }
            CallFault::CrashBefore => {
                self.crash();
                Err(dead(op))
            }
            CallFault::CrashAfter => {
                drop(work.await);
                self.crash();
                Err(dead(op))
            }
            CallFault::Delay(span) => {
                let late = async {
                    tokio::time::sleep(span).await;
                    work.await
                };
                self.unless_crashed(op, late).await
            }
            CallFault::DelayPastReply(span) => {
                tokio::spawn(async move {
                    tokio::time::sleep(span).await;
                    drop(work.await);
                });
                Err(unknown(op))
            }
            CallFault::Duplicate(span) => {
                let answer = self.unless_crashed(op, work).await;
                tokio::spawn(async move {
                    tokio::time::sleep(span).await;
                    if let Some(again) = again {
                        drop(again.await);
                    }
                });
                answer
            }
        }
    }

    fn alive(&self, op: StoreMethod) -> Result<(), StoreError> {
        if self.is_crashed() { Err(dead(op)) } else { Ok(()) }
    }

    /// Does the work unless the node crashes in the meantime.
    async fn unless_crashed<T>(
        &self,
        op: StoreMethod,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        tokio::select! {
            biased;
            () = self.crashed() => Err(dead(op)),
            outcome = work => outcome,
        }
    }
}

fn busy(op: StoreMethod, why: &str) -> StoreError {
    StoreError::Busy { doing: op.as_str(), source: why.into() }
}

fn dead(op: StoreMethod) -> StoreError {
    busy(op, "node crashed")
}

fn unknown(op: StoreMethod) -> StoreError {
    StoreError::Unknown { doing: op.as_str(), source: "injected: the reply was lost".into() }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("inner", &self.inner)
            .field("calls", &self.count())
            .field("crashed", &self.is_crashed())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn append(&self, append: Append) -> Result<Seq, StoreError> {
        self.call(StoreMethod::Append, append, |inner, append| async move { inner.append(append).await })
            .await
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        let read = |inner: Arc<dyn Store>, run: RunId| async move { inner.read(&run, after, limit).await };
        self.call(StoreMethod::Read, run.clone(), read).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        self.call(StoreMethod::Head, run.clone(), |inner, run| async move { inner.head(&run).await }).await
    }

    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        self.call(StoreMethod::Trim, run.clone(), |inner, run| async move { inner.trim(&run, first).await })
            .await
    }

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        self.call(StoreMethod::PutTask, task, |inner, task| async move { inner.put_task(task, expect).await })
            .await
    }

    async fn claim(&self, claim: ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        self.call(StoreMethod::Claim, claim, |inner, claim| async move { inner.claim(claim).await }).await
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        self.call(StoreMethod::Tasks, filter, |inner, filter| async move { inner.tasks(filter).await }).await
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        self.call(StoreMethod::PutLock, lock, |inner, lock| async move { inner.put_lock(lock, expect).await })
            .await
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        self.call(StoreMethod::Locks, filter, |inner, filter| async move { inner.locks(filter).await }).await
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        self.call(StoreMethod::PutRow, row, |inner, row| async move { inner.put_row(row, expect).await })
            .await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        self.call(StoreMethod::Runs, filter, |inner, filter| async move { inner.runs(filter).await }).await
    }

    async fn unreadable(
        &self,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Unreadable>, StoreError> {
        let unreadable = |inner: Arc<dyn Store>, after: Option<String>| async move {
            inner.unreadable(kind, after.as_deref(), limit).await
        };
        self.call(StoreMethod::Unreadable, after.map(str::to_owned), unreadable).await
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        let rowless = |inner: Arc<dyn Store>, after: Option<RunId>| async move {
            inner.rowless(after.as_ref(), limit).await
        };
        self.call(StoreMethod::Rowless, after.cloned(), rowless).await
    }

    async fn unproven(&self, filter: UnprovenFilter) -> Result<Unproven, StoreError> {
        let unproven = |inner: Arc<dyn Store>, filter| async move { inner.unproven(filter).await };
        self.call(StoreMethod::Unproven, filter, unproven).await
    }

    fn watches(&self) -> bool {
        self.inner.watches()
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        self.call(StoreMethod::Beat, node.clone(), |inner, node| async move { inner.beat(&node).await }).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.call(StoreMethod::Nodes, (), |inner, ()| async move { inner.nodes().await }).await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        self.call(StoreMethod::Forget, node.clone(), |inner, node| async move { inner.forget(&node).await })
            .await
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        self.call(StoreMethod::Changed, seen, |inner, seen| async move { inner.changed(seen).await }).await
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.call(StoreMethod::Now, (), |inner, ()| async move { inner.now().await }).await
    }

    fn pace(&self) -> StorePace {
        self.inner.pace()
    }

    fn feed(&self) -> Option<&dyn Feed> {
        self.inner.feed().is_some().then_some(self as &dyn Feed)
    }

    fn audit(&self) -> Option<&dyn AuditLog> {
        self.inner.audit().is_some().then_some(self as &dyn AuditLog)
    }

    fn foreign(&self) -> Option<&dyn ForeignStates> {
        self.inner.foreign().is_some().then_some(self as &dyn ForeignStates)
    }
}

#[async_trait]
impl Feed for FaultyStore {
    async fn events_after(&self, place: Option<&str>, limit: u32) -> Result<Vec<FeedEvent>, StoreError> {
        let events = |inner: Arc<dyn Store>, place: Option<String>| async move {
            match inner.feed() {
                Some(feed) => feed.events_after(place.as_deref(), limit).await,
                None => Ok(Vec::new()),
            }
        };
        self.call(StoreMethod::EventsAfter, place.map(str::to_owned), events).await
    }

    fn finds_changes_cheaply(&self) -> bool {
        self.inner.feed().is_none_or(|feed| feed.finds_changes_cheaply())
    }

    fn is_written_by_readers(&self) -> bool {
        self.inner.feed().is_some_and(|feed| feed.is_written_by_readers())
    }

    async fn latest(&self) -> Result<Option<String>, StoreError> {
        let latest = |inner: Arc<dyn Store>, ()| async move {
            match inner.feed() {
                Some(feed) => feed.latest().await,
                None => Ok(None),
            }
        };
        self.call(StoreMethod::Latest, (), latest).await
    }

    async fn changed_runs(&self, mark: Option<&str>) -> Result<ChangedRuns, StoreError> {
        let changed = |inner: Arc<dyn Store>, mark: Option<String>| async move {
            match inner.feed() {
                Some(feed) => feed.changed_runs(mark.as_deref()).await,
                None => Ok(ChangedRuns { runs: Vec::new(), mark: mark.unwrap_or_default() }),
            }
        };
        self.call(StoreMethod::ChangedRuns, mark.map(str::to_owned), changed).await
    }
}

#[async_trait]
impl AuditLog for FaultyStore {
    async fn audit_entries(&self, filter: AuditFilter) -> Result<Page<AuditEntry>, StoreError> {
        let entries = |inner: Arc<dyn Store>, filter: AuditFilter| async move {
            audit_of(&*inner).audit_entries(filter).await
        };
        self.call(StoreMethod::AuditEntries, filter, entries).await
    }

    async fn trim_audit(&self, before: Millis, limit: u32) -> Result<u64, StoreError> {
        let trim =
            |inner: Arc<dyn Store>, ()| async move { audit_of(&*inner).trim_audit(before, limit).await };
        self.call(StoreMethod::TrimAudit, (), trim).await
    }
}

#[async_trait]
impl ForeignStates for FaultyStore {
    async fn states(&self, after: Option<&str>, limit: u32) -> Result<Page<ForeignState>, StoreError> {
        let states = |inner: Arc<dyn Store>, after: Option<String>| async move {
            foreign_of(&*inner).states(after.as_deref(), limit).await
        };
        self.call(StoreMethod::ForeignStates, after.map(str::to_owned), states).await
    }

    fn settled(&self, id: &RunId, version: &str) {
        foreign_of(&*self.inner).settled(id, version);
    }

    async fn unnamed(&self) -> Result<Vec<String>, StoreError> {
        foreign_of(&*self.inner).unnamed().await
    }

    async fn swap(&self, id: &RunId, version: &str, body: &str) -> Result<Written<ForeignState>, StoreError> {
        let args = (id.clone(), version.to_owned(), body.to_owned());
        let swap = |inner: Arc<dyn Store>, (id, version, body): (RunId, String, String)| async move {
            foreign_of(&*inner).swap(&id, &version, &body).await
        };
        self.call(StoreMethod::SwapForeign, args, swap).await
    }
}
