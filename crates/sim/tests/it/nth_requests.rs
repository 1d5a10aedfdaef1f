//! Every request of a story goes wrong once, in every way, on its way to object storage or back.
//!
//! A call of the store is many requests. Here the wire is bad, for everybody: for the node, for its client, and for
//! whoever looks at the end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goldseam_fake_s3::{FakeS3, Fault, Request};
use goldseam_sim::nth::{Backend, Case, tell};
use goldseam_sim::scenario::find;
use tokio::sync::Notify;

/// Cases told side by side: most of their time they wait.
const BESIDE: u64 = 3;
/// How long nothing comes through.
const CUT: Duration = Duration::from_secs(2);
/// The client of a request that takes this long has given up and asked again.
const TOO_LATE: Duration = Duration::from_millis(10_400);
/// Longer than a node may be silent.
const SLOW: Duration = Duration::from_millis(900);

/// Steps under way at once in any story.
const AT_ONCE: u32 = 4;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Internal,
    InternalAfter,
    Dropped,
    DroppedAfter,
    SlowDown,
    Conflict,
    /// It is delivered twice.
    Twice,
    Slow,
    /// It is done after its client has given up and asked again.
    Late,
    /// Nothing comes through for a while, from this request on.
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
    /// Steps that may be begun again because a node was held up for longer than it may be silent.
    fn late_max(self) -> u32 {
        match self {
            Self::Slow | Self::Late | Self::Cut => AT_ONCE,
            _ => 0,
        }
    }

    fn fault(self) -> Fault {
        match self {
            Self::Internal => Fault::internal(),
            Self::InternalAfter => Fault::internal().after_commit(),
            Self::Dropped | Self::Cut => Fault::dropped(),
            Self::DroppedAfter => Fault::dropped().after_commit(),
            Self::SlowDown => Fault::slow_down(),
            Self::Conflict => Fault::conflict(),
            Self::Twice => Fault::twice(),
            Self::Slow => Fault::delayed(SLOW),
            Self::Late => Fault::delayed(TOO_LATE),
        }
    }
}

/// Which request goes wrong, and how.
#[derive(Debug, Clone, Copy)]
struct Point {
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
    fn with(point: Point) -> Self {
        let fake = FakeS3::start().unwrap();
        let (count, cut) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let begun = Arc::new(Notify::new());
        let healed = (cut.clone(), begun.clone());
        tokio::spawn(async move {
            healed.1.notified().await;
            tokio::time::sleep(CUT).await;
            healed.0.store(false, Ordering::Relaxed);
        });
        let counted = count.clone();
        let mut opened = false;
        fake.script(move |request: &Request| {
            // Whoever cannot open a store does not begin: that is another story.
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

/// Tells a story with one fault. Returns how many requests it took.
async fn one(scenario: &'static str, point: Point) -> u64 {
    let server = Server::with(point);
    let late_max = point.wrong.late_max();
    let case = Case { scenario: find(scenario).unwrap(), number: u64::MAX, fault: STORE_IS_GOOD, late_max };
    let verdict = tell(Backend::Real(&server.url(), crate::open), case).await;
    let verdict = verdict.unwrap_or_else(|error| panic!("{scenario}, {point:?}: {error}"));
    assert!(verdict.violations.is_empty(), "{scenario}, {point:?}: {:#?}", verdict.violations);
    server.count.load(Ordering::Relaxed)
}

/// Never met: no story has so many calls.
const STORE_IS_GOOD: goldseam_store::faulty::Fault = goldseam_store::faulty::Fault::FailBefore;

/// Everything that goes wrong in this way, from the first point on; returns how often it did.
async fn every(scenario: &'static str, (first, step, wrong): (u64, u64, Wrong)) -> u64 {
    let (next, last) = (Arc::new(AtomicU64::new(first)), Arc::new(AtomicU64::new(u64::MAX)));
    let met = Arc::new(AtomicU64::new(0));
    let failed = Arc::new(Mutex::new(Vec::new()));
    let beside = if step == 1 { 5 * BESIDE } else { BESIDE };
    let tellers = (0..beside).map(|_| {
        let (next, last, met, failed) = (next.clone(), last.clone(), met.clone(), failed.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(step, Ordering::Relaxed);
                if number > last.load(Ordering::Relaxed) {
                    return;
                }
                let told = tokio::spawn(one(scenario, Point { number, wrong })).await;
                match told {
                    Ok(requests) if requests < number => drop(last.fetch_min(number, Ordering::Relaxed)),
                    Ok(_) => drop(met.fetch_add(1, Ordering::Relaxed)),
                    Err(panicked) => failed.lock().unwrap().push((number, panicked)),
                }
            }
        })
    });
    for teller in tellers.collect::<Vec<_>>() {
        teller.await.unwrap();
    }
    let failed = std::mem::take(&mut *failed.lock().unwrap());
    assert!(failed.is_empty(), "{scenario}, {wrong:?}: {failed:?}");
    met.load(Ordering::Relaxed)
}

/// A story takes a few hundred requests, so each way of going wrong meets one of many, each way others; with
/// `GOLDSEAM_NTH=all` it meets every one.
async fn all(scenario: &'static str) {
    let every_one = std::env::var("GOLDSEAM_NTH").is_ok_and(|which| which == "all");
    for (first, wrong) in (1..).zip(WRONGS) {
        let (first, step) = match wrong {
            _ if every_one => (1, 1),
            // It takes the time that a client waits for an answer.
            Wrong::Late if scenario != "saga" => continue,
            _ => (first, STEP),
        };
        let met = every(scenario, (first, step, wrong)).await;
        assert!(met > 0, "{scenario}: no request met {wrong:?}");
        println!("nth: {scenario} Request{wrong:?} {met}");
    }
}

const STEP: u64 = 151;

macro_rules! stories {
    ($($name:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                all(stringify!($name)).await;
            }
        )+
    };
}

stories!(saga, signal, sleep, child, jump, continue_as_new, parallel, question, cancel, once, remote);
