//! Pruning: what would go, and what went.

use goldseam::core::WorkflowName;
use goldseam::{Millis, RunId, Status};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Most runs that a server prunes at a time.
pub const PRUNE_MAX: u64 = 500;

/// Which runs would be pruned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PruneQuery {
    /// Only what ended at least so many milliseconds ago, by the store's clock.
    #[serde(deserialize_with = "goldseam::core::whole::number")]
    pub completed_before_ms: u64,
    /// Only of this workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only what ended so: `completed`, `failed` or `cancelled`, separated by commas; all of them unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// At most so many, the oldest first.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub limit: Option<u64>,
}

/// Which runs are to be pruned, and who wants it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPrune {
    /// Only what ended at least so many milliseconds ago, by the store's clock.
    #[serde(deserialize_with = "goldseam::core::whole::number")]
    pub completed_before_ms: u64,
    /// Only of this workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only what ended so: `completed`, `failed` or `cancelled`; all of them unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<Status>,
    /// At most so many, the oldest first; a server takes 500 at a time, and so many unless given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub limit: Option<u64>,
    /// Who, if it is somebody else than whoever asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl NewPrune {
    /// The same choice, to look at what it would do.
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

/// What a prune would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrunePlan {
    /// What ended before this moment would go.
    pub before: Millis,
    /// Always: nothing was done.
    pub dry_run: bool,
    /// Runs that are old enough, but part of something that moves.
    pub held: u64,
    /// What would be archived and removed.
    pub runs: Vec<PrunableRun>,
    /// Logs that an earlier prune archived and did not get to remove.
    pub unfinished: u64,
}

/// A run that would be pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrunableRun {
    /// How long its log is.
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

/// What a prune did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PruneReport)]
pub struct Pruned {
    /// Where the archive's new files are.
    pub archives: Vec<String>,
    /// Bytes in them.
    pub bytes: u64,
    /// Events that were removed.
    pub events: u64,
    /// Logs removed that an earlier prune had archived.
    pub finished: u64,
    /// Runs that are old enough, but part of something that moves.
    pub held: u64,
    /// What was left alone.
    pub left: Vec<LeftRun>,
    /// There is more that the choice fits: prune again to go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// What was archived and removed.
    pub pruned: Vec<PrunedRun>,
}

impl Pruned {
    /// Adds what a later part of the same prune did.
    pub fn add(&mut self, later: Self) {
        self.archives.extend(later.archives);
        self.bytes += later.bytes;
        self.events += later.events;
        self.finished += later.finished;
        self.held = later.held;
        self.more = later.more;
        self.pruned.extend(later.pruned);
        // What cannot be pruned is come upon each time.
        self.left.retain(|left| later.left.iter().all(|later| later.run != left.run));
        self.left.extend(later.left);
    }
}

/// A run of which a tombstone is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrunedRun {
    /// Where its log is.
    pub archive: String,
    /// How long it was.
    pub events: u64,
    /// When the run ended.
    pub finished_at: Millis,
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub status: Status,
    /// Its workflow.
    pub workflow: WorkflowName,
}

/// A run that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftRun {
    /// The run.
    pub run: RunId,
    /// Why.
    pub why: String,
}
