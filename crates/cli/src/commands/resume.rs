//! `goldseam resume`.

use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use goldseam::{RunId, Seq};
use goldseam_api::Api;
use goldseam_api::doc::change::Resumed;
use goldseam_api::doc::event::News;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};

/// How long a run that may park again is watched.
const WATCHED: Duration = Duration::from_secs(2);

/// Let a paused or parked run go on
///
/// It goes on where it was, with the remaining time of what it waits for. Whatever else is wrong with it is
/// recovered first. A run that was parked for a reason that may still hold is watched for two seconds: if it parks again,
/// the command says so and exits with 9.
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
    let api = app.api().await?;
    let resumed = api.resume(&args.who.caller(), &run, args.who.reason()).await?;
    let text = match &resumed.recovery.rule {
        None => format!("resumed {run}"),
        Some(rule) => format!("resumed {run}, recovered by rule {rule} first"),
    };
    let parked = match resumed.warning {
        Some(_) => tokio::time::timeout(WATCHED, parks_again(&*api, &run, resumed.event)).await,
        None => Ok(Ok(false)),
    };
    let is_parked = matches!(parked, Ok(Ok(true)));
    let warning = match is_parked {
        true => Some(format!("it is parked again: goldseam why {run} tells why")),
        false => resumed.warning.clone(),
    };
    let text = match &warning {
        None => text,
        Some(warning) => format!("{text}; {warning}"),
    };
    let done = app.did(&run, &Resumed { warning, ..resumed }, &text);
    Ok(if is_parked { Exit::NeedsHelp } else { done })
}

/// Whether the next thing that a worker makes of the run is to park it.
async fn parks_again(api: &dyn Api, run: &RunId, after: Seq) -> Result<bool, Fail> {
    let mut following = api.follow(run, after).await?;
    while let Some(news) = following.next().await {
        match news? {
            News::Event(event) if event.kind == "run.parked" => return Ok(true),
            News::Event(event)
                if !event.kind.starts_with("run.") && !event.kind.starts_with("compensation.") =>
            {
                return Ok(false);
            }
            _ => {}
        }
    }
    Ok(false)
}
