//! 2,000 workflows of 5 empty steps, 256 in flight, compared with a plain loop that makes the same row writes: the same
//! statements and bytes, on one connection, in transactions of 128 appends.

use std::sync::Arc;
use std::time::Instant;

use goldseam::Engine;
use tokio::sync::Semaphore;

use crate::Fallible;
use crate::raw;
use crate::report::{Measurement, median};
use crate::target::Target;
use crate::work::{FirstStep, engine, shutdown};

const RUNS: usize = 2_000;
const STEPS: u32 = 5;
const IN_FLIGHT: usize = 256;
const GROUP: usize = 128;
const ROUNDS: usize = 5;

pub(crate) async fn measure(target: &Target) -> Fallible<Vec<Measurement>> {
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    let mut pipelined = Vec::new();
    let mut more = Vec::new();
    for round in 0..ROUNDS {
        let url = target.scratch(&format!("throughput-{round}"));
        let engine = Arc::new(engine(&url, FirstStep::default()).await?);
        ours.push(run_all(&engine, "run", RUNS).await?);
        shutdown(engine).await;
        let mut raw = raw::open(&url).await?;
        let written = raw.written().await?;
        more.clear();
        if let Some(counts) = raw.row_writes().await? {
            let names = ["inserts_per_run", "updates_per_run", "deletes_per_run"];
            more.extend(names.into_iter().zip(counts.map(|count| count / (written.len() + 1) as f64)));
        }
        // Empty stores of the same schema for the plain loop.
        let mut raw = empty(target, &format!("throughput-raw-{round}")).await?;
        let (seconds, rows) = raw::replay(&mut *raw, &written, IN_FLIGHT, GROUP).await?;
        theirs.push(seconds);
        more.push(("row_writes_per_run", rows));
        let mut raw = empty(target, &format!("throughput-pipelined-{round}")).await?;
        if raw.pipeline() {
            pipelined.push(raw::replay(&mut *raw, &written, IN_FLIGHT, GROUP).await?.0);
        }
    }
    let rate = |seconds| RUNS as f64 * f64::from(STEPS) / median(seconds);
    let ours = rate(ours);
    let theirs = rate(theirs);
    if !pipelined.is_empty() {
        let pipelined = rate(pipelined);
        more.extend([("pipelined", pipelined), ("of_pipelined", ours / pipelined)]);
    }
    Ok(vec![Measurement {
        measure: "throughput",
        store: target.label(),
        value: ours,
        unit: "steps/s",
        baseline: Some(theirs),
        ratio: Some(ours / theirs),
        more,
    }])
}

/// Creates an empty store.
async fn empty(target: &Target, name: &str) -> Fallible<Box<dyn raw::Raw>> {
    let url = target.scratch(name);
    drop(goldseam::open_store(&url).await?);
    raw::open(&url).await
}

/// Executes this many runs; returns the seconds from the first start to the last result.
pub(crate) async fn run_all(engine: &Arc<Engine>, name: &str, runs: usize) -> Fallible<f64> {
    engine.start("steps", "warm", &STEPS).await?.result::<()>().await?;
    let slots = Arc::new(Semaphore::new(IN_FLIGHT));
    let began = Instant::now();
    let mut all = Vec::with_capacity(runs);
    for index in 0..runs {
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let engine = Arc::clone(engine);
        let id = format!("{name}-{index:06}");
        all.push(tokio::spawn(async move {
            let run = engine.start("steps", &id, &STEPS).await?;
            let result = run.result::<()>().await;
            drop(slot);
            result
        }));
    }
    for run in all {
        run.await??;
    }
    Ok(began.elapsed().as_secs_f64())
}
