//! Calls of every scenario fail once, in every way, on a real store, in real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use goldseam_sim::nth::{Backend, CaseVerdict, FAULTS, FaultCase, run_case};
use goldseam_sim::scenario::find;
use goldseam_store::faulty::CallFault;

/// Number of cases in parallel: most of their time they wait.
const PARALLEL: u64 = 12;

/// Most rounds until a fault comes late enough: on a busy machine a case beats and polls more often than others.
const ROUNDS_MAX: u64 = 4;

/// An empty store for one case, removed on drop.
trait FreshStore {
    fn url(&self) -> String;
}

/// A kind of store, and how many calls to test on it.
#[derive(Clone, Copy)]
struct Target {
    fresh: fn() -> Box<dyn FreshStore + Send + Sync>,
    /// Each fault is injected into one of this many calls.
    step: u64,
}

/// Runs a scenario with one fault.
async fn one(target: Target, scenario: &'static str, number: u64, fault: CallFault) -> CaseVerdict {
    let store = (target.fresh)();
    let case = FaultCase { scenario: find(scenario).unwrap(), number, fault, late_max: 0 };
    let verdict = run_case(Backend::Real(&store.url(), crate::open), case).await.unwrap();
    assert!(verdict.violations.is_empty(), "{scenario}, call {number}, {fault:?}: {:#?}", verdict.violations);
    verdict
}

/// Runs the cases from call `first` on, until the fault comes after the last call; returns the most appends before a
/// fault that came, and the number of such cases.
async fn every(target: Target, scenario: &'static str, first: u64, fault: CallFault) -> (u64, u64) {
    let next = Arc::new(AtomicU64::new(first));
    let last = Arc::new(AtomicU64::new(u64::MAX));
    let met = Arc::new(AtomicU64::new(0));
    let appends = Arc::new(AtomicU64::new(0));
    let tasks = (0..PARALLEL).map(|_| {
        let next = next.clone();
        let last = last.clone();
        let met = met.clone();
        let appends = appends.clone();
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(target.step, Ordering::Relaxed);
                if number > last.load(Ordering::Relaxed) {
                    return;
                }
                let verdict = one(target, scenario, number, fault).await;
                if verdict.calls < number {
                    last.fetch_min(number, Ordering::Relaxed);
                } else {
                    met.fetch_add(1, Ordering::Relaxed);
                    appends.fetch_max(verdict.appends, Ordering::Relaxed);
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    (appends.load(Ordering::Relaxed), met.load(Ordering::Relaxed))
}

async fn all(target: Target, scenario: &'static str) {
    let mut calm = u64::MAX;
    for _ in 0..3 {
        calm = calm.min(one(target, scenario, u64::MAX, CallFault::FailBefore).await.appends);
    }
    assert!(calm > 0, "{scenario} appends nothing");
    // One of `step` calls fails, so at most this many appends come after the last fault.
    let needed = calm.saturating_sub(target.step);
    for (first, fault) in (1..).zip(FAULTS) {
        let first = if target.step == 1 { 1 } else { first };
        let mut appends = 0;
        let mut met = 0;
        for _ in 0..ROUNDS_MAX {
            let round = every(target, scenario, first, fault).await;
            (appends, met) = (appends.max(round.0), met + round.1);
            if appends >= needed {
                break;
            }
        }
        assert!(
            met > 0 && appends >= needed,
            "{scenario}, {fault:?}: {met} met, the last after {appends} of {calm} appends"
        );
        println!("nth: {scenario} {fault:?} {met}, the last after {appends} of {calm} appends");
    }
}

macro_rules! scenarios {
    ($target:expr => $($name:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::nth_real::all($target, stringify!($name)).await;
            }
        )+
    };
}

mod sqlite {
    use super::FreshStore;

    struct File(tempfile::TempDir);

    impl FreshStore for File {
        fn url(&self) -> String {
            format!("sqlite:{}?durability=process", self.0.path().join("story.db").display())
        }
    }

    fn fresh() -> Box<dyn FreshStore + Send + Sync> {
        Box::new(File(tempfile::tempdir().unwrap()))
    }

    /// Every build injects each fault into one of four calls; with `GOLDSEAM_NTH=all`, into every call.
    fn step() -> u64 {
        if std::env::var("GOLDSEAM_NTH").is_ok_and(|which| which == "all") { 1 } else { 4 }
    }

    scenarios!(super::Target { fresh, step: step() } => saga, signal, sleep, child, jump, continue_as_new, parallel, question, cancel, once, remote, timeout);
}

mod postgres {
    use goldseam_store_postgres::testing::Schema;

    use super::FreshStore;

    impl FreshStore for Schema {
        fn url(&self) -> String {
            self.url()
        }
    }

    fn fresh() -> Box<dyn FreshStore + Send + Sync> {
        Box::new(Schema::fresh())
    }

    /// Scenarios are slower on a server, so every build injects each fault into one of 32 calls; with
    /// `GOLDSEAM_NTH=all`, into every call.
    fn step() -> u64 {
        if std::env::var("GOLDSEAM_NTH").is_ok_and(|which| which == "all") { 1 } else { 32 }
    }

    scenarios!(super::Target { fresh, step: step() } => saga, signal, sleep, child, jump, continue_as_new, parallel, question, cancel, once, remote, timeout);
}

mod object {
    fn all() -> bool {
        std::env::var("GOLDSEAM_NTH").is_ok_and(|which| which == "all")
    }

    mod fake {
        use goldseam_fake_s3::FakeS3;

        use crate::nth_real::{FreshStore, Target};

        impl FreshStore for FakeS3 {
            fn url(&self) -> String {
                format!("{}&requests=free", self.url("story"))
            }
        }

        fn fresh() -> Box<dyn FreshStore + Send + Sync> {
            Box::new(FakeS3::start().unwrap())
        }

        /// Fewer calls, as on Postgres.
        fn step() -> u64 {
            if super::all() { 1 } else { 16 }
        }

        scenarios!(Target { fresh, step: step() } => saga, signal, sleep, child, jump, continue_as_new, parallel, question, cancel, once, remote, timeout);
    }

    mod seaweedfs {
        use goldseam_store_object::testing::fresh_prefix;

        use crate::nth_real::{FreshStore, Target};

        struct Prefix(String);

        impl FreshStore for Prefix {
            fn url(&self) -> String {
                self.0.clone()
            }
        }

        fn fresh() -> Box<dyn FreshStore + Send + Sync> {
            let bucket = goldseam_testbed::seaweedfs::shared().unwrap();
            Box::new(Prefix(format!("{}&requests=free", bucket.url(&fresh_prefix()))))
        }

        fn step() -> u64 {
            if super::all() { 1 } else { 47 }
        }

        // The fake server runs all scenarios; the real server runs three.
        scenarios!(Target { fresh, step: step() } => saga, signal, parallel);
    }
}
