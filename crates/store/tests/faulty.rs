//! The effect of each fault: the caller's result, and the content of the store.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{NodeId, RunId, Seq};
use goldseam_store::faulty::{CallFault, Called, FaultPlan, FaultRates, StoreMethod};
use goldseam_store::{Append, FaultyStore, MemoryStore, Store, StoreError};

fn append(after: u64) -> Append {
    let run = RunId::new("r").unwrap();
    Append { run, after: Seq(after), bodies: vec!["{}".to_owned()], row: None, tasks: vec![] }
}

async fn length(store: &dyn Store) -> usize {
    store.read(&RunId::new("r").unwrap(), Seq::ZERO, 100).await.unwrap().len()
}

fn faulty(plan: FaultPlan) -> (FaultyStore, Arc<MemoryStore>) {
    let memory = Arc::new(MemoryStore::default());
    (FaultyStore::new(memory.clone(), plan), memory)
}

#[tokio::test]
async fn a_call_that_fails_before_has_no_effect() {
    let (store, memory) = faulty(FaultPlan::pass().at(1, CallFault::FailBefore));
    let failed = store.append(append(0)).await;
    assert!(matches!(failed, Err(StoreError::Busy { doing: "append", .. })), "{failed:?}");
    assert_eq!(length(&*memory).await, 0);
    assert_eq!(store.append(append(0)).await.unwrap(), Seq(1));
}

#[tokio::test]
async fn a_call_with_a_lost_reply_has_its_effect() {
    let (store, memory) = faulty(FaultPlan::pass().at(1, CallFault::LoseReply));
    let lost = store.append(append(0)).await;
    assert!(matches!(lost, Err(StoreError::Unknown { doing: "append", .. })), "{lost:?}");
    assert_eq!(length(&*memory).await, 1);
}

#[tokio::test]
async fn a_read_fails_before_instead_of_losing_its_reply() {
    let (store, _) = faulty(FaultPlan::pass().at(1, CallFault::LoseReply));
    let failed = store.now().await;
    assert!(matches!(failed, Err(StoreError::Busy { .. })), "{failed:?}");
    assert_eq!(store.calls(), [Called { op: StoreMethod::Now, fault: CallFault::FailBefore }]);
}

#[tokio::test]
async fn forget_may_lose_its_reply() {
    let (store, _) = faulty(FaultPlan::pass().at(1, CallFault::LoseReply));
    let lost = store.forget(&NodeId::new("n").unwrap()).await;
    assert!(matches!(lost, Err(StoreError::Unknown { doing: "forget", .. })), "{lost:?}");
}

#[tokio::test]
async fn the_feed_has_faults_too() {
    let (store, _) = faulty(
        FaultPlan::pass()
            .at(2, CallFault::FailBefore)
            .at(3, CallFault::FailBefore)
            .at(4, CallFault::FailBefore),
    );
    store.append(append(0)).await.unwrap();
    let feed = store.feed().unwrap();
    assert!(matches!(feed.events_after(None, 9).await, Err(StoreError::Busy { doing: "events_after", .. })));
    assert!(matches!(feed.latest().await, Err(StoreError::Busy { doing: "latest", .. })));
    assert!(matches!(feed.changed_runs(None).await, Err(StoreError::Busy { doing: "changed_runs", .. })));
    assert_eq!(feed.events_after(None, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_fault_can_select_the_nth_append() {
    let (store, memory) = faulty(FaultPlan::pass().at_append(2, CallFault::CrashBefore));
    assert_eq!(store.append(append(0)).await.unwrap(), Seq(1));
    store.now().await.unwrap();
    assert!(store.append(append(1)).await.is_err() && store.is_crashed());
    assert_eq!((length(&*memory).await, store.appends()), (1, 2));
}

#[tokio::test]
async fn a_crashed_node_never_reaches_the_store_again() {
    for (fault, done) in [(CallFault::CrashBefore, 0), (CallFault::CrashAfter, 1)] {
        let (store, memory) = faulty(FaultPlan::pass().at(1, fault));
        assert!(!store.is_crashed());
        assert!(store.append(append(0)).await.is_err());
        store.crashed().await;
        assert_eq!(length(&*memory).await, done);
        for _ in 0..3 {
            let dead = store.append(append(done as u64)).await.unwrap_err();
            assert!(dead.is_transient(), "{dead:?}");
        }
        assert_eq!((length(&*memory).await, store.count()), (done, 1));
    }
}

#[tokio::test]
async fn a_crash_ends_calls_that_wait() {
    let (store, _) = faulty(FaultPlan::pass());
    let store = Arc::new(store);
    let mark = store.changed(0).await.unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.changed(mark).await }
    });
    tokio::task::yield_now().await;
    store.crash();
    assert!(waiting.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_delayed_call_takes_effect_later() {
    let (store, memory) = faulty(FaultPlan::pass().at(1, CallFault::Delay(Duration::from_secs(60))));
    let store = Arc::new(store);
    let delayed = tokio::spawn({
        let store = store.clone();
        async move { store.append(append(0)).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(length(&*memory).await, 0);
    assert_eq!(delayed.await.unwrap().unwrap(), Seq(1));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_write_of_a_dead_node_conflicts() {
    let late = CallFault::DelayPastReply(Duration::from_secs(60));
    let (store, memory) = faulty(FaultPlan::pass().at(1, late).at(2, late));
    assert!(matches!(store.append(append(0)).await, Err(StoreError::Unknown { .. })));
    assert!(matches!(store.append(append(0)).await, Err(StoreError::Unknown { .. })));
    store.crash();
    assert_eq!(length(&*memory).await, 0);
    tokio::time::advance(Duration::from_secs(61)).await;
    memory.changed(1).await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(length(&*memory).await, 1, "of two writes to one position, one succeeds");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_faults() {
    let rates = FaultRates {
        fail_before: 100,
        lose_reply: 100,
        delay: 100,
        delay_past_reply: 100,
        delay_max: Duration::from_millis(50),
        ..FaultRates::default()
    };
    let mut traces = vec![];
    for seed in [7, 7, 8] {
        let (store, memory) = faulty(FaultPlan::seeded(seed, rates));
        for _ in 0..200 {
            let end = length(&*memory).await as u64;
            drop(store.append(append(end)).await);
            drop(store.now().await);
        }
        traces.push(store.calls());
    }
    assert_eq!(traces[0], traces[1]);
    assert_ne!(traces[0], traces[2]);
    let kinds = |wanted: fn(&CallFault) -> bool| traces[0].iter().filter(|call| wanted(&call.fault)).count();
    assert!(kinds(|fault| *fault == CallFault::LoseReply) > 5);
    assert!(kinds(|fault| matches!(fault, CallFault::DelayPastReply(_))) > 5);
    assert!(kinds(|fault| *fault == CallFault::Pass) > 200);
}
