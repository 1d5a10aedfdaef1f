//! `goldseam start`.

use std::time::Duration;

use clap::Args;
use goldseam::unstable::core::version::UNDECIDED;
use goldseam::unstable::core::{LaneName, QueueName, WorkflowName};
use goldseam::{AttributeValue, EngineError, Failure, Millis, RunId, TraceContext};
use goldseam_api::doc::run::{EndingDoc, NewRun, StartedDoc, WaitQuery};
use goldseam_api::{Api, Caller, Problem};
use serde_json::json;

use super::{LiveWorkflows, actor};
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::{out, payload, time};

/// How long one request waits for the end of a run.
const WAIT_MS: u64 = 20_000;

/// Start a run
///
/// Any engine that has the workflow executes the run. The same id with the same input is the same run: starting it
/// again changes nothing. The same id with different input is refused.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam start order --id ord-7 --input '{\"customer\":\"ana\"}'\n  goldseam start order --input @order.json --tag region=eu --attr amount:=120 --wait --wait-timeout 1m\n  goldseam start remind --delay 5m --timeout 1h --lane tenant-7"
)]
pub(crate) struct StartArgs {
    /// The workflow
    workflow: String,
    /// The run's id; random by default
    #[arg(long)]
    id: Option<String>,
    /// Input: JSON, @file, or - for stdin; defaults to null
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,
    /// A tag to search by; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::tag)]
    tag: Vec<(String, String)>,
    /// An attribute to search by: NAME=TEXT, or NAME:=JSON for a number, true, false, a list of texts or
    /// {"time": "2026-11-18T09:30:00Z"}; may be given several times
    #[arg(long, value_name = "NAME=TEXT", value_parser = super::search::attribute)]
    attr: Vec<(String, AttributeValue)>,
    /// Larger priorities go first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// The queue of the run
    #[arg(long, default_value = "default")]
    queue: String,
    /// The version of the workflow, from 1; defaults to the newest version that a running engine has. If no running
    /// engine has the workflow, the first engine that claims the run decides
    #[arg(long)]
    workflow_version: Option<u32>,
    /// The caller's place in a distributed trace (W3C), which the run joins; defaults to TRACEPARENT and TRACESTATE of
    /// the environment
    #[arg(long, value_name = "TRACEPARENT")]
    traceparent: Option<String>,
    /// How long the run may take, as in 90s or 1h; then it stops, undoes its steps and fails. Counts from its begin
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    timeout: Option<Duration>,
    /// When the run must have ended, as in 2026-11-18T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = time::parse_time, conflicts_with = "timeout")]
    deadline: Option<Millis>,
    /// Delay before the run begins, as in 5m
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    delay: Option<Duration>,
    /// When the run begins, as in 2026-11-18T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = time::parse_time, conflicts_with = "delay")]
    start_at: Option<Millis>,
    /// The lane of the run: at most one run of a lane is executed at a time
    #[arg(long)]
    lane: Option<String>,
    /// Wait for the end and print the output
    #[arg(long)]
    wait: bool,
    /// How long to wait, as in 90s or 1h
    #[arg(long, requires = "wait", value_name = "SPAN", value_parser = time::parse_span)]
    wait_timeout: Option<Duration>,
}

pub(crate) async fn run(app: &App, args: StartArgs) -> Result<Exit, CliError> {
    let input = payload::read(args.input.as_deref())?;
    args.id.as_ref().map(RunId::new).transpose()?;
    WorkflowName::new(&args.workflow)?;
    args.lane.as_ref().map(LaneName::new).transpose()?;
    let trace = trace(args.traceparent.as_deref())?;
    let queue = QueueName::new(&args.queue)?;
    let api = app.api_or_new().await?;
    let new = NewRun {
        workflow: args.workflow,
        id: args.id,
        input,
        tags: args.tag.into_iter().collect(),
        attributes: args.attr.into_iter().collect(),
        priority: args.priority,
        queue: Some(args.queue),
        version: args.workflow_version,
        timeout_ms: args.timeout.map(time::millis),
        deadline_ms: args.deadline.map(|at| at.0),
        delay_ms: args.delay.map(time::millis),
        start_at_ms: args.start_at.map(|at| at.0),
        lane: args.lane,
    };
    let caller = Caller { trace, ..actor::caller(None) };
    let started = api.start(&caller, new).await?;
    let StartedDoc { run, workflow, .. } = &started;
    let asked = args.workflow_version.unwrap_or(UNDECIDED);
    // The run is started, even if the key may not read the workflows.
    match LiveWorkflows::of(&*api).await.map(|live| {
        let similar = live.similar(workflow).join(", ");
        (live.missing(workflow, asked, &queue), similar)
    }) {
        Ok((None, _)) => {}
        Ok((Some(missing), similar)) if similar.is_empty() => {
            app.remark(&format!("the run waits for {missing}"));
        }
        Ok((Some(missing), similar)) => app.warn(&format!(
            "the run waits for {missing}; did you mean {similar}? goldseam cancel {run} ends this run"
        )),
        Err(error) => {
            app.remark(&format!("cannot check whether a worker has {workflow}: {}", error.message));
        }
    }
    if args.wait {
        return wait(app, &*api, run, args.wait_timeout).await.map_err(|error| cannot_wait(run, error));
    }
    Ok(app.print_result(run, &started, &format!("started {run}")))
}

/// The trace context that was passed, otherwise that of the environment. An invalid one is refused only if it was
/// passed.
fn trace(given: Option<&str>) -> Result<Option<TraceContext>, CliError> {
    let env = |name: &str| std::env::var(name).ok();
    match given {
        Some(given) => Ok(Some(TraceContext::new(given).map_err(Problem::from)?)),
        None => {
            Ok(env("TRACEPARENT")
                .and_then(|parent| TraceContext::read(&parent, env("TRACESTATE").as_deref())))
        }
    }
}

/// Explains that the key could start the run but may not read it.
fn cannot_wait(run: &RunId, error: CliError) -> CliError {
    match error.exit {
        Exit::NotAuthorised => CliError {
            message: format!("started run {run}, but cannot wait for its end: {}", error.message),
            help: Some("use a key that also has the scope `read`, or omit --wait".to_owned()),
            ..error
        },
        _ => error,
    }
}

/// Waits for the end of a run and prints it.
async fn wait(app: &App, api: &dyn Api, run: &RunId, timeout: Option<Duration>) -> Result<Exit, CliError> {
    let ending = match timeout {
        None => end(api, run).await?,
        Some(span) => match tokio::time::timeout(span, end(api, run)).await {
            Ok(ending) => ending?,
            Err(_) => return Err(CliError::timed_out(run, &time::span(span))),
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
    let failure = ending.failure.unwrap_or_else(|| Failure::terminal("no reason was recorded"));
    Err(EngineError::Ended { run: run.clone(), status: ending.status, failure }.into())
}

/// Waits for the end of a run without a limit.
async fn end(api: &dyn Api, run: &RunId) -> Result<EndingDoc, CliError> {
    loop {
        let ending = api.result(run, WaitQuery { wait_ms: Some(WAIT_MS) }).await?;
        if ending.status.is_terminal() {
            return Ok(ending);
        }
    }
}
