//! Compare-and-append: two writers can never both win.

use goldseam_core::Seq;
use goldseam_store::api::{Append, TaskChange};
use goldseam_store::error::StoreError;

use super::Fixture;
use super::make::{advance, append, append_with_row, create, run, task};

/// Two writers append after the same event: one succeeds, the other gets the new end.
pub async fn one_of_two_writers_wins(fixture: &Fixture) {
    fixture.append(append("r", 0, &["a"])).await;
    let (left, right) = tokio::join!(
        fixture.store.append(append("r", 1, &["left"])),
        fixture.store.append(append("r", 1, &["right"])),
    );
    let (won, lost, body) = if left.is_ok() { (left, right, "left") } else { (right, left, "right") };
    assert_eq!(won.unwrap(), Seq(2));
    assert!(matches!(lost, Err(StoreError::Conflict { end: Seq(2) })), "{lost:?}");
    let log = fixture.log("r").await;
    assert_eq!((log.len(), log[1].body.as_str()), (2, body));
}

/// Many writers on many threads start the same run: exactly one succeeds.
pub async fn one_of_many_writers_wins(fixture: &Fixture) {
    let writers: Vec<_> = (0..16)
        .map(|n| {
            let store = fixture.shared();
            tokio::spawn(async move { store.append(append("r", 0, &[&n.to_string(), "tail"])).await })
        })
        .collect();
    let mut won = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(end) => {
                assert_eq!(end, Seq(2));
                won += 1;
            }
            Err(StoreError::Conflict { end: Seq(2) }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(fixture.log("r").await.len(), 2);
}

/// A stale batch that is longer than the one it lost to leaves nothing behind.
pub async fn a_stale_append_longer_than_its_rival_is_refused_whole(fixture: &Fixture) {
    fixture.append(append("r", 0, &["a"])).await;
    fixture.append(append("r", 1, &["b"])).await;
    let stale = fixture.store.append(append("r", 1, &["x", "y", "z"])).await;
    assert!(matches!(stale, Err(StoreError::Conflict { end: Seq(2) })), "{stale:?}");
    let bodies: Vec<String> = fixture.log("r").await.into_iter().map(|record| record.body).collect();
    assert_eq!(bodies, ["a", "b"]);
    assert_eq!(fixture.append(append("r", 2, &["c"])).await, Seq(3));
}

/// An append cannot leave a gap.
pub async fn an_append_past_the_end_is_refused(fixture: &Fixture) {
    fixture.append(append("r", 0, &["a"])).await;
    let gap = fixture.store.append(append("r", 2, &["c"])).await;
    assert!(matches!(gap, Err(StoreError::Conflict { end: Seq(1) })), "{gap:?}");
    assert_eq!(fixture.log("r").await.len(), 1);
}

/// A run with no events ends at zero; a refused first append does not create it.
pub async fn a_new_run_begins_after_zero(fixture: &Fixture) {
    let early = fixture.store.append(append("r", 1, &["b"])).await;
    assert!(matches!(early, Err(StoreError::Conflict { end: Seq::ZERO })), "{early:?}");
    assert_eq!(fixture.store.head(&run("r")).await.unwrap(), None);
    assert_eq!(fixture.append(append("r", 0, &["a"])).await, Seq(1));
    let again = fixture.store.append(append("r", 0, &["a"])).await;
    assert!(matches!(again, Err(StoreError::Conflict { end: Seq(1) })), "{again:?}");
}

/// An append without events is refused and changes nothing, whatever its position and task changes are.
pub async fn an_append_without_events_is_refused(fixture: &Fixture) {
    for after in [0, 1] {
        let riding = Append { tasks: vec![create(task("t"))], ..append("r", after, &[]) };
        let refused = fixture.store.append(riding).await;
        assert!(matches!(refused, Err(StoreError::Refused { code: "GS0211", .. })), "{refused:?}");
    }
    assert_eq!(fixture.store.head(&run("r")).await.unwrap(), None);
    assert_eq!(fixture.find("t").await, None);
}

/// Whatever position a losing append names, it gets the true end of the log.
pub async fn a_conflict_reports_the_true_end(fixture: &Fixture) {
    fixture.append(append("r", 0, &["a", "b", "c"])).await;
    for after in [0, 1, 2, 4, 5, 1_000_000] {
        let lost = fixture.store.append(append("r", after, &["x"])).await;
        assert!(matches!(lost, Err(StoreError::Conflict { end: Seq(3) })), "after {after}: {lost:?}");
    }
}

/// A refused append changes neither the row nor the tasks.
pub async fn a_refused_append_changes_neither_row_nor_tasks(fixture: &Fixture) {
    let first = Append { tasks: vec![create(advance("r", "own"))], ..append_with_row("r", 0) };
    fixture.append(first).await;
    let row = fixture.row("r").await;
    let own = fixture.task("own").await;
    let changes = vec![
        create(task("t")),
        TaskChange::Wake { at: goldseam_core::Millis(0) },
        TaskChange::Remove { task: own.id.clone() },
    ];
    let stale = Append { tasks: changes, ..append_with_row("r", 0) };
    assert!(fixture.store.append(stale).await.is_err());
    assert_eq!(fixture.row("r").await, row);
    assert_eq!(fixture.task("own").await, own);
    assert_eq!(fixture.find("t").await, None);
}

/// A concurrent reader sees batches whole; with atomic rows, never events without their row.
pub async fn a_batch_is_visible_whole_or_not_at_all(fixture: &Fixture) {
    const BATCHES: u64 = 40;
    let store = fixture.shared();
    let writer = tokio::spawn(async move {
        for n in 0..BATCHES {
            let row = super::make::summary("r", n * 3 + 3);
            let batch = Append { row: Some(Box::new(row)), ..append("r", n * 3, &["a", "b", "c"]) };
            store.append(batch).await.unwrap();
        }
    });
    let mut seen = 0;
    while seen < BATCHES * 3 {
        tokio::task::yield_now().await;
        let length = fixture.log("r").await.len() as u64;
        assert_eq!(length % 3, 0, "part of a batch was visible");
        assert!(length >= seen, "events disappeared");
        seen = length;
        let Some(head) = fixture.store.head(&run("r")).await.unwrap() else { continue };
        assert_eq!(head.end.0 % 3, 0, "part of a batch was visible");
        let as_of = head.row.map(|row| row.summary.as_of);
        assert!(as_of <= Some(head.end), "a row was visible before its events");
        if fixture.capabilities.atomic_rows {
            assert_eq!(as_of, Some(head.end), "events were visible before their row");
        }
    }
    writer.await.unwrap();
}

/// Each run has its own positions.
pub async fn runs_do_not_disturb_each_other(fixture: &Fixture) {
    fixture.append(append("r", 0, &["a"])).await;
    assert_eq!(fixture.append(append("r2", 0, &["b"])).await, Seq(1));
    // Ids that are prefixes of each other, or differ in case only, are different runs.
    assert_eq!(fixture.append(append("R", 0, &["c"])).await, Seq(1));
    assert_eq!(fixture.append(append("r-2", 0, &["d"])).await, Seq(1));
    for (name, body) in [("r", "a"), ("r2", "b"), ("R", "c"), ("r-2", "d")] {
        let log = fixture.log(name).await;
        assert_eq!((log.len(), log[0].body.as_str()), (1, body), "{name}");
    }
}

/// A store returns texts unchanged, whatever they contain.
pub async fn bytes_are_kept_exactly(fixture: &Fixture) {
    let long = "0123456789abcdef".repeat(65_536);
    let bodies = [
        "",
        " \t\r\n ",
        "{\"b\":1,\"a\":1.0,\"a\":2}",
        "\\u0000 as an escape, \u{1} and \u{7f} as they are",
        "äöü 漢字 🏺 e\u{301} \u{feff}\u{202e}\u{10ffff}",
        "'; DROP TABLE events; -- %s $1 ? :x",
        long.as_str(),
    ];
    fixture.append(append("r", 0, &bodies)).await;
    let log = fixture.log("r").await;
    assert_eq!(log.len(), bodies.len());
    for (record, body) in log.iter().zip(bodies) {
        assert!(record.body == body, "event {} was changed", record.seq);
    }
}
