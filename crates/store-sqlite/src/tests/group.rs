//! Group commit: which jobs share a transaction, and what their callers learn when it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use goldseam_conformance::make;
use goldseam_core::{Millis, Seq};
use goldseam_store::{Append, ClaimRequest, Expect, Store, StoreError, TaskChange, TaskFilter, Written};
use rusqlite::ffi;

use super::{append, open, run_id, task};
use crate::SqliteStore;
use crate::fault::SqliteFault;
use crate::run_numbers::RunNumbers;
use crate::writer::{JobContext, WriteMode};

/// Holds the writer inside a transaction until the gate opens, so that the next jobs form one group.
async fn hold(store: &Arc<SqliteStore>) -> (mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
    let (open, gate) = mpsc::channel::<()>();
    let (entered, inside) = tokio::sync::oneshot::channel();
    let mut entered = Some(entered);
    let store = Arc::clone(store);
    let holder = tokio::spawn(async move {
        let held = store.writer().write(WriteMode::DEFAULT, move |_| {
            entered.take().map(|entered| entered.send(()));
            let _ = gate.recv();
            Ok(())
        });
        held.await.unwrap();
    });
    inside.await.unwrap();
    (open, holder)
}

fn failing(code: i32) -> SqliteFault {
    SqliteFault::Sql(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
}

#[tokio::test]
async fn a_conflict_does_not_affect_other_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&folder.path().join("gold.db")));
    store.append(append("a", 0, &["1", "2"])).await.unwrap();
    let (gate, holder) = hold(&store).await;
    let calls =
        [append("b", 0, &["1"]), append("a", 1, &["x", "y"]), append("a", 2, &["3"]), append("a", 2, &["z"])];
    let calls: Vec<_> = calls
        .into_iter()
        .map(|call| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.append(call).await })
        })
        .collect();
    tokio::task::yield_now().await;
    gate.send(()).unwrap();
    let mut ends = Vec::new();
    for call in calls {
        ends.push(match call.await.unwrap() {
            Ok(end) => Ok(end.0),
            Err(StoreError::Conflict { end }) => Err(end.0),
            Err(other) => panic!("{other:?}"),
        });
    }
    holder.await.unwrap();
    assert_eq!(ends, [Ok(1), Err(2), Ok(3), Err(3)]);
}

#[tokio::test]
async fn a_stale_append_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("gold.db"));
    store.append(append("a", 0, &["1", "2"])).await.unwrap();
    for (after, bodies) in [(1, &["x", "y", "z"][..]), (0, &["x", "y", "z"]), (3, &["x"]), (9, &["x", "y"])] {
        let error = store.append(append("a", after, bodies)).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict { end: Seq(2) }), "{after}: {error:?}");
    }
    let error = store.append(append("missing", 1, &["x"])).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { end: Seq(0) }), "{error:?}");
    assert_eq!(store.read(&run_id("a"), Seq(0), 10).await.unwrap().len(), 2);
    assert!(store.head(&run_id("missing")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_failing_job_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&folder.path().join("gold.db")));
    let (gate, holder) = hold(&store).await;
    let (before, broken, after) = tokio::join!(
        store.append(append("a", 0, &["1"])),
        store.writer().write::<(), _>(WriteMode::DEFAULT, |_| Err(failing(ffi::SQLITE_TOOBIG))),
        async {
            gate.send(()).unwrap();
            store.append(append("b", 0, &["1"])).await
        },
    );
    holder.await.unwrap();
    assert_eq!((before.unwrap(), after.unwrap()), (Seq(1), Seq(1)));
    assert!(matches!(broken, Err(StoreError::Damaged { .. })), "{broken:?}");
    assert_eq!(store.append(append("a", 1, &["2"])).await.unwrap(), Seq(2));
}

#[tokio::test]
async fn after_a_disk_failure_writes_are_refused_but_reads_work() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("gold.db"));
    store.append(append("a", 0, &["1"])).await.unwrap();
    let failed =
        store.writer().write::<(), _>(WriteMode::DEFAULT, |_| Err(failing(ffi::SQLITE_IOERR_FSYNC))).await;
    assert!(matches!(failed, Err(StoreError::Unknown { .. })), "{failed:?}");
    let later = store.append(append("a", 1, &["2"])).await.unwrap_err();
    assert!(matches!(&later, StoreError::Damaged { detail } if detail.contains("restart")), "{later:?}");
    assert_eq!(store.read(&run_id("a"), Seq(0), 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_full_disk_is_reported_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("gold.db"));
    store.append(append("a", 0, &["1"])).await.unwrap();
    let pages = |most: i64| {
        store.writer().write(WriteMode::DEFAULT, move |work| {
            Ok(work.conn.pragma_update_and_check(None, "max_page_count", most, |row| row.get::<_, i64>(0))?)
        })
    };
    let now = pages(1).await.unwrap();
    let big = "x".repeat(1 << 20);
    let full = store.append(append("a", 1, &[&big])).await.unwrap_err();
    assert!(matches!(full, StoreError::Full { .. }), "{full:?}");
    assert_eq!(store.head(&run_id("a")).await.unwrap().unwrap().end, Seq(1));
    pages(now + 10_000).await.unwrap();
    assert_eq!(store.append(append("a", 1, &[&big])).await.unwrap(), Seq(2));
}

#[tokio::test]
async fn a_panic_of_the_writer_leaves_no_caller_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("gold.db"));
    let (panicked, beside) = tokio::join!(
        store.writer().write::<(), _>(WriteMode::DEFAULT, |_| panic!("on purpose")),
        store.append(append("a", 0, &["1"])),
    );
    assert!(matches!(panicked, Err(StoreError::Unknown { .. })), "{panicked:?}");
    assert!(matches!(beside, Err(StoreError::Unknown { .. } | StoreError::Damaged { .. })), "{beside:?}");
    let later = store.append(append("b", 0, &["1"])).await;
    assert!(matches!(later, Err(StoreError::Damaged { .. } | StoreError::Unknown { .. })), "{later:?}");
    assert!(store.head(&run_id("a")).await.unwrap().is_none());
}

#[tokio::test]
async fn dormant_tasks_do_not_slow_a_claim() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("gold.db"));
    let many = store.writer().write(WriteMode::DEFAULT, |work| {
        for number in 0..20_000 {
            let mut dormant = task(&format!("dormant-{number}"), Millis::NEVER);
            dormant.priority = 9;
            crate::tasks::put(work, &dormant, Expect::Absent)?;
        }
        Ok(())
    });
    many.await.unwrap();
    let ready = task("ready", Millis(1));
    assert_eq!(store.put_task(ready, Expect::Absent).await.unwrap(), Written::Done);
    let claim = ClaimRequest {
        owner: "me".to_owned(),
        pools: vec!["default".to_owned()],
        kind: None,
        limit: 4,
        now: Millis(100),
    };
    let steps = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&steps);
    let tick = move || {
        counter.fetch_add(10, Ordering::Relaxed);
        false
    };
    let mut conn = rusqlite::Connection::open(store.path()).unwrap();
    conn.progress_handler(10, Some(tick)).unwrap();
    let mut run_numbers = RunNumbers::default();
    let work = JobContext::new(&conn, &mut run_numbers, Millis(100));
    let claimed = crate::claim::claim(&work, &claim).unwrap();
    let steps = steps.load(Ordering::Relaxed);
    assert_eq!(claimed.tasks.len(), 1);
    assert_eq!(claimed.next_due, None);
    assert!(steps < 2_000, "a claim took {steps} steps of SQLite's virtual machine");
    let mine = TaskFilter { owner: Some("me".to_owned()), limit: 10, ..TaskFilter::default() };
    assert_eq!(store.tasks(mine).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_failed_commit_has_an_unknown_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&folder.path().join("gold.db")));
    let (gate, holder) = hold(&store).await;
    let (failed, beside) = tokio::join!(
        store.writer().write(WriteMode::DEFAULT, |work| {
            work.conn.execute_batch(
                "CREATE TEMP TABLE p (a PRIMARY KEY); \
                 CREATE TEMP TABLE c (a REFERENCES p DEFERRABLE INITIALLY DEFERRED); \
                 INSERT INTO c VALUES (1)",
            )?;
            Ok(())
        }),
        async {
            gate.send(()).unwrap();
            store.append(append("a", 0, &["1"])).await
        },
    );
    holder.await.unwrap();
    assert!(matches!(failed, Err(StoreError::Unknown { .. })), "{failed:?}");
    // The append shared the transaction or came after it, depending on the threads.
    let end = store.head(&run_id("a")).await.unwrap().map_or(Seq(0), |head| head.end);
    match beside {
        Ok(seq) => assert_eq!(seq, end),
        Err(error) => assert!(matches!(error, StoreError::Unknown { .. }) && end == Seq(0), "{error:?}"),
    }
    assert_eq!(store.append(append("b", 0, &["1"])).await.unwrap(), Seq(1));
}

#[tokio::test]
async fn a_run_of_five_steps_writes_few_rows() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("gold.db"));
    let writes = || store.writer().write(WriteMode::DEFAULT, |work| Ok(work.conn.total_changes()));
    let before = writes().await.unwrap();
    let row = |after| make::append_with_row("a", after);
    store.append(Append { tasks: vec![make::create(make::advance("a", "t"))], ..row(0) }).await.unwrap();
    let claim = ClaimRequest { pools: vec![make::advance_pool()], ..make::claim_at(Millis::NEVER) };
    let claimed = store.claim(claim).await.unwrap().tasks;
    assert_eq!(claimed.len(), 1);
    store.append(append("a", 1, &["run.claimed", "run.started"])).await.unwrap();
    for step in 0..5 {
        let before = writes().await.unwrap();
        store.append(append("a", 3 + step, &["step.completed"])).await.unwrap();
        assert_eq!(writes().await.unwrap() - before, 1);
    }
    let remove = TaskChange::Remove { task: claimed[0].id.clone() };
    store.append(Append { tasks: vec![remove], ..row(8) }).await.unwrap();
    assert_eq!(writes().await.unwrap() - before, 14);
}
