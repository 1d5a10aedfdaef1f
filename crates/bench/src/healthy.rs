//! What healing costs where nothing is sick: throughput with every healer at work, against none.
//!
//! Both sides have a thousand sleeping runs in the store, so that a sweep has something to look at. They are swept
//! once before the clock starts: a run that has not changed since it was found well is not read again.

use std::sync::Arc;
use std::time::Duration;

use goldseam::Config;

use crate::Fallible;
use crate::place::Place;
use crate::report::{Report, median};
use crate::throughput::run_all;
use crate::work::{Mark, engine_with, leave};

const SLEEPING: u32 = 1_000;
const RUNS: usize = 10_000;
const STEPS: f64 = 5.0;
const NEVER: Duration = Duration::from_secs(86_400);
/// Longer than a sweep and the pause before it.
const FIRST_SWEEP: Duration = Duration::from_millis(2_500);

pub(crate) async fn measure(place: &Place, rounds: usize) -> Fallible<Vec<Report>> {
    let second = Duration::from_secs(1);
    let on = Config { sweep: Some(second), monitor: second, ..Config::default() };
    let off = Config { sweep: None, monitor: NEVER, watch: NEVER, claim_watch: NEVER, ..Config::default() };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut ratios, mut works) = (Vec::new(), Vec::new());
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
        eprintln!("healthy {round}: {healed:.0?} and {plain:.0?} steps/s and per CPU second");
        ratios.push(healed.rate / plain.rate);
        works.push(healed.work / plain.work);
        with.push(healed.rate);
        without.push(plain.rate);
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
        more: vec![("of_best", of_best), ("of_cpu", median(works))],
    }])
}

/// How fast one side was.
#[derive(Debug)]
struct Speed {
    /// Steps in a second.
    rate: f64,
    /// Steps in a second of the processor's time: what a machine that others use as well disturbs least.
    work: f64,
}

async fn side(url: &str, config: &Config) -> Fallible<Speed> {
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
    tokio::time::sleep(FIRST_SWEEP).await;
    let before = cpu_seconds()?;
    let seconds = run_all(&engine, "run", RUNS).await?;
    let steps = RUNS as f64 * STEPS;
    let speed = Speed { rate: steps / seconds, work: steps / (cpu_seconds()? - before) };
    leave(engine).await;
    Ok(speed)
}

/// What this process has had of the processor, in all its threads.
pub(crate) fn cpu_seconds() -> Fallible<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // After the name, which may hold anything: the user's and the system's ticks, a hundred a second.
    let after = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?.1;
    let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}
