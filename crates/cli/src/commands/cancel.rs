//! `goldseam cancel`.

use clap::Args;
use goldseam::unstable::core::operation::Verb;

use super::actor::Actor;
use super::bulk::{Bulk, BulkArgs, BulkTarget};
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

pub(crate) async fn run(app: &App, args: CancelArgs) -> Result<Exit, CliError> {
    let run = match args.bulk.target(Verb::Cancel, args.run.as_deref())? {
        BulkTarget::Run(run) => run,
        BulkTarget::Many(condition) => {
            let bulk = Bulk::new(Verb::Cancel, condition, args.bulk, args.dry_run);
            return bulk.run(app, args.actor).await;
        }
    };
    let done = app.api().await?.cancel(&args.actor.caller(), &run, args.actor.reason()).await?;
    let text = match &done.waits_for {
        None => format!("cancelled {run}"),
        Some(waits_for) => format!("cancel requested for {run}; it waits for {waits_for}"),
    };
    Ok(app.print_result(&run, &done, &text))
}
