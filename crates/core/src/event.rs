//! What can happen to a run. Past tense, plain data, never edited.
//!
//! The serialised names are the on-disk format: variants and optional fields are added, never
//! renamed. Each variant says which change it makes; `derive` is where the change is made.

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
    BranchOpened, By, Carried, Cause, ChildStarted, InputRequested, JumpRequested, Note, Release, Remote,
    Request, RequestWithdrawn, RunClaimed, RunPruned, RunQueued, RunRecovered, StepCompleted, StepFailed,
    StepStarted, Terminated, WaitStarted,
};

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
    /// The run was cancelled, and whatever had to be undone is undone; or it was terminated. Terminal.
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        /// As given with the request.
        reason: String,
        /// An operator ended the run without its code; what that left standing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        terminated: Option<Box<Terminated>>,
    },
    /// The run was archived, and what came before this event is removed. Nothing follows it.
    #[serde(rename = "run.pruned")]
    RunPruned(RunPruned),
    /// Somebody wants the run to stop; it ends `cancelled` once it has. Ends a pause. Mail.
    #[serde(rename = "run.cancel_requested")]
    RunCancelRequested(Note),
    /// An attempt began. Written by itself only for steps that are long, heartbeat or run at most once, and
    /// for remote ones: handed out to whoever claims the task, → `waiting`.
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
    /// An operator took back a jump or a request to cancel before a worker acted on it. Run-wide.
    #[serde(rename = "request.withdrawn")]
    RequestWithdrawn(RequestWithdrawn),
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
    /// The run goes on under another version of its workflow. With a note it was moved from outside, which
    /// un-parks it.
    #[serde(rename = "version.changed")]
    VersionChanged {
        /// Before.
        from: u32,
        /// From now on.
        to: u32,
        /// Why.
        reason: String,
        /// Who moved it; none: its owner did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Note>,
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
    /// The code asked for a change before anything later of its arm was recorded: this lineage has the change.
    /// Takes no place in the order of its arm.
    #[serde(rename = "change.marked")]
    ChangeMarked {
        /// The arm and the name of the change.
        path: Path,
        /// How many operations the arm had asked for before.
        ord: u32,
    },
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

    /// Whether one of these, written by the run's owner, is progress: replay does not write it again.
    ///
    /// The start of an attempt is none: an attempt that takes its process down begins again and again.
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
        )
    }

    /// Whether it ends its branch.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunCompleted { .. } | Self::RunFailed { .. } | Self::RunCancelled { .. })
    }

    /// Whether the run may be over with it: it ends its branch, or stands for a log that did.
    pub fn may_be_last(&self) -> bool {
        self.is_terminal() || matches!(self, Self::RunPruned(_))
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
            | Self::ProgressEmitted { path, .. }
            | Self::ChangeMarked { path, .. } => Some(path),
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
            Self::ChangeMarked { .. } => "change.marked",
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
    /// Size of its text in the log.
    pub bytes: u64,
    /// What happened.
    pub event: Event,
}

impl Recorded {
    /// Whether it is progress: recovery attempts start from zero again. What a healer writes is none.
    pub fn is_progress(&self) -> bool {
        let owned = self.epoch.is_some() || matches!(self.event, Event::StepCompleted(_));
        owned && self.event.is_progress()
    }
}

#[cfg(test)]
mod tests;
