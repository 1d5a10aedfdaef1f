//! The cost of ended runs for a sweep: 1,000 active runs, 10 of them stalled, with a million ended runs in the store,
//! and with none.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use goldseam::prelude::*;
use goldseam::unstable::engine::heal::sweeper::SweepOptions;
use goldseam::unstable::store::{Expect, TaskFilter};
use goldseam::{Config, Millis, RunId};

use crate::report::{Measurement, median};
use crate::target::Target;
use crate::{Fallible, raw};

const FINISHED: i64 = 1_000_000;
pub(crate) const ACTIVE: u32 = 1_000;
const STALLED: u32 = 10;
const ROUNDS: usize = 15;
const IN_FLIGHT: u32 = 250;

/// The size of the store, and its file.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Size {
    /// Number of ended runs
    #[arg(long, default_value_t = FINISHED)]
    pub(crate) runs: i64,
    /// File to fill and keep; a file that is already filled is used as it is
    #[arg(long)]
    pub(crate) keep: Option<PathBuf>,
}

impl Default for Size {
    fn default() -> Self {
        Self { runs: FINISHED, keep: None }
    }
}

pub(crate) async fn measure(target: &Target, size: Size) -> Fallible<Vec<Measurement>> {
    let crowded = match &size.keep {
        Some(_) if target.is_postgres() => {
            return Err("--keep needs a SQLite store".into());
        }
        Some(path) => format!("sqlite:{}", path.display()),
        None => target.scratch("sweep-crowded"),
    };
    fill(&crowded, size.runs).await?;
    let alone = target.scratch("sweep-alone");
    let engines = [engine(&alone).await?, engine(&crowded).await?];
    for engine in &engines {
        add_active_runs(engine).await?;
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
    Ok(vec![Measurement {
        measure: "sweep",
        store: target.label(),
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

/// Returns the milliseconds of one complete sweep without memory of earlier ones.
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

/// Starts an engine that never sweeps by itself.
pub(crate) async fn engine(url: &str) -> Fallible<Engine> {
    let config =
        Config { sweep: None, slots: 2 * ACTIVE, linger: Duration::from_millis(50), ..Config::default() };
    let steps = |ctx: Context, (): ()| async move {
        for _ in 0..5 {
            ctx.step("step", || async { Ok(()) }).await?;
        }
        Ok::<_, Error>(())
    };
    let nap = |ctx: Context, (): ()| async move { ctx.sleep("nap", Duration::from_secs(86_400)).await };
    let listen = |ctx: Context, (): ()| async move { ctx.signal::<()>("go").await };
    let open = Engine::open(url).await?.config(config);
    Ok(open.workflow("steps", steps).workflow("nap", nap).workflow("listen", listen).start().await?)
}

/// Fills the store with ended runs, unless it already has them.
pub(crate) async fn fill(url: &str, runs: i64) -> Fallible<()> {
    let engine = engine(url).await?;
    engine.start("steps", "pattern", &()).await?.result::<()>().await?;
    engine.shutdown().await;
    let mut raw = raw::open(url).await?;
    if raw.filled().await? < runs {
        eprintln!("filling a store with {runs} ended runs …");
        raw.fill(runs).await?;
    }
    Ok(())
}

/// Starts waiting and sleeping runs, and removes the tasks of a few.
pub(crate) async fn add_active_runs(engine: &Engine) -> Fallible<()> {
    let ids: Vec<(String, &str)> = (0..ACTIVE)
        .map(|index| (format!("active-{index}"), if index % 2 == 0 { "nap" } else { "listen" }))
        .collect();
    for block in ids.chunks(IN_FLIGHT as usize) {
        let starts = block.iter().map(|(id, workflow)| engine.start(*workflow, id, &()));
        for start in starts.collect::<Vec<_>>() {
            start.await?;
        }
    }
    while engine.live_runs() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for (id, _) in ids.iter().take(STALLED as usize) {
        stall(engine, id).await?;
    }
    Ok(())
}

/// Cancels the advance task of a run.
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
