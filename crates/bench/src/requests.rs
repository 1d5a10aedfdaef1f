//! What a run, a node and a wait cost where every call is a request, against the bounds that are promised.
//!
//! Every process has a store of its own, so each counts its own requests. What a node asks while it has nothing to do is
//! measured first and taken off the rest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use goldseam::healer::sweeper::SweepOptions;
use goldseam::{Client, Config, Engine, Payload, RunId, StartOptions, Status};
use goldseam_store_object::{BucketStore, Tally};

use crate::Fallible;
use crate::place::Place;
use crate::report::Report;
use crate::work::{Mark, engine_on};

const RUNS: u32 = 20;
const STEPS: u32 = 5;
/// Runs that only wait.
const WAITING: u32 = 50;
/// Until everything that a start brings with it is over, and what follows a run's end.
const SETTLE: Duration = Duration::from_secs(10);
/// Long enough for each look that is made once a minute to be made twice.
const WATCHED: Duration = Duration::from_secs(120);

/// Writes of a run that the engine executes which starts it.
const OWN_PUTS_MAX: f64 = 12.0;
/// Writes of a run that a client starts and another process claims.
const OTHERS_PUTS_MAX: f64 = 14.0;
/// Requests of an idle node per second.
const IDLE_MAX: f64 = 2.0;
/// Requests of a waiting run while nobody sweeps.
const WAITING_MAX: f64 = 0.0;

/// What a node asks when it is idle is taken off by its mean, and a look may fall on either side.
const SLACK: f64 = 0.1;

/// A figure past its bound, in words.
pub(crate) fn broken(report: &Report) -> Option<String> {
    let bound = report.baseline.filter(|_| report.measure.starts_with("requests-"))?;
    let past = report.value > bound + SLACK;
    past.then(|| format!("{}: {:.2} {} is past {bound}", report.measure, report.value, report.unit))
}

pub(crate) async fn measure(place: &Place) -> Fallible<Vec<Report>> {
    if !place.is_bucket() {
        return Err("requests are counted in a bucket only: --store s3".into());
    }
    let url = place.scratch("requests");
    let node = Node::start(&url).await?;
    tokio::time::sleep(SETTLE).await;
    let idle = node.watch(WATCHED).await;
    let own = own_runs(&node, &idle).await?;
    let others = others_runs(&node, &url, &idle).await?;
    let (waiting, swept) = waiting_runs(&node, &url, &idle).await?;
    node.engine.shutdown().await;
    let label = place.label();
    let sweep = report(("requests-sweep", "requests/run", 1.0), swept.all(), &swept, &label);
    Ok(vec![
        report(("requests-own", "PUTs/run", OWN_PUTS_MAX), own.puts, &own, &label),
        report(("requests-other", "PUTs/run", OTHERS_PUTS_MAX), others.puts, &others, &label),
        report(("requests-idle", "requests/s", IDLE_MAX), idle.all(), &idle, &label),
        report(("requests-wait", "requests/run", WAITING_MAX), waiting.all(), &waiting, &label),
        Report { baseline: None, ratio: None, ..sweep },
    ])
}

/// Requests by kind, per something.
#[derive(Debug, Clone, Copy)]
struct Requests {
    /// Without beats.
    puts: f64,
    beats: f64,
    gets: f64,
    lists: f64,
    deletes: f64,
}

impl Requests {
    fn per(tally: Tally, what: f64) -> Self {
        let Tally { puts, beats, gets, lists, deletes } = tally;
        let each = |count: u64| count as f64 / what;
        // Beats are what a node costs, whatever it does.
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

    /// Without what so many seconds of idleness would have cost.
    fn without(self, idle: &Self, seconds: f64) -> Self {
        self.both(idle.times(seconds), |had, idle| (had - idle).max(0.0))
    }

    fn all(&self) -> f64 {
        self.puts + self.beats + self.gets + self.lists + self.deletes
    }
}

fn report(
    (measure, unit, bound): (&'static str, &'static str, f64),
    value: f64,
    by: &Requests,
    store: &str,
) -> Report {
    let more = vec![
        ("puts", by.puts),
        ("beats", by.beats),
        ("gets", by.gets),
        ("lists", by.lists),
        ("deletes", by.deletes),
    ];
    let ratio = (bound > 0.0).then(|| value / bound);
    Report { measure, store: store.to_owned(), value, unit, baseline: Some(bound), ratio, more }
}

/// An engine whose requests are counted.
struct Node {
    engine: Engine,
    store: Arc<BucketStore>,
}

impl Node {
    async fn start(url: &str) -> Fallible<Self> {
        let store = Arc::new(BucketStore::open_url(url).await?);
        let engine = engine_on(Engine::on(store.clone()), Mark::default(), Config::default()).await?;
        Ok(Self { engine, store })
    }

    /// What a second costs.
    async fn watch(&self, span: Duration) -> Requests {
        let (before, began) = (self.store.tally(), Instant::now());
        tokio::time::sleep(span).await;
        Requests::per(self.store.tally().since(&before), began.elapsed().as_secs_f64())
    }
}

/// What a run costs that the engine executes which starts it.
async fn own_runs(node: &Node, idle: &Requests) -> Fallible<Requests> {
    let (before, began) = (node.store.tally(), Instant::now());
    for number in 0..RUNS {
        let run = node.engine.run("steps", &format!("own-{number}"), &STEPS).await?;
        run.result::<()>().await?;
    }
    tokio::time::sleep(SETTLE).await;
    let per_run = Requests::per(node.store.tally().since(&before), f64::from(RUNS));
    Ok(per_run.without(idle, began.elapsed().as_secs_f64() / f64::from(RUNS)))
}

/// What a run costs that a client starts and waits for, and the node claims.
async fn others_runs(node: &Node, url: &str, idle: &Requests) -> Fallible<Requests> {
    let store = Arc::new(BucketStore::open_url(url).await?);
    let client = Client::new(store.clone());
    let (before, clients, began) = (node.store.tally(), store.tally(), Instant::now());
    for number in 0..RUNS {
        let id = RunId::new(format!("other-{number}"))?;
        let input = Payload::of(&STEPS, &goldseam::Limits::default())?;
        let run = client.start("steps", &id, input, StartOptions::default()).await?;
        run.result::<()>().await?;
    }
    tokio::time::sleep(SETTLE).await;
    let took = began.elapsed().as_secs_f64() / f64::from(RUNS);
    let nodes = Requests::per(node.store.tally().since(&before), f64::from(RUNS)).without(idle, took);
    let clients = Requests::per(store.tally().since(&clients), f64::from(RUNS));
    Ok(nodes.both(clients, |a, b| a + b))
}

/// What a waiting run costs in two minutes, and what a sweep that finds it well once more does.
async fn waiting_runs(node: &Node, url: &str, idle: &Requests) -> Fallible<(Requests, Requests)> {
    for number in 0..WAITING {
        node.engine.run("nap", &format!("nap-{number}"), &86_400_u64).await?;
    }
    let last = RunId::new(format!("nap-{}", WAITING - 1))?;
    while node.engine.hot_runs() > 0 || node.engine.get(&last).await?.status != Status::Sleeping {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(SETTLE).await;
    let waited = node.watch(WATCHED).await.without(idle, 1.0).times(WATCHED.as_secs_f64());
    let store = Arc::new(BucketStore::open_url(url).await?);
    let mut sweeper = Client::new(store.clone()).sweeper(SweepOptions::default());
    sweeper.sweep().await?;
    let before = store.tally();
    sweeper.sweep().await?;
    Ok((
        waited.times(1.0 / f64::from(WAITING)),
        Requests::per(store.tally().since(&before), f64::from(WAITING)),
    ))
}
