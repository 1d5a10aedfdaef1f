//! How soon a run that a client queued is begun by a node that was idle: the client has a store of its own, so
//! what tells the node goes through the store.
//!
//! Three commits follow one another until then: the run is queued, its task is claimed, the run is claimed. What one
//! raw commit takes meanwhile is told, too.

use std::time::{Duration, Instant};

use goldseam::{Limits, Payload, RunId, StartOptions};

use crate::Fallible;
use crate::place::Place;
use crate::raw;
use crate::report::{Report, median, rank};
use crate::work::{Mark, engine, take};

/// Milliseconds that it may take.
const MAX: f64 = 20.0;
const ROUNDS: u32 = 300;
const WARM: u32 = 20;

pub(crate) async fn measure(place: &Place) -> Fallible<Vec<Report>> {
    let (url, mark) = (place.scratch("wake"), Mark::default());
    let engine = engine(&url, mark.clone()).await?;
    let client = goldseam::connect(&url).await?;
    let mut raw = raw::open(&place.scratch("wake-raw")).await?;
    let (mut times, mut after, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM + ROUNDS {
        let id = RunId::new(format!("wake-{round}"))?;
        let began = Instant::now();
        let run = client
            .start("steps", &id, Payload::of(&1u32, &Limits::default())?, StartOptions::default())
            .await?;
        let queued = Instant::now();
        run.result::<()>().await?;
        let step = take(&mark).ok_or("a run ended without its step")?;
        if round >= WARM {
            times.push((step - began).as_secs_f64() * 1e3);
            after.push(step.saturating_duration_since(queued).as_secs_f64() * 1e3);
            commits.push(raw.commits(1).await? * 1e3);
        }
        // Queued at any moment between two looks of the node, when it has nothing else to do.
        tokio::time::sleep(Duration::from_millis(50 + u64::from(round * 37 % 100))).await;
    }
    engine.shutdown().await;
    let p99 = rank(&mut times, 0.99);
    let max = rank(&mut times, 1.0);
    Ok(vec![Report {
        measure: "wake",
        store: place.label(),
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
