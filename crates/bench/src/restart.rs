//! A process with 10,000 runs in the middle of a step is killed and started again.
//!
//! Counted from the start of the new process, on a store that is as durable as it is by default (every commit is
//! synced): until the first new step is durable, and until every run has made one.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::place::Place;
use crate::raw;
use crate::report::{Report, median};
use crate::worker::{Orders, Worker, wait_until_open, witnessed};

/// Milliseconds that the first new step may take.
const FIRST_MAX: f64 = 300.0;
/// Milliseconds in which every run must have made a new step.
const ALL_MAX: f64 = 3_000.0;

pub(crate) async fn measure(place: &Place, runs: u32, rounds: u32) -> Fallible<Vec<Report>> {
    let (mut first, mut all) = (Vec::new(), Vec::new());
    for round in 0..rounds.max(1) {
        let name = format!("restart-{round}");
        let took = restart(&place.scratch(&name), &place.dir.join(&name), runs).await?;
        eprintln!("restart {round}: first {:?}, all {:?}", took.0, took.1);
        first.push(took.0.as_secs_f64() * 1e3);
        all.push(took.1.as_secs_f64() * 1e3);
    }
    let report = |measure, values: Vec<f64>, most: f64| {
        let best = values.iter().copied().fold(f64::INFINITY, f64::min);
        let value = median(values);
        Report {
            measure,
            store: place.label(),
            value,
            unit: "ms",
            baseline: Some(most),
            ratio: Some(value / most),
            more: vec![("best_ms", best), ("runs", f64::from(runs))],
        }
    };
    Ok(vec![report("restart", first, FIRST_MAX), report("restart_all", all, ALL_MAX)])
}

/// How long until the first new step, and until all of them.
async fn restart(url: &str, witness: &Path, runs: u32) -> Fallible<(Duration, Duration)> {
    let orders =
        Orders { name: "restart".to_owned(), witness: Some(witness.to_owned()), ..Orders::default() };
    let mut victim = Worker::spawn(url, &Orders { begin: runs, hang: true, ..orders.clone() })?;
    victim.wait_for("ready")?;
    victim.kill()?;
    let began = Instant::now();
    let mut worker = Worker::spawn(url, &orders)?;
    // Whoever opens the file first after a crash reads the whole write-ahead log: that is the worker's to do.
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
    let (a, b) = witnessed(witness)?;
    if (a, b) != (want, want) {
        return Err(format!("{want} runs executed a {a} times and b {b} times").into());
    }
    Ok((first, all))
}
