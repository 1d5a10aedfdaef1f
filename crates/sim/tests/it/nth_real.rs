//! Every call of every story fails once, in every way, on a real store, in real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use goldseam_sim::nth::{Backend, Case, FAULTS, tell};
use goldseam_sim::scenario::find;
use goldseam_store::faulty::Fault;

/// Cases told side by side: most of their time they wait.
const BESIDE: u64 = 12;

/// An empty store for one story; gone once this is dropped.
trait Place {
    fn url(&self) -> String;
}

/// Where stories are told.
#[derive(Clone, Copy)]
struct Stage {
    fresh: fn() -> Box<dyn Place + Send + Sync>,
    /// Each fault meets one call out of so many.
    step: u64,
}

async fn one(stage: Stage, (scenario, number, fault): (&'static str, u64, Fault)) -> u64 {
    let place = (stage.fresh)();
    let case = Case { scenario: find(scenario).unwrap(), number, fault, late_max: 0 };
    let verdict = tell(Backend::Real(&place.url(), crate::open), case).await.unwrap();
    assert!(verdict.violations.is_empty(), "{scenario}, call {number}, {fault:?}: {:#?}", verdict.violations);
    verdict.calls
}

/// Tells every case, from the first one on, until the fault comes after the last call; returns which was the last that
/// was met, and how many were.
async fn every(stage: Stage, scenario: &'static str, (first, fault): (u64, Fault)) -> (u64, u64) {
    let (next, last) = (Arc::new(AtomicU64::new(first)), Arc::new(AtomicU64::new(u64::MAX)));
    let met = Arc::new(AtomicU64::new(0));
    let tellers = (0..BESIDE).map(|_| {
        let (next, last, met) = (next.clone(), last.clone(), met.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(stage.step, Ordering::Relaxed);
                if number > last.load(Ordering::Relaxed) {
                    return;
                }
                if one(stage, (scenario, number, fault)).await < number {
                    last.fetch_min(number, Ordering::Relaxed);
                } else {
                    met.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    });
    for teller in tellers.collect::<Vec<_>>() {
        teller.await.unwrap();
    }
    (last.load(Ordering::Relaxed) - 1, met.load(Ordering::Relaxed))
}

async fn all(stage: Stage, scenario: &'static str) {
    let calm = one(stage, (scenario, u64::MAX, Fault::FailBefore)).await;
    for (first, fault) in (1..).zip(FAULTS) {
        let first = if stage.step == 1 { 1 } else { first };
        let (last, met) = every(stage, scenario, (first, fault)).await;
        // How often a node beats and looks differs from one telling to the next; what its run needs does not.
        assert!(
            met > 0 && last >= calm / 3,
            "{scenario}, {fault:?}: {met} met, up to {last} of {calm} calls"
        );
        println!("nth: {scenario} {fault:?} {met}");
    }
}

macro_rules! stories {
    ($stage:expr => $($name:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::nth_real::all($stage, stringify!($name)).await;
            }
        )+
    };
}

mod sqlite {
    use super::Place;

    struct File(tempfile::TempDir);

    impl Place for File {
        fn url(&self) -> String {
            format!("sqlite:{}?durability=process", self.0.path().join("story.db").display())
        }
    }

    fn fresh() -> Box<dyn Place + Send + Sync> {
        Box::new(File(tempfile::tempdir().unwrap()))
    }

    /// Every build lets each way of failing meet one call out of four, each way others; with `GOLDSEAM_NTH=all` it
    /// meets every one.
    fn step() -> u64 {
        if std::env::var("GOLDSEAM_NTH").is_ok_and(|which| which == "all") { 1 } else { 4 }
    }

    stories!(super::Stage { fresh, step: step() } => saga, signal, sleep, child, jump, continue_as_new, parallel, question, cancel, once, remote);
}

mod postgres {
    use goldseam_store_postgres::testing::Schema;

    use super::Place;

    impl Place for Schema {
        fn url(&self) -> String {
            self.url()
        }
    }

    fn fresh() -> Box<dyn Place + Send + Sync> {
        Box::new(Schema::fresh())
    }

    /// A story costs a server far more than a file, so here each way of failing meets one call out of 32, each way
    /// others; with `GOLDSEAM_NTH=all` it meets every one.
    fn step() -> u64 {
        if std::env::var("GOLDSEAM_NTH").is_ok_and(|which| which == "all") { 1 } else { 32 }
    }

    stories!(super::Stage { fresh, step: step() } => saga, signal, sleep, child, jump, continue_as_new, parallel, question, cancel, once, remote);
}

mod object {
    fn all() -> bool {
        std::env::var("GOLDSEAM_NTH").is_ok_and(|which| which == "all")
    }

    mod fake {
        use goldseam_fake_s3::FakeS3;

        use crate::nth_real::{Place, Stage};

        impl Place for FakeS3 {
            fn url(&self) -> String {
                format!("{}&requests=free", self.url("story"))
            }
        }

        fn fresh() -> Box<dyn Place + Send + Sync> {
            Box::new(FakeS3::start().unwrap())
        }

        /// What is said of Postgres holds here too.
        fn step() -> u64 {
            if super::all() { 1 } else { 16 }
        }

        stories!(Stage { fresh, step: step() } => saga, signal, sleep, child, jump, continue_as_new, parallel, question, cancel, once, remote);
    }

    mod seaweedfs {
        use goldseam_store_object::testing::fresh_prefix;

        use crate::nth_real::{Place, Stage};

        struct Prefix(String);

        impl Place for Prefix {
            fn url(&self) -> String {
                self.0.clone()
            }
        }

        fn fresh() -> Box<dyn Place + Send + Sync> {
            let bucket = goldseam_testbed::seaweedfs::shared().unwrap();
            Box::new(Prefix(format!("{}&requests=free", bucket.url(&fresh_prefix()))))
        }

        fn step() -> u64 {
            if super::all() { 1 } else { 47 }
        }

        // All of them are told on the fake server; here it is a real one that answers.
        stories!(Stage { fresh, step: step() } => saga, signal, parallel);
    }
}
