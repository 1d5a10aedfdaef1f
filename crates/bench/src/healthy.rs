//! The cost of healing on a healthy store: throughput with all healers on, compared with all off.
//!
//! Both sides have a thousand sleeping runs in the store, so that sweeps have runs to examine. One sweep runs before
//! the measurement: later sweeps skip runs that have not changed since.

use std::sync::Arc;
use std::time::Duration;

use goldseam::Config;

use crate::Fallible;
use crate::report::{Measurement, median};
use crate::target::Target;
use crate::throughput::run_all;
use crate::work::{FirstStep, engine_with, shutdown};

const SLEEPING: u32 = 1_000;
const RUNS: usize = 10_000;
const STEPS: f64 = 5.0;
const NEVER: Duration = Duration::from_secs(86_400);
/// Longer than the first sweep and the pause before it.
const FIRST_SWEEP: Duration = Duration::from_millis(2_500);

pub(crate) async fn measure(target: &Target, rounds: usize) -> Fallible<Vec<Measurement>> {
    let second = Duration::from_secs(1);
    let on = Config { sweep: Some(second), monitor: second, ..Config::default() };
    let off = Config { sweep: None, monitor: NEVER, watch: NEVER, claim_watch: NEVER, ..Config::default() };
    let mut with = Vec::new();
    let mut without = Vec::new();
    let mut ratios = Vec::new();
    let mut works = Vec::new();
    for round in 0..rounds.max(1) {
        let name = |side: &str| target.scratch(&format!("healthy-{side}-{round}"));
        // The load of the machine may change: the sides take turns in going first.
        let (healed, plain) = if round % 2 == 0 {
            let healed = side(&name("on"), &on).await?;
            (healed, side(&name("off"), &off).await?)
        } else {
            let plain = side(&name("off"), &off).await?;
            (side(&name("on"), &on).await?, plain)
        };
        eprintln!("healthy {round}: on {healed:.0?}, off {plain:.0?} (steps per second and per CPU second)");
        ratios.push(healed.rate / plain.rate);
        works.push(healed.work / plain.work);
        with.push(healed.rate);
        without.push(plain.rate);
    }
    let best = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let of_best = best(&with) / best(&without);
    Ok(vec![Measurement {
        measure: "healthy",
        store: target.label(),
        value: median(with),
        unit: "steps/s",
        baseline: Some(median(without)),
        ratio: Some(median(ratios)),
        more: vec![("of_best", of_best), ("of_cpu", median(works))],
    }])
}

/// The speed of one side.
#[derive(Debug)]
struct Speed {
    /// Steps per second.
    rate: f64,
    /// Steps per CPU second, which other processes disturb least.
    work: f64,
}

async fn side(url: &str, config: &Config) -> Fallible<Speed> {
    let engine = Arc::new(engine_with(url, FirstStep::default(), config.clone()).await?);
    for first in (0..SLEEPING).step_by(250) {
        let starts = (first..first + 250).map(|index| {
            let engine = Arc::clone(&engine);
            tokio::spawn(
                async move { engine.start("nap", &format!("nap-{index}"), &86_400u64).await.map(|_| ()) },
            )
        });
        for start in starts.collect::<Vec<_>>() {
            start.await??;
        }
    }
    while engine.live_runs() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(FIRST_SWEEP).await;
    let before = cpu_seconds()?;
    let seconds = run_all(&engine, "run", RUNS).await?;
    let steps = RUNS as f64 * STEPS;
    let speed = Speed { rate: steps / seconds, work: steps / (cpu_seconds()? - before) };
    shutdown(engine).await;
    Ok(speed)
}

/// Returns the CPU time of this process.
pub(crate) fn cpu_seconds() -> Fallible<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // After the name, which may contain anything: user and system ticks, 100 per second.
    let after = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?.1;
    let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}
