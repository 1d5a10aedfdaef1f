//! `goldseam retry`.

use clap::Args;
use goldseam::RunId;
use goldseam_api::doc::ending::NewRetry;

use super::actor::Actor;
use crate::app::App;
use crate::error::{CliError, Exit};

/// Retry a failed run from its failed step
///
/// Opens a new branch. Completed steps keep their results; compensated steps run again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam ls --status failed -q | xargs -n1 goldseam retry")]
pub(crate) struct RetryArgs {
    /// The run
    run: String,
    /// Drop a pending cancel request
    #[arg(long)]
    drop_cancel: bool,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: RetryArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let caller = args.actor.caller();
    let new = NewRetry { drop_cancel: args.drop_cancel, by: None, reason: args.actor.reason };
    let done = app.api().await?.retry(&caller, &run, new).await?;
    Ok(app.print_result(&run, &done, &format!("retrying {run}")))
}
