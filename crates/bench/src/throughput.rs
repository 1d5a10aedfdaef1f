//! 2,000 workflows of 5 empty steps, 256 in flight, against a plain loop that makes the same row
//! writes: the same statements and bytes, on one connection, in transactions of 128 appends.

use std::sync::Arc;
use std::time::Instant;

use goldseam::Engine;
use tokio::sync::Semaphore;

use crate::Fallible;
use crate::place::Place;
use crate::raw;
use crate::report::{Report, median};
use crate::work::{Mark, engine, leave};

const RUNS: usize = 2_000;
const STEPS: u32 = 5;
const IN_FLIGHT: usize = 256;
const GROUP: usize = 128;
const ROUNDS: usize = 5;

pub(crate) async fn measure(place: &Place) -> Fallible<Vec<Report>> {
    let (mut ours, mut theirs, mut pipelined) = (Vec::new(), Vec::new(), Vec::new());
    let mut more = Vec::new();
    for round in 0..ROUNDS {
        let url = place.scratch(&format!("throughput-{round}"));
        let engine = Arc::new(engine(&url, Mark::default()).await?);
        ours.push(run_all(&engine, "run", RUNS).await?);
        leave(engine).await;
        let mut raw = raw::open(&url).await?;
        let written = raw.written().await?;
        more.clear();
        if let Some(counts) = raw.row_writes().await? {
            let names = ["inserts_per_run", "updates_per_run", "deletes_per_run"];
            more.extend(names.into_iter().zip(counts.map(|count| count / (written.len() + 1) as f64)));
        }
        // Empty stores of the same schema for the plain loop.
        let mut raw = empty(place, &format!("throughput-raw-{round}")).await?;
        let (seconds, rows) = raw::replay(&mut *raw, &written, IN_FLIGHT, GROUP).await?;
        theirs.push(seconds);
        more.push(("row_writes_per_run", rows));
        let mut raw = empty(place, &format!("throughput-pipelined-{round}")).await?;
        if raw.pipeline() {
            pipelined.push(raw::replay(&mut *raw, &written, IN_FLIGHT, GROUP).await?.0);
        }
    }
    let rate = |seconds| RUNS as f64 * f64::from(STEPS) / median(seconds);
    let (ours, theirs) = (rate(ours), rate(theirs));
    if !pipelined.is_empty() {
        let pipelined = rate(pipelined);
        more.extend([("pipelined", pipelined), ("of_pipelined", ours / pipelined)]);
    }
    Ok(vec![Report {
        measure: "throughput",
        store: place.label(),
        value: ours,
        unit: "steps/s",
        baseline: Some(theirs),
        ratio: Some(ours / theirs),
        more,
    }])
}

/// A store that nobody has written to.
async fn empty(place: &Place, name: &str) -> Fallible<Box<dyn raw::Raw>> {
    let url = place.scratch(name);
    drop(goldseam::open_store(&url).await?);
    raw::open(&url).await
}

/// Seconds for so many runs from first start to last result.
pub(crate) async fn run_all(engine: &Arc<Engine>, name: &str, runs: usize) -> Fallible<f64> {
    engine.run("steps", "warm", &STEPS).await?.result::<()>().await?;
    let slots = Arc::new(Semaphore::new(IN_FLIGHT));
    let began = Instant::now();
    let mut all = Vec::with_capacity(runs);
    for index in 0..runs {
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let (engine, id) = (Arc::clone(engine), format!("{name}-{index:06}"));
        all.push(tokio::spawn(async move {
            let run = engine.run("steps", &id, &STEPS).await?;
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
