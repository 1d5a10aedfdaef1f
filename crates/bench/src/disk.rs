//! Bytes on disk per small step, including indexes.

use std::sync::Arc;

use crate::Fallible;
use crate::raw;
use crate::report::Measurement;
use crate::target::Target;
use crate::throughput::run_all;
use crate::work::{FirstStep, engine, shutdown};

const RUNS: u32 = 20;
const STEPS: u32 = 500;
/// Number of runs of five steps.
const SHORT: usize = 2_000;

pub(crate) async fn measure(target: &Target) -> Fallible<Vec<Measurement>> {
    let url = target.scratch("disk");
    let before = size(&url, 0).await?;
    let after = size(&url, STEPS).await?;
    let per_step = (after - before) / f64::from(RUNS * STEPS);
    let engine = Arc::new(engine(&url, FirstStep::default()).await?);
    run_all(&engine, "disk-run", SHORT).await?;
    shutdown(engine).await;
    let per_run = (raw::open(&url).await?.bytes().await? - after) / SHORT as f64;
    Ok(vec![Measurement {
        measure: "disk",
        store: target.label(),
        value: per_step,
        unit: "bytes/step",
        baseline: Some(700.0),
        ratio: Some(per_step / 700.0),
        more: vec![("bytes_per_run_of_5_steps", per_run)],
    }])
}

/// Returns the size of the store after `RUNS` runs of `steps` steps each.
async fn size(url: &str, steps: u32) -> Fallible<f64> {
    let engine = engine(url, FirstStep::default()).await?;
    for run in 0..RUNS {
        engine.start("steps", &format!("disk-{steps}-{run}"), &steps).await?.result::<()>().await?;
    }
    engine.shutdown().await;
    raw::open(url).await?.bytes().await
}
