//! `goldseam request`.

use std::time::Duration;

use clap::Args;
use goldseam::RunId;
use goldseam_api::Api;
use goldseam_api::doc::WAIT_MS_MAX;
use goldseam_api::doc::dialogue::{NewRequest, ReplyKind, ReplyQuery, RequestedDoc};

use super::actor::Actor;
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::{out, payload, time};

/// Send a request to a run and wait for its answer
///
/// The run's code answers or refuses the request. The request is durable: if the answer takes longer than the timeout,
/// the same command with the same --id waits again and prints the same answer.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 5 if the run refuses the request or ends without an answer, 8 if it has not answered in time.\n\nExamples:\n  goldseam request bas-7 add_line --data '{\"cents\":4200}'\n  goldseam request bas-7 add_line --data @line.json --id line-311 --timeout 2m"
)]
pub(crate) struct RequestArgs {
    /// The run
    run: String,
    /// Name of the request
    name: String,
    /// Content: JSON, @file, or - for stdin; defaults to null
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    data: Option<String>,
    /// Identifies the request: a repeat with the same id gets the same answer
    #[arg(long)]
    id: Option<String>,
    /// How long to wait for the answer
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = time::parse_span)]
    timeout: Duration,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: RequestArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let payload = payload::read(args.data.as_deref())?;
    let api = app.api().await?;
    let mut left = args.timeout;
    let new = NewRequest { payload, id: args.id, wait_ms: Some(piece(&mut left)) };
    let mut requested = api.request(&args.actor.caller(), &run, &args.name, new).await?;
    while requested.reply == ReplyKind::Pending && !left.is_zero() {
        requested = wait_on(&*api, &run, &requested, piece(&mut left)).await?;
    }
    if app.wants_json() {
        out::json(&requested);
        return Ok(exit_of(requested.reply));
    }
    match requested.reply {
        ReplyKind::Answered => {
            out::line(requested.answer.as_ref().map_or("null", |answer| answer.as_str()));
            Ok(Exit::Ok)
        }
        _ => Err(no_answer(&requested)),
    }
}

async fn wait_on(
    api: &dyn Api,
    run: &RunId,
    requested: &RequestedDoc,
    wait_ms: u64,
) -> Result<RequestedDoc, CliError> {
    let id = requested.id.clone();
    let event = Some(requested.event);
    let query = ReplyQuery { id, event, wait_ms: Some(wait_ms) };
    Ok(api.reply(run, &requested.name, query).await?)
}

/// Takes the next piece of the wait, in milliseconds.
fn piece(left: &mut Duration) -> u64 {
    let piece = (*left).min(Duration::from_millis(WAIT_MS_MAX));
    *left -= piece;
    u64::try_from(piece.as_millis()).unwrap_or(WAIT_MS_MAX)
}

fn exit_of(reply: ReplyKind) -> Exit {
    match reply {
        ReplyKind::Answered => Exit::Ok,
        ReplyKind::Refused | ReplyKind::Unanswered => Exit::Ended,
        ReplyKind::Pending => Exit::TimedOut,
    }
}

fn no_answer(requested: &RequestedDoc) -> CliError {
    let RequestedDoc { run, name, id, .. } = requested;
    let (code, message, help) = match requested.reply {
        ReplyKind::Refused => {
            let reason = requested.refused.as_deref().unwrap_or_default();
            let help = "correct the request, and send it under a new id".to_owned();
            ("GS0170", format!("run {run} refused request {name}: {reason}"), Some(help))
        }
        ReplyKind::Unanswered => {
            let status = requested.status.map_or("over", |status| status.as_str());
            let message = format!("run {run} is {status} and did not answer request {name} (id {id})");
            ("GS0171", message, Some(format!("goldseam show {run} shows how it ended")))
        }
        ReplyKind::Pending | ReplyKind::Answered => {
            let message = format!("run {run} accepted request {name} and has not answered it yet (id {id})");
            ("GS0169", message, Some(format!("repeat the command with --id {id} to wait again")))
        }
    };
    let exit = exit_of(requested.reply);
    CliError { code: Some(code.to_owned()), message, help, next: Vec::new(), exit }
}
