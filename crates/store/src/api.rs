//! The [`Store`] trait. The contract is the conformance suite; the prose here is only a summary.

use std::fmt::Debug;

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{LockName, Millis, NodeId, RunId, Seq, Status, Summary, TagKey, TaskId, WorkflowName};

use crate::error::StoreError;
use crate::feed::Feed;
use crate::foreign::ForeignStates;
use crate::pace::Pace;

/// One event as a store sees it: a position and opaque text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its position.
    pub seq: Seq,
    /// Its text.
    pub body: String,
}

/// One atomic write to one run's log.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// The run.
    pub run: RunId,
    /// The log must end exactly here.
    pub after: Seq,
    /// Texts for the positions `after + 1`, `after + 2`, … At least one.
    pub bodies: Vec<String>,
    /// The cached row as it is after this append; none leaves it as it is (late).
    pub row: Option<Box<Summary>>,
    /// Changes of tasks, visible with the append or later, never before.
    pub tasks: Vec<TaskChange>,
}

/// A change of a task that goes with an append. All are hints to be repaired by rules, so none can fail the append.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskChange {
    /// Puts a task there unless one with its id, a live one with its key or, if it is claimed, another claimed
    /// one in its lane is. An advance task of that id becomes the run's own, if the run has a row.
    Create(Box<Task>),
    /// The task is ready again at `run_at`, without owner; nothing happens if it is over or not there.
    Rest {
        /// The task.
        task: TaskId,
        /// When.
        run_at: Millis,
    },
    /// The run's own task is due at `at` if it is ready and would be later; if it is claimed, it is poked.
    Wake {
        /// When.
        at: Millis,
    },
    /// Nobody wants the task any more; nothing happens if it is over or not there.
    Cancel {
        /// The task.
        task: TaskId,
    },
    /// The task is gone.
    Remove {
        /// The task.
        task: TaskId,
    },
}

/// The cached row, with what only the store knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What the log says, up to `summary.as_of`.
    pub summary: Summary,
    /// The run's own advance task.
    pub task: Option<TaskId>,
    /// Strictly grows with every write of the row.
    pub updated_at: Millis,
}

impl Row {
    /// Its version, the compare in compare-and-set: `updated_at` as a number.
    pub fn version(&self) -> u64 {
        u64::try_from(self.updated_at.0).unwrap_or_default()
    }
}

/// The end of a log and its cached row.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Position of the last event.
    pub end: Seq,
    /// The cached row; none if it is lost or cannot be read.
    pub row: Option<Row>,
    /// Why the cached row cannot be read; none if it can, or if there is no row.
    pub unreadable: Option<String>,
}

/// What sort of record cannot be read.
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
    /// What says which task has an idempotency key or a lane, where a store keeps that apart.
    Index,
}

impl RecordKind {
    /// All that a store may have.
    pub const ALL: [Self; 5] = [Self::Row, Self::Task, Self::Lock, Self::Node, Self::Index];

    /// The word in JSON.
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

/// What stands for what cannot be read.
const UNREADABLE: &str = "(unreadable)";

/// A record that this build cannot read: damaged, or written by a later release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// What it is.
    pub kind: RecordKind,
    /// The name of the run, task, lock or node; where that cannot be read either, the place of the record.
    pub key: String,
    /// Why it cannot be read.
    pub reason: String,
    /// Whether it is a run's own advance task, as far as its kind can be read.
    pub advance: bool,
}

impl Unreadable {
    /// A record that cannot be read.
    pub fn new(kind: RecordKind, key: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self { kind, key: key.into(), reason: reason.to_string(), advance: false }
    }

    /// What stands in lists for a lock that cannot be read: held, as far as can be known, and never expired. No
    /// compare-and-set has its version.
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

    /// Whether this lock stands for one that cannot be read.
    pub fn is_lock(lock: &Lock) -> bool {
        lock.version == u64::MAX && lock.holder.as_deref() == Some(UNREADABLE)
    }

    /// What stands in lists for a node whose record cannot be read: a node that works, as far as can be known.
    /// Its last beat and its pulse say the rest.
    pub fn node(id: NodeId, beat_at: Millis, pulse: Pulse) -> NodeSeen {
        let record = NodeRecord {
            id,
            name: UNREADABLE.to_owned(),
            started_at: Millis(0),
            workflows: Vec::new(),
            slots: 0,
            state: NodeState::Up,
        };
        NodeSeen { record, beats: 0, beat_at, pulse }
    }

    /// The run whose row this is.
    pub fn run(&self) -> Option<RunId> {
        RunId::new(self.key.as_str()).ok().filter(|_| self.kind == RecordKind::Row)
    }
}

/// The compare in compare-and-set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// There is no such record.
    Absent,
    /// The record has this version (a row: this `updated_at`).
    Version(u64),
}

/// The outcome of a compare-and-set. Losing is an answer, not an error.
#[derive(Debug, Clone, PartialEq)]
pub enum Written<T> {
    /// Done.
    Done,
    /// The record as it is instead; none if there is no such record.
    Lost(Option<T>),
}

/// Who claims what.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The claimant: a node's id, or a holder's name.
    pub owner: String,
    /// Pools to take from ([`Task::pool`]).
    pub pools: Vec<String>,
    /// Only tasks of this kind, if given.
    pub kind: Option<String>,
    /// At most so many.
    pub limit: u32,
    /// Now, by the store's clock.
    pub now: Millis,
}

/// What a claim brought.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClaimedTasks {
    /// The tasks, claimed; higher priority first, then earlier `run_at`.
    pub tasks: Vec<Task>,
    /// When the next ready task of these pools is due, not counting those behind a busy lane; past if the
    /// limit left some.
    pub next_due: Option<Millis>,
}

/// Which tasks to list, in order of id.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskFilter {
    /// This one.
    pub id: Option<TaskId>,
    /// Tasks of this run.
    pub run: Option<RunId>,
    /// With this idempotency key, live ones only.
    pub key: Option<String>,
    /// In this state.
    pub state: Option<TaskState>,
    /// Held by this owner.
    pub owner: Option<String>,
    /// Of this queue.
    pub queue: Option<String>,
    /// Only advance tasks (`true`) or only others (`false`).
    pub advance: Option<bool>,
    /// Only those with something new for the claimant to look at; reading them clears nothing.
    pub poked: bool,
    /// Only those that somebody has to see to: ready, claimed or dead.
    pub open: bool,
    /// Claimed, with a `silence_max` of their own, and past it at this moment.
    pub silent_at: Option<Millis>,
    /// Claimed, without a `silence_max`, and without a sign of life after this moment.
    pub quiet_since: Option<Millis>,
    /// Claimed, by an owner whose name begins like this.
    pub owner_prefix: Option<String>,
    /// Claimed, by none of these.
    pub owner_none_of: Option<Vec<String>>,
    /// After this id.
    pub after: Option<TaskId>,
    /// At most so many.
    pub limit: u32,
}

/// Which locks to list, in order of name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LockFilter {
    /// This one.
    pub name: Option<LockName>,
    /// Held, and expired at this moment.
    pub stale_at: Option<Millis>,
    /// Held through a node, and that is none of these.
    pub node_none_of: Option<Vec<String>>,
    /// After this name.
    pub after: Option<LockName>,
    /// At most so many.
    pub limit: u32,
}

/// Which runs to list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunFilter {
    /// In one of these statuses; empty is any.
    pub statuses: Vec<Status>,
    /// Of this workflow.
    pub workflow: Option<WorkflowName>,
    /// With this tag.
    pub tag: Option<(TagKey, String)>,
    /// Queued at or after this moment.
    pub since: Option<Millis>,
    /// Failed or parked for this cause.
    pub cause: Option<String>,
    /// Owned by this node.
    pub owner: Option<NodeId>,
    /// Children of this run.
    pub parent: Option<RunId>,
    /// In this order.
    pub order: RunOrder,
    /// After the cursor that an earlier page gave.
    pub after: Option<String>,
    /// At most so many.
    pub limit: u32,
}

/// Order of a list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunOrder {
    /// The latest queued first.
    #[default]
    Newest,
    /// The earliest queued first.
    Oldest,
    /// The latest recovered first; only runs that were. One that is recovered again between two pages has
    /// moved to the front.
    Recovered,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// What was asked for.
    pub items: Vec<T>,
    /// Where the next page begins; none after the last one.
    pub next: Option<String>,
    /// Records that lie within this page and cannot be read. They are not among the items.
    pub unreadable: Vec<Unreadable>,
}

impl<T> Default for Page<T> {
    /// The only page of a list with nothing in it.
    fn default() -> Self {
        Self { items: Vec::new(), next: None, unreadable: Vec::new() }
    }
}

/// One incarnation of an engine process, as it tells about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Random per start.
    pub id: NodeId,
    /// For people: host and process id.
    pub name: String,
    /// When it joined.
    pub started_at: Millis,
    /// Workflows it has, as `name@version`.
    pub workflows: Vec<String>,
    /// Runs it takes at once.
    pub slots: u32,
    /// Where it is in its life.
    pub state: NodeState,
}

/// Where a node is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// Working.
    Up,
    /// Claims nothing more and hands its runs over.
    Leaving,
    /// Left by itself.
    Left,
    /// Ended without handing over; what it had may be taken over.
    Gone,
}

/// A node as another one sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// What it told last.
    pub record: NodeRecord,
    /// How many times it has beaten.
    pub beats: u64,
    /// When it last did, by the store's clock.
    pub beat_at: Millis,
    /// What the system itself knows about its process.
    pub pulse: Pulse,
}

impl NodeSeen {
    /// Whether it has ended for certain: it said so itself, or the system did.
    pub fn is_gone(&self) -> bool {
        self.record.state == NodeState::Gone || self.pulse == Pulse::Dropped
    }
}

/// What the system knows about a node's process, without any timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulse {
    /// The process holds its liveness lock.
    Held,
    /// The lock is free, and nothing but the end of the process or of the node itself frees it.
    Dropped,
    /// The lock is free, but a lost connection frees it too: a suspicion.
    Suspect,
    /// This store has no such lock; only beats tell.
    Unknown,
}

/// Where logs, rows, tasks, locks and nodes are kept.
///
/// Three groups: the log (the truth), queue and locks (truths by compare-and-set), index and watch
/// (hints). A new method needs an ADR.
///
/// One record that cannot be read fails no list, no claim and no look at another record. A cached row that cannot be
/// read counts as lost: `head` has none, [`Expect::Absent`] replaces it, an append with a row does so, too. Tasks that
/// cannot be read are left out of lists and claims, and stay where they are. A lock that cannot be read is listed as
/// held ([`Unreadable::lock`]), a node as up ([`Unreadable::node`]): what may be held or alive counts as that.
/// [`unreadable`](Store::unreadable) names them all.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// Appends if the log ends at exactly `append.after`: all or nothing. Returns the new end.
    async fn append(&self, append: Append) -> Result<Seq, StoreError>;

    /// Up to `limit` records after `after`, oldest first. An unknown run has none.
    ///
    /// A store hands out what it has: where an event is lost, the positions show a gap, and the page goes on
    /// behind it. The ledger above finds the gap; a store neither hides it nor makes it an error.
    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError>;

    /// The end of the log and the cached row; none if there is no such run.
    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError>;

    /// Removes the events before `first`, where an append began, if the event at `first` is there; else nothing.
    ///
    /// What is left is read as before, and the log goes on behind it: it can never be begun anew.
    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError>;

    /// Writes a task if it is as expected. One that would be live also loses to a live task with the same key,
    /// and one that would be claimed to the task that has its lane.
    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError>;

    /// Claims due tasks: highest priority first, at most one claimed task per lane.
    async fn claim(&self, claim: Claim) -> Result<ClaimedTasks, StoreError>;

    /// Lists tasks in order of id.
    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError>;

    /// Writes a lock if it is as expected.
    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError>;

    /// Lists locks in order of name.
    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError>;

    /// Writes a cached row without an append, if its `updated_at` is as expected.
    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError>;

    /// Lists runs by what their cached rows say. Rows that cannot be read are named beside the others if they lie
    /// within the page, and if what can be read of them fits the filter.
    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError>;

    /// Reads the next records of one kind, after the cursor `after`, and names those that cannot be read. At most
    /// about `limit` records are read; a page may be empty and have a next one.
    async fn unreadable(
        &self,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Unreadable>, StoreError>;

    /// Up to `limit` runs after `after`, in order of id, that have a log and no cached row. Rows that no list of
    /// active runs can meet, because their status is none that is known, are among them.
    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError>;

    /// The node is alive; the first beat also takes its liveness lock. Returns the store's clock.
    ///
    /// One that says it has left or is gone lets go of its lock instead, and is listed until it is forgotten.
    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError>;

    /// Every node that has joined and not been forgotten.
    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError>;

    /// Forgets a node and its liveness lock.
    async fn forget(&self, node: &NodeId) -> Result<(), StoreError>;

    /// Returns once something may have changed since `seen` (0: at once), with the mark to pass next time.
    async fn changed(&self, seen: u64) -> Result<u64, StoreError>;

    /// The store's clock: the only one that expiries are judged by.
    async fn now(&self) -> Result<Millis, StoreError>;

    /// How often it wants to be asked; unless a store says otherwise, as often as anybody likes.
    fn pace(&self) -> Pace {
        Pace::default()
    }

    /// Everything that is appended to any log, in one order; none: this store knows no such order.
    fn feed(&self) -> Option<&dyn Feed> {
        None
    }

    /// States that somebody else keeps in the same place; none: there can be no such states.
    fn foreign(&self) -> Option<&dyn ForeignStates> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: NodeState, pulse: Pulse) -> NodeSeen {
        let record = NodeRecord {
            id: NodeId::new("n-1").unwrap(),
            name: String::new(),
            started_at: Millis(0),
            workflows: Vec::new(),
            slots: 1,
            state,
        };
        NodeSeen { record, beats: 1, beat_at: Millis(0), pulse }
    }

    #[test]
    fn a_node_has_ended_if_it_said_so_or_the_system_did_and_not_by_a_suspicion() {
        assert!(seen(NodeState::Gone, Pulse::Held).is_gone());
        assert!(seen(NodeState::Up, Pulse::Dropped).is_gone());
        for pulse in [Pulse::Held, Pulse::Suspect, Pulse::Unknown] {
            assert!(!seen(NodeState::Up, pulse).is_gone(), "{pulse:?}");
        }
    }
}
