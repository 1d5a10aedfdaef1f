//! A user's own tasks.

use goldseam::core::task::{Task, TaskState};
use goldseam::core::{IdError, QueueName};
use goldseam::engine::config::QUEUE_DEFAULT;
use goldseam::engine::stats::Stats;
use goldseam::{Failure, Millis, Payload};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What stands in all queues at one moment.
pub type QueueStats = Stats;

/// A task to submit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    /// What sort of work.
    pub kind: String,
    /// The queue; `default` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The work itself; null unless given.
    #[serde(default = "Payload::null")]
    pub payload: Payload,
    /// The task's id; a new one unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// No two live tasks share one: the task that has it is returned instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// At most one task of a lane is claimed at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Larger goes first.
    #[serde(default)]
    pub priority: i32,
    /// Not before so many milliseconds have passed.
    #[serde(default, deserialize_with = "goldseam::core::whole::number")]
    pub delay_ms: u64,
    /// Attempts in all.
    #[serde(default = "one")]
    pub attempts_max: u32,
    /// How long a claimant may be silent, in milliseconds.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub silence_max_ms: Option<u64>,
}

fn one() -> u32 {
    1
}

/// Which tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TasksQuery {
    /// Only of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub state: Option<TaskState>,
    /// Begin after this cursor: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most so many, up to 500; 100 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Who claims how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewClaim {
    /// The claimant's name.
    pub owner: String,
    /// The queue; `default` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only tasks of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// At most so many, up to 500; 1 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// If nothing is due, wait for so long at the most, in milliseconds, up to 60000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub wait_ms: Option<u64>,
}

impl NewClaim {
    /// The queue that it claims from.
    pub fn queue_name(&self) -> Result<QueueName, IdError> {
        QueueName::new(self.queue.as_deref().unwrap_or(QUEUE_DEFAULT))
    }
}

/// A task that was claimed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Claimed {
    /// The task.
    pub task: Task,
    /// Stands for its fence, and only works for whoever claimed it; a server gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What the last heartbeat of an earlier claim said, or of an earlier attempt at the step that the task does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub last_heartbeat: Option<Payload>,
}

/// A sign of life of a claimant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewHeartbeat {
    /// The fence.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub fence: Option<u64>,
    /// The token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How far the work is: any JSON, kept with the task until it is completed and given to the next claimant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub details: Option<Payload>,
}

/// A hold on a task: the fence that a claim brought, or the token.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hold {
    /// The fence.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub fence: Option<u64>,
    /// The token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// The work is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewResult {
    /// The fence.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub fence: Option<u64>,
    /// The token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What it brought; null unless given.
    #[serde(default = "Payload::null")]
    pub result: Payload,
}

/// The work failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFailure {
    /// The fence.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub fence: Option<u64>,
    /// The token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Why.
    pub failure: Failure,
}

/// What is taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewReclaim {
    /// Every task whose claimant gave no sign of life for so many milliseconds, whatever the task itself allows.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub older_than_ms: Option<u64>,
    /// Only count.
    pub dry_run: bool,
}

/// What was taken back, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reclaimed {
    /// It was only counted.
    pub dry_run: bool,
    /// Tasks that were taken from claimants who are gone or silent.
    pub entries_reclaimed: u64,
    /// Stale locks that are free again; absent if a span was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks_cleaned: Option<u64>,
    /// When, by the store's clock; absent if a span was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_timestamp: Option<Millis>,
}
