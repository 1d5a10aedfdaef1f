//! `goldseam pause`.

use clap::Args;
use goldseam::RunId;

use super::actor::Actor;
use crate::app::App;
use crate::error::{CliError, Exit};

/// Pause a run between two effects
///
/// A running step ends first. The run then stays paused until it is resumed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam pause ord-7 --reason 'stocktaking in the warehouse'")]
pub(crate) struct PauseArgs {
    /// The run
    run: String,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: PauseArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let done = app.api().await?.pause(&args.actor.caller(), &run, args.actor.reason()).await?;
    Ok(app.print_result(&run, &done, &format!("paused {run}")))
}
