//! `goldseam start`.

use std::time::Duration;

use clap::Args;
use goldseam::client::{Outcome, StartOptions};
use goldseam::{Client, RunId};
use serde_json::json;

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::{out, payload, when};

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
    /// The version of the workflow; 1 unless given
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
    let given = args.id.map(RunId::new).transpose()?;
    goldseam::core::WorkflowName::new(&args.workflow)?;
    let client = app.client_or_new().await?;
    let run = given.unwrap_or_else(|| client.new_id());
    let mut options = StartOptions::default().priority(args.priority).queue(args.queue);
    if let Some(version) = args.workflow_version {
        options = options.version(version);
    }
    for (key, value) in args.tag {
        options = options.tag(key, value);
    }
    client.start(&args.workflow, &run, input, options).await?;
    if !super::someone_has(&client, &args.workflow).await? {
        app.remark(&format!("no running engine has workflow {}: the run waits for one", args.workflow));
    }
    if args.wait {
        return wait(app, &client, &run, args.timeout).await;
    }
    let status = client.get(&run).await?.status;
    let document = json!({ "run": run, "workflow": args.workflow, "status": status });
    Ok(app.did(&run, &document, &format!("started {run}")))
}

/// Waits for the end of a run and shows it.
async fn wait(app: &App, client: &Client, run: &RunId, timeout: Option<Duration>) -> Result<Exit, Fail> {
    let outcome = match timeout {
        None => client.outcome(run).await?,
        Some(span) => match tokio::time::timeout(span, client.outcome(run)).await {
            Ok(outcome) => outcome?,
            Err(_) => return Err(Fail::timed_out(run, &when::span(span))),
        },
    };
    if let Outcome::Completed(output) = outcome {
        match app.wants_json() {
            true => out::json(&json!({ "run": run, "status": "completed", "output": output })),
            false if app.quiet => out::line(run.as_str()),
            false => out::line(output.as_str()),
        }
        return Ok(Exit::Ok);
    }
    match client.handle(run.clone()).result::<serde_json::Value>().await {
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Exit::Ok),
    }
}
