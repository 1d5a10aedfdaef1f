//! Archiving runs that ended long ago, and removing their logs from the store.
//!
//! Invariants: a log is removed only when the whole of it is in an archive, durable and read back, and only by way of
//! its own last event, the tombstone, which the log takes at exactly the end that was archived. So a run that goes on in
//! between stays whole, and a crash leaves either a run with a copy in the archive or a tombstone whose log the next
//! prune removes.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | `plan` | which runs may be pruned, and what an earlier prune left undone |
//! | `prune` | archive, bury, remove |

mod plan;
mod prune;

use std::time::Duration;

use goldseam_core::{Millis, RunId, Seq, Status, TaskId, WorkflowName};

use goldseam_engine::Client;
pub use goldseam_engine::ledger::archive::{ArchivedRun, BatchFlaw, verify};

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

/// Which runs are to be pruned. Nothing is unless somebody asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// They ended at least so long ago, by the store's clock.
    pub older_than: Duration,
    /// How they ended; empty is any way.
    pub statuses: Vec<Status>,
    /// Of this workflow only.
    pub workflow: Option<WorkflowName>,
    /// At most so many, the oldest first.
    pub limit: Option<u64>,
}

/// What a prune would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Runs that ended before this moment are pruned.
    pub before: Millis,
    /// Runs to archive and remove.
    pub runs: Vec<Candidate>,
    /// There are more to archive and remove, which the limit leaves for later.
    pub more: bool,
    /// Tombstones whose logs an earlier prune did not get to remove; looked for only if there is no more.
    pub unfinished: Vec<(RunId, Seq)>,
    /// Old enough, but part of something that still moves: a parent, a child or a task.
    pub held: u64,
}

/// A run that may be pruned, by its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// How it ended.
    pub status: Status,
    /// When.
    pub finished_at: Millis,
    /// How long its log is.
    pub events: u64,
    /// Tasks of it that are over, and go with it.
    tasks: Vec<TaskId>,
}

/// How far a prune is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Runs seen to.
    pub done: u64,
    /// Of so many.
    pub total: u64,
}

/// What a prune did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// What was archived and removed.
    pub pruned: Vec<PrunedRun>,
    /// Where the archive's batches are.
    pub batches: Vec<String>,
    /// Bytes in them.
    pub bytes: u64,
    /// Logs removed that an earlier prune had archived.
    pub finished: u64,
    /// What was left alone, and why.
    pub left: Vec<(RunId, String)>,
}

impl PruneReport {
    /// Events removed.
    pub fn events(&self) -> u64 {
        self.pruned.iter().map(|run| run.events).sum()
    }
}

/// A run of which a tombstone is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedRun {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// How it ended.
    pub status: Status,
    /// When.
    pub finished_at: Millis,
    /// How many events were archived.
    pub events: u64,
    /// Where.
    pub archive: String,
}
