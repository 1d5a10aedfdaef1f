//! Invariants of terminated and cancelled runs.

use goldseam_core::event::Request;
use goldseam_core::{Event, Why};

use super::{Log, SimEvidence, Violation};

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
