//! `goldseam requeue`.

use clap::Args;
use goldseam::RunId;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};

/// Give a run a new task, due now
///
/// For a run that should move and that nothing moves. Nothing else of it changes; a run that a live node executes needs
/// none. Leaves a note with who and why.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam requeue ord-7 --reason 'its queue was emptied by mistake'")]
pub(crate) struct RequeueArgs {
    /// The run
    run: String,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: RequeueArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let done = app.api().await?.requeue(&args.who.caller(), &run, args.who.reason()).await?;
    Ok(app.did(&run, &done, &format!("{run} has a new task, due now")))
}
