//! The queue's state machine: what a task is, and every change of it as a pure function.
//!
//! A user's own task is a truth by itself: one record, changed only by compare-and-set on its
//! version, fenced by a number that grows with each claim. A run's *advance* task is only a hint.

mod repeat;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::argument::{self, ArgumentError};
use crate::error::{Class, Failure};
use crate::hash::Hash;
use crate::id::{LaneName, NodeId, QueueName, RunId, TaskId};
use crate::path::Path;
use crate::payload::Payload;
use crate::planted::{self, Bug};
use crate::time::Millis;
use crate::version::UNDECIDED;

/// Kind of the task that moves a run on; the workflow's name and version follow.
const ADVANCE: &str = "advance:";
/// How the audit entry of a suspect's task begins.
const QUARANTINE: &str = "in quarantine ";
/// Most audit entries kept inside a record.
const AUDIT_MAX: usize = 8;

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// May be claimed once `run_at` has come.
    Ready,
    /// Somebody works on it.
    Claimed,
    /// Done.
    Completed,
    /// Its own work failed for good.
    Failed,
    /// Nobody wants it any more.
    Cancelled,
    /// It took too many claimants down with it.
    Dead,
}

impl TaskState {
    /// Whether it may still run; an idempotency key matches only such tasks.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Ready | Self::Claimed)
    }

    /// The word in JSON, SQL and on screen.
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

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Ready, Self::Claimed, Self::Completed, Self::Failed, Self::Cancelled, Self::Dead];
        all.into_iter().find(|state| state.as_str() == word)
    }
}

/// One entry of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Task {
    /// Its name.
    pub id: TaskId,
    /// What sort of work: `advance:WORKFLOW@VERSION`, `advance:WORKFLOW` while the version is not decided, or the
    /// submitter's own word.
    pub kind: String,
    /// The queue it stands in.
    pub queue: QueueName,
    /// At most one task of a lane is claimed at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
    /// Larger goes first.
    #[serde(default)]
    pub priority: i32,
    /// No two live tasks share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where it is in its life.
    pub state: TaskState,
    /// Not before; [`Millis::NEVER`] is dormant.
    pub run_at: Millis,
    /// The run it belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The remote step of that run that it does, if it does one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<TaskStep>,
    /// The work itself.
    pub payload: Payload,
    /// What it brought, once completed.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Payload, required = false))]
    pub result: Option<Payload>,
    /// Why it failed, last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Claims that ended by a crash.
    #[serde(default)]
    pub deliveries: u32,
    /// Failures by the work itself.
    #[serde(default)]
    pub attempts: u32,
    /// Attempts allowed in all.
    #[serde(default = "one")]
    pub attempts_max: u32,
    /// Who has it; present exactly while claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Grows with every claim; who names an old one is refused.
    #[serde(default)]
    pub fence: u64,
    /// When the present claim began; present exactly while claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// Last sign of life of the claimant, by the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_at: Option<Millis>,
    /// How long the claimant may be silent; none: as long as its node lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub silence_max: Option<Duration>,
    /// Something came for the claimant to look at.
    #[serde(default)]
    pub poked: bool,
    /// When it was submitted.
    pub created_at: Millis,
    /// When it last changed.
    pub changed_at: Millis,
    /// Grows with every change; the compare in compare-and-set.
    pub version: u64,
    /// What happened to it lately, newest last.
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
    /// The step's idempotency key, to pass on to other systems: the same for every attempt. (A task's own
    /// `key` would keep the task of the next attempt out while this one's is not over.)
    pub key: String,
}

/// An entry of a record's own audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Audit {
    /// When.
    pub at: Millis,
    /// What.
    pub what: String,
    /// What the claimant said about how far it is: only in the entry of the last heartbeat that said something.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Payload, required = false))]
    pub details: Option<Payload>,
}

impl Audit {
    /// An entry without details.
    pub fn new(at: Millis, what: impl Into<String>) -> Self {
        Self { at, what: what.into(), details: None }
    }
}

/// That a run waits in quarantine, as its task says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarantined<'a> {
    /// Where, and behind how many.
    pub place: &'a str,
    /// Since when.
    pub since: Millis,
    /// Until when at the latest, if those before it survive.
    pub until: Millis,
}

/// Adds an audit entry and lets the oldest go.
pub fn note(audit: &mut Vec<Audit>, at: Millis, what: impl Into<String>) {
    audit.push(Audit::new(at, what));
    while audit.len() > AUDIT_MAX {
        // The next claimant needs the details, however long ago they were said.
        let oldest = audit.iter().position(|entry| entry.details.is_none()).unwrap_or_default();
        audit.remove(oldest);
    }
}

/// Why a change of a task is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskRefusal {
    /// Drop the work: somebody else has it, or it is over.
    #[error("task {task} is no longer yours: fence {fence} is over, the task is {state}")]
    Fenced {
        /// The task.
        task: TaskId,
        /// The fence that was named.
        fence: u64,
        /// Where the task is now.
        state: &'static str,
    },
    /// It is over.
    #[error("task {task} is {state} already")]
    Over {
        /// The task.
        task: TaskId,
        /// Where the task is.
        state: &'static str,
    },
    /// The same claim brought another result before, which stands.
    #[error("task {task} was ended before under this claim, with another result: it is {state}")]
    OtherResult {
        /// The task.
        task: TaskId,
        /// Where the task is.
        state: &'static str,
    },
}

impl Task {
    /// The kind of the advance task of a run that is on this version of its workflow; [`UNDECIDED`]: any version.
    ///
    /// Releases before versioned kinds wrote the kind without a version for every run, so it means "look at the run".
    pub fn advance_kind(workflow: &str, version: u32) -> String {
        match version {
            _ if planted::is(Bug::ParksUnknownVersion) => format!("{ADVANCE}{workflow}"),
            UNDECIDED => format!("{ADVANCE}{workflow}"),
            version => format!("{ADVANCE}{workflow}@{version}"),
        }
    }

    /// Whether a node that has this version of the workflow is offered this advance task.
    pub fn is_offered_to(&self, workflow: &str, version: u32) -> bool {
        self.kind == Self::advance_kind(workflow, version)
            || self.kind == Self::advance_kind(workflow, UNDECIDED)
    }

    /// The task as it is once a node that lacks the run's version has handed it back: unharmed, and under the kind that
    /// only nodes with that version claim.
    #[must_use]
    pub fn handed_back(self, kind: String, now: Millis) -> Self {
        let run_at = self.run_at.min(now);
        Self { kind, ..self.returned(run_at, now) }
    }

    /// Whether this is a run's advance task.
    pub fn is_advance(&self) -> bool {
        self.kind.starts_with(ADVANCE)
    }

    /// What a claimant asks for: advance tasks are pooled by workflow and version, so that a node is only
    /// offered runs whose code it has; all other tasks of a queue share one pool.
    pub fn pool(&self) -> String {
        if self.is_advance() {
            Self::pool_of(&self.queue, Some(&self.kind))
        } else {
            Self::pool_of(&self.queue, None)
        }
    }

    /// The pool of a queue, or of one kind of advance task within it.
    pub fn pool_of(queue: &QueueName, advance_kind: Option<&str>) -> String {
        match advance_kind {
            Some(kind) => format!("{queue}/{kind}"),
            None => queue.as_str().to_owned(),
        }
    }

    /// The id of the `count`-th advance task of a run.
    pub fn advance_id(run: &RunId, count: u64) -> TaskId {
        let hash = Hash::of_parts(&["advance", run.as_str(), &count.to_string()]);
        TaskId::new(format!("t-{hash}")).unwrap_or_else(|_| unreachable!("a hash is an id"))
    }

    /// The task as it is once `owner` has claimed it.
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

    /// The task as it is once it is back in its queue: identity, priority and payload kept.
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

    /// Whether `fence` is that of the present claim.
    pub fn held(&self, fence: u64) -> Result<(), TaskRefusal> {
        if self.state == TaskState::Claimed && self.fence == fence {
            return Ok(());
        }
        Err(TaskRefusal::Fenced { task: self.id.clone(), fence, state: self.state.as_str() })
    }

    /// The claimant is alive.
    pub fn beaten(mut self, fence: u64, now: Millis) -> Result<Self, TaskRefusal> {
        self.held(fence)?;
        self.heartbeat_at = Some(now);
        self.changed_at = now.max(self.changed_at);
        self.version += 1;
        Ok(self)
    }

    /// The same, and says how far it is. The details stay with the task until it is completed, for the next claimant.
    pub fn beaten_with(self, fence: u64, details: Payload, now: Millis) -> Result<Self, TaskRefusal> {
        let mut beaten = self.beaten(fence, now)?;
        beaten.forget_details();
        note(&mut beaten.audit, now, "heartbeat");
        if let Some(entry) = beaten.audit.last_mut() {
            entry.details = Some(details);
        }
        Ok(beaten)
    }

    /// The details of the last heartbeat that had some.
    pub fn last_heartbeat(&self) -> Option<&Payload> {
        self.audit.iter().rev().find_map(|entry| entry.details.as_ref())
    }

    fn forget_details(&mut self) {
        self.audit.retain(|entry| entry.details.is_none());
    }

    /// The work is done. The same result again under the same fence changes nothing; another one is refused.
    pub fn completed(mut self, fence: u64, result: Payload, now: Millis) -> Result<Self, TaskRefusal> {
        if self.has_brought(fence, Ok(&result))? {
            return Ok(self);
        }
        self.end(TaskState::Completed, now);
        self.forget_details();
        self.result = Some(result);
        Ok(self)
    }

    /// The work failed: back to ready while attempts are left and the failure is not terminal. The same failure again under
    /// the same fence changes nothing; another one is refused.
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

    /// The log has what it brought: it is over, whoever has it. One that is over stays as it is.
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

    /// The claimant gives it back unharmed.
    pub fn released(self, fence: u64, now: Millis) -> Result<Self, TaskRefusal> {
        self.held(fence)?;
        Ok(self.returned(now, now))
    }

    /// Nobody wants it any more.
    pub fn cancelled(mut self, now: Millis) -> Result<Self, TaskRefusal> {
        if !self.state.is_live() {
            return Err(TaskRefusal::Over { task: self.id.clone(), state: self.state.as_str() });
        }
        self.end(TaskState::Cancelled, now);
        Ok(self)
    }

    /// Another task takes its place, because no living claimant has it.
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

    /// Another task moves its run now.
    pub fn superseded(self, now: Millis) -> Result<Self, TaskRefusal> {
        let mut over = self.cancelled(now)?;
        note(&mut over.audit, now, "superseded");
        Ok(over)
    }

    /// Its claimant is gone: back to its queue, counted, audited; past `deliveries_max` it is dead. A task that
    /// nobody has stays as it is.
    #[must_use]
    pub fn reclaimed(mut self, why: &str, deliveries_max: u32, now: Millis) -> Self {
        if self.state != TaskState::Claimed {
            return self;
        }
        self.deliveries += 1;
        let owner = self.owner.clone().unwrap_or_default();
        let dead = self.deliveries > deliveries_max && !self.is_advance();
        self.end(if dead { TaskState::Dead } else { TaskState::Ready }, now);
        self.run_at = self.run_at.min(now);
        note(&mut self.audit, now, format!("reclaimed from {owner}: {why}"));
        self
    }

    /// The claimant's last sign of life: its heartbeat, or else the start of its claim.
    pub fn last_sign(&self) -> Millis {
        self.heartbeat_at.or(self.started_at).unwrap_or(self.changed_at)
    }

    /// Its claimant is silent, and perhaps gone: back to its queue, audited; nothing is charged for it.
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

    /// The run that it moves waits in quarantine on the node that has the task.
    #[must_use]
    pub fn quarantined(mut self, node: &NodeId, before: usize, until: Millis, now: Millis) -> Self {
        let what = format!("{QUARANTINE}on {node} behind {before} others, until {} at the latest", until.0);
        note(&mut self.audit, now, what);
        self.changed_at = now.max(self.changed_at);
        self.version += 1;
        self
    }

    /// What its latest note says about a quarantine, if that is what it is about.
    pub fn quarantine(&self) -> Option<Quarantined<'_>> {
        let Audit { at, what, .. } = self.audit.last().filter(|_| self.state.is_live())?;
        let (place, until) = what.strip_prefix(QUARANTINE)?.split_once(", until ")?;
        let until = until.split(' ').next()?.parse().ok()?;
        Some(Quarantined { place, since: *at, until: Millis(until) })
    }

    /// What is inconsistent about the record itself, if anything.
    pub fn flaw(&self) -> Option<&'static str> {
        let claimed = self.state == TaskState::Claimed;
        if claimed != self.started_at.is_some() {
            return Some("it has a start exactly while it is claimed");
        }
        if claimed != self.owner.is_some() {
            return Some("it has an owner exactly while it is claimed");
        }
        if self.started_at.is_some_and(|at| at > self.changed_at) {
            return Some("its start lies after its last change");
        }
        None
    }
}

/// A submission: what a user says about a new task.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its name.
    pub id: TaskId,
    /// What sort of work.
    pub kind: String,
    /// The queue.
    pub queue: QueueName,
    /// The lane, if only one at a time may run.
    pub lane: Option<LaneName>,
    /// Larger goes first.
    pub priority: i32,
    /// No two live tasks share one.
    pub key: Option<String>,
    /// Not before.
    pub run_at: Millis,
    /// The work itself.
    pub payload: Payload,
    /// Attempts allowed in all.
    pub attempts_max: u32,
    /// How long a claimant may be silent.
    pub silence_max: Option<Duration>,
}

impl NewTask {
    /// Refuses what no store may keep: a kind or a key that is empty or cannot be printed, and 0 attempts.
    pub fn check(&self) -> Result<(), ArgumentError> {
        argument::name("the kind", &self.kind)?;
        self.key.as_ref().map_or(Ok(()), |key| argument::name("the key", key))?;
        argument::positive("the number of attempts", u128::from(self.attempts_max))
    }

    /// The record of this submission.
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
