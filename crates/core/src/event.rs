//! Events: everything that can happen to a run. Past tense, plain data, never edited.
//!
//! The serialized names are the on-disk format: variants and optional fields may be added, never renamed. Each
//! variant documents its effect on the status; `derive` implements it.

mod branches;
mod data;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::branch::BranchId;
use crate::error::Failure;
use crate::hash::{Hash, WriteId};
use crate::id::{RunId, SignalName, TagKey};
use crate::path::Path;
use crate::payload::Payload;
use crate::time::{Millis, Seq};

pub use data::{
    AttributesChanged, BranchOpened, By, CancelRequested, Carried, Cause, ChildStarted, InputRequested,
    JumpRequested, Note, Release, Remote, Request, RequestAnswered, RequestWithdrawn, RunClaimed, RunPruned,
    RunQueued, RunRecovered, StepCompleted, StepFailed, StepStarted, Terminated, ValuePublished, WaitStarted,
};

/// Tags of a run, to search by.
pub type Tags = BTreeMap<TagKey, String>;

/// A fact in the log of a run.
///
/// The events of a run, in order, are its log, and the log is the only truth about the run: [`derive`](crate::derive())
/// computes everything else from it. An arrow in the description of a variant names the status that follows. *Mail*
/// is an event from outside that every branch sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum Event {
    /// The run was created; first event of every run. Absent → `queued`.
    #[serde(rename = "run.queued")]
    RunQueued(RunQueued),
    /// The workflow function is about to be called for the first time; follows the first claim.
    #[serde(rename = "run.started")]
    RunStarted,
    /// A node claimed the run; this position is the new epoch. → `running`.
    #[serde(rename = "run.claimed")]
    RunClaimed(RunClaimed),
    /// The owner released the run. Ends ownership, counts no attempt.
    #[serde(rename = "run.released")]
    RunReleased {
        /// Why the owner released it.
        reason: Release,
    },
    /// An operator resumed the run; gives no ownership. Mail.
    #[serde(rename = "run.resumed")]
    RunResumed(Note),
    /// A rule repaired the run; gives no ownership.
    #[serde(rename = "run.recovered")]
    RunRecovered(RunRecovered),
    /// An operator stopped the run between two effects. → `paused`. Mail.
    #[serde(rename = "run.paused")]
    RunPaused(Note),
    /// The run cannot continue without an operator. → `parked`.
    #[serde(rename = "run.parked")]
    RunParked {
        /// Code of the rule or error.
        code: String,
        /// What was observed.
        reason: String,
    },
    /// The workflow returned. Terminal.
    #[serde(rename = "run.completed")]
    RunCompleted {
        /// What it returned.
        output: Payload,
    },
    /// The workflow failed, and all required compensations have completed. Terminal.
    #[serde(rename = "run.failed")]
    RunFailed {
        /// Why it failed.
        failure: Failure,
    },
    /// The run was cancelled and all required compensations have completed, or it was terminated. Terminal.
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        /// The reason given with the request.
        reason: String,
        /// Set if an operator terminated the run; the effects that remain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        terminated: Option<Box<Terminated>>,
    },
    /// The run was archived, and all earlier events were removed. No event follows.
    #[serde(rename = "run.pruned")]
    RunPruned(RunPruned),
    /// A caller requested that the run end, or its deadline passed; it becomes `cancelled` or `failed` afterwards. Ends a
    /// pause. Mail.
    #[serde(rename = "run.cancel_requested")]
    RunCancelRequested(CancelRequested),
    /// An attempt began. A separate event only for steps that are long, send heartbeats or run at most once, and for
    /// remote steps, whose task is then in a queue: → `waiting`.
    #[serde(rename = "step.started")]
    StepStarted(StepStarted),
    /// The result is durable; the step never runs again on this lineage.
    #[serde(rename = "step.completed")]
    StepCompleted(StepCompleted),
    /// An attempt failed. Final unless a `step.retry_scheduled` follows in the same append.
    #[serde(rename = "step.failed")]
    StepFailed(StepFailed),
    /// The next attempt begins at `due`.
    #[serde(rename = "step.retry_scheduled")]
    StepRetryScheduled {
        /// The step.
        path: Path,
        /// Number of the next attempt.
        attempt: u32,
        /// When it begins.
        due: Millis,
    },
    /// An attempt was given up because it took too long or stopped sending heartbeats.
    #[serde(rename = "step.timeout")]
    StepTimeout {
        /// The step.
        path: Path,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// `timeout` or `heartbeat-timeout`.
        reason: String,
    },
    /// The run waits for the first of several things. → `waiting`.
    #[serde(rename = "wait.started")]
    WaitStarted(WaitStarted),
    /// The wait ended; consumes the mail it names, on this branch.
    #[serde(rename = "wait.resolved")]
    WaitResolved {
        /// The wait.
        path: Path,
        /// What ended it.
        by: By,
    },
    /// A question to a person is open.
    #[serde(rename = "input.requested")]
    InputRequested(InputRequested),
    /// A person answered. Mail; matched by the question's identity, on any branch.
    #[serde(rename = "input.answered")]
    InputAnswered {
        /// Path of the question.
        question: Path,
        /// Identifies a repeated answer.
        id: String,
        /// The answer, valid under the question's form.
        answer: Payload,
        /// The person who answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A signal arrived. Mail; does not change the status.
    #[serde(rename = "signal.received")]
    SignalReceived {
        /// Name of the signal.
        name: SignalName,
        /// Identifies a repeated signal.
        id: String,
        /// Content of the signal.
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
    /// The run requested a child; written before the child is created.
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
    /// The child failed, was cancelled or could not be created. Mail.
    #[serde(rename = "child.failed")]
    ChildFailed {
        /// The child.
        run: RunId,
        /// Why it failed.
        failure: Failure,
        /// Whether the child was never created: the call that requested it failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
    },
    /// An operator requested a jump that first compensates later steps. → `compensating`.
    #[serde(rename = "jump.requested")]
    JumpRequested(JumpRequested),
    /// An operator withdrew a jump or a request to cancel before a worker acted on it. Run-wide.
    #[serde(rename = "request.withdrawn")]
    RequestWithdrawn(RequestWithdrawn),
    /// The run moved to a new branch, in the same append. Ends ownership.
    #[serde(rename = "branch.opened")]
    BranchOpened(BranchOpened),
    /// The compensation of a completed step begins. → `compensating`.
    #[serde(rename = "compensation.started")]
    CompensationStarted {
        /// The step to undo.
        path: Path,
        /// Why the run is compensating; on the first one only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    /// The step is compensated, which happens at most once on this lineage.
    #[serde(rename = "compensation.completed")]
    CompensationCompleted {
        /// The step.
        path: Path,
    },
    /// The step could not be compensated; the run is parked in the same append.
    #[serde(rename = "compensation.failed")]
    CompensationFailed {
        /// The step.
        path: Path,
        /// Why it could not.
        failure: Failure,
    },
    /// The run continues under another version of its workflow. With a note, an operator moved it, which also
    /// un-parks it.
    #[serde(rename = "version.changed")]
    VersionChanged {
        /// The previous version.
        from: u32,
        /// The new version.
        to: u32,
        /// Why the version changed.
        reason: String,
        /// The operator who moved it; none: the owner did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Note>,
    },
    /// An operator's action and its reason.
    #[serde(rename = "note.added")]
    NoteAdded(Note),
    /// The workflow reported its progress. Changes nothing.
    #[serde(rename = "progress.emitted")]
    ProgressEmitted {
        /// Path of the call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// The message.
        message: String,
    },
    /// The workflow changed attributes of the run.
    #[serde(rename = "attributes.changed")]
    AttributesChanged(AttributesChanged),
    /// The workflow published a value under a name, to be read from outside. Changes nothing else.
    #[serde(rename = "value.published")]
    ValuePublished(ValuePublished),
    /// The workflow answered a request, or refused it. Run-wide: the first answer to a request is the only one.
    #[serde(rename = "request.answered")]
    RequestAnswered(RequestAnswered),
    /// The code asked for a named change before the log had any later operation of the arm: this lineage has the
    /// change. Takes no place in the order of its arm.
    #[serde(rename = "change.marked")]
    ChangeMarked {
        /// The arm and the name of the change.
        path: Path,
        /// Number of operations that the arm had requested before.
        ord: u32,
    },
}

impl Event {
    /// Returns whether the event is mail, which belongs to the run and is visible to every branch.
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

    /// Returns whether the event, written by the run's owner, is progress: replay does not write it again.
    ///
    /// The start of an attempt is not progress: an attempt that crashes its process begins again and again.
    fn is_progress(&self) -> bool {
        matches!(
            self,
            Self::StepCompleted(_)
                | Self::StepFailed(_)
                | Self::StepRetryScheduled { .. }
                | Self::TimerSet { .. }
                | Self::TimerFired { .. }
                | Self::WaitStarted(_)
                | Self::WaitResolved { .. }
                | Self::ChildStarted(_)
                | Self::CompensationStarted { .. }
                | Self::CompensationCompleted { .. }
                | Self::CompensationFailed { .. }
                | Self::ProgressEmitted { .. }
                | Self::AttributesChanged(_)
                | Self::ValuePublished(_)
                | Self::RequestAnswered(_)
        )
    }

    /// Returns whether the event ends its branch.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunCompleted { .. } | Self::RunFailed { .. } | Self::RunCancelled { .. })
    }

    /// Returns whether the run may have ended with this event: it ends its branch, or is a tombstone.
    pub fn may_be_last(&self) -> bool {
        self.is_terminal() || matches!(self, Self::RunPruned(_))
    }

    /// Returns the trace context that the run was started with, if the event contains it.
    pub fn trace(&self) -> Option<&crate::trace::TraceContext> {
        match self {
            Self::RunQueued(queued) => queued.trace.as_ref(),
            Self::BranchOpened(opened) => {
                opened.carried.as_ref().and_then(|carried| carried.run.trace.as_ref())
            }
            _ => None,
        }
    }

    /// Returns the operation that the event concerns, if any.
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
            | Self::ProgressEmitted { path, .. }
            | Self::ChangeMarked { path, .. } => Some(path),
            Self::WaitStarted(e) => Some(&e.path),
            Self::AttributesChanged(e) => Some(&e.path),
            Self::ValuePublished(e) => Some(&e.path),
            Self::RequestAnswered(e) => Some(&e.path),
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
            | Self::RunPruned(_)
            | Self::RunCancelRequested(_)
            | Self::SignalReceived { .. }
            | Self::ChildCompleted { .. }
            | Self::ChildFailed { .. }
            | Self::RequestWithdrawn(_)
            | Self::BranchOpened(_)
            | Self::VersionChanged { .. }
            | Self::NoteAdded(_) => None,
        }
    }

    /// Returns the name on disk.
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
            Self::RunPruned(_) => "run.pruned",
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
            Self::RequestWithdrawn(_) => "request.withdrawn",
            Self::BranchOpened(_) => "branch.opened",
            Self::CompensationStarted { .. } => "compensation.started",
            Self::CompensationCompleted { .. } => "compensation.completed",
            Self::CompensationFailed { .. } => "compensation.failed",
            Self::VersionChanged { .. } => "version.changed",
            Self::NoteAdded(_) => "note.added",
            Self::ProgressEmitted { .. } => "progress.emitted",
            Self::AttributesChanged(_) => "attributes.changed",
            Self::ValuePublished(_) => "value.published",
            Self::RequestAnswered(_) => "request.answered",
            Self::ChangeMarked { .. } => "change.marked",
        }
    }
}

/// A durable [`Event`] with its place in a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Position in the log.
    pub seq: Seq,
    /// When it was decided, by the clock of its writer.
    pub at: Millis,
    /// The branch that it belongs to.
    pub branch: BranchId,
    /// The claim under which an owner wrote it; none for external events.
    pub epoch: Option<Seq>,
    /// Id of the append that wrote it.
    pub write: WriteId,
    /// Hash of the previous event.
    pub prev: Hash,
    /// Size of its text in the log.
    pub bytes: u64,
    /// The event.
    pub event: Event,
}

impl Recorded {
    /// Returns whether it is progress, which resets the recovery attempts. Events of a healer are not progress.
    pub fn is_progress(&self) -> bool {
        let owned = self.epoch.is_some() || matches!(self.event, Event::StepCompleted(_));
        owned && self.event.is_progress()
    }
}

#[cfg(test)]
mod tests;
