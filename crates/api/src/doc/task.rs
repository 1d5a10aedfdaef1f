//! User tasks.

use goldseam::unstable::core::task::{Task, TaskState};
use goldseam::unstable::core::{IdError, QueueName};
use goldseam::unstable::engine::config::QUEUE_DEFAULT;
use goldseam::unstable::engine::stats::Stats;
use goldseam::{Failure, Millis, Payload};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Counts of all queues.
pub type QueueStatsDoc = Stats;

/// A task to submit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewTask)]
pub struct NewUserTask {
    /// The kind of work.
    pub kind: String,
    /// The queue; defaults to `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The payload; defaults to null.
    #[serde(default = "Payload::null")]
    pub payload: Payload,
    /// The task's id; random by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Deduplicates: if a live task has this key, that task is returned instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// At most one task of a lane is claimed at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Larger priorities go first.
    #[serde(default)]
    pub priority: i32,
    /// Delay before the task is due, in milliseconds.
    #[serde(default, deserialize_with = "goldseam::unstable::core::whole::number")]
    pub delay_ms: u64,
    /// Maximum number of attempts.
    #[serde(default = "one")]
    pub attempts_max: u32,
    /// How long a claimant may be silent before the task is reclaimed, in milliseconds.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub silence_max_ms: Option<u64>,
}

fn one() -> u32 {
    1
}

/// Selects tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TasksQuery {
    /// Only tasks of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only tasks in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub state: Option<TaskState>,
    /// Only tasks of remote steps of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Only tasks that this claimant holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Cursor: the previous page's `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of tasks, up to 500; defaults to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A claim to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewClaim {
    /// The claimant's name.
    pub owner: String,
    /// The queue; defaults to `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only tasks of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Maximum number of tasks, up to 500; defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Maximum wait in milliseconds if no task is due, up to 60000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub wait_ms: Option<u64>,
}

impl NewClaim {
    /// Returns the queue to claim from.
    pub fn queue_name(&self) -> Result<QueueName, IdError> {
        QueueName::new(self.queue.as_deref().unwrap_or(QUEUE_DEFAULT))
    }
}

/// A claimed task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Claimed)]
pub struct ClaimedTaskDoc {
    /// The task.
    pub task: Task,
    /// Replaces the fence; a server issues it, and it is valid only for the claimant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Details of the last heartbeat of an earlier claim, or of an earlier attempt at the same remote step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub last_heartbeat: Option<Payload>,
}

/// A heartbeat of a claimant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewHeartbeat {
    /// The fence from the claim.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub fence: Option<u64>,
    /// The token from the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Progress of the work: any JSON. Kept until the task is completed, and passed to the next claimant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub details: Option<Payload>,
    /// The state of the work, as in `testing`: a name. Lists of tasks show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A hold on a task: the fence or the token from the claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hold {
    /// The fence from the claim.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub fence: Option<u64>,
    /// The token from the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewResult {
    /// The fence from the claim.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub fence: Option<u64>,
    /// The token from the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The result; defaults to null.
    #[serde(default = "Payload::null")]
    pub result: Payload,
}

/// The failure of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFailure {
    /// The fence from the claim.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub fence: Option<u64>,
    /// The token from the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Why.
    pub failure: Failure,
}

/// Selects tasks to reclaim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewReclaim {
    /// Reclaim every task whose claimant has been silent for this many milliseconds, regardless of the task's own
    /// limit.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub older_than_ms: Option<u64>,
    /// Only count; change nothing.
    pub dry_run: bool,
}

/// The result of a reclaim or of its dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Reclaimed)]
pub struct ReclaimedDoc {
    /// Whether tasks were only counted.
    pub dry_run: bool,
    /// Tasks reclaimed from claimants that are gone or silent.
    pub entries_reclaimed: u64,
    /// Stale locks that were freed; absent if `older_than_ms` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks_cleaned: Option<u64>,
    /// The store's time; absent if `older_than_ms` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_timestamp: Option<Millis>,
}
