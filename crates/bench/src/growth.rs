//! How cost grows with the number of finished runs in a store: appends, claims and a sweep among none of them,
//! ten thousand, a hundred thousand, and so on.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::try_join_all;
use goldseam::core::task::NewTask;
use goldseam::core::{QueueName, TaskId};
use goldseam::engine::queue::Want;
use goldseam::{Client, Config, Engine, Millis, Payload};

use crate::place::Place;
use crate::report::{Report, median};
use crate::throughput::run_all;
use crate::work::{Mark, engine_with, leave, since};
use crate::{Fallible, raw, sweep};

const RUNS: usize = 2_000;
const STEPS: f64 = 5.0;
const ROUNDS: usize = 3;
/// Steps that are made one after another.
const ALONE: u32 = 300;
/// Tasks that are claimed, and how many at a time.
const TASKS: usize = 1_000;
const CLAIM: u32 = 10;

/// How far.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Far {
    /// Finished runs at the end
    #[arg(long, default_value_t = FAR)]
    pub(crate) runs: i64,
}

const FAR: i64 = 100_000;

impl Default for Far {
    fn default() -> Self {
        Self { runs: FAR }
    }
}

pub(crate) async fn measure(place: &Place, far: &Far) -> Fallible<Vec<Report>> {
    let url = place.scratch("growth");
    sweep::fill(&url, 0).await?;
    let sweeper = sweep::engine(&url).await?;
    sweep::people(&sweeper).await?;
    sweeper.shutdown().await;
    let mut reports: Vec<Report> = Vec::new();
    let sizes =
        std::iter::successors(Some(10_000), |size| Some(size * 10)).take_while(|size| *size <= far.runs);
    for size in std::iter::once(0).chain(sizes) {
        let mut raw = raw::open(&url).await?;
        if raw.filled().await? < size {
            raw.fill(size).await?;
        }
        let bytes = raw.bytes().await?;
        raw.settle().await?;
        let cost = Cost::measure(&url, size).await?;
        let baseline = reports.first().map(|report| report.value);
        reports.push(Report {
            measure: "growth",
            store: place.label(),
            value: cost.rate,
            unit: "steps/s",
            baseline,
            ratio: baseline.map(|baseline| cost.rate / baseline),
            more: vec![
                ("finished", size as f64),
                ("us_per_step", cost.step_us),
                ("us_per_claim", cost.claim_us),
                ("sweep_ms", cost.sweep_ms),
                ("mib", bytes / (1024.0 * 1024.0)),
            ],
        });
    }
    Ok(reports)
}

/// What things cost with so many finished runs in the store.
struct Cost {
    /// Steps in a second, many runs at once.
    rate: f64,
    /// Microseconds of a step, one after another.
    step_us: f64,
    /// Microseconds of a claim of ten tasks.
    claim_us: f64,
    /// Milliseconds of a whole sweep.
    sweep_ms: f64,
}

impl Cost {
    async fn measure(url: &str, size: i64) -> Fallible<Self> {
        let mark = Mark::default();
        let config = Config { sweep: None, ..Config::default() };
        let engine = Arc::new(engine_with(url, mark.clone(), config).await?);
        let (mut seconds, mut alone) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            seconds.push(run_all(&engine, &format!("growth-{size}-{round}"), RUNS).await?);
            let id = format!("alone-{size}-{round}");
            engine.run("steps", &id, &ALONE).await?.result::<()>().await?;
            alone.push(since(&mark) * 1e6 / f64::from(ALONE));
        }
        let claim_us = claims(engine.client(), size).await?;
        leave(engine).await;
        let sweeper = sweep::engine(url).await?;
        let sweep_ms = sweeps(&sweeper).await?;
        sweeper.shutdown().await;
        Ok(Self { rate: RUNS as f64 * STEPS / median(seconds), step_us: median(alone), claim_us, sweep_ms })
    }
}

/// Microseconds of a claim of ten among a thousand ready tasks, which are completed afterwards.
async fn claims(client: &Client, size: i64) -> Fallible<f64> {
    let (queue, name) = (client.queue(), QueueName::new("bench")?);
    let submits = (0..TASKS).map(|index| {
        let id = TaskId::new(format!("task-{size}-{index}"));
        let (queue, name) = (&queue, name.clone());
        async move {
            let new = NewTask {
                id: id?,
                kind: "bench".to_owned(),
                queue: name,
                lane: None,
                priority: 0,
                key: None,
                run_at: Millis(0),
                payload: Payload::null(),
                attempts_max: 1,
                silence_max: None,
            };
            Fallible::Ok(queue.submit(new).await?)
        }
    });
    try_join_all(submits).await?;
    let mut times = Vec::new();
    loop {
        let want = Want { owner: "bench".to_owned(), queue: name.clone(), kind: None, limit: CLAIM };
        let began = Instant::now();
        let claimed = queue.claim(want).await?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
        if claimed.is_empty() {
            return Ok(median(times));
        }
        let done = claimed.iter().map(|task| queue.complete(&task.id, task.fence, Payload::null()));
        try_join_all(done).await?;
    }
}

async fn sweeps(engine: &Engine) -> Fallible<f64> {
    let mut times = Vec::new();
    for _ in 0..2 * ROUNDS + 1 {
        times.push(sweep::sweep(engine).await?);
    }
    Ok(median(times))
}
