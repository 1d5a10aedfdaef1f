//! Remedies and operator commands. Each is one append at exactly the log end that the diagnosis was made from.

use super::prune::refuse_archived;
use super::remote::Attempt;
use super::{Decision, Refusal, TaskMove, View, branching, ending, remote};
use crate::branch::{BranchId, Why};
use crate::command::Heal;
use crate::event::{Event, Note, RunRecovered};
use crate::recovery::{Remedy, last_stable, recorded_attempt};
use crate::state::State;
use crate::summary::{Status, child_command};
use crate::time::{Millis, Seq};

pub(super) fn heal(view: View<'_>, heal: &Heal, now: Millis) -> Result<Decision, Refusal> {
    let state = view.state()?;
    let summary = &state.summary;
    if heal.note.as_ref().is_some_and(|note| state.has_seen(&note.id)) {
        return Ok(Decision::default());
    }
    if summary.status.is_terminal() {
        return Err(Refusal::Finished { status: summary.status });
    }
    if summary.as_of != heal.at {
        return Err(Refusal::NothingToDo { why: "the run changed after it was examined" });
    }
    let decision = remedy(&view, state, heal, now)?;
    Ok(match &heal.note {
        Some(note) => decision.after(now, Event::NoteAdded(note.clone())),
        None => decision,
    })
}

fn remedy(view: &View<'_>, state: &State, heal: &Heal, now: Millis) -> Result<Decision, Refusal> {
    let summary = &state.summary;
    let recovered = |cut: Option<(BranchId, Seq)>| Event::RunRecovered(said(state, heal, now, cut));
    Ok(match &heal.remedy {
        Remedy::Branch { cutoff } => {
            let evidence = heal.evidence.clone();
            let why = Why::Recovery { rule: heal.rule.to_string(), evidence };
            let opened = branching::open(state, *cutoff, why, None);
            let seam = recovered(Some((opened.branch, *cutoff)));
            Decision::new(now, vec![Event::BranchOpened(opened), seam], TaskMove::Ready)
        }
        Remedy::Retry { path, attempt } => {
            let again = Event::StepRetryScheduled { path: path.clone(), attempt: *attempt, due: now };
            Decision::new(now, vec![recovered(None), again], TaskMove::Renew(now))
        }
        Remedy::Requeue { run_at } => Decision::new(now, vec![recovered(None)], TaskMove::Renew(*run_at)),
        Remedy::Wake => Decision::new(now, vec![recovered(None)], TaskMove::Wake),
        Remedy::Deliver { child, result } => {
            if view.has_seen(&child_command(child))? {
                return Err(Refusal::NothingToDo { why: "the child's end has already been delivered" });
            }
            let mail = super::external::child_event(child, result);
            Decision::new(now, vec![mail, recovered(None)], TaskMove::Wake)
        }
        Remedy::ChangeVersion { to } => {
            let reason = heal.evidence.clone();
            let changed = Event::VersionChanged { from: summary.version, to: *to, reason, note: None };
            // The kind of the task names the version, so nodes with the new version need a new task.
            Decision::new(now, vec![changed, recovered(None)], TaskMove::Renew(now))
        }
        Remedy::Fail { failure } => {
            let decision = match state.to_undo(Seq::ZERO).first() {
                None => {
                    let failed = Event::RunFailed { failure: failure.clone() };
                    Decision::new(now, vec![recovered(None), failed], TaskMove::Remove)
                }
                // Its effects are undone first, by a node that admits it alone.
                Some(path) => {
                    let undo =
                        Event::CompensationStarted { path: path.clone(), failure: Some(failure.clone()) };
                    Decision::new(now, vec![recovered(None), undo], TaskMove::Renew(now))
                }
            };
            decision.dropping(state.handed_out.clone())
        }
        Remedy::Park { reason } => {
            let parked = Event::RunParked { code: heal.rule.to_string(), reason: reason.clone() };
            Decision::new(now, vec![recovered(None), parked], TaskMove::Rest(summary.stopped_until()))
        }
        Remedy::TakeResult { path, attempt, task } => {
            remote::take_result(state, Attempt { path, number: *attempt }, task, now)?
                .after(now, recovered(None))
        }
        Remedy::SendAgain { path, attempt } => {
            remote::send_again(state, Attempt { path, number: *attempt }, now)?.after(now, recovered(None))
        }
        Remedy::GiveUp { path, attempt, .. } => {
            remote::give_up(state, Attempt { path, number: *attempt }, now)?.after(now, recovered(None))
        }
        Remedy::Reclaim | Remedy::Tell { .. } => {
            return Err(Refusal::NothingToDo { why: "the remedy does not change the log" });
        }
    })
}

fn said(state: &State, heal: &Heal, now: Millis, cut: Option<(BranchId, Seq)>) -> RunRecovered {
    let summary = &state.summary;
    RunRecovered {
        rule: heal.rule.to_string(),
        reason: heal.healer.reason.as_str().to_owned(),
        attempt: recorded_attempt(summary.attempt),
        evidence: heal.evidence.clone(),
        node: heal.healer.node.clone(),
        stale_ms: u64::try_from(now.since(summary.last_event_at).as_millis()).unwrap_or(u64::MAX),
        lived_ms: None,
        previous_branch: cut.map(|_| summary.branch),
        new_branch: cut.map(|(branch, _)| branch),
        cutoff: cut.map(|(_, cutoff)| cutoff),
    }
}

/// Returns the state of a run that has not ended; `None` if the command was already taken.
fn open_run<'a>(view: &View<'a>, note: &Note) -> Result<Option<&'a State>, Refusal> {
    let state = view.state()?;
    if state.has_seen(&note.id) {
        return Ok(None);
    }
    refuse_archived(&state.summary)?;
    match state.summary.status {
        status if status.is_terminal() => Err(Refusal::Finished { status }),
        _ => Ok(Some(state)),
    }
}

/// Creates a new task, due now.
pub(super) fn requeue(view: View<'_>, note: &Note, now: Millis) -> Result<Decision, Refusal> {
    let Some(state) = open_run(&view, note)? else { return Ok(Decision::default()) };
    match state.summary.status {
        Status::Paused => Err(Refusal::NothingToDo { why: "the run is paused; resume it" }),
        Status::Parked => Err(Refusal::NothingToDo { why: "the run is parked; resume or reset it" }),
        _ => Ok(Decision::new(now, vec![Event::NoteAdded(note.clone())], TaskMove::Renew(now))),
    }
}

/// Opens a branch at the last stable event, so that later work runs again.
pub(super) fn reset(view: View<'_>, note: &Note, now: Millis) -> Result<Decision, Refusal> {
    let Some(state) = open_run(&view, note)? else { return Ok(Decision::default()) };
    // A cutoff would keep compensated steps as completed, so a compensating run keeps compensating.
    let cutoff = match state.is_being_undone() {
        true => state.summary.as_of,
        false => last_stable(state).unwrap_or(state.branches.active().opened),
    };
    if !state.is_being_undone() {
        branching::refuse_undone_before(state, cutoff)?;
    }
    let opened = branching::open(state, cutoff, Why::Reset, None);
    let mut events: Vec<Event> = ending::drop_jump(state, note).into_iter().collect();
    events.extend([Event::NoteAdded(note.clone()), Event::BranchOpened(opened)]);
    Ok(Decision::new(now, events, TaskMove::Ready).dropping(state.handed_out.clone()))
}

/// Reverts the latest seam: opens a new branch at the end of the branch that the seam left.
pub(super) fn undo_seam(view: View<'_>, note: &Note, now: Millis) -> Result<Decision, Refusal> {
    let Some(state) = open_run(&view, note)? else { return Ok(Decision::default()) };
    let none = Refusal::NothingToDo { why: "no recovery of this run has opened a branch" };
    let active = state.branches.active();
    let seam = match &active.why {
        Some(Why::Recovery { .. }) => active,
        _ => return Err(none),
    };
    let before = state.branches.iter().filter(|branch| branch.opened < seam.opened).max_by_key(|b| b.opened);
    let other = before.ok_or(none)?;
    let mut opened = branching::open(state, seam.opened.before(), Why::Undo { seam: seam.id }, None);
    opened.parent = Some(other.id);
    let events = vec![Event::NoteAdded(note.clone()), Event::BranchOpened(opened)];
    Ok(Decision::new(now, events, TaskMove::Ready))
}
