//! The cached row: a hint with a version.

use std::time::Duration;

use goldseam_core::event::Tags;
use goldseam_core::summary::{OpenWait, Trouble};
use goldseam_core::{Millis, NodeId, Path, Seq, SignalName, Status, Summary, TagKey};
use goldseam_store::api::{Append, Expect, Row, Written};

use super::Fixture;
use super::make::{T, advance, append, append_with_row, at, create, run, summary, task_id};

/// An append without a row creates none.
pub async fn a_row_not_given_is_absent(fixture: &Fixture) {
    fixture.append(append("r", 0, &["a"])).await;
    let head = fixture.head("r").await;
    assert_eq!((head.end, head.row), (Seq(1), None));
}

/// An append without a row leaves the old one unchanged, and visibly late.
pub async fn a_row_not_given_is_left_late(fixture: &Fixture) {
    fixture.append(append_with_row("r", 0)).await;
    let row = fixture.row("r").await;
    fixture.append(append("r", 1, &["b"])).await;
    let head = fixture.head("r").await;
    assert_eq!(head.end, Seq(2));
    assert_eq!(head.row, Some(row));
}

/// A row comes back with all its fields.
pub async fn a_row_is_kept_exactly(fixture: &Fixture) {
    let rich = rich();
    let given = Append { row: Some(Box::new(rich.clone())), ..append("r", 0, &["a"]) };
    fixture.append(given).await;
    assert_eq!(fixture.row("r").await.summary, rich);
    let row = fixture.row("r").await;
    fixture.append(append_with_row("r", 1)).await;
    assert_eq!(fixture.row("r").await.summary, summary("r", 2), "the old row is replaced completely");
    let version = fixture.row("r").await.version();
    let put = fixture.store.put_row(row, Expect::Version(version)).await.unwrap();
    assert_eq!(put, Written::Done);
    assert_eq!(fixture.row("r").await.summary, rich);
}

fn rich() -> Summary {
    let wait = OpenWait {
        tasks: vec![super::make::task_id("s-1")],
        path: Path::new("approve").unwrap(),
        since: at(1),
        schemas: std::collections::BTreeMap::new(),
        signals: vec![SignalName::new("go").unwrap()],
        inputs: vec![],
        children: vec![run("child")],
        due: Some(at(9)),
    };
    Summary {
        status: Status::Parked,
        priority: -7,
        tags: Tags::from([(TagKey::new("who").unwrap(), "Jürgen \"J\" 🏺".to_owned())]),
        parent: Some(run("parent")),
        created_at: Millis(0),
        finished_at: Some(Millis::NEVER),
        owner: Some(NodeId::new("n1").unwrap()),
        recoveries: 2,
        recovered_at: Some(at(-5)),
        cancel: Some("because".to_owned()),
        waits: vec![wait],
        mail_ids: vec!["m1".to_owned()],
        trouble: Some(Trouble {
            cause: "c".into(),
            message: "m\n".into(),
            code: Some("P1".into()),
            step: None,
        }),
        ..summary("r", 1)
    }
}

/// Every write of the row increases `updated_at`: by an append or alone, at the same time, or after the clock went
/// back.
pub async fn updated_at_strictly_grows(fixture: &Fixture) {
    fixture.append(append_with_row("r", 0)).await;
    let mut before = fixture.row("r").await;
    for n in 1..12 {
        match n {
            4 => fixture.clock.advance(Duration::from_secs(60)),
            7 => fixture.clock.set(T),
            _ => {}
        }
        if n % 2 == 0 {
            fixture.append(append_with_row("r", fixture.head("r").await.end.0)).await;
        } else {
            let same = Row { updated_at: Millis(0), ..before.clone() };
            let put = fixture.store.put_row(same, Expect::Version(before.version())).await.unwrap();
            assert_eq!(put, Written::Done);
        }
        let after = fixture.row("r").await;
        assert!(after.updated_at > before.updated_at, "write {n}: {:?}", after.updated_at);
        before = after;
    }
    let end = fixture.head("r").await.end.0;
    let task = create(advance("r", "own"));
    fixture.append(Append { tasks: vec![task], ..append("r", end, &["b"]) }).await;
    assert!(fixture.row("r").await.updated_at > before.updated_at, "adopting a task writes the row");
}

/// A row is written only over the expected version, and the loser gets the present row.
pub async fn put_row_compares_and_sets(fixture: &Fixture) {
    fixture.append(append_with_row("r", 0)).await;
    let first = fixture.row("r").await;
    let mut changed = first.clone();
    changed.summary.status = Status::Running;
    let put = |expect| fixture.store.put_row(changed.clone(), expect);
    assert_eq!(put(Expect::Absent).await.unwrap(), Written::Lost(Some(first.clone())));
    assert_eq!(put(Expect::Version(first.version() + 1)).await.unwrap(), Written::Lost(Some(first.clone())));
    assert_eq!(fixture.row("r").await, first);
    assert_eq!(put(Expect::Version(first.version())).await.unwrap(), Written::Done);
    let second = fixture.row("r").await;
    assert_eq!(second.summary.status, Status::Running);
    assert_eq!(put(Expect::Version(first.version())).await.unwrap(), Written::Lost(Some(second)));
    assert_eq!(fixture.head("r").await.end, Seq(1), "a row writes no event");
}

/// A row can be replaced whatever text its failure contains.
pub async fn a_row_with_any_text_is_written_again(fixture: &Fixture) {
    fixture.append(append_with_row("r", 0)).await;
    let message = "null \0, half a pair \\ud800, \u{1} and \u{10ffff}".to_owned();
    let mut row = fixture.row("r").await;
    row.summary.trouble = Some(Trouble { cause: "c0ffee".to_owned(), message, code: None, step: None });
    for _ in 0..3 {
        let expect = Expect::Version(fixture.row("r").await.version());
        assert_eq!(fixture.store.put_row(row.clone(), expect).await.unwrap(), Written::Done);
        assert_eq!(fixture.row("r").await.summary, row.summary);
    }
}

/// Of two writers with the same row, one succeeds.
pub async fn one_of_two_put_rows_wins(fixture: &Fixture) {
    fixture.append(append_with_row("r", 0)).await;
    let row = fixture.row("r").await;
    let expect = Expect::Version(row.version());
    let (left, right) =
        tokio::join!(fixture.store.put_row(row.clone(), expect), fixture.store.put_row(row.clone(), expect));
    let done = [left.unwrap(), right.unwrap()].iter().filter(|put| **put == Written::Done).count();
    assert_eq!(done, 1);
}

/// A missing row can be written by expecting its absence.
pub async fn put_row_restores_a_lost_row(fixture: &Fixture) {
    fixture.append(append("r", 0, &["a"])).await;
    let row = Row { summary: summary("r", 1), task: None, updated_at: Millis(0) };
    let early = fixture.store.put_row(row.clone(), Expect::Version(1)).await.unwrap();
    assert_eq!(early, Written::Lost(None));
    assert_eq!(fixture.store.put_row(row.clone(), Expect::Absent).await.unwrap(), Written::Done);
    let restored = fixture.row("r").await;
    assert_eq!(restored.summary, row.summary);
    assert!(restored.updated_at > Millis(0), "the store sets `updated_at`");
    assert_eq!(fixture.store.put_row(row, Expect::Absent).await.unwrap(), Written::Lost(Some(restored)));
}

/// `put_row` also changes the run's own task.
pub async fn put_row_swaps_the_task(fixture: &Fixture) {
    let first = Append { tasks: vec![create(advance("r", "own"))], ..append_with_row("r", 0) };
    fixture.append(first).await;
    for task in [Some(task_id("other")), None] {
        let row = fixture.row("r").await;
        let swapped = Row { task: task.clone(), ..row.clone() };
        let put = fixture.store.put_row(swapped, Expect::Version(row.version())).await.unwrap();
        assert_eq!(put, Written::Done);
        assert_eq!(fixture.row("r").await.task, task);
    }
}

/// A run without a log gets no row.
pub async fn a_run_without_a_log_gets_no_row(fixture: &Fixture) {
    let row = Row { summary: summary("r", 1), task: None, updated_at: T };
    assert_eq!(fixture.store.put_row(row, Expect::Absent).await.unwrap(), Written::Lost(None));
    assert_eq!(fixture.store.head(&run("r")).await.unwrap(), None);
}
