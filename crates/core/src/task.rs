//! The state machine of tasks: every change of a task is a pure function.
//!
//! A user's task is a truth: one record, changed only by compare-and-set on its version and fenced by a number that
//! grows with each claim. A run's *advance* task is only a hint.

mod heartbeat;
mod repeat;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::argument::{self, ArgumentError};
use crate::audit::mark_heal;
pub use crate::audit::{Audit, AuditHeal, note};
use crate::error::{Class, Failure};
use crate::hash::Hash;
use crate::id::{LaneName, NodeId, QueueName, RunId, TaskId};
use crate::path::Path;
use crate::payload::Payload;
use crate::reserved::EngineTask;
use crate::time::Millis;
use crate::trace::TraceContext;
use crate::version::UNDECIDED;

/// Prefix of the kind of a task that advances a run; the workflow's name and version follow.
const ADVANCE: &str = "advance:";
/// Prefix of the audit entry of a suspect's task.
const QUARANTINE: &str = "in quarantine ";
/// Begins the audit entry of a reclaimed task.
const RECLAIMED: &str = "reclaimed from ";

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// May be claimed once `run_at` has come.
    Ready,
    /// A claimant is working on it.
    Claimed,
    /// The work is done.
    Completed,
    /// The work failed for good.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It crashed too many claimants.
    Dead,
}

impl TaskState {
    /// Returns whether it may still run; an idempotency key matches only such tasks.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Ready | Self::Claimed)
    }

    /// Returns the word in JSON, SQL and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Claimed => "claimed",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Dead => "dead",
        }
    }

    /// Parses the word.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Ready, Self::Claimed, Self::Completed, Self::Failed, Self::Cancelled, Self::Dead];
        all.into_iter().find(|state| state.as_str() == word)
    }
}

/// An entry of a queue: advance a run, do a remote step, or a user's job.
///
/// A claimant takes a ready task, and names the fence of its claim with every later change. Methods such as
/// [`claimed`](Self::claimed), [`completed`](Self::completed) and [`reclaimed`](Self::reclaimed) return the changed
/// task; the store writes it by compare-and-set on `version`. If the claimant dies, the task returns to its queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Task {
    /// Id of the task.
    pub id: TaskId,
    /// Kind of work: `advance:WORKFLOW@VERSION`, `advance:WORKFLOW` while the version is undecided, or the
    /// submitter's word.
    pub kind: String,
    /// Name of its queue.
    pub queue: QueueName,
    /// The lane; at most one task of a lane is claimed at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
    /// Higher runs first.
    #[serde(default)]
    pub priority: i32,
    /// The idempotency key; no two live tasks share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The state of the task.
    pub state: TaskState,
    /// The earliest time to run it; [`Millis::NEVER`] is dormant.
    pub run_at: Millis,
    /// The run that it belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The remote step of that run that it does, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<TaskStep>,
    /// Input of the work.
    pub payload: Payload,
    /// The result, once completed.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Payload, required = false))]
    pub result: Option<Payload>,
    /// The latest failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Number of claims that ended by a crash.
    #[serde(default)]
    pub deliveries: u32,
    /// Number of failures of the work.
    #[serde(default)]
    pub attempts: u32,
    /// Most attempts allowed.
    #[serde(default = "one")]
    pub attempts_max: u32,
    /// The claimant; present exactly while claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Increases with every claim; a claimant that names an old one is refused.
    #[serde(default)]
    pub fence: u64,
    /// When the present claim began; present exactly while claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// The claimant's last sign of life, by the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_at: Option<Millis>,
    /// How long the claimant may be silent; none: as long as its node is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub silence_max: Option<Duration>,
    /// Whether something new waits for the claimant.
    #[serde(default)]
    pub poked: bool,
    /// When it was submitted.
    pub created_at: Millis,
    /// When it last changed.
    pub changed_at: Millis,
    /// Increases with every change; compare-and-set compares it.
    pub version: u64,
    /// Recent changes, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audit: Vec<Audit>,
}

fn one() -> u32 {
    1
}

/// The remote step that a task does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskStep {
    /// The step.
    pub path: Path,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The step's idempotency key, to pass on to other systems: the same for every attempt. (The task's `key` cannot
    /// hold it, because it would block the task of the next attempt while this one is live.)
    pub key: String,
    /// The place of the step in the trace of the run's starter, to pass on to other systems: its parent id is the
    /// span of the step.
    #[serde(default, deserialize_with = "crate::trace::lenient", skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

/// The quarantine of a run, as its task records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarantined<'a> {
    /// The node, and the number of suspects before this one.
    pub place: &'a str,
    /// When the quarantine began.
    pub since: Millis,
    /// When it ends at the latest, if the suspects before this one survive.
    pub until: Millis,
}

/// The reason why a change of a task is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskRefusal {
    /// The claimant drops the work: its claim has ended.
    #[error("the claim on task {task} with fence {fence} has ended: the task is {state}")]
    Fenced {
        /// The task.
        task: TaskId,
        /// The fence that was named.
        fence: u64,
        /// The present state of the task.
        state: &'static str,
    },
    /// The task has ended.
    #[error("task {task} is already {state}")]
    Over {
        /// The task.
        task: TaskId,
        /// The state of the task.
        state: &'static str,
    },
    /// This claim already reported a different result, which counts.
    #[error("this claim already ended task {task} with a different result: the task is {state}")]
    OtherResult {
        /// The task.
        task: TaskId,
        /// The state of the task.
        state: &'static str,
    },
}

impl Task {
    /// Returns the kind of the advance task of a run on this version of its workflow; [`UNDECIDED`]: any version.
    ///
    /// Releases before versioned kinds wrote the kind without a version for every run, so such a kind means "read the
    /// run".
    pub fn advance_kind(workflow: &str, version: u32) -> String {
        match version {
            UNDECIDED => format!("{ADVANCE}{workflow}"),
            version => format!("{ADVANCE}{workflow}@{version}"),
        }
    }

    /// Returns whether a node with this version of the workflow is offered this advance task.
    pub fn is_offered_to(&self, workflow: &str, version: u32) -> bool {
        self.kind == Self::advance_kind(workflow, version)
            || self.kind == Self::advance_kind(workflow, UNDECIDED)
    }

    /// Returns the task after a node without the run's version handed it back, under the kind that only nodes with
    /// that version claim.
    #[must_use]
    pub fn handed_back(self, kind: String, now: Millis) -> Self {
        let run_at = self.run_at.min(now);
        Self { kind, ..self.returned(run_at, now) }
    }

    /// Returns the workflow that a kind of advance task needs, with its version if it has one: `order@2`.
    pub fn advanced_by(kind: &str) -> Option<&str> {
        kind.strip_prefix(ADVANCE)
    }

    /// Returns whether this is a run's advance task.
    pub fn is_advance(&self) -> bool {
        self.kind.starts_with(ADVANCE)
    }

    /// Returns the pool that claimants ask for. Advance tasks are pooled by workflow and version, so that a node is
    /// only offered runs whose code it has; all other tasks of a queue share one pool.
    pub fn pool(&self) -> String {
        if self.is_advance() {
            Self::pool_of(&self.queue, Some(&self.kind))
        } else {
            Self::pool_of(&self.queue, None)
        }
    }

    /// Returns the pool of a queue, or of one kind of advance task within it.
    pub fn pool_of(queue: &QueueName, advance_kind: Option<&str>) -> String {
        match advance_kind {
            Some(kind) => format!("{queue}/{kind}"),
            None => queue.as_str().to_owned(),
        }
    }

    /// Returns the id of the `count`-th advance task of a run.
    pub fn advance_id(run: &RunId, count: u64) -> TaskId {
        let hash = Hash::of_parts(&["advance", run.as_str(), &count.to_string()]);
        EngineTask::Advance.id(hash)
    }

    /// Returns the task after `owner` claimed it.
    #[must_use]
    pub fn claimed(mut self, owner: &str, now: Millis) -> Self {
        self.state = TaskState::Claimed;
        self.owner = Some(owner.to_owned());
        self.fence += 1;
        self.started_at = Some(now);
        self.heartbeat_at = Some(now);
        self.changed_at = now.max(self.changed_at);
        self.version += 1;
        self
    }

    /// Returns the task after it returned to its queue, with the same id, priority and payload.
    #[must_use]
    pub fn returned(mut self, run_at: Millis, now: Millis) -> Self {
        self.end(TaskState::Ready, now);
        self.run_at = run_at;
        self
    }

    fn end(&mut self, state: TaskState, now: Millis) {
        self.state = state;
        self.owner = None;
        self.started_at = None;
        self.heartbeat_at = None;
        self.poked = false;
        self.changed_at = now.max(self.changed_at);
        self.version += 1;
    }

    /// Checks that `fence` is that of the present claim.
    pub fn held(&self, fence: u64) -> Result<(), TaskRefusal> {
        if self.state == TaskState::Claimed && self.fence == fence {
            return Ok(());
        }
        Err(TaskRefusal::Fenced { task: self.id.clone(), fence, state: self.state.as_str() })
    }

    /// Completes the task. The same result again under the same fence changes nothing; a different one is refused.
    pub fn completed(mut self, fence: u64, result: Payload, now: Millis) -> Result<Self, TaskRefusal> {
        if self.has_brought(fence, Ok(&result))? {
            return Ok(self);
        }
        self.end(TaskState::Completed, now);
        self.forget_details();
        self.result = Some(result);
        Ok(self)
    }

    /// Records a failure: the task becomes ready again while attempts are left and the failure is not terminal. The
    /// same failure again under the same fence changes nothing; a different one is refused.
    pub fn failed(mut self, fence: u64, failure: Failure, now: Millis) -> Result<Self, TaskRefusal> {
        if self.has_brought(fence, Err(&failure))? {
            return Ok(self);
        }
        self.attempts += 1;
        let again = failure.class != Class::Terminal && self.attempts < self.attempts_max;
        self.end(if again { TaskState::Ready } else { TaskState::Failed }, now);
        if again {
            let doublings = self.attempts.min(10);
            self.run_at = now + Duration::from_millis(50u64 << doublings);
        }
        self.failure = Some(failure);
        Ok(self)
    }

    /// Ends the task with a result that the log already has, regardless of its claimant. A task that has ended is
    /// unchanged.
    #[must_use]
    pub fn settled(mut self, result: Result<Payload, Failure>, now: Millis) -> Self {
        if !self.state.is_live() {
            return self;
        }
        self.end(if result.is_ok() { TaskState::Completed } else { TaskState::Failed }, now);
        match result {
            Ok(result) => {
                self.forget_details();
                self.result = Some(result);
            }
            Err(failure) => {
                self.attempts += 1;
                self.failure = Some(failure);
            }
        }
        self
    }

    /// Returns the task to its queue on the claimant's request.
    pub fn released(self, fence: u64, now: Millis) -> Result<Self, TaskRefusal> {
        self.held(fence)?;
        Ok(self.returned(now, now))
    }

    /// Cancels the task.
    pub fn cancelled(mut self, now: Millis) -> Result<Self, TaskRefusal> {
        if !self.state.is_live() {
            return Err(TaskRefusal::Over { task: self.id.clone(), state: self.state.as_str() });
        }
        self.end(TaskState::Cancelled, now);
        Ok(self)
    }

    /// Cancels the task at the request of a person, and records who it was.
    pub fn cancelled_by(self, who: Option<&str>, now: Millis) -> Result<Self, TaskRefusal> {
        let held = self.owner.as_ref().map(|owner| format!(", held by {owner}")).unwrap_or_default();
        let mut over = self.cancelled(now)?;
        note(&mut over.audit, now, format!("cancelled{held}: by {}", who.unwrap_or("hand")));
        Ok(over)
    }

    /// Cancels the task in favour of another one, because it has no live claimant.
    pub fn replaced(self, why: &str, now: Millis) -> Result<Self, TaskRefusal> {
        let owner = self.owner.clone().unwrap_or_default();
        let mut over = self.cancelled(now)?;
        note(
            &mut over.audit,
            now,
            format!("cancelled, held by {owner}: {why}; another task takes its place"),
        );
        Ok(over)
    }

    /// Cancels the advance task in favour of another one.
    pub fn superseded(self, now: Millis) -> Result<Self, TaskRefusal> {
        let mut over = self.cancelled(now)?;
        note(&mut over.audit, now, "superseded");
        Ok(over)
    }

    /// Takes the task from a dead claimant: it returns to its queue, with a counted delivery and an audit entry; past
    /// `deliveries_max` it is dead. A task that is not claimed is unchanged.
    #[must_use]
    pub fn reclaimed(mut self, why: &str, deliveries_max: u32, now: Millis) -> Self {
        if self.state != TaskState::Claimed {
            return self;
        }
        self.deliveries += 1;
        let owner = self.owner.clone().unwrap_or_default();
        let state = self.work_state().cloned();
        let dead = self.deliveries > deliveries_max && !self.is_advance();
        self.end(if dead { TaskState::Dead } else { TaskState::Ready }, now);
        self.run_at = self.run_at.min(now);
        let at_work = state.map_or_else(String::new, |state| format!(", in state {state}"));
        note(&mut self.audit, now, format!("{RECLAIMED}{owner}: {why}{at_work}"));
        self
    }

    /// Marks the latest change as a heal, if it made a version after `before`.
    #[must_use]
    pub fn healed(mut self, before: u64, heal: AuditHeal) -> Self {
        if self.version > before {
            let ended = (self.state == TaskState::Dead).then(|| self.state.as_str().to_owned());
            let attempt = self.deliveries.max(1);
            mark_heal(&mut self.audit, AuditHeal { version: self.version, attempt, ended, ..heal });
        }
        self
    }

    /// Marks a new task as the heal of a foreign state.
    #[must_use]
    pub fn healing(mut self, what: impl Into<String>, heal: AuditHeal) -> Self {
        note(&mut self.audit, self.created_at, what);
        mark_heal(&mut self.audit, AuditHeal { version: self.version, attempt: 1, ..heal });
        self
    }

    /// Returns the claimant's last sign of life: its heartbeat, or else the start of its claim.
    pub fn last_sign(&self) -> Millis {
        self.heartbeat_at.or(self.started_at).unwrap_or(self.changed_at)
    }

    /// Takes the task from a silent claimant: it returns to its queue with an audit entry; no delivery is counted.
    #[must_use]
    pub fn taken_back(mut self, why: &str, now: Millis) -> Self {
        if self.state != TaskState::Claimed {
            return self;
        }
        let owner = self.owner.clone().unwrap_or_default();
        let run_at = self.run_at.min(now);
        self = self.returned(run_at, now);
        note(&mut self.audit, now, format!("taken back from {owner}: {why}"));
        self
    }

    /// Records that the run waits in quarantine on the node that has the task.
    #[must_use]
    pub fn quarantined(mut self, node: &NodeId, before: usize, until: Millis, now: Millis) -> Self {
        let what = format!("{QUARANTINE}on {node} behind {before} others, until {} at the latest", until.0);
        note(&mut self.audit, now, what);
        self.changed_at = now.max(self.changed_at);
        self.version += 1;
        self
    }

    /// Returns the quarantine if the latest audit entry records one.
    pub fn quarantine(&self) -> Option<Quarantined<'_>> {
        let Audit { at, what, .. } = self.audit.last().filter(|_| self.state.is_live())?;
        let (place, until) = what.strip_prefix(QUARANTINE)?.split_once(", until ")?;
        let until = until.split(' ').next()?.parse().ok()?;
        Some(Quarantined { place, since: *at, until: Millis(until) })
    }

    /// Returns when the task was first reclaimed at or after `since`, if its audit still records it.
    pub fn reclaimed_at(&self, since: Millis) -> Option<Millis> {
        let entry = |audit: &&Audit| audit.at >= since && audit.what.starts_with(RECLAIMED);
        self.audit.iter().find(entry).map(|audit| audit.at)
    }

    /// Returns the inconsistency in the record, if there is one.
    pub fn flaw(&self) -> Option<&'static str> {
        let claimed = self.state == TaskState::Claimed;
        if claimed != self.started_at.is_some() {
            return Some("`started_at` must be set exactly while the task is claimed");
        }
        if claimed != self.owner.is_some() {
            return Some("`owner` must be set exactly while the task is claimed");
        }
        if self.started_at.is_some_and(|at| at > self.changed_at) {
            return Some("`started_at` is later than `changed_at`");
        }
        None
    }
}

/// A submission of a new task.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Id of the task.
    pub id: TaskId,
    /// Kind of work.
    pub kind: String,
    /// Name of the queue.
    pub queue: QueueName,
    /// The lane, if only one task at a time may run.
    pub lane: Option<LaneName>,
    /// Higher runs first.
    pub priority: i32,
    /// The idempotency key; no two live tasks share one.
    pub key: Option<String>,
    /// The earliest time to run it.
    pub run_at: Millis,
    /// Input of the work.
    pub payload: Payload,
    /// Most attempts allowed.
    pub attempts_max: u32,
    /// How long a claimant may be silent.
    pub silence_max: Option<Duration>,
}

impl NewTask {
    /// Refuses an empty or unprintable kind or key, and 0 attempts.
    pub fn check(&self) -> Result<(), ArgumentError> {
        argument::name("the kind", &self.kind)?;
        self.key.as_ref().map_or(Ok(()), |key| argument::name("the key", key))?;
        argument::positive("the number of attempts", u128::from(self.attempts_max))
    }

    /// Returns the record of this submission.
    pub fn into_task(self, now: Millis) -> Task {
        Task {
            id: self.id,
            kind: self.kind,
            queue: self.queue,
            lane: self.lane,
            priority: self.priority,
            key: self.key,
            state: TaskState::Ready,
            run_at: self.run_at,
            run: None,
            step: None,
            payload: self.payload,
            result: None,
            failure: None,
            deliveries: 0,
            attempts: 0,
            attempts_max: self.attempts_max.max(1),
            owner: None,
            fence: 0,
            started_at: None,
            heartbeat_at: None,
            silence_max: self.silence_max,
            poked: false,
            created_at: now,
            changed_at: now,
            version: 1,
            audit: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
