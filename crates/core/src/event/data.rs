//! What the variants of an [`Event`](super::Event) carry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Tags;
use crate::branch::{BranchId, Why};
use crate::error::Failure;
use crate::form::Form;
use crate::hash::Hash;
use crate::id::{NodeId, QueueName, RunId, SignalName, StepName, TaskId, WorkflowName};
use crate::path::Path;
use crate::payload::Payload;
use crate::retry::Policy;
use crate::summary::Summary;
use crate::time::{Millis, Seq};

/// See [`super::Event::RunQueued`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunQueued {
    /// The workflow.
    pub workflow: WorkflowName,
    /// Version it begins with; 0: the first claim decides it.
    pub version: u32,
    /// Input of the workflow function.
    pub input: Payload,
    /// Queue of its advance task.
    pub queue: QueueName,
    /// Larger goes first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// To search by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: Tags,
    /// The run that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// Names of the steps that the workflow declared, in no order; empty: nobody can tell beforehand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<StepName>,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// See [`super::Event::RunClaimed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunClaimed {
    /// The new owner.
    pub node: NodeId,
    /// Why it took the run.
    pub cause: Cause,
    /// Recoveries since the last progress, this one included.
    #[serde(default, skip_serializing_if = "is_none_u32")]
    pub attempt: u32,
    /// It was let in alone: its process had lived long enough without it, and nothing else began beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// How the run is recovered from now on, where that differs from what the log said so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<crate::recovery::Policy>,
    /// The version that the run is on from here on; only where it was not decided before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Names of the steps that the workflow declared, as the claiming node knows them; only in the first claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<StepName>,
}

fn is_none_u32(value: &u32) -> bool {
    *value == 0
}

/// Why a node claims a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Nobody had it yet.
    Start,
    /// Something it waited for has come, or it was handed over.
    Wake,
    /// Its owner is gone.
    Recovery,
}

/// Why an owner gives a run back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// The node shuts down.
    HandOver,
    /// The run only waits, and leaves memory.
    Unload,
    /// The run is paused.
    Paused,
    /// The node does not have the code it needs.
    Unfit,
}

/// See [`super::Event::RunRecovered`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecovered {
    /// Code of the rule.
    pub rule: String,
    /// `infrastructure_restart`, `stale_detection` or `manual`.
    pub reason: String,
    /// Recoveries since the last progress, this one included.
    pub attempt: u32,
    /// What was seen.
    pub evidence: String,
    /// Who mended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// For how long nothing had happened, as far as the log tells.
    #[serde(default)]
    pub stale_ms: u64,
    /// For how long at the most the lost owner had it, where its process is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lived_ms: Option<u64>,
    /// The branch that was left, where the remedy cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_branch: Option<BranchId>,
    /// The branch that was opened, where the remedy cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_branch: Option<BranchId>,
    /// Where it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoff: Option<Seq>,
}

/// Who did something from outside, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Note {
    /// Deduplicates a repeated command.
    pub id: String,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// See [`super::Event::StepStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepStarted {
    /// The step.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Fingerprint of the declared input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Hash>,
    /// How it was handed out, if somebody else does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Box<Remote>>,
}

/// How an attempt at a remote step is handed out: whatever its task and the next attempt are made of, so
/// that both can be made from the log alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remote {
    /// The task.
    pub task: TaskId,
    /// The queue that it stands in.
    pub queue: QueueName,
    /// Larger goes first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// What the worker is given; in the log once, with the first attempt.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// How often and how soon it is tried again.
    pub retry: Policy,
    /// How long whoever claims the task may be silent.
    pub silence_ms: u64,
    /// How often this attempt had been handed out before.
    #[serde(default, skip_serializing_if = "is_none_u32")]
    pub delivery: u32,
    /// It has a compensation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
}

/// See [`super::Event::StepCompleted`].
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
    /// What it returned.
    pub output: Payload,
    /// Fingerprint of the declared input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Hash>,
    /// It has a compensation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// It held steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub group: bool,
    /// The claim of the task that brought it; only of a remote step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// See [`super::Event::StepFailed`].
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
    /// Why.
    pub failure: Failure,
    /// Attempts that its policy still allows.
    #[serde(default, skip_serializing_if = "is_none_u32")]
    pub left: u32,
    /// Fingerprint of the declared input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Hash>,
    /// It held steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub group: bool,
    /// The claim of the task that brought it; only of a remote step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// See [`super::Event::WaitStarted`]. The first of these things to be there resolves it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitStarted {
    /// The wait.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// Signals by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<SignalName>,
    /// Questions by identity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Path>,
    /// Children by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<RunId>,
    /// What the content of a signal must look like, as a JSON Schema by name. A signal that does not fit stays unread.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub schemas: BTreeMap<SignalName, serde_json::Value>,
    /// When it gives up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Millis>,
}

/// What resolved a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The mail at this position, now consumed.
    Mail(Seq),
    /// The time given as `due` has come.
    Timer,
}

/// See [`super::Event::InputRequested`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputRequested {
    /// The question.
    pub path: Path,
    /// Order of the call within its arm.
    pub ord: u32,
    /// What a person reads.
    pub prompt: String,
    /// What an answer must look like.
    pub form: Form,
}

/// See [`super::Event::ChildStarted`].
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
}

/// See [`super::Event::JumpRequested`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JumpRequested {
    /// Who and why.
    pub note: Note,
    /// The step to run again.
    pub to: Path,
    /// Input that replaces the run's own.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// Mail consumed after the step is not delivered again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drop_mail: bool,
    /// Undo what lies after the step before going back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compensate: bool,
}

/// See [`super::Event::RequestWithdrawn`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestWithdrawn {
    /// Who and why.
    pub note: Note,
    /// What was taken back.
    pub what: Request,
}

/// Something that an operator asked of a run and that a worker must carry out.
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
    /// The word in JSON and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jump => "jump",
            Self::Cancel => "cancel",
        }
    }
}

/// What an operator who ended a run without its code left standing. See [`super::Event::RunCancelled`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Terminated {
    /// Who and why.
    pub note: Note,
    /// Completed steps with a compensation that was not run, latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<Path>,
    /// Steps whose compensation had begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoing: Vec<Path>,
    /// Children that had not ended; they are asked to cancel.
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
    /// Whether nothing was left standing, as far as the log tells.
    pub fn is_clean(&self) -> bool {
        self.unknown.is_none()
            && self.standing.is_empty()
            && self.undoing.is_empty()
            && self.children.is_empty()
            && self.remote.is_empty()
    }
}

/// See [`super::Event::BranchOpened`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BranchOpened {
    /// Its number; the event itself is the first of that branch.
    pub branch: BranchId,
    /// The branch that contains the cutoff; none: an empty lineage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<BranchId>,
    /// The last position of the parent that it sees.
    pub cutoff: Seq,
    /// Why.
    pub why: Why,
    /// Input that replaces the run's own from here on.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// Positions of mail that this branch must not see again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_mail: Vec<Seq>,
    /// What a history that begins here needs to know; only with [`Why::Continue`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Carried>,
}

/// What survives `continue_as_new` without reading what came before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// The run as it was queued, with the new input.
    pub run: RunQueued,
    /// The row as it was before.
    pub summary: Box<Summary>,
    /// Positions of mail that nobody has read yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mail: Vec<Seq>,
    /// What that mail says, in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mail_bytes: u64,
    /// Children that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<RunId>,
}

/// See [`super::Event::RunPruned`]: a tombstone that stands for the whole log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPruned {
    /// Who and why.
    pub note: Note,
    /// Where the log was archived.
    pub archive: String,
    /// SHA-256 of the archived texts, each with a line end.
    pub sha256: String,
    /// How many there are.
    pub events: u64,
    /// The row as it was before.
    pub summary: Box<Summary>,
    /// How the run ended: the event that said so.
    pub ended: Box<super::Event>,
}
