//! Of two processes on one file, one is killed: how long until the other makes the first step of what was left.

use std::time::{Duration, Instant};

use crate::Fallible;
use crate::report::{Report, median};
use crate::work::Place;
use crate::worker::{Onlooker, Orders, Worker, witnessed};

/// Milliseconds that the slowest of a hundred may take.
const MAX: f64 = 500.0;
/// Runs that are in the middle of a step when their process is killed.
const RUNS: u32 = 50;

pub(crate) fn measure(place: &Place, kills: u32) -> Fallible<Vec<Report>> {
    let url = place.scratch("takeover");
    let mut standby = Worker::spawn(&url, &Orders { name: "standby".to_owned(), ..Orders::default() })?;
    standby.wait_for("up")?;
    let onlooker = Onlooker::open(&url)?;
    let mut times = Vec::new();
    for kill in 0..kills.max(1) {
        let name = format!("takeover-{kill}");
        let mut victim = Worker::spawn(&url, &Orders { begin: RUNS, hang: true, name })?;
        victim.wait_for("ready")?;
        // Kills fall everywhere between two looks of the other.
        std::thread::sleep(Duration::from_millis(u64::from(kill * 37 % 100)));
        let began = Instant::now();
        victim.kill()?;
        onlooker.wait_until_open(RUNS - 1)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        onlooker.wait_until_open(0)?;
    }
    let want = u64::from(RUNS) * times.len() as u64;
    let (a, b) = witnessed(&url)?;
    if (a, b) != (want, want) {
        return Err(format!("{want} runs executed a {a} times and b {b} times").into());
    }
    times.sort_by(f64::total_cmp);
    let rank = (times.len() * 99).div_ceil(100).saturating_sub(1);
    let p99 = times.get(rank).copied().unwrap_or(f64::NAN);
    Ok(vec![Report {
        measure: "takeover",
        store: place.label(),
        value: p99,
        unit: "ms (p99)",
        baseline: Some(MAX),
        ratio: Some(p99 / MAX),
        more: vec![("kills", times.len() as f64), ("median_ms", median(times))],
    }])
}
