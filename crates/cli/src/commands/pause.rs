//! `goldseam pause`.

use clap::Args;
use goldseam::RunId;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};

/// Stop a run between two effects
///
/// A step that is running ends first. The run stays as it is until it is resumed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam pause ord-7 --reason 'the warehouse counts its stock'")]
pub(crate) struct PauseArgs {
    /// The run
    run: String,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: PauseArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let done = app.api().await?.pause(&args.who.caller(), &run, args.who.reason()).await?;
    Ok(app.did(&run, &done, &format!("paused {run}")))
}
