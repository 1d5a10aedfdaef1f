//! What healing costs where nothing is sick: throughput with every healer at work, against none.
//!
//! Both sides have a thousand sleeping runs in the store, so that a sweep has something to look at.

use std::sync::Arc;
use std::time::Duration;

use goldseam::Config;

use crate::Fallible;
use crate::report::{Report, median};
use crate::throughput::run_all;
use crate::work::{Mark, Place, engine_with};

const SLEEPING: u32 = 1_000;
const RUNS: usize = 6_000;
const STEPS: f64 = 5.0;
const NEVER: Duration = Duration::from_secs(86_400);

pub(crate) async fn measure(place: &Place, rounds: usize) -> Fallible<Vec<Report>> {
    let on = Config { sweep: Some(Duration::from_secs(1)), ..Config::default() };
    let off = Config { sweep: None, watch: NEVER, claim_watch: NEVER, ..Config::default() };
    let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds.max(1) {
        let name = |side: &str| place.scratch(&format!("healthy-{side}-{round}"));
        // Whoever is second may find another machine: they take turns.
        let (healed, plain) = if round % 2 == 0 {
            let healed = side(&name("on"), &on).await?;
            (healed, side(&name("off"), &off).await?)
        } else {
            let plain = side(&name("off"), &off).await?;
            (side(&name("on"), &on).await?, plain)
        };
        eprintln!("healthy {round}: {healed:.0} of {plain:.0} steps/s");
        ratios.push(healed / plain);
        with.push(healed);
        without.push(plain);
    }
    let best = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let of_best = best(&with) / best(&without);
    Ok(vec![Report {
        measure: "healthy",
        store: place.label(),
        value: median(with),
        unit: "steps/s",
        baseline: Some(median(without)),
        ratio: Some(median(ratios)),
        more: vec![("ratio_of_best", of_best)],
    }])
}

/// Steps in a second.
async fn side(url: &str, config: &Config) -> Fallible<f64> {
    let engine = Arc::new(engine_with(url, Mark::default(), config.clone()).await?);
    for first in (0..SLEEPING).step_by(250) {
        let starts = (first..first + 250).map(|index| {
            let engine = Arc::clone(&engine);
            tokio::spawn(
                async move { engine.run("nap", &format!("nap-{index}"), &86_400u64).await.map(|_| ()) },
            )
        });
        for start in starts.collect::<Vec<_>>() {
            start.await??;
        }
    }
    while engine.hot_runs() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let seconds = run_all(engine, RUNS).await?;
    Ok(RUNS as f64 * STEPS / seconds)
}
