//! The [`Store`] trait. The conformance suite is the contract; the documentation here is a summary.

use std::fmt::Debug;

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::search::{Group, GroupBy, Grouping};
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq, Status, WorkflowName};

use crate::audit::AuditLog;
use crate::error::StoreError;
use crate::feed::Feed;
use crate::foreign::ForeignStates;
use crate::pace::StorePace;
pub use crate::types::{
    Append, ClaimRequest, ClaimedTasks, Expect, GroupQuery, Groups, Head, LockFilter, NodeRecord, NodeSeen,
    NodeState, Page, Pulse, Record, RecordKind, Row, RunFilter, RunOrder, TaskChange, TaskFilter, Unproven,
    UnprovenFilter, UnprovenScope, Unreadable, Written,
};

/// Storage for logs, rows, tasks, locks and nodes.
///
/// The methods form three groups: the log, which is the truth; tasks and locks, which are truths changed by
/// compare-and-set; index, nodes and watch, which are hints. A store never decides. A new method needs an ADR.
///
/// An unreadable record never fails a list, a claim or the reading of another record. An unreadable row counts as
/// lost: `head` returns none, and [`Expect::Absent`] or an append with a row replaces it. Unreadable tasks are left
/// out of lists and claims, and stay where they are. An unreadable lock is listed as held ([`Unreadable::lock`]), an
/// unreadable node as up ([`Unreadable::node`]), because they may be. [`unreadable`](Store::unreadable) lists all
/// such records.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// Appends events if the log ends at exactly `append.after`: all or nothing. Returns the new end.
    async fn append(&self, append: Append) -> Result<Seq, StoreError>;

    /// Reads up to `limit` records after `after`, oldest first. An unknown run has none.
    ///
    /// If an event is lost, the store returns the others: the positions show a gap, and the page continues after it.
    /// The reader detects the gap; a store neither hides it nor fails.
    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError>;

    /// Returns the end of the log and the cached row; none if the run does not exist.
    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError>;

    /// Removes the events before `first`, where an append began, if the event at `first` exists; otherwise does
    /// nothing.
    ///
    /// The remaining events keep their positions, and the log continues after them. It can never be started again.
    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError>;

    /// Writes a task if it is as expected. A live task loses to another live task with the same key, and a claimed
    /// task to the task that has its lane.
    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError>;

    /// Claims due tasks: highest priority first, at most one claimed task per lane.
    async fn claim(&self, claim: ClaimRequest) -> Result<ClaimedTasks, StoreError>;

    /// Lists tasks in order of id.
    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError>;

    /// Writes a lock if it is as expected.
    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError>;

    /// Lists locks in order of name.
    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError>;

    /// Writes a cached row without an append, if its `updated_at` is as expected.
    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError>;

    /// Lists runs by their cached rows. Unreadable rows within the page are listed separately if their readable part
    /// matches the filter.
    ///
    /// With a condition, a store may stop after reading many rows that do not match: a page may be short or empty and
    /// still have a next one.
    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError>;

    /// Counts runs by their cached rows, and groups them. By default, by reading every row that matches.
    async fn groups(&self, query: GroupQuery) -> Result<Groups, StoreError> {
        groups_by_pages(self, query).await
    }

    /// Counts runs by the status of their cached rows: of one workflow, or all. By default, by reading every row.
    async fn status_counts(&self, workflow: Option<&WorkflowName>) -> Result<Vec<(Status, u64)>, StoreError> {
        status_counts_by_pages(self, workflow).await
    }

    /// Reads the next records of one kind, after the cursor `after`, and returns the unreadable ones. Reads about
    /// `limit` records at most; a page may be empty and still have a next one.
    async fn unreadable(
        &self,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Unreadable>, StoreError>;

    /// Returns up to `limit` runs after `after`, in order of id, that have a log and no cached row. Includes rows
    /// that no list of active runs contains because their status is unknown.
    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError>;

    /// Reads the next active runs and returns those that need an examination.
    ///
    /// A store may leave out a run only if the columns of its row and its advance task prove that no rule applies:
    ///
    /// - a live node owns it; or
    /// - its task is claimed by a live node, or due and of a kind that a live node claims; or
    /// - it rests: it has no owner, no unread mail and no pending request, its log ends at its row's `as_of`, it waits,
    ///   its task is ready and due no later than its first timer, none of its children has ended, and the tasks of its
    ///   remote steps are live.
    ///
    /// Everything else is returned, and a page may be empty and still have a next one. The provided method leaves out
    /// nothing, and also returns paused and parked runs whose deadline has passed; for a store that
    /// [watches](Store::watches), a sweep lists those itself.
    async fn unproven(&self, filter: UnprovenFilter) -> Result<Unproven, StoreError> {
        crate::unproven::listed(self, filter).await
    }

    /// Returns whether [`UnprovenScope::Watched`] is cheap: found by indexes. If not, it reads every active run.
    fn watches(&self) -> bool {
        false
    }

    /// Records that the node is alive; the first beat also takes its liveness lock. Returns the store's clock.
    ///
    /// A node that reports itself as left or gone releases its lock instead, and is listed until it is forgotten.
    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError>;

    /// Returns every node that has joined and has not been forgotten.
    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError>;

    /// Forgets a node and its liveness lock.
    async fn forget(&self, node: &NodeId) -> Result<(), StoreError>;

    /// Waits until something may have changed since `seen` (0: returns at once). Returns the mark for the next call.
    async fn changed(&self, seen: u64) -> Result<u64, StoreError>;

    /// Returns the store's clock, by which all expiries are judged.
    async fn now(&self) -> Result<Millis, StoreError>;

    /// Returns how often the store may be asked; by default, without a limit.
    fn pace(&self) -> StorePace {
        StorePace::default()
    }

    /// Returns the feed of all appends; none if this store has no global event order.
    fn feed(&self) -> Option<&dyn Feed> {
        None
    }

    /// Returns the audit of heals; none if this store keeps none.
    ///
    /// The writes of tasks and locks add to it ([`audit`](crate::audit)).
    fn audit(&self) -> Option<&dyn AuditLog> {
        None
    }

    /// Returns the foreign states in the same place; none if the store cannot have any.
    fn foreign(&self) -> Option<&dyn ForeignStates> {
        None
    }
}

/// Rows read at a time.
const PAGE: u32 = 1_000;

/// Counts the runs of a workflow, or all, by status.
async fn status_counts_by_pages<S: Store + ?Sized>(
    store: &S,
    workflow: Option<&WorkflowName>,
) -> Result<Vec<(Status, u64)>, StoreError> {
    let filter = RunFilter { workflow: workflow.cloned(), ..RunFilter::default() };
    let found = store.groups(GroupQuery::by(filter, GroupBy::Status, u32::MAX)).await?;
    let count = |group: &Group| Some((group.key.as_deref()?.parse().ok()?, group.count));
    Ok(found.groups.iter().filter_map(count).collect())
}

/// Reads all runs that match, page by page, the latest first.
async fn groups_by_pages<S: Store + ?Sized>(store: &S, query: GroupQuery) -> Result<Groups, StoreError> {
    let GroupQuery { filter, by, limit } = query;
    let order = match filter.order {
        RunOrder::Recovered => RunOrder::Recovered,
        RunOrder::Newest | RunOrder::Oldest => RunOrder::Newest,
    };
    let mut filter = RunFilter { order, limit: PAGE, after: None, ..filter };
    let mut grouping = by.map(|by| Grouping::new(by, limit as usize));
    let mut found = Groups::default();
    loop {
        let page = store.runs(filter.clone()).await?;
        found.total += page.items.len() as u64;
        if let Some(grouping) = &mut grouping {
            page.items.iter().for_each(|row| grouping.add(&row.summary));
        }
        found.unreadable.extend(page.unreadable);
        match page.next {
            Some(next) => filter.after = Some(next),
            None => break,
        }
    }
    if let Some(grouping) = grouping {
        (found.groups, found.left_out) = grouping.finish();
    }
    Ok(found)
}
