//! Parts of a [`State`](super::State).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::branch::BranchId;
use crate::error::Failure;
use crate::event::{ChildStarted, Recorded, Remote, WaitStarted};
use crate::hash::Hash;
use crate::id::{QueueName, RunId, SignalName, TaskId};
use crate::path::Path;
use crate::payload::Payload;
use crate::time::{Millis, Seq};

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It returned this.
    Completed(Payload),
    /// It failed.
    Failed(Failure),
    /// It was cancelled, for this reason.
    Cancelled(String),
}

/// An operation of a workflow: a step, a wait, a sleep, a question or a child.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// Order of the call within its arm.
    pub ord: u32,
    /// Position of its first event.
    pub first: Seq,
    /// Position of its last event.
    pub last: Seq,
    /// Time of its last event.
    pub at: Millis,
    /// Hash of its declared input.
    pub input: Option<Hash>,
    /// The kind of operation and its progress.
    pub kind: OpKind,
}

/// The kind of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum OpKind {
    /// A leaf or group step.
    Step(StepOp),
    /// Anything that waits.
    Wait(WaitOp),
    /// A progress message.
    Progress,
    /// A change of attributes.
    Attributes,
    /// A published value.
    Published,
    /// An answered request.
    Answered,
}

impl OpKind {
    /// Returns whether the operation leaves no event if the log has what it would record: the same value, or an
    /// answer to the same request.
    pub fn may_be_silent(&self) -> bool {
        matches!(self, Self::Published | Self::Answered)
    }
}

/// The progress of a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepOp {
    /// Number of attempts that the log records.
    pub attempts: u32,
    /// Number of attempts that failed; the only ones that a retry policy counts.
    pub failures: u32,
    /// Number of attempts that the policy still allowed after the last failure.
    pub left: u32,
    /// The present phase.
    pub progress: StepProgress,
    /// Whether it is a group step.
    pub group: bool,
    /// How it is handed out, for a remote step.
    pub remote: Option<Box<RemoteOp>>,
}

impl StepOp {
    /// Returns whether it has neither completed nor failed for good.
    pub fn is_open(&self) -> bool {
        matches!(self.progress, StepProgress::Started | StepProgress::Retry(_))
    }
}

/// Additional facts about a remote step.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteOp {
    /// How its latest attempt was handed out, with the worker's input.
    pub sent: Remote,
    /// When it was handed out.
    pub since: Millis,
    /// How each attempt ended.
    pub ends: BTreeMap<u32, RemoteEnd>,
}

/// How an attempt of a remote step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEnd {
    /// The task of the attempt.
    pub task: TaskId,
    /// The fence of the claim that reported the result; none: the attempt was given up.
    pub fence: Option<u64>,
    /// Hash of the result: see [`RemoteEnd::result_hash`].
    pub result: Hash,
}

impl RemoteEnd {
    /// Returns the hash of a result as the log keeps it. A success and a failure never have the same hash.
    pub fn result_hash(result: Result<&Payload, &Failure>) -> Hash {
        match result {
            Ok(output) => Hash::of_parts(&["ok", output.as_str()]),
            Err(failure) => {
                let class = failure.class.as_str();
                let code = failure.code.as_deref().unwrap_or("");
                Hash::of_parts(&["failed", class, &failure.message, code])
            }
        }
    }
}

/// A remote step that waits for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRemote {
    /// The step.
    pub path: Path,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The task of the attempt.
    pub task: TaskId,
    /// Queue of the task.
    pub queue: QueueName,
    /// How long the worker may be silent.
    pub silence: Duration,
    /// When it was handed out.
    pub since: Millis,
}

/// The phase of a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum StepProgress {
    /// An attempt began, and the log has no result.
    #[default]
    Started,
    /// The next attempt begins at this time.
    Retry(Millis),
    /// It returned this.
    Completed(Payload),
    /// It failed for good.
    Failed(Failure),
}

/// The progress of a wait.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WaitOp {
    /// The child that was started for it.
    pub child: Option<RunId>,
    /// Whether a question was asked.
    pub asked: bool,
    /// What it waits for, once it does.
    pub wanted: Option<WaitStarted>,
    /// What ended it.
    pub found: Option<Found>,
    /// The result of the child, if it completed and has a compensation.
    pub completed: Option<Payload>,
}

/// What ended a wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// This mail.
    Mail(Mail),
    /// Its timeout.
    Timer,
}

/// A message to a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Mail {
    /// A signal.
    Signal {
        /// Its name.
        name: SignalName,
        /// Identifies a repeated signal, and the request that it brings.
        id: String,
        /// Its content.
        payload: Payload,
    },
    /// An answer.
    Answer {
        /// The question.
        question: Path,
        /// The answer.
        answer: Payload,
    },
    /// A child ended.
    Child {
        /// The child.
        run: RunId,
        /// How it ended.
        result: Result<Payload, Failure>,
    },
}

impl Mail {
    /// Returns the size of its content.
    pub fn bytes(&self) -> u64 {
        let said = match self {
            Self::Signal { payload, .. } => payload.as_str(),
            Self::Answer { answer, .. } => answer.as_str(),
            Self::Child { result: Ok(output), .. } => output.as_str(),
            Self::Child { result: Err(failure), .. } => &failure.message,
        };
        crate::codec::size(said)
    }
}

/// The progress of a compensation.
#[derive(Debug, Clone, PartialEq)]
pub enum Undo {
    /// Begun.
    Started,
    /// Done.
    Completed,
    /// It failed.
    Failed(Failure),
}

/// A child run.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The call that requested it.
    pub path: Path,
    /// The branch of the request.
    pub branch: BranchId,
    /// Position of the request.
    pub seq: Seq,
    /// Whether it has ended.
    pub ended: bool,
    /// Why it was never created, if the call that requested it failed.
    pub refused: Option<Failure>,
    /// Whether it outlives this run.
    pub detached: bool,
    /// Whether this run has a compensation for it.
    pub undo: bool,
}

impl Child {
    /// A child as requested; `before`: the same child, requested on a branch that a recovery left.
    pub(super) fn of(child: &ChildStarted, recorded: &Recorded, before: Option<&Self>) -> Self {
        let refused = before.and_then(|before| before.refused.clone());
        Self {
            path: child.path.clone(),
            branch: recorded.branch,
            seq: recorded.seq,
            ended: refused.is_some(),
            refused,
            detached: child.detached,
            undo: child.undo,
        }
    }
}

/// The result of applying an event to a live state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The state includes the event.
    Yes,
    /// The run moved to another branch: derive the state again. Nothing was changed.
    MustDerive,
}
