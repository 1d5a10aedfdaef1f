//! `goldseam start`.

use std::time::Duration;

use clap::Args;
use goldseam::core::WorkflowName;
use goldseam::core::version::UNDECIDED;
use goldseam::{EngineError, Failure, RunId};
use goldseam_api::Api;
use goldseam_api::doc::run::{Ending, NewRun, Started, WaitQuery};
use serde_json::json;

use super::{Fleet, who};
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::{out, payload, when};

/// How long one question for the end of a run waits for it.
const WAIT_MS: u64 = 20_000;

/// Start a run, for whichever engine has its workflow
///
/// The same id with the same input is the same run: starting it again changes nothing.
/// The same id with other input is refused.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam start order --id ord-7 --input '{\"customer\":\"ana\"}'\n  goldseam start order --input @order.json --tag region=eu --wait --timeout 1m"
)]
pub(crate) struct StartArgs {
    /// The workflow
    workflow: String,
    /// The run's id; a new one unless given
    #[arg(long)]
    id: Option<String>,
    /// Input: JSON, @file, or - for stdin; null unless given
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,
    /// A tag to search by; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::tag)]
    tag: Vec<(String, String)>,
    /// Larger goes first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// The queue that the run stands in
    #[arg(long, default_value = "default")]
    queue: String,
    /// The version of the workflow, from 1 on; unless given, the newest that a running engine has. If none has the
    /// workflow, the first engine that claims the run decides
    #[arg(long)]
    workflow_version: Option<u32>,
    /// Wait for the end and print what the run returned
    #[arg(long)]
    wait: bool,
    /// How long to wait, as in 90s or 1h
    #[arg(long, requires = "wait", value_name = "SPAN", value_parser = when::parse_span)]
    timeout: Option<Duration>,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: StartArgs) -> Result<Exit, Fail> {
    let input = payload::read(args.input.as_deref())?;
    args.id.as_ref().map(RunId::new).transpose()?;
    WorkflowName::new(&args.workflow)?;
    let api = app.api_or_new().await?;
    let new = NewRun {
        workflow: args.workflow,
        id: args.id,
        input,
        tags: args.tag.into_iter().collect(),
        priority: args.priority,
        queue: Some(args.queue),
        version: args.workflow_version,
    };
    let started = api.start(&who::caller(None), new).await?;
    let Started { run, workflow, .. } = &started;
    let asked = args.workflow_version.unwrap_or(UNDECIDED);
    // The run is started. A key that may not look, or a look that fails, changes nothing about that.
    match Fleet::of(&*api).await.map(|fleet| fleet.missing(workflow, asked)) {
        Ok(None) => {}
        Ok(Some(missing)) => app.remark(&format!("the run waits for {missing}")),
        Err(fail) => app.remark(&format!("cannot tell whether a worker has {workflow}: {}", fail.message)),
    }
    if args.wait {
        return wait(app, &*api, run, args.timeout).await.map_err(|fail| unread(run, fail));
    }
    Ok(app.did(run, &started, &format!("started {run}")))
}

/// The run was started with a key that may not read it.
fn unread(run: &RunId, fail: Fail) -> Fail {
    match fail.exit {
        Exit::NotAuthorised => Fail {
            message: format!("run {run} was started, but its end cannot be waited for: {}", fail.message),
            help: Some("use a key with the scope `read` as well, or leave --wait out".to_owned()),
            ..fail
        },
        _ => fail,
    }
}

/// Waits for the end of a run and shows it.
async fn wait(app: &App, api: &dyn Api, run: &RunId, timeout: Option<Duration>) -> Result<Exit, Fail> {
    let ending = match timeout {
        None => end(api, run).await?,
        Some(span) => match tokio::time::timeout(span, end(api, run)).await {
            Ok(ending) => ending?,
            Err(_) => return Err(Fail::timed_out(run, &when::span(span))),
        },
    };
    if let Some(output) = ending.output {
        match app.wants_json() {
            true => out::json(&json!({ "run": run, "status": "completed", "output": output })),
            false if app.quiet => out::line(run.as_str()),
            false => out::line(output.as_str()),
        }
        return Ok(Exit::Ok);
    }
    let failure = ending.failure.unwrap_or_else(|| Failure::terminal("it does not say why"));
    Err(EngineError::Ended { run: run.clone(), status: ending.status, failure }.into())
}

/// The end of a run, however long it takes.
async fn end(api: &dyn Api, run: &RunId) -> Result<Ending, Fail> {
    loop {
        let ending = api.result(run, WaitQuery { wait_ms: Some(WAIT_MS) }).await?;
        if ending.status.is_terminal() {
            return Ok(ending);
        }
    }
}
