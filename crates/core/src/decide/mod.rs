//! `decide`: turns a state and a command into events, or refuses the command. Only this module decides what a run
//! does next.
//!
//! An owner's command names its epoch and branch. Once either is out of date, `decide` refuses the command as
//! [`Refusal::Fenced`], on the first try and on every retry after a conflict. External commands carry an id. `decide`
//! answers an id that it has seen with no events, so a caller whose reply was lost can safely repeat the command.

mod branching;
mod ending;
mod external;
mod heal;
mod migrate;
mod owned;
mod prune;
mod remote;

use crate::branch::BranchId;
use crate::command::Command;
use crate::event::Event;
use crate::id::{IdError, NodeId, RunId, SignalName, TaskId};
use crate::limits::Limits;
use crate::moment::iso;
use crate::path::Path;
use crate::state::State;
use crate::summary::{Status, Summary};
use crate::task::Task;
use crate::time::Millis;
use crate::trace::key_of;

pub use remote::next_task;

/// The known facts about the run that a command addresses.
#[derive(Debug, Clone, Copy)]
pub enum View<'a> {
    /// The run does not exist.
    Absent,
    /// The cached row, which is up to date.
    Row(&'a Summary),
    /// The whole state.
    Full(&'a State),
}

impl<'a> View<'a> {
    fn summary(&self) -> Result<&'a Summary, Refusal> {
        match self {
            Self::Absent => Err(Refusal::NoSuchRun),
            Self::Row(summary) => Ok(summary),
            Self::Full(state) => Ok(&state.summary),
        }
    }

    /// Returns whether the run has taken a command with this id.
    fn has_seen(&self, id: &str) -> Result<bool, Refusal> {
        match self {
            Self::Absent => Err(Refusal::NoSuchRun),
            Self::Row(summary) => summary.has_seen(id).ok_or(Refusal::NeedsHistory),
            Self::Full(state) => Ok(state.has_seen(id)),
        }
    }

    fn state(&self) -> Result<&'a State, Refusal> {
        match self {
            Self::Absent => Err(Refusal::NoSuchRun),
            Self::Row(_) => Err(Refusal::NeedsHistory),
            Self::Full(state) => Ok(state),
        }
    }
}

/// The outcome of a command: events to append and what happens to the run's advance task. No events means there is
/// nothing to do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// Events to append, in one append.
    pub events: Vec<Stamped>,
    /// What happens to the advance task.
    pub task: TaskMove,
    /// Tasks of remote steps to create with this append.
    pub handed: Vec<Task>,
    /// Tasks of remote steps whose result the run no longer needs.
    pub dropped: Vec<TaskId>,
    /// Whether this is a signal that no open wait of the run looks for.
    pub unawaited: bool,
}

/// An event and its timestamp.
#[derive(Debug, Clone, PartialEq)]
pub struct Stamped {
    /// When it was decided.
    pub at: Millis,
    /// The event.
    pub event: Event,
}

impl Decision {
    fn new(now: Millis, events: Vec<Event>, task: TaskMove) -> Self {
        let events = events.into_iter().map(|event| Stamped { at: now, event }).collect();
        Self { events, task, ..Self::default() }
    }

    /// Puts `event` before all other events.
    fn after(mut self, now: Millis, event: Event) -> Self {
        self.events.insert(0, Stamped { at: now, event });
        self
    }

    /// Marks tasks of remote steps to be dropped.
    fn dropping(self, dropped: impl IntoIterator<Item = TaskId>) -> Self {
        Self { dropped: dropped.into_iter().collect(), ..self }
    }
}

/// What happens to a run's advance task, with the append or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskMove {
    /// The task stays as it is.
    #[default]
    Keep,
    /// A new task replaces it, ready now.
    Ready,
    /// A new task replaces a lost one, ready at this time.
    Renew(Millis),
    /// A new task is created, claimed by the node that made the decision.
    Held,
    /// The task becomes ready at this time, without an owner.
    Rest(Millis),
    /// The task becomes due now; if it is claimed, the claimant is poked.
    Wake,
    /// The task is removed.
    Remove,
}

/// The reason why a command is refused. Each variant says what the caller does next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The caller reads the whole history and decides again. Users never see this.
    #[error("the cached row is not enough to decide this")]
    NeedsHistory,
    /// The owner drops the work: its claim has ended.
    #[error("this node no longer owns the run: its claim has ended")]
    Fenced,
    /// The owner loads the run again: a step must be compensated before the run can end. Users never see this.
    #[error("a step completed in the meantime and must be compensated first")]
    LeftToUndo,
    /// The owner loads the run again and continues compensating: no new operation can start.
    #[error("the run is compensating: no new operation can start")]
    BeingUndone,
    /// Another node owns the run.
    #[error("the run is owned by {owner}")]
    Owned {
        /// The owner.
        owner: NodeId,
    },
    /// The run cannot be claimed in its present status.
    #[error("the run is {status} and cannot be claimed")]
    NotClaimable {
        /// The status.
        status: Status,
    },
    /// The run does not exist. Start it, or check the id.
    #[error("the run does not exist")]
    NoSuchRun,
    /// The run has ended.
    #[error("the run is already {status}")]
    Finished {
        /// How it ended.
        status: Status,
    },
    /// The step does not exist. Check the names of the run's steps.
    #[error("the run has no step {step}")]
    NoSuchStep {
        /// The requested step.
        step: Path,
    },
    /// The worker drops its result. Effects of the attempt remain, but the log does not record them.
    #[error("the result of attempt {attempt} of step {step} was rejected: {why}")]
    LateResult {
        /// The step.
        step: Path,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Why the result was rejected.
        why: &'static str,
    },
    /// The worker drops its result: this claim already reported a different one, which counts.
    #[error("this claim already ended attempt {attempt} of step {step} with a different result")]
    OtherResult {
        /// The step.
        step: Path,
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// The question is not open. Check the run's open questions.
    #[error("the run has no open question {question}")]
    NoSuchQuestion {
        /// The question that was addressed.
        question: Path,
        /// The open questions.
        open: Vec<Path>,
    },
    /// The answer does not fit the question's form. Give another answer.
    #[error("the answer was refused: {reason}")]
    InvalidAnswer {
        /// Why it does not fit.
        reason: String,
    },
    /// The signal does not fit the wait's schema. Send another payload.
    #[error("signal {name} was refused: {reason}")]
    InvalidSignal {
        /// The signal.
        name: SignalName,
        /// Why it does not fit.
        reason: String,
    },
    /// The question's form is invalid. Fix the workflow code.
    #[error("the question cannot be asked: {reason}")]
    InvalidForm {
        /// What is invalid.
        reason: String,
    },
    /// The id is taken by a different run. Use another id, or the same workflow and input.
    #[error("the run already exists with {what}")]
    OtherInput {
        /// The run.
        run: RunId,
        /// What differs.
        what: &'static str,
    },
    /// The id is taken by a run that this run did not start. Choose another id for the child.
    #[error("run {run} exists, and is not a child of {parent}")]
    NotOurChild {
        /// The run that has the id.
        run: RunId,
        /// The run that wanted to start a child.
        parent: RunId,
    },
    /// The run's mail is full. Wait until it has read some.
    #[error("the run has {unread} unread messages, which is the limit")]
    TooMuchMail {
        /// Number of unread messages.
        unread: u32,
    },
    /// The run is already in the requested state, or the command does not apply to it.
    #[error("nothing to do: {why}")]
    NothingToDo {
        /// Why.
        why: &'static str,
    },
    /// The run was pruned. Read its log from the archive.
    #[error("the run was archived to {archive}")]
    Archived {
        /// Where the archive is.
        archive: String,
    },
    /// The run stays as it is.
    #[error("the run cannot be pruned: {why}")]
    NotPrunable {
        /// Why it cannot be pruned.
        why: &'static str,
    },
    /// The command would drop a pending request to cancel. Drop it explicitly, or withdraw it first.
    #[error("a request to cancel is pending and this command would drop it")]
    CancelPending,
    /// The compensation cannot be interrupted. Let it finish, or terminate the run.
    #[error("the compensation of step {step} has begun, so the {what} can no longer be {how}")]
    UndoBegun {
        /// A step whose compensation has begun.
        step: Path,
        /// The request.
        what: &'static str,
        /// `withdrawn` or `replaced`.
        how: &'static str,
    },
    /// The owner is acting on the request. Wait until it has finished.
    #[error("node {owner} owns the run and is acting on the {what}, so it can no longer be withdrawn")]
    ActedOn {
        /// The owner.
        owner: NodeId,
        /// The request.
        what: &'static str,
    },
    /// The run cannot continue. Start another run.
    #[error("the run was terminated and cannot continue")]
    Terminated,
    /// The deadline of a new run is not after its begin. Give it more time.
    #[error("the deadline {} is not after {}, when the run can begin", iso(*deadline), iso(*begin))]
    DeadlinePassed {
        /// The deadline.
        deadline: Millis,
        /// When the run can begin at the earliest.
        begin: Millis,
    },
    /// The history is too long. The author of the workflow uses `continue_as_new`.
    #[error("the history has {0}")]
    HistoryTooLong(TooLong),
}

/// The bound that a history exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{has} {what}, more than the limit of {max}")]
pub struct TooLong {
    /// `events` or `bytes`.
    pub what: &'static str,
    /// How many there are.
    pub has: u64,
    /// The limit in force.
    pub max: u64,
}

impl TooLong {
    fn check(what: &'static str, has: u64, max: u64) -> Result<(), Refusal> {
        if has > max { Err(Refusal::HistoryTooLong(Self { what, has, max })) } else { Ok(()) }
    }
}

impl Refusal {
    /// Returns the stable code, which has a page in `docs/codes`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NeedsHistory
            | Self::Fenced
            | Self::LeftToUndo
            | Self::Owned { .. }
            | Self::NotClaimable { .. } => "GS0114",
            Self::NoSuchRun => "GS0104",
            Self::Finished { .. } => "GS0105",
            Self::NoSuchStep { .. } => "GS0106",
            Self::NoSuchQuestion { .. } | Self::InvalidAnswer { .. } => "GS0107",
            Self::OtherInput { .. } => "GS0108",
            Self::TooMuchMail { .. } => "GS0109",
            Self::NothingToDo { .. } => "GS0110",
            Self::HistoryTooLong(_) => "GS0112",
            Self::InvalidForm { .. } => "GS0115",
            Self::LateResult { .. } => "GS0119",
            Self::BeingUndone => "GS0122",
            Self::InvalidSignal { .. } => "GS0123",
            Self::Archived { .. } => "GS0131",
            Self::NotPrunable { .. } => "GS0132",
            Self::CancelPending | Self::UndoBegun { .. } | Self::ActedOn { .. } => "GS0136",
            Self::Terminated => "GS0137",
            Self::NotOurChild { .. } => "GS0172",
            Self::DeadlinePassed { .. } => "GS0160",
            Self::OtherResult { .. } => "GS0603",
        }
    }
}

/// Decides what `command` does to the run that `view` describes.
///
/// A pure function: the same view, command, time and limits always give the same decision. The caller appends the
/// events at exactly the end of the log that the view was made from; if the append conflicts, the caller reads the
/// log and decides again.
pub fn decide(view: View<'_>, command: &Command, now: Millis, limits: &Limits) -> Result<Decision, Refusal> {
    match command {
        Command::Start { queued, claim } => external::start(view, queued, claim.as_ref(), now),
        Command::Claim(claim) => external::claim(view, claim, now),
        Command::Signal { .. }
        | Command::Answer { .. }
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Annotate(_)
        | Command::ChildEnded { .. }
        | Command::ChildRefused { .. } => external::mail(view, command, now, limits),
        Command::Cancel(note) => ending::cancel(view, note, ending::Code::MayBeLive, now),
        Command::CancelUnmanned { note, lost } => {
            ending::cancel(view, note, ending::Code::Nowhere { lost: lost.as_ref() }, now)
        }
        Command::TimeOut => ending::time_out(view, ending::Code::MayBeLive, now),
        Command::TimeOutUnmanned { lost } => {
            ending::time_out(view, ending::Code::Nowhere { lost: lost.as_ref() }, now)
        }
        Command::Terminate(note) => ending::terminate(view, note, now),
        Command::Withdraw(withdraw) => ending::withdraw(view, withdraw, now),
        Command::StepEnded(ended) => remote::ended(view, ended, now),
        Command::Jump(jump) => branching::jump(view, jump, ending::OnCancel::Refuse, now),
        Command::Retry(note) => branching::retry(view, note, ending::OnCancel::Refuse, now),
        Command::DropCancel(command) => match &**command {
            Command::Jump(jump) => branching::jump(view, jump, ending::OnCancel::Drop, now),
            Command::Retry(note) => branching::retry(view, note, ending::OnCancel::Drop, now),
            other => decide(view, other, now, limits),
        },
        Command::Heal(heal) => heal::heal(view, heal, now),
        Command::Requeue(note) => heal::requeue(view, note, now),
        Command::Reset(note) => heal::reset(view, note, now),
        Command::UndoSeam(note) => heal::undo_seam(view, note, now),
        Command::Migrate(migrate) => migrate::migrate(view, migrate, now),
        Command::HandBack(node) => external::hand_back(view, node, now),
        Command::Prune(pruned) => prune::prune(view, pruned, now),
        Command::Owned(fence, doings) => owned::decide(view, *fence, doings, owned::Now { now, limits }),
    }
}

/// Returns the idempotency key of a step: stable across attempts and recoveries, new after a jump.
pub fn idempotency_key(state: &State, path: &Path) -> String {
    key_of(&state.summary.run, state.branches.generation(state.summary.branch), path.as_str())
}

/// Returns the id of the child that the call at `path` starts.
pub fn child_id(state: &State, path: &Path) -> RunId {
    let parent = state.summary.run.as_str();
    let short = &idempotency_key(state, path)[..16];
    let room = crate::id::ID_BYTES_MAX - short.len() - 1;
    let text = format!("{}.{short}", &parent[..parent.len().min(room)].trim_end_matches('.'));
    RunId::new(text).unwrap_or_else(|_| unreachable!("an id and hexadecimal form an id"))
}

/// Returns the id of a child whose author chose `id`. After a jump, a retry and `continue_as_new`, the work is done
/// again by another child, so the id gets the branch that began this work.
pub fn chosen_child_id(state: &State, id: &RunId) -> Result<RunId, IdError> {
    match state.branches.generation(state.summary.branch) {
        BranchId::ROOT => Ok(id.clone()),
        generation => RunId::new(format!("{id}.{generation}")),
    }
}

/// Returns the other call of this run that chose the same id for its child, if there is one.
pub fn other_call<'a>(state: &'a State, run: &RunId, path: &Path) -> Option<&'a Path> {
    state.children.get(run).map(|child| &child.path).filter(|call| *call != path)
}

#[cfg(test)]
mod tests;
