//! `goldseam retry`.

use clap::Args;
use goldseam::RunId;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};

/// Try a failed run again from its failed step
///
/// Opens a new branch; completed steps keep their results, what was undone is done again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam ls --status failed -q | xargs -n1 goldseam retry")]
pub(crate) struct RetryArgs {
    /// The run
    run: String,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: RetryArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let done = app.api().await?.retry(&args.who.caller(), &run, args.who.reason()).await?;
    Ok(app.did(&run, &done, &format!("trying again: {run}")))
}
