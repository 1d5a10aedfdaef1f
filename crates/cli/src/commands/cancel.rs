//! `goldseam cancel`.

use clap::Args;
use goldseam::RunId;

use super::actor::Actor;
use crate::app::App;
use crate::error::{CliError, Exit};

/// Cancel a run
///
/// A worker runs the compensations and cancels the children, then the run ends as `cancelled`. A run that needs no
/// worker for that ends immediately. To end a run that no worker can cancel, use `goldseam terminate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam cancel ord-7 --reason 'ordered twice'")]
pub(crate) struct CancelArgs {
    /// The run
    run: String,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: CancelArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let done = app.api().await?.cancel(&args.actor.caller(), &run, args.actor.reason()).await?;
    let text = match &done.waits_for {
        None => format!("cancelled {run}"),
        Some(waits_for) => format!("cancel requested for {run}; it waits for {waits_for}"),
    };
    Ok(app.print_result(&run, &done, &text))
}
