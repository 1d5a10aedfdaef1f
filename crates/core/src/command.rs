//! Commands to a run. Imperative; `decide` turns a command into events or refuses it.

use crate::branch::BranchId;
use crate::error::Failure;
use crate::event::{
    AttributesChanged, ChildStarted, InputRequested, JumpRequested, Note, Release, Request, RequestAnswered,
    RunQueued, StepCompleted, StepFailed, StepStarted, ValuePublished, WaitStarted,
};
use crate::id::{NodeId, RunId, SignalName, StepName, TaskId};
use crate::path::Path;
use crate::payload::Payload;
use crate::recovery::{Code, Healer, Lived, Owner, Policy, Remedy};
use crate::state::State;
use crate::time::{Millis, Seq};

/// A request to change a run.
///
/// Commands come from callers (start, signal, answer), operators (cancel, pause, jump, …), nodes (claim,
/// [`Owned`](Command::Owned)), healers ([`Heal`](Command::Heal)) and workers ([`StepEnded`](Command::StepEnded)).
/// [`decide()`](crate::decide()) checks a command against the present state and returns the events that carry it out.
/// A command that a caller may repeat carries an id; a repeat has no effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Start the run; the node in `claim`, if any, owns it at once.
    Start {
        /// Workflow, input and queue.
        queued: RunQueued,
        /// The node that executes it, if it starts the run itself.
        claim: Option<Starter>,
    },
    /// Take ownership of the run.
    Claim(Claim),
    /// Send a signal to the run.
    Signal {
        /// Name of the signal.
        name: SignalName,
        /// Identifies a repeated signal.
        id: String,
        /// Whether the id is known to be new, so that the log need not be searched for it.
        fresh: bool,
        /// Content of the signal.
        payload: Payload,
    },
    /// Answer a question.
    Answer {
        /// The question.
        question: Path,
        /// Accept the answer only if the question has been open since then. A question that the run asks again under
        /// the same name is a different question, unless a recovery cut it off.
        since: Option<Millis>,
        /// Identifies a repeated answer.
        id: String,
        /// The answer.
        answer: Payload,
        /// The person who answers.
        by: Option<String>,
    },
    /// Request that the run end.
    Cancel(Note),
    /// Request that the run end although no live node has its code to carry out the request.
    CancelUnmanned {
        /// The operator and the reason.
        note: Note,
        /// The present owner, known to be lost.
        lost: Option<NodeId>,
    },
    /// Request that the run end because its deadline has passed.
    TimeOut,
    /// The same, although no live node has the run's code to carry out the request.
    TimeOutUnmanned {
        /// The present owner, known to be lost.
        lost: Option<NodeId>,
    },
    /// End the run now, without its code and without compensation.
    Terminate(Note),
    /// Withdraw a request that no worker has acted on.
    Withdraw(Withdraw),
    /// Stop the run between two effects.
    Pause(Note),
    /// Continue a paused or parked run.
    Resume(Note),
    /// Go back to a step.
    Jump(JumpRequested),
    /// Retry a failed run from its failed step.
    Retry(Note),
    /// Jump or retry, and drop a pending request to cancel.
    DropCancel(Box<Command>),
    /// Add a note to the log.
    Annotate(Note),
    /// Repair the run by a rule.
    Heal(Heal),
    /// Create a new advance task, due now.
    Requeue(Note),
    /// Discard everything after the last stable event, and run it again.
    Reset(Note),
    /// Revert the latest seam.
    UndoSeam(Note),
    /// Move the run to another version of its workflow.
    Migrate(Migrate),
    /// Replace the log of an archived run with a tombstone.
    Prune(Prune),
    /// Deliver the end of a child.
    ChildEnded {
        /// The child.
        child: RunId,
        /// How it ended.
        result: Result<Payload, Failure>,
    },
    /// Record that a child of this run could not be created.
    ChildRefused {
        /// The child.
        child: RunId,
        /// Why it could not be created.
        failure: Failure,
    },
    /// Report the result of a remote step.
    StepEnded(StepEnded),
    /// Release a claim on a run whose log this node cannot read, because a newer release wrote it.
    HandBack(NodeId),
    /// Append actions of the owner, all in one append.
    Owned(Fence, Vec<Doing>),
}

impl Command {
    /// Returns the id that identifies a repeat of this external command, or `None` if callers never repeat it.
    pub fn outside_id(&self) -> Option<&str> {
        match self {
            Self::Signal { id, .. } | Self::Answer { id, .. } => Some(id),
            Self::Cancel(note)
            | Self::CancelUnmanned { note, .. }
            | Self::Terminate(note)
            | Self::Withdraw(Withdraw { note, .. })
            | Self::Pause(note)
            | Self::Resume(note)
            | Self::Retry(note)
            | Self::Annotate(note)
            | Self::Requeue(note)
            | Self::Reset(note)
            | Self::UndoSeam(note) => Some(&note.id),
            Self::Jump(jump) => Some(&jump.note.id),
            Self::Migrate(migrate) => Some(&migrate.note.id),
            Self::DropCancel(command) => command.outside_id(),
            Self::Heal(heal) => heal.note.as_ref().map(|note| note.id.as_str()),
            Self::Start { .. }
            | Self::Claim(_)
            | Self::TimeOut
            | Self::TimeOutUnmanned { .. }
            | Self::ChildEnded { .. }
            | Self::ChildRefused { .. }
            | Self::StepEnded(_)
            | Self::HandBack(_)
            | Self::Prune(_)
            | Self::Owned(..) => None,
        }
    }
}

impl State {
    /// Returns the command's id if the command may have been taken before this state begins: only the log before its
    /// base records it.
    pub fn unsure_of<'a>(&self, command: &'a Command) -> Option<&'a str> {
        let is_new = matches!(command, Command::Signal { fresh: true, .. });
        command.outside_id().filter(|id| !is_new && !self.knows_all_ids() && !self.has_seen(id))
    }
}

/// A request to withdraw.
#[derive(Debug, Clone, PartialEq)]
pub struct Withdraw {
    /// The operator and the reason.
    pub note: Note,
    /// The request to withdraw.
    pub what: Request,
    /// The present owner, if the caller knows that it is lost.
    pub lost: Option<NodeId>,
}

/// The result that a worker reports for a remote step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepEnded {
    /// The step.
    pub path: Path,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The task that the worker claimed.
    pub task: TaskId,
    /// The fence of that claim.
    pub fence: u64,
    /// How the attempt ended.
    pub result: Result<Payload, Failure>,
}

/// A node's request to own a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The new owner.
    pub node: NodeId,
    /// The present owner, if the claimant believes it to be lost.
    pub lost: Option<Lost>,
    /// Whether the claimant admits the run alone, in a process that has lived long enough without it.
    pub alone: bool,
    /// The version for a run whose version is undecided: the newest that the claimant has.
    pub version: Option<u32>,
    /// The steps that the workflow declares, as far as the claimant knows.
    pub plan: Vec<StepName>,
    /// How the claimant recovers runs of this workflow; none: unspecified.
    pub recovery: Option<Policy>,
}

impl Claim {
    /// Creates a claim by `node` of a run that no other node owns.
    pub fn by(node: NodeId) -> Self {
        Self { node, lost: None, alone: false, version: None, plan: Vec::new(), recovery: None }
    }
}

/// A node that starts a run and owns it at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Starter {
    /// The node.
    pub node: NodeId,
    /// How it recovers runs of this workflow; none: unspecified.
    pub recovery: Option<Policy>,
}

impl From<NodeId> for Starter {
    fn from(node: NodeId) -> Self {
        Self { node, recovery: None }
    }
}

/// A remedy and the facts that it is based on.
#[derive(Debug, Clone, PartialEq)]
pub struct Heal {
    /// The rule.
    pub rule: Code,
    /// What was observed.
    pub evidence: String,
    /// The remedy.
    pub remedy: Remedy,
    /// The log end that was examined: if the log has grown since, the remedy is refused.
    pub at: Seq,
    /// The healer and the reason.
    pub healer: Healer,
    /// The request that the remedy carries out, if an operator asked for it under an id. The log records it in the same
    /// append, so a repeat has no effect.
    pub note: Option<Note>,
}

/// A move to another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrate {
    /// The operator and the reason.
    pub note: Note,
    /// The version.
    pub to: u32,
    /// The owner, if the caller found that it is not alive. A run that a live node executes is not moved.
    pub lost: Option<NodeId>,
}

/// The archive of a run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune {
    /// The operator and the reason.
    pub note: Note,
    /// Where the archive is.
    pub archive: String,
    /// SHA-256 of the archived texts, each followed by a newline.
    pub sha256: String,
    /// The log end that was archived: if the log has grown since, the command is refused.
    pub at: Seq,
}

/// An owner that is believed to be lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Lost {
    /// The owner.
    pub node: NodeId,
    /// Whether its process is known to be dead; a mere suspicion counts no attempt.
    pub proven: bool,
    /// What was observed.
    pub evidence: String,
    /// How long it owned the run.
    pub lived: Lived,
}

impl Lost {
    /// Returns the loss of `node`, the owner of a run. A claim records it under rule O2 with the evidence that a
    /// diagnosis of the run names.
    pub fn of(node: NodeId, owner: Owner) -> Option<Self> {
        match owner {
            Owner::Lost { proven, evidence, lived } => Some(Self { node, proven, evidence, lived }),
            Owner::None | Owner::Alive => None,
        }
    }
}

/// Proof of ownership: the claim that an owner acts under and the branch that it executes.
///
/// `decide` refuses the actions of an owner whose fence is out of date, so a node that lost its run can never write
/// to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// Position of the claim.
    pub epoch: Seq,
    /// The branch.
    pub branch: BranchId,
}

/// An action of an owner and the time of the action.
#[derive(Debug, Clone, PartialEq)]
pub struct Doing {
    /// The time that its events carry.
    pub at: Millis,
    /// The action.
    pub what: Owned,
}

/// An action of the owner of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Owned {
    /// Begin an attempt of a step.
    StepStarted(StepStarted),
    /// Record the result of a step.
    StepCompleted(StepCompleted),
    /// Record a failed attempt.
    StepFailed {
        /// The failure.
        failed: StepFailed,
        /// When the next attempt begins; none: the step failed for good.
        retry_at: Option<Millis>,
        /// `timeout` or `heartbeat-timeout`, if that is the cause.
        timeout: Option<&'static str>,
    },
    /// Wait for the first of several things.
    Wait {
        /// What to wait for.
        wanted: WaitStarted,
        /// A question to ask first.
        ask: Option<InputRequested>,
    },
    /// Request a child run.
    Child(ChildStarted),
    /// Sleep.
    Sleep {
        /// The sleep.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// When the sleep ends.
        due: Millis,
    },
    /// Resolve this wait if the mail that it waits for has arrived.
    Check(Path),
    /// Report progress to people.
    Progress {
        /// The call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// The message.
        message: String,
    },
    /// Change attributes of the run.
    Attributes(AttributesChanged),
    /// Publish a value; nothing to do if it is published already.
    Publish(ValuePublished),
    /// Answer a request; nothing to do if it is answered already.
    AnswerRequest(RequestAnswered),
    /// Mark a change of the code that does not contradict the log.
    Change {
        /// The arm and the name of the change.
        path: Path,
        /// Number of operations that the arm had requested before.
        ord: u32,
    },
    /// Begin to compensate a step.
    UndoStarted {
        /// The step.
        path: Path,
        /// Why the run is compensating.
        failure: Option<Failure>,
    },
    /// Record that a step was compensated.
    UndoCompleted(Path),
    /// Record that a step cannot be compensated, and park the run.
    UndoFailed {
        /// The step.
        path: Path,
        /// Why it cannot.
        failure: Failure,
    },
    /// Carry out a requested jump after all its compensations have completed.
    FinishJump,
    /// Restart the run with new input, in the same log.
    ContinueAsNew(Payload),
    /// Continue on another version.
    ChangeVersion {
        /// The new version.
        to: u32,
        /// Why the version changes.
        reason: String,
    },
    /// Record the workflow's result.
    Complete(Payload),
    /// Record the workflow's failure; nothing is left to compensate.
    Fail(Failure),
    /// End a cancelled run; nothing is left to compensate.
    EndCancelled,
    /// Park the run until an operator resolves it.
    Park {
        /// Code of the rule or error.
        code: &'static str,
        /// What was observed.
        reason: String,
    },
    /// Release the run; ignored if mail that it waits for has arrived.
    Release(Release),
}
