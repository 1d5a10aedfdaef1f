//! `goldseam resume`.

use clap::Args;
use goldseam::RunId;
use serde_json::json;

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
    let resumed = app.client().await?.resume(&run, args.who.by()).await?;
    let recovery = super::recover::told(&resumed.recovery);
    let text = match &resumed.recovery.found {
        None => format!("resumed {run}"),
        Some(found) => format!("resumed {run}, recovered by rule {} first", found.diagnosis.rule),
    };
    Ok(app.did(&run, &json!({ "run": run, "event": resumed.end, "recovery": recovery }), &text))
}
