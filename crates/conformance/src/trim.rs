//! Logs whose beginning was archived and removed.

use goldseam_core::Seq;
use goldseam_store::error::StoreError;

use super::Fixture;
use super::make::{ALL, append, append_with, append_with_row, create, run, task};

async fn texts(fixture: &Fixture, name: &str, after: u64, limit: u32) -> Vec<(u64, String)> {
    let records = fixture.store.read(&run(name), Seq(after), limit).await.unwrap();
    records.into_iter().map(|record| (record.seq.0, record.body)).collect()
}

/// Appends twice two events and then one: positions 1 to 5.
async fn five(fixture: &Fixture, name: &str) {
    fixture.append(append(name, 0, &["a", "b"])).await;
    fixture.append(append(name, 2, &["c", "d"])).await;
    fixture.append(append(name, 4, &["e"])).await;
}

/// Earlier events are gone, later ones keep their positions.
pub async fn a_trimmed_log_begins_at_the_given_event(fixture: &Fixture) {
    five(fixture, "r").await;
    fixture.store.trim(&run("r"), Seq(3)).await.unwrap();
    let c = (3, "c".to_owned());
    let d = (4, "d".to_owned());
    let e = (5, "e".to_owned());
    assert_eq!(texts(fixture, "r", 0, ALL).await, [c.clone(), d.clone(), e.clone()]);
    assert_eq!(texts(fixture, "r", 0, 1).await, [c]);
    assert_eq!(texts(fixture, "r", 3, ALL).await, [d, e.clone()]);
    fixture.store.trim(&run("r"), Seq(5)).await.unwrap();
    assert_eq!(texts(fixture, "r", 0, ALL).await, [e]);
    assert_eq!(fixture.store.head(&run("r")).await.unwrap().unwrap().end, Seq(5));
}

/// A repeated or late trim does nothing.
pub async fn trimming_again_changes_nothing(fixture: &Fixture) {
    five(fixture, "r").await;
    for first in [5, 5, 3, 1] {
        fixture.store.trim(&run("r"), Seq(first)).await.unwrap();
        assert_eq!(texts(fixture, "r", 0, ALL).await, [(5, "e".to_owned())], "trimmed to {first}");
    }
}

/// If the event to keep does not exist, nothing is removed; an unknown run is not an error.
pub async fn nothing_is_trimmed_before_a_missing_event(fixture: &Fixture) {
    five(fixture, "r").await;
    fixture.store.trim(&run("r"), Seq(6)).await.unwrap();
    fixture.store.trim(&run("r"), Seq(1)).await.unwrap();
    fixture.store.trim(&run("unknown"), Seq(1)).await.unwrap();
    assert_eq!(texts(fixture, "r", 0, ALL).await.len(), 5);
    assert!(fixture.store.head(&run("unknown")).await.unwrap().is_none());
}

/// The log keeps its end, and an append compares with it.
pub async fn a_trimmed_log_continues_after_its_end(fixture: &Fixture) {
    five(fixture, "r").await;
    fixture.store.trim(&run("r"), Seq(5)).await.unwrap();
    let stale = fixture.store.append(append("r", 4, &["x"])).await;
    assert!(matches!(stale, Err(StoreError::Conflict { end: Seq(5) })), "{stale:?}");
    assert_eq!(fixture.store.append(append("r", 5, &["f"])).await.unwrap(), Seq(6));
    assert_eq!(texts(fixture, "r", 0, ALL).await, [(5, "e".to_owned()), (6, "f".to_owned())]);
}

/// The run still exists: a run of the same name cannot be started, with or without a row.
pub async fn a_trimmed_log_cannot_be_started_again(fixture: &Fixture) {
    fixture.append(append_with_row("rowed", 0)).await;
    fixture.append(append_with_row("rowed", 1)).await;
    fixture.store.trim(&run("rowed"), Seq(2)).await.unwrap();
    five(fixture, "bare").await;
    fixture.store.trim(&run("bare"), Seq(5)).await.unwrap();
    for (name, end) in [("rowed", 2), ("bare", 5)] {
        let begun = fixture.store.append(append(name, 0, &["a", "b"])).await;
        assert!(
            matches!(begun, Err(StoreError::Conflict { end: found }) if found == Seq(end)),
            "{name}: {begun:?}"
        );
    }
}

/// However much was removed, the first page has the remaining events.
pub async fn a_long_trimmed_log_reads_at_once(fixture: &Fixture) {
    for after in 0..40 {
        fixture.append(append("r", after, &["x"])).await;
    }
    fixture.store.trim(&run("r"), Seq(40)).await.unwrap();
    for after in [0, 1, 20, 39] {
        assert_eq!(texts(fixture, "r", after, 1).await, [(40, "x".to_owned())], "after {after}");
    }
    assert!(texts(fixture, "r", 40, 1).await.is_empty());
}

/// Only events are removed, and only those of the run.
pub async fn a_trim_leaves_row_tasks_and_other_runs_alone(fixture: &Fixture) {
    fixture.append(append_with_row("r", 0)).await;
    fixture.append(append_with("r", 1, vec![create(task("t"))])).await;
    fixture.append(append("r1", 0, &["a", "b"])).await;
    let before = fixture.store.head(&run("r")).await.unwrap();
    fixture.store.trim(&run("r"), Seq(2)).await.unwrap();
    assert_eq!(fixture.store.head(&run("r")).await.unwrap(), before);
    assert!(fixture.find("t").await.is_some());
    assert_eq!(texts(fixture, "r1", 0, ALL).await.len(), 2);
}

/// A trimmed run without a row is found as rowless.
pub async fn a_trimmed_log_without_a_row_is_found(fixture: &Fixture) {
    five(fixture, "r").await;
    fixture.store.trim(&run("r"), Seq(5)).await.unwrap();
    assert_eq!(fixture.store.rowless(None, ALL).await.unwrap(), [run("r")]);
}
