//! State objects that somebody else keeps beside our runs: which of them are stalled, and what heals them.
//!
//! Invariant: nothing of such an object changes but the id of its task; every other byte stays as it was written.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hash::Hash;
use crate::id::{QueueName, RunId, TaskId};
use crate::limits::Limits;
use crate::payload::Payload;
use crate::task::{NewTask, Task, TaskState};
use crate::time::Millis;

/// What is expected to move by itself.
const ACTIVE: [&str; 3] = ["running", "waiting_signal", "compensating"];
/// Kind of the task that moves such a workflow on, unless the operator names another.
pub const ORCHESTRATE: &str = "workflow.orchestrate";
/// Failures of that task's own work before it has failed for good.
const ATTEMPTS_MAX: u32 = 3;
/// Longest `updated_at`, in bytes: it becomes part of a key.
const UPDATED_AT_MAX: usize = 128;

/// A foreign state, as far as it is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    id: RunId,
    text: String,
    status: String,
    task: Option<String>,
    /// Where the text names the task.
    task_at: Range<usize>,
    updated_at: String,
}

/// Why a foreign state is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the state of {id} is not understood: {why}")]
pub struct NotUnderstood {
    /// Whose state it is.
    pub id: RunId,
    /// What is wrong with it.
    pub why: String,
}

/// How a foreign state stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is over, paused or names no task: not for us to move.
    Skipped,
    /// Its task will move it on.
    Well,
    /// Nothing will move it on until it has a new task.
    Stalled {
        /// What was seen.
        evidence: String,
    },
    /// Its task took too many claimants down: another one would do the same.
    NeedsHelp {
        /// What was seen.
        evidence: String,
    },
}

/// What a queue knows of the task that a foreign state names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskStanding {
    /// The queue has no such task.
    Missing,
    /// It waits, or a live claimant has it.
    Live,
    /// It is done.
    Completed,
    /// It failed for good.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It is claimed, and its lease is over.
    LeaseOver {
        /// How that is known.
        why: String,
    },
    /// It took too many claimants down.
    Dead,
}

impl TaskStanding {
    /// That of a task of ours; `lapsed` says why no living claimant has it, if that is so.
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

/// The fields that matter; the others may be anything.
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
            return Err(not("it says that it is another one's".to_owned()));
        }
        let updated_at = plain(fields.updated_at);
        if updated_at.len() > UPDATED_AT_MAX {
            return Err(not("its updated_at is too long".to_owned()));
        }
        let (task, task_at) = match fields.orchestrator_task_id {
            None => (None, 0..0),
            Some(raw) => {
                let name = serde_json::from_str::<String>(raw.get())
                    .map_err(|_| not("its orchestrator_task_id is no text".to_owned()))?;
                (Some(name).filter(|name| !name.is_empty()), place(text, raw.get()))
            }
        };
        let (id, text) = (id.clone(), text.to_owned());
        Ok(Self { id, text, status: fields.status, task, task_at, updated_at })
    }

    /// Whose state it is.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The task that is to move it on, if it names one.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// The same as a name that a task of ours can have.
    pub fn task_id(&self) -> Option<TaskId> {
        self.task().and_then(|name| TaskId::new(name).ok())
    }

    /// Whether somebody is expected to move it on.
    pub fn is_active(&self) -> bool {
        ACTIVE.contains(&self.status.as_str()) && self.task.is_some()
    }

    /// How it stands, given its task as the queue has it and, if nobody alive holds that, why.
    pub fn standing(&self, task: Option<&Task>, lapsed: Option<&str>) -> Standing {
        self.standing_by(&TaskStanding::of(task, lapsed))
    }

    /// The same, given what a queue knows of its task, in any queue.
    pub fn standing_by(&self, task: &TaskStanding) -> Standing {
        let (true, Some(name)) = (self.is_active(), self.task()) else { return Standing::Skipped };
        let stalled = |what: &str| Standing::Stalled { evidence: format!("its task {name} is {what}") };
        match task {
            TaskStanding::Live => Standing::Well,
            TaskStanding::Missing => stalled("missing"),
            TaskStanding::Completed => stalled("completed"),
            TaskStanding::Failed => stalled("failed"),
            TaskStanding::Cancelled => stalled("cancelled"),
            TaskStanding::LeaseOver { why } => stalled(&format!("held by nobody: {why}")),
            TaskStanding::Dead => Standing::NeedsHelp { evidence: format!("its task {name} is dead") },
        }
    }

    /// The task that heals it, of the given kind in the given queue. Its id follows from the state and the task before: of many healers none makes a second
    /// one, not even once the first is done.
    pub fn new_task(&self, queue: QueueName, kind: &str, now: Millis) -> NewTask {
        let parts = ["orchestrate", self.id.as_str(), &self.updated_at, self.task().unwrap_or_default()];
        let id = TaskId::new(format!("w-{}", Hash::of_parts(&parts)))
            .unwrap_or_else(|_| unreachable!("a hash is an id"));
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

    /// Its text with this task instead of its own; one that names none stays as it is.
    pub fn with_task(&self, task: &TaskId) -> String {
        let mut text = self.text.clone();
        if self.task.is_some() {
            text.replace_range(self.task_at.clone(), &format!("\"{task}\""));
        }
        text
    }
}

/// A text without its quotes, anything else as it is written.
fn plain(raw: &RawValue) -> String {
    serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// Where `part`, which is borrowed from `text`, stands in it.
fn place(text: &str, part: &str) -> Range<usize> {
    let begin = part.as_ptr().addr() - text.as_ptr().addr();
    begin..begin + part.len()
}

#[cfg(test)]
mod tests;
