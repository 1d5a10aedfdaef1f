//! The cost of dormant runs: the time of `doctor`, and the processor and memory of an idle engine, in a process of its
//! own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use goldseam::prelude::*;
use goldseam::queue::Task;
use goldseam::unstable::engine::client::doctor::DoctorOptions;
use goldseam::unstable::store::{Append, Head, Record, Row, Store, TaskChange, TaskFilter};
use goldseam::{Config, RunId, Seq};

use crate::healthy::cpu_seconds;
use crate::memory::resident;
use crate::report::Measurement;
use crate::server::ServerStatistics;
use crate::target::{Target, with};
use crate::{Fallible, raw};

/// Number of runs that are executed and copied.
const PATTERNS: u64 = 1_000;
/// Most appends under way at once.
const IN_FLIGHT: usize = 500;
/// Maximum seconds of `doctor`.
const DOCTOR_MAX: f64 = 5.0;
/// Maximum percent of a core of an idle engine.
const IDLE_MAX: f64 = 1.0;
/// Maximum MiB of an idle engine.
const MEMORY_MAX: f64 = 64.0;
/// Two sweeps of an engine with the default configuration.
const WATCHED: Duration = Duration::from_secs(70);
/// Windows of the first sweep per second, at least.
const FIRST_SWEEP_RUNS_PER_SECOND: u64 = 15_000;

/// The number of dormant runs.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DormantArgs {
    /// Number of dormant runs, half of them sleeping, half waiting for a signal
    #[arg(long, default_value_t = 1_000_000)]
    runs: u64,
    /// Measure a store that already has them, in this process
    #[arg(long, hide = true)]
    watch: bool,
    /// Fill the store of `--store` and keep it
    #[arg(long, hide = true, conflicts_with = "watch")]
    fill: bool,
}

pub(crate) async fn measure(target: &Target, args: &DormantArgs) -> Fallible<Vec<Measurement>> {
    if args.watch {
        return watch(target, args.runs).await;
    }
    let url = if args.fill { target.given().to_owned() } else { target.scratch("dormant") };
    load(target, &url, args.runs).await?;
    raw::open(&url).await?.settle().await?;
    if args.fill {
        return Ok(Vec::new());
    }
    // A process of its own: this one has the memory of the load.
    let mut child = std::process::Command::new(std::env::current_exe()?);
    child.args(["dormant", "--watch", "--runs", &args.runs.to_string(), "--store", &url]);
    let status = child.status()?;
    if status.success() {
        Ok(Vec::new())
    } else {
        Err(format!("the measuring process ended with {status}").into())
    }
}

async fn engine(url: &str) -> Fallible<Engine> {
    let nap = |ctx: Context, (): ()| async move { ctx.sleep("nap", Duration::from_secs(30 * 86_400)).await };
    let listen = |ctx: Context, (): ()| async move { ctx.signal::<()>("go").await };
    let config = Config { linger: Duration::from_millis(50), ..Config::default() };
    let open = Engine::open(url).await?.config(config);
    Ok(open.workflow("nap", nap).workflow("listen", listen).start().await?)
}

/// A resting run that is copied.
struct Pattern {
    row: Row,
    task: Task,
    log: Vec<Record>,
}

impl Pattern {
    /// The append that makes a copy with this name.
    fn copy(&self, name: &str) -> Fallible<Append> {
        let run = RunId::new(name)?;
        let mut summary = self.row.summary.clone();
        summary.run = run.clone();
        let id = Task::advance_id(&run, 1);
        let task = Task { id, run: Some(run.clone()), ..self.task.clone() };
        Ok(Append {
            run,
            after: Seq::ZERO,
            bodies: self.log.iter().map(|record| record.body.clone()).collect(),
            row: Some(Box::new(summary)),
            tasks: vec![TaskChange::Create(Box::new(task))],
        })
    }
}

/// Fills a store with dormant runs, through the interface of the store.
async fn load(target: &Target, url: &str, runs: u64) -> Fallible<()> {
    let engine = engine(url).await?;
    // A copy has the creation time of its pattern. Real runs do not share one, and lists are in order of it.
    let names: Vec<String> = (0..PATTERNS.min(runs)).map(|n| format!("pattern-{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        engine.start(["nap", "listen"][n % 2], name, &()).await?;
    }
    while engine.live_runs() > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut patterns = Vec::with_capacity(names.len());
    for name in &names {
        patterns.push(pattern(&engine, name).await?);
    }
    engine.shutdown().await;
    let fast = if target.is_postgres() { url.to_owned() } else { with(url, "durability", "process") };
    let loader = goldseam::connect(&fast).await?;
    let store: Arc<dyn Store> = Arc::clone(loader.store());
    let began = Instant::now();
    let copies: Vec<u64> = (PATTERNS..runs).collect();
    for block in copies.chunks(IN_FLIGHT) {
        let appends = block.iter().zip(patterns.iter().cycle().skip(start_of(block))).map(|(n, pattern)| {
            // Ids in random order, as they usually are.
            let name = format!("{:016x}-{n}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let append = pattern.copy(&name);
            let store = Arc::clone(&store);
            async move {
                store
                    .append(append.map_err(|error| error.to_string())?)
                    .await
                    .map_err(|error| error.to_string())
            }
        });
        try_join_all(appends).await?;
    }
    eprintln!("loaded {runs} dormant runs in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Returns the number of the pattern of the first copy of a block.
fn start_of(block: &[u64]) -> usize {
    usize::try_from(block.first().copied().unwrap_or_default() % PATTERNS).unwrap_or_default()
}

async fn pattern(engine: &Engine, name: &str) -> Fallible<Pattern> {
    let store = engine.client().store();
    let run = RunId::new(name)?;
    let Some(Head { row: Some(row), .. }) = store.head(&run).await? else { return Err("no pattern".into()) };
    let filter =
        TaskFilter { run: Some(run.clone()), advance: Some(true), limit: 1, ..TaskFilter::default() };
    let task = store.tasks(filter).await?.pop().ok_or("the pattern has no task")?;
    let log = store.read(&run, Seq::ZERO, 100).await?;
    Ok(Pattern { row, task, log })
}

async fn watch(target: &Target, runs: u64) -> Fallible<Vec<Measurement>> {
    let url = target.given();
    let server = match target.is_postgres() {
        true => Some(ServerStatistics::open(url).await?),
        false => None,
    };
    let engine = engine(url).await?;
    // The first sweep reads everything once, with pauses.
    tokio::time::sleep(Duration::from_secs(20 + runs / FIRST_SWEEP_RUNS_PER_SECOND)).await;
    let memory = resident()? / (1024.0 * 1024.0);
    let own = cpu_seconds()?;
    let before = Instant::now();
    let counts = match &server {
        Some(server) => Some(server.counts().await?),
        None => None,
    };
    tokio::time::sleep(WATCHED).await;
    let took = before.elapsed().as_secs_f64();
    let own = (cpu_seconds()? - own) / took * 100.0;
    let served = match (&server, &counts) {
        (Some(server), Some(counts)) => server.counts().await?.since(counts).cpu_ms() / 10.0 / took,
        _ => 0.0,
    };
    let began = Instant::now();
    let checkup = engine.client().doctor(DoctorOptions::default()).await?;
    let doctor = began.elapsed().as_secs_f64();
    let after = resident()? / (1024.0 * 1024.0);
    if checkup.scanned < runs || !checkup.findings.is_empty() {
        let found = checkup.findings.first();
        return Err(format!("doctor examined {} of {runs} runs and found {found:?}", checkup.scanned).into());
    }
    engine.shutdown().await;
    let report = |measure, value: f64, unit, most: f64, more| Measurement {
        measure,
        store: target.label(),
        value,
        unit,
        baseline: Some(most),
        ratio: Some(value / most),
        more,
    };
    let size = ("dormant", runs as f64);
    Ok(vec![
        report("doctor", doctor, "s", DOCTOR_MAX, vec![size]),
        report("dormant-cpu", own, "% of a core", IDLE_MAX, vec![size, ("server_percent", served)]),
        report("dormant-rss", memory, "MiB", MEMORY_MAX, vec![size, ("after_doctor", after)]),
    ])
}
