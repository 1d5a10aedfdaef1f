//! What somebody wants of a run. Imperative; `decide` turns it into events or refuses it.

use crate::branch::BranchId;
use crate::error::Failure;
use crate::event::{
    ChildStarted, InputRequested, JumpRequested, Note, Release, Request, RunQueued, StepCompleted,
    StepFailed, StepStarted, WaitStarted,
};
use crate::id::{NodeId, RunId, SignalName, StepName, TaskId};
use crate::path::Path;
use crate::payload::Payload;
use crate::recovery::{Code, Healer, Lived, Policy, Remedy};
use crate::time::{Millis, Seq};

/// What somebody wants of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Begin it; the node that is named takes it at once.
    Start {
        /// What to run.
        queued: RunQueued,
        /// Who runs it, if the starter does.
        claim: Option<Starter>,
    },
    /// Take it.
    Claim(Claim),
    /// Tell it something.
    Signal {
        /// The signal.
        name: SignalName,
        /// Deduplicates a repeated signal.
        id: String,
        /// Nobody else can have sent this id: the log need not be searched for it.
        fresh: bool,
        /// Its content.
        payload: Payload,
    },
    /// Answer a question.
    Answer {
        /// The question.
        question: Path,
        /// Only if it has been open since then: one that is asked again under its name is another question, unless
        /// that is because a recovery cut it off.
        since: Option<Millis>,
        /// Deduplicates a repeated answer.
        id: String,
        /// The answer.
        answer: Payload,
        /// Who answers.
        by: Option<String>,
    },
    /// End it.
    Cancel(Note),
    /// End it; no live node has its code, so nothing would carry out a request.
    CancelUnmanned {
        /// Who and why.
        note: Note,
        /// The present owner, known to be lost.
        lost: Option<NodeId>,
    },
    /// End it now, without its code and without compensation.
    Terminate(Note),
    /// Take back a request that no worker has acted on.
    Withdraw(Withdraw),
    /// Stop it between two effects.
    Pause(Note),
    /// Let it go on.
    Resume(Note),
    /// Go back to a step.
    Jump(JumpRequested),
    /// Try a failed run again from its failed step.
    Retry(Note),
    /// Go back to a step or try again, and drop a pending request to cancel.
    DropCancel(Box<Command>),
    /// Leave a note.
    Annotate(Note),
    /// Mend it by a rule.
    Heal(Heal),
    /// Give it a new task, due now.
    Requeue(Note),
    /// Take back what has not settled, and run it again.
    Reset(Note),
    /// Go back to the other side of the latest seam.
    UndoSeam(Note),
    /// Run it on another version of its workflow.
    Migrate(Migrate),
    /// Let a tombstone stand for it: it is archived.
    Prune(Prune),
    /// A child of it has ended.
    ChildEnded {
        /// The child.
        child: RunId,
        /// How.
        result: Result<Payload, Failure>,
    },
    /// Somebody did a remote step.
    StepEnded(StepEnded),
    /// The node that has just claimed it cannot read its log, which a newer release has written.
    HandBack(NodeId),
    /// The owner's own doings, together in one append.
    Owned(Fence, Vec<Doing>),
}

impl Command {
    /// The id by which a repeat of this command from outside is recognised, if somebody may repeat it.
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
            Self::Start { .. }
            | Self::Claim(_)
            | Self::Heal(_)
            | Self::ChildEnded { .. }
            | Self::StepEnded(_)
            | Self::HandBack(_)
            | Self::Prune(_)
            | Self::Owned(..) => None,
        }
    }
}

/// Which request is taken back.
#[derive(Debug, Clone, PartialEq)]
pub struct Withdraw {
    /// Who and why.
    pub note: Note,
    /// The request.
    pub what: Request,
    /// The present owner, if the caller knows it lost.
    pub lost: Option<NodeId>,
}

/// What a worker brings.
#[derive(Debug, Clone, PartialEq)]
pub struct StepEnded {
    /// The step.
    pub path: Path,
    /// Number of the attempt.
    pub attempt: u32,
    /// The task that the worker has.
    pub task: TaskId,
    /// The claim under which it has it.
    pub fence: u64,
    /// How it went.
    pub result: Result<Payload, Failure>,
}

/// Who takes a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The new owner.
    pub node: NodeId,
    /// The present owner, if the claimant believes it lost.
    pub lost: Option<Lost>,
    /// Whether it is let in alone, in a process that has lived long enough without it.
    pub alone: bool,
    /// The version that an undecided run begins with: the newest that the claimant has.
    pub version: Option<u32>,
    /// The steps that the claimant knows the workflow to declare.
    pub plan: Vec<StepName>,
    /// How the claimant recovers runs of this workflow; none: it does not say.
    pub recovery: Option<Policy>,
}

impl Claim {
    /// A claim by `node` of a run that no other node has.
    pub fn by(node: NodeId) -> Self {
        Self { node, lost: None, alone: false, version: None, plan: Vec::new(), recovery: None }
    }
}

/// A node that starts a run and has it at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Starter {
    /// The node.
    pub node: NodeId,
    /// How it recovers runs of this workflow; none: it does not say.
    pub recovery: Option<Policy>,
}

impl From<NodeId> for Starter {
    fn from(node: NodeId) -> Self {
        Self { node, recovery: None }
    }
}

/// A remedy, and the facts it rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Heal {
    /// The rule.
    pub rule: Code,
    /// What was seen.
    pub evidence: String,
    /// What is to be done.
    pub remedy: Remedy,
    /// The end of the log that was looked at: once it has grown, nothing is done.
    pub at: Seq,
    /// Who heals, and why.
    pub healer: Healer,
}

/// The version that a run is moved to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrate {
    /// Who and why.
    pub note: Note,
    /// The version.
    pub to: u32,
    /// The owner, if the caller found that it is no longer alive. A run that a live node executes is not moved.
    pub lost: Option<NodeId>,
}

/// Where a run that is over was archived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune {
    /// Who and why.
    pub note: Note,
    /// Where.
    pub archive: String,
    /// SHA-256 of the archived texts, each with a line end.
    pub sha256: String,
    /// The end of the log that was archived: once it has grown, nothing is done.
    pub at: Seq,
}

/// An owner that is believed lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Lost {
    /// The owner.
    pub node: NodeId,
    /// Whether its process is known to be gone; a mere suspicion counts no attempt.
    pub proven: bool,
    /// What was seen.
    pub evidence: String,
    /// How long it had the run.
    pub lived: Lived,
}

/// What an owner must name: the claim it acts under and the branch it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// Position of its claim.
    pub epoch: Seq,
    /// The branch.
    pub branch: BranchId,
}

/// Something the owner of a run does, and when it did.
#[derive(Debug, Clone, PartialEq)]
pub struct Doing {
    /// When: the time that its events carry.
    pub at: Millis,
    /// What.
    pub what: Owned,
}

/// Something the owner of a run does.
#[derive(Debug, Clone, PartialEq)]
pub enum Owned {
    /// An attempt begins.
    StepStarted(StepStarted),
    /// A step is done.
    StepCompleted(StepCompleted),
    /// An attempt failed.
    StepFailed {
        /// How.
        failed: StepFailed,
        /// When the next attempt begins; none: it failed for good.
        retry_at: Option<Millis>,
        /// `timeout` or `heartbeat-timeout`, if that is why.
        timeout: Option<&'static str>,
    },
    /// Look for the first of several things.
    Wait {
        /// What.
        wanted: WaitStarted,
        /// Put this question to a person first.
        ask: Option<InputRequested>,
    },
    /// A child is wanted.
    Child(ChildStarted),
    /// Sleep.
    Sleep {
        /// The sleep.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Until when.
        due: Millis,
    },
    /// See whether what this wait looks for is there.
    Check(Path),
    /// Tell how far it is.
    Progress {
        /// The call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// For people.
        message: String,
    },
    /// The code has a change that the log does not contradict.
    Change {
        /// The arm and the name of the change.
        path: Path,
        /// How many operations the arm had asked for before.
        ord: u32,
    },
    /// A step is about to be undone.
    UndoStarted {
        /// The step.
        path: Path,
        /// Why the run is being undone.
        failure: Option<Failure>,
    },
    /// A step is undone.
    UndoCompleted(Path),
    /// A step cannot be undone: the run is parked.
    UndoFailed {
        /// The step.
        path: Path,
        /// Why.
        failure: Failure,
    },
    /// Everything that a requested jump wanted undone is: go back now.
    FinishJump,
    /// Begin anew with other input, in the same run.
    ContinueAsNew(Payload),
    /// Run on another version.
    ChangeVersion {
        /// From now on.
        to: u32,
        /// Why.
        reason: String,
    },
    /// The workflow returned.
    Complete(Payload),
    /// The workflow failed, and nothing is left to undo.
    Fail(Failure),
    /// The cancellation was carried out, and nothing is left to undo.
    EndCancelled,
    /// Only a person can help.
    Park {
        /// Code of the rule or error.
        code: &'static str,
        /// What was seen.
        reason: String,
    },
    /// Give the run back; ignored if something it waited for is there.
    Release(Release),
}
