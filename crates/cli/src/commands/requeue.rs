//! `goldseam requeue`.

use clap::Args;
use goldseam::RunId;

use super::actor::Actor;
use crate::app::App;
use crate::error::{CliError, Exit};

/// Give a run a new advance task, due now
///
/// For a run that should move but does not. Nothing else changes. A run that a live node executes does not need it.
/// Adds a note with the actor and the reason to the log.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam requeue ord-7 --reason 'its queue was emptied by mistake'")]
pub(crate) struct RequeueArgs {
    /// The run
    run: String,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: RequeueArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let done = app.api().await?.requeue(&args.actor.caller(), &run, args.actor.reason()).await?;
    Ok(app.print_result(&run, &done, &format!("requeued {run}: its new task is due now")))
}
