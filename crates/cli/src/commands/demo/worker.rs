//! The hidden worker command of the demo and the drill: an engine with their workflow.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use goldseam::unstable::core::LockName;
use goldseam::{Config, Context, Engine, OpenEngine as _};
use tokio::signal::unix::{SignalKind, signal};

use super::order::{DemoOrder, WORKFLOW, order};
use super::witness::WitnessWriter;
use crate::app::App;
use crate::commands::drill::work as drill;
use crate::error::{CliError, Exit};
use crate::time;

/// How often a worker checks that its parent process is alive.
const PARENT_CHECK: Duration = Duration::from_millis(200);

/// Options of `demo-worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Execute orders whose effects append to this file.
    #[arg(long, required_unless_present = "drill")]
    witness: Option<PathBuf>,
    /// Execute drills of this queue.
    #[arg(long, value_name = "QUEUE", conflicts_with = "witness")]
    drill: Option<String>,
    /// How long a node may be silent before other nodes take over.
    #[arg(long, value_parser = time::parse_span, default_value = "10s")]
    silence: Duration,
    /// How often to sweep all active runs.
    #[arg(long, value_parser = time::parse_span, default_value = "30s")]
    sweep: Duration,
    /// Acquire this lock.
    #[arg(long, value_name = "LOCK")]
    hold: Option<String>,
    /// Stop when the parent process is not this one.
    #[arg(long)]
    parent: Option<i32>,
}

/// Recoveries without progress that a run of the demo may need: many kills hit one run again and again by chance.
const ATTEMPTS_MAX: u32 = 100;

/// Executes runs until SIGTERM.
pub(crate) async fn run(app: &App, args: WorkerArgs) -> Result<Exit, CliError> {
    let cannot = |error: std::io::Error| CliError::plain(format!("the worker cannot start: {error}"));
    let beat = (args.silence / 5).min(Duration::from_secs(2));
    let mut config =
        Config { silence_max: args.silence, beat, sweep: Some(args.sweep), slots: 64, ..Config::default() };
    let engine = Engine::open(&app.url).await?;
    let engine = match (&args.drill, &args.witness) {
        (Some(queue), _) => {
            drill::configure(&mut config, queue)?;
            engine.config(config).workflow(drill::WORKFLOW, drill::drill)
        }
        (None, witness) => {
            let file = witness.as_deref().unwrap_or(Path::new("witness.tsv"));
            let witness = Arc::new(WitnessWriter::open(file).map_err(cannot)?);
            let workflow = move |ctx: Context, input: DemoOrder| order(ctx, input, Arc::clone(&witness));
            config.recovery.attempts_max = ATTEMPTS_MAX;
            engine.config(config).workflow(WORKFLOW, workflow)
        }
    };
    let engine = engine.start().await?;
    if let Some(lock) = &args.hold {
        engine.client().locks().acquire(&LockName::new(lock)?, "drill-worker", drill::LOCK_TTL).await?;
    }
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    tokio::select! {
        _ = terminate.recv() => {}
        () = orphaned(args.parent) => {}
        error = engine.failed() => return Err(error.into()),
    }
    engine.shutdown().await;
    Ok(Exit::Ok)
}

/// Returns once the parent process is gone.
async fn orphaned(parent: Option<i32>) {
    loop {
        let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        if parent.is_some() && now != parent {
            return;
        }
        tokio::time::sleep(PARENT_CHECK).await;
    }
}
