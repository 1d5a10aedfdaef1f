//! `goldseam retry`.

use clap::Args;
use goldseam::RunId;
use goldseam_api::doc::ending::NewRetry;

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
    /// Drop a pending request to cancel
    #[arg(long)]
    drop_cancel: bool,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: RetryArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let caller = args.who.caller();
    let new = NewRetry { drop_cancel: args.drop_cancel, by: None, reason: args.who.reason };
    let done = app.api().await?.retry(&caller, &run, new).await?;
    Ok(app.did(&run, &done, &format!("trying again: {run}")))
}
