//! Objects that are removed or written past the store: the store fills no gap and overwrites no foreign state. And a
//! process that dies between two requests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use goldseam_conformance::make::{advance, append, append_with, append_with_row, create, run, task_id};
use goldseam_core::task::Task;
use goldseam_core::{BranchId, Millis, RunId, Seq, Status, Summary};
use goldseam_fake_s3::{FakeS3, Match, RequestFault, RequestKind, ServerClock};
use goldseam_store::unproven::ACTIVE;
use goldseam_store::{
    Append, Expect, Row, RunFilter, RunOrder, Store, StoreError, TaskChange, TaskFilter, Written,
};
use goldseam_store_object::BucketStore;

async fn open(fake: &FakeS3) -> BucketStore {
    BucketStore::open_url(&fake.url("s")).await.unwrap()
}

/// A run with three batches, each of one event, and a row that knows them.
async fn three_batches(fake: &FakeS3) -> RunId {
    let store = open(fake).await;
    for after in 0..3 {
        store.append(append_with_row("r", after)).await.unwrap();
    }
    run("r")
}

#[tokio::test]
async fn a_log_without_its_first_batch_does_not_begin_again() {
    let fake = FakeS3::start().unwrap();
    let run = three_batches(&fake).await;
    fake.delete_raw("s/workflow/r/log/0000000001");
    let store = open(&fake).await;
    let begun = store.append(append_with_row("r", 0)).await;
    assert!(matches!(begun, Err(StoreError::Conflict { end: Seq(3) })), "{begun:?}");
    let left = store.read(&run, Seq::ZERO, 9).await.unwrap();
    assert_eq!(left.iter().map(|record| record.seq.0).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn a_removed_batch_stays_a_gap() {
    let fake = FakeS3::start().unwrap();
    let run = three_batches(&fake).await;
    fake.delete_raw("s/workflow/r/log/0000000002");
    let store = open(&fake).await;
    let stale = store.append(append("r", 1, &["x"])).await;
    assert!(matches!(stale, Err(StoreError::Conflict { end: Seq(3) })), "{stale:?}");
    assert_eq!(store.append(append("r", 3, &["d"])).await.unwrap(), Seq(4));
    let left = store.read(&run, Seq::ZERO, 9).await.unwrap();
    assert_eq!(left.iter().map(|record| record.seq.0).collect::<Vec<_>>(), [1, 3, 4]);
    assert!(!fake.objects().contains_key("s/workflow/r/log/0000000002"));
}

#[tokio::test]
async fn finds_the_end_of_a_log_without_its_row() {
    let fake = FakeS3::start().unwrap();
    let run = three_batches(&fake).await;
    fake.delete_raw("s/workflow/r/state.json");
    fake.delete_raw("s/workflow/r/log/0000000001");
    let head = open(&fake).await.head(&run).await.unwrap().unwrap();
    assert_eq!((head.end, head.row), (Seq(3), None));
}

#[tokio::test]
async fn a_run_does_not_overwrite_a_foreign_state() {
    let fake = FakeS3::start().unwrap();
    let theirs = r#"{"id": "r", "status": "running", "orchestrator_task_id": "t"}"#;
    fake.put_raw("s/workflow/r/state.json", theirs);
    let store = open(&fake).await;
    let started = store.append(append_with_row("r", 0)).await;
    assert!(matches!(started, Err(StoreError::Refused { code: "GS0222", .. })), "{started:?}");
    assert_eq!(fake.objects()["s/workflow/r/state.json"], theirs.as_bytes());
    assert!(!fake.objects().keys().any(|key| key.contains("/log/")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_and_tasks_that_failed_after_an_append_follow_later() {
    let fake = FakeS3::start().unwrap();
    let store = open(&fake).await;
    let hints = ["/state.json", "/task/"];
    fake.script(move |request| {
        let is_hint = request.op == RequestKind::Put && hints.iter().any(|hint| request.key.contains(hint));
        is_hint.then(RequestFault::internal)
    });
    let tasks = vec![create(advance("r", "own"))];
    let append = Append { tasks, ..append_with_row("r", 0) };
    assert_eq!(store.append(append).await.unwrap(), Seq(1), "the append is done once its batch is stored");
    fake.clear_faults();
    let done = |key: &str| {
        fake.wait_for_log(|log| {
            log.iter().any(|line| {
                line.request.op == RequestKind::Put
                    && line.request.key.ends_with(key)
                    && line.status == Some(200)
            })
        })
    };
    assert!(done("/task/own") && done("/state.json"));
    let head = open(&fake).await.head(&run("r")).await.unwrap().unwrap();
    assert_eq!(head.row.and_then(|row| row.task), Some(task_id("own")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_wake_up_is_repeated_later() {
    let fake = FakeS3::start().unwrap();
    let store = open(&fake).await;
    let tasks = vec![create(Task { run_at: Millis::NEVER, ..advance("r", "own") })];
    store.append(Append { tasks, ..append_with_row("r", 0) }).await.unwrap();
    fake.script(|request| {
        (request.op == RequestKind::Put && request.key.contains("/task/")).then(RequestFault::internal)
    });
    store.append(append_with("r", 1, vec![TaskChange::Wake { at: Millis(1) }])).await.unwrap();
    fake.clear_faults();
    fake.forget_log();
    let is_woken = |line: &goldseam_fake_s3::Logged| {
        line.request.op == RequestKind::Put
            && line.request.key.ends_with("/task/own")
            && line.status == Some(200)
    };
    assert!(fake.wait_for_log(|log| log.iter().any(is_woken)));
    let found = TaskFilter { id: Some(task_id("own")), limit: 1, ..TaskFilter::default() };
    assert_eq!(open(&fake).await.tasks(found).await.unwrap()[0].run_at, Millis(1));
}

/// The markers of active runs.
fn markers(fake: &FakeS3) -> Vec<String> {
    fake.objects().into_keys().filter(|key| key.starts_with("s/active/")).collect()
}

#[tokio::test]
async fn a_run_reactivated_before_its_row_ends_keeps_a_marker() {
    let fake = FakeS3::start().unwrap();
    let finisher = open(&fake).await;
    let reviver = open(&fake).await;
    finisher.append(append_with_row("r", 0)).await.unwrap();
    let first = markers(&fake);
    assert_eq!(first.len(), 1);
    assert!(reviver.head(&run("r")).await.unwrap().is_some());
    fake.script(|request| {
        (request.op == RequestKind::Put && request.key.ends_with("state.json")).then(RequestFault::denied)
    });
    let mut ended = append_with_row("r", 1);
    ended.row.as_mut().unwrap().status = Status::Completed;
    finisher.append(ended).await.unwrap();
    let mut reactivated = append_with_row("r", 2);
    reactivated.row.as_mut().unwrap().branch = BranchId(2);
    reviver.append(reactivated).await.unwrap();
    assert_eq!(markers(&fake).len(), 2, "{first:?} and the marker of the reactivation: {:?}", markers(&fake));
    drop(reviver);
    fake.clear_faults();
    let head = finisher.head(&run("r")).await.unwrap().unwrap();
    assert_eq!((head.end, head.row.unwrap().summary.status), (Seq(3), Status::Completed));
    assert_eq!(markers(&fake).len(), 1, "the marker of the reactivation: {:?}", fake.objects().keys());
}

/// A run that stopped with this status and was reactivated by a process that died before it wrote the row.
async fn reactivated_without_its_row(fake: &FakeS3, status: Status, branch: BranchId) -> Summary {
    let reviver = open(fake).await;
    reviver.append(append_with_row("r", 0)).await.unwrap();
    let mut stopped = append_with_row("r", 1);
    stopped.row.as_mut().unwrap().status = status;
    reviver.append(stopped).await.unwrap();
    fake.script(|request| {
        (request.op == RequestKind::Put && request.key.ends_with("state.json")).then(RequestFault::denied)
    });
    let mut reactivated = append_with_row("r", 2);
    reactivated.row.as_mut().unwrap().branch = branch;
    let row = reactivated.row.clone().unwrap();
    reviver.append(reactivated).await.unwrap();
    drop(reviver);
    fake.clear_faults();
    *row
}

#[tokio::test]
async fn a_run_whose_process_died_between_its_reactivation_and_its_row_is_found() {
    for (status, branch) in [
        (Status::Failed, BranchId(2)),
        (Status::Cancelled, BranchId(2)),
        (Status::Parked, BranchId::ROOT),
        (Status::Paused, BranchId::ROOT),
    ] {
        let fake = FakeS3::start().unwrap();
        let row = reactivated_without_its_row(&fake, status, branch).await;
        let active = || RunFilter {
            statuses: ACTIVE.to_vec(),
            order: RunOrder::Oldest,
            limit: 10,
            ..RunFilter::default()
        };
        let page = open(&fake).await.runs(active()).await.unwrap();
        assert_eq!((page.items.len(), page.unreadable.len()), (0, 0), "its row may be under way");
        fake.set_clock(ServerClock::Running { ahead: 3_600_000 });
        let store = open(&fake).await;
        store.rowless(None, 10).await.unwrap();
        let page = store.runs(active()).await.unwrap();
        let late: Vec<&str> = page.unreadable.iter().map(|found| found.key.as_str()).collect();
        assert_eq!((late, page.items.len()), (vec!["r"], 0), "{status}");
        let late = store.head(&run("r")).await.unwrap().unwrap().row.unwrap();
        let expect = Expect::Version(late.version());
        assert_eq!(store.put_row(Row { summary: row, ..late }, expect).await.unwrap(), Written::Done);
        let page = store.runs(active()).await.unwrap();
        assert_eq!((page.items.len(), page.unreadable.len()), (1, 0), "{status}");
    }
}

#[tokio::test]
async fn a_marker_of_a_reactivation_that_never_happened_is_removed() {
    for (status, left) in [(Status::Failed, 0), (Status::Paused, 1)] {
        let fake = FakeS3::start().unwrap();
        let store = open(&fake).await;
        store.append(append_with_row("r", 0)).await.unwrap();
        let mut stopped = append_with_row("r", 1);
        stopped.row.as_mut().unwrap().status = status;
        store.append(stopped).await.unwrap();
        fake.fail(Match::any().op(RequestKind::Put).key("/log/"), RequestFault::denied());
        store.append(append_with_row("r", 2)).await.unwrap_err();
        fake.clear_faults();
        assert_eq!(markers(&fake).len(), left + 1);
        fake.set_clock(ServerClock::Running { ahead: 3_600_000 });
        open(&fake).await.rowless(None, 10).await.unwrap();
        assert_eq!(markers(&fake).len(), left, "{status}: {:?}", markers(&fake));
    }
}

#[tokio::test]
async fn a_foreign_state_that_is_not_text_is_unreadable() {
    let fake = FakeS3::start().unwrap();
    let store = open(&fake).await;
    fake.put_raw("s/workflow/legacy-7/state.json", b"{\"customer\": \"M\xfcller\"}".as_slice());
    fake.put_raw("s/workflow/legacy-8/state.json", r#"{"status": "running"}"#);
    fake.put_raw("s/workflow/junk/notes.txt", "not ours");
    let page = store.foreign().unwrap().states(None, 9).await.unwrap();
    assert_eq!(page.items.iter().map(|state| state.id.as_str()).collect::<Vec<_>>(), ["legacy-8"]);
    assert_eq!(page.unreadable.iter().map(|found| found.key.as_str()).collect::<Vec<_>>(), ["legacy-7"]);
    let report =
        goldseam_store_object::check(goldseam_store_object::url::parse(&fake.url("s")).unwrap()).await;
    let report = report.unwrap();
    assert!(report.is_sound(), "foreign objects are not damage: {:?}", report.complaints);
    assert_eq!(report.runs, 0);
}

#[tokio::test]
async fn a_damaged_batch_shows_in_place_and_the_log_continues() {
    let fake = FakeS3::start().unwrap();
    let run = three_batches(&fake).await;
    for (batch, end) in [("0000000002", 3), ("0000000003", 3)] {
        fake.put_raw(&format!("s/workflow/r/log/{batch}"), b"\xfc garbage".as_slice());
        let store = open(&fake).await;
        assert_eq!(store.head(&run).await.unwrap().unwrap().end, Seq(end));
        let read = store.read(&run, Seq::ZERO, 9).await.unwrap();
        assert_eq!(read.iter().map(|record| record.seq.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(read[1].body.starts_with('\u{fffd}'), "{read:?}");
    }
    let store = open(&fake).await;
    assert_eq!(
        store.append(append("r", 3, &["d"])).await.unwrap(),
        Seq(4),
        "an append does not replace the damaged batch"
    );
}
