//! A process with 10,000 runs in the middle of a step is killed and started again.
//!
//! Counted from the start of the new process, on a store that is as durable as it is by default (every commit is
//! synced): until the first new step is durable, and until every run has made one.

use std::time::{Duration, Instant};

use crate::Fallible;
use crate::report::{Report, median};
use crate::work::Place;
use crate::worker::{Onlooker, Orders, Worker, witnessed};

/// Milliseconds that the first new step may take.
const FIRST_MAX: f64 = 300.0;
/// Milliseconds in which every run must have made a new step.
const ALL_MAX: f64 = 3_000.0;

pub(crate) fn measure(place: &Place, runs: u32, rounds: u32) -> Fallible<Vec<Report>> {
    let (mut first, mut all) = (Vec::new(), Vec::new());
    for round in 0..rounds.max(1) {
        let took = restart(&place.scratch(&format!("restart-{round}")), runs)?;
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
fn restart(url: &str, runs: u32) -> Fallible<(Duration, Duration)> {
    let mut victim = Worker::spawn(url, &Orders { begin: runs, hang: true, name: "restart".to_owned() })?;
    victim.wait_for("ready")?;
    victim.kill()?;
    let began = Instant::now();
    let mut worker = Worker::spawn(url, &Orders { name: "restart".to_owned(), ..Orders::default() })?;
    // Whoever opens the file first after a crash reads the whole write-ahead log: that is the worker's to do.
    worker.wait_for("open")?;
    let onlooker = Onlooker::open(url)?;
    onlooker.wait_until_open(runs - 1)?;
    let first = began.elapsed();
    onlooker.wait_until_open(0)?;
    let all = began.elapsed();
    let want = u64::from(runs);
    for step in ["a", "b"] {
        let found = onlooker.completions(step)?;
        if found != (want, want) {
            return Err(format!("{found:?} completions of {step} in {want} logs").into());
        }
    }
    let (a, b) = witnessed(url)?;
    if (a, b) != (want, want) {
        return Err(format!("{want} runs executed a {a} times and b {b} times").into());
    }
    Ok((first, all))
}
