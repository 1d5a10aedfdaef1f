//! Sequential empty steps of one workflow, compared with a raw durable single-row commit.

use std::time::Instant;

use crate::Fallible;
use crate::raw;
use crate::report::{Measurement, median};
use crate::target::Target;
use crate::work::{FirstStep, engine, since};

const ROUNDS: usize = 60;
const STEPS: u32 = 10;
const WARM: u32 = 3_000;

pub(crate) async fn measure(target: &Target) -> Fallible<Vec<Measurement>> {
    let first_step = FirstStep::default();
    let engine = engine(&target.url, first_step.clone()).await?;
    let mut raw = raw::open(&target.scratch("latency-raw")).await?;
    // Both sides reuse a write-ahead log that was filled once: a growing file costs more.
    raw.commits(WARM).await?;
    engine.start("steps", &format!("warm-{}", std::process::id()), &WARM).await?.result::<()>().await?;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    let mut starts = Vec::new();
    for round in 0..ROUNDS {
        theirs.push(raw.commits(STEPS).await?);
        let began = Instant::now();
        let run = engine.start("steps", &format!("latency-{}-{round}", std::process::id()), &STEPS).await?;
        starts.push(began.elapsed().as_secs_f64());
        run.result::<()>().await?;
        ours.push(since(&first_step) / f64::from(STEPS));
    }
    engine.shutdown().await;
    let ours = median(ours) * 1e6;
    let theirs = median(theirs) * 1e6;
    let start = median(starts) * 1e6;
    Ok(vec![Measurement {
        measure: "latency",
        store: target.label(),
        value: ours,
        unit: "us/step",
        baseline: Some(theirs),
        ratio: Some(ours / theirs),
        more: vec![("start_us", start)],
    }])
}
