//! The time from a start by a client until an idle node begins the run. The client has its own store connection, so the
//! notification goes through the store.
//!
//! Three sequential commits are needed: the run is queued, its task is claimed, the run is claimed. The report includes
//! the duration of a raw commit.

use std::time::{Duration, Instant};

use goldseam::RunId;

use crate::Fallible;
use crate::raw;
use crate::report::{Measurement, median, rank};
use crate::target::Target;
use crate::work::{FirstStep, engine, take};

/// Maximum 99th percentile in milliseconds.
const MAX: f64 = 20.0;
const ROUNDS: u32 = 300;
const WARM: u32 = 20;

pub(crate) async fn measure(target: &Target) -> Fallible<Vec<Measurement>> {
    let url = target.scratch("wake");
    let first_step = FirstStep::default();
    let engine = engine(&url, first_step.clone()).await?;
    let client = goldseam::connect(&url).await?;
    let mut raw = raw::open(&target.scratch("wake-raw")).await?;
    let mut times = Vec::new();
    let mut after = Vec::new();
    let mut commits = Vec::new();
    for round in 0..WARM + ROUNDS {
        let id = RunId::new(format!("wake-{round}"))?;
        let began = Instant::now();
        let run = client.start("steps", &id, &1u32).await?;
        let queued = Instant::now();
        run.result::<()>().await?;
        let step = take(&first_step).ok_or("a run ended without its step")?;
        if round >= WARM {
            times.push((step - began).as_secs_f64() * 1e3);
            after.push(step.saturating_duration_since(queued).as_secs_f64() * 1e3);
            commits.push(raw.commits(1).await? * 1e3);
        }
        // Vary the time of the start between two polls of the idle node.
        tokio::time::sleep(Duration::from_millis(50 + u64::from(round * 37 % 100))).await;
    }
    engine.shutdown().await;
    let p99 = rank(&mut times, 0.99);
    let max = rank(&mut times, 1.0);
    Ok(vec![Measurement {
        measure: "wake",
        store: target.label(),
        value: p99,
        unit: "ms (p99)",
        baseline: Some(MAX),
        ratio: Some(p99 / MAX),
        more: vec![
            ("median_ms", median(times)),
            ("max_ms", max),
            ("after_ack_median_ms", median(after)),
            ("raw_commit_p99_ms", rank(&mut commits, 0.99)),
            ("raw_commit_median_ms", median(commits)),
        ],
    }])
}
