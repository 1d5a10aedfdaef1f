//! Every fault of a store on demand: calls that fail, replies that are lost, nodes that die.
//!
//! Invariant: a [`FaultyStore`] stands for one node's connection. Faults follow from the plan alone,
//! so the same plan and the same calls give the same faults; once crashed, nothing of this node
//! reaches the store any more, except writes that were on their way already.

mod plan;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq};
use tokio::sync::watch;

pub use plan::{Fault, Plan, Rates};

use crate::api::{
    Append, Claim, ClaimedTasks, Expect, Head, LockFilter, NodeRecord, NodeSeen, Page, Record, Row,
    RunFilter, Store, TaskFilter, Written,
};
use crate::error::StoreError;
use crate::foreign::{ForeignState, ForeignStates};
use crate::pace::Pace;

/// A method of [`Store`] or of [`ForeignStates`], by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Op {
    Append,
    Read,
    Head,
    PutTask,
    Claim,
    Tasks,
    PutLock,
    Locks,
    PutRow,
    Runs,
    Rowless,
    Beat,
    Nodes,
    Forget,
    Changed,
    Now,
    ForeignStates,
    SwapForeign,
}

impl Op {
    /// The method's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Read => "read",
            Self::Head => "head",
            Self::PutTask => "put_task",
            Self::Claim => "claim",
            Self::Tasks => "tasks",
            Self::PutLock => "put_lock",
            Self::Locks => "locks",
            Self::PutRow => "put_row",
            Self::Runs => "runs",
            Self::Rowless => "rowless",
            Self::Beat => "beat",
            Self::Nodes => "nodes",
            Self::Forget => "forget",
            Self::Changed => "changed",
            Self::Now => "now",
            Self::ForeignStates => "foreign_states",
            Self::SwapForeign => "swap_foreign",
        }
    }

    /// Whether its reply can be lost after it was done; anything else can only fail before.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::Append
                | Self::PutTask
                | Self::PutLock
                | Self::PutRow
                | Self::Claim
                | Self::Beat
                | Self::SwapForeign
        )
    }
}

/// One call as it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Called {
    /// The method.
    pub op: Op,
    /// What was done to it.
    pub fault: Fault,
}

/// One node's connection to a store, with faults by a [`Plan`].
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    history: Mutex<History>,
    crashed: watch::Sender<bool>,
}

struct History {
    plan: Plan,
    calls: Vec<Called>,
    appends: u64,
}

impl FaultyStore {
    /// A connection to `inner` that fails by `plan`.
    pub fn new(inner: Arc<dyn Store>, plan: Plan) -> Self {
        let history = Mutex::new(History { plan, calls: Vec::new(), appends: 0 });
        Self { inner, history, crashed: watch::Sender::new(false) }
    }

    /// Every call so far, in order; the first is number 1 of the plan.
    pub fn calls(&self) -> Vec<Called> {
        self.history().calls.clone()
    }

    /// How many calls there were.
    pub fn count(&self) -> u64 {
        self.history().calls.len() as u64
    }

    /// How many of them were appends.
    pub fn appends(&self) -> u64 {
        self.history().appends
    }

    /// The node dies now: every later call fails, waiting ones too.
    pub fn crash(&self) {
        self.crashed.send_replace(true);
    }

    /// Whether the node is dead.
    pub fn is_crashed(&self) -> bool {
        *self.crashed.borrow()
    }

    /// Returns once the node is dead.
    pub async fn crashed(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        drop(self.crashed.subscribe().wait_for(|crashed| *crashed).await);
    }

    /// From now on by another plan; numbers go on counting.
    pub fn follow(&self, plan: Plan) {
        self.history().plan = plan;
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, op: Op) -> Fault {
        let mut history = self.history();
        let number = history.calls.len() as u64 + 1;
        let append = (op == Op::Append).then(|| history.appends + 1);
        history.appends = append.unwrap_or(history.appends);
        let fault = history.plan.draw(number, append).for_op(op);
        history.calls.push(Called { op, fault });
        fault
    }

    async fn call<T, F>(&self, op: Op, act: impl FnOnce(Arc<dyn Store>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.alive(op)?;
        let fault = self.draw(op);
        let work = act(Arc::clone(&self.inner));
        match fault {
            Fault::Pass => self.unless_crashed(op, work).await,
            Fault::FailBefore => Err(busy(op, "injected: it was not done")),
            Fault::LoseReply => {
                // Whatever came of it, the caller does not learn it.
                drop(work.await);
                Err(unknown(op))
            }
            Fault::CrashBefore => {
                self.crash();
                Err(dead(op))
            }
            Fault::CrashAfter => {
                drop(work.await);
                self.crash();
                Err(dead(op))
            }
            Fault::Delay(span) => {
                let late = async {
                    tokio::time::sleep(span).await;
                    work.await
                };
                self.unless_crashed(op, late).await
            }
            Fault::DelayPastReply(span) => {
                tokio::spawn(async move {
                    tokio::time::sleep(span).await;
                    drop(work.await);
                });
                Err(unknown(op))
            }
        }
    }

    fn alive(&self, op: Op) -> Result<(), StoreError> {
        if self.is_crashed() { Err(dead(op)) } else { Ok(()) }
    }

    /// Does the work unless the node dies meanwhile.
    async fn unless_crashed<T>(
        &self,
        op: Op,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        tokio::select! {
            biased;
            () = self.crashed() => Err(dead(op)),
            outcome = work => outcome,
        }
    }
}

fn busy(op: Op, why: &str) -> StoreError {
    StoreError::Busy { doing: op.as_str(), source: why.into() }
}

fn dead(op: Op) -> StoreError {
    busy(op, "node crashed")
}

fn unknown(op: Op) -> StoreError {
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
        self.call(Op::Append, |inner| async move { inner.append(append).await }).await
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        let run = run.clone();
        self.call(Op::Read, |inner| async move { inner.read(&run, after, limit).await }).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        let run = run.clone();
        self.call(Op::Head, |inner| async move { inner.head(&run).await }).await
    }

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        self.call(Op::PutTask, |inner| async move { inner.put_task(task, expect).await }).await
    }

    async fn claim(&self, claim: Claim) -> Result<ClaimedTasks, StoreError> {
        self.call(Op::Claim, |inner| async move { inner.claim(claim).await }).await
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        self.call(Op::Tasks, |inner| async move { inner.tasks(filter).await }).await
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        self.call(Op::PutLock, |inner| async move { inner.put_lock(lock, expect).await }).await
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        self.call(Op::Locks, |inner| async move { inner.locks(filter).await }).await
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        self.call(Op::PutRow, |inner| async move { inner.put_row(row, expect).await }).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        self.call(Op::Runs, |inner| async move { inner.runs(filter).await }).await
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        let after = after.cloned();
        self.call(Op::Rowless, |inner| async move { inner.rowless(after.as_ref(), limit).await }).await
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        let node = node.clone();
        self.call(Op::Beat, |inner| async move { inner.beat(&node).await }).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.call(Op::Nodes, |inner| async move { inner.nodes().await }).await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        let node = node.clone();
        self.call(Op::Forget, |inner| async move { inner.forget(&node).await }).await
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        self.call(Op::Changed, move |inner| async move { inner.changed(seen).await }).await
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.call(Op::Now, |inner| async move { inner.now().await }).await
    }

    fn pace(&self) -> Pace {
        self.inner.pace()
    }

    fn foreign(&self) -> Option<&dyn ForeignStates> {
        self.inner.foreign().is_some().then_some(self as &dyn ForeignStates)
    }
}

#[async_trait]
impl ForeignStates for FaultyStore {
    async fn states(&self, after: Option<&str>, limit: u32) -> Result<Page<ForeignState>, StoreError> {
        let after = after.map(str::to_owned);
        let states = |inner: Arc<dyn Store>| async move {
            match inner.foreign() {
                Some(foreign) => foreign.states(after.as_deref(), limit).await,
                None => Ok(Page::default()),
            }
        };
        self.call(Op::ForeignStates, states).await
    }

    async fn swap(&self, id: &RunId, version: &str, body: &str) -> Result<Written<ForeignState>, StoreError> {
        let (id, version, body) = (id.clone(), version.to_owned(), body.to_owned());
        let swap = |inner: Arc<dyn Store>| async move {
            match inner.foreign() {
                Some(foreign) => foreign.swap(&id, &version, &body).await,
                None => Ok(Written::Lost(None)),
            }
        };
        self.call(Op::SwapForeign, swap).await
    }
}
