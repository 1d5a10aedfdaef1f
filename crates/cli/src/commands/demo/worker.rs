//! The hidden command behind the demo and the drill: an engine with their workflow, until it is told to stop or killed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use goldseam::core::LockName;
use goldseam::{Config, Context, Engine};
use tokio::signal::unix::{SignalKind, signal};

use super::order::{Order, WORKFLOW, order};
use super::witness::Witness;
use crate::app::App;
use crate::commands::drill::work as drill;
use crate::fail::{Exit, Fail};
use crate::when;

/// How often a worker looks whether the demo still lives.
const LOOK: Duration = Duration::from_millis(200);

/// Options of `demo-worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Executes orders, and every effect appends to this file.
    #[arg(long, required_unless_present = "drill")]
    witness: Option<PathBuf>,
    /// Executes drills that stand in this queue.
    #[arg(long, value_name = "QUEUE", conflicts_with = "witness")]
    drill: Option<String>,
    /// How long a node may be silent before others take over.
    #[arg(long, value_parser = when::parse_span, default_value = "10s")]
    silence: Duration,
    /// How often all active runs are looked over.
    #[arg(long, value_parser = when::parse_span, default_value = "30s")]
    sweep: Duration,
    /// Takes this lock, and has it for as long as it lives.
    #[arg(long, value_name = "LOCK")]
    hold: Option<String>,
    /// Stop when this process is no longer the parent.
    #[arg(long)]
    parent: Option<i32>,
}

/// Recoveries without progress that a run of the demo may need.
const ATTEMPTS_MAX: u32 = 100;

/// Works until it is told to stop.
pub(crate) async fn run(app: &App, args: WorkerArgs) -> Result<Exit, Fail> {
    let cannot = |error: std::io::Error| Fail::plain(format!("the worker cannot start: {error}"));
    let beat = (args.silence / 5).min(Duration::from_secs(2));
    let (silence_max, sweep) = (args.silence, Some(args.sweep));
    let mut config = Config { silence_max, beat, sweep, slots: 64, ..Config::default() };
    let engine = Engine::open(&app.url).await?;
    let engine = match (&args.drill, &args.witness) {
        (Some(queue), _) => {
            drill::configure(&mut config, queue)?;
            engine.config(config).workflow(drill::WORKFLOW, drill::drill)
        }
        (None, witness) => {
            let file = witness.as_deref().unwrap_or(Path::new("witness.tsv"));
            let witness = Arc::new(Witness::open(file).map_err(cannot)?);
            let workflow = move |ctx: Context, input: Order| order(ctx, input, Arc::clone(&witness));
            // Many kills a second hit one run again and again by chance, on a slow machine; nothing is wrong with the
            // run then.
            config.recovery.attempts_max = ATTEMPTS_MAX;
            engine.config(config).workflow(WORKFLOW, workflow)
        }
    };
    let engine = engine.start().await?;
    if let Some(lock) = &args.hold {
        engine.locks().acquire(&LockName::new(lock)?, "drill-worker", drill::LOCK_TTL).await?;
    }
    let mut told = signal(SignalKind::terminate()).map_err(cannot)?;
    tokio::select! {
        _ = told.recv() => {}
        () = orphaned(args.parent) => {}
        error = engine.failed() => return Err(error.into()),
    }
    engine.shutdown().await;
    Ok(Exit::Ok)
}

/// Returns once the process that started this one is gone.
async fn orphaned(parent: Option<i32>) {
    loop {
        let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        if parent.is_some() && now != parent {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}
