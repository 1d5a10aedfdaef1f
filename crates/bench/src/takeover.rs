//! Of some processes on one store, one is killed: how long until the others make the first step of what was left.

use std::time::{Duration, Instant};

use crate::Fallible;
use crate::place::Place;
use crate::raw;
use crate::report::{Report, median, rank};
use crate::worker::{Orders, Worker, wait_until_open, witnessed};

/// Milliseconds that the slowest of a hundred may take, on one machine and on many.
const MAX: f64 = 500.0;
const MAX_SERVER: f64 = 1_000.0;
/// Whoever has only just connected to a server suspects nobody: perhaps all others lost their sessions as well.
const SETTLE: Duration = Duration::from_secs(4);
/// Runs that are in the middle of a step when their process is killed.
const RUNS: u32 = 50;

pub(crate) async fn measure(place: &Place, kills: u32) -> Fallible<Vec<Report>> {
    let (others, most) = if place.is_postgres() { (2, MAX_SERVER) } else { (1, MAX) };
    let (url, witness) = (place.scratch("takeover"), Some(place.dir.join("takeover")));
    let mut standby = Vec::new();
    for index in 0..others {
        let orders =
            Orders { name: format!("standby-{index}"), witness: witness.clone(), ..Orders::default() };
        standby.push(Worker::spawn(&url, &orders)?);
    }
    standby.iter_mut().try_for_each(|worker| worker.wait_for("up"))?;
    if place.is_postgres() {
        tokio::time::sleep(SETTLE).await;
    }
    let mut raw = raw::open(&url).await?;
    let (mut first, mut all) = (Vec::new(), Vec::new());
    for kill in 0..kills.max(1) {
        let name = format!("takeover-{kill}");
        let orders = Orders { begin: RUNS, hang: true, name, witness: witness.clone(), ..Orders::default() };
        let mut victim = Worker::spawn(&url, &orders)?;
        victim.wait_for("ready")?;
        // Kills fall everywhere between two looks of the others.
        tokio::time::sleep(Duration::from_millis(u64::from(kill * 37 % 100))).await;
        let began = Instant::now();
        victim.kill()?;
        let times = wait_until_open(&mut *raw, 0, began).await?;
        first.extend(times.first().map(|time| time.as_secs_f64() * 1e3));
        all.extend(times.iter().map(|time| time.as_secs_f64() * 1e3));
    }
    let want = u64::from(RUNS) * first.len() as u64;
    let (a, b) = witnessed(&place.dir.join("takeover"))?;
    if (a, b) != (want, want) {
        return Err(format!("{want} runs executed a {a} times and b {b} times").into());
    }
    let p99 = rank(&mut first, 0.99);
    Ok(vec![Report {
        measure: "takeover",
        store: place.label(),
        value: p99,
        unit: "ms (p99)",
        baseline: Some(most),
        ratio: Some(p99 / most),
        more: vec![
            ("kills", first.len() as f64),
            ("median_ms", median(first)),
            ("of_every_run_p99_ms", rank(&mut all, 0.99)),
            ("of_every_run_max_ms", rank(&mut all, 1.0)),
        ],
    }])
}
