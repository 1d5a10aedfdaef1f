//! What a [`State`](super::State) is made of.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::branch::BranchId;
use crate::error::Failure;
use crate::event::{Remote, WaitStarted};
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

/// One operation of a workflow: a step, a wait, a sleep, a question or a child.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// Order of the call within its arm.
    pub ord: u32,
    /// Its first event.
    pub first: Seq,
    /// Its last event.
    pub last: Seq,
    /// Time of its last event.
    pub at: Millis,
    /// Fingerprint of its declared input.
    pub input: Option<Hash>,
    /// What it is, and how far it is.
    pub kind: OpKind,
}

/// What an operation is.
#[derive(Debug, Clone, PartialEq)]
pub enum OpKind {
    /// A leaf or group step.
    Step(StepOp),
    /// Anything that waits.
    Wait(WaitOp),
    /// A line for people.
    Progress,
}

/// How far a step is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepOp {
    /// Attempts begun, as far as the log knows.
    pub attempts: u32,
    /// Attempts that failed by themselves; the only ones a retry policy counts.
    pub failures: u32,
    /// Attempts that the policy still allowed when one last failed.
    pub left: u32,
    /// Where it stands.
    pub progress: StepProgress,
    /// It holds steps.
    pub group: bool,
    /// How it is handed out, if somebody else does it.
    pub remote: Option<Box<RemoteOp>>,
}

impl StepOp {
    /// Whether it has neither returned nor failed for good.
    pub fn is_open(&self) -> bool {
        matches!(self.progress, StepProgress::Started | StepProgress::Retry(_))
    }
}

/// What is known of a remote step besides where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteOp {
    /// How its latest attempt was handed out, with what the worker is given.
    pub sent: Remote,
    /// When.
    pub since: Millis,
    /// What ended each attempt.
    pub ends: BTreeMap<u32, RemoteEnd>,
}

/// What ended an attempt at a remote step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEnd {
    /// The task.
    pub task: TaskId,
    /// The claim that brought the result; none: the attempt was given up.
    pub fence: Option<u64>,
    /// Fingerprint of the result: see [`RemoteEnd::result_hash`].
    pub result: Hash,
}

impl RemoteEnd {
    /// Fingerprint of a result as the log keeps it. A success and a failure never share one.
    pub fn result_hash(result: Result<&Payload, &Failure>) -> Hash {
        match result {
            Ok(output) => Hash::of_parts(&["ok", output.as_str()]),
            Err(failure) => {
                let (class, code) = (failure.class.as_str(), failure.code.as_deref());
                Hash::of_parts(&["failed", class, &failure.message, code.unwrap_or("")])
            }
        }
    }
}

/// A remote step that somebody is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRemote {
    /// The step.
    pub path: Path,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Its task.
    pub task: TaskId,
    /// The queue that it stands in.
    pub queue: QueueName,
    /// How long whoever claims the task may be silent.
    pub silence: Duration,
    /// When it was handed out.
    pub since: Millis,
}

/// Where a step stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum StepProgress {
    /// An attempt began and nothing more is known.
    #[default]
    Started,
    /// The next attempt begins when this time has come.
    Retry(Millis),
    /// It returned this.
    Completed(Payload),
    /// It failed for good.
    Failed(Failure),
}

/// How far a wait is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WaitOp {
    /// The child that was started for it.
    pub child: Option<RunId>,
    /// A question was put to a person.
    pub asked: bool,
    /// What it looks for, once it does.
    pub wanted: Option<WaitStarted>,
    /// What it found.
    pub found: Option<Found>,
}

/// What resolved a wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// This mail.
    Mail(Mail),
    /// Its time had come.
    Timer,
}

/// A message to a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Mail {
    /// A signal.
    Signal {
        /// Its name.
        name: SignalName,
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
        /// How.
        result: Result<Payload, Failure>,
    },
}

impl Mail {
    /// Size of what it says.
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

/// How far the undoing of a step is.
#[derive(Debug, Clone, PartialEq)]
pub enum Undo {
    /// Begun.
    Started,
    /// Done.
    Completed,
    /// Not possible.
    Failed(Failure),
}

/// A child run.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The call that wanted it.
    pub path: Path,
    /// On which branch.
    pub branch: BranchId,
    /// Where.
    pub seq: Seq,
    /// Whether it has ended.
    pub ended: bool,
}

/// What became of an event that was applied to a live state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It is part of the state now.
    Yes,
    /// The run moved to another branch; nothing was changed.
    DeriveAnew,
}
