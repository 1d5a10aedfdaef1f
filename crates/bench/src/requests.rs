//! The requests of a run, an idle node and a waiting run on object storage, compared with their documented limits.
//!
//! Each process has its own store client, which counts its requests. The requests of an idle node are measured first
//! and subtracted from the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use goldseam::unstable::engine::heal::sweeper::SweepOptions;
use goldseam::{Client, Config, Engine, OpenEngine as _, Payload, RunId, Status};
use goldseam_store_object::{BucketStore, RequestCounts};

use crate::Fallible;
use crate::report::Measurement;
use crate::target::Target;
use crate::work::{FirstStep, engine_on};

const RUNS: u32 = 20;
const STEPS: u32 = 5;
/// Number of waiting runs.
const WAITING: u32 = 50;
/// Time until the work of a start, or after the end of a run, is done.
const SETTLE: Duration = Duration::from_secs(10);
/// Long enough for two polls of those that are made once a minute.
const WATCHED: Duration = Duration::from_secs(120);

/// Maximum writes of a run on the engine that starts it.
const OWN_PUTS_MAX: f64 = 12.0;
/// Maximum writes of a run that a client starts and another process claims.
const OTHERS_PUTS_MAX: f64 = 14.0;
/// Maximum requests per second of an idle node.
const IDLE_MAX: f64 = 2.0;
/// Maximum requests of a waiting run between sweeps.
const WAITING_MAX: f64 = 0.0;

/// Tolerance: only the mean of idle requests is subtracted.
const SLACK: f64 = 0.1;

/// Describes a value that exceeds its limit.
pub(crate) fn exceeded(report: &Measurement) -> Option<String> {
    let bound = report.baseline.filter(|_| report.measure.starts_with("requests-"))?;
    let past = report.value > bound + SLACK;
    past.then(|| {
        format!("{}: {:.2} {} exceeds the limit of {bound}", report.measure, report.value, report.unit)
    })
}

pub(crate) async fn measure(target: &Target) -> Fallible<Vec<Measurement>> {
    if !target.is_bucket() {
        return Err("this measure needs a bucket: pass --store s3".into());
    }
    let url = target.scratch("requests");
    let node = CountedEngine::start(&url).await?;
    tokio::time::sleep(SETTLE).await;
    let idle = node.watch(WATCHED).await;
    let own = own_runs(&node, &idle).await?;
    let others = others_runs(&node, &url, &idle).await?;
    let (waiting, swept) = waiting_runs(&node, &url, &idle).await?;
    node.engine.shutdown().await;
    let bounds = |measure, unit, bound| RequestBound { measure, unit, bound, store: target.label() };
    let sweep = bounds("requests-sweep", "requests/run", 1.0).report(swept.all(), &swept);
    Ok(vec![
        bounds("requests-own", "PUTs/run", OWN_PUTS_MAX).report(own.puts, &own),
        bounds("requests-other", "PUTs/run", OTHERS_PUTS_MAX).report(others.puts, &others),
        bounds("requests-idle", "requests/s", IDLE_MAX).report(idle.all(), &idle),
        bounds("requests-wait", "requests/run", WAITING_MAX).report(waiting.all(), &waiting),
        Measurement { baseline: None, ratio: None, ..sweep },
    ])
}

/// Requests by kind, per run or per second.
#[derive(Debug, Clone, Copy)]
struct RequestRates {
    /// Without beats.
    puts: f64,
    beats: f64,
    gets: f64,
    lists: f64,
    deletes: f64,
}

impl RequestRates {
    fn per(counts: RequestCounts, what: f64) -> Self {
        let RequestCounts { puts, beats, gets, lists, deletes } = counts;
        let each = |count: u64| count as f64 / what;
        // Every node beats, whether it is idle or not.
        let puts = puts - beats;
        Self {
            puts: each(puts),
            beats: each(beats),
            gets: each(gets),
            lists: each(lists),
            deletes: each(deletes),
        }
    }

    fn both(self, other: Self, op: fn(f64, f64) -> f64) -> Self {
        Self {
            puts: op(self.puts, other.puts),
            beats: op(self.beats, other.beats),
            gets: op(self.gets, other.gets),
            lists: op(self.lists, other.lists),
            deletes: op(self.deletes, other.deletes),
        }
    }

    fn times(self, factor: f64) -> Self {
        let Self { puts, beats, gets, lists, deletes } = self;
        Self {
            puts: puts * factor,
            beats: beats * factor,
            gets: gets * factor,
            lists: lists * factor,
            deletes: deletes * factor,
        }
    }

    /// Subtracts the requests of an idle node in this many seconds.
    fn without(self, idle: &Self, seconds: f64) -> Self {
        self.both(idle.times(seconds), |had, idle| (had - idle).max(0.0))
    }

    fn all(&self) -> f64 {
        self.puts + self.beats + self.gets + self.lists + self.deletes
    }
}

/// A measure and its limit.
struct RequestBound {
    measure: &'static str,
    unit: &'static str,
    bound: f64,
    store: String,
}

impl RequestBound {
    fn report(self, value: f64, by: &RequestRates) -> Measurement {
        let Self { measure, unit, bound, store } = self;
        let more = vec![
            ("puts", by.puts),
            ("beats", by.beats),
            ("gets", by.gets),
            ("lists", by.lists),
            ("deletes", by.deletes),
        ];
        let ratio = (bound > 0.0).then(|| value / bound);
        Measurement { measure, store, value, unit, baseline: Some(bound), ratio, more }
    }
}

/// An engine whose requests are counted.
struct CountedEngine {
    engine: Engine,
    store: Arc<BucketStore>,
}

impl CountedEngine {
    async fn start(url: &str) -> Fallible<Self> {
        let store = Arc::new(BucketStore::open_url(url).await?);
        let engine = engine_on(Engine::on(store.clone()), FirstStep::default(), Config::default()).await?;
        Ok(Self { engine, store })
    }

    /// Returns the requests per second during `span`.
    async fn watch(&self, span: Duration) -> RequestRates {
        let before = self.store.request_counts();
        let began = Instant::now();
        tokio::time::sleep(span).await;
        RequestRates::per(self.store.request_counts().since(&before), began.elapsed().as_secs_f64())
    }
}

/// Returns the requests per run on the engine that starts it.
async fn own_runs(node: &CountedEngine, idle: &RequestRates) -> Fallible<RequestRates> {
    let before = node.store.request_counts();
    let began = Instant::now();
    for number in 0..RUNS {
        let run = node.engine.start("steps", &format!("own-{number}"), &STEPS).await?;
        run.result::<()>().await?;
    }
    tokio::time::sleep(SETTLE).await;
    let per_run = RequestRates::per(node.store.request_counts().since(&before), f64::from(RUNS));
    Ok(per_run.without(idle, began.elapsed().as_secs_f64() / f64::from(RUNS)))
}

/// Returns the requests per run that a client starts and waits for, and the node claims.
async fn others_runs(node: &CountedEngine, url: &str, idle: &RequestRates) -> Fallible<RequestRates> {
    let store = Arc::new(BucketStore::open_url(url).await?);
    let client = Client::new(store.clone());
    let before = node.store.request_counts();
    let clients = store.request_counts();
    let began = Instant::now();
    for number in 0..RUNS {
        let id = RunId::new(format!("other-{number}"))?;
        let input = Payload::of(&STEPS, &goldseam::Limits::default())?;
        let run = client.start("steps", &id, &input).await?;
        run.result::<()>().await?;
    }
    tokio::time::sleep(SETTLE).await;
    let took = began.elapsed().as_secs_f64() / f64::from(RUNS);
    let nodes =
        RequestRates::per(node.store.request_counts().since(&before), f64::from(RUNS)).without(idle, took);
    let clients = RequestRates::per(store.request_counts().since(&clients), f64::from(RUNS));
    Ok(nodes.both(clients, |a, b| a + b))
}

/// Returns the requests of a waiting run in two minutes, and those of a second sweep per run.
async fn waiting_runs(
    node: &CountedEngine,
    url: &str,
    idle: &RequestRates,
) -> Fallible<(RequestRates, RequestRates)> {
    for number in 0..WAITING {
        node.engine.start("nap", &format!("nap-{number}"), &86_400_u64).await?;
    }
    let last = RunId::new(format!("nap-{}", WAITING - 1))?;
    while node.engine.live_runs() > 0 || node.engine.client().get(&last).await?.status != Status::Sleeping {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(SETTLE).await;
    let waited = node.watch(WATCHED).await.without(idle, 1.0).times(WATCHED.as_secs_f64());
    let store = Arc::new(BucketStore::open_url(url).await?);
    let mut sweeper = Client::new(store.clone()).sweeper(SweepOptions::default());
    sweeper.sweep().await?;
    let before = store.request_counts();
    sweeper.sweep().await?;
    Ok((
        waited.times(1.0 / f64::from(WAITING)),
        RequestRates::per(store.request_counts().since(&before), f64::from(WAITING)),
    ))
}
