//! `goldseam resume`.

use clap::Args;
use goldseam::RunId;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};

/// Let a paused or parked run go on
///
/// It goes on where it was, with the remaining time of what it waits for. Whatever else is wrong with it is
/// recovered first.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam resume ord-7")]
pub(crate) struct ResumeArgs {
    /// The run
    run: String,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: ResumeArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let resumed = app.api().await?.resume(&args.who.caller(), &run, args.who.reason()).await?;
    let text = match &resumed.recovery.rule {
        None => format!("resumed {run}"),
        Some(rule) => format!("resumed {run}, recovered by rule {rule} first"),
    };
    let text = match &resumed.warning {
        None => text,
        Some(warning) => format!("{text}; {warning}"),
    };
    Ok(app.did(&run, &resumed, &text))
}
