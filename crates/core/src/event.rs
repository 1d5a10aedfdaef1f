//! What can happen to a run. Past tense, plain data, never edited.
//!
//! The serialised names are the on-disk format: variants and optional fields are added, never
//! renamed. Each variant says which change it makes; `derive` is where the change is made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::branch::{BranchId, Why};
use crate::error::Failure;
use crate::form::Form;
use crate::hash::{Hash, WriteId};
use crate::id::{NodeId, QueueName, RunId, SignalName, TagKey, WorkflowName};
use crate::path::Path;
use crate::payload::Payload;
use crate::summary::Summary;
use crate::time::{Millis, Seq};

/// Tags of a run: what people search by.
pub type Tags = BTreeMap<TagKey, String>;

/// Something that happened to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum Event {
    /// First event of every run. Absent → `queued`.
    #[serde(rename = "run.queued")]
    RunQueued(RunQueued),
    /// The first claim's companion: the workflow function is about to be called for the first time.
    #[serde(rename = "run.started")]
    RunStarted,
    /// A node took the run; this position is the new epoch. → `running`.
    #[serde(rename = "run.claimed")]
    RunClaimed(RunClaimed),
    /// The owner gave the run back without prejudice. Ends ownership, counts no attempt.
    #[serde(rename = "run.released")]
    RunReleased {
        /// Why.
        reason: Release,
    },
    /// Un-paused; gives no ownership. Mail.
    #[serde(rename = "run.resumed")]
    RunResumed(Note),
    /// A rule mended the run; gives no ownership. Visible for ever.
    #[serde(rename = "run.recovered")]
    RunRecovered(RunRecovered),
    /// An operator stopped the run between two effects. → `paused`. Mail.
    #[serde(rename = "run.paused")]
    RunPaused(Note),
    /// Nothing more will happen without a person. → `parked`.
    #[serde(rename = "run.parked")]
    RunParked {
        /// Code of the rule or error.
        code: String,
        /// What was seen.
        reason: String,
    },
    /// The workflow returned. Terminal.
    #[serde(rename = "run.completed")]
    RunCompleted {
        /// What it returned.
        output: Payload,
    },
    /// The workflow failed, and whatever had to be undone is undone. Terminal.
    #[serde(rename = "run.failed")]
    RunFailed {
        /// Why.
        failure: Failure,
    },
    /// The run was cancelled, and whatever had to be undone is undone. Terminal.
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        /// As given with the request.
        reason: String,
    },
    /// Somebody wants the run to stop; it ends `cancelled` once it has. Mail.
    #[serde(rename = "run.cancel_requested")]
    RunCancelRequested(Note),
    /// An attempt began. Written by itself only for steps that are long, heartbeat or run at most once.
    #[serde(rename = "step.started")]
    StepStarted(StepStarted),
    /// The result is durable; the step never runs again on this lineage.
    #[serde(rename = "step.completed")]
    StepCompleted(StepCompleted),
    /// An attempt ended badly. Final unless a `step.retry_scheduled` follows in the same append.
    #[serde(rename = "step.failed")]
    StepFailed(StepFailed),
    /// The next attempt begins when `due` has come.
    #[serde(rename = "step.retry_scheduled")]
    StepRetryScheduled {
        /// The step.
        path: Path,
        /// Number of the attempt to come.
        attempt: u32,
        /// When.
        due: Millis,
    },
    /// An attempt was given up because it took too long or fell silent.
    #[serde(rename = "step.timeout")]
    StepTimeout {
        /// The step.
        path: Path,
        /// The attempt.
        attempt: u32,
        /// `timeout` or `heartbeat-timeout`.
        reason: String,
    },
    /// The run looks for the first of several things. → `waiting`.
    #[serde(rename = "wait.started")]
    WaitStarted(WaitStarted),
    /// What it was looking for is there; consumes the mail it names, on this branch.
    #[serde(rename = "wait.resolved")]
    WaitResolved {
        /// The wait.
        path: Path,
        /// By what.
        by: By,
    },
    /// A question to a person is open.
    #[serde(rename = "input.requested")]
    InputRequested(InputRequested),
    /// A person answered. Mail; matched by the question's identity, on any branch.
    #[serde(rename = "input.answered")]
    InputAnswered {
        /// Identity of the question.
        question: Path,
        /// Deduplicates a repeated answer.
        id: String,
        /// The answer, valid under the question's form.
        answer: Payload,
        /// Who answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A message from outside. Mail; does not change the status.
    #[serde(rename = "signal.received")]
    SignalReceived {
        /// Its name.
        name: SignalName,
        /// Deduplicates a repeated signal.
        id: String,
        /// Its content.
        payload: Payload,
    },
    /// The run sleeps. → `sleeping`.
    #[serde(rename = "timer.set")]
    TimerSet {
        /// The sleep.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// When it ends.
        due: Millis,
    },
    /// The sleep is over.
    #[serde(rename = "timer.fired")]
    TimerFired {
        /// The sleep.
        path: Path,
    },
    /// A child run is wanted; written before the child is created.
    #[serde(rename = "child.started")]
    ChildStarted(ChildStarted),
    /// The child completed. Mail.
    #[serde(rename = "child.completed")]
    ChildCompleted {
        /// The child.
        run: RunId,
        /// What it returned.
        output: Payload,
    },
    /// The child failed or was cancelled. Mail.
    #[serde(rename = "child.failed")]
    ChildFailed {
        /// The child.
        run: RunId,
        /// Why.
        failure: Failure,
    },
    /// Somebody wants to go back to a step once what lies after it is compensated. → `compensating`.
    #[serde(rename = "jump.requested")]
    JumpRequested(JumpRequested),
    /// The run moved to a new branch, in the same append. Ends ownership.
    #[serde(rename = "branch.opened")]
    BranchOpened(BranchOpened),
    /// A completed step is about to be undone. → `compensating`.
    #[serde(rename = "compensation.started")]
    CompensationStarted {
        /// The step to undo.
        path: Path,
        /// Why the run is being undone; on the first one only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    /// The step is undone; it is never undone again on this lineage.
    #[serde(rename = "compensation.completed")]
    CompensationCompleted {
        /// The step.
        path: Path,
    },
    /// The step could not be undone; the run is parked in the same append.
    #[serde(rename = "compensation.failed")]
    CompensationFailed {
        /// The step.
        path: Path,
        /// Why.
        failure: Failure,
    },
    /// The run goes on under another version of its workflow.
    #[serde(rename = "version.changed")]
    VersionChanged {
        /// Before.
        from: u32,
        /// From now on.
        to: u32,
        /// Why.
        reason: String,
    },
    /// What an operator did, and why.
    #[serde(rename = "note.added")]
    NoteAdded(Note),
    /// The workflow tells how far it is. Changes nothing.
    #[serde(rename = "progress.emitted")]
    ProgressEmitted {
        /// Identity of the call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// For people.
        message: String,
    },
}

/// See [`Event::RunQueued`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunQueued {
    /// The workflow.
    pub workflow: WorkflowName,
    /// Version it begins with.
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
}

fn is_zero(value: &i32) -> bool {
    *value == 0
}

/// See [`Event::RunClaimed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunClaimed {
    /// The new owner.
    pub node: NodeId,
    /// Why it took the run.
    pub cause: Cause,
    /// Recoveries since the last progress, this one included.
    #[serde(default, skip_serializing_if = "is_none_u32")]
    pub attempt: u32,
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

/// See [`Event::RunRecovered`].
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

/// See [`Event::StepStarted`].
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
}

/// See [`Event::StepCompleted`].
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
}

/// See [`Event::StepFailed`].
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
    /// Fingerprint of the declared input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Hash>,
    /// It held steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub group: bool,
}

/// See [`Event::WaitStarted`]. The first of these things to be there resolves it.
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

/// See [`Event::InputRequested`].
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

/// See [`Event::ChildStarted`].
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

/// See [`Event::JumpRequested`].
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

/// See [`Event::BranchOpened`].
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
    /// Children that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<RunId>,
}

impl Event {
    /// Mail belongs to the run, not to a branch: every branch sees it.
    pub fn is_mail(&self) -> bool {
        matches!(
            self,
            Self::SignalReceived { .. }
                | Self::InputAnswered { .. }
                | Self::RunCancelRequested(_)
                | Self::RunPaused(_)
                | Self::RunResumed(_)
                | Self::ChildCompleted { .. }
                | Self::ChildFailed { .. }
        )
    }

    /// Whether a new one of these is progress: recovery attempts start from zero again.
    pub fn is_progress(&self) -> bool {
        matches!(self, Self::StepCompleted(_) | Self::CompensationCompleted { .. })
    }

    /// Whether it ends its branch.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunCompleted { .. } | Self::RunFailed { .. } | Self::RunCancelled { .. })
    }

    /// The operation it is about, if it is about one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::StepStarted(e) => Some(&e.path),
            Self::StepCompleted(e) => Some(&e.path),
            Self::StepFailed(e) => Some(&e.path),
            Self::StepRetryScheduled { path, .. }
            | Self::StepTimeout { path, .. }
            | Self::WaitResolved { path, .. }
            | Self::TimerSet { path, .. }
            | Self::TimerFired { path }
            | Self::CompensationStarted { path, .. }
            | Self::CompensationCompleted { path }
            | Self::CompensationFailed { path, .. }
            | Self::ProgressEmitted { path, .. } => Some(path),
            Self::WaitStarted(e) => Some(&e.path),
            Self::InputRequested(e) => Some(&e.path),
            Self::InputAnswered { question, .. } => Some(question),
            Self::ChildStarted(e) => Some(&e.path),
            Self::JumpRequested(e) => Some(&e.to),
            Self::RunQueued(_)
            | Self::RunStarted
            | Self::RunClaimed(_)
            | Self::RunReleased { .. }
            | Self::RunResumed(_)
            | Self::RunRecovered(_)
            | Self::RunPaused(_)
            | Self::RunParked { .. }
            | Self::RunCompleted { .. }
            | Self::RunFailed { .. }
            | Self::RunCancelled { .. }
            | Self::RunCancelRequested(_)
            | Self::SignalReceived { .. }
            | Self::ChildCompleted { .. }
            | Self::ChildFailed { .. }
            | Self::BranchOpened(_)
            | Self::VersionChanged { .. }
            | Self::NoteAdded(_) => None,
        }
    }

    /// The name it has on disk.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RunQueued(_) => "run.queued",
            Self::RunStarted => "run.started",
            Self::RunClaimed(_) => "run.claimed",
            Self::RunReleased { .. } => "run.released",
            Self::RunResumed(_) => "run.resumed",
            Self::RunRecovered(_) => "run.recovered",
            Self::RunPaused(_) => "run.paused",
            Self::RunParked { .. } => "run.parked",
            Self::RunCompleted { .. } => "run.completed",
            Self::RunFailed { .. } => "run.failed",
            Self::RunCancelled { .. } => "run.cancelled",
            Self::RunCancelRequested(_) => "run.cancel_requested",
            Self::StepStarted(_) => "step.started",
            Self::StepCompleted(_) => "step.completed",
            Self::StepFailed(_) => "step.failed",
            Self::StepRetryScheduled { .. } => "step.retry_scheduled",
            Self::StepTimeout { .. } => "step.timeout",
            Self::WaitStarted(_) => "wait.started",
            Self::WaitResolved { .. } => "wait.resolved",
            Self::InputRequested(_) => "input.requested",
            Self::InputAnswered { .. } => "input.answered",
            Self::SignalReceived { .. } => "signal.received",
            Self::TimerSet { .. } => "timer.set",
            Self::TimerFired { .. } => "timer.fired",
            Self::ChildStarted(_) => "child.started",
            Self::ChildCompleted { .. } => "child.completed",
            Self::ChildFailed { .. } => "child.failed",
            Self::JumpRequested(_) => "jump.requested",
            Self::BranchOpened(_) => "branch.opened",
            Self::CompensationStarted { .. } => "compensation.started",
            Self::CompensationCompleted { .. } => "compensation.completed",
            Self::CompensationFailed { .. } => "compensation.failed",
            Self::VersionChanged { .. } => "version.changed",
            Self::NoteAdded(_) => "note.added",
            Self::ProgressEmitted { .. } => "progress.emitted",
        }
    }
}

/// An [`Event`] that is durable: it has a place in a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Its position.
    pub seq: Seq,
    /// When it was decided, by its writer's clock.
    pub at: Millis,
    /// The branch it belongs to.
    pub branch: BranchId,
    /// The claim under which an owner wrote it; none for what came from outside.
    pub epoch: Option<Seq>,
    /// The write that put it there.
    pub write: WriteId,
    /// Fingerprint of the event before it.
    pub prev: Hash,
    /// What happened.
    pub event: Event,
}
