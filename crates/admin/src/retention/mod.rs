//! Retention: archives runs that ended long ago, and removes their logs from the store.
//!
//! Invariants: a log is removed only after its archive is durable and was read back, and only by its last event, the
//! tombstone, which is appended at exactly the archived end. So a run that continues in between stays complete, and a
//! crash leaves either a run with a copy in the archive, or a tombstone whose log the next prune removes.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | `plan` | which runs may be pruned, and what an earlier prune left unfinished |
//! | `prune` | archives a run, appends its tombstone, removes its log |
//! | `policy` | how long runs are kept, by workflow and outcome; pure |
//! | `walk` | the place that a retention walk has reached, shared by all nodes |
//! | `retainer` | applies policies in bounded passes |

mod plan;
mod policy;
mod prune;
mod retainer;
mod walk;

use std::time::Duration;

use goldseam_core::{Millis, RunId, Seq, Status, TaskId, WorkflowName};

use goldseam_engine::Client;
pub use goldseam_engine::ledger::archive::{ArchivedRun, BatchFlaw, verify};
pub use policy::{KEEP_MIN, PolicyError, RetentionOutcome, RetentionPolicies, RetentionPolicy};
pub use retainer::{Retainer, RetentionPass};

/// Prunes the runs of one store.
#[derive(Debug, Clone, Copy)]
pub struct Pruner<'a> {
    client: &'a Client,
}

impl<'a> Pruner<'a> {
    /// Prunes through this client.
    pub fn new(client: &'a Client) -> Self {
        Self { client }
    }
}

/// Which runs are to be pruned by request. A [`Retainer`] prunes by policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Minimum time since the run ended, by the store's clock.
    pub older_than: Duration,
    /// Statuses of the runs; empty: any terminal status.
    pub statuses: Vec<Status>,
    /// Only runs of this workflow.
    pub workflow: Option<WorkflowName>,
    /// Maximum number of runs, oldest first.
    pub limit: Option<u64>,
}

/// What a prune would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrunePlan {
    /// Runs that ended before this time are pruned.
    pub before: Millis,
    /// Runs to archive and remove.
    pub runs: Vec<Candidate>,
    /// Whether more runs match than the limit allows.
    pub more: bool,
    /// Tombstones whose logs an earlier prune did not remove; searched for only if `more` is false.
    pub unfinished: Vec<(RunId, Seq)>,
    /// Number of runs that are old enough, but have an active parent, child or task.
    pub held: u64,
}

/// A run that may be pruned, according to its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// Its status.
    pub status: Status,
    /// When it ended.
    pub finished_at: Millis,
    /// Number of events in its log.
    pub events: u64,
    /// Bytes of its log; none if an older release wrote its row.
    pub bytes: Option<u64>,
    /// The run is pruned only if its log, too, says that it ended before this time.
    before: Millis,
    /// Its finished tasks, which are removed with it.
    tasks: Vec<TaskId>,
}

/// The progress of a prune.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneProgress {
    /// Runs done.
    pub done: u64,
    /// Runs in the plan.
    pub total: u64,
}

/// The result of a prune.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// The runs that were archived and removed.
    pub pruned: Vec<PrunedRun>,
    /// The locations of the archive's batches.
    pub batches: Vec<String>,
    /// Their size in bytes.
    pub bytes: u64,
    /// Number of logs removed that an earlier prune had archived.
    pub finished: u64,
    /// Runs that were left unchanged, with the reason.
    pub left: Vec<(RunId, String)>,
}

impl PruneReport {
    /// Bytes of the removed logs, without indexes.
    pub fn freed(&self) -> u64 {
        self.pruned.iter().map(|run| run.bytes).sum()
    }

    /// Number of events removed.
    pub fn events(&self) -> u64 {
        self.pruned.iter().map(|run| run.events).sum()
    }
}

/// A run of which only a tombstone is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedRun {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// Its status.
    pub status: Status,
    /// When it ended.
    pub finished_at: Millis,
    /// Number of events archived.
    pub events: u64,
    /// Bytes of its log.
    pub bytes: u64,
    /// The location of the archive.
    pub archive: String,
}
