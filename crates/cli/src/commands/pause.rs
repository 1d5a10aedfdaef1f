//! `goldseam pause`.

use clap::Args;
use goldseam::unstable::core::operation::Verb;

use super::actor::Actor;
use super::bulk::{Bulk, BulkArgs, BulkTarget};
use crate::app::App;
use crate::error::{CliError, Exit};

/// Pause runs between two effects
///
/// A running step ends first. The run then stays paused until it is resumed.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam pause ord-7 --reason 'stocktaking in the warehouse'\n  goldseam pause --where 'workflow = order and status = waiting' --reason 'stocktaking' --yes"
)]
pub(crate) struct PauseArgs {
    /// The run
    run: Option<String>,
    /// Only show what would be done to the selected runs
    #[arg(long, requires = "where")]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: PauseArgs) -> Result<Exit, CliError> {
    let run = match args.bulk.target(Verb::Pause, args.run.as_deref())? {
        BulkTarget::Run(run) => run,
        BulkTarget::Many(condition) => {
            let bulk = Bulk::new(Verb::Pause, condition, args.bulk, args.dry_run);
            return bulk.run(app, args.actor).await;
        }
    };
    let done = app.api().await?.pause(&args.actor.caller(), &run, args.actor.reason()).await?;
    Ok(app.print_result(&run, &done, &format!("paused {run}")))
}
