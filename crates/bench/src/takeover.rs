//! The takeover after a kill of one of several processes on a store: the time to the first new step of its runs.

use std::time::{Duration, Instant};

use crate::Fallible;
use crate::raw;
use crate::report::{Measurement, median, rank};
use crate::target::Target;
use crate::worker::{BenchWorkerArgs, WorkerProcess, count_effects, wait_until_open};

/// Maximum 99th percentile in milliseconds, on a file and on a server.
const MAX: f64 = 500.0;
const MAX_SERVER: f64 = 1_000.0;
/// A node that has just connected to a server suspects no other node, because all may have lost their sessions.
const SETTLE: Duration = Duration::from_secs(4);
/// Number of runs in a step when their process is killed.
const RUNS: u32 = 50;

pub(crate) async fn measure(target: &Target, kills: u32) -> Fallible<Vec<Measurement>> {
    let (others, most) = if target.is_postgres() { (2, MAX_SERVER) } else { (1, MAX) };
    let url = target.scratch("takeover");
    let witness = Some(target.dir.join("takeover"));
    let mut standby = Vec::new();
    for index in 0..others {
        let args = BenchWorkerArgs {
            name: format!("standby-{index}"),
            witness: witness.clone(),
            ..BenchWorkerArgs::default()
        };
        standby.push(WorkerProcess::spawn(&url, &args)?);
    }
    standby.iter_mut().try_for_each(|worker| worker.wait_for("up"))?;
    if target.is_postgres() {
        tokio::time::sleep(SETTLE).await;
    }
    let mut raw = raw::open(&url).await?;
    let mut first = Vec::new();
    let mut all = Vec::new();
    for kill in 0..kills.max(1) {
        let name = format!("takeover-{kill}");
        let args = BenchWorkerArgs {
            begin: RUNS,
            hang: true,
            name,
            witness: witness.clone(),
            ..BenchWorkerArgs::default()
        };
        let mut victim = WorkerProcess::spawn(&url, &args)?;
        victim.wait_for("ready")?;
        // Vary the time of the kill between two polls of the other nodes.
        tokio::time::sleep(Duration::from_millis(u64::from(kill * 37 % 100))).await;
        let began = Instant::now();
        victim.kill()?;
        let times = wait_until_open(&mut *raw, 0, began).await?;
        first.extend(times.first().map(|time| time.as_secs_f64() * 1e3));
        all.extend(times.iter().map(|time| time.as_secs_f64() * 1e3));
    }
    let want = u64::from(RUNS) * first.len() as u64;
    let (a, b) = count_effects(&target.dir.join("takeover"))?;
    if (a, b) != (want, want) {
        return Err(format!("{want} runs executed a {a} times and b {b} times").into());
    }
    let p99 = rank(&mut first, 0.99);
    Ok(vec![Measurement {
        measure: "takeover",
        store: target.label(),
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
