//! Data of the variants of [`Event`](super::Event).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Tags;
use crate::attribute::{ATTRIBUTES_MAX, AttributeError, Attributes};
use crate::branch::{BranchId, Why};
use crate::error::Failure;
use crate::form::Form;
use crate::hash::Hash;
use crate::id::{
    LaneName, NodeId, QueueName, RunId, SignalName, StepName, TagKey, TaskId, ValueName, WorkflowName,
};
use crate::path::Path;
use crate::payload::Payload;
use crate::retry::Policy;
use crate::summary::Summary;
use crate::time::{Millis, Seq};
use crate::trace::TraceContext;

/// The data of [`Event::RunQueued`](super::Event::RunQueued).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunQueued {
    /// Name of the workflow.
    pub workflow: WorkflowName,
    /// Version that it begins with; 0: the first claim decides.
    pub version: u32,
    /// Input of the workflow function.
    pub input: Payload,
    /// Queue of the advance task.
    pub queue: QueueName,
    /// Higher runs first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Tags to search by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: Tags,
    /// Typed values to search by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: Attributes,
    /// The run that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// Names of the steps that the workflow declared, in no order; empty: not known beforehand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<StepName>,
    /// The place of the starter in a distributed trace.
    #[serde(default, deserialize_with = "crate::trace::lenient", skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// When it begins; none: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Millis>,
    /// When it must have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    /// The lane of its advance task; at most one run of a lane is executed at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
}

/// The data of [`Event::AttributesChanged`](super::Event::AttributesChanged).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttributesChanged {
    /// Path of the call.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// Attributes that got a value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: Attributes,
    /// Attributes that were removed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub removed: BTreeSet<TagKey>,
}

impl AttributesChanged {
    /// Checks the change of a run that has these attributes.
    pub fn check(&self, before: &Attributes) -> Result<(), AttributeError> {
        let kept =
            before.keys().filter(|name| !self.removed.contains(*name) && !self.set.contains_key(*name));
        let count = kept.count() + self.set.len();
        if count > ATTRIBUTES_MAX && count > before.len() {
            return Err(AttributeError::TooMany(count));
        }
        self.set.iter().try_for_each(|(name, value)| value.check(name))
    }

    /// Applies the change to the attributes of a run.
    pub fn apply_to(&self, attributes: &mut Attributes) {
        attributes.retain(|name, _| !self.removed.contains(name));
        attributes.extend(self.set.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
}

/// The data of [`Event::ValuePublished`](super::Event::ValuePublished).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValuePublished {
    /// Path of the call.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// The name under which the value can be read.
    pub name: ValueName,
    /// The value.
    pub value: Payload,
}

/// The data of [`Event::RequestAnswered`](super::Event::RequestAnswered): an answer or a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestAnswered {
    /// Path of the call.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// Id of the request: that of the signal which brought it.
    pub request: String,
    /// The answer; none: the workflow refused the request.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    pub answer: Option<Payload>,
    /// Why the workflow refused the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The data of [`Event::RunClaimed`](super::Event::RunClaimed).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunClaimed {
    /// The new owner.
    pub node: NodeId,
    /// Why it claimed the run.
    pub cause: Cause,
    /// Number of the recovery since the last progress, from 1. A recovery that counts no attempt has the number of
    /// the last one that did, or 1. Logs of earlier releases have 0 there.
    #[serde(default, skip_serializing_if = "is_none_u32")]
    pub attempt: u32,
    /// Whether it was admitted alone: its process had lived long enough without it, and nothing else began beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// How the run is recovered from now on, if that differs from the log so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<crate::recovery_policy::Policy>,
    /// The version of the run from now on; only if it was undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Names of the steps that the workflow declares, as the claiming node knows them; only in the first claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<StepName>,
}

fn is_none_u32(value: &u32) -> bool {
    *value == 0
}

/// Why a node claimed a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The run had no owner yet.
    Start,
    /// Something it waited for arrived, or it was handed over.
    Wake,
    /// Its owner was lost.
    Recovery,
}

/// Why an owner released a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// The node is shutting down.
    HandOver,
    /// The run only waits and is unloaded from memory.
    Unload,
    /// The run is paused.
    Paused,
    /// The node does not have the required code.
    Unfit,
}

/// The data of [`Event::RunRecovered`](super::Event::RunRecovered).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecovered {
    /// Code of the rule.
    pub rule: String,
    /// `infrastructure_restart`, `stale_detection` or `manual`.
    pub reason: String,
    /// Recoveries since the last progress, including this one.
    pub attempt: u32,
    /// What was observed.
    pub evidence: String,
    /// The node that repaired the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// How long the log had not changed.
    #[serde(default)]
    pub stale_ms: u64,
    /// Upper bound of how long the lost owner owned the run, if its process died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lived_ms: Option<u64>,
    /// The branch that the run left, if the remedy opened a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_branch: Option<BranchId>,
    /// The branch that the remedy opened, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_branch: Option<BranchId>,
    /// The cutoff of that branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoff: Option<Seq>,
}

/// The person who did something, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Note {
    /// Identifies a repeated command.
    pub id: String,
    /// The operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The data of [`Event::RunCancelRequested`](super::Event::RunCancelRequested).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequested {
    /// Identifies a repeated command.
    pub id: String,
    /// The caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The deadline of the run, if the request was made because it passed: the run ends `failed`, not `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
}

impl From<Note> for CancelRequested {
    fn from(Note { id, by, reason }: Note) -> Self {
        Self { id, by, reason, deadline: None }
    }
}

/// The data of [`Event::StepStarted`](super::Event::StepStarted).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepStarted {
    /// The step.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Hash of the declared input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Hash>,
    /// How it was handed out, for a remote step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Box<Remote>>,
}

/// How an attempt of a remote step is handed out: everything that its task and the next attempt are made of, so that
/// both can be rebuilt from the log alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remote {
    /// The task.
    pub task: TaskId,
    /// Queue of the task.
    pub queue: QueueName,
    /// Higher runs first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// The worker's input; in the log once, with the first attempt.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// The lane of the task; at most one task of a lane is claimed at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
    /// How often and how soon the step is retried.
    pub retry: Policy,
    /// How long the worker may be silent.
    pub silence_ms: u64,
    /// How often this attempt was handed out before.
    #[serde(default, skip_serializing_if = "is_none_u32")]
    pub delivery: u32,
    /// Whether the step has a compensation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
}

/// The data of [`Event::StepCompleted`](super::Event::StepCompleted).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCompleted {
    /// The step.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// When that attempt began.
    pub began: Millis,
    /// Result of the step.
    pub output: Payload,
    /// Hash of the declared input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Hash>,
    /// Whether the step has a compensation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// Whether it is a group step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub group: bool,
    /// The fence of the worker's claim; only for a remote step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// The data of [`Event::StepFailed`](super::Event::StepFailed).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepFailed {
    /// The step.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// When that attempt began.
    pub began: Millis,
    /// Why it failed.
    pub failure: Failure,
    /// Number of attempts that its policy still allows.
    #[serde(default, skip_serializing_if = "is_none_u32")]
    pub left: u32,
    /// Hash of the declared input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Hash>,
    /// Whether it is a group step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub group: bool,
    /// The fence of the worker's claim; only for a remote step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// The retry policy of a local step, with its first failure if a retry follows. The log has the policy of a remote
    /// step with its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Box<Policy>>,
}

/// The data of [`Event::WaitStarted`](super::Event::WaitStarted). The first of these things to arrive ends the wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitStarted {
    /// The wait.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// Names of signals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<SignalName>,
    /// Paths of questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Path>,
    /// Ids of children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<RunId>,
    /// JSON Schemas of signals, by name. A signal that does not match stays unread.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub schemas: BTreeMap<SignalName, serde_json::Value>,
    /// When the wait times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Millis>,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The mail at this position, now consumed.
    Mail(Seq),
    /// The `due` time passed.
    Timer,
}

/// The data of [`Event::InputRequested`](super::Event::InputRequested).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputRequested {
    /// The question.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// The question in words.
    pub prompt: String,
    /// The form that an answer must have.
    pub form: Form,
}

/// The data of [`Event::ChildStarted`](super::Event::ChildStarted).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildStarted {
    /// The call.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// The child.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// Its input.
    pub input: Payload,
    /// How it is queued, except for its input; none: in the queue of its parent, with the parent's priority and tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Box<RunQueued>>,
    /// Whether it outlives this run: it is not cancelled with it, and its end is not delivered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// Whether the run has a compensation for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
}

/// The data of [`Event::JumpRequested`](super::Event::JumpRequested).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JumpRequested {
    /// The operator and the reason.
    pub note: Note,
    /// The step to run again.
    pub to: Path,
    /// Input that replaces the run's input.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// Whether mail consumed after the step is not delivered again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drop_mail: bool,
    /// Whether to compensate the steps after it before going back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compensate: bool,
}

/// The data of [`Event::RequestWithdrawn`](super::Event::RequestWithdrawn).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestWithdrawn {
    /// The operator and the reason.
    pub note: Note,
    /// The request that was withdrawn.
    pub what: Request,
}

/// A request of an operator that a worker must carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A jump that waits for its compensations.
    Jump,
    /// A request to cancel.
    Cancel,
}

impl Request {
    /// Returns the word in JSON and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jump => "jump",
            Self::Cancel => "cancel",
        }
    }
}

/// The effects that remain after an operator terminated a run. See
/// [`Event::RunCancelled`](super::Event::RunCancelled).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Terminated {
    /// The operator and the reason.
    pub note: Note,
    /// Completed steps with a compensation that did not run, latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<Path>,
    /// Steps whose compensation had begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoing: Vec<Path>,
    /// Children that had not ended; they are requested to cancel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<RunId>,
    /// Remote steps that were handed out; their tasks are dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote: Vec<Path>,
    /// Why the lists above may be incomplete: the log is damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

impl Terminated {
    /// Returns whether no effects remain, as far as the log records them.
    pub fn is_clean(&self) -> bool {
        self.unknown.is_none()
            && self.standing.is_empty()
            && self.undoing.is_empty()
            && self.children.is_empty()
            && self.remote.is_empty()
    }
}

/// The data of [`Event::BranchOpened`](super::Event::BranchOpened).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BranchOpened {
    /// Number of the branch; this event is its first.
    pub branch: BranchId,
    /// The branch that contains the cutoff; none: an empty lineage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<BranchId>,
    /// The last position of the parent that the branch sees.
    pub cutoff: Seq,
    /// Why it was opened.
    pub why: Why,
    /// Input that replaces the run's input from here on.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// Positions of mail that this branch must not see again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_mail: Vec<Seq>,
    /// The data that a history needs if it begins here; only with [`Why::Continue`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Carried>,
}

/// The data that survives `continue_as_new`, so that earlier events need not be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// The run as it was queued, with the new input.
    pub run: RunQueued,
    /// The row before this event.
    pub summary: Box<Summary>,
    /// Positions of unread mail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mail: Vec<Seq>,
    /// Size of that mail in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mail_bytes: u64,
    /// Children that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<RunId>,
}

/// The data of [`Event::RunPruned`](super::Event::RunPruned): a tombstone that replaces the whole log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPruned {
    /// The operator and the reason.
    pub note: Note,
    /// Where the log was archived.
    pub archive: String,
    /// SHA-256 of the archived texts, each followed by a newline.
    pub sha256: String,
    /// Number of archived events.
    pub events: u64,
    /// The row before this event.
    pub summary: Box<Summary>,
    /// The event that ended the run.
    pub ended: Box<super::Event>,
}
