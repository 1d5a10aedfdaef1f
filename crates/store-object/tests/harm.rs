//! Objects that are removed or put there past the store: nothing is filled in, nobody's state is written over. And a
//! process that dies between two requests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use goldseam_core::task::Task;
use goldseam_core::{BranchId, Millis, RunId, Seq, Status};
use goldseam_fake_s3::{FakeS3, Fault, Op};
use goldseam_store::conformance::make::{
    advance, append, append_with, append_with_row, create, run, task_id,
};
use goldseam_store::{Append, Store, StoreError, TaskChange, TaskFilter};
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
async fn a_log_whose_first_batch_was_removed_is_not_begun_anew() {
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
async fn a_batch_that_was_removed_from_the_middle_is_a_gap_and_stays_one() {
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
async fn without_its_row_too_a_log_is_found_to_its_end() {
    let fake = FakeS3::start().unwrap();
    let run = three_batches(&fake).await;
    fake.delete_raw("s/workflow/r/state.json");
    fake.delete_raw("s/workflow/r/log/0000000001");
    let head = open(&fake).await.head(&run).await.unwrap().unwrap();
    assert_eq!((head.end, head.row), (Seq(3), None));
}

#[tokio::test]
async fn a_run_is_not_started_over_the_state_of_somebody_elses_workflow() {
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
async fn what_could_not_follow_an_append_follows_later() {
    let fake = FakeS3::start().unwrap();
    let store = open(&fake).await;
    let hints = ["/state.json", "/task/"];
    fake.script(move |request| {
        let is_hint = request.op == Op::Put && hints.iter().any(|hint| request.key.contains(hint));
        is_hint.then(Fault::internal)
    });
    let tasks = vec![create(advance("r", "own"))];
    let append = Append { tasks, ..append_with_row("r", 0) };
    assert_eq!(store.append(append).await.unwrap(), Seq(1), "the log has it, whatever becomes of the rest");
    fake.clear_faults();
    let done = |key: &str| {
        fake.wait_for_log(|log| {
            log.iter().any(|line| {
                line.request.op == Op::Put && line.request.key.ends_with(key) && line.status == Some(200)
            })
        })
    };
    assert!(done("/task/own") && done("/state.json"));
    let head = open(&fake).await.head(&run("r")).await.unwrap().unwrap();
    assert_eq!(head.row.and_then(|row| row.task), Some(task_id("own")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_could_not_be_woken_is_woken_later() {
    let fake = FakeS3::start().unwrap();
    let store = open(&fake).await;
    let tasks = vec![create(Task { run_at: Millis::NEVER, ..advance("r", "own") })];
    store.append(Append { tasks, ..append_with_row("r", 0) }).await.unwrap();
    fake.script(|request| (request.op == Op::Put && request.key.contains("/task/")).then(Fault::internal));
    store.append(append_with("r", 1, vec![TaskChange::Wake { at: Millis(1) }])).await.unwrap();
    fake.clear_faults();
    fake.forget_log();
    let is_woken = |line: &goldseam_fake_s3::Logged| {
        line.request.op == Op::Put && line.request.key.ends_with("/task/own") && line.status == Some(200)
    };
    assert!(fake.wait_for_log(|log| log.iter().any(is_woken)));
    let found = TaskFilter { id: Some(task_id("own")), limit: 1, ..TaskFilter::default() };
    assert_eq!(open(&fake).await.tasks(found).await.unwrap()[0].run_at, Millis(1));
}

/// The markers of runs that are not over.
fn markers(fake: &FakeS3) -> Vec<String> {
    fake.objects().into_keys().filter(|key| key.starts_with("s/active/")).collect()
}

#[tokio::test]
async fn a_run_that_goes_on_before_its_row_says_it_was_over_keeps_a_marker() {
    let fake = FakeS3::start().unwrap();
    let (finisher, reviver) = (open(&fake).await, open(&fake).await);
    finisher.append(append_with_row("r", 0)).await.unwrap();
    let first = markers(&fake);
    assert_eq!(first.len(), 1);
    assert!(reviver.head(&run("r")).await.unwrap().is_some());
    fake.script(|request| (request.op == Op::Put && request.key.ends_with("state.json")).then(Fault::denied));
    let mut over = append_with_row("r", 1);
    over.row.as_mut().unwrap().status = Status::Completed;
    finisher.append(over).await.unwrap();
    let mut goes_on = append_with_row("r", 2);
    goes_on.row.as_mut().unwrap().branch = BranchId(2);
    reviver.append(goes_on).await.unwrap();
    assert_eq!(markers(&fake).len(), 2, "{first:?} and the one of its second life: {:?}", markers(&fake));
    drop(reviver);
    fake.clear_faults();
    let head = finisher.head(&run("r")).await.unwrap().unwrap();
    assert_eq!((head.end, head.row.unwrap().summary.status), (Seq(3), Status::Completed));
    assert_eq!(markers(&fake).len(), 1, "the one of its second life: {:?}", fake.objects().keys());
}

#[tokio::test]
async fn a_foreign_state_that_is_no_text_is_passed_over() {
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
    assert!(report.is_sound(), "what is not ours is no damage of ours: {:?}", report.complaints);
    assert_eq!(report.runs, 0);
}

#[tokio::test]
async fn a_batch_that_is_garbage_shows_where_it_is_and_the_log_goes_on() {
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
        "nothing takes the place of what was lost"
    );
}
