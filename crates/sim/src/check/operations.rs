//! Invariants of bulk operations.

use std::collections::BTreeMap;

use goldseam_core::operation::{OperationEnd, Progress, Verb, WORKFLOW, action_id};
use goldseam_core::summary::command_id;
use goldseam_core::{Event, RunId};

use super::{Log, SimEvidence, Violation};

/// I23: an operation acts on a run at most once, and one that is done has counted each of its targets once: acted on,
/// skipped or refused.
pub fn i23_operations(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut actions: BTreeMap<String, u64> = BTreeMap::new();
    for (run, log) in &evidence.logs {
        let mut here: BTreeMap<String, u64> = BTreeMap::new();
        for id in log.events.iter().filter_map(|recorded| command_id(&recorded.event)) {
            *here.entry(id).or_default() += 1;
        }
        for (id, count) in here.into_iter().filter(|(id, _)| id.starts_with(WORKFLOW)) {
            if count > 1 {
                found.push(Violation::new("I23", format!("{run}: {id} acted {count} times")));
            }
            *actions.entry(id).or_default() += 1;
        }
    }
    let operations = evidence.logs.iter().filter(|(_, log)| is_operation(log));
    for (operation, log) in operations {
        let acted = actions.get(&action_id(operation)).copied().unwrap_or_default();
        found.extend(miscounted(operation, log, acted).map(|what| Violation::new("I23", what)));
    }
    found
}

fn is_operation(log: &Log) -> bool {
    matches!(log.events.first().map(|first| &first.event),
        Some(Event::RunQueued(queued)) if queued.workflow.as_str() == WORKFLOW)
}

fn miscounted(operation: &RunId, log: &Log, acted: u64) -> Option<String> {
    let Event::RunQueued(queued) = &log.events.first()?.event else { return None };
    let verb: Verb = queued.input.read::<serde_json::Value>().ok()?["spec"]["verb"].as_str()?.parse().ok()?;
    let output = log.events.iter().find_map(|recorded| match &recorded.event {
        Event::RunCompleted { output } => Some(output),
        _ => None,
    })?;
    let Ok(progress) = output.read::<Progress>() else {
        return Some(format!("{operation}: its result cannot be read"));
    };
    let others: u64 = progress.skipped.values().chain(progress.refused.values()).map(|some| some.count).sum();
    let handled = progress.acted + others;
    let is_done = progress.outcome == Some(OperationEnd::Done);
    // A remedy that changes only a task leaves no event.
    let agrees = if verb == Verb::Recover { acted <= progress.acted } else { acted == progress.acted };
    if handled != progress.handled || is_done && handled != progress.planned || !agrees {
        return Some(format!("{operation}: {acted} logs have its action, but it counted {progress:?}"));
    }
    None
}
