//! The cost of ended runs: a workflow in a store with a million of them, and in an empty store.

use std::time::Instant;

use crate::Fallible;
use crate::raw;
use crate::report::{Measurement, median};
use crate::target::Target;
use crate::work::{FirstStep, engine};

const CROWD: i64 = 1_000_000;
const STEPS: u32 = 5;
const ROUNDS: usize = 200;

pub(crate) async fn measure(target: &Target) -> Fallible<Vec<Measurement>> {
    let alone = target.scratch("alone");
    let crowded = target.scratch("crowded");
    let seed = engine(&crowded, FirstStep::default()).await?;
    seed.start("steps", "pattern", &STEPS).await?.result::<()>().await?;
    seed.shutdown().await;
    eprintln!("filling a store with {CROWD} ended runs …");
    raw::open(&crowded).await?.fill(CROWD).await?;
    let engines =
        [engine(&alone, FirstStep::default()).await?, engine(&crowded, FirstStep::default()).await?];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (engine, times) in engines.iter().zip(&mut times) {
            let began = Instant::now();
            let id = format!("crowd-{}-{round}", std::process::id());
            engine.start("steps", &id, &STEPS).await?.result::<()>().await?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    for engine in engines {
        engine.shutdown().await;
    }
    let [alone, crowded] = times.map(median);
    Ok(vec![Measurement {
        measure: "crowd",
        store: target.label(),
        value: crowded,
        unit: "us/run",
        baseline: Some(alone),
        ratio: Some(crowded / alone),
        more: vec![],
    }])
}
