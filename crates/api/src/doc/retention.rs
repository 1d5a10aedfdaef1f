//! Pruning: plans and results.

use goldseam::unstable::core::WorkflowName;
use goldseam::{Millis, RunId, Status};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Maximum number of runs that a server prunes per request.
pub const PRUNE_MAX: u64 = 500;

/// Selects runs to prune.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PruneQuery {
    /// Only runs that ended at least this many milliseconds ago, by the store's clock.
    #[serde(deserialize_with = "goldseam::unstable::core::whole::number")]
    pub completed_before_ms: u64,
    /// Only runs of this workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only runs with these statuses, separated by commas: `completed`, `failed`, `cancelled`; defaults to all three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Maximum number of runs, the oldest first.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub limit: Option<u64>,
}

/// A prune to make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPrune {
    /// Only runs that ended at least this many milliseconds ago, by the store's clock.
    #[serde(deserialize_with = "goldseam::unstable::core::whole::number")]
    pub completed_before_ms: u64,
    /// Only runs of this workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only runs with these statuses: `completed`, `failed`, `cancelled`; defaults to all three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<Status>,
    /// Maximum number of runs, the oldest first. A server prunes up to 500 per request, which is also its default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub limit: Option<u64>,
    /// Who makes the change, if not the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl NewPrune {
    /// The query that plans this prune.
    pub fn query(&self) -> PruneQuery {
        let status = self.status.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        PruneQuery {
            completed_before_ms: self.completed_before_ms,
            workflow: self.workflow.clone(),
            status: Some(status).filter(|status| !status.is_empty()),
            limit: self.limit,
        }
    }
}

/// The plan of a prune.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PrunePlan)]
pub struct PrunePlanDoc {
    /// Runs that ended before this time are selected.
    pub before: Millis,
    /// Estimate of the bytes of the logs that would be removed, without indexes. Runs of older releases count nothing.
    #[serde(default)]
    pub bytes: u64,
    /// Number of events that would be removed.
    #[serde(default)]
    pub events: u64,
    /// Always true: nothing was changed.
    pub dry_run: bool,
    /// Runs that are old enough but have an active parent, child or task.
    pub held: u64,
    /// The runs that would be archived and removed.
    pub runs: Vec<PrunableRunDoc>,
    /// Logs that an earlier prune archived but did not remove.
    pub unfinished: u64,
}

/// A run that would be pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PrunableRun)]
pub struct PrunableRunDoc {
    /// The length of its log.
    pub events: u64,
    /// When it ended.
    pub finished_at: Millis,
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub status: Status,
    /// Its workflow.
    pub workflow: WorkflowName,
}

/// The result of a prune.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PruneReport)]
pub struct PrunedDoc {
    /// The new files of the archive.
    pub archives: Vec<String>,
    /// Their size in bytes.
    pub bytes: u64,
    /// The number of removed events.
    pub events: u64,
    /// Removed logs that an earlier prune had archived.
    pub finished: u64,
    /// Bytes of the removed logs, without indexes. `goldseam store compact` gives them back.
    #[serde(default)]
    pub freed_bytes: u64,
    /// Runs that are old enough but have an active parent, child or task.
    pub held: u64,
    /// Runs that were not pruned.
    pub left: Vec<LeftRunDoc>,
    /// Whether more runs match: prune again to continue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Runs that were archived and removed.
    pub pruned: Vec<PrunedRunDoc>,
}

impl PrunedDoc {
    /// Adds the result of a later part of the same prune.
    pub fn add(&mut self, later: Self) {
        self.archives.extend(later.archives);
        self.bytes += later.bytes;
        self.events += later.events;
        self.finished += later.finished;
        self.freed_bytes += later.freed_bytes;
        self.held = later.held;
        self.more = later.more;
        self.pruned.extend(later.pruned);
        // Every part lists the runs that cannot be pruned.
        self.left.retain(|left| later.left.iter().all(|later| later.run != left.run));
        self.left.extend(later.left);
    }
}

/// A pruned run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PrunedRun)]
pub struct PrunedRunDoc {
    /// The archive that holds its log.
    pub archive: String,
    /// The length of its log.
    pub events: u64,
    /// When it ended.
    pub finished_at: Millis,
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub status: Status,
    /// Its workflow.
    pub workflow: WorkflowName,
}

/// A run that was not pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LeftRun)]
pub struct LeftRunDoc {
    /// The run.
    pub run: RunId,
    /// Why.
    pub why: String,
}
