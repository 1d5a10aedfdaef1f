//! Every call of some stories fails once, in every way, on a real file, in real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use goldseam_sim::nth::{Backend, Case, FAULTS, tell};
use goldseam_sim::scenario::find;
use goldseam_store::faulty::Fault;

/// Cases told side by side: most of their time they wait.
const BESIDE: u64 = 12;

async fn one(scenario: &'static str, number: u64, fault: Fault) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("story.db");
    let case = Case { scenario: find(scenario).unwrap(), number, fault };
    let verdict = tell(Backend::Sqlite(&file), case).await.unwrap();
    assert!(verdict.violations.is_empty(), "{scenario}, call {number}, {fault:?}: {:#?}", verdict.violations);
    verdict.calls
}

/// Tells every case until the fault comes after the last call.
async fn every(scenario: &'static str, fault: Fault) -> u64 {
    let (next, last) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(u64::MAX)));
    let tellers = (0..BESIDE).map(|_| {
        let (next, last) = (next.clone(), last.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number > last.load(Ordering::Relaxed) {
                    return;
                }
                if one(scenario, number, fault).await < number {
                    last.fetch_min(number, Ordering::Relaxed);
                }
            }
        })
    });
    for teller in tellers.collect::<Vec<_>>() {
        teller.await.unwrap();
    }
    last.load(Ordering::Relaxed) - 1
}

async fn all(scenario: &'static str) {
    for fault in FAULTS {
        let cases = every(scenario, fault).await;
        assert!(cases > 5, "{scenario} made only {cases} calls");
    }
}

macro_rules! stories {
    ($($name:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() { all(stringify!($name)).await; })+
    };
}

stories!(saga, signal, sleep, child, jump, continue_as_new, parallel, question, cancel, once, remote);
