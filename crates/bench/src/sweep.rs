//! Whether finished runs cost a sweep anything: 1,000 active runs, 10 of them stalled, with a million finished
//! ones in the store, and with none.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use goldseam::healer::sweeper::SweepOptions;
use goldseam::prelude::*;
use goldseam::store::{Expect, TaskFilter};
use goldseam::{Config, Millis, RunId};

use crate::place::Place;
use crate::report::{Report, median};
use crate::{Fallible, raw};

const FINISHED: i64 = 1_000_000;
pub(crate) const ACTIVE: u32 = 1_000;
const STALLED: u32 = 10;
const ROUNDS: usize = 15;
const IN_FLIGHT: u32 = 250;

/// How big, and where.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Size {
    /// Finished runs
    #[arg(long, default_value_t = FINISHED)]
    pub(crate) runs: i64,
    /// File to fill and keep; if it is full already, it is used as it is
    #[arg(long)]
    pub(crate) keep: Option<PathBuf>,
}

impl Default for Size {
    fn default() -> Self {
        Self { runs: FINISHED, keep: None }
    }
}

pub(crate) async fn measure(place: &Place, size: Size) -> Fallible<Vec<Report>> {
    let crowded = match &size.keep {
        Some(_) if place.is_postgres() => {
            return Err("--keep names a file, and a server keeps no files".into());
        }
        Some(path) => format!("sqlite:{}", path.display()),
        None => place.scratch("sweep-crowded"),
    };
    fill(&crowded, size.runs).await?;
    let alone = place.scratch("sweep-alone");
    let engines = [engine(&alone).await?, engine(&crowded).await?];
    for engine in &engines {
        people(engine).await?;
    }
    for url in [alone, crowded] {
        raw::open(&url).await?.settle().await?;
    }
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (engine, times) in engines.iter().zip(&mut times) {
            times.push(sweep(engine).await?);
        }
    }
    for engine in engines {
        engine.shutdown().await;
    }
    let [alone, crowded] = times.map(median);
    Ok(vec![Report {
        measure: "sweep",
        store: place.label(),
        value: crowded,
        unit: "ms",
        baseline: Some(alone),
        ratio: Some(crowded / alone),
        more: vec![
            ("finished", size.runs as f64),
            ("active", f64::from(ACTIVE)),
            ("stalled", f64::from(STALLED)),
        ],
    }])
}

/// Milliseconds of one whole sweep that remembers nothing of an earlier one.
pub(crate) async fn sweep(engine: &Engine) -> Fallible<f64> {
    let options =
        SweepOptions { dry_run: true, stale_after: Some(Duration::ZERO), ..SweepOptions::default() };
    let began = Instant::now();
    let report = engine.client().sweeper(options).sweep().await?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    let found = (report.scanned, report.stalled.len() as u64);
    if found != (u64::from(ACTIVE), u64::from(STALLED)) {
        return Err(format!("a sweep found {found:?} of {ACTIVE} active and {STALLED} stalled runs").into());
    }
    Ok(took)
}

/// An engine that sweeps only when it is told to.
pub(crate) async fn engine(url: &str) -> Fallible<Engine> {
    let config =
        Config { sweep: None, slots: 2 * ACTIVE, linger: Duration::from_millis(50), ..Config::default() };
    let steps = |ctx: Context, (): ()| async move {
        for _ in 0..5 {
            ctx.step("step", || async { Ok::<_, Error>(()) }).await?;
        }
        Ok::<_, Error>(())
    };
    let nap = |ctx: Context, (): ()| async move { ctx.sleep("nap", Duration::from_secs(86_400)).await };
    let hark = |ctx: Context, (): ()| async move { ctx.signal::<()>("go").await };
    let open = Engine::open(url).await?.config(config);
    Ok(open.workflow("steps", steps).workflow("nap", nap).workflow("hark", hark).start().await?)
}

/// Finished runs, unless they are there already.
pub(crate) async fn fill(url: &str, runs: i64) -> Fallible<()> {
    let engine = engine(url).await?;
    engine.run("steps", "pattern", &()).await?.result::<()>().await?;
    engine.shutdown().await;
    let mut raw = raw::open(url).await?;
    if raw.filled().await? < runs {
        eprintln!("filling a store with {runs} finished runs …");
        raw.fill(runs).await?;
    }
    Ok(())
}

/// Runs that wait and runs that sleep, a few of them with nobody to wake them.
pub(crate) async fn people(engine: &Engine) -> Fallible<()> {
    let ids: Vec<(String, &str)> = (0..ACTIVE)
        .map(|index| (format!("active-{index}"), if index % 2 == 0 { "nap" } else { "hark" }))
        .collect();
    for block in ids.chunks(IN_FLIGHT as usize) {
        let starts = block.iter().map(|(id, workflow)| engine.run(workflow, id, &()));
        for start in starts.collect::<Vec<_>>() {
            start.await?;
        }
    }
    while engine.hot_runs() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for (id, _) in ids.iter().take(STALLED as usize) {
        stall(engine, id).await?;
    }
    Ok(())
}

/// Takes a run's task away from it.
async fn stall(engine: &Engine, id: &str) -> Fallible<()> {
    let store = engine.client().store();
    let filter =
        TaskFilter { run: Some(RunId::new(id)?), advance: Some(true), limit: 1, ..TaskFilter::default() };
    for task in store.tasks(filter).await? {
        let expect = Expect::Version(task.version);
        if let Ok(over) = task.cancelled(Millis(0)) {
            store.put_task(over, expect).await?;
        }
    }
    Ok(())
}
