//! `goldseam pause`.

use clap::Args;
use goldseam::unstable::core::operation::Verb;

use super::bulk::{OneOrMany, TargetArgs};
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
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

pub(crate) async fn run(app: &App, args: PauseArgs) -> Result<Exit, CliError> {
    let (run, actor) = match args.target.one_or_many(app, Verb::Pause).await? {
        OneOrMany::One(run, actor) => (run, actor),
        OneOrMany::Many(exit) => return Ok(exit),
    };
    let done = app.api().await?.pause(&actor.caller(), &run, actor.reason()).await?;
    Ok(app.print_result(&run, &done, &format!("paused {run}")))
}
