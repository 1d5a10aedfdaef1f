//! `decide`: state and command become events, or a refusal. The only place where a run's future is made.
//!
//! An owner's command names its epoch and branch and is refused as [`Refusal::Fenced`] once either
//! is no longer current, on the first try and on every retry after a conflict. Commands from outside
//! carry an id; one that was seen is answered with no events, so a lost reply is harmless.

mod ending;
mod heal;
mod migrate;
mod outside;
mod owned;
mod prune;
mod remote;
mod travel;

use crate::command::Command;
use crate::event::Event;
use crate::hash::Hash;
use crate::id::{NodeId, RunId, SignalName, TaskId};
use crate::limits::Limits;
use crate::path::Path;
use crate::state::State;
use crate::summary::{Status, Summary};
use crate::task::Task;
use crate::time::Millis;

pub use remote::next_task;

/// What is known about the run that a command is for.
#[derive(Debug, Clone, Copy)]
pub enum View<'a> {
    /// There is no such run.
    Absent,
    /// Its cached row, which is not late.
    Row(&'a Summary),
    /// Its whole state.
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

    /// Whether a command with this id has been taken.
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

/// What is to happen: events for the log and a change of the run's advance task. No events: nothing to do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// For the log, in one append.
    pub events: Vec<Stamped>,
    /// What becomes of the advance task.
    pub task: TaskMove,
    /// Tasks of remote steps that are handed out with it.
    pub handed: Vec<Task>,
    /// Tasks of remote steps that nobody waits for any more.
    pub dropped: Vec<TaskId>,
    /// It is a signal that no open wait of the run looks for.
    pub unawaited: bool,
}

/// An event and the time that it carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Stamped {
    /// When.
    pub at: Millis,
    /// What.
    pub event: Event,
}

impl Decision {
    fn new(now: Millis, events: Vec<Event>, task: TaskMove) -> Self {
        let events = events.into_iter().map(|event| Stamped { at: now, event }).collect();
        Self { events, task, ..Self::default() }
    }

    /// The same, with `event` before everything else.
    fn after(mut self, now: Millis, event: Event) -> Self {
        self.events.insert(0, Stamped { at: now, event });
        self
    }

    /// The same, and these tasks of remote steps are dropped.
    fn dropping(self, dropped: impl IntoIterator<Item = TaskId>) -> Self {
        Self { dropped: dropped.into_iter().collect(), ..self }
    }
}

/// What becomes of a run's advance task, with the append or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskMove {
    /// It stays as it is.
    #[default]
    Keep,
    /// There is a new one, ready.
    Ready,
    /// There is a new one, ready at this time, in place of one that was lost.
    Renew(Millis),
    /// There is a new one, claimed by the node that the decision is for.
    Held,
    /// It is ready again at this time, without owner.
    Rest(Millis),
    /// It is due now, or whoever has it is poked.
    Wake,
    /// It is gone.
    Remove,
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Read the whole history and decide again. Never shown to users.
    #[error("the cached row is not enough to decide this")]
    NeedsHistory,
    /// The claim is over: drop the work.
    #[error("the run was taken over: this owner's claim is over")]
    Fenced,
    /// Load the run again: something must be undone before it may end. Never shown to users.
    #[error("a step that completed meanwhile must be undone first")]
    LeftToUndo,
    /// Load the run again and go on undoing: nothing new may begin.
    #[error("the run is being undone: no new operation may begin")]
    BeingUndone,
    /// Somebody else has the run.
    #[error("the run is owned by {owner}")]
    Owned {
        /// Who.
        owner: NodeId,
    },
    /// Nothing can be claimed now.
    #[error("the run is {status} and cannot be claimed")]
    NotClaimable {
        /// Its status.
        status: Status,
    },
    /// Start it, or look at the id again.
    #[error("there is no such run")]
    NoSuchRun,
    /// It is over.
    #[error("the run is {status} already")]
    Finished {
        /// How it ended.
        status: Status,
    },
    /// Look at its steps again.
    #[error("the run has no step {step}")]
    NoSuchStep {
        /// The step that was asked for.
        step: Path,
    },
    /// Drop the result: whatever was done stands without a trace in the log.
    #[error("the result of attempt {attempt} at step {step} is not taken: {why}")]
    LateResult {
        /// The step.
        step: Path,
        /// Number of the attempt.
        attempt: u32,
        /// Why.
        why: &'static str,
    },
    /// Drop the result: the same claim brought another one before, which stands.
    #[error("attempt {attempt} at step {step} was ended before under this claim, with another result")]
    OtherResult {
        /// The step.
        step: Path,
        /// Number of the attempt.
        attempt: u32,
    },
    /// Look at its open questions again.
    #[error("the run has no open question {question}")]
    NoSuchQuestion {
        /// The question that was answered.
        question: Path,
        /// The open ones.
        open: Vec<Path>,
    },
    /// Give another answer.
    #[error("the answer was refused: {reason}")]
    InvalidAnswer {
        /// Why.
        reason: String,
    },
    /// Send something else.
    #[error("signal {name} was refused: {reason}")]
    InvalidSignal {
        /// The signal.
        name: SignalName,
        /// Why.
        reason: String,
    },
    /// Ask another way.
    #[error("the question cannot be asked: {reason}")]
    InvalidForm {
        /// Why.
        reason: String,
    },
    /// Use another id, or the same input.
    #[error("run {run} exists with {what}")]
    OtherInput {
        /// The run.
        run: RunId,
        /// What differs.
        what: &'static str,
    },
    /// Wait until the run has read its mail.
    #[error("the run has {unread} unread messages, as many as it may have")]
    TooMuchMail {
        /// How many.
        unread: u32,
    },
    /// It is as wanted already.
    #[error("nothing to do: {why}")]
    NothingToDo {
        /// Why.
        why: &'static str,
    },
    /// Look into the archive.
    #[error("the run was archived to {archive}")]
    Archived {
        /// Where.
        archive: String,
    },
    /// Leave the run as it is.
    #[error("the run cannot be pruned: {why}")]
    NotPrunable {
        /// Why.
        why: &'static str,
    },
    /// Drop the request explicitly, or withdraw it first.
    #[error("a request to cancel the run is pending, and this would drop it")]
    CancelPending,
    /// Let the undoing finish, or end the run.
    #[error("step {step} is being undone or was undone, so the {what} can no longer be {how}")]
    UndoBegun {
        /// A step whose compensation has begun.
        step: Path,
        /// The request.
        what: &'static str,
        /// `taken back` or `replaced`.
        how: &'static str,
    },
    /// Wait until the node has carried it out.
    #[error("node {owner} has the run and acts on the {what}, so it can no longer be taken back")]
    ActedOn {
        /// The owner.
        owner: NodeId,
        /// The request.
        what: &'static str,
    },
    /// Start another run.
    #[error("the run was terminated; nothing follows that")]
    Terminated,
    /// The author must use `continue_as_new`.
    #[error("the history has {0}")]
    HistoryTooLong(TooLong),
}

/// What a history has too much of.
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
    /// The stable code, with a page in `docs/codes`.
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
            Self::OtherResult { .. } => "GS0603",
        }
    }
}

/// Decides what `command` does to the run that `view` shows.
pub fn decide(view: View<'_>, command: &Command, now: Millis, limits: &Limits) -> Result<Decision, Refusal> {
    match command {
        Command::Start { queued, claim } => outside::start(view, queued, claim.as_ref(), now),
        Command::Claim(claim) => outside::claim(view, claim, now),
        Command::Signal { .. }
        | Command::Answer { .. }
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Annotate(_)
        | Command::ChildEnded { .. } => outside::mail(view, command, now, limits),
        Command::Cancel(note) => ending::cancel(view, note, ending::Code::MayBeLive, now),
        Command::CancelUnmanned { note, lost } => {
            ending::cancel(view, note, ending::Code::Nowhere { lost: lost.as_ref() }, now)
        }
        Command::Terminate(note) => ending::terminate(view, note, now),
        Command::Withdraw(withdraw) => ending::withdraw(view, withdraw, now),
        Command::StepEnded(ended) => remote::ended(view, ended, now),
        Command::Jump(jump) => travel::jump(view, jump, ending::OnCancel::Refuse, now),
        Command::Retry(note) => travel::retry(view, note, ending::OnCancel::Refuse, now),
        Command::DropCancel(command) => match &**command {
            Command::Jump(jump) => travel::jump(view, jump, ending::OnCancel::Drop, now),
            Command::Retry(note) => travel::retry(view, note, ending::OnCancel::Drop, now),
            other => decide(view, other, now, limits),
        },
        Command::Heal(heal) => heal::heal(view, heal, now),
        Command::Requeue(note) => heal::requeue(view, note, now),
        Command::Reset(note) => heal::reset(view, note, now),
        Command::UndoSeam(note) => heal::undo_seam(view, note, now),
        Command::Migrate(migrate) => migrate::migrate(view, migrate, now),
        Command::HandBack(node) => outside::hand_back(view, node, now),
        Command::Prune(pruned) => prune::prune(view, pruned, now),
        Command::Owned(fence, doings) => owned::decide(view, *fence, doings, owned::Now { now, limits }),
    }
}

/// The key under which a step may be known elsewhere: stable across attempts and recoveries, new after a jump.
pub fn idempotency_key(state: &State, path: &Path) -> String {
    let generation = state.branches.generation(state.summary.branch);
    let parts = [state.summary.run.as_str(), &generation.to_string(), path.as_str()];
    Hash::of_parts(&parts).to_string()
}

/// The id of the child that the call at `path` starts.
pub fn child_id(state: &State, path: &Path) -> RunId {
    let parent = state.summary.run.as_str();
    let short = &idempotency_key(state, path)[..16];
    let room = crate::id::ID_BYTES_MAX - short.len() - 1;
    let text = format!("{}.{short}", &parent[..parent.len().min(room)].trim_end_matches('.'));
    RunId::new(text).unwrap_or_else(|_| unreachable!("made of an id and hexadecimal"))
}

#[cfg(test)]
mod tests;
