//! Requests of every scenario fail once, in every way, on their way to object storage or back.
//!
//! A call of the store makes many requests. The faults hit all of them: those of the node, of its client, and of the
//! final check.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goldseam_fake_s3::{FakeS3, RequestFault, S3Request};
use goldseam_sim::nth::{Backend, FaultCase, run_case};
use goldseam_sim::scenario::find;
use tokio::sync::Notify;

/// Number of cases in parallel: most of their time they wait.
const PARALLEL: u64 = 3;
/// Duration of an outage.
const CUT: Duration = Duration::from_secs(2);
/// Delay after which the client has given up and retried.
const TOO_LATE: Duration = Duration::from_millis(10_400);
/// Longer than `silence_max`.
const SLOW: Duration = Duration::from_millis(900);

/// Maximum number of parallel steps in a scenario.
const AT_ONCE: u32 = 4;

/// A fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Internal,
    InternalAfter,
    Dropped,
    DroppedAfter,
    SlowDown,
    Conflict,
    /// The request is delivered twice.
    Twice,
    Slow,
    /// The request is executed after its client has given up and retried.
    Late,
    /// All requests fail for a while, from this one on.
    Cut,
}

const WRONGS: [Wrong; 10] = [
    Wrong::Internal,
    Wrong::InternalAfter,
    Wrong::Dropped,
    Wrong::DroppedAfter,
    Wrong::SlowDown,
    Wrong::Conflict,
    Wrong::Twice,
    Wrong::Slow,
    Wrong::Late,
    Wrong::Cut,
];

impl Wrong {
    /// Returns the number of steps that may be repeated, because the fault delays a node for longer than `silence_max`.
    fn late_max(self) -> u32 {
        match self {
            Self::Slow | Self::Late | Self::Cut => AT_ONCE,
            _ => 0,
        }
    }

    fn fault(self) -> RequestFault {
        match self {
            Self::Internal => RequestFault::internal(),
            Self::InternalAfter => RequestFault::internal().after_commit(),
            Self::Dropped | Self::Cut => RequestFault::dropped(),
            Self::DroppedAfter => RequestFault::dropped().after_commit(),
            Self::SlowDown => RequestFault::slow_down(),
            Self::Conflict => RequestFault::conflict(),
            Self::Twice => RequestFault::twice(),
            Self::Slow => RequestFault::delayed(SLOW),
            Self::Late => RequestFault::delayed(TOO_LATE),
        }
    }
}

/// The request that fails, and its fault.
#[derive(Debug, Clone, Copy)]
struct FaultPoint {
    number: u64,
    wrong: Wrong,
}

/// A server with one fault.
struct Server {
    fake: FakeS3,
    /// Requests that were counted.
    count: Arc<AtomicU64>,
}

impl Server {
    fn with(point: FaultPoint) -> Self {
        let fake = FakeS3::start().unwrap();
        let count = Arc::new(AtomicU64::new(0));
        let cut = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(Notify::new());
        let outage = cut.clone();
        let outage_begun = begun.clone();
        tokio::spawn(async move {
            outage_begun.notified().await;
            tokio::time::sleep(CUT).await;
            outage.store(false, Ordering::Relaxed);
        });
        let counted = count.clone();
        let mut opened = false;
        fake.script(move |request: &S3Request| {
            // A node that cannot open its store does not start; other tests cover that.
            opened |= request.key.contains("/node/");
            if matches!(point.wrong, Wrong::Cut | Wrong::Late) && !opened {
                return None;
            }
            let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
            if point.wrong == Wrong::Cut {
                if number == point.number {
                    cut.store(true, Ordering::Relaxed);
                    begun.notify_one();
                }
                return cut.load(Ordering::Relaxed).then(|| point.wrong.fault());
            }
            (number == point.number).then(|| point.wrong.fault())
        });
        Self { fake, count }
    }

    fn url(&self) -> String {
        format!("{}&requests=free", self.fake.url("story"))
    }
}

/// Runs a scenario with one fault; returns the number of requests.
async fn one(scenario: &'static str, point: FaultPoint) -> u64 {
    let server = Server::with(point);
    let late_max = point.wrong.late_max();
    let case =
        FaultCase { scenario: find(scenario).unwrap(), number: u64::MAX, fault: STORE_IS_GOOD, late_max };
    let verdict = run_case(Backend::Real(&server.url(), crate::open), case).await;
    let verdict = verdict.unwrap_or_else(|error| panic!("{scenario}, {point:?}: {error}"));
    assert!(verdict.violations.is_empty(), "{scenario}, {point:?}: {:#?}", verdict.violations);
    server.count.load(Ordering::Relaxed)
}

/// Never injected: no scenario has `u64::MAX` calls.
const STORE_IS_GOOD: goldseam_store::faulty::CallFault = goldseam_store::faulty::CallFault::FailBefore;

/// Injects a fault into every `step`th request from `first` on; returns the number of cases.
async fn every(scenario: &'static str, first: u64, step: u64, wrong: Wrong) -> u64 {
    let next = Arc::new(AtomicU64::new(first));
    let last = Arc::new(AtomicU64::new(u64::MAX));
    let met = Arc::new(AtomicU64::new(0));
    let failed = Arc::new(Mutex::new(Vec::new()));
    let beside = if step == 1 { 5 * PARALLEL } else { PARALLEL };
    let tasks = (0..beside).map(|_| {
        let next = next.clone();
        let last = last.clone();
        let met = met.clone();
        let failed = failed.clone();
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(step, Ordering::Relaxed);
                if number > last.load(Ordering::Relaxed) {
                    return;
                }
                let result = tokio::spawn(one(scenario, FaultPoint { number, wrong })).await;
                match result {
                    Ok(requests) if requests < number => drop(last.fetch_min(number, Ordering::Relaxed)),
                    Ok(_) => drop(met.fetch_add(1, Ordering::Relaxed)),
                    Err(panicked) => failed.lock().unwrap().push((number, panicked)),
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let failed = std::mem::take(&mut *failed.lock().unwrap());
    assert!(failed.is_empty(), "{scenario}, {wrong:?}: {failed:?}");
    met.load(Ordering::Relaxed)
}

/// A scenario makes a few hundred requests, so every build injects each fault into some of them; with
/// `GOLDSEAM_NTH=all`, into every one.
async fn all(scenario: &'static str) {
    let every_one = std::env::var("GOLDSEAM_NTH").is_ok_and(|which| which == "all");
    for (first, wrong) in (1..).zip(WRONGS) {
        let (first, step) = match wrong {
            _ if every_one => (1, 1),
            // Takes as long as the client's timeout.
            Wrong::Late if scenario != "saga" => continue,
            _ => (first, STEP),
        };
        let met = every(scenario, first, step, wrong).await;
        assert!(met > 0, "{scenario}: no request met {wrong:?}");
        println!("nth: {scenario} Request{wrong:?} {met}");
    }
}

const STEP: u64 = 151;

macro_rules! scenarios {
    ($($name:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                all(stringify!($name)).await;
            }
        )+
    };
}

scenarios!(
    saga,
    signal,
    sleep,
    child,
    jump,
    continue_as_new,
    parallel,
    question,
    cancel,
    once,
    remote,
    timeout
);
