//! The restart of a process that was killed with 10,000 runs in a step.
//!
//! Measures from the start of the new process, with default durability (every commit is synced), until the first new
//! step is durable, and until every run has made one.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::raw;
use crate::report::{Measurement, median};
use crate::target::Target;
use crate::worker::{BenchWorkerArgs, WorkerProcess, count_effects, wait_until_open};

/// Maximum time to the first new step in milliseconds.
const FIRST_MAX: f64 = 300.0;
/// Maximum time to a new step of every run in milliseconds.
const ALL_MAX: f64 = 3_000.0;

pub(crate) async fn measure(target: &Target, runs: u32, rounds: u32) -> Fallible<Vec<Measurement>> {
    let mut first = Vec::new();
    let mut all = Vec::new();
    for round in 0..rounds.max(1) {
        let name = format!("restart-{round}");
        let took = restart(&target.scratch(&name), &target.dir.join(&name), runs).await?;
        eprintln!("restart {round}: first {:?}, all {:?}", took.0, took.1);
        first.push(took.0.as_secs_f64() * 1e3);
        all.push(took.1.as_secs_f64() * 1e3);
    }
    let report = |measure, values: Vec<f64>, most: f64| {
        let best = values.iter().copied().fold(f64::INFINITY, f64::min);
        let value = median(values);
        Measurement {
            measure,
            store: target.label(),
            value,
            unit: "ms",
            baseline: Some(most),
            ratio: Some(value / most),
            more: vec![("best_ms", best), ("runs", f64::from(runs))],
        }
    };
    Ok(vec![report("restart", first, FIRST_MAX), report("restart_all", all, ALL_MAX)])
}

/// Returns the time to the first new step, and to all of them.
async fn restart(url: &str, witness: &Path, runs: u32) -> Fallible<(Duration, Duration)> {
    let args = BenchWorkerArgs {
        name: "restart".to_owned(),
        witness: Some(witness.to_owned()),
        ..BenchWorkerArgs::default()
    };
    let mut victim = WorkerProcess::spawn(url, &BenchWorkerArgs { begin: runs, hang: true, ..args.clone() })?;
    victim.wait_for("ready")?;
    victim.kill()?;
    let began = Instant::now();
    let mut worker = WorkerProcess::spawn(url, &args)?;
    // The first process that opens the file after a crash reads the whole write-ahead log: let it be the worker.
    worker.wait_for("open")?;
    let mut raw = raw::open(url).await?;
    wait_until_open(&mut *raw, runs - 1, began).await?;
    let first = began.elapsed();
    wait_until_open(&mut *raw, 0, began).await?;
    let all = began.elapsed();
    let want = u64::from(runs);
    for step in ["a", "b"] {
        let found = raw.completions(step).await?;
        if found != (want, want) {
            return Err(format!("{found:?} completions of {step} in {want} logs").into());
        }
    }
    let (a, b) = count_effects(witness)?;
    if (a, b) != (want, want) {
        return Err(format!("{want} runs executed a {a} times and b {b} times").into());
    }
    Ok((first, all))
}
