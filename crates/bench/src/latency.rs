//! One workflow of empty steps, one after another, against one raw durable single-row commit.

use std::time::Instant;

use crate::Fallible;
use crate::place::Place;
use crate::raw;
use crate::report::{Report, median};
use crate::work::{Mark, engine, since};

const ROUNDS: usize = 60;
const STEPS: u32 = 10;
const WARM: u32 = 3_000;

pub(crate) async fn measure(place: &Place) -> Fallible<Vec<Report>> {
    let mark = Mark::default();
    let engine = engine(&place.url, mark.clone()).await?;
    let mut raw = raw::open(&place.scratch("latency-raw")).await?;
    // Both sides have a write-ahead log that was filled once and is written over: a growing file costs more.
    raw.commits(WARM).await?;
    engine.run("steps", &format!("warm-{}", std::process::id()), &WARM).await?.result::<()>().await?;
    let (mut ours, mut theirs, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        theirs.push(raw.commits(STEPS).await?);
        let began = Instant::now();
        let run = engine.run("steps", &format!("latency-{}-{round}", std::process::id()), &STEPS).await?;
        starts.push(began.elapsed().as_secs_f64());
        run.result::<()>().await?;
        ours.push(since(&mark) / f64::from(STEPS));
    }
    engine.shutdown().await;
    let (ours, theirs, start) = (median(ours) * 1e6, median(theirs) * 1e6, median(starts) * 1e6);
    Ok(vec![Report {
        measure: "latency",
        store: place.label(),
        value: ours,
        unit: "us/step",
        baseline: Some(theirs),
        ratio: Some(ours / theirs),
        more: vec![("start_us", start)],
    }])
}
