//! `goldseam retry`.

use clap::Args;
use goldseam::unstable::core::operation::Verb;
use goldseam_api::doc::ending::NewRetry;

use super::bulk::{OneOrMany, TargetArgs};
use crate::app::App;
use crate::error::{CliError, Exit};

/// Retry failed runs from their failed step
///
/// Opens a new branch. Completed steps keep their results; compensated steps run again.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam retry ord-7\n  goldseam retry --where 'cause = \"ab12cd\"' --dry-run\n  goldseam retry --where 'cause = \"ab12cd\"' --canary 1,10%,all --reason 'deployed the fix'"
)]
pub(crate) struct RetryArgs {
    /// Drop a pending cancel request
    #[arg(long, conflicts_with = "where")]
    drop_cancel: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

pub(crate) async fn run(app: &App, args: RetryArgs) -> Result<Exit, CliError> {
    let (run, actor) = match args.target.one_or_many(app, Verb::Retry).await? {
        OneOrMany::One(run, actor) => (run, actor),
        OneOrMany::Many(exit) => return Ok(exit),
    };
    let caller = actor.caller();
    let new = NewRetry { drop_cancel: args.drop_cancel, by: None, reason: actor.reason };
    let done = app.api().await?.retry(&caller, &run, new).await?;
    Ok(app.print_result(&run, &done, &format!("retrying {run}")))
}
