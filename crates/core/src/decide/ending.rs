//! Ending a run from outside and withdrawing requests: cancel, terminate, withdraw.
//!
//! A request that only a worker can carry out stays pending until one does. Anything that needs no worker happens in
//! the same append as the request.

use super::prune::refuse_archived;
use super::{Decision, Refusal, TaskMove, View};
use crate::command::Withdraw;
use crate::event::{CancelRequested, Event, Note, Release, Request, RequestWithdrawn, Terminated};
use crate::id::NodeId;
use crate::state::{State, Undo};
use crate::summary::Summary;
use crate::time::{Millis, Seq};

/// Whether a live node may have the code of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code<'a> {
    /// A live node may have it.
    MayBeLive,
    /// No live node has it, and this owner is lost.
    Nowhere {
        /// The owner.
        lost: Option<&'a NodeId>,
    },
}

/// What happens to a pending request to cancel when a run goes back to an earlier step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnCancel {
    /// The command is refused.
    Refuse,
    /// The request is dropped, and the log records that.
    Drop,
}

/// Requests that the run end. If this needs no worker, the run ends in the same append.
pub(super) fn cancel(view: View<'_>, note: &Note, code: Code<'_>, now: Millis) -> Result<Decision, Refusal> {
    let summary = view.summary()?;
    if view.has_seen(&note.id)? {
        return Ok(Decision::default());
    }
    open(summary)?;
    let requested = Event::RunCancelRequested(note.clone().into());
    if ends_at_once(&view, summary, code)? {
        let ended = match summary.timed_out {
            true => Event::RunFailed { failure: summary.timeout_failure(None) },
            false => Event::RunCancelled { reason: note.reason.clone(), terminated: None },
        };
        return Ok(Decision::new(now, vec![requested, ended], TaskMove::Remove));
    }
    if summary.timed_out {
        return Err(Refusal::NothingToDo { why: "the run has timed out and is already ending" });
    }
    if summary.cancel.is_some() {
        return Err(Refusal::NothingToDo { why: "a request to cancel is already pending" });
    }
    Ok(Decision::new(now, vec![requested], TaskMove::Wake))
}

/// Requests that a run end whose deadline has passed. If this needs no worker, the run fails in the same append.
pub(super) fn time_out(view: View<'_>, code: Code<'_>, now: Millis) -> Result<Decision, Refusal> {
    let summary = view.summary()?;
    open(summary)?;
    let Some(deadline) = summary.times_out_at().filter(|deadline| *deadline <= now) else {
        return Err(Refusal::NothingToDo { why: "no deadline of the run has passed" });
    };
    let failure = summary.timeout_failure(None);
    let requested = Event::RunCancelRequested(CancelRequested {
        id: format!("deadline-{}", deadline.0),
        by: None,
        reason: failure.message.clone(),
        deadline: Some(deadline),
    });
    if ends_at_once(&view, summary, code)? {
        return Ok(Decision::new(now, vec![requested, Event::RunFailed { failure }], TaskMove::Remove));
    }
    Ok(Decision::new(now, vec![requested], TaskMove::Wake))
}

/// Returns whether nothing is left that only the run's code can do: the run never began, or no code will continue it
/// and it has nothing to compensate, no open child and no remote step handed out.
fn ends_at_once(view: &View<'_>, summary: &Summary, code: Code<'_>) -> Result<bool, Refusal> {
    let lost = match code {
        Code::MayBeLive => None,
        Code::Nowhere { lost } => lost,
    };
    if summary.owner.as_ref().is_some_and(|owner| Some(owner) != lost) {
        return Ok(false);
    }
    if !summary.started {
        return Ok(true);
    }
    if !summary.parked && code == Code::MayBeLive {
        return Ok(false);
    }
    let state = view.state()?;
    Ok(state.to_undo(Seq::ZERO).is_empty() && state.open_children().is_empty() && state.handed_out.is_empty())
}

fn open(summary: &Summary) -> Result<(), Refusal> {
    refuse_archived(summary)?;
    let status = summary.status;
    if status.is_terminal() {
        return Err(Refusal::Finished { status });
    }
    Ok(())
}

/// Ends the run without its code and without compensation, and records the effects that remain.
pub(super) fn terminate(view: View<'_>, note: &Note, now: Millis) -> Result<Decision, Refusal> {
    let state = view.state()?;
    if state.has_seen(&note.id) {
        return Ok(Decision::default());
    }
    open(&state.summary)?;
    let (undoing, standing) =
        state.to_undo(Seq::ZERO).into_iter().partition(|path| state.undone.get(path) == Some(&Undo::Started));
    let terminated = Terminated {
        note: note.clone(),
        standing,
        undoing,
        children: state.open_children(),
        remote: state.open_remote().into_iter().map(|open| open.path).collect(),
        unknown: None,
    };
    let ended = Event::RunCancelled { reason: note.reason.clone(), terminated: Some(Box::new(terminated)) };
    Ok(Decision::new(now, vec![ended], TaskMove::Remove).dropping(state.handed_out.clone()))
}

/// Withdraws a request that no worker has acted on.
pub(super) fn withdraw(view: View<'_>, withdraw: &Withdraw, now: Millis) -> Result<Decision, Refusal> {
    let state = view.state()?;
    let Withdraw { note, what, lost } = withdraw;
    if state.has_seen(&note.id) {
        return Ok(Decision::default());
    }
    let summary = &state.summary;
    open(summary)?;
    match what {
        Request::Jump if state.jump.is_none() => {
            return Err(Refusal::NothingToDo { why: "no jump is pending" });
        }
        Request::Cancel if summary.cancel.is_none() => {
            return Err(Refusal::NothingToDo { why: "no request to cancel is pending" });
        }
        Request::Jump => refuse_begun(state, "withdrawn")?,
        Request::Cancel if summary.timed_out => {
            return Err(Refusal::NothingToDo { why: "the run has timed out; retry it after it has ended" });
        }
        Request::Cancel => {
            if state.failure.is_some()
                && let Some(step) = state.undone.keys().next().cloned()
            {
                return Err(Refusal::UndoBegun { step, what: "request to cancel", how: "withdrawn" });
            }
        }
    }
    let mut events = vec![withdrawn(note.clone(), *what)];
    let task = match &summary.owner {
        // The lost owner may have begun to act on it in memory; the fence refuses its writes.
        Some(owner) if lost.as_ref() == Some(owner) => {
            events.push(Event::RunReleased { reason: Release::HandOver });
            TaskMove::Ready
        }
        Some(owner) => return Err(Refusal::ActedOn { owner: owner.clone(), what: named(*what) }),
        None if summary.paused || summary.parked => TaskMove::Keep,
        None => TaskMove::Wake,
    };
    Ok(Decision::new(now, events, task))
}

fn named(what: Request) -> &'static str {
    match what {
        Request::Jump => "jump",
        Request::Cancel => "request to cancel",
    }
}

fn withdrawn(note: Note, what: Request) -> Event {
    Event::RequestWithdrawn(RequestWithdrawn { note, what })
}

/// Returns the note of a side effect of a command, under a derived id.
pub(super) fn along(note: &Note, what: &str) -> Note {
    Note { id: format!("{}/{what}", note.id), ..note.clone() }
}

/// Refuses any command on a terminated run.
pub(super) fn refuse_terminated(state: &State) -> Result<(), Refusal> {
    if state.summary.terminated { Err(Refusal::Terminated) } else { Ok(()) }
}

/// Refuses to change a pending jump whose compensations have begun.
pub(super) fn refuse_begun(state: &State, how: &'static str) -> Result<(), Refusal> {
    match state.undone.keys().next() {
        Some(step) if state.jump.is_some() => {
            Err(Refusal::UndoBegun { step: step.clone(), what: "jump", how })
        }
        _ => Ok(()),
    }
}

/// Returns the events for a pending request to cancel when the run goes back to an earlier step.
pub(super) fn drop_cancel(state: &State, note: &Note, on_cancel: OnCancel) -> Result<Vec<Event>, Refusal> {
    match (state.summary.is_cancel_pending(), on_cancel) {
        (false, _) => Ok(Vec::new()),
        (true, OnCancel::Refuse) => Err(Refusal::CancelPending),
        (true, OnCancel::Drop) => Ok(vec![withdrawn(along(note, "drop-cancel"), Request::Cancel)]),
    }
}

/// Returns the event that withdraws a pending jump when another branch replaces it.
pub(super) fn drop_jump(state: &State, note: &Note) -> Option<Event> {
    state.jump.as_ref().map(|_| withdrawn(along(note, "drop-jump"), Request::Jump))
}

/// Repeats a request to cancel that arrived while a jump waited for its compensations. The new branch forgets requests
/// made before the jump, so this one is made again there.
pub(super) fn cancel_again(state: &State) -> Option<Event> {
    let summary = &state.summary;
    let reason = summary.cancel.clone()?;
    let by = summary.cancel_asked.as_ref().and_then(|asked| asked.by.clone());
    let id = format!("cancel-after-jump-{}", summary.as_of);
    let deadline = summary.deadline.filter(|_| summary.timed_out);
    Some(Event::RunCancelRequested(CancelRequested { id, by, reason, deadline }))
}
