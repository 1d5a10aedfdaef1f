//! `goldseam jump`.

use clap::Args;
use goldseam::{Path, RunId};
use goldseam_api::doc::change::NewJump;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::payload;

/// Go back to a step, on a new branch
///
/// The step and everything after it is done again; the old timeline stays in the log. Mail that
/// was consumed after the step is delivered again unless told otherwise. Completed steps that could be undone are
/// left standing unless --compensate is given; --dry-run tells which.
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
    /// Only tell what would be left standing
    #[arg(long, conflicts_with = "compensate")]
    dry_run: bool,
    /// Drop a pending request to cancel; without this the jump is refused
    #[arg(long)]
    drop_cancel: bool,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: JumpArgs) -> Result<Exit, Fail> {
    let (run, step) = (RunId::new(&args.run)?, Path::new(&args.step)?);
    let input = args.input.as_deref().map(|text| payload::read(Some(text))).transpose()?;
    let (caller, dry_run) = (args.who.caller(), args.dry_run);
    let new = NewJump {
        to: args.step,
        input,
        drop_mail: args.drop_mail,
        compensate: args.compensate,
        dry_run,
        drop_cancel: args.drop_cancel,
        by: None,
        reason: args.who.reason,
    };
    let jumped = app.api().await?.jump(&caller, &run, new).await?;
    let (first, undone) = match &jumped.branch {
        _ if dry_run => (
            format!("{run} would go back to {step}"),
            match &jumped.waits_for {
                Some(condition) => format!("they cannot be undone first as it stands: {condition}"),
                None => format!("to undo them first: goldseam jump {run} {step} --compensate"),
            },
        ),
        Some(branch) if !jumped.compensating => (
            format!("{run} goes back to {step}, on branch {branch}"),
            format!("goldseam jump {run} {step} --compensate would have undone them first"),
        ),
        _ => {
            let waits_for = jumped.waits_for.as_deref().unwrap_or("a worker");
            let first = format!("{run} goes back to {step} once what lies after it is undone");
            (format!("{first}; it waits for {waits_for}"), String::new())
        }
    };
    let cancel = match (jumped.cancel_pending, dry_run) {
        (false, _) => None,
        (true, true) => Some("a request to cancel is pending: only with --drop-cancel, which drops it"),
        (true, false) => Some("the pending request to cancel was dropped"),
    };
    let cancel = cancel.into_iter().map(str::to_owned).collect();
    let words = [vec![first], left(&jumped.standing, jumped.over, undone), cancel].concat().join("\n");
    Ok(app.did(&run, &jumped, &words))
}

/// What stays done although the run goes back behind it, and how it could be undone instead.
fn left(standing: &[Path], was_over: bool, undone: String) -> Vec<String> {
    if standing.is_empty() {
        return Vec::new();
    }
    let steps: Vec<&str> = standing.iter().map(Path::as_str).collect();
    let how = if was_over { "the run is over, so nobody can undo them".to_owned() } else { undone };
    vec![format!("left standing, and done again under new keys: {}", steps.join(", ")), how]
}
