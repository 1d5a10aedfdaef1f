//! A closed store can be read and not changed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use goldseam_conformance::make::{append_with_row, claim_at, run, summary, task};
use goldseam_core::lock::{Ask, Lock};
use goldseam_core::{LockName, Millis, NodeId, Seq};
use goldseam_store::read_only::{Closed, ClosedStore};
use goldseam_store::{
    Append, Expect, LockFilter, MemoryStore, NodeRecord, NodeState, Row, RunFilter, Store, StoreError,
    StorePace,
};

#[track_caller]
fn is_refused<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    assert!(matches!(answer, Err(StoreError::Refused { code: "GS0404", .. })), "{answer:?}");
}

fn node() -> NodeRecord {
    let id = NodeId::new("n").unwrap();
    let name = "n".to_owned();
    let state = NodeState::Up;
    NodeRecord { id, name, started_at: Millis(0), workflows: Vec::new(), slots: 1, timing: None, state }
}

fn lock() -> Lock {
    let name = LockName::new("l").unwrap();
    let ask = Ask { name: &name, holder: "h", node: None, ttl: Duration::from_secs(1) };
    Lock::acquired(None, ask, Millis(0)).unwrap()
}

#[tokio::test]
async fn reads_go_on_and_writes_are_refused() {
    let memory = Arc::new(MemoryStore::default().at_pace(StorePace::remote(Duration::ZERO)));
    memory.put_foreign(&run("theirs"), "{}");
    let open: Arc<dyn Store> = memory;
    open.append(append_with_row("r", 0)).await.unwrap();
    open.append(Append { row: None, ..append_with_row("lost", 0) }).await.unwrap();
    open.put_lock(lock(), Expect::Absent).await.unwrap();
    open.beat(&node()).await.unwrap();
    open.put_task(task("t"), Expect::Absent).await.unwrap();
    let closed = Closed { code: "GS0404", what: "it was copied".to_owned(), hint: "start there".into() };
    let store = ClosedStore::new(Arc::clone(&open), closed);

    is_refused(store.append(append_with_row("r", 1)).await);
    is_refused(store.trim(&run("r"), Seq(1)).await);
    is_refused(store.put_task(task("u"), Expect::Absent).await);
    is_refused(store.claim(claim_at(Millis(i64::MAX - 1))).await);
    is_refused(store.put_lock(lock(), Expect::Absent).await);
    let row = store.head(&run("r")).await.unwrap().unwrap().row.unwrap();
    let expect = Expect::Version(row.version());
    is_refused(store.put_row(Row { summary: summary("r", 1), ..row }, expect).await);
    is_refused(store.beat(&node()).await);
    is_refused(store.forget(&node().id).await);

    assert_eq!(store.read(&run("r"), Seq::ZERO, 9).await.unwrap().len(), 1);
    let all = RunFilter { limit: 9, ..RunFilter::default() };
    assert_eq!(store.runs(all.clone()).await.unwrap(), open.runs(all).await.unwrap());
    assert_eq!(store.rowless(None, 9).await.unwrap(), [run("lost")]);
    assert_eq!(store.tasks(goldseam_conformance::make::any_task()).await.unwrap(), [task("t")]);
    assert_eq!(store.locks(LockFilter { limit: 9, ..LockFilter::default() }).await.unwrap(), [lock()]);
    assert_eq!(store.nodes().await.unwrap()[0].record, node());
    assert_eq!(store.pace(), open.pace());
    assert_eq!(store.feed().unwrap().latest().await.unwrap().as_deref(), Some("2"));
    assert_eq!(store.now().await.unwrap(), open.now().await.unwrap());
    assert_eq!(store.changed(0).await.unwrap(), open.changed(0).await.unwrap());

    let foreign = store.foreign().unwrap();
    let theirs = foreign.states(None, 9).await.unwrap();
    assert_eq!(theirs.items[0].id, run("theirs"));
    is_refused(foreign.swap(&run("theirs"), &theirs.items[0].version, "[]").await);
    assert_eq!(foreign.states(None, 9).await.unwrap(), theirs);
    let shown = format!("{store:?}");
    assert!(shown.contains("MemoryStore") && shown.contains("it was copied"), "{shown}");
}
