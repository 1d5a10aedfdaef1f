//! Invariants of children and of signals between runs.

use std::collections::{BTreeMap, BTreeSet};

use goldseam_core::{Event, RunId};

use super::{Log, SimEvidence, Violation};

/// I26: a child belongs to the run that requested it, and a refused one was not created by it; the end of a child
/// arrives only at its parent, and never if it is detached; a signal from one run to another arrives exactly once.
pub fn i26_kin(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        if let Some(parent) = parent_of(log)
            && !evidence.logs.get(parent).is_some_and(|log| requested(log).contains(run))
        {
            found.push(Violation::new(
                "I26",
                format!("{run} names {parent} as its parent, which did not request it"),
            ));
        }
        found.extend(children(evidence, run, log));
    }
    found.extend(signals(evidence));
    found
}

fn parent_of(log: &Log) -> Option<&RunId> {
    log.events.iter().find_map(|recorded| match &recorded.event {
        Event::RunQueued(queued) => queued.parent.as_ref(),
        _ => None,
    })
}

fn requested(log: &Log) -> BTreeSet<&RunId> {
    let requested = log.events.iter().filter_map(|recorded| match &recorded.event {
        Event::ChildStarted(child) => Some(&child.run),
        _ => None,
    });
    requested.collect()
}

/// Checks the ends of children in the log of their parent.
fn children(evidence: &SimEvidence, run: &RunId, log: &Log) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut detached = BTreeSet::new();
    for recorded in &log.events {
        let (child, refused) = match &recorded.event {
            Event::ChildStarted(child) => {
                if child.detached {
                    detached.insert(&child.run);
                }
                continue;
            }
            Event::ChildCompleted { run, .. } => (run, false),
            Event::ChildFailed { run, refused, .. } => (run, *refused),
            _ => continue,
        };
        let is_ours = evidence.logs.get(child).is_some_and(|log| parent_of(log) == Some(run));
        let mut say = |what: &str| found.push(Violation::new("I26", format!("{run}: child {child} {what}")));
        match refused {
            true if is_ours => say("was refused, but exists"),
            true => {}
            false if !is_ours => say("ended, but is not a child of this run"),
            false if detached.contains(child) => say("is detached, but its end arrived"),
            false => {}
        }
    }
    found
}

/// Checks that each completed step that sends a signal has sent it once.
fn signals(evidence: &SimEvidence) -> Vec<Violation> {
    let mut arrived: BTreeMap<&str, u32> = BTreeMap::new();
    for recorded in evidence.logs.values().flat_map(|log| &log.events) {
        if let Event::SignalReceived { id, .. } = &recorded.event {
            *arrived.entry(id.as_str()).or_default() += 1;
        }
    }
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        for recorded in &log.events {
            let Event::StepCompleted(step) = &recorded.event else { continue };
            if !step.path.name().starts_with("signal_run") {
                continue;
            }
            let id = format!("signal-{}", log.key(run, recorded, &step.path));
            let count = arrived.get(id.as_str()).copied().unwrap_or_default();
            if count != 1 {
                let what = format!("{run}: the signal of {} arrived {count} times", step.path);
                found.push(Violation::new("I26", what));
            }
        }
    }
    found
}
