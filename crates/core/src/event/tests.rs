//! Names, paths and classes of every event type.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::golden::histories;

/// Returns one event of every name, from the golden histories.
fn one_of_each() -> BTreeMap<&'static str, Event> {
    let all = histories().into_iter().flat_map(|(_, log)| log.records);
    all.map(|recorded| (recorded.event.name(), recorded.event)).collect()
}

fn names_of(is: fn(&Event) -> bool) -> BTreeSet<&'static str> {
    one_of_each().into_iter().filter(|(_, event)| is(event)).map(|(name, _)| name).collect()
}

#[test]
fn event_names_match_the_on_disk_names() {
    let all = one_of_each();
    assert_eq!(all.len(), 41, "every sort is in a golden history: {:?}", all.keys());
    for (name, event) in all {
        assert_eq!(serde_json::to_value(&event).unwrap()["type"], name);
    }
}

#[test]
fn mail_progress_and_terminal_events_are_classified() {
    let mail = [
        "child.completed",
        "child.failed",
        "input.answered",
        "run.cancel_requested",
        "run.paused",
        "run.resumed",
        "signal.received",
    ];
    assert_eq!(names_of(Event::is_mail), mail.into());
    let progress = [
        "attributes.changed",
        "child.started",
        "compensation.completed",
        "compensation.failed",
        "compensation.started",
        "progress.emitted",
        "request.answered",
        "step.completed",
        "step.failed",
        "step.retry_scheduled",
        "timer.fired",
        "timer.set",
        "value.published",
        "wait.resolved",
        "wait.started",
    ];
    assert_eq!(names_of(Event::is_progress), progress.into());
    let ends = ["run.cancelled", "run.completed", "run.failed"];
    assert_eq!(names_of(Event::is_terminal), ends.into());
    assert_eq!(names_of(Event::may_be_last), ends.into_iter().chain(["run.pruned"]).collect());
}

#[test]
fn events_of_operations_have_paths() {
    for (name, event) in one_of_each() {
        let data = &serde_json::to_value(&event).unwrap()["data"];
        let named = ["path", "question", "to"].iter().find_map(|field| data[*field].as_str());
        assert_eq!(event.path().map(Path::as_str), named, "{name}");
    }
}
