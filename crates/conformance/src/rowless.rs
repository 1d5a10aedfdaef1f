//! Runs with a log and without a cached row: a lost row is always found.

use goldseam_core::{Millis, RunId};
use goldseam_store::api::{Expect, Row, Written};

use super::Fixture;
use super::make::{ALL, append, append_with_row, run, summary};

async fn found(fixture: &Fixture, after: Option<&str>, limit: u32) -> Vec<String> {
    let after = after.map(run);
    let found = fixture.store.rowless(after.as_ref(), limit).await.unwrap();
    found.iter().map(|run: &RunId| run.as_str().to_owned()).collect()
}

/// Exactly the runs without a row are found.
pub async fn a_run_whose_row_is_lost_is_found(fixture: &Fixture) {
    fixture.append(append_with_row("kept", 0)).await;
    fixture.append(append("lost", 0, &["a"])).await;
    assert_eq!(found(fixture, None, ALL).await, ["lost"]);
}

/// The order is that of the ids, byte by byte, regardless of the order of creation.
pub async fn rowless_runs_are_found_in_order_of_id(fixture: &Fixture) {
    let mut names = vec!["b", "a", "a-1", "Z", "a.1", "10", "9", "aa"];
    for name in &names {
        fixture.append(append(name, 0, &["a"])).await;
    }
    names.sort_unstable();
    assert_eq!(found(fixture, None, ALL).await, names);
}

/// Pages of any size give every run once; a page may begin after a run that is not among them.
pub async fn pages_of_rowless_runs_are_complete(fixture: &Fixture) {
    let mut expected = vec![];
    for n in 0..12 {
        let name = format!("r{n:02}");
        let lost = n % 3 != 0;
        fixture.append(if lost { append(&name, 0, &["a"]) } else { append_with_row(&name, 0) }).await;
        expected.extend(lost.then_some(name));
    }
    for limit in [1, 3, 8, 100] {
        let mut all: Vec<String> = vec![];
        loop {
            let page = found(fixture, all.last().map(String::as_str), limit).await;
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                break;
            }
            all.extend(page);
            assert!(all.len() <= expected.len(), "the list does not end: {all:?}");
        }
        assert_eq!(all, expected, "pages of {limit}");
    }
    assert_eq!(found(fixture, Some("r03"), 2).await, ["r04", "r05"], "r03 has a row");
    assert_eq!(found(fixture, Some("r"), 1).await, ["r01"], "run r does not exist");
    assert!(found(fixture, Some("r11"), ALL).await.is_empty());
    assert!(found(fixture, None, 0).await.is_empty());
}

/// A store without runs, or with all its rows, has no rowless runs.
pub async fn no_run_is_rowless_if_every_run_has_a_row(fixture: &Fixture) {
    assert!(found(fixture, None, ALL).await.is_empty());
    for n in 0..3 {
        fixture.append(append_with_row(&format!("r{n}"), 0)).await;
    }
    // A late row counts as present.
    fixture.append(append("r1", 1, &["b"])).await;
    assert!(found(fixture, None, ALL).await.is_empty());
}

/// A restored row, alone or with an append, removes its run from the list.
pub async fn a_restored_row_takes_its_run_out(fixture: &Fixture) {
    for name in ["a", "b", "c"] {
        fixture.append(append(name, 0, &["a"])).await;
    }
    let row = Row { summary: summary("b", 1), task: None, updated_at: Millis(0) };
    assert_eq!(fixture.store.put_row(row, Expect::Absent).await.unwrap(), Written::Done);
    assert_eq!(found(fixture, None, ALL).await, ["a", "c"]);
    fixture.append(append_with_row("a", 1)).await;
    assert_eq!(found(fixture, None, ALL).await, ["c"]);
}
