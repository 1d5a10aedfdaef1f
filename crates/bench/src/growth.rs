//! How costs grow with the number of ended runs in a store: appends, claims and a sweep with none, ten thousand, a
//! hundred thousand, and so on.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::try_join_all;
use goldseam::unstable::core::task::NewTask;
use goldseam::unstable::core::{QueueName, TaskId};
use goldseam::unstable::engine::queue::Want;
use goldseam::{Client, Config, Engine, Millis, Payload};

use crate::report::{Measurement, median};
use crate::target::Target;
use crate::throughput::run_all;
use crate::work::{FirstStep, engine_with, shutdown, since};
use crate::{Fallible, raw, sweep};

const RUNS: usize = 2_000;
const STEPS: f64 = 5.0;
const ROUNDS: usize = 3;
/// Number of sequential steps.
const ALONE: u32 = 300;
/// Number of claimed tasks, and of tasks per claim.
const TASKS: usize = 1_000;
const CLAIM: u32 = 10;

/// How far to grow.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GrowthArgs {
    /// Number of ended runs at the end
    #[arg(long, default_value_t = FAR)]
    pub(crate) runs: i64,
}

const FAR: i64 = 100_000;

impl Default for GrowthArgs {
    fn default() -> Self {
        Self { runs: FAR }
    }
}

pub(crate) async fn measure(target: &Target, args: &GrowthArgs) -> Fallible<Vec<Measurement>> {
    let url = target.scratch("growth");
    sweep::fill(&url, 0).await?;
    let sweeper = sweep::engine(&url).await?;
    sweep::add_active_runs(&sweeper).await?;
    sweeper.shutdown().await;
    let mut reports: Vec<Measurement> = Vec::new();
    let sizes =
        std::iter::successors(Some(10_000), |size| Some(size * 10)).take_while(|size| *size <= args.runs);
    for size in std::iter::once(0).chain(sizes) {
        let mut raw = raw::open(&url).await?;
        if raw.filled().await? < size {
            raw.fill(size).await?;
        }
        let bytes = raw.bytes().await?;
        raw.settle().await?;
        let cost = SizeCost::measure(&url, size).await?;
        let baseline = reports.first().map(|report| report.value);
        reports.push(Measurement {
            measure: "growth",
            store: target.label(),
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

/// The costs at one size of the store.
struct SizeCost {
    /// Steps per second with many concurrent runs.
    rate: f64,
    /// Microseconds per sequential step.
    step_us: f64,
    /// Microseconds per claim of ten tasks.
    claim_us: f64,
    /// Milliseconds per sweep.
    sweep_ms: f64,
}

impl SizeCost {
    async fn measure(url: &str, size: i64) -> Fallible<Self> {
        let first_step = FirstStep::default();
        let config = Config { sweep: None, ..Config::default() };
        let engine = Arc::new(engine_with(url, first_step.clone(), config).await?);
        let mut seconds = Vec::new();
        let mut alone = Vec::new();
        for round in 0..ROUNDS {
            seconds.push(run_all(&engine, &format!("growth-{size}-{round}"), RUNS).await?);
            let id = format!("alone-{size}-{round}");
            engine.start("steps", &id, &ALONE).await?.result::<()>().await?;
            alone.push(since(&first_step) * 1e6 / f64::from(ALONE));
        }
        let claim_us = claims(engine.client(), size).await?;
        shutdown(engine).await;
        let sweeper = sweep::engine(url).await?;
        let sweep_ms = sweeps(&sweeper).await?;
        sweeper.shutdown().await;
        Ok(Self { rate: RUNS as f64 * STEPS / median(seconds), step_us: median(alone), claim_us, sweep_ms })
    }
}

/// Returns the microseconds per claim of ten among a thousand ready tasks, which are completed afterwards.
async fn claims(client: &Client, size: i64) -> Fallible<f64> {
    let queue = client.queue();
    let name = QueueName::new("bench")?;
    let submits = (0..TASKS).map(|index| {
        let id = TaskId::new(format!("task-{size}-{index}"));
        let queue = &queue;
        let name = name.clone();
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
