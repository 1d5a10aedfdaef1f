//! Invariants of bulk operations.

use std::collections::BTreeMap;

use goldseam_core::operation::{CanaryVerdict, OperationEnd, Progress, Verb, WORKFLOW, action_id, verdict};
use goldseam_core::state::derive;
use goldseam_core::summary::command_id;
use goldseam_core::{Event, Hash, RunId};

use super::{Log, SimEvidence, Violation};

/// I23: an operation acts on a run at most once, and one that is done has counted each of its targets once: acted on,
/// skipped or refused. A canary goes on to the next stage only after every run of the present one has passed.
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
        found.extend(went_on(operation, log, evidence).map(|what| Violation::new("I23", what)));
    }
    found
}

/// Names a run of a passed stage that never passed.
fn went_on(operation: &RunId, log: &Log, evidence: &SimEvidence) -> Option<String> {
    let outputs = log.events.iter().filter_map(|recorded| match &recorded.event {
        Event::StepCompleted(step) => Some(&step.output),
        Event::RunCompleted { output } => Some(output),
        _ => None,
    });
    let progress: Progress = outputs.clone().filter_map(|output| output.read().ok()).next_back()?;
    let passed = usize::try_from(progress.stages_passed).ok()?.checked_sub(1)?;
    let quota = usize::try_from(*progress.stages.get(passed)?).ok()?;
    let pages = outputs.filter_map(|output| output.read::<serde_json::Value>().ok());
    let runs = pages.filter_map(|page| serde_json::from_value::<Vec<RunId>>(page.get("runs")?.clone()).ok());
    let id = action_id(operation);
    // Skipped runs do not fill a stage.
    let is_action = |event: &Event| command_id(event).as_ref() == Some(&id);
    let acted = runs.flatten().filter_map(|run| {
        let log = evidence.logs.get(&run)?;
        log.events.iter().any(|recorded| is_action(&recorded.event)).then_some((run, log))
    });
    for (run, log) in acted.take(quota) {
        let has_passed = (1..=log.events.len()).any(|end| {
            let history = &log.events[..end];
            let state = derive(&run, history, Hash::ZERO);
            state.is_ok_and(|state| verdict(history, &state, &id) == CanaryVerdict::Passed)
        });
        if !has_passed {
            return Some(format!("{operation} went on to stage {}, but {run} has not passed", passed + 2));
        }
    }
    None
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
