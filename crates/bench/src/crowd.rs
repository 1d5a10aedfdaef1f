//! Whether finished runs cost anything: start to end of a workflow with a million of them, and with none.

use std::time::Instant;

use crate::Fallible;
use crate::place::Place;
use crate::raw;
use crate::report::{Report, median};
use crate::work::{Mark, engine};

const CROWD: i64 = 1_000_000;
const STEPS: u32 = 5;
const ROUNDS: usize = 200;

pub(crate) async fn measure(place: &Place) -> Fallible<Vec<Report>> {
    let (alone, crowded) = (place.scratch("alone"), place.scratch("crowded"));
    let seed = engine(&crowded, Mark::default()).await?;
    seed.run("steps", "pattern", &STEPS).await?.result::<()>().await?;
    seed.shutdown().await;
    eprintln!("filling a store with {CROWD} finished runs …");
    raw::open(&crowded).await?.fill(CROWD).await?;
    let engines = [engine(&alone, Mark::default()).await?, engine(&crowded, Mark::default()).await?];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (engine, times) in engines.iter().zip(&mut times) {
            let began = Instant::now();
            let id = format!("crowd-{}-{round}", std::process::id());
            engine.run("steps", &id, &STEPS).await?.result::<()>().await?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    for engine in engines {
        engine.shutdown().await;
    }
    let [alone, crowded] = times.map(median);
    Ok(vec![Report {
        measure: "crowd",
        store: place.label(),
        value: crowded,
        unit: "us/run",
        baseline: Some(alone),
        ratio: Some(crowded / alone),
        more: vec![],
    }])
}
