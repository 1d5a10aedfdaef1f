//! Workflow states that another system keeps beside Goldseam's runs: which of them are stalled, and the task that
//! heals them.
//!
//! Invariant: only the task id in such a state ever changes; every other byte stays as it was written.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hash::Hash;
use crate::id::{QueueName, RunId, TaskId};
use crate::limits::Limits;
use crate::payload::Payload;
use crate::reserved::EngineTask;
use crate::task::{NewTask, Task, TaskState};
use crate::time::Millis;

/// Statuses that are expected to make progress.
const ACTIVE: [&str; 3] = ["running", "waiting_signal", "compensating"];
/// Kind of the task that advances such a workflow, unless the operator names another.
pub const ORCHESTRATE: &str = "workflow.orchestrate";
/// Failures of that task before it has failed for good.
const ATTEMPTS_MAX: u32 = 3;
/// Longest `updated_at`, in bytes: it becomes part of a key.
const UPDATED_AT_MAX: usize = 128;

/// A foreign state, as far as Goldseam can parse it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    id: RunId,
    text: String,
    status: String,
    task: Option<String>,
    /// Byte range of the task's name in the text.
    task_at: Range<usize>,
    updated_at: String,
}

/// The reason why a foreign state is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse the state of {id}: {why}")]
pub struct NotUnderstood {
    /// The workflow of the state.
    pub id: RunId,
    /// What is wrong with the state.
    pub why: String,
}

/// The condition of a foreign state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It has ended, is paused or names no task: Goldseam does not advance it.
    Skipped,
    /// Its task will advance it.
    Well,
    /// Only a new task will advance it.
    Stalled {
        /// What was observed.
        evidence: String,
    },
    /// Its task crashed too many claimants: a new one would do the same.
    NeedsHelp {
        /// What was observed.
        evidence: String,
    },
}

/// The condition of the task that a foreign state names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskStanding {
    /// The queue has no such task.
    Missing,
    /// It is ready, or a live claimant has it.
    Live,
    /// It is done.
    Completed,
    /// It failed for good.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It is claimed, but its claimant is dead or silent.
    LeaseOver {
        /// The evidence.
        why: String,
    },
    /// It crashed too many claimants.
    Dead,
}

impl TaskStanding {
    /// Returns the condition of one of Goldseam's tasks. `lapsed` says why it has no live claimant, if that is so.
    pub fn of(task: Option<&Task>, lapsed: Option<&str>) -> Self {
        match (task.map(|task| task.state), lapsed) {
            (None, _) => Self::Missing,
            (Some(TaskState::Completed), _) => Self::Completed,
            (Some(TaskState::Failed), _) => Self::Failed,
            (Some(TaskState::Cancelled), _) => Self::Cancelled,
            (Some(TaskState::Dead), _) => Self::Dead,
            (Some(TaskState::Claimed), Some(why)) => Self::LeaseOver { why: why.to_owned() },
            (Some(TaskState::Ready | TaskState::Claimed), _) => Self::Live,
        }
    }
}

/// The fields that Goldseam reads; all others may be anything.
#[derive(Deserialize)]
struct Fields<'a> {
    id: Option<String>,
    status: String,
    #[serde(borrow)]
    orchestrator_task_id: Option<&'a RawValue>,
    #[serde(borrow)]
    updated_at: &'a RawValue,
}

impl Foreign {
    /// Reads the state that is kept under the name `id`.
    pub fn parse(id: &RunId, text: &str) -> Result<Self, NotUnderstood> {
        let not = |why: String| NotUnderstood { id: id.clone(), why };
        let fields: Fields<'_> = serde_json::from_str(text).map_err(|error| not(error.to_string()))?;
        if fields.id.as_deref().is_some_and(|own| own != id.as_str()) {
            return Err(not("its `id` field names another workflow".to_owned()));
        }
        let updated_at = plain(fields.updated_at);
        if updated_at.len() > UPDATED_AT_MAX {
            return Err(not("its `updated_at` is too long".to_owned()));
        }
        let (task, task_at) = match fields.orchestrator_task_id {
            None => (None, 0..0),
            Some(raw) => {
                let name = serde_json::from_str::<String>(raw.get())
                    .map_err(|_| not("its `orchestrator_task_id` is not a string".to_owned()))?;
                (Some(name).filter(|name| !name.is_empty()), place(text, raw.get()))
            }
        };
        let status = fields.status;
        Ok(Self { id: id.clone(), text: text.to_owned(), status, task, task_at, updated_at })
    }

    /// Returns the workflow of the state.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Returns the task that advances the workflow, if the state names one.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Returns the same as a task id, if the name is a valid one.
    pub fn task_id(&self) -> Option<TaskId> {
        self.task().and_then(|name| TaskId::new(name).ok())
    }

    /// Returns whether the workflow is expected to make progress.
    pub fn is_active(&self) -> bool {
        ACTIVE.contains(&self.status.as_str()) && self.task.is_some()
    }

    /// Returns its condition, given the task as the queue has it and, if it has no live claimant, why.
    pub fn standing(&self, task: Option<&Task>, lapsed: Option<&str>) -> Standing {
        self.standing_by(&TaskStanding::of(task, lapsed))
    }

    /// Returns its condition, given the condition of its task in any queue.
    pub fn standing_by(&self, task: &TaskStanding) -> Standing {
        let (true, Some(name)) = (self.is_active(), self.task()) else { return Standing::Skipped };
        let stalled = |what: &str| Standing::Stalled { evidence: format!("its task {name} is {what}") };
        match task {
            TaskStanding::Live => Standing::Well,
            TaskStanding::Missing => stalled("missing"),
            TaskStanding::Completed => stalled("completed"),
            TaskStanding::Failed => stalled("failed"),
            TaskStanding::Cancelled => stalled("cancelled"),
            TaskStanding::LeaseOver { why } => stalled(&format!("held by a dead claimant: {why}")),
            TaskStanding::Dead => Standing::NeedsHelp { evidence: format!("its task {name} is dead") },
        }
    }

    /// Returns the task that heals it, of the given kind in the given queue. The id is derived from the state and its
    /// previous task, so several healers create only one task, even after the first has ended.
    pub fn new_task(&self, queue: QueueName, kind: &str, now: Millis) -> NewTask {
        let parts = ["orchestrate", self.id.as_str(), &self.updated_at, self.task().unwrap_or_default()];
        let id = EngineTask::Foreign.id(Hash::of_parts(&parts));
        let payload = serde_json::json!({ "workflow_id": self.id });
        NewTask {
            id,
            kind: kind.to_owned(),
            queue,
            lane: None,
            priority: 0,
            key: Some(format!("{}:orchestrate:{}", self.id, self.updated_at)),
            run_at: now,
            payload: Payload::of(&payload, &Limits::default()).unwrap_or_else(|_| Payload::null()),
            attempts_max: ATTEMPTS_MAX,
            silence_max: None,
        }
    }

    /// Returns its text with this task instead of its own; a state that names no task is unchanged.
    pub fn with_task(&self, task: &TaskId) -> String {
        let mut text = self.text.clone();
        if self.task.is_some() {
            text.replace_range(self.task_at.clone(), &format!("\"{task}\""));
        }
        text
    }
}

/// Returns a JSON string without its quotes, or any other value as written.
fn plain(raw: &RawValue) -> String {
    serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// Returns the byte range of `part`, which is borrowed from `text`.
fn place(text: &str, part: &str) -> Range<usize> {
    let begin = part.as_ptr().addr() - text.as_ptr().addr();
    begin..begin + part.len()
}

#[cfg(test)]
mod tests;
