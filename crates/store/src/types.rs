//! The records of a store, and the conditions of its lists and writes.

mod node;

use std::sync::Arc;

use goldseam_core::lock::Lock;
pub use goldseam_core::plan::TaskChange;
use goldseam_core::search::{Condition, Group, GroupBy};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{LockName, Millis, NodeId, RunId, Seq, Status, Summary, TagKey, TaskId, WorkflowName};

pub use self::node::{NodeRecord, NodeSeen, NodeState, Pulse, Timing};

/// An event as a store sees it: a position and opaque text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Position in the log.
    pub seq: Seq,
    /// Text of the event.
    pub body: String,
}

/// An atomic write to the log of one run.
///
/// The write names the position where the log must end (*compare-and-append*). If the log ends elsewhere, the store
/// writes nothing and returns [`StoreError::Conflict`](crate::StoreError::Conflict). Events, cached row and task
/// changes belong together: the row and the task changes become visible with the events or later, never before.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// The run.
    pub run: RunId,
    /// Position where the log must end.
    pub after: Seq,
    /// Texts for the positions `after + 1`, `after + 2`, … At least one.
    pub bodies: Vec<String>,
    /// The cached row after this append; none leaves the row unchanged (late).
    pub row: Option<Box<Summary>>,
    /// Changes of tasks, visible with the append or later, never before.
    pub tasks: Vec<TaskChange>,
}

/// The cached row and what only the store knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The state of the run, up to `summary.as_of`.
    pub summary: Summary,
    /// The run's own advance task.
    pub task: Option<TaskId>,
    /// Strictly increases with every write of the row.
    pub updated_at: Millis,
}

impl Row {
    /// Returns the version that compare-and-set compares: `updated_at` as a number.
    pub fn version(&self) -> u64 {
        u64::try_from(self.updated_at.0).unwrap_or_default()
    }
}

/// The end of a log and its cached row.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Position of the last event.
    pub end: Seq,
    /// The cached row; none if it is lost or unreadable.
    pub row: Option<Row>,
    /// Why the cached row is unreadable; none if it is readable or absent.
    pub unreadable: Option<String>,
}

/// The kind of an unreadable record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// The cached row of a run.
    Row,
    /// A task.
    Task,
    /// A named lock; keys and other settings of a server are locks, too.
    Lock,
    /// A node.
    Node,
    /// An index entry for an idempotency key or a lane, in stores that keep them separately.
    Index,
}

impl RecordKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Row, Self::Task, Self::Lock, Self::Node, Self::Index];

    /// Returns the word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Task => "task",
            Self::Lock => "lock",
            Self::Node => "node",
            Self::Index => "index",
        }
    }
}

/// Placeholder for a text that is unreadable.
const UNREADABLE: &str = "(unreadable)";

/// A record that this build cannot read: damaged, or written by a later release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The kind of record.
    pub kind: RecordKind,
    /// Name of the run, task, lock or node, or else the place of the record if the name is unreadable.
    pub key: String,
    /// Why it cannot be read.
    pub reason: String,
    /// Whether it is a run's own advance task, as far as its kind can be read.
    pub advance: bool,
}

impl Unreadable {
    /// Describes an unreadable record.
    pub fn new(kind: RecordKind, key: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self { kind, key: key.into(), reason: reason.to_string(), advance: false }
    }

    /// Returns the placeholder for an unreadable lock in lists: it may be held, so it is shown as held and never
    /// expired. No compare-and-set matches its version.
    pub fn lock(name: LockName) -> Lock {
        Lock {
            name,
            holder: Some(UNREADABLE.to_owned()),
            fence: 0,
            expires_at: Millis::NEVER,
            acquired_at: Millis(0),
            node: None,
            version: u64::MAX,
            audit: Vec::new(),
        }
    }

    /// Returns whether this lock is the placeholder for an unreadable one.
    pub fn is_lock(lock: &Lock) -> bool {
        lock.version == u64::MAX && lock.holder.as_deref() == Some(UNREADABLE)
    }

    /// Returns the placeholder for an unreadable node in lists: it may be working, so it is shown as up. Its last
    /// beat and its pulse are real.
    pub fn node(id: NodeId, beat_at: Millis, pulse: Pulse) -> NodeSeen {
        let record = NodeRecord {
            id,
            name: UNREADABLE.to_owned(),
            started_at: Millis(0),
            workflows: Vec::new(),
            slots: 0,
            timing: None,
            state: NodeState::Up,
        };
        NodeSeen { record, beats: 0, beat_at, pulse }
    }

    /// Returns the run of an unreadable row.
    pub fn run(&self) -> Option<RunId> {
        RunId::new(self.key.as_str()).ok().filter(|_| self.kind == RecordKind::Row)
    }
}

/// The condition of a compare-and-set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The record does not exist.
    Absent,
    /// The record has this version (for a row: this `updated_at`).
    Version(u64),
}

/// The outcome of a compare-and-set. A lost race is an outcome, not an error.
#[derive(Debug, Clone, PartialEq)]
pub enum Written<T> {
    /// The record was written.
    Done,
    /// The record as it is instead; none if it does not exist.
    Lost(Option<T>),
}

/// A request to claim tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimRequest {
    /// The claimant: a node's id, or a holder's name.
    pub owner: String,
    /// Pools to claim from ([`Task::pool`]).
    pub pools: Vec<String>,
    /// Only tasks of this kind, if given.
    pub kind: Option<String>,
    /// Most tasks to claim.
    pub limit: u32,
    /// The present time, by the store's clock.
    pub now: Millis,
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClaimedTasks {
    /// The claimed tasks; higher priority first, then earlier `run_at`.
    pub tasks: Vec<Task>,
    /// When the next ready task of these pools is due, ignoring tasks behind a busy lane; in the past if the limit
    /// left some.
    pub next_due: Option<Millis>,
}

/// Which tasks to list, in order of id.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskFilter {
    /// Only the task with this id.
    pub id: Option<TaskId>,
    /// Only tasks of this run.
    pub run: Option<RunId>,
    /// Only live tasks with this idempotency key.
    pub key: Option<String>,
    /// Only tasks in this state.
    pub state: Option<TaskState>,
    /// Only tasks of this owner.
    pub owner: Option<String>,
    /// Only tasks of this queue.
    pub queue: Option<String>,
    /// Only advance tasks (`true`) or only other tasks (`false`).
    pub advance: Option<bool>,
    /// Only poked tasks; listing does not clear the poke.
    pub poked: bool,
    /// Only tasks that need attention: ready, claimed or dead.
    pub open: bool,
    /// Only claimed tasks with a `silence_max` that has passed at this time.
    pub silent_at: Option<Millis>,
    /// Only claimed tasks without a `silence_max` and without a sign of life after this time.
    pub quiet_since: Option<Millis>,
    /// Only claimed tasks whose owner's name has this prefix.
    pub owner_prefix: Option<String>,
    /// Only claimed tasks of none of these owners.
    pub owner_none_of: Option<Vec<String>>,
    /// Only tasks after this id.
    pub after: Option<TaskId>,
    /// Most tasks to list.
    pub limit: u32,
}

/// Which locks to list, in order of name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LockFilter {
    /// Only the lock with this name.
    pub name: Option<LockName>,
    /// Only held locks that have expired at this time.
    pub stale_at: Option<Millis>,
    /// Only locks held through a node other than these.
    pub node_none_of: Option<Vec<String>>,
    /// Only locks after this name.
    pub after: Option<LockName>,
    /// Most locks to list.
    pub limit: u32,
}

/// Which runs to list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunFilter {
    /// Only runs in one of these statuses; empty: any.
    pub statuses: Vec<Status>,
    /// Only runs of this workflow.
    pub workflow: Option<WorkflowName>,
    /// Only runs with this tag.
    pub tag: Option<(TagKey, String)>,
    /// Only runs queued at or after this time.
    pub since: Option<Millis>,
    /// Only runs that this condition selects.
    pub condition: Option<Arc<Condition>>,
    /// Only runs that failed or were parked for this cause.
    pub cause: Option<String>,
    /// Only runs owned by this node.
    pub owner: Option<NodeId>,
    /// Only children of this run.
    pub parent: Option<RunId>,
    /// The order of the list.
    pub order: RunOrder,
    /// Only runs after this cursor of an earlier page.
    pub after: Option<String>,
    /// Most runs to list.
    pub limit: u32,
}

/// Which runs to count, and how to group them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupQuery {
    /// Which runs; its cursor, order and limit do not matter.
    pub filter: RunFilter,
    /// What to group by; none only counts.
    pub by: Option<GroupBy>,
    /// Most groups; runs of further groups are only counted.
    pub limit: u32,
}

impl GroupQuery {
    /// Counts the runs of a filter.
    pub fn count(filter: RunFilter) -> Self {
        Self { filter, by: None, limit: 0 }
    }

    /// Groups the runs of a filter.
    pub fn by(filter: RunFilter, by: GroupBy, limit: u32) -> Self {
        Self { filter, by: Some(by), limit }
    }
}

/// The number of runs, and their groups.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Groups {
    /// Number of runs.
    pub total: u64,
    /// The groups, the largest first.
    pub groups: Vec<Group>,
    /// Number of times that a run belonged to a group beyond the limit.
    pub left_out: u64,
    /// Unreadable records among the runs; they are not counted.
    pub unreadable: Vec<Unreadable>,
}

/// Which runs [`Store::unproven`](crate::Store::unproven) reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnprovenScope {
    /// Every active run.
    #[default]
    Every,
    /// Active runs that do not rest, whose rest is over, that lack a task, or whose task a lost claimant holds. A
    /// store that finds them by indexes says so ([`Store::watches`](crate::Store::watches)); the cost then does not
    /// depend on the number of resting runs.
    Watched,
}

/// What a search for unproven runs knows about the present.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnprovenFilter {
    /// The runs to read.
    pub scope: UnprovenScope,
    /// The present time, by the store's clock.
    pub now: Millis,
    /// Ids of live nodes.
    pub alive: Vec<String>,
    /// Kinds of advance tasks that live nodes claim: from any queue ([`Task::advance_kind`]), or from one
    /// ([`Task::pool_of`]).
    pub kinds: Vec<String>,
    /// Only runs after this cursor of an earlier page.
    pub after: Option<String>,
    /// Most runs to read.
    pub limit: u32,
    /// Unproven runs after which no further group of runs is read; none: only `limit` ends a page.
    pub found_max: Option<u32>,
}

/// A page of unproven runs, which their row and their task do not prove to be well.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Unproven {
    /// The unproven runs. An unreadable row is in `unreadable` instead.
    pub rows: Vec<Row>,
    /// Unproven runs whose rows are unreadable.
    pub unreadable: Vec<Unreadable>,
    /// Number of runs that were read and left out.
    pub skipped: u64,
    /// Cursor of the next page; none after the last page.
    pub next: Option<String>,
}

/// The order of a list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunOrder {
    /// Latest queued first.
    #[default]
    Newest,
    /// Earliest queued first.
    Oldest,
    /// Latest recovered first; only recovered runs. A run that is recovered again between two pages moves to the
    /// front.
    Recovered,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The listed records.
    pub items: Vec<T>,
    /// Cursor of the next page; none after the last page.
    pub next: Option<String>,
    /// Unreadable records within this page. They are not among the items.
    pub unreadable: Vec<Unreadable>,
}

impl<T> Default for Page<T> {
    /// Returns the only page of an empty list.
    fn default() -> Self {
        Self { items: Vec::new(), next: None, unreadable: Vec::new() }
    }
}
