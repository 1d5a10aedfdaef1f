//! `goldseam cancel`.

use clap::Args;
use goldseam::unstable::core::operation::Verb;

use super::bulk::{OneOrMany, TargetArgs};
use crate::app::App;
use crate::error::{CliError, Exit};

/// Cancel runs
///
/// A worker runs the compensations and cancels the children, then the run ends as `cancelled`. A run that needs no
/// worker for that ends immediately. To end a run that no worker can cancel, use `goldseam terminate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam cancel ord-7 --reason 'ordered twice'\n  goldseam cancel --where 'workflow = order and created < -30d' --rate 50/s --reason 'abandoned' --yes"
)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

pub(crate) async fn run(app: &App, args: CancelArgs) -> Result<Exit, CliError> {
    let (run, actor) = match args.target.one_or_many(app, Verb::Cancel).await? {
        OneOrMany::One(run, actor) => (run, actor),
        OneOrMany::Many(exit) => return Ok(exit),
    };
    let done = app.api().await?.cancel(&actor.caller(), &run, actor.reason()).await?;
    let text = match &done.waits_for {
        None => format!("cancelled {run}"),
        Some(waits_for) => format!("cancel requested for {run}; it waits for {waits_for}"),
    };
    Ok(app.print_result(&run, &done, &text))
}
