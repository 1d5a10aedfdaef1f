//! `goldseam cancel`.

use clap::Args;
use goldseam::RunId;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};

/// Ask a run to stop
///
/// What it did is undone by its compensations, its children are cancelled, then it ends `cancelled`. A worker does
/// that; a run that needs none for it ends at once. What no worker can end, `goldseam terminate` does.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam cancel ord-7 --reason 'ordered twice'")]
pub(crate) struct CancelArgs {
    /// The run
    run: String,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: CancelArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let done = app.api().await?.cancel(&args.who.caller(), &run, args.who.reason()).await?;
    let words = match &done.waits_for {
        None => format!("cancelled {run}"),
        Some(waits_for) => format!("cancel requested for {run}; it waits for {waits_for}"),
    };
    Ok(app.did(&run, &done, &words))
}
