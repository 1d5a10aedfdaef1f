//! Faults that only the in-memory store can inject.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use goldseam_core::{Limits, Millis, NodeId, Payload, RunId, Seq};
use goldseam_store::faulty::{CallFault, FaultPlan, StoreMethod};
use goldseam_store::{
    Expect, FaultyStore, MemoryStore, NodeRecord, NodeSeen, NodeState, Store, Timing, Written,
};
use tokio::sync::Notify;

use super::{Copier, CopyOptions, CopyStage, Role, mark_of};
use goldseam_engine::ledger::config::Config;
use goldseam_engine::{Client, Clock, Context, Engine, Error, SystemClock};

async fn store_with(runs: &[&str]) -> (Arc<MemoryStore>, Client) {
    let store = Arc::new(MemoryStore::default());
    let client = Client::new(Arc::clone(&store) as Arc<dyn Store>);
    for run in runs {
        let input = Payload::parse("null", &Limits::default()).unwrap();
        client.start("flow", &RunId::new(run).unwrap(), &input).await.unwrap();
    }
    (store, client)
}

fn copier(from: &Client, to: &Client) -> Copier {
    Copier::new((from, "here"), (to, "there"), CopyOptions::default())
}

#[tokio::test]
async fn change_at_the_destination_is_found_and_prevents_handover() {
    let (from, here) = store_with(&["a", "b"]).await;
    let (to, there) = store_with(&[]).await;
    let victim = Arc::clone(&to);
    let once = AtomicBool::new(true);
    let harm = move |progress: super::CopyProgress| {
        if progress.stage == CopyStage::Tasks && once.swap(false, Ordering::SeqCst) {
            victim.corrupt(&RunId::new("a").unwrap(), Seq(1), "{}");
        }
    };
    let report = copier(&here, &there).watched_by(harm).copy().await.unwrap();
    assert!(!report.finished && !report.is_verified(), "{report:#?}");
    let found: Vec<_> = report.findings.iter().map(|found| (found.code, found.name.as_str())).collect();
    assert_eq!(found, [("GS0405", "a")]);
    let digests = report.digests.unwrap();
    assert_ne!(digests.from.to_string(), digests.to.to_string());
    let role = |mark: Option<super::Mark>| mark.unwrap().role;
    assert_eq!(role(mark_of(&*from).await.unwrap()), Role::CopyingTo);
    assert_eq!(role(mark_of(&*to).await.unwrap()), Role::FillingFrom);
}

#[tokio::test]
async fn node_without_its_lock_is_gone_after_a_long_silence() {
    let (store, clock) = MemoryStore::manual();
    let from = Arc::new(store);
    let here = Client::new(Arc::clone(&from) as Arc<dyn Store>);
    let (_, there) = store_with(&[]).await;
    let id = NodeId::new("n-1").unwrap();
    let name = "host:1".to_owned();
    let started_at = Millis(0);
    let state = NodeState::Up;
    let node =
        NodeRecord { id: id.clone(), name, started_at, workflows: vec![], slots: 1, timing: None, state };
    from.beat(&node).await.unwrap();
    let refused = copier(&here, &there).copy().await.unwrap_err();
    assert_eq!(refused.to_string(), "here is in use by node n-1 (host:1)");
    clock.advance(Duration::from_secs(60));
    assert_eq!(copier(&here, &there).copy().await.unwrap_err().code(), "GS0401", "its process lives");
    from.suspect(&id);
    from.beat(&node).await.unwrap();
    from.suspect(&id);
    assert_eq!(copier(&here, &there).copy().await.unwrap_err().code(), "GS0401", "it has just beaten");
    let slow = Some(Timing { beat: Duration::from_secs(30), silence_max: Duration::from_secs(150) });
    from.beat(&NodeRecord { timing: slow, ..node.clone() }).await.unwrap();
    from.suspect(&id);
    clock.advance(Duration::from_secs(149));
    assert_eq!(copier(&here, &there).copy().await.unwrap_err().code(), "GS0401", "it trusts its ownership");
    from.beat(&node).await.unwrap();
    from.suspect(&id);
    clock.advance(Duration::from_secs(30));
    assert!(copier(&here, &there).copy().await.unwrap().is_verified());
}

#[tokio::test]
async fn log_with_too_many_lost_events_is_left_behind() {
    let (from, here) = store_with(&["a", "b"]).await;
    let (to, there) = store_with(&[]).await;
    let run = RunId::new("a").unwrap();
    let body = from.read(&run, Seq::ZERO, 1).await.unwrap().remove(0).body;
    let append = |after: u64, count: usize| goldseam_store::Append {
        run: run.clone(),
        after: Seq(after),
        bodies: vec![body.clone(); count],
        row: None,
        tasks: vec![],
    };
    from.append(append(1, 10_002)).await.unwrap();
    (2..=10_002).for_each(|seq| assert!(from.lose_event(&run, Seq(seq))));
    let report = copier(&here, &there).copy().await.unwrap();
    assert!(report.finished && !report.is_verified(), "{report:#?}");
    assert_eq!((report.runs.copied, report.runs.left_behind), (1, 1));
    assert_eq!(report.findings[0].code, "K1");
    assert_eq!(to.head(&run).await.unwrap(), None);
}

/// A store by the machine's clock, and a function that marks it as moved.
async fn closing() -> (Arc<MemoryStore>, impl AsyncFn()) {
    let store = Arc::new(MemoryStore::new(Arc::new(|| SystemClock.now())));
    let closed = Arc::clone(&store);
    let close = async move || {
        let role = Role::MovedTo;
        let other = "there".to_owned();
        let copy = "1".to_owned();
        let mark = super::Mark { role, other, copy, since: Millis(1) };
        let lock = goldseam_engine::ledger::copy_mark::Marked::default().next(Some(&mark), Millis(1));
        assert_eq!(closed.put_lock(lock, Expect::Absent).await.unwrap(), Written::Done);
    };
    (store, close)
}

/// Polls `probe` until it holds, for at most 20 seconds.
async fn eventually(mut probe: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !probe().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap();
}

#[tokio::test]
async fn node_without_beats_begins_nothing_in_a_closed_store() {
    let (store, close) = closing().await;
    let door = Arc::new(Notify::new());
    let second = Arc::new(AtomicBool::new(false));
    let opened = Arc::clone(&door);
    let seen = Arc::clone(&second);
    let work = move |ctx: Context, (): ()| {
        let door = Arc::clone(&opened);
        let second = Arc::clone(&seen);
        async move {
            let wait = async || {
                door.notified().await;
                Ok::<(), Error>(())
            };
            ctx.step("first", wait).await?;
            ctx.step("second", async || Ok::<bool, Error>(second.swap(true, Ordering::SeqCst))).await?;
            Ok::<(), Error>(())
        }
    };
    let beat = Duration::from_millis(5);
    let silence_max = Duration::from_millis(20);
    let config =
        Config { beat, silence_max, watch: Duration::from_secs(3600), sweep: None, ..Config::default() };
    let link = Arc::new(FaultyStore::new(Arc::clone(&store) as Arc<dyn Store>, FaultPlan::pass()));
    let shared = Arc::clone(&link) as Arc<dyn Store>;
    let engine = Engine::builder(shared).config(config).workflow("flow", work).start().await.unwrap();
    engine.start("flow", "a", &()).await.unwrap();
    // Its beats fail, so it soon no longer trusts its ownership.
    link.follow(FaultPlan::pass().every(StoreMethod::Beat, CallFault::FailBefore));
    let born = SystemClock.elapsed();
    eventually(async || SystemClock.elapsed() > born + silence_max * 2).await;
    close().await;
    let input = Payload::parse("null", &Limits::default()).unwrap();
    let late = RunId::new("late").unwrap();
    engine.client().start("flow", &late, &input).await.unwrap();
    door.notify_one();
    eventually(async || engine.live_runs() == 0).await;
    assert!(!second.load(Ordering::SeqCst));
    assert_eq!(engine.client().get(&late).await.unwrap().status, goldseam_core::Status::Queued);
    engine.crash();
}

#[tokio::test]
async fn node_that_returns_to_a_closed_store_ends() {
    let (store, close) = closing().await;
    let beat = Duration::from_millis(5);
    let silence_max = Duration::from_millis(20);
    let config = Config { beat, silence_max, sweep: None, ..Config::default() };
    let link = Arc::new(FaultyStore::new(Arc::clone(&store) as Arc<dyn Store>, FaultPlan::pass()));
    let shared = Arc::clone(&link) as Arc<dyn Store>;
    let engine = Engine::builder(shared).config(config).start().await.unwrap();
    // The next successful beat comes late.
    link.follow(FaultPlan::pass().every(StoreMethod::Beat, CallFault::FailBefore));
    let gone = SystemClock.elapsed();
    close().await;
    eventually(async || SystemClock.elapsed() > gone + silence_max * 2).await;
    link.follow(FaultPlan::pass());
    let over = |seen: &NodeSeen| seen.record.state == NodeState::Gone;
    eventually(async || store.nodes().await.unwrap().iter().all(over)).await;
    drop(engine);
}
