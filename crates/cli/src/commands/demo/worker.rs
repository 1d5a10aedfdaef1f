//! The hidden command behind the demo: an engine with the order workflow, until it is told to stop or killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use goldseam::{Config, Context, Engine};
use tokio::signal::unix::{SignalKind, signal};

use super::order::{Order, WORKFLOW, order};
use super::witness::Witness;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::when;

/// How often a worker looks whether the demo still lives.
const LOOK: Duration = Duration::from_millis(200);

/// Options of `demo-worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// File that every effect appends to.
    #[arg(long)]
    witness: PathBuf,
    /// How long a node may be silent before others take over.
    #[arg(long, value_parser = when::parse_span, default_value = "10s")]
    silence: Duration,
    /// Stop when this process is no longer the parent.
    #[arg(long)]
    parent: Option<i32>,
}

/// Works until it is told to stop.
pub(crate) async fn run(app: &App, args: WorkerArgs) -> Result<Exit, Fail> {
    let cannot = |error: std::io::Error| Fail::plain(format!("the worker cannot start: {error}"));
    let witness = Arc::new(Witness::open(&args.witness).map_err(cannot)?);
    let beat = (args.silence / 5).min(Duration::from_secs(2));
    let config = Config { silence_max: args.silence, beat, slots: 64, ..Config::default() };
    let workflow = move |ctx: Context, input: Order| order(ctx, input, Arc::clone(&witness));
    let engine = Engine::open(&app.url).await?.config(config).workflow(WORKFLOW, workflow).start().await?;
    let mut told = signal(SignalKind::terminate()).map_err(cannot)?;
    tokio::select! {
        _ = told.recv() => {}
        () = orphaned(args.parent) => {}
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
