//! `goldseam jump`.

use clap::Args;
use goldseam::client::Jump;
use goldseam::{Path, RunId};
use serde_json::json;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::payload;

/// Go back to a step, on a new branch
///
/// The step and everything after it is done again; the old timeline stays in the log. Mail that
/// was consumed after the step is delivered again unless told otherwise.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam jump ord-7 charge\n  goldseam jump ord-7 reserve --input '{\"customer\":\"ben\"}' --compensate\n\nSee what came of it: goldseam branches ord-7, goldseam diff ord-7 b1 b2"
)]
pub(crate) struct JumpArgs {
    /// The run
    run: String,
    /// The step, wait, sleep or question to go back to, as `goldseam show` names it
    step: String,
    /// Input that replaces the run's own: JSON, @file, or - for stdin
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,
    /// Mail consumed after the step is not delivered again
    #[arg(long)]
    drop_mail: bool,
    /// First undo what lies after the step
    #[arg(long)]
    compensate: bool,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: JumpArgs) -> Result<Exit, Fail> {
    let (run, step) = (RunId::new(&args.run)?, Path::new(&args.step)?);
    let input = args.input.as_deref().map(|text| payload::read(Some(text))).transpose()?;
    let jump = Jump { input, drop_mail: args.drop_mail, compensate: args.compensate, by: args.who.by() };
    let client = app.client().await?;
    let event = client.jump(&run, &step, jump).await?;
    let branch = client.get(&run).await?.branch;
    let document = json!({ "run": run, "step": step, "branch": branch.to_string(), "event": event });
    Ok(app.did(&run, &document, &format!("{run} goes back to {step}, on branch {branch}")))
}
