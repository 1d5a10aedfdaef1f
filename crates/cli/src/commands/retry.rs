//! `goldseam retry`.

use clap::Args;
use goldseam::unstable::core::operation::Verb;
use goldseam_api::doc::ending::NewRetry;

use super::actor::Actor;
use super::bulk::{Bulk, BulkArgs, BulkTarget};
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
    /// The run
    run: Option<String>,
    /// Drop a pending cancel request
    #[arg(long, conflicts_with = "where")]
    drop_cancel: bool,
    /// Only show what would be done to the selected runs
    #[arg(long, requires = "where")]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: RetryArgs) -> Result<Exit, CliError> {
    let run = match args.bulk.target(Verb::Retry, args.run.as_deref())? {
        BulkTarget::Run(run) => run,
        BulkTarget::Many(condition) => {
            let bulk = Bulk::new(Verb::Retry, condition, args.bulk, args.dry_run);
            return bulk.run(app, args.actor).await;
        }
    };
    let caller = args.actor.caller();
    let new = NewRetry { drop_cancel: args.drop_cancel, by: None, reason: args.actor.reason };
    let done = app.api().await?.retry(&caller, &run, new).await?;
    Ok(app.print_result(&run, &done, &format!("retrying {run}")))
}
