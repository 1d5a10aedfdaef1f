//! Invariants of terminated and cancelled runs.

use goldseam_core::event::Request;
use goldseam_core::{Event, Why};

use super::{Log, SimEvidence, Violation, before};

/// I21: no event follows a termination, and an acknowledged request to cancel ends its run unless the log records its
/// withdrawal.
pub fn i21_endings(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let say = |what: String| Violation::new("I21", format!("{run}: {what}"));
        found.extend(after_termination(log).map(say));
        found.extend(forgotten_cancels(log).into_iter().map(say));
    }
    found
}

/// Longest time after its deadline, in milliseconds, until a run has ended, once there are no more faults.
const OVERDUE_MAX: i64 = 60_000;

/// I24: a run times out at its deadline, never before it and not long after, and then ends `failed`.
pub fn i24_deadlines(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let last = evidence.facts.executed.iter().map(|append| append.at).max().unwrap_or_default();
    let from = evidence.facts.calm_at.unwrap_or(last);
    for (run, log) in &evidence.logs {
        let say = |what: String| Violation::new("I24", format!("{run}: {what}"));
        found.extend(wrong_timeouts(log).into_iter().map(say));
        let overdue = log.row.as_ref().and_then(|row| row.times_out_at());
        if let Some(deadline) = overdue.filter(|deadline| before((*deadline).max(from), last) > OVERDUE_MAX) {
            found.push(say(format!("its deadline {} has passed, and it goes on", deadline.0)));
        }
    }
    found
}

fn wrong_timeouts(log: &Log) -> Vec<String> {
    let mut timed_out = false;
    let mut found = Vec::new();
    for recorded in &log.events {
        match &recorded.event {
            Event::RunCancelRequested(request) => {
                timed_out |= request.deadline.is_some();
                if let Some(deadline) = request.deadline.filter(|deadline| *deadline > recorded.at) {
                    found.push(format!("{} is before the deadline {}", recorded.seq.0, deadline.0));
                }
            }
            Event::BranchOpened(opened) if matches!(opened.why, Why::Jump { .. } | Why::Retry { .. }) => {
                timed_out = false;
            }
            Event::RunCancelled { terminated: None, .. } if timed_out => {
                found.push(format!("{} ends a run cancelled that timed out", recorded.seq.0));
            }
            _ => {}
        }
    }
    found
}

fn after_termination(log: &Log) -> Option<String> {
    let is_end = |event: &Event| matches!(event, Event::RunCancelled { terminated: Some(_), .. });
    let at = log.events.iter().position(|recorded| is_end(&recorded.event))?;
    let audit = |event: &Event| matches!(event, Event::NoteAdded(_) | Event::RunPruned(_));
    let later = log.events[at + 1..].iter().find(|recorded| !audit(&recorded.event))?;
    Some(format!("{} at {} follows a termination", later.event.name(), later.seq.0))
}

fn forgotten_cancels(log: &Log) -> Vec<String> {
    let mut pending = None;
    let mut found = Vec::new();
    for (at, recorded) in log.events.iter().enumerate() {
        match &recorded.event {
            Event::RunCancelRequested(_) => pending = Some(recorded.seq),
            Event::RequestWithdrawn(withdrawn) if withdrawn.what == Request::Cancel => pending = None,
            Event::BranchOpened(opened) if matches!(opened.why, Why::Jump { .. } | Why::Retry { .. }) => {
                let again = log.events.get(at + 1).is_some_and(|next| {
                    next.write == recorded.write && matches!(next.event, Event::RunCancelRequested(_))
                });
                if let Some(asked) = pending.filter(|_| !again) {
                    found.push(format!("{} drops the request to cancel of {}", recorded.seq.0, asked.0));
                }
            }
            event if event.is_terminal() => pending = None,
            _ => {}
        }
    }
    found.extend(pending.map(|asked| format!("the request to cancel of {} never ended it", asked.0)));
    found
}
