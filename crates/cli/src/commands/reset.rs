//! `goldseam reset`.

use clap::Args;
use goldseam::RunId;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};

/// Take back what a run has begun and not settled
///
/// Opens a new branch at the last completed step or read answer: what came after it runs again, under the same keys.
/// Whoever executes the run loses it; the old timeline stays in the log. Leaves a note with who and why.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  goldseam reset ord-7 --reason 'the carrier lost the request'\n\nGo back further: goldseam jump ord-7 STEP"
)]
pub(crate) struct ResetArgs {
    /// The run
    run: String,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: ResetArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let done = app.api().await?.reset(&args.who.caller(), &run, args.who.reason()).await?;
    Ok(app.did(&run, &done, &format!("{run} is back at its last settled step, on branch {}", done.branch)))
}
