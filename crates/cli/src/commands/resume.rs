//! `goldseam resume`.

use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use goldseam::unstable::core::operation::Verb;
use goldseam::{RunId, Seq};
use goldseam_api::Api;
use goldseam_api::doc::change::ResumedDoc;
use goldseam_api::doc::event::NewsDoc;

use super::bulk::{OneOrMany, TargetArgs};
use crate::app::App;
use crate::error::{CliError, Exit};

/// How long the command watches a run that may park again.
const WATCHED: Duration = Duration::from_secs(2);

/// Resume paused or parked runs
///
/// The run continues where it stopped; its timers keep their remaining time. If a rule applies to it, it is recovered
/// first. If the run was parked for a reason that may still hold, the command watches it for two seconds; if it parks
/// again, the command says so and exits with 9.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam resume ord-7\n  goldseam resume --where 'status = parked and code = V1' --canary 1,all --reason 'deployed the fix' --yes"
)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

pub(crate) async fn run(app: &App, args: ResumeArgs) -> Result<Exit, CliError> {
    let (run, actor) = match args.target.one_or_many(app, Verb::Resume).await? {
        OneOrMany::One(run, actor) => (run, actor),
        OneOrMany::Many(exit) => return Ok(exit),
    };
    let api = app.api().await?;
    let resumed = api.resume(&actor.caller(), &run, actor.reason()).await?;
    let text = match &resumed.recovery.rule {
        None => format!("resumed {run}"),
        Some(rule) => format!("resumed {run}, recovered by rule {} first", rule.label()),
    };
    let parked = match resumed.warning {
        Some(_) => tokio::time::timeout(WATCHED, parks_again(&*api, &run, resumed.event)).await,
        None => Ok(Ok(false)),
    };
    let is_parked = matches!(parked, Ok(Ok(true)));
    let warning = match is_parked {
        true => Some(format!("it parked again: goldseam why {run} explains why")),
        false => resumed.warning.clone(),
    };
    let text = match &warning {
        None => text,
        Some(warning) => format!("{text}; {warning}"),
    };
    let done = app.print_result(&run, &ResumedDoc { warning, ..resumed }, &text);
    Ok(if is_parked { Exit::NeedsHelp } else { done })
}

/// Whether the next progress of the run is that it parks.
async fn parks_again(api: &dyn Api, run: &RunId, after: Seq) -> Result<bool, CliError> {
    let mut following = api.follow(run, after).await?;
    while let Some(news) = following.next().await {
        match news? {
            NewsDoc::Event(event) if event.kind == "run.parked" => return Ok(true),
            NewsDoc::Event(event)
                if !event.kind.starts_with("run.") && !event.kind.starts_with("compensation.") =>
            {
                return Ok(false);
            }
            _ => {}
        }
    }
    Ok(false)
}
