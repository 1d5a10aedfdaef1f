//! The reference store: what every other store must do, in the simplest form.
//!
//! Invariant: one mutex around ordered maps, so every call is atomic and every list has one order. The store has no
//! background task, timer or randomness: the same calls under the same clock give the same results, which the
//! simulation relies on.

mod audit;
mod damage;
mod feed;
mod foreign;
mod log;
mod nodes;
mod queue;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{LockName, Millis, NodeId, RunId, Seq, TaskId};
use tokio::sync::Notify;

use crate::api::{
    Append, ClaimRequest, ClaimedTasks, Expect, Head, LockFilter, NodeRecord, NodeSeen, Page, Record,
    RecordKind, Row, RunFilter, Store, TaskFilter, Unreadable, Written,
};
use crate::audit::{AuditEntry, AuditLog};
use crate::clock::{ClockFn, ManualClock};
use crate::error::StoreError;
use crate::feed::Feed;
use crate::foreign::ForeignStates;
use crate::pace::StorePace;
use crate::sync::lock;

/// A store in memory, behind one lock. Share it in an `Arc`.
pub struct MemoryStore {
    clock: ClockFn,
    pace: StorePace,
    state: Mutex<MemoryState>,
    /// Increases with every write that a watcher may wait for; never 0.
    mark: AtomicU64,
    /// Wakes watchers in the order of waiting; a `watch` channel would wake them in random order.
    watchers: Notify,
}

#[derive(Debug, Default)]
struct MemoryState {
    /// The latest time that was returned: the store's clock never goes back.
    now: Millis,
    runs: BTreeMap<RunId, MemoryRun>,
    tasks: BTreeMap<TaskId, Task>,
    /// Unreadable records, except rows.
    garbled: Garbled,
    locks: BTreeMap<LockName, Lock>,
    nodes: BTreeMap<NodeId, NodeSeen>,
    /// Foreign states: version and text.
    foreign: BTreeMap<RunId, (u64, String)>,
    /// The audit, by place.
    audit: BTreeMap<String, AuditEntry>,
    /// All appended events, in order.
    order: Vec<(RunId, Seq)>,
}

/// Names of unreadable records.
#[derive(Debug, Default)]
struct Garbled {
    tasks: BTreeSet<TaskId>,
    locks: BTreeSet<LockName>,
    nodes: BTreeSet<NodeId>,
}

#[derive(Debug, Default)]
struct MemoryRun {
    /// By position; dense unless an event was lost.
    log: BTreeMap<Seq, String>,
    row: Option<Row>,
    /// The row before it was garbled.
    garbled: Option<Row>,
}

impl MemoryRun {
    fn end(&self) -> Seq {
        self.log.last_key_value().map_or(Seq::ZERO, |(seq, _)| *seq)
    }
}

impl MemoryStore {
    /// Creates an empty store with this clock.
    pub fn new(clock: ClockFn) -> Self {
        let pace = StorePace::default();
        Self { clock, pace, state: Mutex::default(), mark: AtomicU64::new(1), watchers: Notify::new() }
    }

    /// Creates an empty store and the clock that moves its time.
    pub fn manual() -> (Self, ManualClock) {
        let clock = ManualClock::default();
        (Self::new(clock.clock()), clock)
    }

    /// Sets the pace, for example that of a store behind a slow connection.
    #[must_use]
    pub fn at_pace(mut self, pace: StorePace) -> Self {
        self.pace = pace;
        self
    }

    /// Runs `act` atomically.
    fn with<T>(&self, act: impl FnOnce(&mut MemoryState) -> T) -> T {
        let mut state = lock(&self.state);
        state.now = state.now.max((self.clock)());
        act(&mut state)
    }

    /// Runs `act` atomically and wakes all watchers.
    fn change<T>(&self, act: impl FnOnce(&mut MemoryState) -> T) -> T {
        let outcome = self.with(act);
        self.tell();
        outcome
    }

    /// Runs a compare-and-set and wakes all watchers if it succeeds. A lost one must not: two losers could otherwise
    /// wake each other forever.
    fn put<T>(&self, act: impl FnOnce(&mut MemoryState) -> Written<T>) -> Written<T> {
        let written = self.with(act);
        if matches!(written, Written::Done) {
            self.tell();
        }
        written
    }

    fn tell(&self) {
        self.mark.fetch_add(1, Ordering::SeqCst);
        self.watchers.notify_waiters();
    }
}

impl Default for MemoryStore {
    /// Creates an empty store whose clock does not move.
    fn default() -> Self {
        Self::manual().0
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("mark", &self.mark).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn append(&self, append: Append) -> Result<Seq, StoreError> {
        self.with(|state| state.append(append)).inspect(|_| self.tell())
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        Ok(self.with(|state| state.read(run, after, limit)))
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        let head = |run: &MemoryRun| Head {
            end: run.end(),
            row: run.row.clone(),
            unreadable: run.garbled.as_ref().map(|_| damage::REASON.to_owned()),
        };
        Ok(self.with(|state| state.runs.get(run).map(head)))
    }

    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        self.with(|state| state.trim(run, first));
        Ok(())
    }

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        Ok(self.put(|state| state.put_task(task, expect)))
    }

    /// Wakes no watcher: a claim only removes claimable tasks.
    async fn claim(&self, claim: ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        Ok(self.with(|state| state.claim(&claim)))
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        Ok(self.with(|state| state.list_tasks(&filter)))
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        Ok(self.put(|state| state.put_lock(lock, expect)))
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        Ok(self.with(|state| state.list_locks(&filter)))
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        Ok(self.put(|state| state.put_row(row, expect)))
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        self.with(|state| state.list_runs(&filter))
    }

    async fn unreadable(
        &self,
        kind: RecordKind,
        _: Option<&str>,
        _: u32,
    ) -> Result<Page<Unreadable>, StoreError> {
        Ok(self.with(|state| state.unreadable(kind)))
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        Ok(self.with(|state| state.rowless(after, limit)))
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        Ok(self.with(|state| state.beat(node)))
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        Ok(self.with(|state| state.list_nodes()))
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        self.change(|state| {
            state.garbled.nodes.remove(node);
            state.nodes.remove(node)
        });
        Ok(())
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        loop {
            let mut change = std::pin::pin!(self.watchers.notified());
            change.as_mut().enable();
            let mark = self.mark.load(Ordering::SeqCst);
            if mark != seen {
                return Ok(mark);
            }
            change.await;
        }
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok(self.with(|state| state.now))
    }

    fn pace(&self) -> StorePace {
        self.pace
    }

    fn feed(&self) -> Option<&dyn Feed> {
        Some(self)
    }

    fn foreign(&self) -> Option<&dyn ForeignStates> {
        Some(self)
    }

    fn audit(&self) -> Option<&dyn AuditLog> {
        Some(self)
    }
}
