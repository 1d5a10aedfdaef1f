//! Going back to an earlier step: jumps and retries open a branch. Events after the cutoff stay in the log.

use super::ending::{self, OnCancel};
use super::prune::refuse_archived;
use super::{Decision, Refusal, TaskMove, View};
use crate::branch::{BranchId, Why};
use crate::event::{BranchOpened, Event, JumpRequested, Note};
use crate::path::Path;
use crate::payload::Payload;
use crate::state::{Op, OpKind, State, StepOp, StepProgress, Undo};
use crate::summary::Status;
use crate::time::{Millis, Seq};

pub(super) fn jump(
    view: View<'_>,
    jump: &JumpRequested,
    on_cancel: OnCancel,
    now: Millis,
) -> Result<Decision, Refusal> {
    let state = view.state()?;
    if state.has_seen(&jump.note.id) {
        return Ok(Decision::default());
    }
    refuse_archived(&state.summary)?;
    ending::refuse_terminated(state)?;
    ending::refuse_begun(state, "replaced")?;
    let mut events = ending::drop_cancel(state, &jump.note, on_cancel)?;
    if jump.compensate && state.failure.is_some() && !state.summary.status.is_terminal() {
        return Err(Refusal::NothingToDo { why: "the run is compensating; jump after it has ended" });
    }
    let cutoff = cutoff_before(state, &jump.to)?;
    refuse_undone_before(state, cutoff)?;
    if jump.compensate && !state.to_undo(cutoff).is_empty() {
        // A run that has ended cannot be claimed, so its steps would never be compensated.
        let status = state.summary.status;
        if status.is_terminal() {
            return Err(Refusal::Finished { status });
        }
        // A parked run is never claimed, so its steps would never be compensated.
        if status == Status::Parked {
            events.push(Event::RunResumed(ending::along(&jump.note, "resume")));
        }
        events.push(Event::JumpRequested(jump.clone()));
        return Ok(Decision::new(now, events, TaskMove::Wake).dropping(state.handed_out.clone()));
    }
    events.push(Event::JumpRequested(JumpRequested { compensate: false, ..jump.clone() }));
    events.push(open_jump(state, jump, cutoff));
    Ok(Decision::new(now, events, TaskMove::Ready).dropping(state.handed_out.clone()))
}

/// Refuses a cutoff that keeps a compensated step: the new branch would treat it as completed.
pub(super) fn refuse_undone_before(state: &State, cutoff: Seq) -> Result<(), Refusal> {
    let stands = |path: &Path| state.ops.get(path).is_some_and(|op| op.last <= cutoff);
    if state.undone.iter().any(|(path, undo)| *undo == Undo::Completed && stands(path)) {
        return Err(Refusal::NothingToDo { why: "an earlier step was undone; jump to that step, or retry" });
    }
    Ok(())
}

/// Returns the last position before the operation at `to` began.
pub(super) fn cutoff_before(state: &State, to: &Path) -> Result<Seq, Refusal> {
    match state.ops.get(to) {
        Some(op) => Ok(op.first.before()),
        None => Err(Refusal::NoSuchStep { step: to.clone() }),
    }
}

pub(super) fn open_jump(state: &State, jump: &JumpRequested, cutoff: Seq) -> Event {
    let why = Why::Jump { to: jump.to.clone() };
    let mut opened = open(state, cutoff, why, jump.input.clone());
    if jump.drop_mail {
        opened.dropped_mail = consumed_after(state, cutoff);
    }
    Event::BranchOpened(opened)
}

pub(super) fn open(state: &State, cutoff: Seq, why: Why, input: Option<Payload>) -> BranchOpened {
    BranchOpened {
        branch: state.branches.next_id(),
        parent: Some(holder(state, cutoff)),
        cutoff,
        why,
        input,
        dropped_mail: Vec::new(),
        carried: None,
    }
}

/// Returns the branch that contains the cutoff event: the oldest one of the active chain that owns the event.
fn holder(state: &State, cutoff: Seq) -> BranchId {
    let mut now = state.branches.active();
    while cutoff < now.opened {
        // As in a lineage: a parent that is not older is damage and ends the search.
        match now.parent.filter(|parent| *parent < now.id).and_then(|parent| state.branches.get(parent)) {
            Some(parent) => now = parent,
            None => break,
        }
    }
    now.id
}

/// Returns the positions of mail that waits after the cutoff consumed.
fn consumed_after(state: &State, cutoff: Seq) -> Vec<Seq> {
    let mut consumed =
        state.consumed.iter().filter(|(at, _)| **at > cutoff).map(|(_, mail)| *mail).collect::<Vec<_>>();
    consumed.sort_unstable();
    consumed
}

pub(super) fn retry(
    view: View<'_>,
    note: &Note,
    on_cancel: OnCancel,
    now: Millis,
) -> Result<Decision, Refusal> {
    let state = view.state()?;
    if state.has_seen(&note.id) {
        return Ok(Decision::default());
    }
    refuse_archived(&state.summary)?;
    if !matches!(state.summary.status, Status::Failed | Status::Parked) {
        return Err(Refusal::NothingToDo { why: "only a failed or parked run can be retried" });
    }
    let mut events = ending::drop_cancel(state, note, on_cancel)?;
    events.extend(ending::drop_jump(state, note));
    let failed = state.ops.iter().filter_map(|(path, op)| Some((path, failed_at(state, path, op)?)));
    let from = failed.min_by_key(|(_, cut)| *cut).map(|(path, cut)| (path.clone(), cut.before()));
    // A compensated step must run again, so the cutoff lies before the first of them.
    let undone = state.undone.iter().filter(|(_, undo)| **undo == Undo::Completed);
    let undone = undone.filter_map(|(path, _)| state.ops.get(path)).map(|op| op.first.before()).min();
    let latest = from.as_ref().map_or_else(|| end_of_work(state), |(_, cutoff)| *cutoff);
    let cutoff = undone.map_or(latest, |undone| undone.min(latest));
    let why = Why::Retry { from: from.map(|(path, _)| path) };
    events.push(Event::NoteAdded(note.clone()));
    events.push(Event::BranchOpened(open(state, cutoff, why, None)));
    Ok(Decision::new(now, events, TaskMove::Ready).dropping(state.handed_out.clone()))
}

/// Returns the cutoff for retrying a step if its failure ended the run: a leaf step is cut with all its attempts, a
/// group step only with its own failure. If the code continued after the failure, in the same arm or an outer one,
/// the failure was handled.
fn failed_at(state: &State, path: &Path, op: &Op) -> Option<Seq> {
    let OpKind::Step(StepOp { progress: StepProgress::Failed(_), group, .. }) = &op.kind else { return None };
    let within = |inner: &str, outer: &str| {
        outer.is_empty()
            || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let went_on = state.ops.iter().any(|(other, later)| {
        later.first > op.last && within(path.arm(), other.arm()) && !within(path.as_str(), other.as_str())
    });
    (!went_on).then_some(if *group { op.last } else { op.first })
}

/// Returns the last event of any operation, for a run that failed outside of its steps.
fn end_of_work(state: &State) -> Seq {
    state.ops.values().map(|op| op.last).max().unwrap_or(state.branches.active().opened)
}
