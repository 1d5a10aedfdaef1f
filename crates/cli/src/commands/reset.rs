//! `goldseam reset`.

use clap::Args;
use goldseam::RunId;

use super::actor::Actor;
use crate::app::App;
use crate::error::{CliError, Exit};

/// Reset a run to its last stable event
///
/// Opens a new branch at the last completed step or answered question; everything after it runs again, under the same
/// keys. The current owner loses the run; the old branch stays in the log. Adds a note with the actor and the reason.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  goldseam reset ord-7 --reason 'the carrier lost the request'\n\nTo go back further: goldseam jump ord-7 STEP"
)]
pub(crate) struct ResetArgs {
    /// The run
    run: String,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: ResetArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let done = app.api().await?.reset(&args.actor.caller(), &run, args.actor.reason()).await?;
    let text = format!("reset {run} to its last stable event, on branch {}", done.branch);
    Ok(app.print_result(&run, &done, &text))
}
